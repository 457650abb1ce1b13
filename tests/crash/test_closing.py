"""A process that closes, or fails, lets what is in flight end in its time, and leaves the rest to recovery."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from forkpoint.agents.tool import Finding, Occurred, StillUnknown, ToolContext, tool
from forkpoint.errors import StoreFull
from forkpoint.outcomes import Succeeded
from forkpoint.ports import Append
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock

from .clerk import RUN
from .desk import Bell, carried, in_time, process
from .verdicts import told


@in_time
async def test_closing_cuts_a_call_short_and_leaves_it_to_recovery(clock: FakeClock) -> None:
    bell, store = Bell(), MemoryJournal()

    @tool
    async def mail() -> str:
        await bell.wait()
        return "sent"

    runtime = process(store.beside(), clock, mail)
    await runtime.start("a", "go", run_id=RUN)
    await bell.rung.wait()
    await carried(runtime.close(), clock)
    async with process(store.beside(), clock, mail) as later:
        run = await later.open(RUN)
        assert (await run.row()).owner is None
        assert (await run.brief()).status == "running"
        await carried(later.recover(), clock)
        (wait,) = await run.waits()
        assert (wait.kind, wait.name) == ("unknown", "mail")


@in_time
async def test_a_call_that_ends_within_the_grace_period_of_a_close_is_recorded(clock: FakeClock) -> None:
    bell, store = Bell(), MemoryJournal()

    @tool
    async def mail(ctx: ToolContext) -> str:
        try:
            await bell.wait()
        except asyncio.CancelledError:
            return "sent all the same"
        return "sent"

    runtime = process(store.beside(), clock, mail)
    await runtime.start("a", "go", run_id=RUN)
    await bell.rung.wait()
    await carried(runtime.close(), clock)
    async with process(store.beside(), clock, mail) as later:
        run = await later.open(RUN)
        (outcome,) = [one.settled[-1].outcome for one in told(await run.history()).values() if one.seq > 3]
        assert outcome == Succeeded(value="sent all the same")


@in_time
async def test_a_call_that_ignores_a_close_does_not_keep_the_process(clock: FakeClock) -> None:
    bell, store = Bell(), MemoryJournal()

    @tool
    async def mail() -> str:
        while not bell.go.is_set():
            with suppress(asyncio.CancelledError):
                await bell.wait()
        return "sent"

    runtime = process(store.beside(), clock, mail)
    await runtime.start("a", "go", run_id=RUN)
    await bell.rung.wait()
    await carried(runtime.close(), clock)
    async with process(store.beside(), clock, mail) as later:
        await carried(later.recover(), clock)
        (wait,) = await (await later.open(RUN)).waits()
        assert wait.kind == "unknown"
    bell.go.set()


@in_time
async def test_a_probe_that_never_answers_does_not_keep_the_process(clock: FakeClock) -> None:
    bell, store = Bell(), MemoryJournal()

    async def silent(ctx: ToolContext) -> Finding:
        await bell.wait()
        return StillUnknown()

    @tool(reconcile=silent)
    async def book() -> str:
        raise ConnectionError("cut off")

    runtime = process(store.beside(), clock, book)
    await runtime.start("a", "go", run_id=RUN)
    await bell.rung.wait()
    await carried(runtime.close(), clock)

    async def answering(ctx: ToolContext) -> Finding:
        return Occurred("booked")

    @tool(name="book", reconcile=answering)
    async def book_again() -> str:
        raise AssertionError("it has taken place")

    async with process(store.beside(), clock, book_again) as later:
        await carried(later.recover(), clock)
        assert (await (await later.open(RUN)).brief()).output == "done"


@in_time
async def test_an_interrupt_gives_a_silent_probe_its_grace_and_then_a_person_decides(clock: FakeClock) -> None:
    bell = Bell()

    async def silent(ctx: ToolContext) -> Finding:
        await bell.wait()
        return StillUnknown()

    @tool(reconcile=silent)
    async def book() -> str:
        raise ConnectionError("cut off")

    async with process(MemoryJournal(), clock, book) as runtime:
        run = await runtime.start("a", "go", run_id=RUN)
        await bell.rung.wait()
        await run.interrupt("enough")
        state = await carried(run.wait(), clock)
        assert [wait.kind for wait in state.waits] == ["unknown"]


class FullOnce:
    """A journal whose store has no room for the outcome of ``tool``, the first time."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal, self.full = journal, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, append: Append) -> None:
        if self.full:
            self.full = False
            raise StoreFull(path="memory:")
        await self._journal.append(append)


@in_time
async def test_an_outcome_that_could_not_be_written_does_not_take_its_siblings_along(clock: FakeClock) -> None:
    slow, store = Bell(), FullOnce(MemoryJournal())

    @tool(idempotent=True)
    async def quick(ctx: ToolContext) -> str:
        await slow.rung.wait()
        store.full = ctx.attempt == 1
        return "charged"

    @tool
    async def mail() -> str:
        try:
            await slow.wait()
        except asyncio.CancelledError:
            return "sent all the same"
        return "sent"

    async with process(store, clock, quick, mail) as runtime:
        run = await runtime.start("a", "go", run_id=RUN)
        with pytest.raises(StoreFull):
            await carried(run.wait(), clock)
        outcomes = [one.settled[-1].outcome if one.settled else None for one in told(await run.history()).values()]
        assert outcomes[1:] == [None, Succeeded(value="sent all the same")]
        await run.resume()
        assert (await carried(run.wait(), clock)).output == "done"
