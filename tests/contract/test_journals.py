"""Every store keeps the public contract. Three lines a store; the clauses are in ``forkpoint.testing.journal``."""

import asyncio
from pathlib import Path

import pytest

from forkpoint.stores.memory import MemoryJournal
from forkpoint.stores.sqlite import SqliteJournal
from forkpoint.testing.journal import CONTRACT, Clause, StoreUnderTest, name


@pytest.mark.parametrize("clause", CONTRACT, ids=name)
def test_in_memory(clause: Clause) -> None:
    journal = MemoryJournal()
    asyncio.run(clause(StoreUnderTest(open=journal.beside, kill=MemoryJournal.abandon)))


@pytest.mark.parametrize("clause", CONTRACT, ids=name)
def test_in_sqlite(clause: Clause, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    opened = StoreUnderTest(open=lambda: SqliteJournal(path, synchronous="normal"), kill=SqliteJournal.abandon)
    asyncio.run(clause(opened))
