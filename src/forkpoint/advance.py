"""What a performer's commands bring about: requests, dispatches, outcomes. Pure, like all deciding."""

from msgspec.structs import replace

from forkpoint._canon import link, short
from forkpoint.commands import Advance, Ask, CallPlan, Found, Plan, Settle
from forkpoint.effects import Effect, ModelCall, ToolCall
from forkpoint.events import (
    AgentChanged,
    ApprovalRequested,
    ContextCompacted,
    EffectDispatched,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    Event,
    RunPaused,
    StateChanged,
)
from forkpoint.functions import asking_message, shown_digest
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Open
from forkpoint.recover import rule, spent
from forkpoint.redefinition import differences
from forkpoint.state import RunState, agent_digest
from forkpoint.status import due
from forkpoint.summarise import compaction, replaced_by, wanted
from forkpoint.transcript import additions, request_digest

Events = tuple[Event, ...]


def idempotency_key(run: str, effect: int) -> str:
    """The key under which the outside world knows this effect: the same over attempts and restarts,
    different in every run and fork. 96 bits of SHA-256 over run and effect id, in 16 characters."""
    return short(link(b"", f"{run}\n{effect}".encode())[:12])


def advance(state: RunState, command: Advance, now_ms: int) -> Events:
    """Dispatch what is due; ask the model if every call is answered; pause at a limit."""
    now_due = due(state, now_ms)
    ready = now_due.dispatch
    if state.function is not None:
        after = state.seq if command.after is None else command.after
        ready = tuple(key for key in ready if key in command.ready or key > after)
    events: list[Event] = [_dispatch(state, state.effects[key], command.by) for key in ready]
    if not now_due.ask:
        return tuple(events)
    limit = reached(state, now_ms)
    if limit is not None:
        return (*events, RunPaused(reason=f"the limit was reached: {limit}", limit=limit))
    seq = state.seq + len(events) + 1
    call = compaction(state) if wanted(state) else _ask(state)
    return (*events, EffectRequested(effect=call), EffectDispatched(effect=seq, by=command.by))


def _ask(state: RunState) -> ModelCall:
    added = additions(state)
    return ModelCall(
        add=added,
        digest=request_digest(state, added),
        attempts=state.agent.attempts,
    )


def _dispatch(state: RunState, opened: Open, by: str) -> EffectDispatched:
    key = None if isinstance(opened.effect, ModelCall) else idempotency_key(state.run, opened.seq)
    return EffectDispatched(effect=opened.seq, by=by, attempt=opened.attempt + 1, key=key)


def reached(state: RunState, now_ms: int) -> str | None:
    """The limit that forbids another model call, in words, counted since the run last went on."""
    limits, spent_now, base = state.limits, state.spent, state.allowance
    if limits.steps is not None and state.step - state.allowed_steps >= limits.steps:
        return f"{limits.steps} steps"
    if limits.tokens is not None and spent_now.usage.total - base.usage.total >= limits.tokens:
        return f"{limits.tokens} tokens"
    if limits.cost is not None and spent_now.cost - base.cost >= limits.cost:
        return f"cost of {limits.cost:g}"
    if limits.seconds is not None and now_ms - state.turn_at_ms >= limits.seconds * 1000:
        return f"{limits.seconds:g} seconds"
    return None


def ask(state: RunState, command: Ask, now_ms: int) -> Events:
    """Request what a function's code asks for, unless the run is held or was called off; pause at a limit."""
    if not state.active or state.interrupting or state.stopped or state.paused is not None:
        return ()
    events: list[Event] = []
    effect = command.effect
    definition = state.agent_digest
    if command.agent is not None:
        events.append(AgentChanged(agent=command.agent, differences=differences(state.agent, command.agent)))
        definition = agent_digest(command.agent)
    if isinstance(effect, ModelCall):
        limit = reached(state, now_ms)
        if limit is not None:
            return (RunPaused(reason=f"the limit was reached: {limit}", limit=limit),)
        effect = replace(effect, digest=shown_digest(state, effect, definition))
    seq = state.seq + len(events) + 1
    call = "" if not isinstance(effect, ToolCall) else _call_id(state, effect)
    return (*events, EffectRequested(effect=effect), *_at_once(seq, call, command))


def _call_id(state: RunState, effect: ToolCall) -> str:
    message = asking_message(state, effect.message) if effect.message else None
    return effect.id if message is None else message.calls[effect.call].id


