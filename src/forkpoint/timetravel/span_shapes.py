"""What a span is, as plain data that any exporter can take, and how its ids and times are made. Pure."""

import hashlib
from typing import Literal, TypeAlias

from msgspec import Struct

from forkpoint.events import RecordedEvent

Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

_BELOW_MS = 999_999


class SpanLink(Struct, frozen=True, kw_only=True):
    """Another span that this one follows from: its trace (32 hex digits) and its id (16)."""

    trace_id: str
    span_id: str
    attributes: Attributes = {}


class SpanEvent(Struct, frozen=True, kw_only=True):
    """Something that happened while a span lasted, at ``at_ns`` since 1970-01-01 UTC."""

    name: str
    at_ns: int
    attributes: Attributes = {}


class Span(Struct, frozen=True, kw_only=True):
    """One piece of a run's work that has ended. ``message`` says more of an ``error``, where content is told.

    Times are ns since 1970-01-01 UTC. The journal's are whole ms; below that they tell the order of events.
    """

    name: str
    kind: Literal["internal", "client"] = "internal"
    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    start_ns: int
    end_ns: int
    attributes: Attributes = {}
    status: Literal["unset", "error"] = "unset"
    message: str = ""
    links: tuple[SpanLink, ...] = ()
    events: tuple[SpanEvent, ...] = ()


class At(Struct, frozen=True):
    """A place in a run's history: its event, and its time in ns since 1970-01-01 UTC."""

    seq: int
    ns: int


def place(recorded: RecordedEvent) -> At:
    """Where an event stands."""
    return At(recorded.seq, recorded.at_ms * 1_000_000 + min(recorded.seq, _BELOW_MS))


def trace_id(born: bytes) -> str:
    """The trace of the run whose first own event has the digest ``born``, which no other run anywhere has."""
    return hashlib.sha256(b"trace\n" + born).hexdigest()[:32]


def span_id(trace: str, kind: str, seq: int) -> str:
    """The span of that kind that begins with event ``seq``: the same whoever tells of it, and how often."""
    return hashlib.sha256(f"{trace}\n{kind}\n{seq}".encode()).hexdigest()[:16]
