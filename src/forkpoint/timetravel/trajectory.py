"""A run told as steps: what the model said, what it asked for, and how each call ended. Pure."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from forkpoint import answers
from forkpoint.effects import StepCall, ToolCall
from forkpoint.errors import NotComparable, ReplayNoHistory
from forkpoint.events import Finding, RecordedEvent
from forkpoint.ids import ForkPoint
from forkpoint.inherit import patched_answer
from forkpoint.messages import CallPart, Message, Reasoning, ResponsePart, Text, Usage
from forkpoint.outcomes import Failed, Unknown
from forkpoint.pieces import Entry
from forkpoint.ports import Status
from forkpoint.state import RunState
from forkpoint.timetravel.facts import (
    CallFacts,
    CallStatus,
    Facts,
    as_canonical,
    blob_or,
    canonical_arguments,
    gathered,
)
from forkpoint.timetravel.told import Telling, is_note, tell_messages, tell_state


class Call(Struct, frozen=True, kw_only=True):
    """One tool call of a step: what was asked, and how it ended.

    ``result`` is what the model is shown for it, ``None`` with ``answered`` false where it has no answer yet.
    ``error`` names the error of a call that failed, was cancelled or denied. ``finding`` is what was decided about
    an outcome that had been unknown. ``performed_with`` is set where a person changed the arguments, ``patched``
    where a fork put another result in place, ``source`` where a parent's record answered. ``effect``, ``recovery``,
    ``attempts`` and ``ms`` are known from a history only.
    """

    id: str
    name: str
    arguments: Any = None
    status: CallStatus = "open"
    answered: bool = False
    result: Any = None
    error: str | None = None
    finding: Finding | None = None
    effect: int | None = None
    recovery: str | None = None
    attempts: int = 0
    ms: int | None = None
    performed_with: Any | UnsetType = UNSET
    patched: bool = False
    source: int | None = None

    @property
    def canonical_arguments(self) -> str:
        """The arguments as JSON with sorted keys: equal arguments, equal text. Text that is no JSON stays as it is."""
        return canonical_arguments(self.arguments)


class Step(Struct, frozen=True, kw_only=True):
    """One model response and the calls it asked for. ``number`` counts from 1 over the run.

    ``seq`` is the event that holds the response. ``heard`` is what was said since the step before: inputs, notes,
    answers that fit no call. ``at_ms`` is when the response was recorded and ``ms`` how long it took; these, usage,
    cost (US dollars), attempts, agent and model are known from a history only.
    """

    number: int
    turn: int
    text: str = ""
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    at_ms: int | None = None
    ms: int | None = None
    attempts: int = 0
    agent: str | None = None
    model: str | None = None
    seq: int | None = None
    heard: tuple[Message, ...] = ()


class Trajectory(Struct, frozen=True, kw_only=True):
    """A run told as steps, with where it stands at the end.

    ``missing`` is how many steps came before the first one told (a summary stands for them, or they are shared and
    were not read). ``after`` is what was said since the last step. ``usage`` is ``None`` where nobody reported it
    or the last call failed; ``tokens`` and ``cost`` are the known sums of the whole run. ``has_run`` is false for a
    plain list of messages: it has no status, application state, files or time. ``own`` is what a function's code
    asked for itself, in order: its steps, and tools that no model's message asked for; known from a history only.
    """

    run: str | None = None
    head: int | None = None
    parent: ForkPoint | None = None
    missing: int = 0
    steps: tuple[Step, ...] = ()
    own: tuple[Call, ...] = ()
    function: str | None = None
    after: tuple[Message, ...] = ()
    has_run: bool = False
    status: Status | None = None
    failure: Failed | None = None
    output: str = ""
    app: Any = None
    tree: str | None = None
    started_at_ms: int | None = None
    at_ms: int | None = None
    usage: Usage | None = None
    tokens: int | None = None
    cost: float | None = None
    cost_unknown: int = 0

    @property
    def count(self) -> int:
        """The number of steps, told or not."""
        return self.missing + len(self.steps)

    @property
    def finish_reason(self) -> str | None:
        """Why it ended: the last step's finish reason, or the error's name if the last model call failed."""
        if self.failure is not None:
            return self.failure.error
        return self.steps[-1].finish_reason if self.steps else None

    @property
    def ms(self) -> int | None:
        """The time from its first event to its last, in ms; ``None`` where events have no times of their own, as in an
        imported run, whose events were all recorded at once."""
        if self.at_ms is None or self.started_at_ms is None:
            return None
        return self.at_ms - self.started_at_ms or None


Told: TypeAlias = Trajectory | RunState | Sequence[RecordedEvent] | Sequence[Message]
"""What can be told as steps: a state, a whole history, or a plain list of messages."""


def trajectory(of: Told, *, after: RunState | None = None) -> Trajectory:
    """A run as steps, from a whole history, a state, or a plain list of messages.

    A history says most. Large values that were not read in are told as ``{"blob": digest, "size": bytes}``. With
    ``after``, ``of`` is the events that follow that state, and only the steps they hold are told. Raises
    ``compare.not-comparable`` for anything else and ``replay.no-history`` for a history with a gap.
    """
    if isinstance(of, Trajectory):
        return of
    if isinstance(of, RunState):
        return _of_state(of)
    if not isinstance(of, Sequence) or isinstance(of, str | bytes):
        raise NotComparable(found=type(of).__name__)
    items = tuple(of)
    events = tuple(item for item in items if isinstance(item, RecordedEvent))
    if items and len(events) == len(items):
        return _of_history(events, after)
    if events or not all(isinstance(item, Message) for item in items):
        raise NotComparable(found=next(type(item).__name__ for item in items if not isinstance(item, Message)))
    return _of_messages(tuple(item for item in items if isinstance(item, Message)))


def _of_messages(messages: tuple[Message, ...]) -> Trajectory:
    telling = tell_messages(Entry(0, 0, 0, message) for message in messages)
    return Trajectory(steps=_steps(telling, Facts()), after=tuple(telling.after))


def _of_state(state: RunState) -> Trajectory:
    facts, telling = Facts(), tell_state(state)
    facts.now(state.effects)
    missing = max(0, state.step - len(telling.steps)) if telling.cut else 0
    return _of_run(state, facts, telling, missing)


def _of_history(history: tuple[RecordedEvent, ...], after: RunState | None) -> Trajectory:
    start = after.seq if after is not None else 0
    for seq, recorded in enumerate(history, start + 1):
        if recorded.seq != seq:
            raise ReplayNoHistory(place=seq, found=recorded.seq)
    state, facts = gathered(history, after)
    telling = tell_state(state, past=facts.past, hide=facts.summaries, after=start)
    return _of_run(state, facts, telling, after.step if after is not None else 0)


def _of_run(state: RunState, facts: Facts, telling: Telling, missing: int) -> Trajectory:
    steps = _steps(telling, facts, missing, turns=state.turn)
    spent = state.spent
    reported = any(step.usage for step in steps) or spent.usage.total > 0
    lineage = state.lineage
    return Trajectory(
        run=state.run,
        head=state.seq,
        parent=ForkPoint(lineage.parent, lineage.at) if lineage else None,
        missing=missing,
        steps=steps,
        own=tuple(_own(effect, asked, facts.call(effect)) for effect, asked in facts.own.items()),
        function=state.function,
        after=tuple(telling.after),
        has_run=True,
        status=state.status,
        failure=state.failure,
        output=state.output,
        app=state.app,
        tree=state.tree,
        started_at_ms=state.started_at_ms,
        at_ms=state.at_ms,
        usage=spent.usage if reported and state.failure is None else None,
        tokens=spent.usage.total if reported else None,
        cost=spent.cost if spent.cost or not spent.cost_unknown else None,
        cost_unknown=spent.cost_unknown,
    )


def _steps(telling: Telling, facts: Facts, missing: int = 0, *, turns: int = 0) -> tuple[Step, ...]:
    counted = 0
    spoken = [sum(_is_input(message) for message in step.heard) for step in telling.steps]
    if turns:
        counted = max(0, turns - sum(spoken) - sum(map(_is_input, telling.after)))
    steps = []
    for number, (told, inputs) in enumerate(zip(telling.steps, spoken, strict=True), missing + 1):
        counted += inputs
        found = facts.steps.get(told.seq)
        message = told.message
        # A function's code may tell a model of a call in words of its own, which say nothing of the effect.
        asked = (effect or facts.places.get((told.seq, place), 0) for place, effect in enumerate(told.effects))
        places = zip(message.calls, told.answers, asked, strict=True)
        calls = tuple(_call(part, said, facts.call(effect), effect) for part, said, effect in places)
        thought = [part for part in message.parts if isinstance(part, Reasoning)]
        steps.append(
            Step(
                number=number,
                turn=found.turn if found else counted,
                text=_words(message.parts, Text),
                reasoning=_words(thought, Reasoning) if thought else None,
                calls=calls,
                finish_reason=message.finish_reason,
                usage=found.usage if found else None,
                cost=found.cost if found else None,
                at_ms=found.at_ms if found else None,
                ms=found.ms if found else None,
                attempts=found.attempts if found else 0,
                agent=found.agent if found else None,
                model=found.model if found else None,
                seq=told.seq or None,
                heard=tuple(told.heard),
            )
        )
    return tuple(steps)


def _is_input(message: Message) -> bool:
    return message.role == "user" and not is_note(message)


def _words(parts: Sequence[Struct], kind: type[Text] | type[Reasoning]) -> str:
    said = []
    for part in parts:
        if isinstance(part, kind):
            words = blob_or(part, "content")
            said.append(words if isinstance(words, str) else as_canonical(words))
    return "".join(said)


def _call(part: CallPart, said: ResponsePart | None, found: CallFacts, effect: int) -> Call:
    result = blob_or(said, "response") if said is not None else None
    status, error = found.ending(UNSET if said is None else result)
    return Call(
        id=part.id,
        name=part.name,
        arguments=blob_or(part, "arguments"),
        status=status,
        answered=said is not None,
        result=result,
        error=error,
        finding=found.finding,
        effect=effect if effect > 0 else None,
        recovery=found.recovery,
        attempts=found.attempts,
        ms=found.ms,
        performed_with=found.performed_with,
        patched=found.patch is not None,
        source=found.source,
    )


def _told_of(found: CallFacts) -> Any:
    """What the code was told of how its call ended; ``None`` while it has not."""
    if found.patch is not None:
        return patched_answer(found.patch).parts[0]
    ended = found.outcome is not None and found.phase in ("", "settled") and not isinstance(found.outcome, Unknown)
    return answers.told("", found.outcome).parts[0] if ended and found.outcome is not None else None


def _own(effect: int, asked: ToolCall | StepCall, found: CallFacts) -> Call:
    """A call of a function's own code, with what it was told of its ending."""
    status, error = found.ending(UNSET)
    said = _told_of(found)
    return Call(
        id=asked.id if isinstance(asked, ToolCall) else "",
        name=asked.tool if isinstance(asked, ToolCall) else asked.name,
        arguments=blob_or(asked, "arguments"),
        status=status,
        answered=said is not None,
        result=blob_or(said, "response") if isinstance(said, ResponsePart) else None,
        error=error,
        finding=found.finding,
        effect=effect,
        recovery=found.recovery,
        attempts=found.attempts,
        ms=found.ms,
        performed_with=found.performed_with,
        patched=found.patch is not None,
        source=found.source,
    )
