"""The least that a store can do: one row and one commit, in bare SQLite."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.peers import SYNCHRONOUS, Durability

Keep = Callable[[bytes], None]


@contextmanager
def kept_rows(folder: Path, durability: Durability) -> Iterator[Keep]:
    """What keeps bytes as a row, in a commit of its own."""
    path = folder / "rows.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        connection.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        change = connection.cursor().execute

        def keep(body: bytes) -> None:
            change("INSERT INTO kept (body) VALUES (?)", (body,))

        yield keep
