"""What typing a command gives."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

APP = "surfaces_shop:agents"


class Ended(Struct, frozen=True):
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """Its one JSON document on standard error."""
        return json.loads(self.err)


Typed: TypeAlias = Callable[..., Ended]
