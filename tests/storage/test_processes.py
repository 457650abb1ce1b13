"""One store file, many processes: nothing is lost, and who is stopped or killed is followed rightly."""

import asyncio
import os
import random
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from storage_processes import Parent, child

from forkpoint.errors import JournalConflict, LeaseLost, RunBusy
from forkpoint.ports import RunFilter
from forkpoint.stores.sqlite import SqliteJournal
from forkpoint.testing.journal import addition, birth

KILLS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def new_store(path: Path, *runs: str) -> None:
    async def work() -> None:
        journal = SqliteJournal(path)
        for run in runs:
            await journal.append(birth(run))
        await journal.close()

    asyncio.run(work())


async def push(journal: SqliteJournal, run: str, body: bytes) -> None:
    """Append one event at whatever the head is by now."""
    while True:
        row = await journal.row(run)
        assert row is not None
        try:
            return await journal.append(addition(run, row.head, body=body))
        except JournalConflict:
            continue


def pushing(path: Path, run: str, mark: bytes, count: int) -> Callable[[Parent], Awaitable[None]]:
    async def work(parent: Parent) -> None:
        journal = SqliteJournal(path, synchronous="normal")
        parent.wait()
        for n in range(count):
            await push(journal, run, b"%s-%d" % (mark, n))
            # Room for the others: a loop that does nothing but write hardly lets go of the lock.
            for _ in range(random.randrange(8)):
                await journal.outlines(run, after=n)
        await journal.close()

    return work


def all_done(*works: Callable[[Parent], Awaitable[None]]) -> None:
    with ExitStack() as stack:
        started = [stack.enter_context(child(work)) for work in works]
        for each in started:
            each.tell()
        assert [each.status() for each in started] == [0] * len(works)


def bodies(path: Path, run: str) -> list[bytes]:
    async def read() -> list[bytes]:
        journal = SqliteJournal(path)
        commits = await journal.commits(run, after=1)
        assert [commit.first for commit in commits] == list(range(2, 2 + len(commits)))
        await journal.close()
        return [commit.body for commit in commits]

    return asyncio.run(read())


def test_two_processes_on_one_run_lose_nothing_in_twice_500_appends(path: Path) -> None:
    new_store(path, "a")
    all_done(pushing(path, "a", b"x", 500), pushing(path, "a", b"y", 500))
    found = bodies(path, "a")
    for mark in (b"x", b"y"):
        assert [body for body in found if body.startswith(mark)] == [b"%s-%d" % (mark, n) for n in range(500)]
    assert len(found) == 1000


def test_eight_processes_on_one_file_and_one_that_lists_lose_nothing(path: Path) -> None:
    runs = [f"r{n}" for n in range(8)]
    new_store(path, *runs)

    async def list_always(parent: Parent) -> None:
        journal = SqliteJournal(path)
        parent.wait()
        events = 0
        while events < 8 * 101:
            page = await journal.rows(RunFilter())
            assert len(page.rows) == 8
            assert sum(row.head for row in page.rows) >= events
            events = sum(row.head for row in page.rows)
        await journal.close()

    all_done(list_always, *(pushing(path, run, run.encode(), 100) for run in runs))
    for run in runs:
        assert bodies(path, run) == [b"%s-%d" % (run.encode(), n) for n in range(100)]


def test_what_was_acknowledged_is_there_after_every_kill(path: Path) -> None:
    """SIGKILL at random moments; what a process said it had written is there, and no half of anything is."""
    chance = random.Random(8)
    new_store(path, "a")
    head = 1

    async def write(parent: Parent) -> None:
        journal = SqliteJournal(path)
        row = await journal.row("a")
        assert row is not None
        last = row.head
        while True:
            body = b"%d" % last * chance.randrange(1, 900)
            await journal.append(addition("a", last, 2, body=body, blobs={f"sha256:{last}": body}, calls=[("c", last)]))
            last += 2
            parent.say(b"%d\n" % last)

    for _ in range(KILLS):
        with child(write) as writer:
            said = b""
            for _ in range(chance.randrange(1, 12)):
                said += writer.said()
            for _ in range(chance.randrange(1000)):
                os.sched_yield()
            writer.kill()
            assert writer.status() == -signal.SIGKILL
            said += writer.said_all()
        acked = int(said[: said.rindex(b"\n")].splitlines()[-1]) if b"\n" in said else head
        head = checked_head(path)
        assert head in (acked, acked + 2)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def checked_head(path: Path) -> int:
    """The head of run ``a``, with everything up to there whole."""

    async def check() -> int:
        journal = SqliteJournal(path)
        row = await journal.row("a")
        assert row is not None
        outlines = await journal.outlines("a", after=max(1, row.head - 40))
        assert outlines[-1].last == row.head
        assert all(a.last + 1 == b.first for a, b in pairwise(outlines))
        assert outlines[-1].digest == row.digest
        if row.head > 1:
            (last,) = await journal.commits("a", after=row.head - 1)
            assert await journal.blob(f"sha256:{row.head - 2}") == last.body
            assert (await journal.effects_of_call("a", "c"))[-1] == row.head - 2
        await journal.close()
        return row.head

    return asyncio.run(check())


