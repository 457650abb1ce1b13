"""How large the file gets, and that it gets smaller."""

import asyncio
import random
from pathlib import Path

from forkpoint.ports import RunFilter
from forkpoint.stores.sqlite import SqliteJournal
from forkpoint.testing.journal import addition, birth, fork


def test_a_file_is_little_larger_than_what_is_in_it(tmp_path: Path) -> None:
    path, chance = tmp_path / "runs.db", random.Random(1)

    async def work() -> int:
        journal = SqliteJournal(path, synchronous="normal")
        await journal.append(birth("a"))
        held, head = 0, 1
        for n in range(1000):
            for count, size in ((3, 700), (2, 1500)):
                calls = [(f"call-{n:06}", head + 1)] if count == 3 else []
                add = addition("a", head, count, body=chance.randbytes(size), calls=calls, step=n)
                held += len(add.commit.body) + len(add.commit.marks)
                await journal.append(add)
                head += count
        await journal.close()
        return held

    held = asyncio.run(work())
    assert path.stat().st_size <= 1.25 * held


def test_a_deleted_runs_room_is_given_back_and_what_others_share_stays(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shared, alone = b"s" * 100_000, b"a" * 5_000_000

    async def work() -> None:
        journal = SqliteJournal(path, synchronous="normal")
        await journal.append(birth("small", blobs={"sha256:shared": shared}))
        await journal.append(birth("large", blobs={"sha256:alone": alone}, refs=["sha256:shared"]))
        for n in range(1, 450):
            await journal.append(addition("large", n, body=b"%d" % n * 40_000))
        await journal.append(fork("child", "small", 1))
        before = path.stat().st_size
        assert before > 50_000_000
        await journal.delete("large")
        freed = await journal.collect()
        assert freed >= 40_000_000
        assert before - path.stat().st_size >= 40_000_000
        assert await journal.blob("sha256:shared") == shared
        assert [row.run for row in (await journal.rows(RunFilter())).rows] == ["child", "small"]
        assert await journal.collect() == 0
        await journal.append(addition("small", 1))
        await journal.close()

    asyncio.run(work())


def test_a_fork_costs_the_same_however_long_its_parent_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def work() -> None:
        journal = SqliteJournal(path, synchronous="normal")
        for n in range(500):
            await journal.append(addition("a", n, born=n == 0, body=b"x" * 2000))
        on = journal._connection
        before = on.execute("PRAGMA page_count").fetchone()[0]
        for n in range(20):
            await journal.append(fork(f"fork-{n}", "a", 400, body=b"y" * 300))
        grown = on.execute("PRAGMA page_count").fetchone()[0] - before
        assert grown * 4096 < 20 * 2048
        await journal.close()

    asyncio.run(work())


def test_a_closed_store_has_no_side_files(tmp_path: Path) -> None:
    async def work() -> None:
        journal = SqliteJournal(tmp_path / "runs.db")
        await journal.append(birth("a"))
        await journal.close()

    asyncio.run(work())
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]
