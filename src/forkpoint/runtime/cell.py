"""One run in this process: its state as of the last event read, and the one way events come to be.

Everything that writes goes through ``Cell.submit``: decide, draft, append, and only then believe. A writer that was
overtaken reads on and decides again, so that no outcome is lost to a command that came from elsewhere.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from forkpoint.commands import Answer, AnyCommand, Ask, Found, Late, Resolve, Return, Send, Settle
from forkpoint.decide import decide
from forkpoint.effects import ToolCall
from forkpoint.errors import ForkpointError, JournalConflict
from forkpoint.events import RecordedEvent, needs_lease
from forkpoint.folding import fold
from forkpoint.messages import CallPart
from forkpoint.ports import Append, Clock, Journal, Lease
from forkpoint.runtime.checkpoints import EVERY, Anchor, freezable, freeze
from forkpoint.runtime.progress import Bulletin
from forkpoint.runtime.reading import Loaded, Reader, decode_commit
from forkpoint.runtime.writing import Draft, Writer
from forkpoint.state import RunState
from forkpoint.status import summary

OUTSIDE = (Settle, Found, Late, Send, Answer, Resolve, Ask, Return)
"""Commands that carry what a model, a tool or a person said."""

HELD = (CallPart, ToolCall)
"""What holds the arguments of a tool call as the model made it."""


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
        self._lock = asyncio.Lock()
        self.rewinding = asyncio.Lock()
        """Held while the run's files are put back, and while performing it begins: never both."""
        self.listeners: set[Callable[[Sequence[RecordedEvent]], None]] = set()
        """Told of every event that is new to this process, in order, once it is on record and folded."""

    @property
    def state(self) -> RunState:
        """The state as of the last event read; something must have been read."""
        assert self._state is not None, "the cell has read nothing yet"
        return self._state

    async def refresh(self) -> RunState:
        """The state as of the run's head now."""
        async with self._lock:
            await self._read_on()
            return self.state

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

    async def submit(self, *commands: AnyCommand, lease: Lease | None = None) -> tuple[RecordedEvent, ...]:
        """Decide ``commands`` one after the other and append what they bring about as one commit.

        Returns the events written: none where there was nothing to do. Raises what ``decide`` refuses,
        ``lease.lost``, and the ``store.*`` errors; then nothing was written.
        """
        async with self._lock:
            if self._state is None:
                await self._read_on()
            while True:
                draft = self._drafted(commands)
                if not draft.recorded:
                    return ()
                append = self._append(draft, lease)
                try:
                    await self.edge.journal.append(append)
                except JournalConflict:
                    await self._read_on()
                    continue
                self._believe(draft, anchored=append.checkpoint is not None)
                self.edge.recorded(self.run, draft.recorded)
                return tuple(draft.recorded)

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
        now_ms = max(self.edge.clock.now_ms(), state.at_ms)
        draft = Draft(run=state.run, state=state, after=state.seq, digest=self.digest, at_ms=now_ms, careful=careful)
        for command in commands:
            if careful and isinstance(command, OUTSIDE):
                command = writer.from_outside(command)  # noqa: PLW2901
            for event in decide(state, command, now_ms):
                state = writer.add(draft, event)
        return draft

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

    def _believe(self, draft: Draft, *, anchored: bool) -> None:
        state = draft.state
        assert state is not None
        if anchored:
            self._anchor = Anchor(self.run, state.seq, state.transcript.entries)
            self._checkpoint_seq = state.seq
        self._state, self.digest = state, draft.digest
        self._tell(draft.recorded)

    async def _read_on(self) -> None:
        if self._state is None:
            loaded = await self.edge.reader.load(self.run)
            self._state, self.digest = loaded.state, loaded.digest
            self._loaded = loaded if loaded.state.transcript.cold else None
            self._checkpoint_seq = loaded.frozen.seq if loaded.frozen else 0
            return
        commits, news = await self.edge.journal.commits(self.run, after=self.state.seq), []
        for commit in commits:
            if commit.first != self.state.seq + 1:
                raise JournalConflict(run=self.run, expected=self.state.seq, actual=commit.last)
            events = decode_commit(commit, self.run, self.digest, self.edge.writer.codec)
            self._state, self.digest = fold(events, self.state), commit.digest
            news += events
        if news:
            self._tell(news)

    def _tell(self, events: Sequence[RecordedEvent]) -> None:
        self.edge.bulletin.post(self.run)
        for listener in tuple(self.listeners):
            listener(events)
