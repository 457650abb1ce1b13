"""What a fork inherits: the state at its fork point, changed by its patch, with what was open put right.

The order is the order of a patch: messages, state, tool results, agent, input. Then the calls that the
parent left open: a model call is dropped (the child asks anew), a tool call stays to be performed only where
that is safe, and any other is held for a person.
"""

from collections.abc import Mapping

from msgspec import UNSET
from msgspec.structs import replace

from forkpoint import answers
from forkpoint._vector import Vector
from forkpoint.effects import ModelCall, Recovery, ToolCall
from forkpoint.events import Keep, Pending, Put, RecordedEvent, ResultPatch, RunForked
from forkpoint.messages import CallPart, Message, ResponsePart
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded
from forkpoint.pieces import Arguments, Doubt, Entry, Lineage, Open, Slot, Transcript
from forkpoint.state import RunState, agent_digest, rest
from forkpoint.transcript import known_entries

PUT_BASE = 1 << 20
"""Messages put in by edits are numbered from here, so that they never meet the numbers of patched results."""


def inherited(state: RunState, recorded: RecordedEvent, event: RunForked) -> RunState:
    """The child's state at birth, given the parent's at the fork point."""
    seq = recorded.seq
    state = replace(
        state,
        run=recorded.run,
        seq=seq,
        at_ms=recorded.at_ms,
        stopped=False,
        workspace=event.workspace,
        labels={**state.labels, **(event.labels or {})},
        lineage=Lineage(parent=event.parent, at=event.at, parent_head=event.parent_head, effects=event.effects),
        sources=frozenset(),
    )
    if event.edits is not UNSET:
        state = _edited(state, seq, event.edits)
    if event.state is not UNSET:
        state = replace(state, app=event.state)
    for index, patch in enumerate(event.tool_results, 1):
        state = _answered(state, seq, index, patch)
    if event.agent is not None:
        state = replace(
            state,
            agent=event.agent,
            agent_digest=agent_digest(event.agent),
            overridden=state.overridden | frozenset(event.changed),
        )
    if event.input is not UNSET:
        entry = Entry(seq, 0, 0, Message(role="user", parts=event.input))
        state = replace(state, queue=(*state.queue, entry))
    state = _left_open(state, event.parent, event.pending)
    return rest(state)


def _edited(state: RunState, seq: int, edits: tuple[Keep | Put, ...]) -> RunState:
    """The state with its whole transcript replaced; calls of the last message may still be open."""
    told = known_entries(state)
    entries: list[Entry] = []
    index = PUT_BASE
    for edit in edits:
        if isinstance(edit, Keep):
            entries += told[edit.start : edit.stop]
        else:
            index += 1
            entries.append(Entry(seq, index, 0, edit.message))
    head, calls, tail = _open_end(entries)
    kept = bool(head) and bool(state.batch) and head[-1] is state.transcript.entries[-1]
    batch = _batch(state if kept else None, calls, tail)
    alive = {slot.effect for slot in batch}
    effects = {
        key: opened for key, opened in state.effects.items() if key in alive or not isinstance(opened.effect, ToolCall)
    }
    doubts = {key: doubt for key, doubt in state.doubts.items() if key in effects or doubt.finding is not None}
    return replace(
        state,
        transcript=Transcript(Vector(head)),
        batch=batch,
        effects=effects,
        doubts=doubts,
        notes=(),
        inputs=(),
    )


def _open_end(entries: list[Entry]) -> tuple[list[Entry], tuple[CallPart, ...], list[Entry]]:
    """``entries`` up to a last message with unanswered calls, those calls, and the answers some have."""
    last = len(entries)
    while last and entries[last - 1].message.role == "tool":
        last -= 1
    calls = entries[last - 1].message.calls if last else ()
    tail = entries[last:]
    open_calls = len(tail) < len(calls) and all(any(_answers(e.message, c.id) for c in calls) for e in tail)
    if not open_calls:
        return entries, (), []
    return entries[:last], calls, entries[last:]


def _batch(state: RunState | None, calls: tuple[CallPart, ...], tail: list[Entry]) -> tuple[Slot, ...]:
    answered = [entry.message for entry in tail]
    slots = []
    for place, part in enumerate(calls):
        effect = state.batch[place].effect if state is not None else 0
        said = next((message for message in answered if _answers(message, part.id)), None)
        if said is not None:
            answered.remove(said)
        slots.append(Slot(part.id, part.name, 0 if said is not None else effect, said))
    return tuple(slots)


