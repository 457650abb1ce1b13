"""What a recovery does, promise by promise: spent budgets, probes, persons' decisions, forks, stores that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, get_args

import pytest

from forkpoint.advance import idempotency_key
from forkpoint.agents.tool import Finding, NotOccurred, ToolContext, tool
from forkpoint.commands import Verdict
from forkpoint.effects import Recovery, ToolCall
from forkpoint.errors import StoreLocked
from forkpoint.outcomes import Failed
from forkpoint.ports import Lease
from forkpoint.runtime.runtime import Runtime
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.crash import Killed, Life
from forkpoint.testing.fakes import FakeClock, settle

from .clerk import ALL, ATTEMPTS, RECOVERY, RUN, Errand, Office, decide
from .desk import Bell, carried, in_time, process
from .test_killed_anywhere import crossings, events_of, kill, new_office, survive
from .verdicts import check_effects, told


async def killed(errand: Errand, *places: tuple[str, str]) -> tuple[Office, list[Life]]:
    """An office whose processes died, one after the other, at the first crossing of that name and side."""
    deaths: list[int] = []
    for what, side in places:
        found = [one.number for one in await crossings(errand, *deaths) if (one.what, one.side) == (what, side)]
        deaths.append(found[0])
    office = new_office(errand)
    return office, [await kill(office, at) for at in deaths]


async def calls_of(office: Office) -> dict[str, Any]:
    """What the history says of each tool's call."""
    effects = told(await events_of(office)).values()
    return {one.effect.tool: one for one in effects if isinstance(one.effect, ToolCall)}


@pytest.mark.parametrize("name", ["look", "charge", "book"])
def test_a_budget_that_crashes_have_spent_is_a_visible_failure(name: str) -> None:
    async def scene() -> None:
        office, _ = await killed(Errand(tools=(name,)), *[(f"tool.{name}", "before")] * ATTEMPTS)
        await Life().live(office.attend(life := Life()), office.clock)
        assert life.crossings
        one = (await calls_of(office))[name]
        assert [each.attempt for each in one.dispatched] == list(range(1, ATTEMPTS + 1))
        assert isinstance(one.settled[-1].outcome, Failed)
        assert f"{ATTEMPTS} attempts" in one.settled[-1].outcome.text
        assert office.world.keys() == set()
        async with office.onlooker() as runtime:
            assert (await (await runtime.open(RUN)).brief()).output == "done"

    asyncio.run(scene())


@pytest.mark.parametrize("verdict", get_args(Verdict))
@pytest.mark.parametrize(("side", "times"), [("before", 0), ("after", 1)])
def test_every_decision_about_a_lost_call_leads_to_a_finished_run(verdict: Verdict, side: str, times: int) -> None:
    async def scene() -> None:
        office, lives = await killed(Errand(tools=("mail",)), ("tool.mail", side))
        await survive(office, lives, verdict)
        (resolved,) = (await calls_of(office))["mail"].resolved
        assert (resolved.finding, resolved.actor) == (verdict, "ann")
        assert len(office.world.keys()) == times

    asyncio.run(scene())


def test_a_call_that_finished_is_durable_before_its_slower_sibling_ends() -> None:
    async def scene() -> None:
        office, _ = await killed(Errand(tools=("look", "mail")), ("tool.mail", "after"))
        one = await calls_of(office)
        assert one["look"].settled
        assert not one["mail"].settled

    asyncio.run(scene())


def test_a_probe_that_fails_leaves_the_call_to_a_person() -> None:
    bell = Bell()

    async def broken(ctx: ToolContext) -> Finding:
        raise ValueError("no such page")

    @tool(reconcile=broken)
    async def book() -> str:
        await bell.wait()
        return "booked"

    async def scene(clock: FakeClock) -> None:
        store = MemoryJournal()
        await abandoned(store, clock, book, bell)
        async with process(store.beside(), clock, book) as runtime:
            await carried(runtime.recover(), clock)
            (wait,) = await runtime.waits()
            assert (wait.wait.kind, wait.wait.name) == ("unknown", "book")

    in_time(scene)()


def test_a_probe_that_says_no_brings_exactly_one_new_execution() -> None:
    bell, tries = Bell(), []

    async def not_done(ctx: ToolContext) -> Finding:
        return NotOccurred()

    @tool(reconcile=not_done)
    async def book(ctx: ToolContext) -> str:
        tries.append((ctx.attempt, ctx.idempotency_key))
        if ctx.attempt == 1:
            await bell.wait()
        return "booked"

    async def scene(clock: FakeClock) -> None:
        store = MemoryJournal()
        await abandoned(store, clock, book, bell)
        async with process(store.beside(), clock, book) as runtime:
            await carried(runtime.recover(), clock)
            assert (await (await runtime.open(RUN)).brief()).output == "done"
        assert [attempt for attempt, _ in tries] == [1, 2]
        assert len({key for _, key in tries}) == 1

    in_time(scene)()


async def abandoned(store: MemoryJournal, clock: FakeClock, having: Any, bell: Bell) -> None:
    """A process is gone while its tool is in flight."""
    life = Life()

    async def until_in_flight() -> None:
        runtime = process(life.journal(store.beside()), clock, life.tool(having))
        await runtime.start("a", "go", run_id=RUN)
        await bell.rung.wait()
        life.over = True
        await asyncio.Event().wait()

    with suppress(Killed):
        await life.live(until_in_flight(), clock)


FORK = "r.what-if"


