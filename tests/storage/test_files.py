"""The store's file: what is made, what is refused, and what a fault leaves behind.

Not tested: rights of other users (tests may run as root, who has them all) and a real loss of power.
"""

import asyncio
import hashlib
import os
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from storage_processes import Parent, child

from forkpoint.errors import (
    StoreClosed,
    StoreDamaged,
    StoreForeign,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnwritable,
)
from forkpoint.errors._base import ForkpointError
from forkpoint.ports import RunFilter
from forkpoint.stores.sqlite import SqliteJournal
from forkpoint.testing.journal import addition, birth


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "runs.db"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def fill(path: Path, commits: int = 20, *, run: str = "a", body: bytes = b"x" * 900) -> None:
    async def work() -> None:
        journal = SqliteJournal(path, synchronous="normal")
        for n in range(commits):
            await journal.append(addition(run, n, born=n == 0, body=body))
        await journal.close()

    asyncio.run(work())


def refused(path: Path) -> ForkpointError:
    before = hashlib.sha256(path.read_bytes()).digest()
    with pytest.raises(ForkpointError) as caught:
        SqliteJournal(path)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert [other.name for other in path.parent.iterdir()] == [path.name]
    return caught.value


def heads(journal: SqliteJournal, run: str) -> list[int]:
    return [commit.last for commit in asyncio.run(journal.commits(run))]


def test_what_is_made_can_be_read_by_its_user_only(path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(path)
        await journal.append(birth("a"))
        await journal.take_lease("a", owner="../me", now_ms=0, until_ms=1)
        rights = {other.name: other.stat().st_mode & 0o777 for other in path.parent.rglob("*")}
        owner = next(name for name in rights if name.endswith(".owner"))
        assert rights == {
            "runs.db": 0o600,
            "runs.db-wal": 0o600,
            "runs.db-shm": 0o600,
            "runs.db-owners": 0o700,
            owner: 0o600,
        }
        assert path.parent.stat().st_mode & 0o777 == 0o700
        await journal.close()

    asyncio.run(work())


def test_a_folder_that_was_there_keeps_its_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    fill(tmp_path / "runs.db", 1)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_new_store_leaves_nothing_beside_itself(path: Path) -> None:
    fill(path, 1)
    assert [other.name for other in path.parent.iterdir()] == ["runs.db"]


def test_the_second_of_two_who_make_a_store_at_once_opens_the_first_ones(path: Path) -> None:
    async def work(parent: Parent) -> None:
        parent.wait()
        journal = SqliteJournal(path)
        await journal.append(birth(f"run-{os.getpid()}"))
        await journal.close()

    path.parent.mkdir()
    with child(work) as one, child(work) as two, child(work) as three:
        for each in (one, two, three):
            each.tell()
        assert [each.status() for each in (one, two, three)] == [0, 0, 0]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (3,)


@pytest.mark.parametrize("content", [b"", b"hello", b"not a database " * 100, b"\0" * 4096])
def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert isinstance(refused(path), StoreForeign)


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (number INTEGER)")
    assert isinstance(refused(path), StoreForeign)


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreForeign):
        SqliteJournal(tmp_path)


def test_a_newer_store_is_refused_with_both_versions_and_left_alone(path: Path) -> None:
    fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    error = refused(path)
    assert isinstance(error, StoreTooNew)
    assert (error.found, error.known) == (7, 1)


def test_a_version_that_lies_in_the_log_only_is_seen(path: Path) -> None:
    fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
        with pytest.raises(StoreTooNew):
            SqliteJournal(path)


@pytest.mark.parametrize("keep", [50, 4096, 9000])
def test_a_file_that_was_cut_short_is_refused_and_left_alone(path: Path, keep: int) -> None:
    fill(path)
    os.truncate(path, keep)
    assert isinstance(refused(path), StoreDamaged)


