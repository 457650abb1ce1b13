"""``decide(state, command, now_ms) -> events``: the only place that says no.

No events means that there was nothing to do: the same thing was asked before, or it does not apply.
A refusal is a coded error, and nothing is written.
"""

from typing import assert_never

from forkpoint._canon import value_digest
from forkpoint.advance import advance, ask, found, plan, recover, settle
from forkpoint.answers import ending
from forkpoint.commands import (
    Advance,
    Answer,
    AnyCommand,
    Ask,
    Captured,
    ChangeAgent,
    Decide,
    Found,
    Interrupt,
    Late,
    Pause,
    Plan,
    Recover,
    Resolve,
    Return,
    Rewind,
    Send,
    Settle,
    Start,
    Stop,
    Unpause,
)
from forkpoint.errors import (
    AgentToolGone,
    AnswerNotAwaited,
    ApprovalDecidedAlready,
    ApprovalNotAsked,
    ApprovalOfOtherArguments,
    EffectAlreadyResolved,
    EffectNotUnknown,
    InputKeyReused,
    InputNotTaken,
    RunIsStopped,
)
from forkpoint.events import (
    AgentChanged,
    ApprovalDecided,
    EffectResolved,
    EffectSettled,
    Event,
    FunctionReturned,
    InputReceived,
    RunContinued,
    RunInterrupted,
    RunPaused,
    RunStarted,
    RunStopped,
)
from forkpoint.outcomes import Failed, Succeeded, Unknown
from forkpoint.pieces import Doubt, Open
from forkpoint.state import RunState

Events = tuple[Event, ...]


def start(command: Start) -> Events:
    """The first events of a run."""
    started = RunStarted(
        agent=command.agent,
        labels=command.labels,
        limits=command.limits,
        workspace=command.workspace,
        caller=command.caller,
        actor=command.actor,
        function=command.function,
    )
    if command.input is None:
        return (started,)
    return (started, InputReceived(parts=command.input, actor=command.actor))


def decide(state: RunState, command: AnyCommand, now_ms: int) -> Events:
    """The events that ``command`` brings about in a run that stands at ``state``.

    ``now_ms`` is the time, in ms. Raises a coded error where the command is refused.
    """
    match command:
        case Settle():
            return settle(state, command, now_ms)
        case Plan():
            return plan(state, command)
        case Advance():
            return advance(state, command, now_ms)
        case Ask():
            return ask(state, command, now_ms)
        case Return():
            return (FunctionReturned(outcome=command.outcome),) if state.active else ()
        case Found():
            return found(state, command)
        case Recover():
            return recover(state, now_ms)
        case Start():
            return ()
        case Captured():
            return (command.taken,)
        case Rewind():
            return (command.rewound,)
        case Send():
            return _send(state, command)
        case Decide():
            return _decide(state, command)
        case Answer():
            return _answer(state, command)
        case Resolve():
            return _resolve(state, command)
        case Late():
            return _late(state, command)
        case Pause():
            _going(state)
            return () if state.paused else (RunPaused(reason=command.reason, actor=command.actor),)
        case Unpause():
            _going(state)
            called_off = state.function is not None and not state.active and state.returned is None
            held = state.paused is not None or state.failure is not None or called_off
            return (RunContinued(limits=command.limits, actor=command.actor),) if held else ()
        case Interrupt():
            _going(state)
            off = state.active and not state.interrupting
            return (RunInterrupted(reason=command.reason, actor=command.actor),) if off else ()
        case Stop():
            return () if state.stopped else (RunStopped(reason=command.reason, actor=command.actor),)
        case ChangeAgent():
            return _change_agent(state, command)
        case _:
            assert_never(command)


def _going(state: RunState) -> None:
    if state.stopped:
        raise RunIsStopped(run=state.run)


def _send(state: RunState, command: Send) -> Events:
    _going(state)
    if state.function is not None:
        raise InputNotTaken(run=state.run, function=state.function)
    if command.key is not None and command.key in state.keys:
        if state.keys[command.key] != value_digest(command.parts):
            raise InputKeyReused(run=state.run, key=command.key)
        return ()
    return (InputReceived(parts=command.parts, key=command.key, actor=command.actor),)


