"""Lets the tests import `bench`, which is a part of the checkout and not of the installed package."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)
