"""The contract of a journal, for whoever writes a store: every clause is a promise that the runtime builds on.

Run each clause of ``CONTRACT`` against a store of its own::

    @pytest.mark.parametrize("clause", CONTRACT, ids=name)
    def test_my_store(clause, tmp_path):
        asyncio.run(clause(StoreUnderTest(open=lambda: MyJournal(tmp_path / "runs"), kill=MyJournal.abandon)))

A clause returns, or raises ``AssertionError``. What it does not test: what a loss of power leaves behind, and
processes that are really killed; a store's own tests must.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from forkpoint.errors import (
    BadFilter,
    BadRunId,
    BlobMissing,
    JournalConflict,
    JournalMalformed,
    LeaseLost,
    LeaseRequired,
    RunBusy,
    RunExists,
    RunNotFound,
    StoreClosed,
)
from forkpoint.errors._base import ForkpointError
from forkpoint.ports import Append, Commit, Journal, Lease, RunFilter, RunSummary

E = TypeVar("E", bound=ForkpointError)


@dataclass(frozen=True, kw_only=True)
class StoreUnderTest:
    """One empty store. ``open`` gives a handle as a process of its own would have; ``kill`` lets a handle go
    as a killed process does: what it leased stays leased, and its owners are known to be dead."""

    open: Callable[[], Journal]
    kill: Callable[[Any], Awaitable[None]]


Clause: TypeAlias = Callable[[StoreUnderTest], Awaitable[None]]

_clauses: list[Clause] = []


def name(clause: Clause) -> str:
    """What a clause promises, as its name says it."""
    return getattr(clause, "__name__", repr(clause))


def _clause(clause: Clause) -> Clause:
    _clauses.append(clause)
    return clause


def digest_of(run: str, seq: int) -> bytes:
    """A digest for event ``seq`` of ``run``, as good as any to a store."""
    return hashlib.sha256(f"{run}@{seq}".encode()).digest()


def summary_of(**values: Any) -> RunSummary:
    """A run's summary, of a running agent unless ``values`` says otherwise."""
    return RunSummary(**{"status": "running", "agent": "tester"} | values)


def addition(run: str, after: int, count: int = 1, **values: Any) -> Append:
    """``count`` events for ``run`` after event ``after``, with the digests that ``digest_of`` gives.

    ``body``, ``step``, ``turn``, ``at_ms`` and ``kind`` shape the commit; the rest goes to ``Append`` as it is.
    """
    marks = [digest_of(run, seq) for seq in range(after + 1, after + count + 1)]
    commit = Commit(
        first=after + 1,
        at_ms=values.pop("at_ms", 1_000 + after),
        kinds=bytes([values.pop("kind", 2)]) * count,
        marks=b"".join(mark[:8] for mark in marks[:-1]) + marks[-1],
        body=values.pop("body", f"{run} after {after}".encode()),
        step=values.pop("step", 0),
        turn=values.pop("turn", 1),
    )
    values.setdefault("before", digest_of(run, after) if after else b"")
    values.setdefault("summary", summary_of())
    return Append(run=run, after=after, commit=commit, **values)


def birth(run: str, count: int = 1, **values: Any) -> Append:
    """The first ``count`` events of a run that has no parent."""
    return addition(run, 0, count, born=True, **values)


def fork(run: str, parent: str, at: int, **values: Any) -> Append:
    """The first own event of a fork of ``parent`` at ``at``."""
    return addition(run, at, born=True, parent=parent, before=digest_of(parent, at), **values)


@asynccontextmanager
async def _handles(store: StoreUnderTest, count: int = 1) -> AsyncIterator[Sequence[Journal]]:
    handles = [store.open() for _ in range(count)]
    try:
        yield handles
    finally:
        for handle in handles:
            await handle.close()


async def _refused(kind: type[E], asked: Awaitable[object]) -> E:
    try:
        await asked
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.code}, but it was done")


async def _heads(journal: Journal, run: str) -> list[int]:
    return [commit.last for commit in await journal.commits(run)]


