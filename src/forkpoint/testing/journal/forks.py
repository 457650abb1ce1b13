"""Clauses about forks, and about what is deleted while forks share it."""

from forkpoint.errors import BlobMissing, JournalConflict, LeaseLost, RunExists, RunNotFound
from forkpoint.ports import RunFilter
from forkpoint.testing.journal.given import (
    StoreUnderTest,
    addition,
    birth,
    digest_of,
    expect,
    fork,
    grown,
    handles,
    heads,
    summary_of,
)


async def a_fork_is_numbered_on_from_its_parent(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 3, 3)
        parent = await journal.row("a")
        await journal.append(fork("b", "a", 4))
        await journal.append(addition("b", 5, 2))
        row = await journal.row("b")
        assert row is not None
        assert (row.parent, row.at, row.head) == ("a", 4, 7)
        assert [c.first for c in await journal.commits("b")] == [5, 6]
        assert await journal.row("a") == parent
        assert await heads(journal, "a") == [3, 6]


async def a_fork_needs_the_point_it_shares(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 3)
        assert (await expect(RunNotFound, journal.append(fork("b", "nobody", 1)))).run == "nobody"
        beyond = await expect(JournalConflict, journal.append(fork("b", "a", 4)))
        assert (beyond.run, beyond.expected, beyond.actual) == ("a", 4, 3)
        await expect(RunExists, journal.append(fork("a", "a", 2)))
        assert await journal.row("b") is None


async def children_are_listed_oldest_first(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 3)
        for child in ("z", "m", "b"):
            await journal.append(fork(child, "a", 2))
        await journal.append(fork("grandchild", "m", 3))
        assert [row.run for row in await journal.children("a")] == ["z", "m", "b"]
        assert [row.run for row in await journal.children("m")] == ["grandchild"]
        assert await journal.children("b") == ()


async def a_blob_is_kept_as_long_as_a_run_refers_to_it(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (one, other):
        await one.append(birth("a", blobs={"sha256:x": b"x" * 9, "sha256:y": b"y"}))
        await other.append(birth("b", refs=["sha256:x"]))
        await expect(BlobMissing, other.append(addition("b", 1, refs=["sha256:none"])))
        await one.delete("a")
        await one.collect()
        assert await other.blob("sha256:x") == b"x" * 9
        assert (await expect(BlobMissing, other.blob("sha256:y"))).digest == "sha256:y"
        await other.append(addition("b", 1, blobs={"sha256:y": b"y"}, refs=["sha256:y", "sha256:x"]))
        await one.collect()
        assert await one.blob("sha256:y") == b"y"
        assert await heads(one, "b") == [1, 2]


async def a_run_without_forks_is_deleted_whole(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (journal, other):
        await journal.append(birth("a", 2, calls=[("c", 2)], summary=summary_of(labels={"k": "v"})))
        await journal.append(addition("a", 2, checkpoint=b"s"))
        await other.delete("a")
        assert await journal.row("a") is None
        await expect(RunNotFound, journal.commits("a"))
        await expect(RunNotFound, journal.delete("a"))
        await expect(RunNotFound, journal.append(addition("a", 3)))
        await journal.append(birth("a", body=b"another"))
        assert [c.body for c in await journal.commits("a")] == [b"another"]
        assert await journal.effects_of_call("a", "c") == ()
        assert await journal.checkpoint("a", upto=9) is None
        assert (await journal.rows(RunFilter(labels={"k": "v"}))).rows == ()


async def a_deleted_run_keeps_what_its_forks_share(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await journal.append(birth("a", 3, blobs={"sha256:early": b"e"}))
        await journal.append(addition("a", 3, 3))
        await journal.append(addition("a", 6, 3, blobs={"sha256:late": b"l"}, calls=[("c", 8)], checkpoint=b"s"))
        await journal.append(fork("b", "a", 2))
        await journal.append(fork("c", "a", 4))
        await journal.delete("a")
        await journal.collect()
        assert await heads(journal, "a") == [3, 6]
        row = await journal.row("a")
        assert row is not None
        assert (row.deleted, row.head, row.digest) == (True, 6, digest_of("a", 6))
        assert [listed.run for listed in (await journal.rows(RunFilter())).rows] == ["c", "b"]
        assert await journal.blob("sha256:early") == b"e"
        await expect(BlobMissing, journal.blob("sha256:late"))
        assert await journal.effects_of_call("a", "c") == ()
        assert await journal.checkpoint("a", upto=9) is None
        assert [child.run for child in await journal.children("a")] == ["b", "c"]


async def a_deleted_run_takes_no_more_events(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 3)
        lease = await journal.take_lease("a", owner="me", now_ms=0, until_ms=100)
        await journal.append(fork("b", "a", 3))
        await journal.delete("a")
        await expect(RunExists, journal.append(birth("a")))
        await expect(RunNotFound, journal.append(addition("a", 3)))
        await expect(RunNotFound, journal.append(addition("a", 3, lease=lease)))
        await expect(LeaseLost, journal.renew_lease(lease))
        await expect(RunNotFound, journal.take_lease("a", owner="me", now_ms=0, until_ms=100))
        await journal.delete("a")
        await journal.append(fork("c", "a", 2))
        assert [child.run for child in await journal.children("a")] == ["b", "c"]


async def the_shared_stretch_goes_with_the_last_fork(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 2, 2, 2)
        await journal.append(fork("b", "a", 5))
        await journal.append(fork("c", "a", 1))
        await journal.append(fork("d", "b", 6))
        for run in ("a", "b"):
            await journal.delete(run)
        assert (await heads(journal, "a"), await heads(journal, "b")) == ([2, 4, 6], [6])
        await journal.delete("d")
        assert await journal.row("b") is None
        assert await heads(journal, "a") == [2]
        await journal.delete("c")
        assert await journal.row("a") is None
        assert (await journal.rows(RunFilter())).rows == ()


CLAUSES = (
    a_fork_is_numbered_on_from_its_parent,
    a_fork_needs_the_point_it_shares,
    children_are_listed_oldest_first,
    a_blob_is_kept_as_long_as_a_run_refers_to_it,
    a_run_without_forks_is_deleted_whole,
    a_deleted_run_keeps_what_its_forks_share,
    a_deleted_run_takes_no_more_events,
    the_shared_stretch_goes_with_the_last_fork,
)
