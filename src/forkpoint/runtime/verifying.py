"""Whether a store still holds what was written into it: every digest, blob and cached state, checked and reported.

1. Nothing is written, and a fault in one run does not keep the others from being checked.
2. Events are read a page at a time, so that memory does not grow with a run's length; with ``fold`` there is one
   run's state beside it.
3. What was put back whole, with all that depends on it, looks as it did then: a copy of the whole file from
   yesterday is sound. To see that, keep what ``Run.digest`` gives somewhere else and compare.
"""

from collections.abc import AsyncIterator

from msgspec import Struct

from forkpoint.aside import refs
from forkpoint.errors import (
    BlobCorrupt,
    BlobMissing,
    CheckpointAltered,
    ForkpointError,
    RunNotFound,
    RunRowAltered,
)
from forkpoint.events import RecordedEvent
from forkpoint.ports import RunRow
from forkpoint.runtime.checkpoints import Frozen, freeze, unfreeze
from forkpoint.runtime.reading import Reader
from forkpoint.runtime.walking import Walk
from forkpoint.state import RunState
from forkpoint.status import summary

MAX_FINDINGS = 1000
"""How many findings are told one by one; more are counted."""

_MAX_REMEMBERED = 100_000
"""How many blobs that were read are remembered, so as not to read them for every event that refers to them."""