def plan(state: RunState, command: Plan) -> Events:
    """Request every call of the last message that has no effect yet, one plan each."""
    if state.interrupting or state.stopped:
        return ()
    places = [place for place, slot in enumerate(state.batch) if slot.effect == 0 and slot.answer is None]
    if len(places) != len(command.plans):
        return ()  # the calls were planned before somebody interrupted, and are not to be made any more
    entries = state.transcript.entries
    message = entries[-1].seq if entries else state.seq
    events: list[Event] = []
    for place, planned in zip(places, command.plans, strict=True):
        effect = ToolCall(
            tool=planned.tool,
            message=message,
            call=place,
            recovery=planned.recovery,
            gated=planned.gated,
            external=planned.external,
            attempts=planned.attempts,
        )
        seq = state.seq + len(events) + 1
        events += (EffectRequested(effect=effect), *_at_once(seq, state.batch[place].call, planned))
    return tuple(events)


def _at_once(seq: int, call: str, planned: CallPlan | Ask) -> Events:
    """What is known about a call the moment it is requested: refused, on record already, or gated."""
    if planned.refused is not None:
        return (EffectSettled(effect=seq, outcome=planned.refused, attempt=0, call=call or None),)
    if planned.recorded is not None:
        source, outcome = planned.recorded
        return (EffectSettled(effect=seq, outcome=outcome, attempt=0, call=call or None, source=source),)
    if planned.gated:
        return (ApprovalRequested(effect=seq, digest=planned.digest),)
    return ()


def settle(state: RunState, command: Settle, now_ms: int) -> Events:
    """Record how an attempt ended, unless that attempt was settled before."""
    opened = state.effects.get(command.effect)
    if opened is None or opened.phase != "dispatched" or opened.attempt != command.attempt:
        return ()
    ruling = rule(
        opened,
        command.outcome,
        doubtful=command.doubtful,
        transient=command.transient,
        now_ms=now_ms,
        after_ms=command.retry_after_ms,
        calling_off=state.interrupting or state.stopped,
    )
    settled = EffectSettled(
        effect=command.effect,
        outcome=ruling.outcome,
        attempt=command.attempt,
        then=ruling.then,
        retry_at_ms=ruling.retry_at_ms,
        call=opened.call or None,
        usage=command.usage,
        cost=command.cost,
        ms=command.ms,
    )
    events: list[Event] = [settled]
    if command.set or command.unset:
        events.append(StateChanged(effect=command.effect, set=command.set, unset=command.unset))
    if _is_summary(opened.effect) and isinstance(ruling.outcome, Succeeded):
        replaced, summary = replaced_by(state, ruling.outcome)
        through = state.seq
        events.append(ContextCompacted(effect=command.effect, summary=summary, replaced=replaced, through=through))
    return tuple(events)


def _is_summary(effect: Effect) -> bool:
    return isinstance(effect, ModelCall) and effect.compaction


def found(state: RunState, command: Found) -> Events:
    """Record what a probe found out. ``not_occurred`` ends an effect that may not be tried again: one that was
    called off, or has no attempts left. One that a parent run left open is held, because only a person may have it
    performed here."""
    opened = state.effects.get(command.effect)
    if opened is None or opened.phase != "probe":
        return ()
    result = EffectResolved(
        effect=command.effect,
        finding=command.finding,
        source="probe",
        outcome=command.outcome,
        note=command.note,
    )
    if command.finding != "not_occurred" or opened.owner is not None:
        return (result,)
    ended: Outcome
    if state.interrupting or state.stopped:
        ended = Cancelled(reason="interrupted; the tool's own probe found that it did not take effect")
    elif spent(opened):
        ended = Failed(error="lost", text=f"gave up after {opened.attempt} attempts; none took effect")
    else:
        return (result,)
    return (result, EffectSettled(effect=command.effect, outcome=ended, attempt=opened.attempt, call=opened.call))


def recover(state: RunState, now_ms: int) -> Events:
    """Settle as lost every attempt that was dispatched by a performer who is gone."""
    events: list[Event] = []
    for opened in state.effects.values():
        if opened.phase == "dispatched":
            lost = Settle(
                effect=opened.seq,
                attempt=opened.attempt,
                outcome=Unknown(because="lost", text="the process that performed it is gone"),
                doubtful=True,
            )
            events += settle(state, lost, now_ms)
    return tuple(events)
