"""What a store grows by, and folders of a size that needs patience."""

import os
from collections.abc import Iterator

import pytest
from workspace_hands import FolderHands, Place, whole

from forkpoint.workspace import WorkspaceRecorder


def tree(hands: FolderHands, files: int) -> list[bytes]:
    """Files over folders three deep, twenty to a folder."""
    paths = [b"d%d/e%d/g%d/f%d" % (n % 10, n // 10 % 10, n // 2000, n) for n in range(files)]
    for path in paths:
        hands.write(path, path)
    return paths


def each_turn(recorder: WorkspaceRecorder, hands: FolderHands, paths: list[bytes], turns: int) -> Iterator[int]:
    stored = recorder._store.digests()
    for turn in range(1, turns + 1):
        hands.write(paths[turn * 7 % len(paths)], b"turn %d" % turn)
        recorder.snapshot(turn=turn)
        now = recorder._store.digests()
        yield len(now - stored)
        stored = now


@pytest.mark.parametrize(("files", "turns"), [(600, 60), pytest.param(20_000, 200, marks=pytest.mark.slow)])
def test_a_turn_that_changes_one_file_adds_that_file_and_the_folders_above_it(
    place: Place, hands: FolderHands, files: int, turns: int
) -> None:
    paths = tree(hands, files)
    with place.recorder(keep_turns=None, threads=2) as recorder:
        recorder.snapshot(by="outside", turn=0)
        before = recorder._store.stored_bytes
        # The file, its three folders, the root, and the tree's own name.
        assert set(each_turn(recorder, hands, paths, turns)) == {6}
        assert (recorder._store.stored_bytes - before) / turns < 8_000


def test_a_store_that_is_pruned_now_and_then_stops_growing(place: Place, hands: FolderHands) -> None:
    paths = tree(hands, 100)
    with place.recorder(keep_turns=5) as recorder:
        sizes = []
        for turn in range(60):
            hands.write(paths[turn], os.urandom(20_000))
            hands.write(paths[turn - 1], b"small again") if turn else None
            recorder.snapshot(turn=turn)
            if turn % 10 == 9:
                recorder.prune()
            sizes.append(recorder._store.stored_bytes)
        assert max(sizes) < 20_000 * 20


def test_a_prune_gives_room_on_the_disk_back(place: Place, hands: FolderHands) -> None:
    with place.recorder(keep_turns=2) as recorder:
        for turn in range(20):
            hands.write(b"f", os.urandom(200_000))
            recorder.snapshot(turn=turn)
        assert taken(place) > 20 * 200_000
        _, freed = recorder.prune()
        assert freed > 16 * 200_000
        assert taken(place) < 5 * 200_000
        assert recorder.rewind(turn=19).put_back


def taken(place: Place) -> int:
    return sum(file.stat().st_size for file in place.store.rglob("*") if file.is_file())


@pytest.mark.slow
def test_a_folder_of_a_hundred_thousand_files_comes_back(place: Place, hands: FolderHands) -> None:
    for number in range(100_000):
        hands.write(b"d/f%d" % number, b"%d" % number)
    before = whole(place.root)
    with place.recorder(threads=2) as recorder:
        start = recorder.snapshot(by="outside")
        assert start.files == 100_000
        hands.write(b"d/f5", b"changed")
        hands.remove(b"d/f6")
        assert len(recorder.snapshot().changes) == 2
        recorder.rewind(start.tree)
        assert whole(place.root) == before
        hands.remove(b"d")
        recorder.snapshot()
        recorder.rewind(start.tree)
        assert whole(place.root) == before
