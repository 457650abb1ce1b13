"""A run's workspace beside its journal: snapshots taken for it, its files at any moment, rewinds, folders for forks.

The journal says which tree the files had when; the bytes lie in the workspace's own store. Calls to a workspace block,
so each is made in an OS thread of its own.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from forkpoint.commands import Rewind
from forkpoint.errors import (
    ForkpointError,
    LeaseLost,
    RewindUnfinished,
    RunBusy,
    SnapshotNotFound,
    WorkspaceInUse,
    WorkspaceNone,
)
from forkpoint.events import RecordedEvent, SnapshotTaken, WorkspaceRewound
from forkpoint.ids import AtTurn, Where
from forkpoint.ports import Lease
from forkpoint.runtime.aims import TELLING, Aim, by_run, points, tree_of
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.cell import Cell, Edge
from forkpoint.runtime.keeping import is_performed
from forkpoint.runtime.places import stand
from forkpoint.state import RunState
from forkpoint.status import WhySnapshot
from forkpoint.timetravel.moments import missing_point, where_of
from forkpoint.workspace.plan import By
from forkpoint.workspace.port import Explained, Rewound, Snapshot, Workspace
from forkpoint.workspace.tree import Change, Entry, TreeId, shown

if TYPE_CHECKING:
    from forkpoint.workspace.textdiff import FileDiff

T = TypeVar("T")

NAMED = 20
"""How many paths that others changed an event names; the rest are counted."""


class Workspaces(Protocol):
    """Where a runtime finds the workspace of a run."""

    def __call__(self, run: str, root: str) -> Workspace:
        """The workspace of ``run`` over the folder ``root``, to work in. Raises ``workspace.refused``."""
        ...

    def stored(self, run: str, root: str) -> Workspace:
        """The same for looking at what is stored of it, also when the folder itself is gone."""
        ...

    def forget(self, runs: Sequence[str]) -> None:
        """Give up the snapshots of ``runs``, with the bytes that nothing else needs."""
        ...

    def close(self) -> None:
        """Let go of them all."""
        ...


def folder_of(workspace: str | os.PathLike[str] | None) -> str | None:
    """A workspace's folder as a run records it: absolute, without links."""
    return None if workspace is None else os.path.realpath(workspace)


async def workspace_of(workspaces: Workspaces, state: RunState) -> Workspace | None:
    """The workspace that a run works in, if it has one.

    Raises ``workspace.rewind-unfinished`` while its files are a mixture: nothing may work on them then.
    """
    if state.workspace is None:
        return None
    workspace = workspaces(state.run, state.workspace)
    number: int | None = await in_thread(workspace.unfinished)
    if number is not None:
        raise RewindUnfinished(root=state.workspace, rewind_id=number, state="started")
    return workspace


async def capture(workspace: Workspace, state: RunState, why: WhySnapshot) -> SnapshotTaken:
    """Take a snapshot of the run's files: what it says in the journal, also where it could not be taken."""
    by: By = "mixed" if state.files_blurred else "run" if why == "after" else "outside"
    try:
        taken: Snapshot = await in_thread(lambda: workspace.snapshot(by=by, turn=state.turn, label=why))
    except ForkpointError as error:
        return SnapshotTaken(why=why, failed=f"{error.code}: {error}")
    except Exception as error:  # whatever a workspace raises, the run goes on, and the event says why
        return SnapshotTaken(why=why, failed=f"{type(error).__name__}: {error}")
    outside = taken.changes if why == "before" else ()
    return SnapshotTaken(
        tree=taken.tree,
        why=why,
        outside=tuple(shown(change.path) for change in outside[:NAMED]),
        changed=len(taken.changes),
        unheld=len(taken.not_held),
    )


class Seen(Struct, frozen=True, kw_only=True):
    """The files that a run had at a moment, as of the last snapshot before it.

    ``seq`` is the moment, ``taken`` the event that tells of the snapshot. ``behind`` says why the files themselves
    may have been others by then: a tool was at work, or a later snapshot failed. It is empty where they were not.
    """

    tree: TreeId
    seq: int
    taken: int
    behind: str = ""


