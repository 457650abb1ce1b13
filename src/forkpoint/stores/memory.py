"""A journal in memory, for tests and for runs that nobody wants to keep. Same contract, no file."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable

from msgspec.structs import replace

from forkpoint.errors import (
    BlobMissing,
    JournalConflict,
    LeaseLost,
    OwnerTaken,
    RunBusy,
    RunExists,
    RunNotFound,
    StoreClosed,
)
from forkpoint.ids import check_run_id
from forkpoint.ports import Append, Commit, Lease, Page, RunFilter, RunRow, StoredCheckpoint
from forkpoint.stores.rules import Standing, check_append, check_filter, is_free, is_text, refusal


class _Kept:
    """One run and everything that is kept of it."""

    def __init__(self, number: int, row: RunRow) -> None:
        self.number = number
        self.row = row
        self.labels = dict(row.summary.labels)
        self.commits: list[Commit] = []
        self.calls: dict[str, list[int]] = {}
        self.checkpoints: dict[int, StoredCheckpoint] = {}
        self.refs: dict[str, int] = {}


class _Shelf:
    """What all handles on one journal in memory share."""

    def __init__(self) -> None:
        self.runs: dict[str, _Kept] = {}
        self.blobs: dict[str, bytes] = {}
        self.living: set[str] = set()
        self.started = 0
        self.version = 0


class MemoryJournal:
    """A journal in this process's memory. ``beside`` gives another handle, as another process would have.

    ``commits_made`` counts what a store on disk would have flushed.
    """

    def __init__(self) -> None:
        self._shelf = _Shelf()
        self._owners: set[str] = set()
        self._closed = False
        self.commits_made = 0

    def beside(self) -> "MemoryJournal":
        """Another handle on the same journal, with owners of its own."""
        other = MemoryJournal()
        other._shelf = self._shelf
        return other

    async def append(self, append: Append) -> None:
        """See ``Journal.append``."""
        check_append(append)
        await asyncio.sleep(0)
        kept = self._born(append) if append.born else self._advanced(append)
        commit = append.commit
        self._shelf.blobs.update(append.blobs)
        for digest in (*append.blobs, *append.refs):
            kept.refs.setdefault(digest, commit.last)
        kept.commits.append(commit)
        for call, effect in append.calls:
            kept.calls.setdefault(call, []).append(effect)
        if append.checkpoint is not None:
            kept.checkpoints[commit.last] = StoredCheckpoint(
                seq=commit.last, digest=commit.digest, body=append.checkpoint
            )
        self._wrote()

    def _born(self, append: Append) -> _Kept:
        shelf, commit = self._open(), append.commit
        if append.run in shelf.runs:
            raise RunExists(run=append.run)
        if append.parent is not None:
            parent = shelf.runs.get(append.parent)
            if parent is None:
                raise RunNotFound(run=append.parent)
            if parent.row.head < append.after:
                raise JournalConflict(run=append.parent, expected=append.after, actual=parent.row.head)
        self._check_refs(append)
        row = RunRow(
            run=append.run,
            head=commit.last,
            digest=commit.digest,
            started_at_ms=commit.at_ms,
            updated_at_ms=commit.at_ms,
            summary=append.summary,
            parent=append.parent,
            at=append.after,
        )
        shelf.started += 1
        kept = shelf.runs[append.run] = _Kept(shelf.started, row)
        return kept

    def _advanced(self, append: Append) -> _Kept:
        kept = self._open().runs.get(append.run)
        if kept is None or not _stands(kept.row, append):
            raise refusal(append, None if kept is None else _standing(kept.row))
        self._check_refs(append)
        row, commit, lease = kept.row, append.commit, append.lease
        kept.row = replace(
            row,
            head=commit.last,
            digest=commit.digest,
            updated_at_ms=commit.at_ms,
            summary=append.summary,
            lease_until_ms=max(row.lease_until_ms, lease.until_ms) if lease else row.lease_until_ms,
        )
        return kept

    def _check_refs(self, append: Append) -> None:
        for digest in append.refs:
            if digest not in append.blobs and digest not in self._shelf.blobs:
                raise BlobMissing(digest=digest)

    async def row(self, run: str) -> RunRow | None:
        """See ``Journal.row``."""
        kept = self._open().runs.get(check_run_id(run))
        return None if kept is None else self._shown(kept)

    async def rows(self, which: RunFilter, *, after: int | None = None, limit: int = 50) -> Page:
        """See ``Journal.rows``."""
        check_filter(which, after, limit)
        newest_first = sorted(self._open().runs.values(), key=lambda kept: -kept.number)
        found = [
            kept
            for kept in newest_first
            if (after is None or kept.number < after) and not kept.row.deleted and _matches(kept, which)
        ]
        shown = found[:limit]
        more = len(found) > len(shown)
        return Page(tuple(map(self._shown, shown)), shown[-1].number if more and shown else None)

    async def children(self, run: str) -> tuple[RunRow, ...]:
        """See ``Journal.children``."""
        check_run_id(run)
        found = [kept for kept in self._open().runs.values() if kept.row.parent == run]
        return tuple(self._shown(kept) for kept in sorted(found, key=lambda kept: kept.number))

    async def commits(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        """See ``Journal.commits``."""
        commits = self._kept(run).commits
        return [c for c in commits if c.last > after and (upto is None or c.first <= upto)]

    async def outlines(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        """See ``Journal.outlines``."""
        return [replace(c, body=b"") for c in await self.commits(run, after=after, upto=upto)]

    async def commit_reaching(self, run: str, *, step: int | None = None, turn: int | None = None) -> Commit | None:
        """See ``Journal.commit_reaching``."""
        commits = self._kept(run).commits
        key: Callable[[Commit], int] = (lambda c: c.step) if step is not None else (lambda c: c.turn)
        place = bisect_left(commits, step if step is not None else turn or 0, key=key)
        return commits[place] if place < len(commits) else None

    async def effects_of_call(self, run: str, call: str) -> tuple[int, ...]:
        """See ``Journal.effects_of_call``."""
        calls = self._kept(run).calls
        return tuple(sorted(calls.get(call, ()))) if is_text(call) else ()

    async def checkpoint(self, run: str, *, upto: int) -> StoredCheckpoint | None:
        """See ``Journal.checkpoint``."""
        checkpoints = self._kept(run).checkpoints
        return checkpoints[max(seqs)] if (seqs := [seq for seq in checkpoints if seq <= upto]) else None

    async def blob(self, digest: str) -> bytes:
        """See ``Journal.blob``."""
        blobs = self._open().blobs
        if not is_text(digest) or digest not in blobs:
            raise BlobMissing(digest=digest if is_text(digest) else repr(digest)[:200])
        return blobs[digest]

    async def take_lease(self, run: str, *, owner: str, now_ms: int, until_ms: int) -> Lease:
        """See ``Journal.take_lease``. Raises ``lease.owner-taken`` as well."""
        kept = self._open().runs.get(check_run_id(run))
        if owner in self._shelf.living - self._owners:
            raise OwnerTaken(owner=owner)
        if kept is None or kept.row.deleted:
            raise RunNotFound(run=run)
        row = kept.row
        alive = row.owner in self._shelf.living
        if not is_free(row.owner, mine=row.owner == owner, alive=alive, until_ms=row.lease_until_ms, now_ms=now_ms):
            raise RunBusy(run=run, owner=row.owner or "")
        self._owners.add(owner)
        self._shelf.living.add(owner)
        kept.row = replace(row, epoch=row.epoch + 1, owner=owner, lease_until_ms=until_ms)
        self._wrote()
        return Lease(run=run, owner=owner, epoch=row.epoch + 1, until_ms=until_ms)

    async def renew_lease(self, lease: Lease) -> None:
        """See ``Journal.renew_lease``."""
        kept = self._open().runs.get(lease.run)
        if kept is None or (kept.row.owner, kept.row.epoch) != (lease.owner, lease.epoch):
            raise LeaseLost(run=lease.run, owner=lease.owner, epoch=lease.epoch)
        kept.row = replace(kept.row, lease_until_ms=max(kept.row.lease_until_ms, lease.until_ms))
        self._wrote()

    async def release_lease(self, lease: Lease) -> None:
        """See ``Journal.release_lease``."""
        kept = self._open().runs.get(lease.run)
        if kept is not None and (kept.row.owner, kept.row.epoch) == (lease.owner, lease.epoch):
            kept.row = replace(kept.row, owner=None, lease_until_ms=0)
            self._wrote()

    async def version(self) -> int:
        """See ``Journal.version``."""
        return self._open().version

    async def delete(self, run: str) -> None:
        """See ``Journal.delete``."""
        kept = self._open().runs.get(check_run_id(run))
        if kept is None:
            raise RunNotFound(run=run)
        kept.row = replace(kept.row, deleted=True, owner=None, lease_until_ms=0)
        self._trim(kept)
        self._wrote()

    def _trim(self, kept: _Kept | None) -> None:
        """Cut a deleted run after its last fork point; with none left, remove it and look at its parent."""
        runs = self._shelf.runs
        while kept is not None and kept.row.deleted:
            row = kept.row
            points = [other.row.at for other in runs.values() if other.row.parent == row.run]
            if points:
                _cut(kept, max(points))
                return
            del runs[row.run]
            kept = None if row.parent is None else runs.get(row.parent)

    async def collect(self) -> int:
        """See ``Journal.collect``."""
        shelf = self._open()
        held = {digest for kept in shelf.runs.values() for digest in kept.refs}
        loose = [digest for digest in shelf.blobs if digest not in held]
        freed = sum(len(shelf.blobs.pop(digest)) for digest in loose)
        if loose:
            self._wrote()
        return freed

    async def close(self) -> None:
        """See ``Journal.close``."""
        if self._closed:
            return
        for kept in self._shelf.runs.values():
            if kept.row.owner in self._owners:
                kept.row = replace(kept.row, owner=None, lease_until_ms=0)
        await self.abandon()

    async def abandon(self) -> None:
        """Let go as a killed process does: leases stay on record, and their owner is known to be dead."""
        self._shelf.living -= self._owners
        self._closed = True

    def _open(self) -> _Shelf:
        if self._closed:
            raise StoreClosed(path="memory:")
        return self._shelf

    def _kept(self, run: str) -> _Kept:
        kept = self._open().runs.get(check_run_id(run))
        if kept is None:
            raise RunNotFound(run=run)
        return kept

    def _shown(self, kept: _Kept) -> RunRow:
        owner = kept.row.owner
        return kept.row if owner is None else replace(kept.row, owner_alive=owner in self._shelf.living)

    def _wrote(self) -> None:
        self._shelf.version += 1
        self.commits_made += 1


def _standing(row: RunRow) -> Standing:
    return Standing(head=row.head, digest=row.digest, epoch=row.epoch, owner=row.owner, deleted=row.deleted)


def _stands(row: RunRow, append: Append) -> bool:
    lease = append.lease
    held = lease is None or (row.owner, row.epoch) == (lease.owner, lease.epoch)
    return held and not row.deleted and row.head == append.after and row.digest == append.before


def _cut(kept: _Kept, at: int) -> None:
    """Keep the commits up to the one that holds event ``at``, and what they refer to."""
    kept.commits = [commit for commit in kept.commits if commit.first <= at]
    last = kept.commits[-1] if kept.commits else None
    head = last.last if last else kept.row.at
    kept.calls = {call: [e for e in effects if e <= head] for call, effects in kept.calls.items()}
    kept.checkpoints = {seq: stored for seq, stored in kept.checkpoints.items() if seq <= head}
    kept.refs = {digest: seq for digest, seq in kept.refs.items() if seq <= head}
    kept.row = replace(kept.row, head=head, digest=last.digest if last else b"")


def _matches(kept: _Kept, which: RunFilter) -> bool:
    row, summary = kept.row, kept.row.summary
    return (
        which.status in (None, summary.status)
        and which.agent in (None, summary.agent)
        and which.parent in (None, row.parent)
        and which.due in (None, summary.due)
        and (which.prefix is None or row.run.startswith(which.prefix))
        and all(kept.labels.get(name) == value for name, value in which.labels.items())
    )