def test_a_damaged_page_leaves_other_runs_readable(path: Path) -> None:
    body = b"y" * 50_000
    fill(path, 3, run="early", body=body)
    fill(path, 3, run="late", body=body)
    data = bytearray(path.read_bytes())
    # Pages of the late run's bodies, seen from behind; the last one may belong to an index.
    place = len(data) - 8 * 4096
    data[place : place + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    journal = SqliteJournal(path)
    assert heads(journal, "early") == [1, 2, 3]
    with pytest.raises(StoreDamaged):
        heads(journal, "late")
    assert heads(journal, "early") == [1, 2, 3]
    asyncio.run(journal.close())


def test_a_log_whose_tail_was_cut_loses_no_more_than_that(path: Path) -> None:
    async def write(parent: Parent) -> None:
        journal = SqliteJournal(path)
        for n in range(10):
            await journal.append(addition("a", n, born=n == 0))
        parent.say(b"done")
        parent.wait()

    with child(write) as writer:
        writer.said()
        writer.kill()
        writer.status()
    log = path.with_name("runs.db-wal")
    os.truncate(log, log.stat().st_size - 37)
    journal = SqliteJournal(path)
    assert heads(journal, "a") == list(range(1, 10))
    asyncio.run(journal.append(addition("a", 9)))
    assert heads(journal, "a") == list(range(1, 11))
    asyncio.run(journal.close())


def test_a_store_opened_for_reading_reads_and_refuses_to_write(path: Path) -> None:
    fill(path, 3)
    journal = SqliteJournal(path, read_only=True)
    assert heads(journal, "a") == [1, 2, 3]
    asked = [
        lambda: journal.append(addition("a", 3)),
        lambda: journal.delete("a"),
        journal.collect,
        lambda: journal.take_lease("a", owner="me", now_ms=0, until_ms=1),
    ]
    for ask in asked:
        with pytest.raises(StoreReadOnly):
            asyncio.run(ask())
    asyncio.run(journal.close())
    assert [other.name for other in path.parent.iterdir() if other.suffix == ".db"] == ["runs.db"]


def test_files_that_may_not_be_written_are_opened_for_reading() -> None:
    folder = Path(tempfile.mkdtemp())
    fill(folder / "runs.db", 3)
    (folder / "runs.db").chmod(0o444)
    folder.chmod(0o555)

    async def work(parent: Parent) -> None:
        if os.getuid() == 0:
            os.setuid(65534)
        journal = SqliteJournal(folder / "runs.db")
        assert journal.read_only
        assert [commit.last for commit in await journal.commits("a")] == [1, 2, 3]
        with pytest.raises(StoreReadOnly):
            await journal.append(addition("a", 3))
        await journal.close()
        with pytest.raises(StoreReadOnly):
            SqliteJournal(folder / "other.db")

    try:
        with child(work) as unprivileged:
            assert unprivileged.status() == 0
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_one_file_under_two_names_knows_its_owners(path: Path) -> None:
    fill(path, 1)
    link = path.parent / "link.db"
    link.symlink_to(path)

    async def work() -> None:
        one, other = SqliteJournal(path), SqliteJournal(link)
        await one.take_lease("a", owner="me", now_ms=0, until_ms=1)
        row = await other.row("a")
        assert row is not None
        assert row.owner_alive is True
        await one.close()
        await other.close()

    asyncio.run(work())


def test_a_reader_sees_what_a_writer_has_just_written(path: Path) -> None:
    async def work() -> None:
        writer = SqliteJournal(path)
        await writer.append(birth("a"))
        reader = SqliteJournal(path, read_only=True)
        await writer.append(addition("a", 1))
        assert [row.head for row in (await reader.rows(RunFilter())).rows] == [2]
        await reader.close()
        await writer.close()

    asyncio.run(work())


def test_reading_makes_no_store(path: Path) -> None:
    with pytest.raises(StoreForeign):
        SqliteJournal(path, read_only=True)
    assert not path.parent.exists()


def test_a_path_below_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnwritable):
        SqliteJournal(tmp_path / "file" / "runs.db")


def test_a_full_store_keeps_what_it_has_and_takes_the_rest_when_there_is_room(path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(path)
        await journal.append(birth("a"))
        on = journal._connection
        pages = on.execute("PRAGMA page_count").fetchone()[0]
        on.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull):
            await journal.append(addition("a", 1, body=b"x" * 50_000))
        assert [commit.last for commit in await journal.commits("a")] == [1]
        on.execute("PRAGMA max_page_count = 100000")
        await journal.append(addition("a", 1, body=b"x" * 50_000))
        assert [commit.last for commit in await journal.commits("a")] == [1, 2]
        await journal.close()

    asyncio.run(work())