CANNOT_SEE = "A consistent rollback of the whole file to an earlier moment cannot be seen."


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is not as it was written: in which run, at which event (0: the run as a whole), the code of
    the error that says so, and its words."""

    run: str
    seq: int
    code: str
    says: str


class Verified(Struct, frozen=True, kw_only=True):
    """What a verification looked at and what it found. ``more`` counts findings beyond those listed."""

    runs: int
    events: int
    blobs: int
    checkpoints: int
    folded: bool
    findings: tuple[Finding, ...] = ()
    more: int = 0
    cannot_see: str = CANNOT_SEE

    @property
    def sound(self) -> bool:
        """Whether everything is as it was written, as far as can be seen."""
        return not self.findings


class Verifier:
    """One verification. ``fold`` rebuilds states too, and holds summaries, requests and checkpoints against them."""

    def __init__(self, reader: Reader, *, fold: bool) -> None:
        self._reader = reader
        self._fold = fold
        self._findings: list[Finding] = []
        self._more = 0
        self._seen: set[str] = set()
        self._blobs: dict[str, ForkpointError | None] = {}
        self._events = self._blobs_read = self._checkpoints = 0

    async def run(self, name: str) -> Verified:
        """Check one run and everything that it descends from, as far as it shares it."""
        row = await self._reader.row(name)
        for ancestor, upto in await self._lineage(row):
            await self._guarded(ancestor, upto)
        return self._report()

    async def all(self, rows: AsyncIterator[RunRow]) -> Verified:
        """Check every run of ``rows``, and what is kept of deleted runs because these descend from them."""
        async for row in rows:
            for ancestor, _ in await self._lineage(row):
                if ancestor.run not in self._seen and (ancestor.deleted or ancestor.run == row.run):
                    await self._guarded(ancestor, ancestor.head)
        return self._report()

    def _report(self) -> Verified:
        return Verified(
            runs=len(self._seen),
            events=self._events,
            blobs=self._blobs_read,
            checkpoints=self._checkpoints,
            folded=self._fold,
            findings=tuple(self._findings),
            more=self._more,
        )

    def _note(self, run: str, seq: int, error: ForkpointError) -> None:
        if len(self._findings) >= MAX_FINDINGS:
            self._more += 1
            return
        self._findings.append(Finding(run=run, seq=seq, code=error.code, says=str(error)))

    async def _lineage(self, row: RunRow) -> list[tuple[RunRow, int]]:
        """The run and what it descends from, oldest first, each with its last event that is shared."""
        found = [(row, row.head)]
        while row.parent is not None:
            parent = await self._reader.journal.row(row.parent)
            if parent is None:
                break  # told where the run itself is checked
            found.append((parent, min(row.at, found[-1][1])))
            row = parent
        return found[::-1]

    async def _guarded(self, row: RunRow, upto: int) -> None:
        """Check one run's own events. A run that is deleted while it is read is no finding."""
        self._seen.add(row.run)
        told = len(self._findings), self._more
        try:
            await self._own(row, upto)
        except RunNotFound as error:
            self._note(row.run, row.at, error)
        except ForkpointError as error:
            if error.kind != "data":
                raise
            self._note(row.run, 0, error)
        if (len(self._findings), self._more) != told:
            now = await self._reader.journal.row(row.run)
            if now is None or (now.deleted and not row.deleted):
                del self._findings[told[0] :]
                self._more = told[1]

    async def _own(self, row: RunRow, upto: int) -> None:
        cached = await self._cached(row, upto)
        digest, state = await self._past(row)
        walk = Walk(self._reader, row, digest, state, fold=self._fold)
        async for seen in walk.go(upto):
            self._events += 1
            for fault in seen.faults:
                self._note(row.run, seen.seq, fault)
            if seen.recorded is not None:
                await self._look_at_blobs(seen.recorded)
            if seen.seq in cached and not await self._agrees(walk, row.run, bound_to=cached.pop(seen.seq)):
                self._note(row.run, seen.seq, CheckpointAltered(run=row.run, seq=seen.seq))
        if walk.broken:
            return
        for seq in sorted(cached):
            self._note(row.run, seq, CheckpointAltered(run=row.run, seq=seq))
        if upto == row.head:
            await self._look_at_row(row, walk)

    async def _past(self, row: RunRow) -> tuple[bytes, RunState | None]:
        """The digest that a run's own events build on, and the state if it is wanted and can be folded."""
        if row.parent is None:
            return bytes(32), None
        digest, state = bytes(32), None
        if self._fold:
            for ancestor, upto in (await self._lineage(row))[:-1]:
                walk = Walk(self._reader, ancestor, digest, state, fold=True)
                async for _ in walk.go(upto):
                    pass  # what is wrong with it is told where it is checked itself
                digest, state = walk.digest, walk.state
        return await self._reader.digest_at(row.parent, row.at), state

    async def _look_at_row(self, row: RunRow, walk: Walk) -> None:
        """Hold the run's row against its journal."""
        details = []
        if row.head > row.at and walk.digest != row.digest:
            details.append(f"another digest at event {row.head}")
        beyond = await self._reader.journal.outlines(row.run, after=row.head, upto=row.head + 1)
        now = await self._reader.journal.row(row.run)
        if beyond and now is not None and now.head == row.head:
            details.append(f"it ends at event {row.head}, and the journal goes on")
        if walk.state is not None and not row.deleted and summary(walk.state) != row.summary:
            details.append("another summary than its state gives")
        for detail in details:
            self._note(row.run, row.head, RunRowAltered(run=row.run, detail=detail))

    async def _look_at_blobs(self, recorded: RecordedEvent) -> None:
        for digest in refs(recorded.event):
            if digest not in self._blobs:
                if len(self._blobs) >= _MAX_REMEMBERED:
                    self._blobs.clear()
                self._blobs[digest] = await self._blob_fault(digest)
            fault = self._blobs[digest]
            if fault is not None:
                self._note(recorded.run, recorded.seq, fault)

    async def _blob_fault(self, digest: str) -> ForkpointError | None:
        self._blobs_read += 1
        try:
            await self._reader.blob(digest)
        except (BlobMissing, BlobCorrupt) as fault:
            return fault
        return None

    async def _cached(self, row: RunRow, upto: int) -> dict[int, bytes]:
        """The run's checkpoints up to ``upto``: the digest each is bound to, by ``seq``. The unreadable are told."""
        found: dict[int, bytes] = {}
        while upto > row.at:
            stored = await self._reader.journal.checkpoint(row.run, upto=upto)
            if stored is None:
                break
            self._checkpoints += 1
            upto = stored.seq - 1
            if Frozen.read(stored.body, run=row.run, seq=stored.seq, digest=stored.digest) is None:
                self._note(row.run, stored.seq, CheckpointAltered(run=row.run, seq=stored.seq))
            else:
                found[stored.seq] = stored.digest
        return found

    async def _agrees(self, walk: Walk, run: str, *, bound_to: bytes) -> bool:
        """Whether the checkpoint after the walk's last event is of that event and, if it was folded, its state."""
        digest, state = walk.digest, walk.state
        if walk.broken or bound_to != digest:
            return walk.broken
        stored = await self._reader.journal.checkpoint(run, upto=walk.seq)
        if state is None or stored is None or stored.seq != walk.seq:
            return True  # not folded, or removed meanwhile
        there = Frozen.read(stored.body, run=run, seq=walk.seq, digest=digest)
        here = Frozen.read(freeze(state, digest, None), run=run, seq=walk.seq, digest=digest)
        if there is None or here is None or unfreeze(there) != unfreeze(here):
            return False
        try:
            return await self._reader.addresses(there) == here.added
        except RunNotFound:
            return False
