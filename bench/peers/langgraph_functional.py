"""LangGraph's functional API: the loop is plain code, and every model or tool call is a recorded task."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.pregel import Pregel

from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS, effect
from bench.peers import Durability, Figure
from bench.peers._langgraph import DURABILITY_SET_BY, Performed, saver
from bench.script import Script, script

_CONFIG: dict[str, Any] = {"configurable": {"thread_id": "run"}}


class Functional:
    """Recovery calls the entrypoint again and gives recorded tasks their recorded results."""

    durability_set_by = DURABILITY_SET_BY

    def __init__(self) -> None:
        # Its recorded tasks cannot be listed or read at a step without running the entrypoint,
        # so "state at a step" and "history" have no counterpart.
        self.figures: dict[str, Figure] = {"first_step_ms": _first_step}

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        work = script(steps)
        with saver(folder, durability) as store:
            loop = _entrypoint(store, work)
            with measured() as cost:
                loop.invoke(steps, _CONFIG, durability="sync")
        return cost

    def prepare(self, *, steps: int, folder: Path) -> None:
        with saver(folder, "normal") as store:
            loop = _entrypoint(store, script(steps + 100), _stops_after(steps))
            with suppress(_StoppedError):
                loop.invoke(steps + 100, _CONFIG, durability="sync")

    def crash(self, *, folder: Path, witness: Path) -> None:
        with saver(folder, "full") as store:
            loop = _entrypoint(store, script(CRASH_STEPS), lambda number: effect(number, witness))
            loop.invoke(CRASH_STEPS, _CONFIG, durability="sync")

    def recover(self, *, folder: Path, witness: Path) -> str:
        with saver(folder, "full") as store:
            loop = _entrypoint(store, script(CRASH_STEPS), lambda number: effect(number, witness))
            loop.invoke(None, _CONFIG, durability="sync")
        return "nothing: invoke(None) reused the recorded tasks and ran the unrecorded one again"


class _StoppedError(Exception):
    """The tool refused to go on: how a run is left unfinished for a later process."""


def _stops_after(steps: int) -> Performed:
    def performed(number: int) -> None:
        if number > steps:
            raise _StoppedError

    return performed


def _entrypoint(store: SqliteSaver, work: Script, performed: Performed = lambda number: None) -> Pregel:
    @task
    def model(number: int) -> dict[str, object]:
        return work[number - 1].assistant()

    @task
    def tool(number: int) -> str:
        performed(number)
        return work[number - 1].result

    @entrypoint(checkpointer=store)
    def loop(steps: int) -> int:
        messages: list[object] = []
        for number in range(1, steps + 1):
            messages.append(model(number).result())
            messages.append(tool(number).result())
        return len(messages)

    return loop


def _first_step(folder: Path, steps: int) -> float:
    work = script(steps + 100)
    # The call of step `steps + 1` is on record, its result is not: that tool is the first new work. It refuses
    # again, so that the next repeat finds the same run.
    with measured() as cost, saver(folder, "normal") as store, suppress(_StoppedError):
        _entrypoint(store, work, _stops_after(steps)).invoke(None, _CONFIG, durability="sync")
    return cost.wall_ms


PEER = Functional()
