"""A run's journal as JSON lines: every event exactly as stored, so that digests can be checked on the way back in.

The first line is a header. A blob's line comes before the first event that refers to it. Each event's line holds the
very bytes that its digest covers. A fork's file begins with the past that it shares.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from forkpoint._canon import content_digest
from forkpoint.aside import bring_back, refs
from forkpoint.codec import decode_event, encode_event, event_digest
from forkpoint.errors import BlobMissing, EventUnknown, EventUnreadable, ExportDiffers, ImportAltered, ImportNotChat
from forkpoint.events import Event, RecordedEvent
from forkpoint.runtime.reading import Reader

VERSION = 1


class Head(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line: the format's version, the run, its last event and that one's digest; and the stretches of
    journals it is made of, oldest first, as (run, after, upto)."""

    forkpoint: int
    run: str
    head: int
    digest: str
    stretches: list[tuple[str, int, int]]


class EventLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event: the run whose journal holds it, its number, time and digest, and its bytes."""

    run: str
    seq: int
    at_ms: int
    digest: str
    event: msgspec.Raw


class BlobLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One large value: the digest that names it, and its JSON as text."""

    blob: str
    data: str


class Journaled(Struct, frozen=True):
    """A file read and checked: its head, its events with their bytes, and its blobs."""

    head: Head
    events: list[RecordedEvent]
    lines: list[bytes]
    blobs: dict[str, bytes]


_encode = msgspec.json.Encoder().encode
_head = msgspec.json.Decoder(Head)
_event = msgspec.json.Decoder(EventLine)
_blob = msgspec.json.Decoder(BlobLine)


async def journal_lines(reader: Reader, run: str, *, upto: int | None = None) -> bytes:
    """A run's journal as the bytes of a file. Raises ``export.differs`` where an event cannot be told exactly."""
    history = await reader.history(run, upto=upto)
    stretches = [(one.run, one.after, one.upto) for one in await reader.lineage(run, upto=upto)]
    last = history[-1]
    lines = [_encode(Head(forkpoint=VERSION, run=run, head=last.seq, digest=last.digest.hex(), stretches=stretches))]
    told: set[str] = set()
    before = bytes(32)
    for recorded in history:
        line = encode_event(recorded.event)
        before = event_digest(before, recorded.run, recorded.seq, recorded.at_ms, line)
        if before != recorded.digest:
            raise ExportDiffers(run=run, seq=recorded.seq)
        for digest in refs(recorded.event):
            if digest not in told:
                told.add(digest)
                lines.append(_encode(BlobLine(blob=digest, data=(await reader.blob(digest)).decode())))
        lines.append(_encode(_line(recorded, line)))
    return b"\n".join(lines) + b"\n"


def _line(recorded: RecordedEvent, line: bytes) -> EventLine:
    return EventLine(
        run=recorded.run,
        seq=recorded.seq,
        at_ms=recorded.at_ms,
        digest=recorded.digest.hex(),
        event=msgspec.Raw(line),
    )


def read_journal(data: bytes) -> Journaled:
    """A file with every digest checked. Raises ``import.not-chat`` for another kind of file and ``import.altered``
    naming the first line that is not as it was exported."""
    numbered = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    head = _header(numbered[0][1] if numbered else b"")
    found = Journaled(head, [], [], {})
    before = bytes(32)
    for number, line in numbered[1:]:
        where = f"line {number}"
        if line.startswith(b'{"blob":'):
            _take_blob(found, line, where)
        else:
            before = _take_event(found, line, where, before)
    if len(found.events) != head.head or before.hex() != head.digest:
        raise _altered("the end of the file", f"it holds {len(found.events)} of {head.head} events")
    if [*_stretches(found.events)] != [tuple(one) for one in head.stretches]:
        raise _altered("line 1", "its events are not of the stretches that it names")
    return found


def _header(line: bytes) -> Head:
    try:
        head = _head.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ImportNotChat(where="line 1", format="forkpoint", detail=str(error)) from error
    if head.forkpoint != VERSION:
        detail = f"its version is {head.forkpoint}, and this release reads {VERSION}"
        raise ImportNotChat(where="line 1", format="forkpoint", detail=detail)
    return head


def _altered(where: str, detail: str) -> ImportAltered:
    return ImportAltered(where=where, detail=detail)


def _take_blob(found: Journaled, line: bytes, where: str) -> None:
    try:
        blob = _blob.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _altered(where, str(error)) from error
    data = blob.data.encode()
    if content_digest(data) != blob.blob:
        raise _altered(where, f"the blob {blob.blob} has other bytes")
    found.blobs[blob.blob] = data


def _take_event(found: Journaled, line: bytes, where: str, before: bytes) -> bytes:
    """Check one event against the digest before it; the digest after it."""
    try:
        told = _event.decode(line)
        raw = bytes(told.event)
        event = decode_event(raw, run=told.run, seq=told.seq)
        bring_back(event, found.blobs.__getitem__)
    except (msgspec.DecodeError, UnicodeDecodeError, EventUnknown, EventUnreadable, BlobMissing) as error:
        raise _altered(where, _why(error)) from error
    if told.seq != len(found.events) + 1:
        raise _altered(where, f"event {told.seq} stands where {len(found.events) + 1} is next")
    digest = event_digest(before, told.run, told.seq, told.at_ms, raw)
    if digest.hex() != told.digest:
        raise _altered(where, f"event {told.seq} has other bytes than its digest covers")
    found.events.append(RecordedEvent(told.run, told.seq, told.at_ms, digest, event))
    found.lines.append(raw)
    return digest


def _why(error: Exception) -> str:
    """What is wrong with an event, without what the error says about writing."""
    match error:
        case EventUnreadable():
            return error.detail
        case EventUnknown():
            return f"nobody knows the kind of event {error.event!r}"
        case _:
            return str(error)


def _stretches(events: list[RecordedEvent]) -> Iterator[tuple[str, int, int]]:
    start = 0
    for place, recorded in enumerate(events):
        if place + 1 == len(events) or events[place + 1].run != recorded.run:
            yield recorded.run, start, recorded.seq
            start = recorded.seq


def whole(event: Event, blobs: dict[str, bytes]) -> Event:
    """An event with its large values in place."""
    found: Event = bring_back(event, blobs.__getitem__)
    return found
