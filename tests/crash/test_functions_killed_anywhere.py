"""A function's run is killed at every crossing of a port, and again while it recovers: the same promises hold.

The errands, the world and the verdicts are those of the clerk; only the loop is somebody else's code.
"""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from forkpoint.agents.function import Function, record
from forkpoint.agents.tool import Tool
from forkpoint.commands import Verdict
from forkpoint.errors import RunIsPaused, RunNotFound, RunWaits
from forkpoint.messages import CallPart, Message, answer, user
from forkpoint.ports import Clock, Journal, Model, ModelRequest
from forkpoint.runtime.recorder import current
from forkpoint.runtime.runtime import Runtime
from forkpoint.state import RunState
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.crash import Life
from forkpoint.testing.fakes import FakeClock
from forkpoint.wiring import connect

from .clerk import ALL, ATTEMPTS, RUN, Errand, Look, Office, decide
from .test_killed_anywhere import VERDICTS, kill, run_case, survive

ONE = [Errand(tools=(name,)) for name in ALL]
ERRANDS = [
    *ONE,
    *(Errand(tools=(name,), faulty=True) for name in ALL),
    Errand(tools=ALL),
    Errand(tools=ALL, gated=True),
    Errand(tools=ALL, paused=True),
    Errand(tools=ALL, faulty=True),
    Errand(tools=("mail", "charge"), asks=True),
    Errand(tools=("charge", "mail"), steps=2),
]


def loop_over(model: Model, tools: list[Tool[..., Any]]) -> Function[..., Any]:
    """A loop somebody wrote, which runs what the model asks for at once."""
    by_name = {tool.name: tool for tool in tools}

    async def called(part: CallPart) -> Message:
        recorder = current()
        assert recorder is not None
        tool = by_name[part.name]
        return answer(part.id, (await recorder.tool(tool, part.arguments, call=part.id)).told)

    @record(name="clerk")
    async def loop(task: str) -> str:
        messages = [user(task)]
        recorder = current()
        assert recorder is not None
        while True:
            request = ModelRequest(model=model.name, instructions="", messages=tuple(messages))
            said = (await recorder.model(request, model.respond, attempts=ATTEMPTS)).message
            messages.append(said)
            if not said.calls:
                return said.text
            messages += await asyncio.gather(*(called(part) for part in said.calls))

    return loop


class FunctionOffice(Office):
    """The same office, whose clerk is a function."""

    loop: Function[..., Any]

    def _connect(self, journal: Journal, model: Any, having: list[Tool[..., Any]], clock: Clock) -> Runtime:
        self.loop = loop_over(model, having)
        return connect(journal, functions=[self.loop], clock=clock, lease_s=self.lease_s, grace_s=self.grace_s)

    async def attend(self, life: Life, *, verdict: Verdict = "abandoned_unknown", look: Look | None = None) -> RunState:
        runtime = self.process(life)
        loop = self.loop
        async with runtime:
            recovered = await runtime.recover()
            assert not recovered.failed, recovered.failed
            if look is not None:
                with suppress(RunNotFound):
                    # One that waits is not called by recovery; whoever calls it may find more to ask for.
                    run = await runtime.open(RUN)
                    await run.resume()
                    await run.wait()
                await look(runtime)
            while True:
                try:
                    assert await runtime.record(RUN, loop, "go") == "done"
                    return await (await runtime.open(RUN)).state()
                except (RunWaits, RunIsPaused):
                    run = await runtime.open(RUN)
                    await decide(run, await run.state(), verdict)


def new_office(errand: Errand) -> FunctionOffice:
    return FunctionOffice(errand, MemoryJournal().beside, FakeClock())


async def crossings(errand: Errand, *deaths: int) -> Any:
    office = new_office(errand)
    for at in deaths:
        await kill(office, at)
    life = Life()
    await life.live(office.attend(life), office.clock)
    return life.crossings


@pytest.mark.parametrize("errand", ERRANDS, ids=str)
def test_a_function_killed_once_at_any_crossing_loses_and_doubles_nothing(errand: Errand) -> None:
    async def case() -> int:
        places = await crossings(errand)
        for place in places:
            office = new_office(errand)
            life = await kill(office, place.number)
            assert life.over
            await survive(office, [life], VERDICTS[place.number % len(VERDICTS)])
        return len(places)

    run_case(case, at_least=40)


@pytest.mark.parametrize("errand", [*ONE, Errand(tools=ALL)], ids=str)
def test_a_function_killed_again_while_it_recovers_loses_and_doubles_nothing(errand: Errand) -> None:
    async def case() -> int:
        kills = 0
        firsts = [place.number for place in await crossings(errand) if place.lasting]
        for first in firsts[:: 1 + len(firsts) // 12]:
            seconds = [place.number for place in await crossings(errand, first) if place.lasting]
            for second in seconds[:: 1 + len(seconds) // 8]:
                kills += 1
                office = new_office(errand)
                lives = [await kill(office, first), await kill(office, second)]
                await survive(office, lives, VERDICTS[second % len(VERDICTS)])
        return kills

    run_case(case, at_least=30)