def test_a_commit_that_fails_fails_for_everyone_in_it_and_leaves_nothing(path: Path) -> None:
    fill(path, 1, run="a")
    fill(path, 1, run="b")

    async def work(parent: Parent) -> None:
        journal = SqliteJournal(path)
        await journal.append(addition("a", 1))
        log = path.with_name("runs.db-wal").stat().st_size
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (log + 100, hard))
        adds = [addition("a", 2), addition("b", 1), birth("c")]
        told = await asyncio.gather(*map(journal.append, adds), return_exceptions=True)
        assert [type(error) for error in told] == [StoreUnwritable] * 3, told
        assert len(set(map(id, told))) == 3
        assert journal.commits_made == 1
        assert await journal.row("c") is None
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert await asyncio.gather(*map(journal.append, adds)) == [None, None, None]
        await journal.close()

    with child(work) as limited:
        assert limited.status() == 0
    journal = SqliteJournal(path)
    assert [heads(journal, run) for run in "abc"] == [[1, 2, 3], [1, 2], [1]]
    asyncio.run(journal.close())


def test_a_store_that_stays_locked_says_so_and_can_be_tried_again(path: Path) -> None:
    fill(path, 1)

    async def work() -> None:
        journal = SqliteJournal(path, busy_s=0.05)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            adds = [addition("a", 1), birth("b")]
            told = await asyncio.gather(*map(journal.append, adds), return_exceptions=True)
            assert [type(error) for error in told] == [StoreLocked, StoreLocked]
            with pytest.raises(StoreLocked):
                await journal.take_lease("a", owner="me", now_ms=0, until_ms=1)
            assert (await journal.rows(RunFilter())).rows[0].head == 1
            other.execute("ROLLBACK")
        assert await asyncio.gather(*map(journal.append, adds)) == [None, None]
        await journal.close()

    asyncio.run(work())


def test_the_event_loop_goes_on_while_another_process_writes(path: Path) -> None:
    fill(path, 1)

    async def work() -> None:
        journal = SqliteJournal(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            asked = asyncio.ensure_future(journal.append(addition("a", 1)))
            # Each turn of the loop that comes by proves that the waiting append does not hold it.
            for _ in range(50):
                await asyncio.sleep(0)
            assert not asked.done()
            other.execute("ROLLBACK")
        await asked
        await journal.close()

    asyncio.run(work())


def uses(path: Path) -> list[Callable[[SqliteJournal], object]]:
    return [
        lambda journal: asyncio.run(journal.row("a")),
        lambda journal: asyncio.run(journal.append(addition("a", 1))),
        lambda journal: asyncio.run(journal.take_lease("a", owner="x", now_ms=0, until_ms=1)),
    ]


def test_a_forked_child_is_told_to_open_its_own(path: Path) -> None:
    fill(path, 1)
    journal = SqliteJournal(path)
    asyncio.run(journal.take_lease("a", owner="parent", now_ms=0, until_ms=1_000_000))

    async def work(parent: Parent) -> None:
        with pytest.raises(StoreClosed):
            await journal.row("a")
        with pytest.raises(StoreClosed):
            await journal.append(addition("a", 1))
        await journal.close()
        own = SqliteJournal(path)
        row = await own.row("a")
        assert row is not None
        assert (row.owner, row.owner_alive) == ("parent", True)
        await own.append(addition("a", 1))
        await own.close()

    with child(work) as forked:
        assert forked.status() == 0
    assert heads(journal, "a") == [1, 2]
    row = asyncio.run(journal.row("a"))
    assert row is not None
    assert (row.owner, row.owner_alive) == ("parent", True)
    asyncio.run(journal.close())


def test_another_os_thread_is_told_to_open_its_own(path: Path) -> None:
    fill(path, 1)
    journal = SqliteJournal(path)

    async def work() -> None:
        for use in uses(path):
            with pytest.raises(StoreClosed):
                await asyncio.to_thread(use, journal)

    asyncio.run(work())
    assert heads(journal, "a") == [1]
    asyncio.run(journal.close())