async def attend_fork(office: Office, life: Life) -> None:
    """Do all there is to do about a fork of the run, as one process; the parent is left as it is."""
    async with office.process(life) as runtime:
        run = await runtime.open(FORK)
        await run.resume()
        state = await run.wait()
        while state.waits:
            await decide(run, state, "not_occurred")
            await run.resume()
            state = await run.wait()


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", ALL)
def test_a_call_that_a_fork_holds_is_killed_anywhere_and_never_performed_there_by_itself(name: str, side: str) -> None:
    """What only reads is performed in the fork; a probe is asked about what its parent did; the rest waits."""

    async def forked() -> Office:
        office, _ = await killed(Errand(tools=(name,)), (f"tool.{name}", side))
        async with office.onlooker() as runtime:
            await (await runtime.open(RUN)).fork(run_id=FORK)
        return office

    async def scene() -> None:
        whole = Life()
        office = await forked()
        await whole.live(attend_fork(office, whole), office.clock)
        for place in [one for one in whole.crossings if one.lasting]:
            office = await forked()
            dying = Life(dies_at=place.number)
            with suppress(Killed):
                await dying.live(attend_fork(office, dying), office.clock)
            await Life().live(attend_fork(office, Life()), office.clock)
            await check_fork(office)

    async def check_fork(office: Office) -> None:
        async with office.onlooker() as runtime:
            run = await runtime.open(FORK)
            state, events = await run.state(), await run.history()
        assert (state.status, state.output) == ("idle", "done")
        (effect,) = [one.seq for one in told(events).values() if isinstance(one.effect, ToolCall)]
        own = office.world.times("tried", idempotency_key(FORK, effect))
        if RECOVERY[name] in (Recovery.HOLD, Recovery.RETRY):
            assert own == 0
        if RECOVERY[name] is Recovery.REPEAT:
            assert own >= 1

    asyncio.run(scene())


class Failing:
    """A journal whose first ``times`` calls fail, as a store does that somebody else is holding."""

    def __init__(self, journal: MemoryJournal, times: int) -> None:
        self._journal, self.times = journal, times

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._journal, name)

        async def maybe(*args: Any, **more: Any) -> Any:
            if self.times and name != "close":
                self.times -= 1
                raise StoreLocked(path="memory:", waited_s=5.0)
            return await method(*args, **more)

        return maybe


@pytest.mark.parametrize("after", [0, 1, 2, 10, 30, 60])
def test_a_store_that_fails_for_a_moment_loses_no_run_of_a_recovery(after: int) -> None:
    """Of twenty runs each is recovered, or named with the reason; the next recovery takes up what is left."""

    async def scene() -> None:
        store, clock = MemoryJournal(), FakeClock()
        office = Office(Errand(tools=("look",)), store.beside, clock)
        async with office.onlooker() as runtime:
            for number in range(20):
                await runtime.start("clerk", "go", run_id=f"run-{number}", perform=False)
        failing = Failing(store.beside(), 0)
        async with Office(Errand(tools=("look",)), lambda: failing, clock).onlooker() as runtime:
            failing.times = 3 if not after else 0
            recovered, failed = await recover_with(runtime, failing, after)
            if recovered is not None:
                assert recovered | failed == {f"run-{number}" for number in range(20)}
                assert not recovered & failed
            while failing.times:
                with pytest.raises(StoreLocked):  # the list of runs could not be read, and it says so
                    await runtime.recover()
            assert not (await runtime.recover()).failed
            states = [row.summary.output async for row in runtime.all_runs()]
        assert states == ["done"] * 20

    asyncio.run(scene())


async def recover_with(runtime: Runtime, failing: Failing, after: int) -> tuple[set[str] | None, set[str]]:
    """What a recovery says, whose store fails three times after ``after`` calls; ``None`` if it says why it cannot."""
    calls = 0
    method = failing._journal

    class Counting:
        def __getattr__(self, name: str) -> Any:
            nonlocal calls
            calls += 1
            if calls == after:
                failing.times = 3
            return getattr(method, name)

    failing._journal = Counting()  # type: ignore[assignment]
    try:
        done = await runtime.recover()
    except StoreLocked:
        return None, set()
    return set(done.runs), set(done.failed)


def test_asking_and_resuming_at_once_performs_the_run_once() -> None:
    """On a store that is waited for, two requests of one process to perform a run overlap."""

    async def scene() -> None:
        office = new_office(Errand(tools=("mail",), more=True))
        life = Life()

        async def both() -> None:
            async with office.process(life) as runtime:
                run = await runtime.start("clerk", "go", run_id=RUN, perform=False)
                run_again = await runtime.open(RUN)
                await asyncio.gather(run.resume(), run_again.resume(), run.send("one thing more", key="more"))
                state = await run.wait()
                assert (state.status, state.turn) == ("idle", 2)

        await life.live(both(), office.clock)
        events = await events_of(office)
        check_effects(events, office.world)
        assert not [one for one in (await calls_of(office)).values() if one.resolved]

    asyncio.run(scene())


class SentAtTheEnd:
    """A journal during whose giving back of the lease somebody asks for more."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal = journal
        self.ask: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def release_lease(self, lease: Lease) -> None:
        ask, self.ask = self.ask, None
        if ask is not None:
            await ask()
        await self._journal.release_lease(lease)


def test_an_input_that_comes_as_the_performer_leaves_is_performed_all_the_same() -> None:
    async def scene(clock: FakeClock) -> None:
        store = SentAtTheEnd(MemoryJournal())

        @tool(read_only=True)
        async def look() -> str:
            return "seen"

        async with process(store, clock, look) as runtime:
            run = await runtime.start("a", "go", run_id=RUN)
            asked: list[asyncio.Task[None]] = []

            async def ask() -> None:
                asked.append(asyncio.ensure_future(run.send("again")))
                await settle()

            store.ask = ask
            await carried(run.wait(), clock)
            await carried(asked[0], clock)
            state = await carried(run.wait(), clock)
            assert (state.status, state.turn) == ("idle", 2)

    in_time(scene)()
