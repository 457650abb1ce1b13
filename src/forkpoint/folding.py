"""State from events: ``evolve`` applies one, ``fold`` all of them. Pure, and they never refuse."""

from collections.abc import Iterable
from typing import Any, assert_never

from msgspec.structs import replace

from forkpoint import answers
from forkpoint._canon import value_digest
from forkpoint.definition import Limits
from forkpoint.effects import Effect, ModelCall, Recovery, StepCall, ToolCall
from forkpoint.events import (
    AgentChanged,
    ApprovalDecided,
    ApprovalRequested,
    ContextCompacted,
    EffectDispatched,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    FunctionReturned,
    InputReceived,
    RecordedEvent,
    RunContinued,
    RunForked,
    RunInterrupted,
    RunPaused,
    RunStarted,
    RunStopped,
    SnapshotTaken,
    StateChanged,
    WorkspaceRewound,
)
from forkpoint.functions import called, is_spent, responded, shown
from forkpoint.inherit import inherited
from forkpoint.messages import CallPart, Message
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Doubt, Entry, FilesSeen, Open, Phase, Slot, Spent, may_write
from forkpoint.state import RunState, accept, agent_digest, rest


def fold(events: Iterable[RecordedEvent], state: RunState | None = None) -> RunState:
    """The state after ``events``, which follow ``state`` or begin a run. Raises ValueError on no events."""
    for recorded in events:
        state = evolve(state, recorded)
    if state is None:
        raise ValueError("there is no state before the first event")
    return state


def evolve(state: RunState | None, recorded: RecordedEvent) -> RunState:
    """The state after one more event."""
    event = recorded.event
    if state is None:
        return _born(recorded, event)
    seq, at_ms = recorded.seq, recorded.at_ms
    match event:
        case EffectSettled():
            return _settled(state, seq, at_ms, event)
        case EffectRequested():
            return _requested(state, seq, at_ms, event.effect)
        case EffectDispatched():
            return _dispatched(state, seq, at_ms, event)
        case InputReceived():
            return _received(state, seq, at_ms, event)
        case RunStarted():
            return _born(recorded, event)
        case RunForked():
            return inherited(state, recorded, event)
        case EffectResolved():
            return rest(_resolved(replace(state, seq=seq, at_ms=at_ms), event))
        case ApprovalRequested():
            gated = replace(state.effects[event.effect], gate="asked", digest=event.digest)
            return replace(state, seq=seq, at_ms=at_ms, effects=_with(state, gated))
        case ApprovalDecided():
            return rest(_approved(replace(state, seq=seq, at_ms=at_ms), event))
        case StateChanged():
            app = dict(state.app or {}) | (event.set or {})
            for key in event.unset:
                app.pop(key, None)
            return replace(state, seq=seq, at_ms=at_ms, app=app)
        case ContextCompacted():
            return _compacted(state, seq, at_ms, event)
        case SnapshotTaken():
            return _captured(state, seq, at_ms, event)
        case WorkspaceRewound():
            return replace(state, seq=seq, at_ms=at_ms, tree=event.tree, files="seen", files_blurred=False)
        case RunPaused():
            return replace(state, seq=seq, at_ms=at_ms, paused=event)
        case RunContinued():
            return _continued(state, seq, at_ms, event)
        case RunInterrupted():
            return rest(_interrupted(replace(state, seq=seq, at_ms=at_ms), event))
        case RunStopped():
            return replace(state, seq=seq, at_ms=at_ms, stopped=True)
        case AgentChanged():
            return replace(state, seq=seq, at_ms=at_ms, agent=event.agent, agent_digest=agent_digest(event.agent))
        case FunctionReturned():
            return _returned(replace(state, seq=seq, at_ms=at_ms, active=False), event.outcome)
        case _:
            assert_never(event)


def _born(recorded: RecordedEvent, event: Any) -> RunState:
    return RunState(
        run=recorded.run,
        seq=recorded.seq,
        at_ms=recorded.at_ms,
        started_at_ms=recorded.at_ms,
        turn_at_ms=recorded.at_ms,
        agent=event.agent,
        agent_digest=agent_digest(event.agent),
        labels=event.labels or {},
        limits=event.limits or Limits(),
        workspace=event.workspace,
        function=event.function,
    )


def _returned(state: RunState, outcome: Succeeded | Failed) -> RunState:
    if isinstance(outcome, Failed):
        return replace(state, failure=outcome)
    value = outcome.value
    output = value if isinstance(value, str) else "" if value is None else answers.as_text(value)
    return replace(state, returned=outcome, output=output)


