"""Snapshots of a folder and rewinds to them, with or without a run."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from forkpoint.errors.files import NothingToUndo, SnapshotNotFound, WorkspaceBadChoice, WorkspaceEscape
from forkpoint.workspace.aim import after_rewind, aim
from forkpoint.workspace.capture import DEFAULT_MAX_FILE_BYTES
from forkpoint.workspace.copying import Copied, Copying
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.ignore import BULK_FOLDERS
from forkpoint.workspace.live import LiveFolder
from forkpoint.workspace.plan import By
from forkpoint.workspace.port import Explained, Point, Rewound, Snapshot, SnapshotEntry
from forkpoint.workspace.register import Register, needed_digests
from forkpoint.workspace.rewinding import Choices, Rewinding
from forkpoint.workspace.store import ContentStore
from forkpoint.workspace.taking import Taking
from forkpoint.workspace.textdiff import FileDiff, diff_of
from forkpoint.workspace.tree import Change, Entry, File, TreeId, differences, lookup, shown, walk

DEFAULT_KEEP_TURNS = 20


class WorkspaceRecorder:
    """A folder whose every state can be held, looked at and brought back.

    ``root`` is the folder, ``store`` a ``ContentStore`` or the path of one's folder. ``owner`` tells
    several users of one store apart (a run's id). The ``keep_turns`` newest turns are kept (``None``:
    all). Files over ``max_file_bytes`` and folders named in ``bulk`` are noted, not held. ``own``
    are paths that belong to the caller's own store and are passed over. ``threads`` read in
    parallel when there is much to read (0: none beside the caller's). With ``may_be_gone`` the
    folder need not be there any more: what is stored of it can still be looked at and copied.

    Raises ``workspace.refused`` for ``/``, a home folder, no folder, and a store or a folder in one;
    ``workspace.bad-choice`` for ``keep_turns`` below 1 or ``max_file_bytes`` below 0.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        store: ContentStore | str | os.PathLike[str],
        *,
        owner: str = "default",
        keep_turns: int | None = DEFAULT_KEEP_TURNS,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        bulk: Sequence[str | bytes] | None = None,
        own: Sequence[str | os.PathLike[str]] = (),
        may_be_gone: bool = False,
        disk: Disk | None = None,
        threads: int = 2,
        clock_ms: Callable[[], int] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        if keep_turns is not None and keep_turns < 1:
            raise WorkspaceBadChoice(problem=f"keep_turns is at least 1, not {keep_turns}")
        if max_file_bytes < 0:
            raise WorkspaceBadChoice(problem=f"max_file_bytes is at least 0, not {max_file_bytes}")
        port = disk or Disk()
        self._owns_store = not isinstance(store, ContentStore)
        self._store = store if isinstance(store, ContentStore) else ContentStore(store, disk=port)
        self._keep_turns = keep_turns
        live = LiveFolder(
            root,
            disk=port,
            bulk=BULK_FOLDERS if bulk is None else frozenset(os.fsencode(name) for name in bulk),
            max_file_bytes=max_file_bytes,
            own=(self._store.folder, *own),
            threads=threads,
            may_be_gone=may_be_gone,
            clock_ns=clock_ns,
        )
        self._register = Register(self._store, owner)
        self._taking = Taking(live, self._store, self._register, keep_turns=keep_turns, clock_ms=clock_ms or _now_ms)
        self._rewinding = Rewinding(self._taking, port)

    @property
    def store(self) -> ContentStore:
        """Where the bytes lie."""
        return self._store

    def __enter__(self) -> "WorkspaceRecorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Keep what the next process can use, and give the store back if it was opened here."""
        with self._store.turn:
            self._taking.live.save_memo(self._store, always=True)
        if self._owns_store:
            self._store.close()

    # -- snapshots -------------------------------------------------------------------------------

    def snapshot(self, *, by: By = "run", turn: int | None = None, label: str = "") -> Snapshot:
        """Hold the folder as it is; see ``Workspace.snapshot``.

        Raises ``snapshot.incomplete`` and ``snapshot.store-full`` (nothing is recorded), and
        ``workspace.rewind-unfinished`` while a rewind that was cut off waits.
        """
        with self._store.turn, self._store.guard(), self._taking.live.opened() as root:
            self._taking.refuse_unfinished()
            return self._taking.take(root, by=by, turn=turn, label=label)

    def list(self) -> tuple[SnapshotEntry, ...]:
        """The snapshots that are kept, oldest first."""
        return self._register.snapshots()

    def changes(self, before: TreeId, after: TreeId) -> tuple[Change, ...]:
        """What differs between two trees, by path."""
        return tuple(differences(self._store.entries, self._taking.tree(before), self._taking.tree(after)))

    def files(self, tree: TreeId) -> Iterator[tuple[bytes, Entry]]:
        """Every path of a tree and what it is; the root is the empty path."""
        return walk(self._store.entries, self._taking.tree(tree))

    def read(self, tree: TreeId, path: bytes) -> bytes:
        """A file's bytes in a tree. Raises ``snapshot.not-found`` if there is no file at the path."""
        entry = lookup(self._store.entries, self._taking.tree(tree), path)
        if not isinstance(entry, File):
            raise SnapshotNotFound(wanted=f"of a file {shown(path)!r}", kept="other paths")
        return self._store.content(entry.digest)

    def diff(self, change: Change) -> FileDiff:
        """A change for reading, as of ``changes``, a snapshot or a dry run."""
        before, after = (self._bytes(change.path, side) for side in (change.before, change.after))
        return diff_of(change, before, after)

    def explain(self, path: str | bytes) -> Explained:
        """What is known of a path: what it is in the last snapshot, and who changed it when."""
        checked = _checked_path(path)
        rows = self.list()
        if not rows:
            raise SnapshotNotFound(wanted=f"of {shown(checked)!r}", kept="none")
        entries = [lookup(self._store.entries, self._taking.tree(row.tree), checked) for row in rows]
        pairs = zip(entries, entries[1:], rows[1:], strict=False)
        return Explained(
            path=checked,
            entry=entries[-1],
            changed=tuple((row, Change(path=checked, before=old, after=new)) for old, new, row in pairs if old != new),
        )

    def copy_to(self, tree: TreeId, folder: str | os.PathLike[str]) -> Copied:
        """Write a tree out as a new folder, for a fork; whole, or not there.

        Raises ``workspace.folder-taken`` if the folder is there and isn't empty, and
        ``workspace.unreachable`` if it can't be made.
        """
        root = self._taking.tree(tree)
        live, store = self._taking.live, self._store
        # The store's turn is not held: the threads that write ask it for contents.
        with store.guard(), live.opened_if_there() as source:
            memo = live.memo.root if live.memo is not None else None
            copying = Copying(live.disk, store.entries, store.content, source=source, memo=memo)
            return copying.write(root, Path(folder).absolute())

    def adopt(self, tree: TreeId, *, turn: int = 0) -> None:
        """Put on record that the folder was made as ``tree``, which is then kept as any other snapshot is.

        For the folder of a fork: what it began with stays, whatever becomes of the owner it comes from. Raises
        ``snapshot.not-found``.
        """
        with self._store.turn, self._store.guard():
            self._taking.tree(tree)
            with self._taking.recording():
                taken_ms = self._taking.clock_ms()
                self._register.add(tree, by="outside", turn=turn, taken_ms=taken_ms, label="fork")

    def clear(self) -> None:
        """Forget all snapshots and rewinds of this owner, and what only they needed."""
        with self._store.turn, self._store.guard(alone=True):
            self._taking.refuse_unfinished()
            with self._taking.recording():
                self._register.forget()
            self._store.sweep(needed_digests(self._store))

    def prune(self, *, keep_turns: int | None = None, needed: Sequence[TreeId] = ()) -> tuple[int, int]:
        """Give up old turns and delete contents nothing needs; how many contents and bytes went.

        ``needed`` are trees that others still point to.
        """
        with self._store.turn, self._store.guard(alone=True):
            last = self._register.last()
            keep = keep_turns if keep_turns is not None else self._keep_turns
            if keep is not None and keep < 1:
                raise WorkspaceBadChoice(problem=f"keep_turns is at least 1, not {keep}")
            if last is not None and keep is not None:
                with self._taking.recording():
                    self._register.drop_below(last.turn - keep + 1)
            return self._store.sweep(needed_digests(self._store, needed))

    # -- rewinds ---------------------------------------------------------------------------------

    def rewind(
        self,
        target: TreeId | None = None,
        *,
        turn: int | None = None,
        since: Sequence[Point] | None = None,
        dry_run: bool = False,
        force: bool = False,
        git: bool = False,
        paths: Sequence[str | bytes] | None = None,
        confirm_deletes: bool = False,
        present_by: By = "outside",
    ) -> Rewound:
        """Put files back as they were in ``target``, or before ``turn``; see ``Workspace.rewind``.

        Raises ``snapshot.not-found``, ``snapshot.pruned``, ``workspace.escape`` (nothing is written),
        ``workspace.rewind-asks`` (nothing is written) and ``workspace.rewind-cut-short``.
        """
        narrowed = None if paths is None else tuple(_checked_path(path) for path in paths)
        choices = Choices(force=force, git=git, paths=narrowed, confirmed=confirm_deletes, present_by=present_by)
        if target is None or since is None:
            target, since = aim(self.list(), self._register.floor, target=target, turn=turn)
        return (
            self._rewinding.look(target, since, choices)
            if dry_run
            else (self._rewinding.perform(target, since, choices))
        )

    def undo(self, *, dry_run: bool = False, force: bool = False) -> Rewound:
        """Put back what the last rewind changed, and nothing else. Raises ``workspace.nothing-to-undo``."""
        last = self._register.last_rewind()
        if last is None or last.after is None:
            raise NothingToUndo(root=str(self._taking.live.path))
        since = after_rewind(self.list(), self._register.floor, last.after)
        changed = frozenset(change.path for change in self.changes(last.safety, last.after))
        choices = Choices(force=force, git=True, only=changed, confirmed=True)
        return (
            self._rewinding.look(last.safety, since, choices)
            if dry_run
            else (self._rewinding.perform(last.safety, since, choices))
        )

    def _bytes(self, path: bytes, entry: Entry | None) -> bytes | None:
        """A side's bytes from the store, or from the live file if that is still it."""
        if not isinstance(entry, File):
            return None
        if self._store.has(entry.digest):
            return self._store.content(entry.digest)
        with self._taking.live.opened_if_there() as root:
            return None if root is None else self._taking.live.read_if(root, path, entry)

    def unfinished(self) -> int | None:
        """The number of a rewind that was cut off, or ``None``."""
        row = self._register.unfinished()
        return row.id if row is not None else None

    def finish(self) -> Rewound:
        """Carry a rewind that was cut off to its end. Raises ``workspace.nothing-unfinished``."""
        return self._rewinding.settle(abort=False)

    def abort(self) -> Rewound:
        """Take back what a rewind that was cut off had done. Raises ``workspace.nothing-unfinished``."""
        return self._rewinding.settle(abort=True)


def _checked_path(path: bytes | str) -> bytes:
    """A path below the root, in one spelling. Raises ``workspace.escape``."""
    raw = os.fsencode(path)
    names = raw.removesuffix(b"/").split(b"/")
    if b"\0" in raw or raw.startswith(b"/") or any(name in (b"", b".", b"..") for name in names):
        raise WorkspaceEscape(path=shown(raw), problem="is not a plain path below the workspace")
    return b"/".join(names)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
