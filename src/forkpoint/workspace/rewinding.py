"""How a rewind is done: hold, plan, put the plan on record, act, put the end on record.

What a crash leaves behind, in this order: contents that nothing names; a plan and a staging folder;
a plan that ``finish`` or ``abort`` carries to its end from wherever it stopped.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from forkpoint.errors.files import (
    NothingUnfinished,
    RewindAsks,
    RewindCutShort,
    RewindUnfinished,
    SnapshotCorrupt,
    SnapshotStoreFailed,
    WorkspaceBusy,
    WorkspaceEscape,
    WorkspaceUnreachable,
)
from forkpoint.workspace.aim import passages
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.plan import By, Kept, Plan, PlanEscapes, plan_rewind
from forkpoint.workspace.port import Point, Rewound
from forkpoint.workspace.register import RewindRow, StoredPlan
from forkpoint.workspace.restore import Escaped, PutBack, PutBackStopped, passing_modes, turned_round
from forkpoint.workspace.taking import Taking
from forkpoint.workspace.tree import (
    Change,
    Entries,
    File,
    Folder,
    Load,
    TreeId,
    changed,
    decode_folder,
    differences,
    lookup,
    shown,
)


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller of a rewind chose."""

    force: bool = False
    git: bool = False
    paths: tuple[bytes, ...] | None = None
    only: frozenset[bytes] | None = None
    confirmed: bool = False
    present_by: By = "outside"


