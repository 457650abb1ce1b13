"""A life ends where it is told to, and nothing of it comes after."""

import asyncio

import pytest

from forkpoint.errors import RunBusy
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.crash import Killed, Life, crossings
from forkpoint.testing.fakes import FakeClock

from .clerk import RUN, Errand, Office


def office() -> Office:
    return Office(Errand(tools=("mail",)), MemoryJournal().beside, FakeClock())


def test_the_crossings_of_a_life_are_the_same_every_time_and_name_what_crossed() -> None:
    async def scene() -> None:
        first, second = [await crossings(each.attend, each.clock) for each in (office(), office())]
        assert first == second
        assert [one.number for one in first] == list(range(1, len(first) + 1))
        assert {"journal.append", "journal.take_lease", "model", "tool.mail", "clock.now_ms"} <= {
            one.what for one in first
        }
        assert {one.what for one in first if one.lasting} >= {"journal.append", "tool.mail", "model"}

    asyncio.run(scene())


def test_before_a_crossing_it_has_not_happened_and_after_it_it_has() -> None:
    async def scene() -> None:
        whole = await crossings((one := office()).attend, one.clock)
        for place in [each for each in whole if each.what == "tool.mail"]:
            here = office()
            with pytest.raises(Killed):
                await (life := Life(dies_at=place.number)).live(here.attend(life), here.clock)
            assert len(here.world.keys()) == (place.side == "after")

    asyncio.run(scene())


def test_a_life_that_ended_writes_and_gives_back_nothing_and_its_owner_is_known_to_be_dead() -> None:
    async def scene() -> None:
        whole = await crossings((one := office()).attend, one.clock)
        place = next(each for each in whole if each.what == "tool.mail")
        store = MemoryJournal()
        here = Office(Errand(tools=("mail",)), store.beside, FakeClock())
        life = Life(dies_at=place.number)
        with pytest.raises(Killed):
            await life.live(here.attend(life), here.clock)
        assert life.crossings[-1] == place
        row = await store.row(RUN)
        assert row is not None and row.owner is not None and row.owner_alive is False
        for cross in (lambda: life.cross("more", "before", lasting=True), life.clock(here.clock).now_ms):
            with pytest.raises(Killed):
                cross()
        assert len(life.crossings) == place.number
        try:
            await store.take_lease(RUN, owner="heir", now_ms=0, until_ms=1)
        except RunBusy:
            pytest.fail("a dead owner holds on to its run")

    asyncio.run(scene())
