"""Where a rewind goes and what lies between there and now, from the snapshots on record. Pure."""

from collections.abc import Callable, Sequence

from forkpoint.errors.files import SnapshotNotFound, SnapshotPruned, WorkspaceBadChoice
from forkpoint.workspace.plan import By, Passage
from forkpoint.workspace.port import Point, SnapshotEntry
from forkpoint.workspace.tree import Folder, Load, TreeId, differences


def aim(
    rows: Sequence[SnapshotEntry], floor: int, *, target: TreeId | None, turn: int | None
) -> tuple[TreeId, tuple[Point, ...]]:
    """The tree to go to, and the snapshots after it.

    Before turn n means: before the run first changed anything in turn n or later, so that what a
    person did before the turn's first tool belongs to the state. Raises ``snapshot.not-found`` and
    ``snapshot.pruned``, and ``workspace.bad-choice`` unless exactly one of ``target`` and ``turn`` is given.
    """
    if (target is None) == (turn is None):
        raise WorkspaceBadChoice(problem="a rewind names either a tree or a turn")
    at = _at_tree(rows, floor, target) if target is not None else _before_turn(rows, floor, turn or 0)
    return rows[at].tree, points(rows[at + 1 :])


def _at_tree(rows: Sequence[SnapshotEntry], floor: int, target: TreeId) -> int:
    at = max((i for i, row in enumerate(rows) if row.tree == target), default=None)
    if at is None:
        if floor:
            raise SnapshotPruned(wanted=target, floor=floor)
        raise SnapshotNotFound(wanted=target, kept=listed(rows))
    return at


def _before_turn(rows: Sequence[SnapshotEntry], floor: int, turn: int) -> int:
    if turn < 0:
        raise WorkspaceBadChoice(problem=f"a turn is at least 0, not {turn}")
    if turn < floor:
        raise SnapshotPruned(wanted=f"of turn {turn}", floor=floor)
    first = next((i for i, row in enumerate(rows) if row.turn >= turn and row.by in ("run", "mixed")), len(rows))
    if first == 0:
        raise SnapshotNotFound(wanted=f"before turn {turn}", kept=listed(rows))
    return first - 1


def points(rows: Sequence[SnapshotEntry]) -> tuple[Point, ...]:
    """Snapshots as a rewind sees them."""
    return tuple(Point(tree=row.tree, by=row.by, rewound_to=row.rewound_to) for row in rows)


def after_rewind(rows: Sequence[SnapshotEntry], floor: int, reached: TreeId) -> tuple[Point, ...]:
    """The rewind that reached a tree, and the snapshots after it: what an undo goes back over.

    Raises ``snapshot.pruned`` if they are no longer kept.
    """
    at = max((i for i, row in enumerate(rows) if row.tree == reached and row.by == "rewind"), default=-1)
    if at < 0:
        raise SnapshotPruned(wanted=reached, floor=floor)
    return (Point(tree=reached, by="rewind"), *points(rows[at + 1 :]))


def passages(
    load: Load,
    root_of: Callable[[TreeId], Folder],
    target: TreeId,
    since: Sequence[Point],
    now: Folder,
    *,
    present_by: By = "outside",
) -> tuple[Passage, ...]:
    """What changed from the target over each later snapshot to now; the last stretch is ``present_by``'s doing."""
    trees, before = [target], root_of(target)
    found = []
    for point in since:
        root = root_of(point.tree)
        changes = {c.path: c for c in differences(load, before, root)}
        found.append(Passage(by=point.by, changes=changes, rewound_to=_last_index(trees, point.rewound_to)))
        trees.append(point.tree)
        before = root
    found.append(Passage(by=present_by, changes={c.path: c for c in differences(load, before, now)}))
    return tuple(found)


def listed(rows: Sequence[SnapshotEntry]) -> str:
    """The newest snapshots for a message."""
    return ", ".join(f"{row.tree[:19]} (turn {row.turn})" for row in rows[-10:]) or "none"


def _last_index(trees: Sequence[TreeId], tree: TreeId | None) -> int | None:
    return max((i for i, known in enumerate(trees) if known == tree), default=None)
