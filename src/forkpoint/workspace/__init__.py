"""Snapshots of a folder and rewinds to them: complete and harmless at once."""

from forkpoint.workspace.plan import By, Kept
from forkpoint.workspace.port import (
    NotHeld,
    NotKept,
    Point,
    Rewound,
    Snapshot,
    SnapshotEntry,
    Workspace,
)
from forkpoint.workspace.recorder import WorkspaceRecorder
from forkpoint.workspace.store import ContentStore
from forkpoint.workspace.tree import Change, Entry, File, Folder, Link, TreeId, Unheld, shown

__all__ = [
    "By",
    "Change",
    "ContentStore",
    "Entry",
    "File",
    "Folder",
    "Kept",
    "Link",
    "NotHeld",
    "NotKept",
    "Point",
    "Rewound",
    "Snapshot",
    "SnapshotEntry",
    "TreeId",
    "Unheld",
    "Workspace",
    "WorkspaceRecorder",
    "shown",
]
