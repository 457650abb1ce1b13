"""Killed, or out of space, at every write of a snapshot, a rewind and a sweep.

Afterwards the folder is as before, as after, or is carried to one of them; the store is whole; the
next snapshot is right.
"""

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from workspace_disks import Full, FullForFiles, Killed, Shooting, Stopping
from workspace_hands import FolderHands, Place, whole

from forkpoint.errors.files import ForkpointError, RewindCutShort, RewindUnfinished
from forkpoint.workspace import TreeId, WorkspaceRecorder
from forkpoint.workspace.store import LARGE
from forkpoint.workspace.tree import digest_of

Whole = dict[bytes, tuple[object, ...]]


def before_turn(hands: FolderHands) -> None:
    hands.write(b"a", b"1")
    hands.write(b"gone/x", b"x")
    hands.write(b"big", bytes(LARGE + 1))
    hands.write(b"becomes-folder", b"file")
    hands.write(b"becomes-file/x", b"x")
    hands.write(b"closed/x", b"x")
    hands.chmod(b"closed", 0o555)
    hands.link(b"link", b"a")
    hands.mkdir(b"empty")


def turn(hands: FolderHands) -> None:
    hands.write(b"a", b"2")
    hands.remove(b"gone")
    hands.write(b"big", b"\xff" * (LARGE + 1))
    hands.remove(b"becomes-folder")
    hands.write(b"becomes-folder/inner", b"i")
    hands.remove(b"becomes-file")
    hands.write(b"becomes-file", b"file")
    hands.chmod(b"closed", 0o755)
    hands.write(b"closed/x", b"y")
    hands.chmod(b"closed", 0o555)
    hands.remove(b"link")
    hands.link(b"link", b"big")
    hands.chmod(b"empty", 0o700)
    hands.write(b"new/file", b"n")


