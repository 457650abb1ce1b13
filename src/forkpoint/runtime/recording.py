"""``Runtime.record``: a function's run from its first call to what it returned, however often it is called for that."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from forkpoint._canon import canonical
from forkpoint.agents.asking import failed_as
from forkpoint.agents.function import Function, function_of
from forkpoint.commands import Unpause
from forkpoint.definition import Limits
from forkpoint.errors import (
    ForkpointError,
    FunctionOtherArguments,
    FunctionUnfit,
    ReplayDiverged,
    RunCalledOff,
    RunIsOfAgent,
    RunIsPaused,
    RunIsStopped,
    RunWaits,
)
from forkpoint.ids import check_run_id
from forkpoint.messages import Text
from forkpoint.runtime.arguments import one_of
from forkpoint.runtime.cell import Cell, Edge
from forkpoint.runtime.forking import fork
from forkpoint.runtime.function_past import past_of
from forkpoint.runtime.function_runs import FunctionPerformer
from forkpoint.runtime.performer import Performer
from forkpoint.runtime.reading import Reader
from forkpoint.state import RunState
from forkpoint.status import waits, was_called_off
from forkpoint.timetravel.patches import Patch

if TYPE_CHECKING:
    from forkpoint.runtime.runtime import Runtime


class Recording(Struct, frozen=True, kw_only=True):
    """How a function is recorded: see ``Runtime.record``."""

    labels: Mapping[str, str] | None = None
    limits: Limits | None = None
    workspace: str | os.PathLike[str] | None = None
    actor: str | None = None
    on_divergence: Literal["raise", "fork"] = "raise"


async def record(
    runtime: "Runtime",
    run_id: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    how: Recording,
) -> Any:
    """See ``Runtime.record``."""
    one_of("on_divergence", how.on_divergence, ("raise", "fork"))
    known = function_of(function)
    cell = await runtime.function_cell(check_run_id(run_id), known, args, named, how)
    first_left: list[int] = []
    try:
        return await _called(runtime, cell, known, first_left)
    except ReplayDiverged:
        if how.on_divergence == "raise":
            raise
    child = await _apart(runtime, cell, first_left[0])
    return await _called(runtime, child, known, [])


async def _called(runtime: "Runtime", cell: Cell, function: Function[..., Any], first_left: list[int]) -> Any:
    """Perform a function's run here until it rests: what the function returned.

    Where it diverged, the first effect that it did not ask for is added to ``first_left``.
    """
    state = await cell.refresh()
    _check_function(state, function)
    performer = None
    if state.returned is None:
        if state.failure is not None or was_called_off(state):
            await cell.submit(Unpause())
        await runtime.perform(cell, accept_changes=False)
        performer, task = runtime.performer(cell.run), runtime.performing(cell.run)
        try:
            if task is not None:
                await _until(task, performer)
        except ReplayDiverged:
            assert isinstance(performer, FunctionPerformer)
            first_left += [one.effect for one in performer.recorder.record.left()][:1]
            raise
    raised = performer.raised if isinstance(performer, FunctionPerformer) else None
    return await _came_of(runtime.edge.reader, await cell.refresh(), function, raised)


async def check_arguments(edge: Edge, run: str, function: Function[..., Any], given: Mapping[str, Any]) -> None:
    """Raises ``function.other-arguments`` unless the function of ``run`` is called with those."""
    state = (await edge.reader.load(run)).state
    if state.function is None:
        return  # told as the other run that it is
    recorded = (await past_of(edge.reader, run)).arguments
    # By name or by place is the same, if the function still takes what is on record.
    with suppress(FunctionUnfit):
        recorded = function.written(tuple(recorded["args"]), recorded["named"])
    if edge.writer.from_outside(Text(extra=dict(given))).extra != recorded:
        asked, there = (canonical(one).decode()[:200] for one in (given, recorded))
        raise FunctionOtherArguments(run=run, function=state.function, recorded=there, given=asked)


async def _until(task: "asyncio.Task[RunState]", performer: Performer | None) -> None:
    """Wait for a performer. Where that is called off, what is in flight is signalled, and recorded if it ends."""
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if performer is not None:
            await performer.close()
            await asyncio.wait([task])
        raise


async def _apart(runtime: "Runtime", cell: Cell, first: int) -> Cell:
    """A fork from before the first effect that the code did not ask for."""
    child = await fork(
        runtime.edge,
        cell.run,
        await runtime.edge.reader.load(cell.run, upto=first - 1),
        patch=Patch(),
        run_id=None,
        effects="live",
        pending="hold",
        workspace=None,
        labels=None,
        actor=None,
    )
    return await runtime.cell(child)


def _check_function(state: RunState, function: Function[..., Any]) -> None:
    """Raises ``function.other-run`` unless the run is a call of ``function``."""
    if state.function != function.name:
        owner = f"the function {state.function}" if state.function else f"the agent {state.agent.name}"
        raise RunIsOfAgent(run=state.run, function=function.name, owner=owner)


async def _came_of(reader: Reader, state: RunState, function: Function[..., Any], raised: BaseException | None) -> Any:
    """What the function of a run at rest returned; raises what keeps it from having returned."""
    if state.returned is not None:
        return function.result((await reader.whole(state.returned)).value)
    if was_called_off(state) and not isinstance(raised, ForkpointError):
        raise RunCalledOff(run=state.run)
    if raised is not None:
        raise raised
    if state.stopped:
        raise RunIsStopped(run=state.run)
    if state.paused is not None:
        raise RunIsPaused(run=state.run, reason=state.paused.reason or "by a person")
    if state.failure is not None:
        failure = await reader.whole(state.failure)
        raise failed_as(failure.error, failure.text, 0)
    found = waits(state)
    if found:
        told = "; ".join(f"{wait.name} (effect {wait.effect}): {wait.says}" for wait in found)
        raise RunWaits(run=state.run, count=len(found), waits=told)
    raise RunCalledOff(run=state.run)