def _answers(message: Message, call: str) -> bool:
    return any(isinstance(part, ResponsePart) and part.id == call for part in message.parts)


def patched_answer(patch: ResultPatch) -> Message:
    """The message that a patched result puts in place of the recorded one."""
    if patch.error is not None:
        return answers.error_answer(patch.call, "Error", patch.error)
    outcome = Succeeded(value=patch.value, aside=patch.aside)
    return answers.told(patch.call, outcome)


def _answered(state: RunState, seq: int, index: int, patch: ResultPatch) -> RunState:
    message = patched_answer(patch)
    opened = state.effects.get(patch.effect)
    if patch.effect and opened is not None:
        outcome: Outcome = Failed(error="Error", text=patch.error) if patch.error else Succeeded()
        done = replace(opened, phase="settled", gate="none", outcome=outcome, answer=message, answer_seq=0)
        return replace(state, effects={**state.effects, patch.effect: done}, doubts=_without(state, patch))
    if not patch.effect:
        batch = tuple(
            Slot(slot.call, slot.name, 0, message) if slot.call == patch.call and not slot.effect else slot
            for slot in state.batch
        )
        return replace(state, batch=batch)
    entry = Entry(seq, index, patch.effect, message)
    transcript = state.transcript
    entries = [entry if old.effect == patch.effect else old for old in transcript.entries]
    if any(new is entry for new in entries):
        return replace(
            state,
            transcript=Transcript(Vector(entries), transcript.cold, transcript.patched, transcript.cold_chain),
        )
    patched = (*transcript.patched, entry)
    return replace(state, transcript=Transcript(transcript.entries, transcript.cold, patched, transcript.cold_chain))


def _without(state: RunState, patch: ResultPatch) -> Mapping[int, Doubt]:
    return {key: doubt for key, doubt in state.doubts.items() if key != patch.effect}


def _left_open(state: RunState, parent: str, pending: Pending) -> RunState:
    effects: dict[int, Open] = {}
    doubts, decided = dict(state.doubts), dict(state.decided)
    for key, opened in state.effects.items():
        if isinstance(opened.effect, ModelCall):
            continue
        effects[key] = _taken_over(state, opened, parent, pending)
        if effects[key].phase in ("requested", "settled") and opened.phase == "unknown":
            del doubts[key]
        if effects[key].gate == "asked":
            decided.pop(key, None)
    return replace(state, effects=effects, doubts=doubts, decided=decided)


def _taken_over(state: RunState, opened: Open, parent: str, pending: Pending) -> Open:
    """What becomes, in the child, of a call that the parent left open."""
    if opened.phase == "settled":
        return opened
    gated = isinstance(opened.effect, ToolCall) and opened.effect.gated
    afresh = replace(
        opened,
        phase="requested",
        gate="asked" if gated else "none",
        holder=_arguments(state, opened) if gated else opened.holder,
        attempt=0,
        key=None,
        outcome=None,
        owner=None,
    )
    if opened.phase == "requested":
        return afresh
    if opened.phase != "unknown" and opened.recovery is Recovery.REPEAT:
        return afresh
    if pending == "run":
        return afresh
    if pending == "skip":
        answer = answers.placeholder(opened.call, answers.LEFT_OPEN)
        outcome = Cancelled(reason=answers.LEFT_OPEN)
        return replace(opened, phase="settled", gate="none", outcome=outcome, answer=answer, answer_seq=0)
    owner = opened.owner or (parent, opened.seq)
    if opened.recovery is Recovery.RECONCILE and opened.phase in ("dispatched", "probe", "retry"):
        return replace(opened, phase="probe", owner=owner)
    return replace(opened, phase="unknown" if opened.phase == "unknown" else "held", owner=owner)


def _arguments(state: RunState, opened: Open) -> Arguments:
    """The arguments as the model asked for them, without what a person edited in the parent."""
    assert isinstance(opened.effect, ToolCall)
    if opened.effect.arguments is not None or opened.effect.aside:
        return opened.effect
    return state.transcript.entries[-1].message.calls[opened.effect.call]
