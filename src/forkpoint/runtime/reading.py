"""Histories and states out of a journal: a run's own commits, its ancestors' before them, checked by digest."""

from collections.abc import AsyncIterator, Container, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from forkpoint._vector import Vector
from forkpoint.aside import bring_back, refs, stand_aside
from forkpoint.codec import decode_event, decode_events, event_digest, event_digests
from forkpoint.errors import EventAltered, EventUnreadable, RunNotFound
from forkpoint.events import KINDS, RecordedEvent
from forkpoint.folding import fold
from forkpoint.ports import MARK_BYTES, Commit, Journal, RunFilter, RunRow
from forkpoint.runtime.checkpoints import Frozen, needs_all, thawed, unfreeze
from forkpoint.runtime.writing import PayloadCodec, S, Writer
from forkpoint.state import RunState

PAGE_EVENTS = 512
"""How many events are read at a time where a whole run is gone through."""


PAGE_ROWS = 200
"""How many runs are listed at a time where all of them are gone through."""


_KIND_NAMES = tuple(kind.__name__ for kind in KINDS)


class Stretch(Struct, frozen=True):
    """Events over ``after`` and up to ``upto`` that ``run``'s own journal holds."""

    run: str
    after: int
    upto: int


class Outline(Struct, frozen=True, gc=False):
    """One event of a list without bodies: its number, kind and time."""

    run: str
    seq: int
    kind: str
    at_ms: int


class Loaded(Struct, frozen=True, kw_only=True):
    """A state from a journal, the digest of its last event, and the checkpoint it was read from, if one was.

    ``tip`` is the run that was asked for; inside a shared past the state is an ancestor's."""

    state: RunState
    digest: bytes
    frozen: Frozen | None = None
    tip: str = ""


def decode_commit(
    commit: Commit,
    run: str,
    before: bytes,
    codec: PayloadCodec | None = None,
    only: Container[int] | None = None,
) -> list[RecordedEvent]:
    """The events of ``commit``, each checked against its mark, given the digest ``before`` its first.

    With ``only``, just the events whose numbers it has, unchecked and without digests. Raises ``event.altered``
    naming the first bad event, ``event.unknown`` or ``event.unreadable``.
    """
    lines = lines_of(commit, run, codec)
    first, at_ms = commit.first, commit.at_ms
    if len(lines) != len(commit.kinds):
        raise EventAltered(run=run, seq=first)
    if only is not None:
        return [
            RecordedEvent(run, seq, at_ms, b"", decode_event(line, run=run, seq=seq))
            for seq, line in enumerate(lines, first)
            if seq in only
        ]
    digests = event_digests(before, run, first, at_ms, lines)
    if b"".join([*(digest[:MARK_BYTES] for digest in digests[:-1]), digests[-1]]) != commit.marks:
        raise EventAltered(run=run, seq=_first_altered(commit, digests))
    events = decode_events(lines, run=run, first=first)
    return [
        RecordedEvent(run, seq, at_ms, digest, event)
        for seq, (digest, event) in enumerate(zip(digests, events, strict=True), first)
    ]


def _first_altered(commit: Commit, digests: Sequence[bytes]) -> int:
    """The first event of ``commit`` whose digest does not fit its mark."""
    for place, digest in enumerate(digests[:-1]):
        if digest[:MARK_BYTES] != commit.marks[MARK_BYTES * place : MARK_BYTES * (place + 1)]:
            return commit.first + place
    return commit.last


def _between(events: list[RecordedEvent], after: int, upto: int) -> list[RecordedEvent]:
    if events and after < events[0].seq and events[-1].seq <= upto:
        return events
    return [event for event in events if after < event.seq <= upto]


def lines_of(commit: Commit, run: str, codec: PayloadCodec | None) -> list[bytes]:
    """The JSON lines of a commit's events. Raises ``event.unreadable`` where the payload codec does not take them."""
    if not isinstance(commit.body, bytes):
        raise EventAltered(run=run, seq=commit.first)
    if codec is None:
        return commit.body.split(b"\n")
    try:
        return codec.decode(commit.body).split(b"\n")
    except Exception as error:  # whatever a codec raises, these bytes are not what it gave
        detail = f"the payload codec refuses its bytes ({type(error).__name__})"
        raise EventUnreadable(run=run, seq=commit.first, detail=detail) from error