def test_a_killed_performers_run_is_taken_over_at_once(path: Path) -> None:
    new_store(path, "a")

    async def perform(parent: Parent) -> None:
        journal = SqliteJournal(path)
        await journal.take_lease("a", owner="doomed", now_ms=0, until_ms=1_000_000)
        parent.say(b"holding")
        parent.wait()

    async def take() -> None:
        journal = SqliteJournal(path)
        with child(perform) as performer:
            performer.said()
            row = await journal.row("a")
            assert row is not None
            assert (row.owner, row.owner_alive) == ("doomed", True)
            with pytest.raises(RunBusy) as busy:
                await journal.take_lease("a", owner="heir", now_ms=1, until_ms=2)
            assert busy.value.owner == "doomed"
            performer.kill()
            performer.status()
            row = await journal.row("a")
            assert row is not None
            assert (row.owner, row.owner_alive) == ("doomed", False)
            lease = await journal.take_lease("a", owner="heir", now_ms=1, until_ms=2)
            await journal.append(addition("a", 1, lease=lease, leased=True))
        await journal.close()

    asyncio.run(take())


def test_a_performer_stopped_past_its_lease_wakes_up_to_a_refusal(path: Path) -> None:
    new_store(path, "a")

    async def perform(parent: Parent) -> None:
        journal = SqliteJournal(path)
        lease = await journal.take_lease("a", owner="sleeper", now_ms=0, until_ms=100)
        await journal.append(addition("a", 1, lease=lease, leased=True))
        parent.say(b"holding")
        parent.wait()
        with pytest.raises(LeaseLost):
            await journal.append(addition("a", 2, lease=lease, leased=True))
        with pytest.raises(LeaseLost):
            await journal.renew_lease(lease)
        await journal.close()

    async def take() -> None:
        journal = SqliteJournal(path)
        with child(perform) as performer:
            performer.said()
            performer.kill(signal.SIGSTOP)
            performer.until_stopped()
            row = await journal.row("a")
            assert row is not None
            assert (row.owner, row.owner_alive) == ("sleeper", True)
            with pytest.raises(RunBusy):
                await journal.take_lease("a", owner="heir", now_ms=99, until_ms=200)
            lease = await journal.take_lease("a", owner="heir", now_ms=100, until_ms=200)
            performer.kill(signal.SIGCONT)
            performer.tell()
            assert performer.status() == 0
            await journal.append(addition("a", 2, lease=lease, leased=True))
        row = await journal.row("a")
        assert row is not None
        assert (row.owner, row.head) == ("heir", 3)
        await journal.close()

    asyncio.run(take())


def test_a_killed_performers_own_children_do_not_keep_it_alive(path: Path) -> None:
    new_store(path, "a")

    async def perform(parent: Parent) -> None:
        journal = SqliteJournal(path)
        await journal.take_lease("a", owner="doomed", now_ms=0, until_ms=1_000_000)
        orphan = os.fork()
        if orphan == 0:
            parent.say(b"%d\n" % os.getpid())
            parent.wait()
            os._exit(0)
        signal.pause()

    async def take() -> None:
        journal = SqliteJournal(path)
        with child(perform) as performer:
            orphan = int(performer.said())
            performer.kill()
            performer.status()
            os.kill(orphan, 0)
            row = await journal.row("a")
            assert row is not None
            assert row.owner_alive is False
            performer.tell()
            performer.said_all()
        await journal.close()

    asyncio.run(take())