def _decide(state: RunState, command: Decide) -> Events:
    before = state.decided.get(command.effect)
    if before is not None:
        if before == _decision_name(command):
            return ()
        raise ApprovalDecidedAlready(
            run=state.run, effect=command.effect, decided=before, asked=_decision_name(command)
        )
    _going(state)
    opened = state.effects.get(command.effect)
    if opened is None or opened.gate != "asked" or opened.phase != "requested":
        raise ApprovalNotAsked(run=state.run, effect=command.effect)
    if command.digest != opened.digest:
        raise ApprovalOfOtherArguments(run=state.run, effect=command.effect, tool=opened.name)
    decision = command.decision
    decided = ApprovalDecided(
        effect=command.effect,
        digest=command.digest,
        # Whatever is not a yes is a no: a missing or misspelt decision must never run a call.
        decision=decision if decision in ("allowed", "edited") else "denied",
        arguments=command.arguments if decision == "edited" else None,
        reason=command.reason,
        actor=command.actor,
    )
    return (decided,)


def _decision_name(command: Decide) -> str:
    if command.decision == "edited":
        return f"edited:{value_digest(command.arguments)}"
    return "allowed" if command.decision == "allowed" else "denied"


def _answer(state: RunState, command: Answer) -> Events:
    opened = state.effects.get(command.effect)
    if opened is not None and opened.external and opened.phase == "settled":
        before = opened.outcome
        if isinstance(before, Succeeded) and before.value == command.value and not before.aside:
            return ()
    if opened is None or not opened.external or opened.phase != "requested" or opened.gate == "asked":
        raise AnswerNotAwaited(run=state.run, effect=command.effect)
    _going(state)
    outcome = Succeeded(value=command.value)
    return (
        EffectSettled(
            effect=command.effect,
            outcome=outcome,
            attempt=0,
            call=opened.call,
            actor=command.actor or "someone",
        ),
    )


def _resolve(state: RunState, command: Resolve) -> Events:
    doubt = state.doubts.get(command.effect)
    if doubt is not None and doubt.finding is not None and doubt.contradiction is None:
        if _same(doubt, command):
            return ()
        decided, asked = _finding(doubt.finding, doubt.outcome), _finding(command.verdict, command.outcome)
        raise EffectAlreadyResolved(run=state.run, effect=command.effect, decided=decided, asked=asked)
    opened = state.effects.get(command.effect)
    open_doubt = opened is not None and opened.phase in ("unknown", "held", "probe")
    if not open_doubt and (doubt is None or doubt.contradiction is None):
        raise EffectNotUnknown(run=state.run, effect=command.effect)
    return (
        EffectResolved(
            effect=command.effect,
            finding=command.verdict,
            outcome=command.outcome if command.verdict == "occurred" else None,
            note=command.note,
            actor=command.actor,
        ),
    )


def _same(doubt: Doubt, command: Resolve) -> bool:
    if doubt.finding != command.verdict:
        return False
    return command.verdict != "occurred" or command.outcome is None or command.outcome == doubt.outcome


def _finding(finding: str, outcome: Succeeded | Failed | None) -> str:
    return finding if outcome is None or finding != "occurred" else f"{finding} (it {ending(outcome)})"


def _late(state: RunState, command: Late) -> Events:
    opened = state.effects.get(command.effect)
    late = EffectResolved(effect=command.effect, finding="occurred", source="late", outcome=command.outcome)
    if opened is not None and _awaits(opened, command.outcome):
        return (late,)
    doubt = state.doubts.get(command.effect)
    if doubt is None or doubt.finding is None or command.outcome in (doubt.outcome, doubt.contradiction):
        return ()
    failed = isinstance(command.outcome, Failed) and not command.outcome.happened
    if doubt.finding == "not_occurred" and failed:
        return (EffectResolved(effect=command.effect, finding="not_occurred", source="late", outcome=command.outcome),)
    if doubt.finding == "occurred" and doubt.outcome is None and not failed:
        return (late,)
    return (
        EffectResolved(
            effect=command.effect,
            finding="occurred",
            source="late",
            outcome=command.outcome,
            contradicts=True,
        ),
    )


def _awaits(opened: Open, outcome: Succeeded | Failed) -> bool:
    """Whether a late result is news: its attempt has no known ending, and nothing was done about that so far."""
    if opened.phase == "retry":
        return isinstance(opened.outcome, Unknown) and isinstance(outcome, Succeeded)
    return opened.phase in ("unknown", "probe")


def _change_agent(state: RunState, command: ChangeAgent) -> Events:
    _going(state)
    have = {tool.name for tool in command.agent.tools}
    needed = {opened.name for opened in state.effects.values() if opened.call and opened.phase != "settled"}
    needed |= {slot.name for slot in state.batch if slot.effect == 0 and slot.answer is None}
    if needed - have:
        raise AgentToolGone(run=state.run, tools=", ".join(sorted(needed - have)))
    if not command.differences:
        return ()
    return (AgentChanged(agent=command.agent, differences=command.differences, actor=command.actor),)