def _received(state: RunState, seq: int, at_ms: int, event: InputReceived) -> RunState:
    entry = Entry(seq, 0, 0, Message(role="user", parts=event.parts))
    keys = state.keys
    if event.key is not None:
        keys = {**keys, event.key: value_digest(event.parts)}
    title = state.title or entry.message.text[:80]
    state = replace(state, seq=seq, at_ms=at_ms, keys=keys, title=title)
    return accept(replace(state, queue=(*state.queue, entry)))


def _requested(state: RunState, seq: int, at_ms: int, effect: Effect) -> RunState:
    match effect:
        case ModelCall():
            opened = Open(seq=seq, effect=effect, name="")
            if effect.compaction:
                return replace(state, seq=seq, at_ms=at_ms, effects={**state.effects, seq: opened})
            if state.function is not None:
                return replace(shown(state, seq, opened), at_ms=at_ms)
            return _shown(state, seq, at_ms, effect, opened)
        case ToolCall() if state.function is not None:
            return replace(called(state, seq, effect), at_ms=at_ms)
        case ToolCall():
            part = _call_part(state, effect)
            asked = None if effect.arguments is not None or effect.aside else part
            opened = Open(seq=seq, effect=effect, name=effect.tool, call=part.id, asked=asked)
            batch = [
                Slot(slot.call, slot.name, seq) if i == effect.call else slot for i, slot in enumerate(state.batch)
            ]
            return replace(state, seq=seq, at_ms=at_ms, batch=tuple(batch), effects={**state.effects, seq: opened})
        case StepCall():
            opened = Open(seq=seq, effect=effect, name=effect.name)
            return replace(state, seq=seq, at_ms=at_ms, effects={**state.effects, seq: opened})
        case _:
            assert_never(effect)


def _call_part(state: RunState, effect: ToolCall) -> CallPart:
    return state.transcript.entries[-1].message.calls[effect.call]


def _shown(state: RunState, seq: int, at_ms: int, effect: ModelCall, opened: Open) -> RunState:
    """The model is asked: what its request adds has found its final place."""
    known = {entry.seq: entry for entry in state.inputs}
    effects, literal_for = dict(state.effects), []
    for slot in state.batch:
        answered = effects.pop(slot.effect, None)
        if answered is not None and answered.answer_seq and answered.answer is not None:
            known[answered.answer_seq] = Entry(answered.answer_seq, 0, slot.effect, answered.answer)
        else:
            literal_for.append(slot.effect)
    transcript, index = state.transcript, 0
    for item in effect.add:
        if isinstance(item, int):
            transcript = transcript.append(known[item])
        else:
            index += 1
            of = literal_for[index - 1] if index <= len(literal_for) else 0
            transcript = transcript.append(Entry(seq, index, max(of, 0), item))
    effects[seq] = opened
    return replace(
        state,
        seq=seq,
        at_ms=at_ms,
        transcript=transcript,
        asked=len(transcript),
        batch=(),
        notes=(),
        inputs=(),
        effects=effects,
    )


def _dispatched(state: RunState, seq: int, at_ms: int, event: EffectDispatched) -> RunState:
    opened = replace(
        state.effects[event.effect],
        phase="dispatched",
        attempt=event.attempt,
        by=event.by,
        key=event.key,
        outcome=None,
    )
    files = state.files if state.workspace is None else _files_after(state.files, opened)
    return replace(state, seq=seq, at_ms=at_ms, files=files, effects={**state.effects, event.effect: opened})


def _captured(state: RunState, seq: int, at_ms: int, event: SnapshotTaken) -> RunState:
    """The files were seen, or could not be. A call that is tried again later leaves others time to change them."""
    waits = any(
        opened.phase == "retry" and opened.retry_at_ms > at_ms and may_write(opened)
        for opened in state.effects.values()
    )
    return replace(
        state,
        seq=seq,
        at_ms=at_ms,
        tree=event.tree or state.tree,
        files="unseen" if waits and event.why == "after" else "seen",
        files_blurred=event.tree is None,
    )


def _files_after(files: FilesSeen, dispatched: Open) -> FilesSeen:
    """What is known of the workspace once ``dispatched`` runs: a model takes time, a tool may write."""
    if may_write(dispatched):
        return "changing"
    return "unseen" if files == "seen" and isinstance(dispatched.effect, ModelCall) else files


