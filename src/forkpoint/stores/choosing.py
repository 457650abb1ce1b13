"""Which store a name means. Light to import: a store's own code is loaded when it is chosen."""

import re
from pathlib import Path
from typing import Literal

from forkpoint.errors import StoreUnknownKind
from forkpoint.ports import Journal

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_store(
    store: str | Path, *, durability: Literal["full", "normal"] = "full", read_only: bool = False
) -> Journal:
    """The journal that ``store`` names: a path, ``sqlite:PATH`` or ``memory:``. Raises the ``store.*`` errors."""
    if isinstance(store, str) and (_ADDRESS.match(store) or store in ("memory", ":memory:", "sqlite")):
        raise StoreUnknownKind(given=repr(store.partition("@")[0][:80]))
    if str(store) == "memory:":
        from forkpoint.stores.memory import MemoryJournal

        return MemoryJournal()
    from forkpoint.stores.sqlite.journal import SqliteJournal

    path = str(store).removeprefix("sqlite:")
    return SqliteJournal(path, synchronous=durability, read_only=read_only)
