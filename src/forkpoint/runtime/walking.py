"""One run's own events, gone through in order and held against their digests; what does not fit is told, not raised."""

from collections.abc import AsyncIterator, Iterator

from msgspec import Struct

from forkpoint.codec import decode_event, event_digest
from forkpoint.effects import ModelCall
from forkpoint.errors import (
    EventAltered,
    EventMisfiled,
    EventMissing,
    EventUnknown,
    EventUnreadable,
    ForkPastAltered,
    ForkpointError,
    RequestAltered,
)
from forkpoint.events import KINDS, EffectRequested, RecordedEvent, RunForked
from forkpoint.folding import evolve
from forkpoint.functions import shown_digest
from forkpoint.ports import MARK_BYTES, Commit, RunRow
from forkpoint.runtime.reading import Reader
from forkpoint.state import RunState
from forkpoint.transcript import request_digest


class Seen(Struct, frozen=True, kw_only=True):
    """One event as it was found: ``recorded`` is ``None`` where it cannot be read; ``faults`` are what is wrong."""

    seq: int
    recorded: RecordedEvent | None = None
    faults: tuple[ForkpointError, ...] = ()


class Walk:
    """Goes through the own events of ``row``'s run, given the digest and the state that they build on.

    ``digest`` and ``state`` are those after the last event seen. ``state`` is ``None`` without ``fold``, and from
    the first event on that cannot be folded. ``broken`` says that an event did not fit its digest or was missing:
    nothing after it can be vouched for, so the walk ended there.
    """

    def __init__(self, reader: Reader, row: RunRow, digest: bytes, state: RunState | None, *, fold: bool) -> None:
        self._reader = reader
        self._row = row
        self._fold = fold and (state is not None or row.parent is None)
        self.digest = digest
        self.state = state if self._fold else None
        self.seq = row.at
        self.broken = False

    async def go(self, upto: int) -> AsyncIterator[Seen]:
        """Every event up to ``upto``, or up to the first that breaks the chain."""
        async for page in self._reader.pages(self._row.run, after=self._row.at, upto=upto):
            for commit in page:
                for seen in self._commit(commit, upto):
                    yield seen
                if self.broken:
                    return
        if self.seq < upto:
            yield self._break(EventMissing(run=self._row.run, seq=self.seq + 1))

    def _break(self, fault: ForkpointError) -> Seen:
        self.broken, self.state = True, None
        return Seen(seq=self.seq + 1, faults=(fault,))

    def _commit(self, commit: Commit, upto: int) -> Iterator[Seen]:
        run = self._row.run
        if commit.first != self.seq + 1:
            yield self._break(EventMissing(run=run, seq=self.seq + 1))
            return
        try:
            lines = self._reader.lines(commit, run)
        except EventUnreadable as fault:
            yield self._break(fault)
            return
        for line in lines:
            if self.seq == upto:
                return
            seq = self.seq + 1
            digest = event_digest(self.digest, run, seq, commit.at_ms, line)
            if not _fits(commit, seq, digest):
                yield self._break(self._altered(seq))
                return
            self.digest, self.seq = digest, seq
            yield self._event(commit, seq, line)
        if self.seq != min(commit.last, upto):
            yield self._break(EventAltered(run=run, seq=self.seq + 1))

    def _altered(self, seq: int) -> ForkpointError:
        """A fork's first event covers its parent's digest, so the fault may be the parent's."""
        row = self._row
        if row.parent is not None and seq == row.at + 1:
            return ForkPastAltered(run=row.run, parent=row.parent, at=row.at)
        return EventAltered(run=row.run, seq=seq)

    def _event(self, commit: Commit, seq: int, line: bytes) -> Seen:
        run = self._row.run
        try:
            event = decode_event(line, run=run, seq=seq)
        except (EventUnknown, EventUnreadable) as fault:
            self._fold, self.state = False, None
            return Seen(seq=seq, faults=(fault,))
        faults: list[ForkpointError] = []
        kind = commit.kinds[seq - commit.first]
        if kind >= len(KINDS) or type(event) is not KINDS[kind]:
            faults.append(EventMisfiled(run=run, seq=seq, detail=f"it is a {type(event).__name__}"))
        if isinstance(event, RunForked) and (event.parent, event.at) != (self._row.parent, self._row.at):
            faults.append(ForkPastAltered(run=run, parent=event.parent, at=event.at))
        recorded = RecordedEvent(run, seq, commit.at_ms, self.digest, event)
        if self._fold:
            faults += self._folded(recorded)
        if self.state is not None and seq == commit.last and (commit.step, commit.turn) != _place(self.state):
            faults.append(EventMisfiled(run=run, seq=seq, detail=f"step {commit.step}, turn {commit.turn}"))
        return Seen(seq=seq, recorded=recorded, faults=tuple(faults))

    def _folded(self, recorded: RecordedEvent) -> list[ForkpointError]:
        """Fold an event, and hold a request against the messages that the model was shown."""
        event, before = recorded.event, self.state
        faults: list[ForkpointError] = []
        try:
            asked = event.effect if isinstance(event, EffectRequested) else None
            if isinstance(asked, ModelCall) and before is not None and not _is_shown(before, asked):
                faults.append(RequestAltered(run=recorded.run, step=before.step + 1))
            self.state = evolve(before, recorded)
        except Exception as error:  # digests that fit do not make it a run: whoever built it may have built nonsense
            self._fold, self.state = False, None
            detail = f"it does not follow from the events before it ({type(error).__name__})"
            faults.append(EventUnreadable(run=recorded.run, seq=recorded.seq, detail=detail))
        return faults


def _fits(commit: Commit, seq: int, digest: bytes) -> bool:
    place = MARK_BYTES * (seq - commit.first)
    if seq < commit.last:
        return commit.marks[place : place + MARK_BYTES] == digest[:MARK_BYTES]
    return seq == commit.last and commit.marks[place:] == digest


def _is_shown(state: RunState, asked: ModelCall) -> bool:
    """Whether the request is what its digest says, asked for in ``state``."""
    if state.function is not None and not asked.compaction:
        return shown_digest(state, asked, state.agent_digest) == asked.digest
    return request_digest(state, asked.add) == asked.digest


def _place(state: RunState) -> tuple[int, int]:
    return state.step, state.turn