class RunFiles:
    """The files of one run: ``run.workspace``. Reading them performs nothing and needs no lease."""

    def __init__(
        self, cell: Cell, workspaces: "Workspaces", *, performing: Callable[[str], object] = lambda _: None
    ) -> None:
        self._cell = cell
        self._workspaces = workspaces
        self._performing = performing

    async def _root(self) -> str:
        state = await self._cell.refresh()
        if state.workspace is None:
            raise WorkspaceNone(run=state.run)
        return state.workspace

    async def _call(self, call: Callable[[Workspace], T]) -> T:
        """Look at what is stored of the run's files."""
        workspace = self._workspaces.stored(self._cell.run, await self._root())
        return await in_thread(lambda: call(workspace))  # type: ignore[no-any-return]

    async def seen(self, at: Where | int | None = None, *, step: int | None = None, turn: int | None = None) -> Seen:
        """Which snapshot tells of the files at a moment, and whether they may have changed after it.

        Raises ``snapshot.not-found`` if none was taken by then, and ``fork.no-such-point``.
        """
        await self._root()
        where = where_of(at, step=step, turn=turn)
        state = (await stand(self._cell.edge.reader, self._cell.run, where)).state
        if state.tree is None:
            raise SnapshotNotFound(wanted=f"before event {state.seq + 1} of run {state.run}", kept="none by then")
        told = await self._told(upto=state.seq)
        taken = next(one.seq for one in reversed(told) if tree_of(one) is not None)
        last = told[-1].event
        behind = "a tool was at work that may have changed them" if state.files == "changing" else ""
        if isinstance(last, SnapshotTaken) and last.failed is not None:
            behind = f"a later snapshot failed ({last.failed})"
        return Seen(tree=TreeId(state.tree), seq=state.seq, taken=taken, behind=behind)

    async def _told(self, *, after: int = 0, upto: int | None = None) -> list[RecordedEvent]:
        """The events that tell of snapshots and rewinds; no other is read."""
        reader = self._cell.edge.reader
        places = await reader.outlines(self._cell.run, after=after, upto=upto)
        found: list[RecordedEvent] = []
        for place in places:
            if place.kind in TELLING:
                found += await reader.history(self._cell.run, after=place.seq - 1, upto=place.seq)
        return found

    async def tree(self, at: Where | int | None = None, *, step: int | None = None, turn: int | None = None) -> TreeId:
        """The tree that the files had at a moment of the run: as of the last snapshot before it.

        Raises ``snapshot.not-found`` if none was taken by then, and ``fork.no-such-point``.
        """
        return (await self.seen(at, step=step, turn=turn)).tree

    async def snapshots(self) -> list[tuple[int, SnapshotTaken]]:
        """The snapshots that the run's journal tells of, oldest first, each with its event's number."""
        return [(one.seq, one.event) for one in await self._told() if isinstance(one.event, SnapshotTaken)]

    async def files(
        self, at: Where | int | None = None, *, step: int | None = None, turn: int | None = None
    ) -> list[tuple[bytes, Entry]]:
        """Every path at a moment, with what it was; the folder itself is the empty path."""
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
        """Write a tree out as a new folder, whole or not at all.

        Raises ``workspace.folder-taken`` and ``workspace.unreachable``.
        """
        await self._call(lambda workspace: workspace.copy_to(tree, folder))  # type: ignore[attr-defined]

    async def adopt(self, tree: TreeId) -> None:
        """Put on record that this run's folder was made as ``tree``, so that nothing of it is given up."""
        turn = (await self._cell.refresh()).turn
        await self._call(lambda workspace: workspace.adopt(tree, turn=turn))  # type: ignore[attr-defined]

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
        ``undo`` brings back every byte. ``dry_run`` gives the same list and changes nothing. Raises
        ``workspace.in-use`` while the run is performed, ``fork.no-such-point``, and the other ``workspace.*`` and
        ``snapshot.*`` errors.
        """
        aim = await self._aim(at, step=step) if turn is None else await self._aim_before(turn)
        narrowed = None if paths is None else [path.encode("utf-8", "surrogateescape") for path in paths]

        def put_back(workspace: Workspace) -> Rewound:
            return workspace.rewind(
                aim.tree,
                turn=turn if aim.tree is None else None,
                since=aim.since,
                dry_run=dry_run,
                force=force,
                git=git,
                paths=narrowed,
                confirm_deletes=confirm_deletes,
                present_by=self._present_by(),
            )

        return await self._put_back(put_back, to=aim.seq, actor=actor, dry_run=dry_run)

    async def undo(self, *, dry_run: bool = False, force: bool = False, actor: str | None = None) -> Rewound:
        """Put back what the last rewind changed. Raises as ``rewind`` does, and ``workspace.nothing-to-undo``."""
        return await self._put_back(
            lambda workspace: workspace.undo(dry_run=dry_run, force=force), to=None, actor=actor, dry_run=dry_run
        )

    async def finish(self, *, actor: str | None = None) -> Rewound:
        """Carry a rewind that was cut off to its end. Raises ``workspace.nothing-unfinished``."""
        return await self._put_back(lambda workspace: workspace.finish(), to=None, actor=actor)

    async def abort(self, *, actor: str | None = None) -> Rewound:
        """Take back what a rewind that was cut off had done. Raises ``workspace.nothing-unfinished``."""

        def take_back(workspace: Workspace) -> Rewound:
            done = workspace.abort()
            return replace(done, target=done.safety or done.target)

        return await self._put_back(take_back, to=None, actor=actor)

    async def _put_back(
        self, act: Callable[[Workspace], Rewound], *, to: int | None, actor: str | None, dry_run: bool = False
    ) -> Rewound:
        """Act on the folder while nobody performs the run, and put on record what that did."""
        workspace = self._workspaces(self._cell.run, await self._root())
        async with self._at_rest(looking=dry_run):
            await self._cell.refresh()
            done: Rewound = await in_thread(lambda: act(workspace))
            # Killed here: the folder's own store knows of the rewind, and the next snapshot brings it to the journal.
            if not dry_run and done.after is not None and done.safety is not None:
                seq = to or await self._moment_of(done.target)
                rewound = WorkspaceRewound(tree=done.after, before=done.safety, to=seq, actor=actor)
                await self._cell.submit(Rewind(rewound=rewound))
        return done

    @asynccontextmanager
    async def _at_rest(self, *, looking: bool) -> AsyncIterator[None]:
        """Hold the run's lease, so that nobody performs it meanwhile; only see that nobody does, for ``looking``."""
        edge, run = self._cell.edge, self._cell.run
        async with self._cell.rewinding:
            row = await edge.reader.row(run)
            if self._performing(run) is not None or (row.owner != edge.owner and is_performed(edge, row)):
                raise WorkspaceInUse(run=run, owner=row.owner or edge.owner)
            if looking:
                yield
                return
            now_ms = edge.clock.now_ms()
            try:
                lease = await edge.journal.take_lease(
                    run, owner=edge.owner, now_ms=now_ms, until_ms=now_ms + edge.lease_ms
                )
            except RunBusy as error:
                raise WorkspaceInUse(run=run, owner=error.owner) from error
            keeping = asyncio.get_running_loop().create_task(_renewing(edge, lease))
            try:
                yield
            finally:
                keeping.cancel()
                await asyncio.wait({keeping})
                await edge.journal.release_lease(lease)

    def _present_by(self) -> By:
        """Who made what changed since the last snapshot, as far as the journal tells."""
        if self._cell.state.files_blurred:
            return "mixed"
        return "run" if self._cell.state.files == "changing" else "outside"

    async def _moment_of(self, tree: TreeId) -> int:
        """The last event at which the journal says that the files were ``tree``."""
        for recorded in reversed(await self._told()):
            if tree_of(recorded) == tree:
                return recorded.seq
            if isinstance(recorded.event, WorkspaceRewound) and recorded.event.before == tree:
                return recorded.seq - 1
        return self._cell.state.seq

    async def _aim(self, at: Where | int | None, *, step: int | None) -> Aim:
        """The tree that the files had at a moment. One that this run's own store does not list comes from an
        ancestor; then the journal says what was snapshot since."""
        state = (await stand(self._cell.edge.reader, self._cell.run, where_of(at, step=step, turn=None))).state
        if state.tree is None:
            raise SnapshotNotFound(wanted=f"by event {state.seq} of run {self._cell.run}", kept="none by then")
        tree = TreeId(state.tree)
        listed = await self._call(lambda workspace: {row.tree for row in workspace.list()})
        since = None if tree in listed else points(await self._told(after=state.seq))
        return Aim(state.seq, tree, since)

    async def _aim_before(self, turn: int) -> Aim:
        """The files before the run first changed any in ``turn`` or later. The folder's own store knows; a turn that
        an ancestor began is looked up in the journal."""
        state = await self._cell.refresh()
        if not 1 <= turn <= state.turn:
            raise missing_point(state, AtTurn(turn))
        if state.lineage is None:
            return Aim(None, None, None)
        began = (await stand(self._cell.edge.reader, self._cell.run, AtTurn(turn - 1))).state.seq if turn > 1 else 0
        told = await self._told()
        changed = next((place for place, one in enumerate(told) if one.seq > began and by_run(one)), len(told))
        if changed < len(told) and told[changed].run == self._cell.run:
            return Aim(None, None, None)
        before = next((one for one in reversed(told[:changed]) if tree_of(one) is not None), None)
        if before is None:
            raise SnapshotNotFound(wanted=f"before turn {turn} of run {self._cell.run}", kept="none by then")
        return Aim(before.seq, tree_of(before), points(told[changed:]))


async def _renewing(edge: Edge, lease: Lease) -> None:
    """Keep a lease for as long as this task runs; a rewind that outlives it is still put on record."""
    with suppress(LeaseLost):
        while True:
            over = asyncio.Event()
            cancel = edge.clock.call_later(edge.lease_ms / 3000, over.set)
            try:
                await over.wait()
            finally:
                cancel()
            lease = replace(lease, until_ms=edge.clock.now_ms() + edge.lease_ms)
            await edge.journal.renew_lease(lease)


@asynccontextmanager
async def folder_for_fork(files: RunFiles, folder: str | None, seq: int) -> AsyncIterator[TreeId | None]:
    """A fork's own folder with the files as of event ``seq``, and their tree; gone again if the fork is not made."""
    if folder is None:
        yield None
        return
    tree = await files.tree(seq)
    await files.copy_to(folder, tree)
    try:
        yield tree
    except BaseException:
        await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))
        raise
