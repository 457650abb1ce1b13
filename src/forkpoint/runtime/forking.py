"""Making a fork: one event in a new run that shares its parent's past. Performs nothing, and reads little."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from forkpoint.agents.function import parts_of_arguments, written_arguments
from forkpoint.agents.tool import Tool
from forkpoint.definition import AgentRecord
from forkpoint.effects import ModelCall
from forkpoint.errors import (
    ForkAmbiguousCall,
    ForkNameTaken,
    ForkNoSuchCall,
    JournalConflict,
    PatchBad,
    PatchInvalid,
    RunExists,
)
from forkpoint.events import (
    ApprovalDecided,
    EffectResolved,
    EffectSettled,
    EffectsPolicy,
    Event,
    Pending,
    RecordedEvent,
    ResultPatch,
    RunForked,
)
from forkpoint.ids import check_run_id, fork_name
from forkpoint.inherit import inherited
from forkpoint.messages import Message, Part, ResponsePart, assistant
from forkpoint.outcomes import Unknown
from forkpoint.ports import Append
from forkpoint.runtime.cell import Edge
from forkpoint.runtime.places import AHEAD, calls_named
from forkpoint.runtime.reading import Loaded
from forkpoint.runtime.writing import Draft
from forkpoint.state import RunState
from forkpoint.status import summary
from forkpoint.timetravel.patches import Patch, ToolError, as_edits, edited, parts_of
from forkpoint.transcript import compile_messages, first_problem, known_messages, loose
from forkpoint.values import to_json


async def fork(
    edge: Edge,
    run: str,
    loaded: Loaded,
    *,
    patch: Patch,
    run_id: str | None,
    effects: EffectsPolicy,
    pending: Pending,
    workspace: str | None,
    labels: Mapping[str, str] | None,
    actor: str | None,
) -> str:
    """Fork ``run`` at a loaded moment of it; the child's id. Raises the ``fork.*`` and ``patch.*`` errors."""
    if loaded.state.function is not None:
        _check_function(patch)
        loaded = await _before_outcomes(edge, run, loaded, patch)
    elif patch.arguments is not UNSET:
        raise PatchBad(part="arguments", detail="only a function's run is called with any")
    parent, at = await edge.reader.row(run), loaded.state.seq
    forked = RunForked(
        parent=run,
        at=at,
        parent_head=parent.head,
        edits=UNSET,
        state=patch.state if patch.state is UNSET or patch.state is None else to_json(dict(patch.state)),
        agent=await _agent(edge, loaded.state, patch),
        changed=patch.changed,
        input=_input(patch),
        effects=effects,
        pending=pending,
        workspace=workspace,
        labels=dict(labels) if labels else None,
        actor=actor,
    )
    if patch.messages is not UNSET:
        loaded = await _whole(edge, loaded)
        told = known_messages(loaded.state)
        wanted = edited(told, patch.messages)
        forked = replace(forked, edits=as_edits(told, wanted, loose=loose(loaded.state)))
    forked = replace(forked, tool_results=await _results(edge, loaded, forked, patch.tool_results))
    _check(loaded.state, forked)
    return await _born(edge, loaded, forked, run_id)


def _check_function(patch: Patch) -> None:
    """Raises ``patch.bad`` for what a function's fork does not take."""
    if patch.messages is not UNSET:
        raise PatchBad(part="messages", detail="a function's code says what a model is shown; patch what it was told")
    if patch.input is not UNSET:
        raise PatchBad(part="input", detail="a function's run takes arguments; give Patch(arguments=…)")


def _input(patch: Patch) -> tuple[Part, ...] | UnsetType:
    if not isinstance(patch.arguments, UnsetType):
        return parts_of_arguments(written_arguments(patch.arguments))
    return UNSET if isinstance(patch.input, UnsetType) else parts_of(patch.input)


