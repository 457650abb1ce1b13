"""Pydantic AI's own durable execution on DBOS with SQLite: model requests and the tool are DBOS steps."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability

from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS
from bench.peers import Durability, Figure
from bench.peers._dbos import DURABILITY_SET_BY, RUN_ID, Hold, configure, history, recovered, state_half
from bench.peers._pydantic_ai import NO_LIMIT, answers, scripted_model
from bench.script import PROMPT, TOOL, Script, script


class PydanticAiDbos:
    """The agent runs inside a durable function; recovery runs it again over the recorded steps."""

    durability_set_by = DURABILITY_SET_BY

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {
            "first_step_ms": _first_step,
            "state_half_ms": state_half,
            "history_ms": history,
        }

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        configure(folder, durability)
        loop = _loop(script(steps))
        DBOS.launch()
        return asyncio.run(_measured_run(loop))

    def prepare(self, *, steps: int, folder: Path) -> None:
        configure(folder, "normal")
        hold = Hold(at_tool=steps + 1)
        loop = _loop(script(steps + 100), hold=hold)
        DBOS.launch()
        with SetWorkflowID(RUN_ID):
            DBOS.start_workflow(loop, PROMPT)
        hold.reached.wait()

    def crash(self, *, folder: Path, witness: Path) -> None:
        configure(folder, "full")
        loop = _loop(script(CRASH_STEPS), witness=witness)
        DBOS.launch()
        asyncio.run(_measured_run(loop))

    def recover(self, *, folder: Path, witness: Path) -> str:
        configure(folder, "full")
        _loop(script(CRASH_STEPS), witness=witness)
        DBOS.launch()
        return recovered()


_Loop = Callable[[str], Awaitable[str]]


def _loop(work: Script, *, hold: Hold | None = None, witness: Path | None = None) -> _Loop:
    model = scripted_model(work, asked=hold.model_asked) if hold else scripted_model(work)
    agent = Agent(model, name="bench", capabilities=[DBOSDurability()])
    answer = answers(work, witness)

    # A plain tool is not a step for DBOS: without this decorator a crash would repeat every tool of the run.
    @agent.tool_plain(name=TOOL)
    @DBOS.step(name="tool")
    async def look_up(number: int) -> str:
        if hold is not None:
            hold.tool_asked(number)
        return answer(number)

    @DBOS.workflow(name="loop")
    async def loop(prompt: str) -> str:
        result = await agent.run(prompt, usage_limits=NO_LIMIT)
        return result.output

    return loop


async def _measured_run(loop: _Loop) -> Cost:
    with measured() as cost, SetWorkflowID(RUN_ID):
        await loop(PROMPT)
    DBOS.destroy()
    return cost


def _first_step(folder: Path, steps: int) -> float:
    hold = Hold()
    work = script(steps + 100)
    with measured() as cost:
        configure(folder, "normal")
        _loop(work, hold=hold)
        DBOS.launch()
        hold.reached.wait()
    return cost.wall_ms


PEER = PydanticAiDbos()
