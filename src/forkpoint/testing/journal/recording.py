"""Clauses about what is recorded: whole or not at all, and found again."""

from forkpoint.errors import BlobMissing, JournalConflict, JournalMalformed, RunExists, RunNotFound
from forkpoint.ports import Append, Commit, RunFilter
from forkpoint.testing.journal.given import (
    StoreUnderTest,
    addition,
    birth,
    digest_of,
    expect,
    grown,
    handles,
    heads,
    summary_of,
)


async def what_was_appended_reads_back_whole(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (one, other):
        first = birth("a", 3, body=b"\x00\xff not text", at_ms=7, step=0, turn=1)
        second = addition("a", 3, 2, step=1, at_ms=9)
        await one.append(first)
        await one.append(second)
        assert await other.commits("a") == [first.commit, second.commit]
        row = await other.row("a")
        assert row is not None
        assert (row.head, row.digest, row.started_at_ms, row.updated_at_ms) == (5, digest_of("a", 5), 7, 9)
        assert (row.parent, row.at, row.owner, row.deleted) == (None, 0, None, False)


async def a_row_shows_the_last_summary(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await journal.append(birth("a", summary=summary_of(labels={"task": "8"}, title="t")))
        last = summary_of(
            status="waiting", labels={"task": "8"}, waits=2, due=True, tokens=5, cost=0.5, cost_unknown=1, error="é"
        )
        await journal.append(addition("a", 1, summary=last))
        row = await journal.row("a")
        assert row is not None
        assert row.summary == last


async def a_stretch_holds_whole_commits(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 3, 3, 3)
        await grown(journal, "b", 1)
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


async def an_outline_is_a_commit_without_its_body(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await journal.append(birth("a", 2, body=b"x" * 100_000))
        await journal.append(addition("a", 2, 1, body=b"y" * 10))
        whole, outlines = await journal.commits("a"), await journal.outlines("a")
        assert [c.body for c in outlines] == [b"", b""]
        assert [(c.first, c.marks, c.kinds, c.step, c.turn) for c in outlines] == [
            (c.first, c.marks, c.kinds, c.step, c.turn) for c in whole
        ]


async def an_addition_to_another_head_is_refused(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 2, 2)
        before = await journal.row("a")
        refused = await expect(JournalConflict, journal.append(addition("a", 2)))
        assert (refused.run, refused.expected, refused.actual) == ("a", 2, 4)
        await expect(JournalConflict, journal.append(addition("a", 9)))
        await expect(JournalConflict, journal.append(addition("a", 4, before=bytes(32))))
        await expect(RunNotFound, journal.append(addition("nobody", 2)))
        assert await journal.row("a") == before
        assert await heads(journal, "a") == [2, 4]


async def a_refused_addition_leaves_nothing(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 2)
        stale = addition("a", 1, blobs={"sha256:0": b"x"}, calls=[("c", 2)], checkpoint=b"s")
        await expect(JournalConflict, journal.append(stale))
        await expect(BlobMissing, journal.append(addition("a", 2, calls=[("c", 3)], refs=["sha256:9"])))
        await expect(BlobMissing, journal.blob("sha256:0"))
        assert await journal.effects_of_call("a", "c") == ()
        assert await journal.checkpoint("a", upto=9) is None
        assert await heads(journal, "a") == [2]


async def an_addition_that_does_not_fit_together_is_refused(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await grown(journal, "a", 2)
        good = addition("a", 2)
        gap = Append(run="a", after=1, before=good.before, commit=good.commit, summary=good.summary)
        await expect(JournalMalformed, journal.append(gap))
        empty = Commit(first=3, at_ms=1, kinds=b"", marks=b"", body=b"", step=0, turn=0)
        await expect(
            JournalMalformed,
            journal.append(Append(run="a", after=2, before=good.before, commit=empty, summary=good.summary)),
        )
        await journal.append(good)


async def a_run_is_born_once(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (one, other):
        await one.append(birth("a"))
        assert (await expect(RunExists, other.append(birth("a", 2)))).run == "a"
        assert await heads(one, "a") == [1]


async def steps_and_turns_are_found_without_folding(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
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


async def the_effects_of_a_call_are_those_that_asked_for_it(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await journal.append(birth("a", 3, calls=[("c1", 2), ("c2", 3)]))
        await journal.append(addition("a", 3, 2, calls=[("c1", 4)]))
        await journal.append(birth("b", calls=[("c1", 1)]))
        assert await journal.effects_of_call("a", "c1") == (2, 4)
        assert await journal.effects_of_call("a", "c2") == (3,)
        assert await journal.effects_of_call("a", "c%") == ()


async def the_newest_checkpoint_before_a_point_is_given(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
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


async def the_version_moves_with_every_write_and_only_then(store: StoreUnderTest) -> None:
    async with handles(store, 2) as (one, other):
        await grown(one, "a", 1)
        seen = [(await one.version(), await other.version())]
        await one.rows(RunFilter())
        assert seen[0] == (await one.version(), await other.version())
        for journal, after in ((one, 1), (other, 2)):
            await journal.append(addition("a", after))
            now = (await one.version(), await other.version())
            assert now[0] != seen[-1][0]
            assert now[1] != seen[-1][1]
            seen.append(now)


CLAUSES = (
    what_was_appended_reads_back_whole,
    a_row_shows_the_last_summary,
    a_stretch_holds_whole_commits,
    an_outline_is_a_commit_without_its_body,
    an_addition_to_another_head_is_refused,
    a_refused_addition_leaves_nothing,
    an_addition_that_does_not_fit_together_is_refused,
    a_run_is_born_once,
    steps_and_turns_are_found_without_folding,
    the_effects_of_a_call_are_those_that_asked_for_it,
    the_newest_checkpoint_before_a_point_is_given,
    the_version_moves_with_every_write_and_only_then,
)
