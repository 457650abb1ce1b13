"""What a history knows about its steps and calls beyond the messages: times, attempts, outcomes, findings. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from forkpoint import answers
from forkpoint._canon import canonical
from forkpoint._word import Holder
from forkpoint.effects import Effect, ModelCall, StepCall, ToolCall
from forkpoint.events import (
    ApprovalDecided,
    ContextCompacted,
    EffectDispatched,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    Finding,
    RecordedEvent,
    ResultPatch,
    RunForked,
    RunInterrupted,
)
from forkpoint.folding import evolve
from forkpoint.inherit import patched_answer
from forkpoint.messages import Usage
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Entry, Open
from forkpoint.state import RunState
from forkpoint.values import to_json

CallStatus: TypeAlias = Literal["succeeded", "failed", "cancelled", "denied", "unknown", "open"]


class StepFacts(Struct, frozen=True, kw_only=True):
    """How a step came to be."""

    turn: int
    usage: Usage | None
    cost: float | None
    at_ms: int
    ms: int
    attempts: int
    agent: str
    model: str


class CallFacts(Struct, kw_only=True):
    """What is known about one call, gathered event by event."""

    outcome: Outcome | None = None
    phase: str = ""
    denied: bool = False
    finding: Finding | None = None
    recovery: str | None = None
    attempts: int = 0
    ms: int | None = None
    performed_with: Any | UnsetType = UNSET
    patch: ResultPatch | None = None
    source: int | None = None

    def ending(self, shown: Any | UnsetType) -> tuple[CallStatus, str | None]:
        """How the call ended and its error's name. ``shown`` is what a model is told, if it is."""
        if self.patch is not None:
            return ("failed", "Error") if self.patch.error is not None else ("succeeded", None)
        if self.denied:
            return "denied", "denied"
        if isinstance(self.outcome, Unknown) or self.phase == "unknown":
            return "unknown", None
        if self.outcome is not None and self.phase in ("", "settled"):
            return _ending_of(self.outcome)
        return ("open", None) if shown is UNSET else _ending_of_answer(shown)


def _ending_of(outcome: Outcome) -> tuple[CallStatus, str | None]:
    match outcome:
        case Succeeded():
            return "succeeded", None
        case Failed():
            return "failed", outcome.error
        case Cancelled():
            return "cancelled", "cancelled"
        case Unknown():
            return "unknown", None


def _ending_of_answer(shown: Any) -> tuple[CallStatus, str | None]:
    """The same from what a model was shown: Forkpoint's own error answers are known by their shape."""
    if not (isinstance(shown, dict) and set(shown) == {"error", "message"} and isinstance(shown["error"], str)):
        return "succeeded", None
    if shown["message"] in (answers.NOT_RUN, answers.LEFT_OPEN):
        return "cancelled", "cancelled"
    match shown["error"]:
        case "denied":
            return "denied", "denied"
        case "cancelled":
            return "cancelled", "cancelled"
        case "unknown":
            return "unknown", None
        case error:
            return "failed", error


