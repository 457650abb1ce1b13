"""DBOS on SQLite: the loop is one durable function, every model and tool call a step of it."""

from pathlib import Path
from typing import Protocol

from dbos import DBOS, SetWorkflowID

from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS, effect
from bench.peers import Durability, Figure
from bench.peers._dbos import DURABILITY_SET_BY, RUN_ID, Hold, configure, history, recovered, state_half
from bench.script import Script, script


class _Loop(Protocol):
    def __call__(self, steps: int) -> int: ...


class DbosSteps:
    """Recovery runs the function again and gives recorded steps their recorded results."""

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
        with measured() as cost, SetWorkflowID(RUN_ID):
            loop(steps)
        DBOS.destroy()
        return cost

    def prepare(self, *, steps: int, folder: Path) -> None:
        configure(folder, "normal")
        hold = Hold(at_tool=steps + 1)
        loop = _loop(script(steps + 100), hold=hold)
        DBOS.launch()
        with SetWorkflowID(RUN_ID):
            DBOS.start_workflow(loop, steps + 100)
        hold.reached.wait()

    def crash(self, *, folder: Path, witness: Path) -> None:
        configure(folder, "full")
        loop = _loop(script(CRASH_STEPS), witness=witness)
        DBOS.launch()
        with SetWorkflowID(RUN_ID):
            loop(CRASH_STEPS)

    def recover(self, *, folder: Path, witness: Path) -> str:
        configure(folder, "full")
        _loop(script(CRASH_STEPS), witness=witness)
        DBOS.launch()
        return recovered()


def _loop(work: Script, *, hold: Hold | None = None, witness: Path | None = None) -> _Loop:
    @DBOS.step(name="model")
    def model(number: int) -> dict[str, object]:
        if hold is not None:
            hold.model_asked()
        return work[number - 1].assistant()

    @DBOS.step(name="tool")
    def tool(number: int) -> str:
        if hold is not None:
            hold.tool_asked(number)
        if witness is not None:
            effect(number, witness)
        return work[number - 1].result

    @DBOS.workflow(name="loop")
    def loop(steps: int) -> int:
        messages: list[object] = []
        for number in range(1, steps + 1):
            messages.append(model(number))
            messages.append(tool(number))
        return len(messages)

    return loop


def _first_step(folder: Path, steps: int) -> float:
    hold = Hold()
    work = script(steps + 100)
    with measured() as cost:
        configure(folder, "normal")
        _loop(work, hold=hold)
        DBOS.launch()
        hold.reached.wait()
    return cost.wall_ms


PEER = DbosSteps()
