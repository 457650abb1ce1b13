"""Clauses about lists of runs, and about names and filters that are only data."""

from typing import Any

from forkpoint.errors import BadFilter, BadRunId, BlobMissing
from forkpoint.ports import RunFilter
from forkpoint.testing.journal.given import StoreUnderTest, addition, birth, expect, fork, handles, summary_of


async def runs_are_listed_newest_first_by_pages(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
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


async def a_filter_chooses_by_what_is_so_now(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
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


async def what_a_filter_asks_for_is_only_data(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
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


async def what_is_no_text_chooses_nothing(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await journal.append(birth("a"))
        odd: Any
        for odd in ({"$ne": ""}, ["a"], b"a", 5, "\ud800"):
            await expect(BadFilter, journal.rows(RunFilter(prefix=odd)))
            await expect(BadFilter, journal.rows(RunFilter(agent=odd)))
            await expect(BadFilter, journal.rows(RunFilter(labels={"k": odd})))
        for odd in ("1", -1, 1 << 63, 1.5, True):
            await expect(BadFilter, journal.rows(RunFilter(), limit=odd))
            await expect(BadFilter, journal.rows(RunFilter(), after=odd))


async def an_id_that_is_none_matches_nothing(store: StoreUnderTest) -> None:
    async with handles(store) as (journal,):
        await journal.append(birth("a"))
        odd: Any
        for odd in ({"$ne": ""}, ["a"], b"a", 5, None, "%", "_", "*", "", "../a", "a\0", "a" * 129):
            await expect(BadRunId, journal.row(odd))
            await expect(BadRunId, journal.commits(odd))
            await expect(BadRunId, journal.outlines(odd))
            await expect(BadRunId, journal.children(odd))
            await expect(BadRunId, journal.commit_reaching(odd, step=0))
            await expect(BadRunId, journal.effects_of_call(odd, "c"))
            await expect(BadRunId, journal.checkpoint(odd, upto=1))
            await expect(BadRunId, journal.take_lease(odd, owner="me", now_ms=0, until_ms=1))
            await expect(BadRunId, journal.delete(odd))
            await expect(BadRunId, journal.append(birth(odd)))
        for odd in ({"$ne": ""}, ["a"], b"a", 5):
            await expect(BadRunId, journal.append(addition(odd, 1)))
            await expect(BlobMissing, journal.blob(odd))
            assert await journal.effects_of_call("a", odd) == ()
        assert [row.run for row in (await journal.rows(RunFilter())).rows] == ["a"]


CLAUSES = (
    runs_are_listed_newest_first_by_pages,
    a_filter_chooses_by_what_is_so_now,
    what_a_filter_asks_for_is_only_data,
    what_is_no_text_chooses_nothing,
    an_id_that_is_none_matches_nothing,
)
