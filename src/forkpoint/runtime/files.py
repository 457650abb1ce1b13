"""A run's workspace beside its journal: snapshots taken for it, its files at any moment, rewinds, folders for forks.

The journal says which tree the files had when; the bytes lie in the workspace's own store. Calls to a workspace block,
so each is made in an OS thread of its own.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from forkpoint.commands import Rewind
from forkpoint.errors import ForkpointError, SnapshotNotFound, WorkspaceNone
from forkpoint.events import SnapshotTaken, WorkspaceRewound
from forkpoint.ids import Where
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.cell import Cell
from forkpoint.runtime.places import stand
from forkpoint.state import RunState
from forkpoint.status import WhySnapshot
from forkpoint.timetravel.moments import where_of
from forkpoint.workspace.plan import By
from forkpoint.workspace.port import Explained, Point, Rewound, Snapshot, Workspace
from forkpoint.workspace.tree import Change, TreeId, shown

if TYPE_CHECKING:
    from forkpoint.workspace.textdiff import FileDiff

T = TypeVar("T")

NAMED = 20
"""How many paths that others changed an event names; the rest are counted."""


class Workspaces(Protocol):
    """Where a runtime finds the workspace of a run."""

    def __call__(self, run: str, root: str) -> Workspace:
        """The workspace of ``run`` over the folder ``root``."""
        ...

    def close(self) -> None:
        """Let go of them all."""
        ...


def folder_of(workspace: str | os.PathLike[str] | None) -> str | None:
    """A workspace's folder as a run records it: absolute, without links."""
    return None if workspace is None else os.path.realpath(workspace)


async def capture(workspace: Workspace, state: RunState, why: WhySnapshot) -> SnapshotTaken:
    """Take a snapshot of the run's files: what it says in the journal, also where it could not be taken."""
    by: By = "run" if why == "after" else "outside"
    try:
        taken: Snapshot = await in_thread(lambda: workspace.snapshot(by=by, turn=state.turn, label=why))
    except ForkpointError as error:
        return SnapshotTaken(why=why, failed=f"{error.code}: {error}")
    outside = taken.changes if why == "before" else ()
    return SnapshotTaken(
        tree=taken.tree,
        why=why,
        outside=tuple(shown(change.path) for change in outside[:NAMED]),
        changed=len(taken.changes),
        unheld=len(taken.not_held),
    )


