"""An agent and a person edit one folder against each other; a rewind takes back only the agent's.

The expectation is made from full readings of the folder at each moment, not from the engine; the
workspace in memory goes through the same moves and must report the same.
"""

import os
import tempfile
from pathlib import Path
from typing import Literal, TypeAlias

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from workspace_hands import FolderHands, Place, whole

from forkpoint.errors.files import WorkspaceEscape
from forkpoint.testing.workspace import MemoryHands, MemoryWorkspace
from forkpoint.testing.workspace_contract import Hands
from forkpoint.workspace import Rewound, WorkspaceRecorder

Move: TypeAlias = tuple[str, bytes, bytes]
Whole: TypeAlias = dict[bytes, tuple[object, ...]]
Moment: TypeAlias = tuple[Literal["run", "outside"], list[Move]]

names = st.sampled_from([b"a", b"b", b"c"])
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)
moves = st.tuples(
    st.sampled_from(["write", "write", "write", "remove", "mkdir", "link", "chmod"]),
    paths,
    st.sampled_from([b"1", b"2", b"3", b"longer"]),
)
moments = st.lists(
    st.tuples(st.sampled_from(["run", "run", "outside"]), st.lists(moves, max_size=4)), min_size=1, max_size=6
)


def kind(root: Path, path: bytes) -> str:
    full = root / os.fsdecode(path)
    if full.is_symlink():
        return "link"
    return "folder" if full.is_dir() else "file" if full.exists() else "nothing"


def move(root: Path, hands: list[Hands], what: Move) -> None:
    """Make one move with every pair of hands, clearing what stands in its way."""
    verb, path, data = what
    at = kind(root, path)
    names = path.split(b"/")
    blocked = [b"/".join(names[:i]) for i in range(1, len(names))]
    obstacle = next((p for p in blocked if kind(root, p) in ("file", "link")), None)
    for hand in hands:
        match verb:
            case "remove" if at != "nothing" and obstacle is None:
                hand.remove(path)
            case "chmod" if at in ("file", "folder") and obstacle is None:
                hand.chmod(path, 0o700 if at == "folder" else 0o600)
            case "write" | "link" | "mkdir":
                if obstacle is not None:
                    hand.remove(obstacle)
                if at != "nothing" and obstacle is None and (verb, at) != ("mkdir", "folder"):
                    hand.remove(path)
                if verb == "write":
                    hand.write(path, data)
                elif verb == "mkdir":
                    hand.mkdir(path)
                else:
                    hand.mkdir(b"/".join(names[:-1])) if len(names) > 1 else None
                    hand.link(path, data)