async def _before_outcomes(edge: Edge, run: str, loaded: Loaded, patch: Patch) -> Loaded:
    """The moment just before the first of the outcomes that ``patch`` changes came to be; ``loaded`` if none had."""
    upto = loaded.state.seq
    for name in patch.tool_results:
        for effect in await _effects_named(edge, loaded.state, name):
            upto = min(upto, await _ended(edge, run, effect, upto) - 1)
    return loaded if upto == loaded.state.seq else await edge.reader.load(run, upto=upto)


async def _effects_named(edge: Edge, state: RunState, name: str | int) -> Sequence[int]:
    if isinstance(name, int):
        return (name,) if 0 < name <= state.seq else ()
    return await calls_named(edge.reader, state.run, name, upto=state.seq)


async def _ended(edge: Edge, run: str, effect: int, upto: int) -> int:
    """The event by which ``effect`` had ended; the one after ``upto`` if it had not by then."""
    after = effect
    while after < upto:
        events = await edge.reader.history(run, after=after, upto=min(upto, after + AHEAD))
        for recorded in events:
            if _ends(recorded.event, effect):
                return recorded.seq
        after = events[-1].seq
    return upto + 1


def _ends(event: Event, effect: int) -> bool:
    match event:
        case EffectSettled():
            return event.effect == effect and event.then == "final" and not isinstance(event.outcome, Unknown)
        case EffectResolved() | ApprovalDecided():
            return event.effect == effect
        case _:
            return False


async def _whole(edge: Edge, loaded: Loaded) -> Loaded:
    state = await edge.reader.thaw(loaded)
    return replace(loaded, state=await edge.reader.whole_transcript(state))


async def _agent(edge: Edge, state: RunState, patch: Patch) -> AgentRecord | None:
    if not patch.changed:
        return None
    agent = await edge.reader.whole(state.agent)
    changes: dict[str, Any] = {}
    if not isinstance(patch.instructions, UnsetType):
        changes["instructions"] = patch.instructions
    if not isinstance(patch.model, UnsetType):
        changes["model"] = patch.model if isinstance(patch.model, str) else patch.model.name
    if not isinstance(patch.settings, UnsetType):
        changes["settings"] = to_json(dict(patch.settings)) or None
    if not isinstance(patch.tools, UnsetType):
        if not all(isinstance(tool, Tool) for tool in patch.tools):
            raise PatchBad(part="tools", detail="each must be a tool")
        changes["tools"] = tuple(tool.record() for tool in patch.tools)
    return replace(agent, **changes)


async def _results(
    edge: Edge, loaded: Loaded, forked: RunForked, wanted: Mapping[str | int, Any]
) -> tuple[ResultPatch, ...]:
    patches = []
    for name, given in wanted.items():
        effect, call = await _call(edge, loaded.state, forked, name)
        if not isinstance(forked.edits, tuple) and await _is_gone(edge, loaded, effect):
            raise ForkNoSuchCall(run=loaded.state.run, call=str(name), at=loaded.state.seq)
        opened = loaded.state.effects.get(effect)
        if opened is not None and isinstance(opened.effect, ModelCall) and not isinstance(given, ToolError):
            patches.append(ResultPatch(effect=effect, call=call, message=_said(given)))
        elif isinstance(given, ToolError):
            patches.append(ResultPatch(effect=effect, call=call, error=given.text))
        else:
            patches.append(ResultPatch(effect=effect, call=call, value=to_json(given)))
    return tuple(patches)


def _said(given: Any) -> Message:
    """A model's answer as a patch gives it. Raises ``patch.bad``."""
    if isinstance(given, str):
        return assistant(given)
    if isinstance(given, Message) and given.role == "assistant":
        return given
    raise PatchBad(part="tool_results", detail="a model's answer is a text or a message of the assistant's")


