"""A workspace in memory, by the same rules as a folder on a disk."""

from collections.abc import Callable, Iterator, Sequence, Set

from forkpoint.errors.files import (
    NothingToUndo,
    NothingUnfinished,
    RewindAsks,
    SnapshotNotFound,
    WorkspaceEscape,
)
from forkpoint.workspace.aim import after_rewind, aim, passages
from forkpoint.workspace.plan import By, Plan, PlanEscapes, plan_rewind
from forkpoint.workspace.port import Point, Rewound, Snapshot, SnapshotEntry
from forkpoint.workspace.tree import (
    Change,
    Entries,
    Entry,
    File,
    Folder,
    Link,
    TreeId,
    changed,
    decode_folder,
    decode_tree,
    differences,
    digest_in,
    digest_of,
    encode_folder,
    encode_tree,
    lookup,
    parent_of,
    shown,
    tree_id,
    walk,
)


class MemoryWorkspace:
    """A workspace whose files are a value in memory; its own ``Hands`` too.

    The same rules as a folder on a disk, from the same pure code; nothing can fail half-way, so
    nothing is ever unfinished.
    """

    def __init__(self, *, keep_turns: int | None = 20, clock_ms: Callable[[], int] = lambda: 0) -> None:
        self._contents: dict[bytes, bytes] = {}
        self._now = Folder(0o755, self._put(encode_folder({})))
        self._rows: list[SnapshotEntry] = []
        self._rewinds: list[tuple[TreeId, TreeId]] = []
        self._keep_turns, self._clock_ms, self._floor, self._numbers = keep_turns, clock_ms, 0, 0

    # -- hands -----------------------------------------------------------------------------------

    def write(self, path: bytes, data: bytes, mode: int = 0o644) -> None:
        """Make or overwrite a file, and the folders above it."""
        self._edit(path, File(mode, len(data), self._put(data)))

    def link(self, path: bytes, target: bytes) -> None:
        """Make a link."""
        self._edit(path, Link(target))

    def mkdir(self, path: bytes) -> None:
        """Make a folder, 0755, unless it is there."""
        if not isinstance(lookup(self._entries, self._now, path), Folder):
            self._edit(path, Folder(0o755, bytes(32)))

    def chmod(self, path: bytes, mode: int) -> None:
        """Set permission bits."""
        match lookup(self._entries, self._now, path):
            case File(size=size, digest=digest):
                self._edit(path, File(mode, size, digest))
            case Folder(digest=digest):
                self._edit(path, Folder(mode, digest))
            case _:
                raise FileNotFoundError(shown(path))

    def remove(self, path: bytes) -> None:
        """Remove a file, a link, or a folder with all it holds."""
        self._edit(path, None)

    def read_now(self, path: bytes) -> bytes | None:
        """A live file's bytes, or ``None`` if there is none."""
        entry = lookup(self._entries, self._now, path)
        return self._contents[entry.digest] if isinstance(entry, File) else None

    # -- the port --------------------------------------------------------------------------------

    def snapshot(self, *, by: By = "run", turn: int | None = None, label: str = "") -> Snapshot:
        """Hold the files as they are."""
        last = self._rows[-1] if self._rows else None
        at_turn = turn if turn is not None else (last.turn if last else 0)
        tree = self._tree_of(self._now)
        if last is None or (last.tree, last.turn, label) != (tree, at_turn, ""):
            self._record(tree, by=by, turn=at_turn, label=label)
        found = () if last is None else self.changes(last.tree, tree)
        held = [e for _, e in walk(self._entries, self._now) if isinstance(e, File | Link)]
        return Snapshot(
            id=self._numbers,
            tree=tree,
            by=by,
            turn=at_turn,
            taken_ms=self._clock_ms(),
            changes=found,
            not_held=(),
            not_kept=(),
            files=len(held),
            size=sum(e.size for e in held if isinstance(e, File)),
        )

    def list(self) -> tuple[SnapshotEntry, ...]:
        """The snapshots that are kept, oldest first."""
        return tuple(self._rows)

    def changes(self, before: TreeId, after: TreeId) -> tuple[Change, ...]:
        """What differs between two trees, by path."""
        return tuple(differences(self._entries, self._root(before), self._root(after)))

    def files(self, tree: TreeId) -> Iterator[tuple[bytes, Entry]]:
        """Every path of a tree and what it is; the root is the empty path."""
        return walk(self._entries, self._root(tree))

    def read(self, tree: TreeId, path: bytes) -> bytes:
        """A file's bytes in a tree."""
        entry = lookup(self._entries, self._root(tree), path)
        if not isinstance(entry, File):
            raise SnapshotNotFound(wanted=f"of a file {shown(path)!r}", kept="other paths")
        return self._contents[entry.digest]

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
        present_by: By = "outside",
    ) -> Rewound:
        """Put files back as they were in ``target``, or before ``turn``."""
        for path in paths or ():
            if path.startswith(b"/") or any(name in (b"", b".", b"..") for name in path.split(b"/")):
                raise WorkspaceEscape(path=shown(path), problem="is not a plain path below the workspace")
        if target is None or since is None:
            target, since = aim(self._rows, self._floor, target=target, turn=turn)
        plan = self._plan(target, since, force=force, git=git, paths=paths, by=present_by)
        return self._go(target, plan, dry_run=dry_run, confirmed=confirm_deletes, by=present_by)

    def undo(self, *, dry_run: bool = False, force: bool = False) -> Rewound:
        """Put back what the last rewind changed."""
        if not self._rewinds:
            raise NothingToUndo(root="memory")
        safety, reached = self._rewinds[-1]
        since = after_rewind(self._rows, self._floor, reached)
        changed = {change.path for change in self.changes(safety, reached)}
        plan = self._plan(safety, since, force=force, git=True, paths=None, only=changed)
        return self._go(safety, plan, dry_run=dry_run, confirmed=True)

    def unfinished(self) -> int | None:
        """Always ``None``: a rewind in memory is one assignment."""
        return None

    def finish(self) -> Rewound:
        """There is nothing to finish."""
        raise NothingUnfinished(root="memory")

    def abort(self) -> Rewound:
        """There is nothing to abort."""
        raise NothingUnfinished(root="memory")

    # -- below -----------------------------------------------------------------------------------

    def _plan(
        self,
        target: TreeId,
        since: Sequence[Point],
        *,
        force: bool,
        git: bool,
        paths: Sequence[bytes] | None,
        only: Set[bytes] | None = None,
        by: By = "outside",
    ) -> Plan:
        passed = passages(self._entries, self._root, target, since, self._now, present_by=by)
        present = differences(self._entries, self._now, self._root(target))
        try:
            return plan_rewind(present, passed, force=force, git=git, paths=paths, only=only)
        except PlanEscapes as error:
            problem = f"lies behind the link {shown(error.link)!r}"
            raise WorkspaceEscape(path=shown(error.path), problem=problem) from error

    def _go(self, target: TreeId, plan: Plan, *, dry_run: bool, confirmed: bool, by: By = "outside") -> Rewound:
        held = sum(isinstance(e, File | Link) for _, e in walk(self._entries, self._now))
        asks = plan.deleted_files * 2 > held
        if dry_run:
            return Rewound(target=target, put_back=plan.changes, kept=plan.kept, asks=asks, dry_run=True)
        safety = self.snapshot(by=by).tree
        if asks and not confirmed:
            raise RewindAsks(deletes=plan.deleted_files, files=held)
        reached = safety
        if plan.changes:
            self._now = changed(self._entries, self._keep, self._now, {c.path: c.after for c in plan.changes})
            reached = self._tree_of(self._now)
            self._record(reached, by="rewind", turn=self._rows[-1].turn, rewound_to=target)
            self._rewinds.append((safety, reached))
        return Rewound(
            target=target,
            put_back=plan.changes,
            kept=plan.kept,
            asks=False,
            dry_run=False,
            rewind_id=len(self._rewinds) if plan.changes else None,
            safety=safety,
            after=reached,
        )

    def _record(self, tree: TreeId, *, by: By, turn: int, label: str = "", rewound_to: TreeId | None = None) -> None:
        self._numbers += 1
        self._rows.append(
            SnapshotEntry(
                id=self._numbers,
                tree=tree,
                by=by,
                turn=turn,
                taken_ms=self._clock_ms(),
                label=label,
                rewound_to=rewound_to,
            )
        )
        floor = 0 if self._keep_turns is None else turn - self._keep_turns + 1
        if floor > self._floor:
            self._floor = floor
            older = [row for row in self._rows if row.turn < floor]
            self._rows = older[-1:] + [row for row in self._rows if row.turn >= floor]

    def _edit(self, path: bytes, entry: Entry | None) -> None:
        """One change by hand: what was at the path goes, the folders above it come to be."""
        present = lookup(self._entries, self._now, path)
        changes: dict[bytes, Entry | None] = {path: entry}
        if isinstance(present, Folder) and not isinstance(entry, Folder):
            changes |= {path + b"/" + below: None for below in _below(self._entries, present)}
        above = parent_of(path)
        while entry is not None and above:
            if not isinstance(lookup(self._entries, self._now, above), Folder):
                changes[above] = Folder(0o755, bytes(32))
            above = parent_of(above)
        self._now = changed(self._entries, self._keep, self._now, changes)

    def _tree_of(self, root: Folder) -> TreeId:
        return tree_id(self._put(encode_tree(root)))

    def _root(self, tree: TreeId) -> Folder:
        data = self._contents.get(digest_in(tree))
        if data is None:
            raise SnapshotNotFound(wanted=tree, kept="others")
        return decode_tree(data)

    def _entries(self, digest: bytes) -> Entries:
        return decode_folder(self._contents[digest])

    def _put(self, data: bytes) -> bytes:
        digest = digest_of(data)
        self._contents[digest] = data
        return digest

    def _keep(self, digest: bytes, data: bytes) -> None:
        self._contents[digest] = data


class MemoryHands:
    """The hands of a ``MemoryWorkspace``."""

    def __init__(self, workspace: MemoryWorkspace) -> None:
        self.write, self.link, self.mkdir = workspace.write, workspace.link, workspace.mkdir
        self.chmod, self.remove, self.read = workspace.chmod, workspace.remove, workspace.read_now


def _below(load: Callable[[bytes], Entries], folder: Folder) -> list[bytes]:
    return [path for path, _ in walk(load, folder) if path]