class Story:
    """A folder with a first snapshot, changed by a turn; ready for what is to be stopped."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(root=folder / "project", store=folder / "store")
        self.place.root.mkdir(parents=True)
        self.hands = FolderHands(self.place.root)
        before_turn(self.hands)
        self.first = whole(self.place.root)
        with self.place.recorder() as recorder:
            self.start = recorder.snapshot(by="outside", turn=1).tree
        turn(self.hands)
        self.second = whole(self.place.root)

    def taken(self) -> TreeId:
        with self.place.recorder() as recorder:
            return recorder.snapshot(turn=1).tree

    def on(self, disk: Stopping, act: Callable[[WorkspaceRecorder], object]) -> None:
        recorder = self.place.recorder(disk=disk)
        try:
            act(recorder)
        finally:
            recorder.close()


def sound(recorder: WorkspaceRecorder, place: Place) -> None:
    """The store is whole, and nothing half-written lies about."""
    store = recorder._store
    for digest in store.digests():
        assert digest_of(store.content(digest)) == digest
    assert list((place.store / "tmp").iterdir()) == []
    assert not [p for p in place.root.iterdir() if p.name.startswith(".forkpoint-rewind")]


def crossings(tmp_path: Path, act: Callable[[Story, WorkspaceRecorder], object], *, taken: bool) -> int:
    story = Story(tmp_path / "counted")
    if taken:
        story.taken()
    disk = Stopping()
    story.on(disk, lambda recorder: act(story, recorder))
    return disk.crossings


def rewind(story: Story, recorder: WorkspaceRecorder) -> object:
    return recorder.rewind(story.start)


def snapshot(_: Story, recorder: WorkspaceRecorder) -> object:
    return recorder.snapshot(turn=1)


@pytest.mark.parametrize("half", [False, True], ids=["before the write", "in or after it"])
@pytest.mark.parametrize("settle", ["finish", "abort"])
def test_a_rewind_killed_at_any_write_is_before_after_or_settled(tmp_path: Path, half: bool, settle: str) -> None:
    count = crossings(tmp_path, rewind, taken=True)
    assert count > 30
    seen = set()
    for at in range(count):
        story = Story(tmp_path / str(at))
        second = story.taken()
        with pytest.raises(Killed):
            story.on(Stopping(at, half=half), lambda recorder, s=story: recorder.rewind(s.start))
        with story.place.recorder() as recorder:
            if recorder.unfinished() is None:
                now = whole(story.place.root)
                assert now in (story.first, story.second)
                seen.add("before" if now == story.second else "after")
            else:
                with pytest.raises(RewindUnfinished):
                    recorder.snapshot()
                with pytest.raises(RewindUnfinished):
                    recorder.rewind(story.start)
                getattr(recorder, settle)()
                assert whole(story.place.root) == (story.first if settle == "finish" else story.second)
                seen.add(settle)
            sound(recorder, story.place)
            expected = story.start if whole(story.place.root) == story.first else second
            assert recorder.snapshot(by="outside").tree == expected
    assert {"before", settle} <= seen


@pytest.mark.parametrize("half", [False, True], ids=["before the write", "in or after it"])
def test_a_snapshot_killed_at_any_write_is_there_or_not_and_the_next_is_right(tmp_path: Path, half: bool) -> None:
    count = crossings(tmp_path, snapshot, taken=False)
    for at in range(count):
        story = Story(tmp_path / str(at))
        with pytest.raises(Killed):
            story.on(Stopping(at, half=half), lambda recorder: recorder.snapshot(turn=1))
        assert whole(story.place.root) == story.second
        with story.place.recorder() as recorder:
            sound(recorder, story.place)
            kept = recorder.list()
            assert len(kept) in (1, 2)
            recorder.snapshot(turn=1)
            assert recorder.rewind(story.start).kept == ()
            assert whole(story.place.root) == story.first


def test_a_rewind_whose_settling_is_killed_too_can_still_be_settled(tmp_path: Path) -> None:
    count = crossings(tmp_path, rewind, taken=True)
    chance = random.Random(7)
    for number in range(25):
        story = Story(tmp_path / str(number))
        story.taken()
        with pytest.raises(Killed):
            disk = Stopping(chance.randrange(count // 3, count - 2), half=chance.random() < 0.5)
            story.on(disk, lambda recorder, s=story: recorder.rewind(s.start))
        for verb in ("finish", "abort"):
            with pytest.raises((Killed, ForkpointError)):
                disk = Stopping(chance.randrange(0, 12), half=chance.random() < 0.5)
                story.on(disk, lambda recorder, v=verb: getattr(recorder, v)())
                raise Killed
        with story.place.recorder() as recorder:
            if recorder.unfinished() is not None:
                recorder.abort()
            assert whole(story.place.root) in (story.second, story.first)
            sound(recorder, story.place)


@pytest.mark.parametrize("seed", range(12))
def test_a_process_killed_for_real_leaves_what_can_be_settled(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    story = Story(tmp_path / "real")
    story.taken()
    child = os.fork()
    if child == 0:
        try:
            story.on(
                Shooting(chance.randrange(1, 45), half=chance.random() < 0.5),
                lambda recorder: recorder.rewind(story.start),
            )
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with story.place.recorder() as recorder:
        if recorder.unfinished() is not None:
            recorder.finish() if seed % 2 else recorder.abort()
        assert whole(story.place.root) in (story.first, story.second)
        sound(recorder, story.place)
        recorder.snapshot(by="outside")
        recorder.rewind(story.start)
        assert whole(story.place.root) == story.first


def test_a_full_disk_at_any_write_of_a_rewind_loses_nothing(tmp_path: Path) -> None:
    count = crossings(tmp_path, rewind, taken=True)
    refused = settled = 0
    for at in range(count):
        story = Story(tmp_path / str(at))
        story.taken()
        disk = Full(at)
        with story.place.recorder(disk=disk) as recorder:
            try:
                recorder.rewind(story.start)
            except RewindCutShort as error:
                refused += 1
                assert "No space" in str(error)
            except ForkpointError:
                refused += 1
            disk.freed = True
            if recorder.unfinished() is not None:
                settled += 1
                recorder.finish() if at % 2 else recorder.abort()
            assert whole(story.place.root) in (story.first, story.second)
            sound(recorder, story.place)
            recorder.snapshot(by="outside")
            recorder.rewind(story.start)
            assert whole(story.place.root) == story.first
    assert refused > 10
    assert settled > 0


def first_staged(tmp_path: Path) -> int:
    """The number of the write that begins the first staged file."""
    story = Story(tmp_path / "numbered")
    story.taken()
    names: list[str] = []

    class Naming(FullForFiles):
        def _guarded(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
            counted = super()._guarded(name, real)

            def named(*values: object) -> object:
                if counted is not real:
                    names.append(name)
                return counted(*values)

            return named

    story.on(Naming(), lambda recorder: recorder.rewind(story.start))
    return names.index("create", names.index("mkdir"))


def test_a_full_disk_while_staging_changes_nothing_and_leaves_nothing_to_settle(tmp_path: Path) -> None:
    story = Story(tmp_path / "full")
    story.taken()

    disk = FullForFiles(first_staged(tmp_path))
    with story.place.recorder(disk=disk) as recorder:
        with pytest.raises(RewindCutShort) as caught:
            recorder.rewind(story.start)
        assert caught.value.done == ()
        assert recorder.unfinished() is None
        assert whole(story.place.root) == story.second


def test_a_full_disk_at_any_write_of_a_snapshot_records_nothing(tmp_path: Path) -> None:
    count = crossings(tmp_path, snapshot, taken=False)
    for at in range(count):
        story = Story(tmp_path / str(at))
        disk = Full(at)
        with story.place.recorder(disk=disk) as recorder:
            try:
                recorder.snapshot(turn=1)
            except ForkpointError:
                assert len(recorder.list()) == 1
            disk.freed = True
            recorder.snapshot(turn=1)
            assert recorder.rewind(story.start).kept == ()
            assert whole(story.place.root) == story.first
            sound(recorder, story.place)


def test_a_sweep_killed_at_any_write_leaves_a_whole_store(tmp_path: Path) -> None:
    for at in range(4):
        story = Story(tmp_path / str(at))
        story.taken()
        with story.place.recorder() as recorder:
            for number in (2, 3, 4):
                story.hands.write(b"big", bytes([number]) * (LARGE + 1))
                recorder.snapshot(turn=number)
        disk = Stopping(at)
        with contextlib.suppress(Killed):
            story.on(disk, lambda recorder: recorder.prune(keep_turns=1))
        with story.place.recorder() as recorder:
            sound(recorder, story.place)
            recorder.prune(keep_turns=1)
            assert recorder.snapshot(turn=4).tree == recorder.list()[-1].tree
            large = {row[0].hex() for row in recorder._store.database.execute(
                "SELECT digest FROM contents WHERE data IS NULL")}  # fmt: skip
            files = {p.name.partition(".")[0] for p in (story.place.store / "large").rglob("*.*")}
            assert files == large
            assert len(files) == 2