def changed(before: Whole, after: Whole) -> set[bytes]:
    return {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    start=st.lists(moves, max_size=6),
    moments=moments,
    last=st.lists(moves, max_size=3),
    to=st.integers(0, 5),
    force=st.booleans(),
)
def test_only_what_the_run_changed_is_taken_back(
    start: list[Move], moments: list[Moment], last: list[Move], to: int, force: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(root=Path(folder) / "project", store=Path(folder) / "store")
        place.root.mkdir()
        memory = MemoryWorkspace()
        hands: list[Hands] = [FolderHands(place.root), MemoryHands(memory)]
        with place.recorder() as recorder:
            play(place, recorder, memory, hands, start, moments, last, to, force)


def play(
    place: Place,
    recorder: WorkspaceRecorder,
    memory: MemoryWorkspace,
    hands: list[Hands],
    start: list[Move],
    moments: list[Moment],
    last: list[Move],
    to: int,
    force: bool,
) -> None:
    for each in start:
        move(place.root, hands, each)
    trees = [recorder.snapshot(by="outside").tree]
    assert memory.snapshot(by="outside").tree == trees[0]
    states, who = [whole(place.root)], []
    for by, edits in moments:
        for each in edits:
            move(place.root, hands, each)
        trees.append(recorder.snapshot(by=by, turn=len(trees)).tree)
        assert memory.snapshot(by=by, turn=len(trees) - 1).tree == trees[-1]
        states.append(whole(place.root))
        who.append(by)
    for each in last:
        move(place.root, hands, each)
    before = whole(place.root)
    states.append(before)
    who.append("outside")
    # An equal tree later on is the same target with less to take back.
    aim = max(i for i, tree in enumerate(trees) if tree == trees[min(to, len(trees) - 1)])
    ours = set().union(*(changed(states[i], states[i + 1]) for i in range(aim, len(who)) if who[i] == "run"))
    theirs = set().union(*(changed(states[i], states[i + 1]) for i in range(aim, len(who)) if who[i] != "run"))
    try:
        dry = recorder.rewind(trees[aim], dry_run=True, force=force)
    except WorkspaceEscape:
        assert whole(place.root) == before
        assert any(v[0] == "link" for v in before.values())
        return
    assert whole(place.root) == before
    done = recorder.rewind(trees[aim], force=force, confirm_deletes=True)
    note(f"{done.put_back=} {done.kept=}")
    assert (dry.put_back, dry.kept) == (done.put_back, done.kept)
    twin = memory.rewind(trees[aim], force=force, confirm_deletes=True)
    assert (twin.put_back, twin.kept, twin.after) == (done.put_back, done.kept, done.after)
    judge(recorder, before, whole(place.root), states[aim], ours, theirs, force, done)
    recorder.snapshot(by="outside")
    if done.put_back:
        recorder.undo()
        assert whole(place.root) == before


def judge(
    recorder: WorkspaceRecorder,
    before: Whole,
    after: Whole,
    target: Whole,
    ours: set[bytes],
    theirs: set[bytes],
    force: bool,
    done: Rewound,
) -> None:
    kept = {k.path: k.reason for k in done.kept}
    for path in changed(before, after):
        if path in ours and (path not in theirs or force):
            assert after.get(path) == target.get(path)
        else:
            # The one thing else that may happen: a missing folder is made for something below it.
            assert path not in before
            assert after[path] == target[path]
            assert after[path][0] == "folder"
            assert any(p.startswith(path + b"/") and p in ours for p in changed(before, after))
        if path in before and before[path][0] == "file":
            assert done.safety is not None
            assert recorder.read(done.safety, path) == before[path][2]
    assert changed(before, after) == {c.path for c in done.put_back if c.path}
    assert changed(after, target) == kept.keys()
    if not theirs:
        assert after == target
        assert not kept


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    start=st.lists(moves, max_size=6),
    first=st.lists(moves, min_size=1, max_size=4),
    later=st.lists(st.tuples(st.sampled_from(["run", "outside"]), st.lists(moves, max_size=3)), max_size=3),
    force=st.booleans(),
)
def test_an_undo_touches_only_what_the_rewind_changed(
    start: list[Move], first: list[Move], later: list[Moment], force: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(root=Path(folder) / "project", store=Path(folder) / "store")
        place.root.mkdir()
        with place.recorder() as recorder:
            undo_later(place, recorder, start, first, later, force)


def undo_later(
    place: Place, recorder: WorkspaceRecorder, start: list[Move], first: list[Move], later: list[Moment], force: bool
) -> None:
    hands: list[Hands] = [FolderHands(place.root)]
    for each in start:
        move(place.root, hands, each)
    target = recorder.snapshot(by="outside", turn=0).tree
    for each in first:
        move(place.root, hands, each)
    recorder.snapshot(turn=1)
    rewound = {change.path for change in recorder.rewind(target, confirm_deletes=True).put_back}
    if not rewound:
        return
    theirs: set[bytes] = set()
    for number, (by, edits) in enumerate(later):
        was = whole(place.root)
        for each in edits:
            move(place.root, hands, each)
        theirs |= changed(was, whole(place.root)) if by == "outside" else set()
        recorder.snapshot(by=by, turn=2 + number)
    before = whole(place.root)
    try:
        dry = recorder.undo(dry_run=True, force=force)
    except WorkspaceEscape:
        assert whole(place.root) == before
        return
    done = recorder.undo(force=force)
    assert (dry.put_back, dry.kept) == (done.put_back, done.kept)
    after = whole(place.root)
    for path in changed(before, after):
        if path in rewound:
            assert force or path not in theirs or path not in before
        else:
            # A missing folder is made for something below it.
            assert path not in before
            assert after[path][0] == "folder"
    if done.put_back:
        recorder.undo()
        assert whole(place.root) == before