async def _grown(journal: Journal, run: str, *counts: int) -> int:
    """A new run of commits with ``counts`` events; its head."""
    head = 0
    for count in counts:
        await journal.append(addition(run, head, count, born=head == 0))
        head += count
    return head


@_clause
async def what_was_appended_reads_back_whole(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (one, other):
        first = birth("a", 3, body=b"\x00\xff not text", at_ms=7, step=0, turn=1)
        second = addition("a", 3, 2, step=1, at_ms=9)
        await one.append(first)
        await one.append(second)
        assert await other.commits("a") == [first.commit, second.commit]
        row = await other.row("a")
        assert row is not None
        assert (row.head, row.digest, row.started_at_ms, row.updated_at_ms) == (5, digest_of("a", 5), 7, 9)
        assert (row.parent, row.at, row.owner, row.deleted) == (None, 0, None, False)


@_clause
async def a_row_shows_the_last_summary(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a", summary=summary_of(labels={"task": "8"}, title="t")))
        last = summary_of(
            status="waiting", labels={"task": "8"}, waits=2, due=True, tokens=5, cost=0.5, cost_unknown=1, error="é"
        )
        await journal.append(addition("a", 1, summary=last))
        row = await journal.row("a")
        assert row is not None
        assert row.summary == last


@_clause
async def a_stretch_holds_whole_commits(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 3, 3, 3)
        await _grown(journal, "b", 1)
        lasts = {
            (after, upto): [c.last for c in await journal.commits("a", after=after, upto=upto)]
            for after, upto in [(0, None), (0, 9), (0, 4), (0, 3), (3, 5), (4, 4), (5, 8), (9, None), (2, 3), (0, 0)]
        }
        assert lasts == {
            (0, None): [3, 6, 9],
            (0, 9): [3, 6, 9],
            (0, 4): [3, 6],
            (0, 3): [3],
            (3, 5): [6],
            (4, 4): [6],
            (5, 8): [6, 9],
            (9, None): [],
            (2, 3): [3],
            (0, 0): [],
        }


@_clause
async def an_outline_is_a_commit_without_its_body(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a", 2, body=b"x" * 100_000))
        await journal.append(addition("a", 2, 1, body=b"y" * 10))
        whole, outlines = await journal.commits("a"), await journal.outlines("a")
        assert [c.body for c in outlines] == [b"", b""]
        assert [(c.first, c.marks, c.kinds, c.step, c.turn) for c in outlines] == [
            (c.first, c.marks, c.kinds, c.step, c.turn) for c in whole
        ]


@_clause
async def an_addition_to_another_head_is_refused(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 2, 2)
        before = await journal.row("a")
        refused = await _refused(JournalConflict, journal.append(addition("a", 2)))
        assert (refused.run, refused.expected, refused.actual) == ("a", 2, 4)
        await _refused(JournalConflict, journal.append(addition("a", 9)))
        await _refused(JournalConflict, journal.append(addition("a", 4, before=bytes(32))))
        await _refused(RunNotFound, journal.append(addition("nobody", 2)))
        assert await journal.row("a") == before
        assert await _heads(journal, "a") == [2, 4]


@_clause
async def a_refused_addition_leaves_nothing(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 2)
        stale = addition("a", 1, blobs={"sha256:0": b"x"}, calls=[("c", 2)], checkpoint=b"s")
        await _refused(JournalConflict, journal.append(stale))
        await _refused(BlobMissing, journal.append(addition("a", 2, calls=[("c", 3)], refs=["sha256:9"])))
        await _refused(BlobMissing, journal.blob("sha256:0"))
        assert await journal.effects_of_call("a", "c") == ()
        assert await journal.checkpoint("a", upto=9) is None
        assert await _heads(journal, "a") == [2]


@_clause
async def an_addition_that_does_not_fit_together_is_refused(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 2)
        good = addition("a", 2)
        gap = Append(run="a", after=1, before=good.before, commit=good.commit, summary=good.summary)
        await _refused(JournalMalformed, journal.append(gap))
        empty = Commit(first=3, at_ms=1, kinds=b"", marks=b"", body=b"", step=0, turn=0)
        await _refused(
            JournalMalformed,
            journal.append(Append(run="a", after=2, before=good.before, commit=empty, summary=good.summary)),
        )
        await journal.append(good)


@_clause
async def a_run_is_born_once(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (one, other):
        await one.append(birth("a"))
        assert (await _refused(RunExists, other.append(birth("a", 2)))).run == "a"
        assert await _heads(one, "a") == [1]


@_clause
async def a_fork_is_numbered_on_from_its_parent(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 3, 3)
        parent = await journal.row("a")
        await journal.append(fork("b", "a", 4))
        await journal.append(addition("b", 5, 2))
        row = await journal.row("b")
        assert row is not None
        assert (row.parent, row.at, row.head) == ("a", 4, 7)
        assert [c.first for c in await journal.commits("b")] == [5, 6]
        assert await journal.row("a") == parent
        assert await _heads(journal, "a") == [3, 6]


@_clause
async def a_fork_needs_the_point_it_shares(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 3)
        assert (await _refused(RunNotFound, journal.append(fork("b", "nobody", 1)))).run == "nobody"
        beyond = await _refused(JournalConflict, journal.append(fork("b", "a", 4)))
        assert (beyond.run, beyond.expected, beyond.actual) == ("a", 4, 3)
        await _refused(RunExists, journal.append(fork("a", "a", 2)))
        assert await journal.row("b") is None


@_clause
async def children_are_listed_oldest_first(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 3)
        for child in ("z", "m", "b"):
            await journal.append(fork(child, "a", 2))
        await journal.append(fork("grandchild", "m", 3))
        assert [row.run for row in await journal.children("a")] == ["z", "m", "b"]
        assert [row.run for row in await journal.children("m")] == ["grandchild"]
        assert await journal.children("b") == ()


@_clause
async def steps_and_turns_are_found_without_folding(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a", 2, step=0, turn=1))
        head = 2
        for step, turn, count in [(0, 1, 1), (1, 1, 4), (2, 1, 2), (4, 2, 3), (4, 3, 1)]:
            await journal.append(addition("a", head, count, step=step, turn=turn))
            head += count
        commits = await journal.commits("a")
        steps = [await journal.commit_reaching("a", step=step) for step in range(6)]
        assert steps == [commits[0], commits[2], commits[3], commits[4], commits[4], None]
        turns = [await journal.commit_reaching("a", turn=turn) for turn in range(5)]
        assert turns == [commits[0], commits[0], commits[4], commits[5], None]


@_clause
async def the_effects_of_a_call_are_those_that_asked_for_it(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a", 3, calls=[("c1", 2), ("c2", 3)]))
        await journal.append(addition("a", 3, 2, calls=[("c1", 4)]))
        await journal.append(birth("b", calls=[("c1", 1)]))
        assert await journal.effects_of_call("a", "c1") == (2, 4)
        assert await journal.effects_of_call("a", "c2") == (3,)
        assert await journal.effects_of_call("a", "c%") == ()


@_clause
async def the_newest_checkpoint_before_a_point_is_given(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a", 2))
        await journal.append(addition("a", 2, 2, checkpoint=b"four"))
        await journal.append(addition("a", 4, 2))
        await journal.append(addition("a", 6, 2, checkpoint=b"eight"))
        found = [await journal.checkpoint("a", upto=upto) for upto in (3, 4, 7, 8, 1 << 40)]
        assert [None if c is None else (c.seq, c.digest, c.body) for c in found] == [
            None,
            (4, digest_of("a", 4), b"four"),
            (4, digest_of("a", 4), b"four"),
            (8, digest_of("a", 8), b"eight"),
            (8, digest_of("a", 8), b"eight"),
        ]


@_clause
async def a_blob_is_kept_as_long_as_a_run_refers_to_it(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (one, other):
        await one.append(birth("a", blobs={"sha256:x": b"x" * 9, "sha256:y": b"y"}))
        await other.append(birth("b", refs=["sha256:x"]))
        await _refused(BlobMissing, other.append(addition("b", 1, refs=["sha256:none"])))
        await one.delete("a")
        await one.collect()
        assert await other.blob("sha256:x") == b"x" * 9
        assert (await _refused(BlobMissing, other.blob("sha256:y"))).digest == "sha256:y"
        await other.append(addition("b", 1, blobs={"sha256:y": b"y"}, refs=["sha256:y", "sha256:x"]))
        await one.collect()
        assert await one.blob("sha256:y") == b"y"
        assert await _heads(one, "b") == [1, 2]


@_clause
async def a_run_without_forks_is_deleted_whole(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (journal, other):
        await journal.append(birth("a", 2, calls=[("c", 2)], summary=summary_of(labels={"k": "v"})))
        await journal.append(addition("a", 2, checkpoint=b"s"))
        await other.delete("a")
        assert await journal.row("a") is None
        await _refused(RunNotFound, journal.commits("a"))
        await _refused(RunNotFound, journal.delete("a"))
        await _refused(RunNotFound, journal.append(addition("a", 3)))
        await journal.append(birth("a", body=b"another"))
        assert [c.body for c in await journal.commits("a")] == [b"another"]
        assert await journal.effects_of_call("a", "c") == ()
        assert await journal.checkpoint("a", upto=9) is None
        assert (await journal.rows(RunFilter(labels={"k": "v"}))).rows == ()


@_clause
async def a_deleted_run_keeps_what_its_forks_share(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a", 3, blobs={"sha256:early": b"e"}))
        await journal.append(addition("a", 3, 3))
        await journal.append(addition("a", 6, 3, blobs={"sha256:late": b"l"}, calls=[("c", 8)], checkpoint=b"s"))
        await journal.append(fork("b", "a", 2))
        await journal.append(fork("c", "a", 4))
        await journal.delete("a")
        await journal.collect()
        assert await _heads(journal, "a") == [3, 6]
        row = await journal.row("a")
        assert row is not None
        assert (row.deleted, row.head, row.digest) == (True, 6, digest_of("a", 6))
        assert [listed.run for listed in (await journal.rows(RunFilter())).rows] == ["c", "b"]
        assert await journal.blob("sha256:early") == b"e"
        await _refused(BlobMissing, journal.blob("sha256:late"))
        assert await journal.effects_of_call("a", "c") == ()
        assert await journal.checkpoint("a", upto=9) is None
        assert [child.run for child in await journal.children("a")] == ["b", "c"]


@_clause
async def a_deleted_run_takes_no_more_events(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 3)
        lease = await journal.take_lease("a", owner="me", now_ms=0, until_ms=100)
        await journal.append(fork("b", "a", 3))
        await journal.delete("a")
        await _refused(RunExists, journal.append(birth("a")))
        await _refused(RunNotFound, journal.append(addition("a", 3)))
        await _refused(RunNotFound, journal.append(addition("a", 3, lease=lease)))
        await _refused(LeaseLost, journal.renew_lease(lease))
        await _refused(RunNotFound, journal.take_lease("a", owner="me", now_ms=0, until_ms=100))
        await journal.delete("a")
        await journal.append(fork("c", "a", 2))
        assert [child.run for child in await journal.children("a")] == ["b", "c"]


@_clause
async def the_shared_stretch_goes_with_the_last_fork(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 2, 2, 2)
        await journal.append(fork("b", "a", 5))
        await journal.append(fork("c", "a", 1))
        await journal.append(fork("d", "b", 6))
        for run in ("a", "b"):
            await journal.delete(run)
        assert (await _heads(journal, "a"), await _heads(journal, "b")) == ([2, 4, 6], [6])
        await journal.delete("d")
        assert await journal.row("b") is None
        assert await _heads(journal, "a") == [2]
        await journal.delete("c")
        assert await journal.row("a") is None
        assert (await journal.rows(RunFilter())).rows == ()


@_clause
async def runs_are_listed_newest_first_by_pages(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        runs = [f"r{n}" for n in range(7)]
        for run in runs:
            await journal.append(birth(run))
        await journal.append(addition("r0", 1))
        seen: list[str] = []
        page = await journal.rows(RunFilter(), limit=3)
        while page.next is not None:
            seen += [row.run for row in page.rows]
            page = await journal.rows(RunFilter(), after=page.next, limit=3)
        seen += [row.run for row in page.rows]
        assert seen == runs[::-1]
        assert (await journal.rows(RunFilter(), limit=7)).next is None


@_clause
async def a_filter_chooses_by_what_is_so_now(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a-1", summary=summary_of(labels={"team": "x", "trial": "1"}, due=True)))
        await journal.append(birth("a-2", summary=summary_of(labels={"team": "x", "trial": "2"})))
        await journal.append(birth("b-1", summary=summary_of(agent="other")))
        await journal.append(fork("f", "a-1", 1))
        await journal.append(addition("a-2", 1, summary=summary_of(status="idle", due=True)))
        await journal.append(addition("a-1", 1))
        asked = [
            (RunFilter(status="running"), ["f", "b-1", "a-1"]),
            (RunFilter(due=True), ["a-2"]),
            (RunFilter(due=False), ["f", "b-1", "a-1"]),
            (RunFilter(agent="other"), ["b-1"]),
            (RunFilter(parent="a-1"), ["f"]),
            (RunFilter(parent="b-1"), []),
            (RunFilter(prefix="a-"), ["a-2", "a-1"]),
            (RunFilter(labels={"team": "x"}), ["a-2", "a-1"]),
            (RunFilter(labels={"team": "x", "trial": "1"}, prefix="a", status="running"), ["a-1"]),
        ]
        for which, expected in asked:
            assert [row.run for row in (await journal.rows(which)).rows] == expected, which


ODD_TEXTS = ("x') OR 1=1 --", "it's", '"', "$.a", ".", "%", "_", "*", "a\0b", "k" * 10_240, "é\U0001f600", "")


@_clause
async def what_a_filter_asks_for_is_only_data(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("plain", summary=summary_of(labels={"task": "8"})))
        for text in ODD_TEXTS:
            assert (await journal.rows(RunFilter(labels={text: "1"}))).rows == ()
            assert (await journal.rows(RunFilter(labels={"task": text}))).rows == ()
            assert (await journal.rows(RunFilter(agent=text))).rows == ()
            assert (await journal.rows(RunFilter(prefix=text))).rows == () or text == ""
        for n, text in enumerate(ODD_TEXTS):
            await journal.append(birth(f"odd-{n}", summary=summary_of(labels={text: text})))
            found = await journal.rows(RunFilter(labels={text: text}))
            assert [row.run for row in found.rows] == [f"odd-{n}"]


@_clause
async def what_is_no_text_chooses_nothing(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a"))
        odd: Any
        for odd in ({"$ne": ""}, ["a"], b"a", 5, "\ud800"):
            await _refused(BadFilter, journal.rows(RunFilter(prefix=odd)))
            await _refused(BadFilter, journal.rows(RunFilter(agent=odd)))
            await _refused(BadFilter, journal.rows(RunFilter(labels={"k": odd})))
        for odd in ("1", -1, 1 << 63, 1.5, True):
            await _refused(BadFilter, journal.rows(RunFilter(), limit=odd))
            await _refused(BadFilter, journal.rows(RunFilter(), after=odd))


@_clause
async def an_id_that_is_none_matches_nothing(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await journal.append(birth("a"))
        odd: Any
        for odd in ({"$ne": ""}, ["a"], b"a", 5, None, "%", "_", "*", "", "../a", "a\0", "a" * 129):
            await _refused(BadRunId, journal.row(odd))
            await _refused(BadRunId, journal.commits(odd))
            await _refused(BadRunId, journal.outlines(odd))
            await _refused(BadRunId, journal.children(odd))
            await _refused(BadRunId, journal.commit_reaching(odd, step=0))
            await _refused(BadRunId, journal.effects_of_call(odd, "c"))
            await _refused(BadRunId, journal.checkpoint(odd, upto=1))
            await _refused(BadRunId, journal.take_lease(odd, owner="me", now_ms=0, until_ms=1))
            await _refused(BadRunId, journal.delete(odd))
            await _refused(BadRunId, journal.append(birth(odd)))
        for odd in ({"$ne": ""}, ["a"], b"a", 5):
            await _refused(BadRunId, journal.append(addition(odd, 1)))
            await _refused(BlobMissing, journal.blob(odd))
            assert await journal.effects_of_call("a", odd) == ()
        assert [row.run for row in (await journal.rows(RunFilter())).rows] == ["a"]


@_clause
async def one_performer_holds_a_run(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (one, other):
        await _grown(one, "a", 1)
        await _refused(RunNotFound, one.take_lease("nobody", owner="me", now_ms=0, until_ms=9))
        lease = await one.take_lease("a", owner="me", now_ms=0, until_ms=100)
        assert lease == Lease(run="a", owner="me", epoch=1, until_ms=100)
        busy = await _refused(RunBusy, other.take_lease("a", owner="you", now_ms=99, until_ms=200))
        assert busy.owner == "me"
        row = await other.row("a")
        assert row is not None
        assert (row.owner, row.owner_alive, row.epoch, row.lease_until_ms) == ("me", True, 1, 100)
        again = await one.take_lease("a", owner="me", now_ms=0, until_ms=100)
        assert again.epoch == 2
        await one.release_lease(again)
        taken = await other.take_lease("a", owner="you", now_ms=0, until_ms=50)
        assert taken.epoch == 3


@_clause
async def a_dead_performer_is_followed_at_once(store: StoreUnderTest) -> None:
    async with _handles(store) as (survivor,):
        doomed = store.open()
        await _grown(survivor, "a", 1)
        lease = await doomed.take_lease("a", owner="doomed", now_ms=0, until_ms=1_000_000)
        await store.kill(doomed)
        row = await survivor.row("a")
        assert row is not None
        assert (row.owner, row.owner_alive) == ("doomed", False)
        taken = await survivor.take_lease("a", owner="heir", now_ms=1, until_ms=100)
        assert taken.epoch == lease.epoch + 1


@_clause
async def a_performer_past_its_time_can_be_followed_and_then_writes_nothing(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (slow, quick):
        await _grown(slow, "a", 1)
        old = await slow.take_lease("a", owner="slow", now_ms=0, until_ms=100)
        new = await quick.take_lease("a", owner="quick", now_ms=100, until_ms=200)
        lost = await _refused(LeaseLost, slow.append(addition("a", 1, lease=old, leased=True)))
        assert (lost.run, lost.owner, lost.epoch) == ("a", "slow", 1)
        await quick.append(addition("a", 1, lease=new, leased=True))
        # A moved head is no reason to read on for one who lost the run.
        await _refused(LeaseLost, slow.append(addition("a", 1, lease=old, leased=True)))
        await _refused(LeaseLost, slow.renew_lease(old))
        await slow.release_lease(old)
        row = await quick.row("a")
        assert row is not None
        assert (row.owner, row.head) == ("quick", 2)


@_clause
async def a_lease_past_its_time_counts_until_it_is_taken(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 1)
        lease = await journal.take_lease("a", owner="me", now_ms=0, until_ms=1)
        await journal.append(addition("a", 1, lease=lease, leased=True, at_ms=50_000))
        assert await _heads(journal, "a") == [1, 2]


@_clause
async def a_released_lease_writes_nothing(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 1)
        lease = await journal.take_lease("a", owner="me", now_ms=0, until_ms=100)
        await journal.release_lease(lease)
        await _refused(LeaseLost, journal.append(addition("a", 1, lease=lease)))
        await _refused(LeaseLost, journal.renew_lease(lease))
        row = await journal.row("a")
        assert row is not None
        assert (row.owner, row.owner_alive, row.head) == (None, None, 1)


@_clause
async def what_performing_gives_needs_a_lease_and_commands_do_not(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (performer, other):
        await _grown(performer, "a", 1)
        assert (await _refused(LeaseRequired, other.append(addition("a", 1, leased=True)))).run == "a"
        lease = await performer.take_lease("a", owner="me", now_ms=0, until_ms=100)
        await other.append(addition("a", 1))
        moved = await _refused(JournalConflict, performer.append(addition("a", 1, lease=lease, leased=True)))
        assert moved.actual == 2
        await performer.append(addition("a", 2, lease=lease, leased=True))
        row = await other.row("a")
        assert row is not None
        assert (row.head, row.owner) == (3, "me")


@_clause
async def writing_and_renewing_hold_a_lease_longer_never_shorter(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        await _grown(journal, "a", 1)
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


@_clause
async def closing_gives_every_lease_back(store: StoreUnderTest) -> None:
    async with _handles(store) as (left,):
        leaving = store.open()
        for run in ("a", "b"):
            await _grown(leaving, run, 1)
            await leaving.take_lease(run, owner=f"{run}-owner", now_ms=0, until_ms=1_000_000)
        await leaving.close()
        await leaving.close()
        for run in ("a", "b"):
            row = await left.row(run)
            assert row is not None
            assert row.owner is None
        await _refused(StoreClosed, leaving.row("a"))
        await _refused(StoreClosed, leaving.append(addition("a", 1)))


@_clause
async def the_version_moves_with_every_write_and_only_then(store: StoreUnderTest) -> None:
    async with _handles(store, 2) as (one, other):
        await _grown(one, "a", 1)
        seen = [(await one.version(), await other.version())]
        await one.rows(RunFilter())
        assert seen[0] == (await one.version(), await other.version())
        for journal, after in ((one, 1), (other, 2)):
            await journal.append(addition("a", after))
            now = (await one.version(), await other.version())
            assert now[0] != seen[-1][0]
            assert now[1] != seen[-1][1]
            seen.append(now)


@_clause
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

    async with _handles(store, 2) as (one, other):
        await _grown(one, "a", 1)
        await asyncio.gather(write(one, "a", b"x"), write(other, "a", b"y"))
        commits = await one.commits("a", after=1)
        assert [commit.first for commit in commits] == list(range(2, 1002))
        for mark in (b"x", b"y"):
            written = [commit.body[1:] for commit in commits if commit.body[:1] == mark]
            assert written == [str(n).encode() for n in range(500)]


@_clause
async def one_refusal_among_many_leaves_the_others_alone(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        runs = [f"r{n}" for n in range(16)]
        for run in runs:
            await _grown(journal, run, 1)
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
            assert await _heads(journal, run) == ([1] if run in refused else [1, 2])


@_clause
async def a_cancelled_addition_does_not_take_others_along(store: StoreUnderTest) -> None:
    async with _handles(store) as (journal,):
        for run in ("a", "b", "c"):
            await _grown(journal, run, 1)
        tasks = [asyncio.ensure_future(journal.append(addition(run, 1))) for run in ("a", "b", "c")]
        # Begun, and maybe none of them written yet: the first to arrive is the one that is called off.
        await asyncio.sleep(0)
        tasks[0].cancel()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert told[1:] == [None, None]
        for run in ("b", "c"):
            assert await _heads(journal, run) == [1, 2]
        head = (await _heads(journal, "a"))[-1]
        assert head == (1 if isinstance(told[0], asyncio.CancelledError) else 2)
        await journal.append(addition("a", head))


CONTRACT: tuple[Clause, ...] = tuple(_clauses)
"""Every clause, in the order they are best read."""