class Reader:
    """Reads runs through their lineage."""

    def __init__(self, journal: Journal, writer: Writer) -> None:
        self.journal = journal
        self._writer = writer

    async def row(self, run: str) -> RunRow:
        """The run's row. Raises ``run.not-found``."""
        row = await self.journal.row(run)
        if row is None or row.deleted:
            raise RunNotFound(run=run)
        return row

    async def lineage(self, run: str, *, upto: int | None = None) -> list[Stretch]:
        """The stretches of journals that a run's history is made of, oldest first."""
        stretches: list[Stretch] = []
        name: str | None = run
        while name is not None:
            row = await self.journal.row(name)
            if row is None:
                raise RunNotFound(run=name)
            end = row.head if upto is None else min(upto, row.head)
            if end > row.at:
                stretches.append(Stretch(name, row.at, end))
            name, upto = row.parent, min(row.at, end)
        return stretches[::-1]

    def lines(self, commit: Commit, run: str) -> list[bytes]:
        """The JSON lines of a commit of ``run``, before they are checked. Raises ``event.unreadable``."""
        return lines_of(commit, run, self._writer.codec)

    async def rows(self, which: RunFilter) -> AsyncIterator[RunRow]:
        """Every run that the filter lets by, newest first."""
        after = None
        while True:
            page = await self.journal.rows(which, after=after, limit=PAGE_ROWS)
            for row in page.rows:
                yield row
            if page.next is None:
                return
            after = page.next

    async def pages(self, run: str, *, after: int, upto: int) -> AsyncIterator[list[Commit]]:
        """The run's own commits over ``after`` and up to ``upto``, a page at a time, until there are no more."""
        while after < upto:
            commits = await self.journal.commits(run, after=after, upto=min(after + PAGE_EVENTS, upto))
            if not commits:
                return
            yield commits
            after = commits[-1].last

    async def history(self, run: str, *, after: int = 0, upto: int | None = None) -> list[RecordedEvent]:
        """Events over ``after`` up to ``upto`` of a run, its ancestors' among them, checked by digest."""
        events: list[RecordedEvent] = []
        before: bytes | None = bytes(32) if after == 0 else None
        for stretch in await self.lineage(run, upto=upto):
            if stretch.upto <= after:
                continue
            start = max(stretch.after, after)
            commits = await self.journal.commits(stretch.run, after=start, upto=stretch.upto)
            if before is None:
                before = await self._digest_before(commits, stretch)
            for commit in commits:
                decoded = decode_commit(commit, stretch.run, before, self._writer.codec)
                before = commit.digest
                events += _between(decoded, after, stretch.upto)
            before = events[-1].digest if events else None
        return events

    async def _digest_before(self, commits: Sequence[Commit], stretch: Stretch) -> bytes:
        """The digest of the event before the first of ``commits``, which is the last of a commit or a parent's."""
        return await self.digest_at(stretch.run, commits[0].first - 1) if commits else bytes(32)

    async def digest_at(self, run: str, seq: int) -> bytes:
        """The whole digest of one event of a run, or of nothing at 0."""
        if seq == 0:
            return bytes(32)
        stretch = (await self.lineage(run, upto=seq))[-1]
        commits = await self.journal.commits(stretch.run, after=seq - 1, upto=seq)
        if not commits:
            raise RunNotFound(run=run)
        commit = commits[0]
        if commit.last == seq:
            return commit.digest
        before = await self.digest_at(run, commit.first - 1)
        lines = self.lines(commit, stretch.run)
        for number, line in enumerate(lines[: seq - commit.first + 1], commit.first):
            before = event_digest(before, stretch.run, number, commit.at_ms, line)
        return before

    def events(self, run: str, commit: Commit) -> list[RecordedEvent]:
        """The events of one commit, unchecked and without digests."""
        every = range(commit.first, commit.last + 1)
        return decode_commit(commit, run, b"", self._writer.codec, only=every)

    async def outlines(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Outline]:
        """The list of a run's events without their bodies."""
        found: list[Outline] = []
        for stretch in await self.lineage(run, upto=upto):
            if stretch.upto <= after:
                continue
            commits = await self.journal.outlines(stretch.run, after=max(stretch.after, after), upto=stretch.upto)
            found += [
                Outline(stretch.run, seq, _KIND_NAMES[kind], commit.at_ms)
                for commit in commits
                for seq, kind in enumerate(commit.kinds, commit.first)
                if after < seq <= stretch.upto
            ]
        return found

    async def load(self, run: str, *, upto: int | None = None) -> Loaded:
        """The state of a run after ``upto`` (its head if left out), from the nearest checkpoint on."""
        stretches = await self.lineage(run, upto=upto)
        state: RunState | None = None
        digest, frozen = bytes(32), None
        first = 0
        for place in range(len(stretches) - 1, -1, -1):
            found = await self._checkpoint(stretches[place])
            if found is not None:
                frozen, digest = found
                state, first = unfreeze(frozen), place
                break
        for stretch in stretches[first:]:
            start = state.seq if state is not None else stretch.after
            for commit in await self.journal.commits(stretch.run, after=start, upto=stretch.upto):
                decoded = decode_commit(commit, stretch.run, digest, self._writer.codec)
                digest = commit.digest
                part = _between(decoded, start, stretch.upto)
                if part and state is not None and needs_all(state, part[0]):
                    state = await self.thaw(Loaded(state=state, digest=digest, frozen=frozen, tip=run))
                if part:
                    state, digest = fold(part, state), part[-1].digest
        if state is None:
            raise RunNotFound(run=run)
        return Loaded(state=state, digest=digest, frozen=frozen, tip=run)

    async def follow(self, loaded: Loaded, *, count: int) -> list[RecordedEvent]:
        """Some of the events that follow a loaded state, at least ``count`` of them if there are so many."""
        seq, digest = loaded.state.seq, loaded.digest
        events: list[RecordedEvent] = []
        for stretch in await self.lineage(loaded.tip or loaded.state.run):
            if stretch.upto <= seq or len(events) >= count:
                continue
            for commit in await self.journal.commits(stretch.run, after=seq, upto=min(seq + count, stretch.upto)):
                if commit.first <= seq:
                    digest = await self.digest_at(stretch.run, commit.first - 1)
                decoded = decode_commit(commit, stretch.run, digest, self._writer.codec)
                events += _between(decoded, seq, stretch.upto)
                seq, digest = events[-1].seq, events[-1].digest
        return events

    async def _checkpoint(self, stretch: Stretch) -> tuple[Frozen, bytes] | None:
        """The newest sound checkpoint in a stretch, and the digest of the event it was taken after."""
        stored = await self.journal.checkpoint(stretch.run, upto=stretch.upto)
        if stored is None:
            return None
        frozen = Frozen.read(stored.body, run=stretch.run, seq=stored.seq, digest=stored.digest)
        if frozen is None or await self.digest_at(stretch.run, stored.seq) != stored.digest:
            return None
        return frozen, stored.digest

    async def thaw(self, loaded: Loaded) -> RunState:
        """The loaded state with every message in memory."""
        state = loaded.state
        if not state.transcript.cold or loaded.frozen is None:
            return state
        addresses = await self.addresses(loaded.frozen)
        seqs = {seq for seq, _, _ in addresses}
        events: dict[int, RecordedEvent] = {}
        for stretch in await self.lineage(state.run, upto=state.seq):
            low, high = max(stretch.after, min(seqs) - 1), min(stretch.upto, max(seqs))
            if low >= high:
                continue
            for commit in await self.journal.commits(stretch.run, after=low, upto=high):
                for event in decode_commit(commit, stretch.run, b"", self._writer.codec, only=seqs):
                    if event.seq <= high:
                        events[event.seq] = event
        return thawed(state, addresses, events)

    async def addresses(self, frozen: Frozen) -> list[tuple[int, int, int]]:
        """Where every message of a checkpoint's transcript lies, from it and the checkpoints it builds on."""
        parts = [frozen.added]
        while frozen.base is not None:
            run, seq = frozen.base
            stored = await self.journal.checkpoint(run, upto=seq)
            read = None
            if stored is not None and stored.seq == seq:
                read = Frozen.read(stored.body, run=run, seq=seq, digest=stored.digest)
            if read is None:
                raise RunNotFound(run=run)
            frozen = read
            parts.append(frozen.added)
        return [address for part in reversed(parts) for address in part]

    async def blobs(self, words: Iterable[Struct]) -> dict[str, bytes]:
        """The bytes of every blob that ``words`` refer to, by digest."""
        wanted = {digest for word in words for digest in refs(word)}
        return {digest: await self.blob(digest) for digest in wanted}

    async def blob(self, digest: str) -> bytes:
        """One blob's bytes. Raises ``blob.missing`` or ``blob.corrupt``."""
        return self._writer.loaded(digest, await self.journal.blob(digest))

    async def whole(self, word: S) -> S:
        """``word`` with its large values in place."""
        found = await self.blobs([word])
        return bring_back(word, found.__getitem__) if found else word

    async def whole_transcript(self, state: RunState) -> RunState:
        """The state with large values back in every message that it holds."""
        entries = []
        for entry in state.transcript.entries:
            if stand_aside(entry.message.parts):
                entry = replace(entry, message=await self.whole(entry.message))  # noqa: PLW2901
            entries.append(entry)
        effects = {key: await self.whole(opened) for key, opened in state.effects.items()}
        queued = [await self.whole(entry) for entry in (*state.inputs, *state.queue)]
        cut = len(state.inputs)
        return replace(
            state,
            transcript=replace(state.transcript, entries=Vector(entries)),
            effects=effects,
            inputs=tuple(queued[:cut]),
            queue=tuple(queued[cut:]),
            agent=await self.whole(state.agent),
        )
