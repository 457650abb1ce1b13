"""A run is killed at every crossing of a port, and again while it recovers; what must hold afterwards, holds.

To die at a crossing that changes nothing outside (a read, the clock) leaves behind what the crossing before it does.
First deaths are at all of them all the same; second ones only where something lasting may have changed, and only
once for every different thing that a first death leaves behind.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import get_args

import pytest

from forkpoint.commands import Verdict
from forkpoint.errors import RunNotFound
from forkpoint.events import RecordedEvent
from forkpoint.runtime.runtime import Runtime
from forkpoint.state import RunState
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.crash import Crossing, Killed, Life
from forkpoint.testing.fakes import FakeClock

from .clerk import ALL, RUN, Errand, Office
from .verdicts import check_effects, check_finished, in_doubt

ONE = [Errand(tools=(name,)) for name in ALL]
GATED = [Errand(tools=(name,), gated=True) for name in ALL]
QUEUED = [Errand(tools=(name,), paused=True) for name in ALL]
LATER = [Errand(tools=(name,), faulty=True) for name in ALL]
PARALLEL = [
    Errand(tools=ALL),
    Errand(tools=ALL, gated=True),
    Errand(tools=ALL, paused=True),
    Errand(tools=ALL, faulty=True),
    Errand(tools=("mail", "charge"), asks=True, more=True),
]
ERRANDS = [*ONE, *GATED, *QUEUED, *LATER, *PARALLEL]
AGAIN = [*ONE, *LATER, *PARALLEL]
"""Gated and queued calls are killed again side by side, in those of ``PARALLEL``."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def new_office(errand: Errand) -> Office:
    return Office(errand, MemoryJournal().beside, FakeClock())


async def kill(office: Office, at: int) -> Life:
    """One process that dies at crossing ``at``, if it comes to that."""
    life = Life(dies_at=at)
    with suppress(Killed):
        await life.live(office.attend(life), office.clock)
    return life


async def crossings(errand: Errand, *deaths: int) -> Sequence[Crossing]:
    """The crossings of a whole life, after lives that died as told."""
    office = new_office(errand)
    for at in deaths:
        await kill(office, at)
    life = Life()
    await life.live(office.attend(life), office.clock)
    return life.crossings


async def events_of(office: Office) -> list[RecordedEvent]:
    async with office.onlooker() as runtime:
        try:
            return await (await runtime.open(RUN)).history()
        except RunNotFound:
            return []


def acknowledged(lives: Sequence[Life], events: Sequence[RecordedEvent]) -> None:
    """What any journal call of any life returned for is there, as it was."""
    for life in lives:
        for one in life.acknowledged:
            assert events[one.seq - 1].digest == one.digest


async def survive(office: Office, lives: Sequence[Life], verdict: Verdict) -> list[RecordedEvent]:
    """Another process picks up what is left, and everything that must hold is looked at on the way."""
    before = await events_of(office)
    doubts = in_doubt(before)
    check_effects(before, office.world)

    async def recovered(_: Runtime) -> None:
        async with office.onlooker() as other:
            if not before:
                return
            run = await other.open(RUN)
            state, head = await run.state(), await run.digest()
            assert state.status in ("waiting", "idle", "paused")
            if state.status != "paused":
                assert doubts <= {wait.effect for wait in state.waits if wait.kind == "unknown"}
            await other.recover()
            await run.resume()
            await run.wait()
            assert await run.digest() == head, "a second recovery recorded something"

    life = Life()
    state = await life.live(office.attend(life, verdict=verdict, look=recovered), office.clock)
    events = await events_of(office)
    acknowledged([*lives, life], events)
    check_finished(office.errand, office.world, events, state)
    await unmoved(office, state)
    return events


async def unmoved(office: Office, state: RunState) -> None:
    life = Life()
    again = await life.live(office.attend(life), office.clock)
    assert (again.seq, again.status) == (state.seq, "idle")


def run_case(case: Callable[[], Awaitable[int]], at_least: int) -> None:
    cases = asyncio.run(case())  # type: ignore[arg-type]
    print(f"{cases} cases")
    assert cases >= at_least


@pytest.mark.parametrize("errand", ERRANDS, ids=str)
def test_killed_once_at_any_crossing_nothing_is_lost_or_doubled(errand: Errand) -> None:
    async def case() -> int:
        places = await crossings(errand)
        for place in places:
            office = new_office(errand)
            life = await kill(office, place.number)
            assert life.over
            await survive(office, [life], VERDICTS[place.number % len(VERDICTS)])
        return len(places)

    run_case(case, at_least=40)


@pytest.mark.parametrize("errand", AGAIN, ids=str)
def test_killed_again_while_it_recovers_nothing_is_lost_or_doubled(errand: Errand) -> None:
    async def case() -> int:
        kills, seen = 0, set()
        for first in [place.number for place in await crossings(errand) if place.lasting]:
            if await left_behind(errand, seen, first) is None:
                continue
            for second in [place.number for place in await crossings(errand, first) if place.lasting]:
                kills += 1
                left = await left_behind(errand, seen, first, second)
                if left is not None:
                    await survive(*left, VERDICTS[second % len(VERDICTS)])
        return kills

    run_case(case, at_least=100)


async def left_behind(errand: Errand, seen: set[object], *deaths: int) -> tuple[Office, list[Life]] | None:
    """What lives that died as told leave behind; ``None`` if a recovery could not tell it from what was ``seen``."""
    office = new_office(errand)
    lives = [await kill(office, at) for at in deaths]
    events = tuple(_as_left(one) for one in await events_of(office))
    async with office.onlooker() as runtime:
        leased = tuple([row.owner is not None async for row in runtime.all_runs()])
    aftermath = repr((len(deaths), events, leased, office.world.entries))
    if aftermath in seen:
        return None
    seen.add(aftermath)
    return office, lives


def _as_left(recorded: RecordedEvent) -> tuple[object, ...]:
    event = recorded.event
    outcome = getattr(event, "outcome", None)
    return type(event), getattr(event, "effect", None), type(outcome), getattr(event, "then", None)
