"""Events to bytes and back. Unknown kinds, fields and versions are refused by name; nothing is guessed."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from forkpoint.errors import EventUnknown, EventUnreadable
from forkpoint.events import Event, RecordedEvent, RunStarted

FORMAT = 1
"""The version of the journal format that this release writes."""

LARGE_BYTES = 4096
"""A value whose JSON is longer than this is a blob, aside of its event."""

_sha256 = hashlib.sha256
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)
_kind_of = msgspec.json.Decoder(dict[str, Any])

encode_event: Callable[[Event], bytes] = _encoder.encode
"""An event as one line of JSON, without a line break."""


def decode_event(data: bytes, *, run: str, seq: int) -> Event:
    """The event in ``data``. Raises ``event.unknown`` or ``event.unreadable``, naming ``run`` and ``seq``."""
    try:
        event = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(data, run, seq, str(error)) from error
    if isinstance(event, RunStarted) and event.format > FORMAT:
        detail = f"it is of journal format {event.format}; this release reads {FORMAT}"
        raise EventUnreadable(run=run, seq=seq, detail=detail)
    return event


def decode_events(lines: Sequence[bytes], *, run: str, first: int) -> list[Event]:
    """The events in ``lines``, numbered from ``first``. Raises as ``decode_event`` does."""
    if first == 1 and lines:  # only a run's first event says of which format its journal is
        return [decode_event(lines[0], run=run, seq=1), *decode_events(lines[1:], run=run, first=2)]
    try:
        events = _decoder.decode_lines(b"\n".join(lines))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        events = []
    if len(events) == len(lines):
        return events
    return [decode_event(line, run=run, seq=seq) for seq, line in enumerate(lines, first)]


def _refusal(data: bytes, run: str, seq: int, detail: str) -> EventUnknown | EventUnreadable:
    try:
        kind = _kind_of.decode(data).get("is")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kind = None
    if isinstance(kind, str) and detail.startswith("Invalid value") and detail.endswith("`$.is`"):
        return EventUnknown(run=run, seq=seq, event=kind[:80])
    return EventUnreadable(run=run, seq=seq, detail=detail)


def event_digest(before: bytes, run: str, seq: int, at_ms: int, data: bytes) -> bytes:
    """The digest of one event: SHA-256 over the digest before it, ``run``, ``seq``, ``at_ms`` and its bytes."""
    return _sha256(b"%b%b\n%d\n%d\n%b" % (before, run.encode(), seq, at_ms, data)).digest()


def event_digests(before: bytes, run: str, first: int, at_ms: int, lines: Sequence[bytes]) -> list[bytes]:
    """The digests of the events ``first`` and on that were written together at ``at_ms``."""
    name, sha256 = run.encode(), _sha256
    digests = []
    for seq, data in enumerate(lines, first):
        before = sha256(b"%b%b\n%d\n%d\n%b" % (before, name, seq, at_ms, data)).digest()
        digests.append(before)
    return digests


def encode_recorded(recorded: RecordedEvent) -> dict[str, Any]:
    """A recorded event as plain data, for ``--json`` and exports."""
    return {
        "run": recorded.run,
        "seq": recorded.seq,
        "at_ms": recorded.at_ms,
        "digest": recorded.digest.hex(),
        "event": msgspec.to_builtins(recorded.event),
    }
