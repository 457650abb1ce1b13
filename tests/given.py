"""Histories in one line: ``given(started("hi"), asks("pay"), dispatched())`` is a run as it would be on record.

A move is an event, a command, or a function from a past to the events that come next. What is folded is the event as
it was stored and read back, so that every history made here has been through the codec.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from forkpoint._canon import canonical, content_digest, value_digest
from forkpoint.aside import set_aside
from forkpoint.codec import LARGE_BYTES, decode_event, encode_event, event_digest
from forkpoint.commands import (
    Advance,
    AnyCommand,
    CallPlan,
    Command,
    Decide,
    Plan,
    Settle,
    Start,
)
from forkpoint.decide import decide, start
from forkpoint.definition import AgentRecord, Compaction, Limits, ToolRecord
from forkpoint.effects import ModelCall, Recovery
from forkpoint.events import Event, RecordedEvent, RunForked
from forkpoint.folding import evolve, fold
from forkpoint.messages import CallPart, Message, Text, Usage, assistant
from forkpoint.outcomes import Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Open
from forkpoint.state import RunState

BEGAN_MS = 1_700_000_000_000
HOLD, RETRY, REPEAT, RECONCILE = Recovery.HOLD, Recovery.RETRY, Recovery.REPEAT, Recovery.RECONCILE


class Past(Struct, frozen=True):
    """Events 1 to n of a run, and the state that they fold to."""

    events: tuple[RecordedEvent, ...] = ()
    folded: RunState | None = None
    run: str = "r"

    @property
    def state(self) -> RunState:
        """The state after the last event."""
        assert self.folded is not None
        return self.folded

    @property
    def now_ms(self) -> int:
        """The time of the last event."""
        return self.events[-1].at_ms if self.events else BEGAN_MS

    def recorded(self, *events: Event, at_ms: int | None = None) -> "Past":
        """This past with ``events`` on record."""
        past = self
        for event in events:
            past = past._with(event, self.now_ms if at_ms is None else at_ms)
        return past

    def _with(self, event: Event, at_ms: int) -> "Past":
        seq, line = len(self.events) + 1, encode_event(event)
        if len(line) > LARGE_BYTES:
            event, _ = set_aside(event, LARGE_BYTES)
            line = encode_event(event)
        before = self.events[-1].digest if self.events else bytes(32)
        digest = event_digest(before, self.run, seq, at_ms, line)
        recorded = RecordedEvent(self.run, seq, at_ms, digest, decode_event(line, run=self.run, seq=seq))
        return Past((*self.events, recorded), evolve(self.folded, recorded), self.run)

    def when(self, command: AnyCommand, *, later_ms: int = 0) -> tuple[Event, ...]:
        """The events that ``command`` brings about now, or ``later_ms`` from now."""
        return decide(self.state, command, self.now_ms + later_ms)

    def after(self, *moves: "Move", later_ms: int = 0) -> "Past":
        """This past with ``moves`` made, one after the other."""
        past = self
        for move in moves:
            at_ms = past.now_ms + later_ms
            if isinstance(move, Command):
                past = past.recorded(*past.when(move, later_ms=later_ms), at_ms=at_ms)
            elif isinstance(move, Struct):
                past = past.recorded(move, at_ms=at_ms)
            else:
                past = move(past)
        return past

    def upto(self, seq: int) -> "Past":
        """This past as it was after event ``seq``."""
        return Past(self.events[:seq], fold(self.events[:seq]), self.events[seq - 1].run)

    def forked(self, at: int | None = None, *, run: str = "child", later_ms: int = 0, **patch: Any) -> "Past":
        """A fork of this run right after event ``at`` (its last), changed by ``patch``: fields of ``RunForked``."""
        seq = len(self.events) if at is None else at
        event = RunForked(parent=self.run, at=seq, parent_head=len(self.events), **patch)
        shared = self.upto(seq)
        return Past(shared.events, shared.state, run).recorded(event, at_ms=self.now_ms + later_ms)

    def effect(self, name: str = "") -> Open:
        """The open effect of that tool (the first one), or of the model."""
        return next(opened for opened in self.state.effects.values() if opened.name == name)


Move: TypeAlias = "AnyCommand | Event | Callable[[Past], Past]"


class ToolSpec(Struct, frozen=True):
    """A tool of the agent in these tests, and how a call of it is planned."""

    name: str
    recovery: Recovery = HOLD
    gated: bool = False
    external: bool = False
    attempts: int = 3

    @property
    def record(self) -> ToolRecord:
        return ToolRecord(
            name=self.name,
            recovery=self.recovery,
            approval=self.gated,
            external=self.external,
            attempts=self.attempts,
        )

    def plan(self, part: CallPart) -> CallPlan:
        return CallPlan(
            tool=self.name,
            recovery=self.recovery,
            gated=self.gated,
            external=self.external,
            attempts=self.attempts,
            digest=value_digest([part.name, part.arguments]),
        )


TOOLS = {
    tool.name: tool
    for tool in (
        ToolSpec("mail"),
        ToolSpec("charge", RETRY),
        ToolSpec("look", REPEAT),
        ToolSpec("book", RECONCILE),
        ToolSpec("wire", gated=True),
        ToolSpec("ask", external=True),
    )
}
"""One tool of each kind: ``mail`` is HOLD, ``charge`` RETRY, ``look`` REPEAT, ``book`` RECONCILE, ``wire`` needs an
approval, ``ask`` is answered from outside."""


def agent(*, attempts: int = 3, compaction: Compaction | None = None) -> AgentRecord:
    """The agent of these tests."""
    return AgentRecord(
        name="clerk",
        model="test:model",
        tools=tuple(tool.record for tool in TOOLS.values()),
        attempts=attempts,
        compaction=compaction,
    )


def given(*moves: Move, run: str = "r") -> Past:
    """The past in which ``moves`` were made."""
    return Past(run=run).after(*moves)


def started(text: str | None = "hello", *, limits: Limits | None = None, **definition: Any) -> Callable[[Past], Past]:
    """A run begins, with an input unless ``text`` is None."""
    spoken = None if text is None else (Text(content=text),)

    def move(past: Past) -> Past:
        return past.recorded(*start(Start(agent=agent(**definition), input=spoken, limits=limits)))

    return move


def advanced(*, later_ms: int = 0) -> Callable[[Past], Past]:
    """What is due is requested and dispatched."""
    return lambda past: past.after(Advance(by="p"), later_ms=later_ms)


dispatched = advanced


def says(text: str = "done", *, tokens: int = 10) -> Callable[[Past], Past]:
    """The model is asked and answers, without asking for a tool."""
    return _reply(assistant(text), tokens)


def asks(*names: str, ids: Iterable[str] = (), tokens: int = 10, planned: bool = True) -> Callable[[Past], Past]:
    """The model is asked and asks for these tools, one call each: ``c1``, ``c2``. The calls are on record."""
    given_ids = tuple(ids) or tuple(f"c{number}" for number in range(1, len(names) + 1))
    parts = [CallPart(id=name, name=tool, arguments={"of": name}) for name, tool in zip(given_ids, names, strict=True)]
    reply = _reply(assistant("", *parts), tokens)

    def move(past: Past) -> Past:
        past = reply(past)
        return past.after(plans(past)) if planned else past

    return move


def plans(past: Past) -> Plan:
    """The plans for the calls of the model's last message that have none."""
    message = past.state.transcript.entries[-1].message
    calls = zip(message.calls, past.state.batch, strict=True)
    return Plan(plans=tuple(TOOLS[part.name].plan(part) for part, slot in calls if not slot.effect and not slot.answer))


