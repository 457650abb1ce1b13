"""Where a rewind goes, from what a journal tells of snapshots. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from forkpoint.events import RecordedEvent, SnapshotTaken, WorkspaceRewound
from forkpoint.workspace.plan import By
from forkpoint.workspace.port import Point
from forkpoint.workspace.tree import TreeId

TELLING = (SnapshotTaken.__name__, WorkspaceRewound.__name__)
"""The kinds of the events that tell of the files."""


def tree_of(recorded: RecordedEvent) -> TreeId | None:
    """The files as an event says they are."""
    event = recorded.event
    tree = event.tree if isinstance(event, SnapshotTaken | WorkspaceRewound) else None
    return None if tree is None else TreeId(tree)


def by_run(recorded: RecordedEvent) -> bool:
    """Whether an event tells of what a tool of the run changed."""
    return isinstance(recorded.event, SnapshotTaken) and recorded.event.why == "after"


def points(told: Sequence[RecordedEvent]) -> tuple[Point, ...]:
    """The snapshots that events tell of, as a rewind sees them."""
    points: list[Point] = []
    blurred = False
    for recorded in told:
        event = recorded.event
        if isinstance(event, SnapshotTaken) and event.tree is not None:
            by: By = "mixed" if blurred else "run" if event.why == "after" else "outside"
            points.append(Point(tree=TreeId(event.tree), by=by))
        elif isinstance(event, WorkspaceRewound):
            before, after = TreeId(event.before), TreeId(event.tree)
            points += (Point(tree=before, by="mixed" if blurred else "outside"), Point(tree=after, by="rewind"))
        blurred = isinstance(event, SnapshotTaken) and event.tree is None
    return tuple(points)


class Aim(Struct, frozen=True):
    """Where a rewind goes: the moment, its tree, and the snapshots since. ``None`` is what the folder's own store
    knows better."""

    seq: int | None
    tree: TreeId | None
    since: tuple[Point, ...] | None
