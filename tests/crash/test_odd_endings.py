"""However a tool ends, its call has an outcome, its siblings have theirs, and the run goes on."""

import asyncio
import threading
from typing import Any

import pytest

from forkpoint.agents.agent import Agent
from forkpoint.agents.tool import Finding, NotOccurred, ToolContext, tool
from forkpoint.errors import SecretMissing
from forkpoint.outcomes import Failed, Succeeded, Unknown
from forkpoint.runtime.run import Run
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock, ScriptedModel, call, calls
from forkpoint.wiring import connect

from .clerk import RUN
from .desk import Bell, carried, in_time, process
from .verdicts import told


async def outcomes(run: Run) -> dict[str, Any]:
    """The last outcome of each tool's call."""
    effects = told(await run.history()).values()
    return {one.effect.tool: one.settled[-1].outcome for one in effects if hasattr(one.effect, "tool") and one.settled}


async def cancels_itself() -> str:
    """End as code does that awaits something which somebody has cancelled."""
    inner = asyncio.ensure_future(asyncio.Event().wait())
    inner.cancel()
    await inner
    return "never"


async def recorded(run: Run, name: str) -> None:
    """Wait until a call of ``name`` has its last outcome on record; tools in threads take time of their own."""
    async for _ in run.watch(after=0):
        if isinstance((await outcomes(run)).get(name), Succeeded | Failed):
            return


@in_time
async def test_a_tool_whose_own_task_was_cancelled_is_in_doubt_and_its_run_goes_on(clock: FakeClock) -> None:
    """Nobody called the tool off: something inside it was cancelled, and nobody knows how far it had come."""

    @tool(read_only=True)
    async def look() -> str:
        return await cancels_itself()

    @tool
    async def mail() -> str:
        return await cancels_itself()

    async with process(MemoryJournal(), clock, look, mail) as runtime:
        run = await runtime.start("a", "go", run_id=RUN)
        state = await carried(run.wait(), clock)
        assert [(wait.kind, wait.name) for wait in state.waits] == [("unknown", "mail")]
        ended = await outcomes(run)
        assert isinstance(ended["look"], Failed)
        assert isinstance(ended["mail"], Unknown) and ended["mail"].because == "cancelled"
        await run.resolve(state.waits[0].effect, "abandoned_unknown")
        assert (await carried(run.wait(), clock)).output == "done"


@in_time
async def test_a_tool_in_a_thread_may_end_in_any_exception(clock: FakeClock) -> None:
    @tool(read_only=True)
    def look() -> str:
        return str(next(iter([])))

    async with process(MemoryJournal(), clock, look) as runtime:
        run = await runtime.start("a", "go", run_id=RUN)
        await recorded(run, "look")
        assert (await carried(run.wait(), clock)).output == "done"
        assert "StopIteration" in (await outcomes(run))["look"].text


@in_time
async def test_a_call_that_was_called_off_leaves_no_trace_in_the_next(clock: FakeClock) -> None:
    """What is cancelled inside the next call is that call's own affair, though its task was cancelled before."""
    bell = Bell()

    @tool(read_only=True)
    async def look() -> str:
        if not bell.rung.is_set():
            await bell.wait()
        return await cancels_itself()

    async with process(MemoryJournal(), clock, look) as runtime:
        run = await runtime.start("a", "go", run_id=RUN)
        await bell.rung.wait()
        await run.send("again")
        await run.interrupt("not like this")
        state = await carried(run.wait(), clock)
        assert (state.status, state.turn, state.output) == ("idle", 2, "done")
        assert isinstance((await outcomes(run))["look"], Failed)


@in_time
async def test_a_probe_that_is_no_coroutine_does_not_hold_up_the_siblings(clock: FakeClock) -> None:
    held = threading.Event()

    def slowly(ctx: ToolContext) -> Finding:
        held.wait(30)
        return NotOccurred()

    @tool(reconcile=slowly)
    async def book(ctx: ToolContext) -> str:
        if ctx.attempt == 1:
            raise ConnectionError("cut off")
        return "booked"

    @tool
    async def mail() -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        held.set()
        return "sent"

    async with process(MemoryJournal(), clock, book, mail) as runtime:
        run = await runtime.start("a", "go", run_id=RUN)
        await recorded(run, "mail")
        await recorded(run, "book")
        assert await outcomes(run) == {"book": Succeeded(value="booked"), "mail": Succeeded(value="sent")}


@in_time
async def test_a_call_that_cannot_be_made_ready_was_not_tried_and_is_never_in_doubt(clock: FakeClock) -> None:
    """A secret in its arguments is not registered in the process that is to perform it."""
    store = MemoryJournal()
    went: list[str] = []

    @tool(approval=True)
    async def mail(text: str) -> str:
        went.append(text)
        return "sent"

    @tool(approval=True)
    async def other() -> str:
        return "done"

    asked = calls(call("mail", text="the word is hunter2"), call("other"))

    def agent() -> Agent:
        model = ScriptedModel(lambda request: asked if request.messages[-1].text == "go" else "done")
        return Agent("a", model=model, tools=[mail, other])

    async with connect(store.beside(), agents=[agent()], clock=clock, secrets={"word": "hunter2"}) as runtime:
        run = await runtime.start("a", "go", run_id=RUN)
        waits = (await carried(run.wait(), clock)).waits
    async with connect(store.beside(), agents=[agent()], clock=clock) as runtime:
        run = await runtime.open(RUN)
        for wait in waits:
            await run.approve(wait.effect)
        await run.resume()
        with pytest.raises(SecretMissing):  # of the model call that would follow
            await carried(run.wait(), clock)
    async with connect(store.beside(), agents=[agent()], clock=clock, secrets={"word": "hunter2"}) as runtime:
        assert (await carried(runtime.recover(), clock)).runs == (RUN,)
        run = await runtime.open(RUN)
        assert (await run.brief()).output == "done"
        ended = await outcomes(run)
        assert (ended["mail"].error, ended["other"]) == ("SecretMissing", Succeeded(value="done"))
        assert went == []
