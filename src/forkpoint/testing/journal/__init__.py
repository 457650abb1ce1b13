"""The contract of a journal, for whoever writes a store: every clause is a promise that the runtime builds on.

Run each clause of ``CONTRACT`` against a store of its own::

    @pytest.mark.parametrize("clause", CONTRACT, ids=name)
    def test_my_store(clause, tmp_path):
        asyncio.run(clause(StoreUnderTest(open=lambda: MyJournal(tmp_path / "runs"), kill=MyJournal.abandon)))

A clause returns, or raises ``AssertionError``. What it does not test: what a loss of power leaves behind, and
processes that are really killed; a store's own tests must.
"""

from forkpoint.testing.journal import crowds, forks, leases, listing, recording
from forkpoint.testing.journal.given import (
    Clause,
    StoreUnderTest,
    addition,
    birth,
    digest_of,
    fork,
    name,
    summary_of,
)

CONTRACT: tuple[Clause, ...] = (
    *recording.CLAUSES,
    *forks.CLAUSES,
    *listing.CLAUSES,
    *leases.CLAUSES,
    *crowds.CLAUSES,
)
"""Every clause, in the order they are best read."""

__all__ = [
    "CONTRACT",
    "Clause",
    "StoreUnderTest",
    "addition",
    "birth",
    "digest_of",
    "fork",
    "name",
    "summary_of",
]