class Facts:
    """What a history says beyond its messages. ``past`` is what summaries took out of the transcript."""

    def __init__(self) -> None:
        self.steps: dict[int, StepFacts] = {}
        self.past: list[Entry] = []
        self.summaries: set[int] = set()
        self.places: dict[tuple[int, int], int] = {}
        """The effect of each call that a model's message (by its event) asked for at a place."""
        self.own: dict[int, ToolCall | StepCall] = {}
        """What a function's code asked for itself, by no model's message."""
        self._calls: dict[int, CallFacts] = {}
        self._asked: dict[int, tuple[str, str, int]] = {}

    def call(self, effect: int) -> CallFacts:
        """What is known about the call that became ``effect``: nothing for 0; -1 is one that was called off."""
        if effect < 0:
            return CallFacts(outcome=Cancelled(reason=answers.NOT_RUN))
        return self._calls.get(effect) or CallFacts()

    def now(self, opened: Mapping[int, Open]) -> None:
        """Take over where the calls stand that are open at this moment."""
        for effect, one in opened.items():
            found = self._of(effect)
            found.phase = one.phase
            found.recovery = found.recovery or one.recovery.value
            found.outcome = one.outcome if one.phase in ("settled", "unknown") else None

    def note(self, before: RunState, recorded: RecordedEvent, state: RunState) -> None:
        """Take in one event, given the states before and after it."""
        event = recorded.event
        if before.function is not None and before.transcript is not state.transcript:
            self._left(before, state)
        match event:
            case EffectRequested():
                self._requested(before, recorded.seq, event.effect)
            case EffectDispatched():
                self._of(event.effect).attempts = event.attempt
            case EffectSettled():
                self._settled(before, recorded, event, state)
            case EffectResolved():
                found = self._of(event.effect)
                if not event.contradicts:
                    found.phase, found.finding = "", event.finding
                    found.outcome = event.outcome or found.outcome
            case ApprovalDecided():
                self._decided(event)
            case ContextCompacted():
                gone = before.transcript.entries[: event.replaced - before.transcript.cold]
                self.past += [entry for entry in gone if entry.seq not in self.summaries]
                self.summaries.add(recorded.seq)
            case RunForked():
                self._forked(recorded.seq, event)
                self.now(state.effects)
            case RunInterrupted():
                self.now(state.effects)
            case _:
                pass

    def _of(self, effect: int) -> CallFacts:
        return self._calls.setdefault(effect, CallFacts())

    def _requested(self, before: RunState, seq: int, effect: Effect) -> None:
        if isinstance(effect, ModelCall):
            self._asked[seq] = (before.agent.name, before.agent.model, before.turn)
            return
        self._of(seq).recovery = effect.recovery.value
        if isinstance(effect, StepCall) or (before.function is not None and not effect.message):
            self.own[seq] = effect
        else:
            self.places[effect.message, effect.call] = seq

    def _left(self, before: RunState, state: RunState) -> None:
        """Another conversation goes on: what was said in the one before stays said."""
        if not before.transcript.entries.shares(state.transcript.entries):
            self.past += before.transcript.entries

    def _settled(self, before: RunState, recorded: RecordedEvent, event: EffectSettled, state: RunState) -> None:
        found = self._of(event.effect)
        found.ms = (found.ms or 0) + event.ms
        found.source = event.source
        if event.then == "final":
            found.phase, found.outcome = "", event.outcome
        if state.step > before.step and event.effect in self._asked:
            agent, model, turn = self._asked[event.effect]
            self.steps[recorded.seq] = StepFacts(
                turn=turn,
                usage=event.usage,
                cost=event.cost,
                at_ms=recorded.at_ms,
                ms=found.ms,
                attempts=event.attempt,
                agent=agent,
                model=model,
            )

    def _decided(self, event: ApprovalDecided) -> None:
        found = self._of(event.effect)
        found.denied = event.decision == "denied"
        if event.decision == "edited":
            found.performed_with = blob_or(event, "arguments")

    def _forked(self, seq: int, event: RunForked) -> None:
        for index, patch in enumerate(event.tool_results, 1):
            if not patch.effect:
                continue
            self._of(patch.effect).patch = patch
            entry = Entry(seq, index, patch.effect, patched_answer(patch))
            self.past = [entry if old.effect == patch.effect else old for old in self.past]


def gathered(history: Sequence[RecordedEvent], after: RunState | None) -> tuple[RunState, Facts]:
    """The state after ``history``, which follows ``after`` or begins a run, and what it says beyond its messages."""
    facts, state = Facts(), after
    for recorded in history:
        before, state = state, evolve(state, recorded)
        if before is not None:
            facts.note(before, recorded, state)
    assert state is not None
    facts.now(state.effects)
    return state, facts


def blob_or(held: Holder, field: str) -> Any:
    """The value of a field, or the reference to it where it stands aside and was not read in."""
    if held.aside and field in held.aside:
        ref = held.aside[field]
        return {"blob": ref.digest, "size": ref.size}
    return getattr(held, field)


def as_canonical(value: Any) -> str:
    """A value as JSON text with sorted keys. Raises ``value.not-json`` where it has no JSON form."""
    try:
        return canonical(value).decode()
    except (TypeError, ValueError, RecursionError):
        return canonical(to_json(value)).decode()


def canonical_arguments(arguments: Any) -> str:
    """Arguments as JSON with sorted keys: equal arguments, equal text. Text that is no JSON stays as it is."""
    if not isinstance(arguments, str):
        return as_canonical(arguments)
    try:
        return as_canonical(msgspec.json.decode(arguments))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return arguments
