"""An exported journal back into a store: the same runs with the same events and digests.

1. Everything is checked before anything is written, and each commit continues a prefix that is there: an import that
   was cut off is carried on by importing again.
2. A run that is in the middle of something may still be performed where it came from, so it is paused here.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from forkpoint.aside import refs
from forkpoint.effects import ToolCall
from forkpoint.errors import ImportOtherRun, ImportSecret
from forkpoint.events import EffectRequested, RecordedEvent, RunPaused
from forkpoint.exchange.journal_lines import Journaled, read_journal, whole
from forkpoint.folding import evolve
from forkpoint.ports import Append
from forkpoint.runtime.cell import Edge
from forkpoint.runtime.writing import Draft
from forkpoint.state import RunState
from forkpoint.status import summary

AT_ONCE = 256
"""How many events are written as one commit."""

ELSEWHERE = "imported in the middle of something; it may still be performed where it came from"


class Stood(Struct, frozen=True, kw_only=True):
    """What became of one run of the file. ``written`` counts its new events, ``paused`` says that it was paused."""

    run: str
    written: int
    paused: bool = False


class _Part(Struct):
    """A stretch of one run: its events, with the bytes of each, and the run it was forked from."""

    run: str
    parent: str | None
    after: int
    events: Sequence[RecordedEvent]
    lines: Sequence[bytes]


async def import_journal(edge: Edge, data: bytes) -> list[Stood]:
    """The runs of an exported journal in this store, ancestors first.

    What is there already is left as it is. Raises ``import.not-chat``, ``import.altered``, ``import.secret`` or
    ``import.other-run``; then nothing was written.
    """
    found = read_journal(data)
    for recorded in found.events:
        event = whole(recorded.event, found.blobs)
        if edge.writer.from_outside(event) != event:
            raise ImportSecret(run=recorded.run, seq=recorded.seq)
    parts = list(_parts(found))
    there = [await _there(edge, part) for part in parts]
    state: RunState | None = None
    done = []
    for part, upto in zip(parts, there, strict=True):
        state, stood = await _write(edge, found, part, state, upto)
        done.append(stood)
    return done


def _parts(found: Journaled) -> Iterator[_Part]:
    parent = None
    for run, after, upto in found.head.stretches:
        yield _Part(run, parent, after, found.events[after:upto], found.lines[after:upto])
        parent = run


async def _there(edge: Edge, part: _Part) -> int:
    """Up to which event of ``part`` the store has it already. Raises ``import.other-run``."""
    row = await edge.journal.row(part.run)
    if row is None:
        return part.after
    same = (row.parent, row.at) == (part.parent, part.after if part.parent else 0)
    last = min(row.head, part.events[-1].seq)
    if not same or await edge.reader.digest_at(part.run, last) != part.events[last - part.after - 1].digest:
        raise ImportOtherRun(run=part.run, seq=last)
    return last


async def _write(
    edge: Edge, found: Journaled, part: _Part, state: RunState | None, upto: int
) -> tuple[RunState, Stood]:
    """Fold the whole of ``part`` on ``state`` and write what lies over ``upto``."""
    before = found.events[part.after - 1].digest if part.after else bytes(32)
    for first, last in _commits(part):
        events = part.events[first:last]
        draft = Draft(run=part.run, state=state, after=events[0].seq - 1, digest=before, at_ms=events[0].at_ms)
        calls = _filled(draft, edge, found, events, part.lines[first:last])
        state, before = draft.state, draft.digest
        if events[0].seq > upto:
            born = events[0].seq == part.after + 1
            await edge.journal.append(_append(edge, draft, calls, parent=part.parent if born else None, born=born))
    assert state is not None
    written = part.events[-1].seq - upto
    paused = written > 0 and await _pause(edge, part.run, state, before)
    return state, Stood(run=part.run, written=written, paused=paused)


def _commits(part: _Part) -> Iterator[tuple[int, int]]:
    """Places in ``part`` where commits begin and end: one time each, and no more events than are written at once."""
    start = 0
    for place in range(1, len(part.events) + 1):
        ends = place == len(part.events) or part.events[place].at_ms != part.events[start].at_ms
        if ends or place - start == AT_ONCE:
            yield start, place
            start = place


def _filled(
    draft: Draft, edge: Edge, found: Journaled, events: Sequence[RecordedEvent], lines: Sequence[bytes]
) -> list[tuple[str, int]]:
    """Put events into ``draft`` with the bytes they came with; the provider's call ids among them."""
    calls = []
    for recorded, line in zip(events, lines, strict=True):
        draft.recorded.append(recorded)
        draft.lines.append(line)
        draft.state = evolve(draft.state, recorded)
        draft.digest = recorded.digest
        for digest in refs(recorded.event):
            data = found.blobs[digest]
            draft.blobs[digest] = edge.writer.codec.encode(data) if edge.writer.codec else data
            draft.refs.append(digest)
        if isinstance(recorded.event, EffectRequested) and isinstance(recorded.event.effect, ToolCall):
            calls.append((draft.state.effects[recorded.seq].call, recorded.seq))
    return calls


async def _pause(edge: Edge, run: str, state: RunState, digest: bytes) -> bool:
    """Pause a run whose next step would be taken here; whether that was needed."""
    if not summary(state).due:
        return False
    at_ms = max(edge.clock.now_ms(), state.at_ms)
    draft = Draft(run=run, state=state, after=state.seq, digest=digest, at_ms=at_ms)
    edge.writer.add(draft, RunPaused(reason=ELSEWHERE, actor="import"))
    await edge.journal.append(_append(edge, draft, [], parent=None, born=False))
    return True


def _append(edge: Edge, draft: Draft, calls: list[tuple[str, int]], *, parent: str | None, born: bool) -> Append:
    assert draft.state is not None
    return Append(
        run=draft.run,
        after=draft.after,
        before=draft.before,
        commit=draft.commit(edge.writer.codec),
        summary=summary(draft.state),
        blobs=draft.blobs,
        refs=draft.refs,
        calls=calls,
        born=born,
        parent=parent,
    )