async def _call(edge: Edge, state: RunState, forked: RunForked, name: str | int) -> tuple[int, str]:
    """The one call that ``name`` means at the fork point: its effect (0 for none) and the provider's id."""
    if isinstance(forked.edits, tuple):
        found = _calls_after_edits(state, forked, name)
    elif state.function is not None and isinstance(name, int):
        opened = state.effects.get(name)
        found = [(name, opened.call)] if opened is not None else []
    elif isinstance(name, int):
        found = await _call_of_effect(edge, state, name)
    else:
        effects = await calls_named(edge.reader, state.run, name, upto=state.seq)
        found = [(effect, name) for effect in effects]
        found += [(0, slot.call) for slot in state.batch if slot.call == name and slot.effect <= 0]
    if not found:
        raise ForkNoSuchCall(run=state.run, call=str(name), at=state.seq)
    if len(found) > 1:
        raise ForkAmbiguousCall(call=str(name), effects=", ".join(str(effect) for effect, _ in found))
    return found[0]


async def _is_gone(edge: Edge, loaded: Loaded, effect: int) -> bool:
    """Whether a summary stands in the place of the call's answer, so that no other result can."""
    if not effect or not loaded.state.summarised or effect in loaded.state.effects:
        return False
    whole = await edge.reader.thaw(loaded)
    return all(entry.effect != effect for entry in whole.transcript.entries)


async def _call_of_effect(edge: Edge, state: RunState, effect: int) -> list[tuple[int, str]]:
    if not 0 < effect <= state.seq:
        return []
    opened = (await edge.reader.load(state.run, upto=effect)).state.effects.get(effect)
    return [(effect, opened.call)] if opened is not None and opened.call else []


def _calls_after_edits(state: RunState, forked: RunForked, name: str | int) -> list[tuple[int, str]]:
    """The calls of an edited transcript that ``name`` may mean: answered ones, and those still open."""
    child = _child(state, replace(forked, tool_results=()))
    calls = [
        (entry.effect, part.id)
        for entry in child.transcript.entries
        for part in entry.message.parts
        if isinstance(part, ResponsePart)
    ]
    calls += [(max(slot.effect, 0), slot.call) for slot in child.batch]
    return [(effect, call) for effect, call in calls if name == (effect if isinstance(name, int) else call)]


def _child(state: RunState, forked: RunForked) -> RunState:
    recorded = RecordedEvent("child", state.seq + 1, state.at_ms, b"", forked)
    return inherited(state, recorded, forked)


def _check(state: RunState, forked: RunForked) -> None:
    """Refuse a patch that leaves a transcript no provider would take, or kept no agent to go on with."""
    if isinstance(forked.edits, tuple):
        problem = first_problem(compile_messages(_child(state, forked)))
        if problem is not None:
            raise PatchInvalid(index=problem[0], detail=problem[1])


async def _born(edge: Edge, loaded: Loaded, forked: RunForked, run_id: str | None) -> str:
    if run_id is not None:
        name = check_run_id(run_id)
        try:
            await _append(edge, loaded, forked, name)
        except RunExists:
            raise ForkNameTaken(run=name) from None
        return name
    n = 1
    while True:
        name = fork_name(forked.parent, n)
        if await edge.journal.row(name) is None:
            try:
                await _append(edge, loaded, forked, name)
            except (RunExists, JournalConflict):
                continue  # somebody took the name since it was free; the next look finds it taken
            return name
        n += 1


async def _append(edge: Edge, loaded: Loaded, forked: RunForked, name: str) -> None:
    at_ms = max(edge.clock.now_ms(), loaded.state.at_ms)
    draft = Draft(run=name, state=loaded.state, after=forked.at, digest=loaded.digest, at_ms=at_ms)
    edge.writer.add(draft, forked)
    assert draft.state is not None
    await edge.journal.append(
        Append(
            run=name,
            after=forked.at,
            before=loaded.digest,
            commit=draft.commit(edge.writer.codec),
            summary=summary(draft.state),
            blobs=draft.blobs,
            refs=draft.refs,
            born=True,
            parent=forked.parent,
        )
    )
    edge.recorded(name, draft.recorded)
