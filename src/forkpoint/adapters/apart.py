"""Copies of what frameworks hold, to see later whether it was changed in place."""

import copy
from datetime import datetime
from typing import TypeVar

T = TypeVar("T")

_FIXED = (str, int, float, bool, bytes, datetime, type(None))
"""Kinds of value that nobody can change in place."""


def apart(value: T) -> T:
    """``value``, or a copy of it where it could be changed in place. Raises what copying raises."""
    return value if isinstance(value, _FIXED) else copy.deepcopy(value)