def _settled(state: RunState, seq: int, at_ms: int, event: EffectSettled) -> RunState:
    opened = state.effects[event.effect]
    left = _left(opened, seq, event)
    effects = dict(state.effects)
    if left is None or (state.function is not None and is_spent(left)):
        del effects[opened.seq]
    else:
        effects[opened.seq] = left
    state = replace(
        state,
        seq=seq,
        at_ms=at_ms,
        effects=effects,
        spent=_spend(state.spent, opened, event),
        sources=state.sources if event.source is None else state.sources | {event.source},
    )
    if left is None:
        return rest(_answered(state, seq, opened, event))
    if left.phase == "unknown":
        return replace(state, doubts={**state.doubts, opened.seq: Doubt(name=opened.name)})
    return rest(state) if state.interrupting and left.phase == "settled" else state


def _left(opened: Open, seq: int, event: EffectSettled) -> Open | None:
    """What an attempt that ended leaves of its effect: nothing of a model call that has ended for good."""
    if event.then != "final":
        phase: Phase = "retry" if event.then == "retry" else "probe"
        return replace(opened, phase=phase, outcome=event.outcome, retry_at_ms=event.retry_at_ms or 0)
    if isinstance(opened.effect, ModelCall):
        return None
    if isinstance(event.outcome, Unknown):
        return replace(opened, phase="unknown", outcome=event.outcome)
    return replace(
        opened,
        phase="settled",
        outcome=event.outcome,
        answer=answers.told(opened.call, event.outcome),
        answer_seq=seq if isinstance(event.outcome, Succeeded) else 0,
    )


def _spend(spent: Spent, opened: Open, event: EffectSettled) -> Spent:
    if event.usage is None and event.cost is None and not isinstance(opened.effect, ModelCall):
        return spent
    if event.attempt == 0 or event.source is not None:
        return spent
    return Spent(
        usage=spent.usage.plus(event.usage) if event.usage else spent.usage,
        cost=spent.cost + (event.cost or 0.0),
        cost_unknown=spent.cost_unknown + (event.cost is None),
    )


def _answered(state: RunState, seq: int, opened: Open, event: EffectSettled) -> RunState:
    """A model call has ended for good."""
    if state.function is not None:
        return responded(state, seq, opened, event)
    assert isinstance(opened.effect, ModelCall)
    outcome = event.outcome
    match outcome:
        case Succeeded():
            if opened.effect.compaction:
                return replace(state, context_tokens=0)
            return _responded(state, seq, event, outcome.message or Message(role="assistant"))
        case Cancelled():
            if outcome.partial is not None and outcome.partial.text and not opened.effect.compaction:
                said = answers.note(f"Your answer was interrupted after: {outcome.partial.text}")
                state = replace(state, notes=(*state.notes, said))
            return state if state.interrupting else replace(state, active=False)
        case Failed():
            if opened.effect.compaction:
                return replace(state, context_tokens=0)
            return replace(state, failure=outcome, active=False)
        case Unknown():
            return replace(state, failure=Failed(error="Unknown", text=outcome.text), active=False)


def _responded(state: RunState, seq: int, event: EffectSettled, message: Message) -> RunState:
    calls, fate = message.calls, -1 if state.interrupting else 0
    return replace(
        state,
        step=state.step + 1,
        transcript=state.transcript.append(Entry(seq, 0, 0, message)),
        context_tokens=event.usage.input_tokens if event.usage else state.context_tokens,
        batch=tuple([Slot(part.id, part.name, fate) for part in calls]) if calls else state.batch,
        active=state.active and bool(calls),
        output=state.output if calls else message.text,
    )


def _resolved(state: RunState, event: EffectResolved) -> RunState:
    doubt = state.doubts.get(event.effect)
    opened = state.effects.get(event.effect)
    name = doubt.name if doubt else opened.name if opened else ""
    if event.source == "late" and state.workspace is not None and (opened is None or may_write(opened)):
        state = replace(state, files="unseen" if state.files == "seen" else state.files, files_blurred=True)
    if event.contradicts and doubt is not None:
        said = answers.contradicted(name, event.effect, doubt.finding or "unknown", _ending(event))
        doubt = replace(doubt, contradiction=_ending(event))
        return _noted(replace(state, doubts={**state.doubts, event.effect: doubt}), said)
    if event.finding == "unknown":
        assert opened is not None
        doubts = {**state.doubts, event.effect: Doubt(name=name)}
        return replace(state, effects=_with(state, replace(opened, phase="unknown")), doubts=doubts)
    if event.finding == "not_occurred" and event.source == "probe":
        assert opened is not None
        phase: Phase = "retry" if opened.owner is None else "held"
        return replace(state, effects=_with(state, replace(opened, phase=phase, retry_at_ms=0, outcome=None)))
    found = Doubt(name=name, finding=event.finding, outcome=event.outcome, note=event.note, actor=event.actor)
    state = replace(state, doubts={**state.doubts, event.effect: found})
    said = answers.decision(name, event.effect, event.finding, source=event.source, actor=event.actor, words=event.note)
    if opened is None or opened.phase == "settled":
        return _noted(state, answers.afterwards(said, event.outcome) if event.outcome is not None else said)
    state = _noted(state, said)
    answer = answers.resolved(opened.call, event.finding, event.outcome)
    outcome: Outcome = event.outcome or Unknown(because="reported", text=event.finding)
    done = replace(opened, phase="settled", outcome=outcome, answer=answer, answer_seq=0)
    return replace(state, effects=_with(state, done))


