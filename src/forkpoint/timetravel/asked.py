"""What a function asked for so far and what came of it, by what was asked: the record that answers it again. Pure.

An ask is known by its identity (kind, name, canonical content), and equal ones by their order, so that calls made side
by side may come in any order. Each record answers once.
"""

from collections import deque
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from forkpoint._canon import canonical
from forkpoint.answers import LEFT_OPEN
from forkpoint.effects import Effect, ModelCall, StepCall, ToolCall
from forkpoint.events import (
    ApprovalDecided,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    Finding,
    FunctionReturned,
    RecordedEvent,
    ResultPatch,
    RunContinued,
    RunForked,
    RunInterrupted,
)
from forkpoint.messages import Message
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.state import RunState


class Asked(Struct, kw_only=True, eq=False):
    """One effect that was asked for. ``outcome`` or ``finding`` is there once it has ended for good; ``source`` is the
    parent's effect whose record answered, ``patched`` says that a fork set the outcome. ``gone`` says that it answers
    nothing: it was called off before it ended."""

    effect: int
    identity: str
    says: str
    outcome: Outcome | None = None
    finding: Finding | None = None
    source: int | None = None
    ended: int = 0
    patched: bool = False
    taken: bool = False
    gone: bool = False

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""
        return self.outcome is not None or self.finding is not None


class Record:
    """Everything that was asked for in one run, taken event by event."""

    def __init__(self) -> None:
        self.asked: dict[int, Asked] = {}
        self.unused = 0
        """How many records have answered nothing so far."""
        self._waiting: dict[str, deque[Asked]] = {}
        self._last = 0
        self._failed = False
        self._off = False

    def take(self, identity: str) -> Asked | None:
        """The first record of that identity that has answered nothing yet; from now on it has."""
        found = self._waiting.get(identity)
        while found:
            one = found.popleft()
            if not one.gone and not one.taken:
                self.use(one)
                return one
        return None

    def use(self, one: Asked) -> None:
        """Take a record that has just been made."""
        if not one.taken:
            one.taken = True
            self.unused -= not one.gone

    def left(self) -> list[Asked]:
        """The records that have answered nothing, in order."""
        return [one for one in self.asked.values() if not one.taken and not one.gone]

    def note(self, recorded: RecordedEvent, state: RunState) -> None:
        """Take in one event; ``state`` is where the run stands after it."""
        event = recorded.event
        match event:
            case EffectRequested():
                self._requested(recorded.seq, event.effect)
            case EffectSettled():
                self._settled(recorded.seq, event)
            case EffectResolved():
                self._resolved(recorded.seq, event)
            case ApprovalDecided() if event.decision == "denied":
                self._end(event.effect, recorded.seq, Cancelled(reason=f"denied: {event.reason}".rstrip(": ")))
            case RunInterrupted():
                self._off = True
                self._called_off(state)
            case RunForked():
                self._forked(recorded.seq, event, state)
            case FunctionReturned():
                self._failed = isinstance(event.outcome, Failed)
            case RunContinued():
                self._off = False
                if self._failed:
                    self._try_again()
            case _:
                pass

    def _requested(self, seq: int, effect: Effect) -> None:
        self._last = seq
        if effect.identity is None:
            return
        one = Asked(effect=seq, identity=effect.identity, says=told(effect))
        self.asked[seq] = one
        self._waiting.setdefault(one.identity, deque()).append(one)
        self.unused += 1

    def _settled(self, seq: int, event: EffectSettled) -> None:
        if event.then != "final" or isinstance(event.outcome, Unknown):
            return
        one = self._end(event.effect, seq, event.outcome)
        if one is not None:
            one.source = event.source
            signalled = self._off and isinstance(event.outcome, Failed) and not event.outcome.happened
            if signalled or isinstance(event.outcome, Cancelled):
                self._forget(one)

    def _resolved(self, seq: int, event: EffectResolved) -> None:
        doing_again = event.source == "probe" and event.finding == "not_occurred"
        if event.contradicts or event.finding == "unknown" or doing_again:
            return
        one = self._end(event.effect, seq, event.outcome)
        if one is not None:
            one.finding = event.finding

    def _end(self, effect: int, seq: int, outcome: Outcome | None) -> Asked | None:
        one = self.asked.get(effect)
        if one is not None:
            one.outcome, one.ended = outcome, seq
        return one

    def _forget(self, one: Asked) -> None:
        if not one.gone:
            one.gone = True
            self.unused -= not one.taken

    def _called_off(self, state: RunState) -> None:
        """Forget what an interrupt ended before it was known how it would end: it may be asked for again."""
        for one in self.asked.values():
            opened = state.effects.get(one.effect)
            if not one.over and (opened is None or opened.phase == "settled"):
                self._forget(one)

    def _forked(self, seq: int, event: RunForked, state: RunState) -> None:
        for patch in event.tool_results:
            one = self._end(patch.effect, seq, _patched(patch))
            if one is not None:
                one.patched = True
        for one in self.asked.values():
            if one.over or one.gone:
                continue
            opened = state.effects.get(one.effect)
            if opened is None:
                self._forget(one)
            elif opened.phase == "settled":
                self._end(one.effect, seq, opened.outcome or Cancelled(reason=LEFT_OPEN))

    def _try_again(self) -> None:
        """Forget the failures that nothing came after: they are what ended the function, and are tried again."""
        self._failed = False
        for one in self.asked.values():
            failed = isinstance(one.outcome, Failed) and not one.outcome.happened
            if failed and one.ended > self._last and not one.patched:
                self._forget(one)


def _patched(patch: ResultPatch) -> Outcome:
    """The outcome that a fork's patch sets: a model's where it is a message."""
    if patch.error is not None:
        return Failed(error="Error", text=patch.error)
    if patch.message is not None:
        return Succeeded(message=patch.message)
    return Succeeded(value=patch.value, aside=patch.aside)


def told(effect: Effect) -> str:
    """What was asked, in one line."""
    match effect:
        case ModelCall():
            return "the model, with more messages than before" if effect.since else "the model"
        case ToolCall():
            return says(effect.tool, effect.arguments, aside=effect.aside is not None)
        case StepCall():
            return says(effect.name, effect.arguments, aside=effect.aside is not None)


def says(name: str, arguments: object, *, aside: bool = False) -> str:
    """A call in one line, cut where it is long."""
    if aside:
        return f"{name}(…)"
    text = "" if arguments is None else canonical(arguments).decode()
    return f"{name}({text if len(text) <= 200 else text[:200] + '…'})"


def says_model(model: str, messages: Iterable[Message]) -> str:
    """A request in one line: the model, and the end of what it is shown."""
    shown = list(messages)
    last = shown[-1] if shown else None
    words = "" if last is None else last.text or msgspec.json.encode(last.parts).decode()
    return f"the model {model}, shown {len(shown)} message(s), the last: {words[-120:]!r}"
