"""Histories and states out of a journal: a run's own commits, its ancestors' before them, checked by digest."""

from collections.abc import Container, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from forkpoint._vector import Vector
from forkpoint.aside import bring_back, refs
from forkpoint.codec import decode_event, event_digest
from forkpoint.errors import EventAltered, RunNotFound
from forkpoint.events import KINDS, RecordedEvent
from forkpoint.folding import fold
from forkpoint.ports import MARK_BYTES, Commit, Journal, RunRow
from forkpoint.runtime.checkpoints import Frozen, thawed, unfreeze
from forkpoint.runtime.writing import PayloadCodec, S, Writer
from forkpoint.state import RunState


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
    """A state from a journal, the digest of its last event, and the checkpoint it was read from, if one was."""

    state: RunState
    digest: bytes
    frozen: Frozen | None = None


def decode_commit(
    commit: Commit,
    run: str,
    before: bytes | None,
    codec: PayloadCodec | None = None,
    only: Container[int] | None = None,
) -> list[RecordedEvent]:
    """The events of ``commit``. With the digest ``before`` its first event, each is checked against its mark.

    ``only`` leaves out events whose number it lacks. Raises ``event.altered`` naming the first bad event,
    ``event.unknown`` or ``event.unreadable``.
    """
    body = codec.decode(commit.body) if codec else commit.body
    lines = body.split(b"\n")
    if len(lines) != len(commit.kinds):
        raise EventAltered(run=run, seq=commit.first)
    events = []
    last = commit.last
    for seq, line in enumerate(lines, commit.first):
        digest = b""
        if before is not None:
            digest = before = event_digest(before, run, seq, commit.at_ms, line)
            place = MARK_BYTES * (seq - commit.first)
            mark = commit.marks[place:] if seq == last else commit.marks[place : place + MARK_BYTES]
            if digest[: len(mark)] != mark or not mark:
                raise EventAltered(run=run, seq=seq)
        if only is None or seq in only:
            events.append(RecordedEvent(run, seq, commit.at_ms, digest, decode_event(line, run=run, seq=seq)))
    return events


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

    async def history(self, run: str, *, after: int = 0, upto: int | None = None) -> list[RecordedEvent]:
        """Events over ``after`` up to ``upto`` of a run, its ancestors' among them, checked by digest."""
        events: list[RecordedEvent] = []
        before: bytes | None = bytes(32) if after == 0 else None
        for stretch in await self.lineage(run, upto=upto):
            if stretch.upto <= after:
                continue
            start = max(stretch.after, after)
            commits = await self.journal.commits(stretch.run, after=start, upto=stretch.upto)
            before = before or await self._digest_before(commits, stretch)
            for commit in commits:
                decoded = decode_commit(commit, stretch.run, before, self._writer.codec)
                before = commit.digest
                events += (event for event in decoded if after < event.seq <= stretch.upto)
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
        lines = (self._writer.codec.decode(commit.body) if self._writer.codec else commit.body).split(b"\n")
        for number, line in enumerate(lines[: seq - commit.first + 1], commit.first):
            before = event_digest(before, stretch.run, number, commit.at_ms, line)
        return before

    async def outlines(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Outline]:
        """The list of a run's events without their bodies."""
        found: list[Outline] = []
        for stretch in await self.lineage(run, upto=upto):
            if stretch.upto <= after:
                continue
            commits = await self.journal.outlines(stretch.run, after=max(stretch.after, after), upto=stretch.upto)
            for commit in commits:
                found += [
                    Outline(stretch.run, seq, KINDS[kind].__name__, commit.at_ms)
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
                part = [event for event in decoded if start < event.seq <= stretch.upto]
                if part:
                    state, digest = fold(part, state), part[-1].digest
        if state is None:
            raise RunNotFound(run=run)
        return Loaded(state=state, digest=digest, frozen=frozen)

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
        addresses = await self._addresses(loaded.frozen)
        seqs = {seq for seq, _, _ in addresses}
        events: dict[int, RecordedEvent] = {}
        for stretch in await self.lineage(state.run, upto=state.seq):
            low, high = max(stretch.after, min(seqs) - 1), min(stretch.upto, max(seqs))
            if low >= high:
                continue
            for commit in await self.journal.commits(stretch.run, after=low, upto=high):
                decoded = decode_commit(commit, stretch.run, None, self._writer.codec, only=seqs)
                events |= {event.seq: event for event in decoded if event.seq <= high}
        return thawed(state, addresses, events)

    async def _addresses(self, frozen: Frozen) -> list[tuple[int, int, int]]:
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
            if any(part.aside for part in entry.message.parts):
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