def _ending(event: EffectResolved) -> Succeeded | Failed:
    return event.outcome if event.outcome is not None else Succeeded()


def _noted(state: RunState, said: str) -> RunState:
    return replace(state, notes=(*state.notes, answers.note(said)), decisions=(*state.decisions, said))


def _approved(state: RunState, event: ApprovalDecided) -> RunState:
    opened = state.effects[event.effect]
    if state.files == "seen":
        state = replace(state, files="unseen")
    name = f"edited:{value_digest(event.arguments)}" if event.decision == "edited" else event.decision
    state = replace(state, decided={**state.decided, event.effect: name})
    if event.decision not in ("allowed", "edited"):
        answer = answers.denied(opened.call, event.reason)
        outcome = Cancelled(reason=f"denied: {event.reason}" if event.reason else "denied")
        done = replace(opened, phase="settled", gate="none", outcome=outcome, answer=answer, answer_seq=0)
        return replace(state, effects=_with(state, done))
    allowed = replace(opened, gate="allowed")
    if event.decision == "edited":
        allowed = replace(allowed, asked=event)
        said = answers.edited(opened.name, answers.as_text(event.arguments), event.actor)
        state = replace(state, notes=(*state.notes, answers.note(said)))
    return replace(state, effects=_with(state, allowed))


def _compacted(state: RunState, seq: int, at_ms: int, event: ContextCompacted) -> RunState:
    state = replace(state, seq=seq, at_ms=at_ms, context_tokens=0)
    if not event.replaced:
        return state
    transcript = state.transcript.summarised(Entry(seq, 1, 0, event.summary), event.replaced)
    return replace(state, transcript=transcript, asked=len(transcript), summarised=True)


def _continued(state: RunState, seq: int, at_ms: int, event: RunContinued) -> RunState:
    again = state.failure is not None and state.paused is None
    anew = event.limits is not None or (state.paused is not None and state.paused.limit is not None)
    return replace(
        state,
        seq=seq,
        at_ms=at_ms,
        paused=None,
        files="unseen" if state.files == "seen" else state.files,
        limits=event.limits or state.limits,
        allowance=state.spent if anew else state.allowance,
        allowed_steps=state.step if anew else state.allowed_steps,
        turn_at_ms=at_ms,
        failure=None if again else state.failure,
        active=state.active or again or (state.function is not None and state.returned is None),
    )


def _interrupted(state: RunState, event: RunInterrupted) -> RunState:
    effects = {
        key: _called_off(opened)
        for key, opened in state.effects.items()
        if not (isinstance(opened.effect, ModelCall) and opened.phase in ("requested", "retry"))
    }
    batch = tuple(
        slot if slot.effect or slot.answer is not None else Slot(slot.call, slot.name, -1) for slot in state.batch
    )
    doubts = dict(state.doubts)
    for key, opened in effects.items():
        if opened.phase == "unknown":
            doubts.setdefault(key, Doubt(name=opened.name))
    return replace(state, effects=effects, doubts=doubts, batch=batch, interrupting=state.active)


def _called_off(opened: Open) -> Open:
    """What an interrupt leaves of an effect: what was never tried is cancelled, what is known stays."""
    if opened.phase == "requested":
        reason = answers.WITHDRAWN if opened.external or opened.gate == "asked" else answers.NOT_RUN
        return _ended(opened, Cancelled(reason=reason))
    if opened.phase != "retry":
        return opened
    if isinstance(opened.outcome, Failed):
        return _ended(opened, opened.outcome)
    if opened.outcome is None or opened.recovery is Recovery.REPEAT:
        return _ended(opened, Cancelled(reason="interrupted before it was tried again"))
    return replace(opened, phase="unknown")


def _ended(opened: Open, outcome: Outcome) -> Open:
    return replace(opened, phase="settled", gate="none", outcome=outcome, answer=answers.told(opened.call, outcome))


def _with(state: RunState, opened: Open) -> dict[int, Open]:
    return {**state.effects, opened.seq: opened}
