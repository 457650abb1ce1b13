"""The ``Workspace`` port: what a run needs from the files its agent edits, wherever they are.

``forkpoint.workspace.WorkspaceRecorder`` is one over a folder of this machine;
``forkpoint.testing.workspace`` has one in memory and the contract that any other must pass.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from forkpoint.workspace.plan import By, Kept
from forkpoint.workspace.tree import Change, Entry, Reason, TreeId, shown


class NotHeld(msgspec.Struct, frozen=True, kw_only=True):
    """A path that a snapshot notes without holding its bytes, and why. A rewind never touches it."""

    path: bytes
    reason: Reason

    @property
    def shown(self) -> str:
        """The path for a person's eyes."""
        return shown(self.path)


class NotKept(msgspec.Struct, frozen=True, kw_only=True):
    """A held path, and what of it a restore can't bring back (``hard link``, names of attributes)."""

    path: bytes
    what: tuple[str, ...]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as a rewind sees it: its tree, who made what it found, and where a rewind went."""

    tree: TreeId
    by: By
    rewound_to: TreeId | None = None


class SnapshotEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as it is listed: number, tree, who, turn and time (ms since 1970)."""

    id: int
    tree: TreeId
    by: By
    turn: int
    taken_ms: int
    label: str = ""
    rewound_to: TreeId | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as it is taken: what it is, what changed since the last, and what it does not hold.

    ``files`` and ``size`` count what is held. ``notices`` are for a person: the folder was replaced
    by another, the store nears its cap.
    """

    id: int
    tree: TreeId
    by: By
    turn: int
    taken_ms: int
    changes: tuple[Change, ...]
    not_held: tuple[NotHeld, ...]
    not_kept: tuple[NotKept, ...]
    files: int
    size: int
    notices: tuple[str, ...] = ()


class Rewound(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewind did, or would do: paths put back, and paths kept with the reason.

    ``put_back`` goes from the state before to the target's. ``asks`` says that the plan deletes more
    than half of the files and is only performed when that is confirmed. ``safety`` names the state
    before and ``after`` the one reached; both are ``None`` for a dry run.
    """

    target: TreeId
    put_back: tuple[Change, ...]
    kept: tuple[Kept, ...]
    asks: bool
    dry_run: bool
    rewind_id: int | None = None
    safety: TreeId | None = None
    after: TreeId | None = None


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a path: its entry in the last snapshot, and each change with its snapshot."""

    path: bytes
    entry: Entry | None
    changed: tuple[tuple[SnapshotEntry, Change], ...]


class Workspace(Protocol):
    """The files a run edits. Calls block; a loop makes them from a thread."""

    def snapshot(self, *, by: By = "run", turn: int | None = None, label: str = "") -> Snapshot:
        """Hold the files as they are. ``by`` says who made what changed since the last snapshot.

        ``turn`` is the run's turn (``None``: as before). Raises ``snapshot.incomplete`` and records
        nothing if the files could not be captured whole.
        """
        ...

    def list(self) -> tuple[SnapshotEntry, ...]:
        """The snapshots that are kept, oldest first."""
        ...

    def changes(self, before: TreeId, after: TreeId) -> tuple[Change, ...]:
        """What differs between two trees, by path."""
        ...

    def files(self, tree: TreeId) -> Iterator[tuple[bytes, Entry]]:
        """Every path of a tree and what it is; the root is the empty path."""
        ...

    def read(self, tree: TreeId, path: bytes) -> bytes:
        """A file's bytes in a tree."""
        ...

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
        """Put files back as they were in ``target``, or before ``turn``.

        ``since`` are the snapshots after the target, oldest first (``None``: as listed here), and
        ``present_by`` says who made what changed since the last of them. What others changed is
        kept unless ``force``; what is kept is said with its reason. The state before is held
        first, so ``undo`` brings back every byte.
        """
        ...

    def undo(self, *, dry_run: bool = False, force: bool = False) -> Rewound:
        """Put back what the last rewind changed; undoing that again is doing it again."""
        ...

    def unfinished(self) -> int | None:
        """The number of a rewind that was cut off, or ``None``."""
        ...

    def finish(self) -> Rewound:
        """Carry a rewind that was cut off to its end."""
        ...

    def abort(self) -> Rewound:
        """Take back what a rewind that was cut off had done."""
        ...
