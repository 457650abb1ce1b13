"""Clauses about leases: who may perform, who may follow, and who may not write any more."""

from forkpoint.errors import JournalConflict, LeaseLost, LeaseRequired, OwnerTaken, RunBusy, RunNotFound, StoreClosed
from forkpoint.ports import Lease
from forkpoint.testing.journal.given import StoreUnderTest, addition, expect, grown, handles, heads


async def one_performer_holds_a_run(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (one, other):
        await grown(one, "a", 1)
        await expect(RunNotFound, one.take_lease("nobody", owner="me", now_ms=0, until_ms=9))
        lease = await one.take_lease("a", owner="me", now_ms=0, until_ms=100)
        assert lease == Lease(run="a", owner="me", epoch=1, until_ms=100)
        busy = await expect(RunBusy, other.take_lease("a", owner="you", now_ms=99, until_ms=200))
        assert busy.owner == "me"
        row = await other.row("a")
        assert row is not None
        assert (row.owner, row.owner_alive, row.epoch, row.lease_until_ms) == ("me", True, 1, 100)
        again = await one.take_lease("a", owner="me", now_ms=0, until_ms=100)
        assert again.epoch == 2
        await one.release_lease(again)
        taken = await other.take_lease("a", owner="you", now_ms=0, until_ms=50)
        assert taken.epoch == 3


async def an_owner_name_belongs_to_one_handle(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (one, other):
        await grown(one, "a", 1)
        await grown(one, "b", 1)
        await one.take_lease("a", owner="me", now_ms=0, until_ms=1)
        for run in ("a", "b"):
            taken = await expect(OwnerTaken, other.take_lease(run, owner="me", now_ms=9, until_ms=19))
            assert taken.owner == "me"


async def a_dead_performer_is_followed_at_once(store: StoreUnderTest) -> None:
    async with handles(store) as (survivor,):
        doomed = store.open()
        await grown(survivor, "a", 1)
        lease = await doomed.take_lease("a", owner="doomed", now_ms=0, until_ms=1_000_000)
        await store.kill(doomed)
        row = await survivor.row("a")
        assert row is not None
        assert (row.owner, row.owner_alive) == ("doomed", False)
        taken = await survivor.take_lease("a", owner="heir", now_ms=1, until_ms=100)
        assert taken.epoch == lease.epoch + 1


async def a_performer_past_its_time_can_be_followed_and_then_writes_nothing(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (slow, quick):
        await grown(slow, "a", 1)
        old = await slow.take_lease("a", owner="slow", now_ms=0, until_ms=100)
        new = await quick.take_lease("a", owner="quick", now_ms=100, until_ms=200)
        lost = await expect(LeaseLost, slow.append(addition("a", 1, lease=old, leased=True)))
        assert (lost.run, lost.owner, lost.epoch) == ("a", "slow", 1)
        await quick.append(addition("a", 1, lease=new, leased=True))
        # A moved head is no reason to read on for one who lost the run.
        await expect(LeaseLost, slow.append(addition("a", 1, lease=old, leased=True)))
        await expect(LeaseLost, slow.renew_lease(old))
        await slow.release_lease(old)
        row = await quick.row("a")
        assert row is not None
        assert (row.owner, row.head) == ("quick", 2)


async def a_lease_past_its_time_counts_until_it_is_taken(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 1)
        lease = await journal.take_lease("a", owner="me", now_ms=0, until_ms=1)
        await journal.append(addition("a", 1, lease=lease, leased=True, at_ms=50_000))
        assert await heads(journal, "a") == [1, 2]


async def a_released_lease_writes_nothing(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 1)
        lease = await journal.take_lease("a", owner="me", now_ms=0, until_ms=100)
        await journal.release_lease(lease)
        await expect(LeaseLost, journal.append(addition("a", 1, lease=lease)))
        await expect(LeaseLost, journal.renew_lease(lease))
        row = await journal.row("a")
        assert row is not None
        assert (row.owner, row.owner_alive, row.head) == (None, None, 1)


async def what_performing_gives_needs_a_lease_and_commands_do_not(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (performer, other):
        await grown(performer, "a", 1)
        assert (await expect(LeaseRequired, other.append(addition("a", 1, leased=True)))).run == "a"
        lease = await performer.take_lease("a", owner="me", now_ms=0, until_ms=100)
        await other.append(addition("a", 1))
        moved = await expect(JournalConflict, performer.append(addition("a", 1, lease=lease, leased=True)))
        assert moved.actual == 2
        await performer.append(addition("a", 2, lease=lease, leased=True))
        row = await other.row("a")
        assert row is not None
        assert (row.head, row.owner) == (3, "me")


async def writing_and_renewing_hold_a_lease_longer_never_shorter(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 1)
        lease = await journal.take_lease("a", owner="me", now_ms=0, until_ms=100)
        until: list[int] = []
        for n, until_ms in enumerate((300, 200, 400), 1):
            now = Lease(run="a", owner="me", epoch=lease.epoch, until_ms=until_ms)
            await journal.append(addition("a", n, lease=now))
            row = await journal.row("a")
            until.append(row.lease_until_ms if row else 0)
        for until_ms in (350, 500):
            await journal.renew_lease(Lease(run="a", owner="me", epoch=lease.epoch, until_ms=until_ms))
            row = await journal.row("a")
            until.append(row.lease_until_ms if row else 0)
        assert until == [300, 300, 400, 400, 500]


async def closing_gives_every_lease_back(store: StoreUnderTest) -> None:
    async with handles(store) as (left,):
        leaving = store.open()
        for run in ("a", "b"):
            await grown(leaving, run, 1)
            await leaving.take_lease(run, owner=f"{run}-owner", now_ms=0, until_ms=1_000_000)
        await leaving.close()
        await leaving.close()
        for run in ("a", "b"):
            row = await left.row(run)
            assert row is not None
            assert row.owner is None
        await expect(StoreClosed, leaving.row("a"))
        await expect(StoreClosed, leaving.append(addition("a", 1)))


CLAUSES = (
    one_performer_holds_a_run,
    an_owner_name_belongs_to_one_handle,
    a_dead_performer_is_followed_at_once,
    a_performer_past_its_time_can_be_followed_and_then_writes_nothing,
    a_lease_past_its_time_counts_until_it_is_taken,
    a_released_lease_writes_nothing,
    what_performing_gives_needs_a_lease_and_commands_do_not,
    writing_and_renewing_hold_a_lease_longer_never_shorter,
    closing_gives_every_lease_back,
)