class RunFiles:
    """The files of one run: ``run.workspace``. Reading them performs nothing and needs no lease."""

    def __init__(self, cell: Cell, workspaces: "Workspaces") -> None:
        self._cell = cell
        self._workspaces = workspaces

    async def _workspace(self) -> Workspace:
        state = await self._cell.refresh()
        if state.workspace is None:
            raise WorkspaceNone(run=state.run)
        return self._workspaces(state.run, state.workspace)

    async def _call(self, call: Callable[[Workspace], T]) -> T:
        workspace = await self._workspace()
        return await in_thread(lambda: call(workspace))  # type: ignore[no-any-return]

    async def tree(self, at: Where | int | None = None, *, step: int | None = None, turn: int | None = None) -> TreeId:
        """The tree that the files had at a moment of the run: as of the last snapshot before it.

        Raises ``snapshot.not-found`` if none was taken by then, and ``fork.no-such-point``.
        """
        where = where_of(at, step=step, turn=turn)
        state = (await stand(self._cell.edge.reader, self._cell.run, where)).state
        if state.tree is None:
            raise SnapshotNotFound(wanted=f"before event {state.seq + 1} of run {state.run}", kept="none by then")
        return TreeId(state.tree)

    async def snapshots(self) -> list[tuple[int, SnapshotTaken]]:
        """The snapshots that the run's journal tells of, oldest first, each with its event's number."""
        events = await self._cell.edge.reader.history(self._cell.run)
        return [(one.seq, one.event) for one in events if isinstance(one.event, SnapshotTaken)]

    async def files(
        self, at: Where | int | None = None, *, step: int | None = None, turn: int | None = None
    ) -> list[tuple[bytes, Any]]:
        """Every path at a moment, with what it was."""
        tree = await self.tree(at, step=step, turn=turn)
        return await self._call(lambda workspace: list(workspace.files(tree)))

    async def read(
        self, path: str | bytes, at: Where | int | None = None, *, step: int | None = None, turn: int | None = None
    ) -> bytes:
        """One file's bytes at a moment."""
        tree = await self.tree(at, step=step, turn=turn)
        name = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
        return await self._call(lambda workspace: workspace.read(tree, name))

    async def changes(self, before: Where | int, after: Where | int | None = None) -> tuple[Change, ...]:
        """What differs between the files at two moments, by path."""
        old, new = await self.tree(before), await self.tree(after)
        return await self._call(lambda workspace: workspace.changes(old, new))

    async def diff(self, change: Change) -> "FileDiff":
        """A change for reading: the lines that differ."""
        return await self._call(lambda workspace: workspace.diff(change))  # type: ignore[attr-defined]

    async def explain(self, path: str | bytes) -> Explained:
        """What is known of a path: what it is in the last snapshot, and who changed it when."""
        return await self._call(lambda workspace: workspace.explain(path))  # type: ignore[attr-defined]

    async def copy_to(self, folder: str, tree: TreeId) -> None:
        """Write a tree out as a new folder, whole or not at all."""
        await self._call(lambda workspace: workspace.copy_to(tree, folder))  # type: ignore[attr-defined]

    # ── putting back ─────────────────────────────────────────────────────────────────────────────────────────

    async def rewind(
        self,
        at: Where | int | None = None,
        *,
        turn: int | None = None,
        step: int | None = None,
        dry_run: bool = False,
        force: bool = False,
        git: bool = False,
        paths: Sequence[str] | None = None,
        confirm_deletes: bool = False,
        actor: str | None = None,
    ) -> Rewound:
        """Put the files back as they were before ``turn``, right after ``step``, or at an event.

        What others changed since is kept and reported unless ``force``; the state before is held first, so that
        ``undo`` brings back every byte. ``dry_run`` gives the same list and changes nothing. Raises the
        ``workspace.*`` and ``snapshot.*`` errors.
        """
        aim = await self._aim(at, step=step) if turn is None else None
        narrowed = None if paths is None else [path.encode("utf-8", "surrogateescape") for path in paths]

        def put_back(workspace: Workspace) -> Rewound:
            return workspace.rewind(
                aim.tree if aim is not None else None,
                turn=turn,
                since=aim.since if aim is not None else None,
                dry_run=dry_run,
                force=force,
                git=git,
                paths=narrowed,
                confirm_deletes=confirm_deletes,
            )

        done = await self._call(put_back)
        return await self._recorded(done, aim.seq if aim is not None else None, actor, dry_run=dry_run)

    async def undo(self, *, dry_run: bool = False, force: bool = False, actor: str | None = None) -> Rewound:
        """Put back what the last rewind changed."""
        rewound = await self._call(lambda workspace: workspace.undo(dry_run=dry_run, force=force))
        return await self._recorded(rewound, self._cell.state.seq, actor, dry_run=dry_run)

    async def finish(self, *, actor: str | None = None) -> Rewound:
        """Carry a rewind that was cut off to its end."""
        return await self._recorded(await self._call(lambda workspace: workspace.finish()), None, actor)

    async def abort(self, *, actor: str | None = None) -> Rewound:
        """Take back what a rewind that was cut off had done."""
        return await self._recorded(await self._call(lambda workspace: workspace.abort()), None, actor)

    async def _recorded(self, done: Rewound, to: int | None, actor: str | None, *, dry_run: bool = False) -> Rewound:
        if dry_run or done.after is None or done.safety is None:
            return done
        seq = self._cell.state.seq if to is None else to
        rewound = WorkspaceRewound(tree=done.after, before=done.safety, to=seq, actor=actor)
        await self._cell.submit(Rewind(rewound=rewound))
        return done

    async def _aim(self, at: Where | int | None, *, step: int | None) -> "Aim":
        """The tree that the files had at a moment. One that this run's own store does not list comes from an
        ancestor; then the journal says what was snapshot since."""
        state = (await stand(self._cell.edge.reader, self._cell.run, where_of(at, step=step, turn=None))).state
        if state.tree is None:
            raise SnapshotNotFound(wanted=f"by event {state.seq} of run {self._cell.run}", kept="none by then")
        tree = TreeId(state.tree)
        listed = await self._call(lambda workspace: {row.tree for row in workspace.list()})
        if tree in listed:
            return Aim(state.seq, tree, None)
        since: list[Point] = []
        for recorded in await self._cell.edge.reader.history(self._cell.run, after=state.seq):
            event = recorded.event
            if isinstance(event, SnapshotTaken) and event.tree is not None:
                since.append(Point(tree=TreeId(event.tree), by="run" if event.why == "after" else "outside"))
            elif isinstance(event, WorkspaceRewound):
                before, after = TreeId(event.before), TreeId(event.tree)
                since += (Point(tree=before, by="outside"), Point(tree=after, by="rewind"))
        return Aim(state.seq, tree, tuple(since))


class Aim(Struct, frozen=True):
    """Where a rewind goes: the moment, its tree, and the snapshots since, ``None`` for those of the run's store."""

    seq: int
    tree: TreeId
    since: tuple[Point, ...] | None
