"""Group commit, counted: many runs share a commit, and nobody waits for company that does not come."""

import asyncio
from pathlib import Path

import pytest

from forkpoint.errors import JournalConflict, StoreClosed
from forkpoint.stores.sqlite import SqliteJournal
from forkpoint.testing.journal import addition, birth

RUNS = 64
STEPS = 20


def test_64_runs_at_once_share_a_commit_at_least_16_to_one(tmp_path: Path) -> None:
    async def live(journal: SqliteJournal, run: str) -> None:
        await journal.append(birth(run))
        for n in range(1, STEPS):
            # Runs do different work in between, so that they do not stay in step by themselves.
            for _ in range(hash(run) % 3):
                await asyncio.sleep(0)
            await journal.append(addition(run, n))

    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db", synchronous="normal")
        await asyncio.gather(*(live(journal, f"r{n}") for n in range(RUNS)))
        assert journal.commits_made <= RUNS * STEPS / 16
        for n in range(RUNS):
            row = await journal.row(f"r{n}")
            assert row is not None
            assert row.head == STEPS
        await journal.close()

    asyncio.run(work())


def test_one_run_alone_commits_each_addition_by_itself(tmp_path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db")
        for n in range(5):
            await journal.append(addition("a", n, born=n == 0))
            assert journal.commits_made == n + 1
        with pytest.raises(JournalConflict):
            await journal.append(addition("a", 2))
        assert journal.commits_made == 5
        await journal.close()

    asyncio.run(work())


def test_an_addition_returns_only_after_its_commit(tmp_path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db")
        other = SqliteJournal(tmp_path / "runs.db")
        seen: list[int] = []

        async def write(run: str) -> None:
            await journal.append(birth(run))
            row = await other.row(run)
            seen.append(row.head if row else 0)

        await asyncio.gather(*(write(f"r{n}") for n in range(8)))
        assert (seen, journal.commits_made) == ([1] * 8, 1)
        await journal.close()
        await other.close()

    asyncio.run(work())


def test_two_additions_to_one_run_can_share_a_commit_in_their_order(tmp_path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db")
        adds = [birth("a"), addition("a", 1), addition("a", 1), addition("a", 2)]
        told = await asyncio.gather(*map(journal.append, adds), return_exceptions=True)
        assert [type(said) for said in told] == [type(None), type(None), JournalConflict, type(None)]
        assert [commit.last for commit in await journal.commits("a")] == [1, 2, 3]
        assert journal.commits_made == 1
        await journal.close()

    asyncio.run(work())


def test_one_value_that_cannot_be_stored_leaves_the_others_alone(tmp_path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db")
        adds = [birth("a"), birth("b", at_ms=1 << 70), birth("c")]
        told = await asyncio.gather(*map(journal.append, adds), return_exceptions=True)
        assert [type(said) for said in told] == [type(None), OverflowError, type(None)]
        assert [await journal.row(run) is not None for run in "abc"] == [True, False, True]
        await journal.close()

    asyncio.run(work())


@pytest.mark.parametrize("cancelled", [{0}, {1}, {0, 1}, {0, 1, 2}, {0, 2, 4}, {4}, {0, 1, 2, 3, 4}])
def test_whoever_is_cancelled_is_withdrawn_and_somebody_leads_the_rest(tmp_path: Path, cancelled: set[int]) -> None:
    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db")
        tasks = [asyncio.ensure_future(journal.append(birth(f"r{n}"))) for n in range(5)]
        # The tasks' first turn is over when this one comes: all wait, the first one leads.
        asyncio.get_running_loop().call_soon(lambda: [tasks[n].cancel() for n in cancelled])
        told = await asyncio.gather(*tasks, return_exceptions=True)
        written = {n for n in range(5) if await journal.row(f"r{n}") is not None}
        assert written == {n for n in range(5) if told[n] is None}
        assert written >= set(range(5)) - cancelled
        await journal.append(birth("later"))
        await journal.close()

    asyncio.run(work())


def test_whoever_waits_when_the_store_is_closed_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db")
        tasks = [asyncio.ensure_future(journal.append(birth(f"r{n}"))) for n in range(3)]
        await asyncio.sleep(0)
        await journal.abandon()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(said) for said in told] == [StoreClosed] * 3

    asyncio.run(work())
