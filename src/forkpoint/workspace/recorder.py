"""Snapshots of a folder and rewinds to them, with or without a run.

What a crash leaves behind, in the order of a rewind: nothing but contents (before the plan is on
record); a plan and a staging folder (before it acts); a plan that ``finish`` or ``abort`` can carry
to its end from wherever it stopped.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from forkpoint.errors.files import (
    NothingToUndo,
    NothingUnfinished,
    RewindAsks,
    RewindCutShort,
    RewindUnfinished,
    SnapshotNotFound,
    SnapshotPruned,
    WorkspaceBusy,
    WorkspaceEscape,
)
from forkpoint.workspace.capture import DEFAULT_MAX_FILE_BYTES, Captured
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.ignore import BULK_FOLDERS
from forkpoint.workspace.live import LiveFolder
from forkpoint.workspace.plan import By, Kept, Passage, Plan, PlanEscapes, plan_rewind
from forkpoint.workspace.port import NotHeld, NotKept, Point, Rewound, Snapshot, SnapshotEntry
from forkpoint.workspace.register import Register, RewindRow, StoredPlan, needed_digests
from forkpoint.workspace.restore import Escaped, PutBack, PutBackStopped, passing_modes, turned_round
from forkpoint.workspace.store import ContentStore
from forkpoint.workspace.tree import (
    Change,
    Entries,
    Entry,
    File,
    Folder,
    TreeId,
    changed,
    decode_folder,
    differences,
    digest_in,
    digest_of,
    encode_tree,
    lookup,
    shown,
    tree_id,
    walk,
)

DEFAULT_KEEP_TURNS = 20


class WorkspaceRecorder:
    """A folder whose every state can be held, looked at and brought back.

    ``root`` is the folder, ``store`` a ``ContentStore`` or the path of one's folder. ``owner`` tells
    several users of one store apart (a run's id). ``keep_turns`` newest turns are kept (``None``:
    all). Files over ``max_file_bytes`` and folders named in ``bulk`` are noted, not held. ``own``
    are paths that belong to the caller's own store and are passed over.

    Raises ``workspace.refused`` for ``/``, a home folder or no folder.
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
        disk: Disk | None = None,
        threads: int = 2,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        if keep_turns is not None and keep_turns < 1:
            raise ValueError(f"keep_turns is at least 1, not {keep_turns}")
        if max_file_bytes < 0:
            raise ValueError(f"max_file_bytes is at least 0, not {max_file_bytes}")
        self._disk = disk or Disk()
        self._owns_store = not isinstance(store, ContentStore)
        self._store = store if isinstance(store, ContentStore) else ContentStore(store, disk=self._disk)
        names = BULK_FOLDERS if bulk is None else frozenset(os.fsencode(name) for name in bulk)
        self._live = LiveFolder(
            root,
            disk=self._disk,
            bulk=names,
            max_file_bytes=max_file_bytes,
            own=(self._store.folder, *own),
            threads=threads,
        )
        self._register = Register(self._store, owner)
        self._keep_turns = keep_turns
        self._clock_ms = clock_ms or _now_ms

    def __enter__(self) -> "WorkspaceRecorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back, if it was opened here."""
        if self._owns_store:
            self._store.close()

    # -- snapshots -------------------------------------------------------------------------------

    def snapshot(self, *, by: By = "run", turn: int | None = None, label: str = "") -> Snapshot:
        """Hold the folder as it is; see ``Workspace.snapshot``.

        Raises ``snapshot.incomplete`` and ``snapshot.store-full`` (nothing is recorded), and
        ``workspace.rewind-unfinished`` while a rewind that was cut off waits.
        """
        with self._store.turn, self._store.guard(), self._rolled_back_on_error(), self._live.opened() as root:
            self._refuse_unfinished()
            return self._snapshot(root, by=by, turn=turn, label=label)

    def list(self) -> tuple[SnapshotEntry, ...]:
        """The snapshots that are kept, oldest first."""
        return self._register.snapshots()

    def changes(self, before: TreeId, after: TreeId) -> tuple[Change, ...]:
        """What differs between two trees, by path."""
        return tuple(differences(self._store.entries, self._tree(before), self._tree(after)))

    def files(self, tree: TreeId) -> Iterator[tuple[bytes, Entry]]:
        """Every path of a tree and what it is; the root is the empty path."""
        return walk(self._store.entries, self._tree(tree))

    def read(self, tree: TreeId, path: bytes) -> bytes:
        """A file's bytes in a tree. Raises ``snapshot.not-found`` if there is no file at the path."""
        entry = lookup(self._store.entries, self._tree(tree), path)
        if not isinstance(entry, File):
            raise SnapshotNotFound(wanted=f"of a file {shown(path)!r}", kept="other paths")
        return self._store.content(entry.digest)

    def clear(self) -> None:
        """Forget all snapshots and rewinds of this owner, and what only they needed."""
        with self._store.turn, self._store.guard(alone=True):
            self._refuse_unfinished()
            self._register.forget()
            self._store.sweep(needed_digests(self._store))

    def prune(self, *, keep_turns: int | None = None, needed: Sequence[TreeId] = ()) -> tuple[int, int]:
        """Give up old turns and delete contents nothing needs; how many contents and bytes went.

        ``needed`` are trees that others still point to.
        """
        with self._store.turn, self._store.guard(alone=True):
            last = self._register.last()
            keep = keep_turns if keep_turns is not None else self._keep_turns
            if last is not None and keep is not None:
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
        paths: Sequence[bytes] | None = None,
        confirm_deletes: bool = False,
    ) -> Rewound:
        """Put files back as they were in ``target``, or before ``turn``; see ``Workspace.rewind``.

        Raises ``snapshot.not-found``, ``snapshot.pruned``, ``workspace.escape`` (nothing is written),
        ``workspace.rewind-asks`` (nothing is written) and ``workspace.rewind-cut-short``.
        """
        narrowed = None if paths is None else [_checked_path(path) for path in paths]
        tree, points = self._aim(target, turn, since)
        choices = {"force": force, "git": git, "paths": narrowed}
        return self._go(tree, points, choices, dry_run=dry_run, confirmed=confirm_deletes)

    def undo(self, *, dry_run: bool = False, force: bool = False) -> Rewound:
        """Put back what the last rewind changed. Raises ``workspace.nothing-to-undo``."""
        last = self._register.last_rewind()
        if last is None or last.after is None:
            raise NothingToUndo(root=str(self._live.path))
        points = [Point(tree=last.after, by="rewind"), *self._points_after(last.after)]
        choices = {"force": force, "git": True, "paths": None}
        return self._go(last.safety, points, choices, dry_run=dry_run, confirmed=True)

    def unfinished(self) -> int | None:
        """The number of a rewind that was cut off, or ``None``."""
        row = self._register.unfinished()
        return row.id if row is not None else None

    def finish(self) -> Rewound:
        """Carry a rewind that was cut off to its end. Raises ``workspace.nothing-unfinished``."""
        return self._settle(abort=False)

    def abort(self) -> Rewound:
        """Take back what a rewind that was cut off had done. Raises ``workspace.nothing-unfinished``."""
        return self._settle(abort=True)

    # -- how a snapshot is taken -----------------------------------------------------------------

    def _snapshot(self, root: int, *, by: By, turn: int | None, label: str) -> Snapshot:
        captured = self._live.hold(root, self._store)
        tree = self._keep_tree(captured.root)
        replaced = self._register.meet(os.fsencode(self._live.path), self._live.identity(root))
        last = self._register.last()
        at_turn = turn if turn is not None else (last.turn if last else 0)
        taken_ms = self._clock_ms()
        if last is not None and (last.tree, last.turn, label) == (tree, at_turn, ""):
            number = last.id
        else:
            number = self._register.add(tree, by=by, turn=at_turn, taken_ms=taken_ms, label=label)
            self._retain(last, at_turn)
        self._store.commit()
        found = self._changes_since(last, captured.root, tree)
        return Snapshot(
            id=number,
            tree=tree,
            by=by,
            turn=at_turn,
            taken_ms=taken_ms,
            changes=found,
            not_held=tuple(NotHeld(path=path, reason=note.reason) for path, note in captured.unheld),
            not_kept=tuple(NotKept(path=path, what=what) for path, what in captured.lost),
            files=captured.files,
            size=captured.size,
            notices=self._notices(replaced),
        )

    def _changes_since(self, last: SnapshotEntry | None, root: Folder, tree: TreeId) -> tuple[Change, ...]:
        if last is None or last.tree == tree:
            return ()
        return tuple(differences(self._store.entries, self._tree(last.tree), root))

    def _keep_tree(self, root: Folder) -> TreeId:
        data = encode_tree(root)
        digest = digest_of(data)
        if not self._store.has(digest):
            self._store.insert([(digest, 0, len(data), len(data), data)])
        return tree_id(digest)

    def _retain(self, last: SnapshotEntry | None, turn: int) -> None:
        if self._keep_turns is not None and last is not None and turn > last.turn:
            floor = turn - self._keep_turns + 1
            if floor > 0:
                self._register.drop_below(floor)

    def _notices(self, replaced: bool) -> tuple[str, ...]:
        notices = []
        if replaced:
            notices.append(f"{self._live.path} is another folder than at the last snapshot")
        stored, cap = self._store.stored_bytes, self._store.cap_bytes
        if stored * 5 >= cap * 4:
            notices.append(f"the store holds {stored} of at most {cap} bytes; prune, or raise the cap")
        return tuple(notices)

    @contextlib.contextmanager
    def _rolled_back_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._live.memo = None
            self._store.roll_back()
            raise

    # -- how a rewind is done --------------------------------------------------------------------

    def _aim(
        self, target: TreeId | None, turn: int | None, since: Sequence[Point] | None
    ) -> tuple[TreeId, Sequence[Point]]:
        """The tree to go to, and the snapshots after it."""
        if (target is None) == (turn is None):
            raise ValueError("a rewind names either a tree or a turn")
        rows = self._register.snapshots()
        if turn is not None:
            return self._before_turn(rows, turn)
        assert target is not None
        if since is not None:
            self._tree(target)
            return target, since
        at = max((i for i, row in enumerate(rows) if row.tree == target), default=None)
        if at is None:
            raise SnapshotNotFound(wanted=target, kept=_listed(rows))
        return target, [_point(row) for row in rows[at + 1 :]]

    def _before_turn(self, rows: Sequence[SnapshotEntry], turn: int) -> tuple[TreeId, Sequence[Point]]:
        """The state before the run first changed anything in ``turn`` or later."""
        if turn < 0:
            raise ValueError(f"a turn is at least 0, not {turn}")
        if turn < self._register.floor:
            raise SnapshotPruned(wanted=f"of turn {turn}", floor=self._register.floor)
        first = next((i for i, row in enumerate(rows) if row.turn >= turn and row.by == "run"), len(rows))
        if first == 0:
            raise SnapshotNotFound(wanted=f"before turn {turn}", kept=_listed(rows))
        return rows[first - 1].tree, [_point(row) for row in rows[first:]]

    def _points_after(self, tree: TreeId) -> tuple[Point, ...]:
        rows = self._register.snapshots()
        at = max((i for i, row in enumerate(rows) if row.tree == tree and row.by == "rewind"), default=len(rows))
        return tuple(_point(row) for row in rows[at + 1 :])

    def _go(
        self, target: TreeId, points: Sequence[Point], choices: Mapping[str, Any], *, dry_run: bool, confirmed: bool
    ) -> Rewound:
        with self._store.turn, self._store.guard(), self._only_one(), self._live.opened() as root:
            self._refuse_unfinished()
            if dry_run:
                captured, measured = self._live.measure(root, self._store)
                load = self._loading(measured.folders)
                plan = self._plan(load, captured, target, points, choices)
                self._check_ways(root, plan.changes)
                return self._report(target, plan, captured)
            return self._perform(root, target, points, choices, confirmed=confirmed)

    def _perform(
        self, root: int, target: TreeId, points: Sequence[Point], choices: Mapping[str, Any], *, confirmed: bool
    ) -> Rewound:
        with self._rolled_back_on_error():
            safety = self._snapshot(root, by="outside", turn=None, label="")
            captured = Captured(
                root=self._tree(safety.tree), unheld=(), lost=(), files=safety.files, size=safety.size, read=0
            )
            plan = self._plan(self._store.entries, captured, target, points, choices)
            self._check_ways(root, plan.changes)
            report = self._report(target, plan, captured)
            if report.asks and not confirmed:
                raise RewindAsks(deletes=plan.deleted_files, files=safety.files)
            if not plan.changes:
                self._store.commit()
                return msgspec.structs.replace(report, dry_run=False, safety=safety.tree, after=safety.tree)
            stored = StoredPlan(
                changes=plan.changes, folder_modes=passing_modes(plan.changes, self._modes(captured.root))
            )
            number = self._register.begin_rewind(target=target, safety=safety.tree, plan=stored, at_ms=self._clock_ms())
            self._store.commit()
        row = RewindRow(id=number, state="started", target=target, safety=safety.tree, after=None, plan=stored)
        return self._carry_out(root, row, stored.changes, plan.kept, ends_as="done")

    def _settle(self, *, abort: bool) -> Rewound:
        with self._store.turn, self._store.guard(), self._only_one(), self._live.opened() as root:
            row = self._register.unfinished()
            if row is None:
                raise NothingUnfinished(root=str(self._live.path))
            if not abort and row.state == "aborting":
                raise RewindUnfinished(root=str(self._live.path), rewind_id=row.id, state=row.state)
            if abort:
                self._register.set_rewind(row.id, "aborting")
                self._store.commit()
                return self._carry_out(root, row, turned_round(row.plan.changes), (), ends_as="aborted")
            return self._carry_out(root, row, row.plan.changes, (), ends_as="done")

    def _carry_out(
        self, root: int, row: RewindRow, changes: Sequence[Change], kept: Sequence[Kept], *, ends_as: str
    ) -> Rewound:
        put = PutBack(
            self._disk,
            root,
            changes,
            content=self._store.content,
            staging=b".forkpoint-rewind-%d" % row.id,
            folder_modes=row.plan.folder_modes,
        )
        try:
            put.stage()
        except PutBackStopped as error:
            self._give_up(put, row, ends_as)
            raise self._cut_short(error, row, ()) from error
        try:
            put.act()
        except PutBackStopped as error:
            raise self._cut_short(error, row, error.done) from error
        return self._record_end(row, put, kept, ends_as)

    def _record_end(self, row: RewindRow, put: PutBack, kept: Sequence[Kept], ends_as: str) -> Rewound:
        base = self._tree(row.safety)
        done = {c.path: c.after for c in put.done} if ends_as == "done" else {}
        with self._rolled_back_on_error():
            reached = self._keep_tree(changed(self._store.entries, self._keep_folder, base, done))
            self._register.set_rewind(row.id, ends_as, reached)
            last = self._register.last()
            if ends_as == "done" and last is not None:
                self._register.add(
                    reached,
                    by="rewind",
                    turn=last.turn,
                    taken_ms=self._clock_ms(),
                    label="",
                    rewound_to=row.target,
                )
            self._store.commit()
        return Rewound(
            target=row.target,
            put_back=put.done,
            kept=tuple(sorted((*kept, *put.raced), key=_path)),
            asks=False,
            dry_run=False,
            rewind_id=row.id,
            safety=row.safety,
            after=reached,
        )

    def _keep_folder(self, digest: bytes, data: bytes) -> None:
        if not self._store.has(digest):
            self._store.insert([(digest, 0, len(data), len(data), data)])

    def _give_up(self, put: PutBack, row: RewindRow, ends_as: str) -> None:
        """Nothing was changed yet: leave it so, unless even that is refused."""
        if ends_as != "done" or row.state != "started":
            return
        try:
            put.give_up()
        except (OSError, PutBackStopped):
            return
        self._register.set_rewind(row.id, "aborted")
        self._store.commit()

    def _cut_short(self, error: PutBackStopped, row: RewindRow, done: Sequence[Change]) -> RewindCutShort:
        reason = error.reason.strerror or str(error.reason)
        return RewindCutShort(
            path=shown(error.path), reason=reason, done=tuple(c.shown for c in done), rewind_id=row.id
        )

    # -- deciding --------------------------------------------------------------------------------

    def _plan(
        self,
        load: Callable[[bytes], Entries],
        captured: Captured,
        target: TreeId,
        points: Sequence[Point],
        choices: Mapping[str, Any],
    ) -> Plan:
        goal = self._tree(target)
        present = differences(load, captured.root, goal)
        try:
            return plan_rewind(present, self._passages(load, goal, target, points, captured.root), **choices)
        except PlanEscapes as error:
            raise WorkspaceEscape(
                path=shown(error.path), problem=f"lies behind the link {shown(error.link)!r}"
            ) from error

    def _passages(
        self,
        load: Callable[[bytes], Entries],
        goal: Folder,
        target: TreeId,
        points: Sequence[Point],
        now: Folder,
    ) -> Sequence[Passage]:
        trees, before = [target], goal
        passages = []
        for point in points:
            root = self._tree(point.tree)
            found = differences(load, before, root)
            back_to = _last_index(trees, point.rewound_to)
            passages.append(Passage(by=point.by, changes={c.path: c for c in found}, rewound_to=back_to))
            trees.append(point.tree)
            before = root
        found = differences(load, before, now)
        passages.append(Passage(by="outside", changes={c.path: c for c in found}))
        return passages

    def _report(self, target: TreeId, plan: Plan, captured: Captured) -> Rewound:
        return Rewound(
            target=target,
            put_back=plan.changes,
            kept=plan.kept,
            asks=plan.deleted_files * 2 > captured.files,
            dry_run=True,
        )

    def _check_ways(self, root: int, changes: Sequence[Change]) -> None:
        put = PutBack(
            self._disk, root, changes, content=self._store.content, staging=b".forkpoint-none", folder_modes={}
        )
        try:
            put.check_ways()
        except Escaped as error:
            raise WorkspaceEscape(path=shown(error.path), problem=error.problem) from error

    def _modes(self, root: Folder) -> Callable[[bytes], int | None]:
        def mode_of(path: bytes) -> int | None:
            entry = lookup(self._store.entries, root, path)
            return entry.mode if isinstance(entry, Folder) else None

        return mode_of

    def _loading(self, measured: Mapping[bytes, bytes]) -> Callable[[bytes], Entries]:
        def load(digest: bytes) -> Entries:
            data = measured.get(digest)
            return self._store.entries(digest) if data is None else decode_folder(data)

        return load

    def _tree(self, tree: TreeId) -> Folder:
        try:
            digest = digest_in(tree)
        except ValueError as error:
            raise SnapshotNotFound(wanted=tree, kept="named sha256:…") from error
        if not self._store.has(digest):
            rows = self._register.snapshots()
            if self._register.floor:
                raise SnapshotPruned(wanted=tree, floor=self._register.floor)
            raise SnapshotNotFound(wanted=tree, kept=_listed(rows))
        return self._store.tree(digest)

    def _refuse_unfinished(self) -> None:
        row = self._register.unfinished()
        if row is not None:
            raise RewindUnfinished(root=str(self._live.path), rewind_id=row.id, state=row.state)

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        """One rewind at a time in this folder, in any process."""
        name = hashlib.sha256(os.fsencode(self._live.path)).hexdigest()[:32]
        path = self._store.folder / f"rewind-{name}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise WorkspaceBusy(root=str(self._live.path)) from error
        finally:
            os.close(handle)


def _checked_path(path: bytes | str) -> bytes:
    """A path below the root, in one spelling. Raises ``workspace.escape``."""
    raw = os.fsencode(path)
    names = raw.removesuffix(b"/").split(b"/")
    if b"\0" in raw or raw.startswith(b"/") or any(name in (b"", b".", b"..") for name in names):
        raise WorkspaceEscape(path=shown(raw), problem="is not a plain path below the workspace")
    return b"/".join(names)


def _point(row: SnapshotEntry) -> Point:
    return Point(tree=row.tree, by=row.by, rewound_to=row.rewound_to)


def _listed(rows: Sequence[SnapshotEntry]) -> str:
    return ", ".join(f"{row.tree[:19]} (turn {row.turn})" for row in rows[-10:]) or "none"


def _last_index(trees: Sequence[TreeId], tree: TreeId | None) -> int | None:
    return max((i for i, known in enumerate(trees) if known == tree), default=None)


def _path(kept: Kept) -> bytes:
    return kept.path


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
