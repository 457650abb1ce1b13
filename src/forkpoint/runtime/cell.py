"""One run in this process: its state as of the last event read, and the one way events come to be.

Everything that writes goes through ``Cell.submit``: decide, draft, append, and only then believe. A writer that was
overtaken reads on and decides again, so that no outcome is lost to a command that came from elsewhere.

``Cell.defer`` believes first: what it drafts is appended with the next commit, or by ``flush``. It is for outcomes that
may be asked for again, which a crash in between does not lose but undoes.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from forkpoint.commands import Answer, AnyCommand, Ask, Found, Late, Resolve, Return, Send, Settle
from forkpoint.decide import decide
from forkpoint.errors import ForkpointError, JournalConflict, LeaseLost
from forkpoint.events import RecordedEvent, needs_lease
from forkpoint.folding import fold
from forkpoint.ports import Append, Clock, Journal, Lease
from forkpoint.runtime.checkpoints import EVERY, Anchor, freezable, freeze
from forkpoint.runtime.deferring import DEFERRED_MS, Deferred, MovedError
from forkpoint.runtime.progress import Bulletin
from forkpoint.runtime.reading import Loaded, Reader, decode_commit
from forkpoint.runtime.writing import Draft, Writer
from forkpoint.state import RunState
from forkpoint.status import summary

OUTSIDE = (Settle, Found, Late, Send, Answer, Resolve, Ask, Return)
"""Commands that carry what a model, a tool or a person said."""


class Observer(Protocol):
    """Is told what this process records, once it is on record."""

    def recorded(self, run: str, events: Sequence[RecordedEvent]) -> None:
        """One commit of ``run``, after it. Must neither raise nor wait."""
        ...

    async def close(self) -> None:
        """Nothing more will come; the store is still open."""
        ...


class Edge(Struct, frozen=True, kw_only=True):
    """What every run of one runtime shares: the journal and what stands before it."""

    journal: Journal
    reader: Reader
    writer: Writer
    clock: Clock
    bulletin: Bulletin
    owner: str
    lease_ms: int
    observer: Observer | None = None

    def recorded(self, run: str, events: Sequence[RecordedEvent]) -> None:
        """Tell the observer, if there is one, of a commit of ``run`` that this process has made."""
        if self.observer is not None:
            self.observer.recorded(run, events)


class Cell:
    """A run's state in this process, with the digest of its last event."""

    def __init__(self, edge: Edge, run: str) -> None:
        self.edge = edge
        self.run = run
        self._state: RunState | None = None
        self.digest = bytes(32)
        self._loaded: Loaded | None = None
        self._anchor: Anchor | None = None
        self._checkpoint_seq = 0
        self._deferred: Deferred | None = None
        self.moved = 0
        """How often deferred events came to have other numbers, because somebody else's came between."""
        self._lock = asyncio.Lock()
        self.rewinding = asyncio.Lock()
        """Held while the run's files are put back, and while performing it begins: never both."""
        self.listeners: set[Callable[[Sequence[RecordedEvent]], None]] = set()
        """Told of every event that is new to this process, in order, once it is folded: on record, or deferred."""

    @property
    def state(self) -> RunState:
        """The state as of the last event read; something must have been read."""
        assert self._state is not None, "the cell has read nothing yet"
        return self._state

    async def refresh(self) -> RunState:
        """The state as of the run's head now. What was deferred is on record by then."""
        async with self._lock:
            await self._flush_for_readers()
            await self._read_on()
            return self.state

    async def on_record(self) -> None:
        """Have all that this process believes of the run in the journal, for who reads it there."""
        if self._deferred is not None:
            async with self._lock:
                await self._flush_for_readers()

    async def _flush_for_readers(self) -> None:
        # A performer that lost the run finds that out itself; whoever only looks has nothing to do with it.
        with suppress(LeaseLost):
            await self._flush()

    async def warm(self) -> RunState:
        """The state with every message in memory."""
        async with self._lock:
            if self._state is None:
                await self._read_on()
            if self._loaded is not None and self.state.transcript.cold:
                cold, before = self._loaded, self.state.transcript
                whole = await self.edge.reader.thaw(Loaded(state=self.state, digest=self.digest, frozen=cold.frozen))
                self._state, self._loaded = whole, None
                if cold.frozen is not None and not (before.patched or before.cut):
                    head = whole.transcript.entries.first(cold.frozen.size)
                    self._anchor = Anchor(cold.frozen.run, cold.frozen.seq, head)
            return self.state

    async def submit(
        self, *commands: AnyCommand, lease: Lease | None = None, moved: int | None = None
    ) -> tuple[RecordedEvent, ...]:
        """Decide ``commands`` one after the other and append what they bring about as one commit.

        What is deferred stands first in it. Returns the new events: none where there was nothing to do. Raises what
        ``decide`` refuses, ``lease.lost``, and the ``store.*`` errors; then nothing was written. Raises ``MovedError``
        where ``moved`` is no longer what it was when the commands were made.
        """
        async with self._lock:
            if self._state is None:
                await self._read_on()
            await self._flush_old()
            while True:
                if moved is not None and moved != self.moved:
                    raise MovedError
                draft = self._drafted(commands)
                new = self._new(draft)
                if not new:
                    return ()
                if await self._appended(draft, lease):
                    return tuple(new)

    async def defer(self, *commands: AnyCommand, lease: Lease) -> tuple[RecordedEvent, ...]:
        """Decide ``commands`` and believe what they bring about, to be on record with the next commit under ``lease``.

        Returns its events. Raises what ``decide`` refuses. Whatever is submitted later comes after it, and a commit
        that cannot be made leaves it deferred.
        """
        async with self._lock:
            await self._flush_old()
            while True:
                draft = self._drafted(commands)
                new = self._new(draft)
                if new and not draft.blobs:
                    self._defer(commands, draft, lease)
                    self._tell(new)
                # A blob can be read once it is stored: what has one does not wait.
                if not (new and draft.blobs) or await self._appended(draft, lease):
                    return tuple(new)

    async def flush(self) -> None:
        """Put on record what is deferred. Raises ``lease.lost`` and the ``store.*`` errors."""
        async with self._lock:
            await self._flush()

    async def let_go(self) -> None:
        """Put on record what is deferred; where that cannot be, it never was. Raises as ``flush`` does."""
        try:
            await self.flush()
        finally:
            self._drop()

    @property
    def deferred_at_ms(self) -> int | None:
        """When the oldest of what is believed and not on record yet came to be; ``None`` if all is on record."""
        return None if self._deferred is None else self._deferred.draft.at_ms

    def _new(self, draft: Draft) -> list[RecordedEvent]:
        """What ``draft`` has beyond what is deferred."""
        return draft.recorded[len(self._deferred.draft.recorded) :] if self._deferred is not None else draft.recorded

    def _defer(self, commands: Sequence[AnyCommand], draft: Draft, lease: Lease) -> None:
        assert draft.state is not None
        before = self._deferred
        self._deferred = Deferred(
            commands=(*(before.commands if before else ()), *commands),
            draft=draft,
            state=before.state if before else self.state,
            digest=before.digest if before else self.digest,
            lease=lease,
        )
        self._state, self.digest = draft.state, draft.digest

    def _drop(self) -> None:
        """Believe only what is on record."""
        if self._deferred is not None:
            self._state, self.digest, self._deferred = self._deferred.state, self._deferred.digest, None
            self.moved += 1

    async def _flush_old(self) -> None:
        """Put on record what is too old to have its time in common with what comes now."""
        since_ms = self.deferred_at_ms
        if since_ms is not None and self.edge.clock.now_ms() - since_ms > DEFERRED_MS:
            await self._flush()

    async def _flush(self) -> None:
        while self._deferred is not None:
            await self._appended(self._deferred.draft, self._deferred.lease)

    async def _appended(self, draft: Draft, lease: Lease | None) -> bool:
        """Append ``draft``, which begins with what is deferred; false if the run has moved on, which has been read."""
        deferred, new = self._deferred, self._new(draft)
        append = self._append(draft, deferred.lease if lease is None and deferred is not None else lease)
        try:
            await self.edge.journal.append(append)
        except JournalConflict:
            await self._read_on()
            return False
        except LeaseLost:
            self._drop()  # its effects are somebody else's now, who asks for them again
            if lease is None:
                return False
            raise
        self._deferred = None
        self._believe(draft, new, anchored=append.checkpoint is not None)
        self.edge.recorded(self.run, draft.recorded)
        return True

    def _drafted(self, commands: Sequence[AnyCommand]) -> Draft:
        """What the commands bring about, with secrets by name."""
        try:
            draft = self._draft(commands, careful=False)
        except ForkpointError:
            # What is on record has secrets by name: only a command that has them so can be seen to be the same.
            return self._draft(commands, careful=True)
        return self._draft(commands, careful=True) if self.edge.writer.needs_care(draft) else draft

    def _draft(self, commands: Sequence[AnyCommand], *, careful: bool) -> Draft:
        state, writer = self.state, self.edge.writer
        draft = self._begun(careful)
        now_ms = draft.at_ms
        for command in commands:
            if careful and isinstance(command, OUTSIDE):
                command = writer.from_outside(command)  # noqa: PLW2901
            for event in decide(state, command, now_ms):
                state = writer.add(draft, event)
        return draft

    def _begun(self, careful: bool) -> Draft:
        """A draft to add to: of what is deferred, if something is."""
        if self._deferred is not None:
            return self._deferred.draft.onwards(careful=careful)
        state = self.state
        now_ms = max(self.edge.clock.now_ms(), state.at_ms)
        return Draft(run=state.run, state=state, after=state.seq, digest=self.digest, at_ms=now_ms, careful=careful)

    def _append(self, draft: Draft, lease: Lease | None) -> Append:
        state = draft.state
        assert state is not None
        return Append(
            run=self.run,
            after=draft.after,
            before=draft.before,
            commit=draft.commit(self.edge.writer.codec),
            summary=summary(state),
            blobs=draft.blobs,
            refs=draft.refs,
            calls=draft.calls,
            checkpoint=freeze(state, draft.digest, self._anchor) if self._wants_checkpoint(state) else None,
            lease=None
            if lease is None
            else Lease(run=lease.run, owner=lease.owner, epoch=lease.epoch, until_ms=draft.at_ms + self.edge.lease_ms),
            leased=lease is not None or any(needs_lease(recorded.event) for recorded in draft.recorded),
        )

    def _wants_checkpoint(self, state: RunState) -> bool:
        due = state.seq - self._checkpoint_seq >= EVERY
        return due and not state.transcript.cold and freezable(state)

    def _believe(self, draft: Draft, new: Sequence[RecordedEvent], *, anchored: bool) -> None:
        state = draft.state
        assert state is not None
        if anchored:
            self._anchor = Anchor(self.run, state.seq, state.transcript.entries)
            self._checkpoint_seq = state.seq
        self._state, self.digest = state, draft.digest
        self.edge.bulletin.post(self.run)
        self._tell(new)

    async def _read_on(self) -> None:
        if self._state is None:
            loaded = await self.edge.reader.load(self.run)
            self._state, self.digest = loaded.state, loaded.digest
            self._loaded = loaded if loaded.state.transcript.cold else None
            self._checkpoint_seq = loaded.frozen.seq if loaded.frozen else 0
            return
        deferred = self._deferred
        after = deferred.state.seq if deferred is not None else self.state.seq
        commits, news = await self.edge.journal.commits(self.run, after=after), []
        if not commits:
            return
        self._drop()
        for commit in commits:
            if commit.first != self.state.seq + 1:
                raise JournalConflict(run=self.run, expected=self.state.seq, actual=commit.last)
            events = decode_commit(commit, self.run, self.digest, self.edge.writer.codec)
            self._state, self.digest = fold(events, self.state), commit.digest
            news += events
        if deferred is not None:
            draft = self._drafted(deferred.commands)
            if draft.recorded:
                self._defer(deferred.commands, draft, deferred.lease)
        self.edge.bulletin.post(self.run)
        self._tell(news)

    def _tell(self, events: Sequence[RecordedEvent]) -> None:
        for listener in tuple(self.listeners):
            listener(events)
