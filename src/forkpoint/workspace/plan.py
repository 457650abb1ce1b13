"""What a rewind will do, decided before anything is written. Pure: trees in, a plan out.

A path is in scope when the run changed it after the point that the rewind goes to. For a path that
differs from that point, the first of these that holds decides:

1. one of the two sides isn't held (too large, bulk, ignored, not a file …): kept, with that reason;
2. it lies in a ``.git`` folder, and those were not asked for: kept, ``git``;
3. only others changed it: kept, ``kept-not-ours``, also with ``force``;
4. the run changed it and someone else did too: kept, ``changed-since``, unless ``force``;
5. else it is put back.

What a kept path needs stays as well: a folder that still holds something is ``not-empty``, and a
path that could only be put back through a kept one is ``blocked``. A path that could only be put
back through a link fails the whole plan.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Literal, TypeAlias

import msgspec

from forkpoint.workspace.tree import Change, File, Folder, Link, Reason, Unheld, parent_of, shown

By: TypeAlias = Literal["run", "outside", "mixed", "rewind"]
"""Who made the changes that a snapshot found: the run's tool, anyone else, both and nobody can tell which, or a rewind.
"""

WhyKept: TypeAlias = Reason | Literal["changed-since", "kept-not-ours", "not-empty", "blocked"]

Touch: TypeAlias = Literal["ours", "both", "theirs"]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A path that differs and is left alone, and why; ``because_of`` names the path in its way."""

    path: bytes
    reason: WhyKept
    because_of: bytes | None = None

    @property
    def shown(self) -> str:
        """The path for a person's eyes."""
        return shown(self.path)


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What changed between two snapshots that follow each other, and who did it.

    For a rewind, ``rewound_to`` says how many passages after the target the state lies that it
    went back to, or ``None`` if that state is older than the target.
    """

    by: By
    changes: Mapping[bytes, Change]
    rewound_to: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is put back (from the present state to the target's) and what is kept, both by path."""

    changes: tuple[Change, ...]
    kept: tuple[Kept, ...]

    @property
    def deleted_files(self) -> int:
        """How many files and links the plan deletes."""
        return sum(1 for c in self.changes if c.after is None and type(c.before) in (File, Link))


class PlanEscapes(ValueError):
    """A path could only be put back through a link."""

    def __init__(self, path: bytes, link: bytes) -> None:
        super().__init__(f"{shown(path)} lies behind the link {shown(link)}")
        self.path, self.link = path, link


def plan_rewind(
    present: Sequence[Change],
    passages: Sequence[Passage],
    *,
    force: bool = False,
    git: bool = False,
    paths: Sequence[bytes] | None = None,
    only: Set[bytes] | None = None,
) -> Plan:
    """Decide a rewind: ``present`` are the changes that would lead from now to the target.

    ``passages`` run from the target to now, oldest first. ``paths`` narrows the rewind to these
    paths and what lies below them, ``only`` to exactly these. Raises ``PlanEscapes`` if a path could
    only be put back through a link that stays.
    """
    asked = (c for c in present if paths is None or _within(c.path, paths))
    changes = {c.path: c for c in asked if only is None or c.path in only}
    touches = touched(changes, passages)
    kept: dict[bytes, Kept] = {}
    for path, change in changes.items():
        reason = _kept_because(change, touches.get(path, "theirs"), force=force, git=git)
        if reason is not None:
            kept[path] = Kept(path=path, reason=reason)
    every = {c.path: c for c in present}
    _keep_what_holds_kept(changes, every, kept)
    implied = _reachable(changes, every, kept)
    done = {path: c for path, c in changes.items() if path not in kept} | implied
    return Plan(
        changes=tuple(done[path] for path in sorted(done)),
        kept=tuple(kept[path] for path in sorted(kept) if path not in implied),
    )


def touched(paths: Iterable[bytes], passages: Sequence[Passage]) -> dict[bytes, Touch]:
    """For each path that anyone changed after the target: whether the run, others, or both did.

    A rewind counts as the run's doing, and what lay between it and the state it went back to no
    longer speaks for the path.
    """
    seen: dict[bytes, list[int]] = {}
    for number, passage in enumerate(passages):
        for path in passage.changes:
            seen.setdefault(path, []).append(number)
    return {path: _touch(seen[path], passages) for path in paths if path in seen}


def _touch(numbers: Sequence[int], passages: Sequence[Passage]) -> Touch:
    ours = theirs = False
    before = len(passages)
    for number in reversed(numbers):
        if number >= before:
            continue
        passage = passages[number]
        theirs = theirs or passage.by in ("outside", "mixed")
        if passage.by == "outside":
            continue
        ours = True
        if passage.by == "rewind":
            if passage.rewound_to is None:
                break
            before = passage.rewound_to
    if ours and theirs:
        return "both"
    return "ours" if ours else "theirs"


def _kept_because(change: Change, touch: Touch, *, force: bool, git: bool) -> WhyKept | None:
    for side in (change.after, change.before):
        if type(side) is Unheld:
            return side.reason
    if not git and _inside_git(change):
        return "git"
    if touch == "theirs":
        return "kept-not-ours"
    if touch == "both" and not force:
        return "changed-since"
    return None


def _inside_git(change: Change) -> bool:
    names = change.path.split(b"/")
    if b".git" in names[:-1]:
        return True
    return names[-1] == b".git" and Folder in (type(change.before), type(change.after))


def _keep_what_holds_kept(
    changes: Mapping[bytes, Change], every: Mapping[bytes, Change], kept: dict[bytes, Kept]
) -> None:
    """A folder goes only with all that it holds; what stays in it keeps it and the folders above."""
    staying = [p for p, c in every.items() if c.before is not None and (p in kept or p not in changes)]
    for path in staying:
        above = parent_of(path)
        while above:
            change = changes.get(above)
            if change is None or type(change.before) is not Folder or type(change.after) is Folder:
                break
            if above in kept:
                break
            kept[above] = Kept(path=above, reason="not-empty", because_of=path)
            above = parent_of(above)


def _reachable(
    changes: Mapping[bytes, Change], every: Mapping[bytes, Change], kept: dict[bytes, Kept]
) -> dict[bytes, Change]:
    """Folders that must be made so that others can return; keeps what can't be reached."""
    implied: dict[bytes, Change] = {}
    planned = changes.keys() - kept.keys()
    for path in sorted(changes):
        stays = kept.get(path)
        if changes[path].after is None or (stays is not None and stays.reason != "changed-since"):
            continue
        missing, obstacle = _way_to(path, every, planned)
        if obstacle is not None and type(obstacle.before) is Link:
            raise PlanEscapes(path, obstacle.path)
        if stays is None and obstacle is not None:
            kept[path] = Kept(path=path, reason="blocked", because_of=obstacle.path)
            planned.discard(path)
        elif stays is None:
            implied.update({c.path: c for c in missing})
    return implied


def _way_to(path: bytes, every: Mapping[bytes, Change], planned: Set[bytes]) -> tuple[list[Change], Change | None]:
    """The folders missing above ``path`` that the plan does not make, and what stands in the way."""
    missing: list[Change] = []
    above = parent_of(path)
    while above and above in every and above not in planned:
        change = every[above]
        if type(change.before) is Folder:
            break
        if change.before is not None:
            return missing, change
        missing.append(change)
        above = parent_of(above)
    return missing, None


def _within(path: bytes, paths: Sequence[bytes]) -> bool:
    return any(path == p or not p or path.startswith(p + b"/") for p in paths)