class Rewinding:
    """Rewinds one folder."""

    def __init__(self, taking: Taking, disk: Disk) -> None:
        self._taking, self._disk = taking, disk
        self._live, self._store, self._register = taking.live, taking.store, taking.register

    def look(self, target: TreeId, since: Sequence[Point], choices: Choices) -> Rewound:
        """What ``perform`` would do. Reads only."""
        with self._alone() as root:
            self._taking.refuse_unfinished()
            captured, measured = self._live.measure(root, self._store)
            load = self._loading(measured.folders)
            plan = self._plan(load, captured.root, target, since, choices)
            self._check(root, plan.changes)
            return _planned(target, plan, captured.files)

    def perform(self, target: TreeId, since: Sequence[Point], choices: Choices) -> Rewound:
        """Put the files back; the state before is held first."""
        with self._alone() as root:
            self._taking.refuse_unfinished()
            safety = self._taking.take(root, by=choices.present_by, turn=None, label="")
            present = self._taking.tree(safety.tree)
            plan = self._plan(self._store.entries, present, target, since, choices)
            self._check(root, plan.changes)
            planned = _planned(target, plan, safety.files)
            if planned.asks and not choices.confirmed:
                raise RewindAsks(deletes=plan.deleted_files, files=safety.files)
            if not plan.changes:
                return msgspec.structs.replace(planned, dry_run=False, safety=safety.tree, after=safety.tree)
            row = self._begin(target, safety.tree, plan.changes, present)
            return self._carry_out(root, row, row.plan.changes, plan.kept, fresh=True)

    def settle(self, *, abort: bool) -> Rewound:
        """Carry a rewind that was cut off to its end, or take it back."""
        with self._alone() as root:
            row = self._register.unfinished()
            if row is None:
                raise NothingUnfinished(root=str(self._live.path))
            if not abort and row.state == "aborting":
                raise RewindUnfinished(root=str(self._live.path), rewind_id=row.id, state=row.state)
            if not abort:
                return self._carry_out(root, row, row.plan.changes, ())
            with self._taking.recording():
                self._register.set_rewind(row.id, "aborting")
            row = msgspec.structs.replace(row, state="aborting")
            return self._carry_out(root, row, turned_round(row.plan.changes), ())

    # -- deciding --------------------------------------------------------------------------------

    def _plan(self, load: Load, present: Folder, target: TreeId, since: Sequence[Point], choices: Choices) -> Plan:
        passed = passages(load, self._taking.tree, target, since, present, present_by=choices.present_by)
        try:
            return plan_rewind(
                differences(load, present, self._taking.tree(target)),
                passed,
                force=choices.force,
                git=choices.git,
                paths=choices.paths,
                only=choices.only,
            )
        except PlanEscapes as error:
            problem = f"lies behind the link {shown(error.link)!r}"
            raise WorkspaceEscape(path=shown(error.path), problem=problem) from error

    def _check(self, root: int, changes: Sequence[Change]) -> None:
        put = PutBack(self._disk, root, changes, content=self._store.content, staging=b"", folder_modes={})
        try:
            put.check_ways()
        except Escaped as error:
            raise WorkspaceEscape(path=shown(error.path), problem=error.problem) from error
        except PutBackStopped as error:
            reason = error.reason.strerror or str(error.reason)
            raise WorkspaceUnreachable(path=shown(error.path), reason=reason) from error
        for change in changes:
            if isinstance(change.after, File) and not self._store.has(change.after.digest):
                raise SnapshotCorrupt(digest=change.after.digest.hex(), problem="is missing")

    def _loading(self, measured: Mapping[bytes, bytes]) -> Load:
        def load(digest: bytes) -> Entries:
            data = measured.get(digest)
            return self._store.entries(digest) if data is None else decode_folder(data)

        return load

    # -- acting ----------------------------------------------------------------------------------

    def _begin(self, target: TreeId, safety: TreeId, changes: tuple[Change, ...], present: Folder) -> RewindRow:
        def mode_of(path: bytes) -> int | None:
            entry = lookup(self._store.entries, present, path)
            return entry.mode if isinstance(entry, Folder) else None

        plan = StoredPlan(changes=changes, folder_modes=passing_modes(changes, mode_of))
        with self._taking.recording():
            number = self._register.begin_rewind(target=target, safety=safety, plan=plan, at_ms=self._taking.clock_ms())
        return RewindRow(id=number, state="started", target=target, safety=safety, after=None, plan=plan)

    def _carry_out(
        self,
        root: int,
        row: RewindRow,
        changes: Sequence[Change],
        kept: Sequence[Kept],
        *,
        fresh: bool = False,
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
        except (PutBackStopped, SnapshotCorrupt) as error:
            if fresh:
                self._leave_unchanged(put, row)
            if isinstance(error, SnapshotCorrupt):
                raise
            raise self._cut_short(error, row) from error
        try:
            put.act()
        except PutBackStopped as error:
            raise self._cut_short(error, row) from error
        return self._end(row, put, kept)

    def _leave_unchanged(self, put: PutBack, row: RewindRow) -> None:
        """Nothing was changed yet: say so on record. If even that is refused, the plan waits."""
        with contextlib.suppress(OSError, PutBackStopped, SnapshotStoreFailed):
            put.give_up()
            with self._taking.recording():
                self._register.set_rewind(row.id, "aborted")

    def _end(self, row: RewindRow, put: PutBack, kept: Sequence[Kept]) -> Rewound:
        aborted = row.state == "aborting"
        done = {} if aborted else {c.path: c.after for c in put.done}
        with self._taking.recording():
            root = changed(self._store.entries, self._taking.keep_folder, self._taking.tree(row.safety), done)
            reached = self._taking.keep_tree(root)
            self._register.set_rewind(row.id, "aborted" if aborted else "done", reached)
            last = self._register.last()
            if not aborted and last is not None:
                self._register.add(
                    reached,
                    by="rewind",
                    turn=last.turn,
                    taken_ms=self._taking.clock_ms(),
                    label="",
                    rewound_to=row.target,
                )
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

    def _cut_short(self, error: PutBackStopped, row: RewindRow) -> RewindCutShort:
        return RewindCutShort(
            path=shown(error.path),
            reason=error.reason.strerror or str(error.reason),
            done=tuple(c.shown for c in error.done),
            rewind_id=row.id,
        )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[int]:
        """A handle on the folder, with sweeps held off and no other rewind in it, in any process."""
        name = hashlib.sha256(os.fsencode(self._live.path)).hexdigest()[:32]
        with self._store.turn, self._store.guard(), self._live.opened() as root:
            path = self._store.folder / f"rewind-{name}"
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise WorkspaceBusy(root=str(self._live.path)) from error
                yield root
            finally:
                os.close(handle)


def _planned(target: TreeId, plan: Plan, files: int) -> Rewound:
    return Rewound(
        target=target,
        put_back=plan.changes,
        kept=plan.kept,
        asks=plan.deleted_files * 2 > files,
        dry_run=True,
    )


def _path(kept: Kept) -> bytes:
    return kept.path