def _reply(message: Message, tokens: int) -> Callable[[Past], Past]:
    def move(past: Past) -> Past:
        if not any(isinstance(opened.effect, ModelCall) for opened in past.state.effects.values()):
            past = past.after(Advance(by="p"))
        return past.after(settled(past, "", Succeeded(message=message), usage=Usage(input_tokens=tokens), cost=0.5))

    return move


def settled(past: Past, name: str, outcome: Outcome, **more: Any) -> Settle:
    """The command that ends the open attempt of ``name`` as ``outcome``."""
    opened = past.effect(name)
    return Settle(effect=opened.seq, attempt=opened.attempt, outcome=outcome, **more)


def ends(name: str, value: Any = "ok", **more: Any) -> Callable[[Past], Past]:
    """The tool's attempt succeeds."""
    return lambda past: past.after(settled(past, name, Succeeded(value=value), **more))


def fails(name: str, error: str = "ValueError", text: str = "no", **more: Any) -> Callable[[Past], Past]:
    """The attempt (a tool's, or the model's for ``""``) ends in an error."""
    return lambda past: past.after(settled(past, name, Failed(error=error, text=text), **more))


def unknown(name: str, because: Any = "timeout") -> Callable[[Past], Past]:
    """Nobody knows how the tool's attempt ended."""
    return lambda past: past.after(settled(past, name, Unknown(because=because), doubtful=True))


def decides(name: str, decision: Any = "allowed", **more: Any) -> Callable[[Past], Past]:
    """A person answers the approval of the tool's call."""

    def move(past: Past) -> Past:
        opened = past.effect(name)
        return past.after(Decide(effect=opened.seq, decision=decision, digest=opened.digest, **more))

    return move


def told(state: RunState) -> list[Any]:
    """The transcript in short: texts, calls as ``name(id)``, answers as (id, response)."""
    short: list[Any] = []
    for message in state.messages:
        for part in message.parts:
            if isinstance(part, CallPart):
                short.append(f"{part.name}({part.id})")
            else:
                short.append(part.content if isinstance(part, Text) else (part.id, part.response))
    return short


def state_digest(state: RunState) -> str:
    """The name of a state by all that it holds: equal digests, equal states, in any release."""
    return content_digest(canonical(_plain(state)))


def _plain(value: Any) -> Any:
    """``value`` as JSON: structs and vectors by their fields and items, maps by the text of their keys."""
    if isinstance(value, Struct):
        fields = {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        return {"": type(value).__name__} | {name: held for name, held in fields.items() if held not in _EMPTY}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, str | int | float | bool | None):
        return value
    return [_plain(item) for item in value]


_EMPTY: tuple[Any, ...] = (None, "", 0, [], {}, False)
