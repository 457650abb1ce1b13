"""Clauses about many additions at once."""

import asyncio

from forkpoint.errors import BlobMissing, JournalConflict, LeaseLost
from forkpoint.ports import Journal
from forkpoint.testing.journal.given import StoreUnderTest, addition, grown, handles, heads


async def interleaved_writers_lose_nothing(store: StoreUnderTest) -> None:
    async def write(journal: Journal, run: str, mark: bytes) -> None:
        for n in range(500):
            while True:
                row = await journal.row(run)
                assert row is not None
                try:
                    await journal.append(addition(run, row.head, body=mark + str(n).encode()))
                except JournalConflict:
                    continue
                break

    async with handles(store, 2) as (one, other):
        await grown(one, "a", 1)
        await asyncio.gather(write(one, "a", b"x"), write(other, "a", b"y"))
        commits = await one.commits("a", after=1)
        assert [commit.first for commit in commits] == list(range(2, 1002))
        for mark in (b"x", b"y"):
            written = [commit.body[1:] for commit in commits if commit.body[:1] == mark]
            assert written == [str(n).encode() for n in range(500)]


async def one_refusal_among_many_leaves_the_others_alone(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        runs = [f"r{n}" for n in range(16)]
        for run in runs:
            await grown(journal, run, 1)
        lease = await journal.take_lease("r9", owner="me", now_ms=0, until_ms=9)
        await journal.release_lease(lease)
        adds = {run: addition(run, 1) for run in runs}
        adds["r0"] = addition("r0", 3)
        adds["r5"] = addition("r5", 1, refs=["sha256:none"])
        adds["r9"] = addition("r9", 1, lease=lease)
        adds["r12"] = addition("r12", 1, before=bytes(32))
        told = await asyncio.gather(*map(journal.append, adds.values()), return_exceptions=True)
        refused = {run: type(said) for run, said in zip(adds, told, strict=True) if said is not None}
        assert refused == {
            "r0": JournalConflict,
            "r5": BlobMissing,
            "r9": LeaseLost,
            "r12": JournalConflict,
        }
        for run in runs:
            assert await heads(journal, run) == ([1] if run in refused else [1, 2])


async def a_cancelled_addition_does_not_take_others_along(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        for run in ("a", "b", "c"):
            await grown(journal, run, 1)
        tasks = [asyncio.ensure_future(journal.append(addition(run, 1))) for run in ("a", "b", "c")]
        # Begun, and maybe none of them written yet: the first to arrive is the one that is called off.
        await asyncio.sleep(0)
        tasks[0].cancel()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert told[1:] == [None, None]
        for run in ("b", "c"):
            assert await heads(journal, run) == [1, 2]
        head = (await heads(journal, "a"))[-1]
        assert head == (1 if isinstance(told[0], asyncio.CancelledError) else 2)
        await journal.append(addition("a", head))


CLAUSES = (
    interleaved_writers_lose_nothing,
    one_refusal_among_many_leaves_the_others_alone,
    a_cancelled_addition_does_not_take_others_along,
)
