"""The recorder without a run: turns, retention, undo, several owners, what it says of itself."""

# Names here are bytes, which pathlib does not take.

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from workspace_disks import Stopping
from workspace_hands import FolderHands, Place, whole

from forkpoint.errors.files import (
    SnapshotCorrupt,
    SnapshotIncomplete,
    SnapshotNotFound,
    SnapshotPruned,
    SnapshotStoreFailed,
    SnapshotStoreForeign,
    SnapshotStoreFull,
    WorkspaceBadChoice,
    WorkspaceBusy,
    WorkspaceEscape,
    WorkspaceFolderTaken,
    WorkspaceRefused,
    WorkspaceUnreachable,
    WorkspaceUnsupported,
)
from forkpoint.workspace import ContentStore, Unheld, WorkspaceRecorder
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.store import LARGE


def test_step_by_step_a_file_returns_to_each_of_its_versions(place: Place, hands: FolderHands) -> None:
    """F21, F33: made, edited and deleted; every version can be reached, in any order."""
    with place.recorder() as recorder:
        trees = [recorder.snapshot(by="outside").tree]
        for data in (b"v1", b"v2", None):
            hands.remove(b"f") if data is None else hands.write(b"f", data)
            trees.append(recorder.snapshot().tree)
        for at, data in ((1, b"v1"), (2, b"v2"), (0, None), (2, b"v2"), (3, None)):
            recorder.rewind(trees[at], confirm_deletes=True)
            assert hands.read(b"f") == data


def test_a_snapshot_of_nothing_new_writes_nothing(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"1")
    disk = Stopping()
    with place.recorder(disk=disk) as recorder:
        first = recorder.snapshot(by="outside", turn=1)
        before = disk.crossings
        again = recorder.snapshot(turn=1)
        assert (again.id, again.tree, again.changes) == (first.id, first.tree, ())
        assert disk.crossings - before == 1
        assert len(recorder.list()) == 1
        assert recorder.snapshot(turn=2).id != first.id


def test_a_persons_edit_between_turns_belongs_to_the_state_before_the_turn(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"1")
    with place.recorder() as recorder:
        recorder.snapshot(by="outside", turn=1)
        hands.write(b"f", b"2")
        recorder.snapshot(turn=1)
        hands.write(b"f", b"a person's")
        recorder.snapshot(by="outside", turn=2)
        hands.write(b"f", b"3")
        recorder.snapshot(turn=2)
        recorder.rewind(turn=2)
        assert hands.read(b"f") == b"a person's"


def test_a_rewind_names_a_turn_or_a_tree_and_sane_numbers(place: Place) -> None:
    with place.recorder() as recorder:
        tree = recorder.snapshot(by="outside").tree
        for wrong in ({}, {"turn": 1, "target": tree}, {"turn": -1}):
            with pytest.raises(WorkspaceBadChoice, match="nothing was written"):
                recorder.rewind(**wrong)
        for wrong in ({"keep_turns": 0}, {"max_file_bytes": -1}):
            with pytest.raises(WorkspaceBadChoice):
                place.recorder(**wrong)
        with pytest.raises(WorkspaceBadChoice):
            recorder.prune(keep_turns=0)
        assert [row.tree for row in recorder.list()] == [tree]
        for name in ("sha256:no", "nonsense"):
            with pytest.raises(SnapshotNotFound):
                recorder.changes(tree, name)
        with pytest.raises(WorkspaceEscape):
            recorder.explain("../x")


def test_turns_are_given_up_from_the_oldest_and_stay_given_up(place: Place, hands: FolderHands) -> None:
    """L87: a floor that persists, and what the kept turns need stays whole."""
    with place.recorder(keep_turns=3) as recorder:
        states = {}
        for turn in range(1, 8):
            hands.write(b"f", b"%d" % turn)
            hands.write(b"f%d" % turn, b"x")
            states[turn + 1] = whole(place.root)
            recorder.snapshot(turn=turn)
        assert [row.turn for row in recorder.list()] == [4, 5, 6, 7]
    with place.recorder(keep_turns=None) as recorder:
        for turn in (1, 4):
            with pytest.raises(SnapshotPruned) as caught:
                recorder.rewind(turn=turn)
            assert caught.value.floor == 5
        removed, freed = recorder.prune()
        assert removed > 0
        assert freed > 0
        for turn in (7, 6, 5):
            recorder.rewind(turn=turn, confirm_deletes=True)
            assert whole(place.root) == states[turn]


def test_a_sweep_keeps_what_another_owner_or_a_caller_needs(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"shared")
    store = ContentStore(place.store)
    mine = WorkspaceRecorder(place.root, store, owner="mine", threads=0)
    theirs = WorkspaceRecorder(place.root, store, owner="theirs", threads=0)
    tree = mine.snapshot().tree
    theirs.snapshot()
    hands.write(b"f", b"named by a journal only")
    pinned = mine.snapshot().tree
    mine.clear()
    assert mine.list() == ()
    assert theirs.read(tree, b"f") == b"shared"
    with pytest.raises(SnapshotNotFound):
        theirs.read(pinned, b"f")
    hands.write(b"f", b"again")
    pinned = mine.snapshot().tree
    hands.write(b"f", b"later")
    mine.snapshot(turn=50)
    mine.prune(keep_turns=1, needed=[pinned])
    assert mine.read(pinned, b"f") == b"again"
    assert mine.snapshot().changes == ()
    store.close()


def test_what_a_sweep_took_is_stored_again_when_it_is_seen_again(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"1")
    hands.write(b"d/g", b"2")
    with place.recorder() as recorder, place.recorder(owner="other") as other:
        recorder.snapshot()
        other.snapshot()
        other.clear()
        recorder.clear()
        tree = recorder.snapshot().tree
        assert recorder.read(tree, b"f") == b"1"
        assert recorder.read(tree, b"d/g") == b"2"


def test_a_dry_run_stores_nothing_and_the_next_snapshot_stores_everything(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"1")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        stored = recorder._store.digests()
        hands.write(b"d/new", b"only looked at")
        dry = recorder.rewind(start.tree, dry_run=True)
        assert [k.path for k in dry.kept] == [b"d", b"d/new"]
        assert recorder._store.digests() == stored
        assert recorder.rewind(start.tree, dry_run=True) == dry
        assert recorder.read(recorder.snapshot().tree, b"d/new") == b"only looked at"


def test_the_next_process_remembers_and_believes_only_what_is_stored(place: Place, hands: FolderHands) -> None:
    class Counting(Disk):
        opened = 0

        def open_file(self, name: bytes, at: int) -> int:
            self.opened += name != b".forkpointignore"
            return super().open_file(name, at)

    for number in range(300):
        hands.write(b"d/%d" % number, b"%d" % number)
    later = place.root.stat().st_ctime_ns + 10**12
    with place.recorder(clock_ns=lambda: later) as recorder:
        tree = recorder.snapshot().tree
    disk = Counting()
    with place.recorder(clock_ns=lambda: later, disk=disk) as recorder:
        assert recorder.snapshot().tree == tree
        assert disk.opened == 0
    database = sqlite3.connect(place.store / "files.db")
    database.execute("DELETE FROM contents")
    database.execute("DELETE FROM snapshots")
    database.commit()
    database.close()
    with place.recorder(clock_ns=lambda: later) as recorder:
        again = recorder.snapshot().tree
        assert again == tree
        assert recorder.read(again, b"d/7") == b"7"
    for file in place.store.glob("memo-*"):
        file.write_bytes(b"broken")
    with place.recorder(clock_ns=lambda: later) as recorder:
        assert recorder.snapshot().tree == tree


def test_a_workspace_removed_and_made_again_is_captured_as_it_is_and_said(place: Place, hands: FolderHands) -> None:
    """F34."""
    hands.write(b"f", b"old")
    with place.recorder() as recorder:
        recorder.snapshot(by="outside")
        shutil.rmtree(place.root)
        with pytest.raises(WorkspaceRefused):
            recorder.snapshot()
        # So that the new folder does not get the old one's number again.
        (place.store / "placeholder").mkdir()
        place.root.mkdir()
        hands.write(b"f", b"v1")
        taken = recorder.snapshot(by="outside")
        assert "another folder" in taken.notices[0]
        assert recorder.snapshot(by="outside").notices == ()
        hands.write(b"f", b"v2")
        recorder.snapshot()
        recorder.rewind(taken.tree)
        assert hands.read(b"f") == b"v1"


def test_a_store_that_fills_says_so_before_and_refuses_at_its_cap(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", os.urandom(8_000))
    store = ContentStore(place.store, cap_bytes=10_000)
    recorder = WorkspaceRecorder(place.root, store, threads=0)
    taken = recorder.snapshot(by="outside")
    assert "at most 10000 bytes" in taken.notices[0]
    hands.write(b"g", os.urandom(8_000))
    with pytest.raises(SnapshotStoreFull):
        recorder.snapshot()
    assert [row.tree for row in recorder.list()] == [taken.tree]
    assert store.stored_bytes < 10_000
    hands.remove(b"g")
    assert recorder.snapshot().tree == taken.tree
    store.close()


def test_a_large_file_is_stored_once_however_many_snapshots_hold_it(place: Place, hands: FolderHands) -> None:
    """F10, at a hundredth of the size."""
    hands.write(b"big", os.urandom(2 * LARGE))
    hands.write(b"copy-of-big", hands.read(b"big") or b"")
    with place.recorder(keep_turns=None) as recorder:
        for turn in range(100):
            hands.write(b"small", os.urandom(1024))
            recorder.snapshot(turn=turn)
        stored = recorder._store.stored_bytes
    assert stored < 2 * LARGE * 1.15
    on_disk = sum(f.stat().st_size for f in place.store.rglob("*") if f.is_file())
    assert on_disk < 2 * LARGE * 1.6


@pytest.mark.parametrize("what", ["no database", "another program's", "a newer one"])
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(place: Place, what: str) -> None:
    place.store.mkdir()
    path = place.store / "files.db"
    if what == "no database":
        path.write_bytes(b"not a database " * 100)
    else:
        if what == "a newer one":
            place.recorder().close()
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE IF NOT EXISTS theirs (x)")
        database.execute("PRAGMA user_version = 99")
        database.commit()
        database.close()
    before = path.read_bytes()
    with pytest.raises(SnapshotStoreForeign):
        place.recorder()
    assert path.read_bytes() == before


def test_a_store_that_cannot_be_made_says_why(tmp_path: Path, place: Place) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SnapshotStoreFailed):
        WorkspaceRecorder(place.root, tmp_path / "file" / "store")


def test_one_rewind_at_a_time_in_a_folder(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"1")
    other = place.recorder(owner="other")
    seen: list[BaseException] = []

    class Asking(Disk):
        def rename(self, name: bytes, at: int, to: bytes, to_at: int) -> None:
            try:
                other.rewind(other.list()[0].tree)
            except WorkspaceBusy as error:
                seen.append(error)
            super().rename(name, at, to, to_at)

    with place.recorder(disk=Asking()) as recorder:
        start = recorder.snapshot(by="outside")
        other.snapshot()
        hands.write(b"f", b"2")
        recorder.snapshot()
        recorder.rewind(start.tree)
    assert len(seen) == 1
    other.close()


def test_a_path_tells_its_history(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"1")
    hands.write(b"__pycache__/x", b"1")
    with place.recorder() as recorder:
        with pytest.raises(SnapshotNotFound):
            recorder.explain("f")
        recorder.snapshot(by="outside", turn=1)
        hands.write(b"f", b"2")
        recorder.snapshot(turn=1)
        hands.remove(b"f")
        recorder.snapshot(by="outside", turn=2)
        told = recorder.explain("f")
        assert told.entry is None
        assert [(row.by, row.turn, c.kind) for row, c in told.changed] == [
            ("run", 1, "modified"),
            ("outside", 2, "deleted"),
        ]
        assert isinstance(recorder.explain("__pycache__").entry, Unheld)


def test_a_dry_run_can_be_read_as_a_diff(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"one\r\ntwo\n")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        hands.write(b"f", b"one\r\nTWO\n")
        taken = recorder.snapshot()
        assert "-two\n+TWO\n" in recorder.diff(taken.changes[0]).text
        hands.write(b"f", b"never stored\n")
        dry = recorder.rewind(start.tree, dry_run=True, force=True)
        assert "-never stored\n" in recorder.diff(dry.put_back[0]).text
        hands.write(b"f", b"changed again")
        assert "never stored" not in recorder.diff(dry.put_back[0]).text


def test_a_tree_is_written_out_as_a_folder_of_its_own(place: Place, hands: FolderHands, tmp_path: Path) -> None:
    """F31: both sides start equal and never see each other again."""
    hands.write(b"f", b"1")
    hands.write(b"d/script", b"#!/bin/sh", 0o755)
    hands.write(b"d/changed-later", b"as it was")
    hands.mkdir(b"hollow")
    hands.chmod(b"hollow", 0o555)
    hands.link(b"l", b"/etc/hostname")
    hands.write(b"big", bytes(LARGE + 5))
    before = whole(place.root)
    hands.write(b"node_modules/x", b"not held")
    later = place.root.stat().st_ctime_ns + 10**12
    with place.recorder(clock_ns=lambda: later) as recorder:
        tree = recorder.snapshot().tree
        hands.write(b"d/changed-later", b"not as it was")
        copied = recorder.copy_to(tree, tmp_path / "forks" / "one")
        assert whole(tmp_path / "forks" / "one") == before
        assert (copied.files, copied.not_held) == (4, (b"node_modules",))
        assert copied.shared + copied.copied == 3
        FolderHands(tmp_path / "forks" / "one").write(b"f", b"child")
        assert hands.read(b"f") == b"1"
        shutil.rmtree(place.root / "d")
        recorder.copy_to(tree, tmp_path / "forks" / "two")
        assert whole(tmp_path / "forks" / "two") == before
        with place_of(tmp_path / "forks" / "two", place).recorder(owner="child") as child:
            assert {c.path for c in child.changes(tree, child.snapshot().tree)} <= {b"", b"node_modules"}


def place_of(root: Path, place: Place) -> Place:
    return Place(root=root, store=place.store)


def test_a_copy_never_mixes_with_files_that_are_there_and_is_whole_or_absent(
    place: Place, hands: FolderHands, tmp_path: Path
) -> None:
    hands.write(b"f", b"1")
    hands.write(b"g", b"2")
    with place.recorder() as recorder:
        tree = recorder.snapshot().tree
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "theirs").write_text("x")
        (tmp_path / "file").write_text("x")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        for taken in ("full", "file", "link"):
            with pytest.raises(WorkspaceFolderTaken):
                recorder.copy_to(tree, tmp_path / taken)
        with pytest.raises(WorkspaceUnreachable):
            recorder.copy_to(tree, tmp_path / "file" / "below")
        (tmp_path / "empty").mkdir()
        recorder.copy_to(tree, tmp_path / "empty")
        assert sorted(whole(tmp_path / "empty")) == [b"f", b"g"]
        recorder._store.database.execute("DELETE FROM contents WHERE size = 1")
        hands.remove(b"g")
        with pytest.raises(SnapshotCorrupt):
            recorder.copy_to(tree, tmp_path / "half")
        assert {p.name for p in tmp_path.iterdir()} == {"project", "runs.db-files", "full", "file", "link", "empty"}


def as_nobody(act: Callable[[], None]) -> None:
    """Do it as a user whom permission bits bind; root needs a child for that."""
    if os.geteuid() != 0:
        act()
        return
    child = os.fork()
    if child == 0:
        try:
            os.setegid(65534)
            os.seteuid(65534)
            act()
        except BaseException as error:
            os.write(2, repr(error).encode() + b"\n")
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def anyones(tmp_path: Path) -> Place:
    """A place that an unprivileged user owns."""
    place = Place(root=tmp_path / "project", store=tmp_path / "store")
    for folder in (place.root, place.store):
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder == tmp_path or "pytest" in folder.name:
            folder.chmod(folder.stat().st_mode | 0o011)
    return place


def test_read_only_folders_are_opened_for_the_work_and_closed_again(anyones: Place) -> None:
    hands = FolderHands(anyones.root)

    def act() -> None:
        hands.write(b"closed/in/f", b"1", 0o444)
        hands.write(b"closed/gone", b"1")
        for name in (b"closed/in", b"closed"):
            hands.chmod(name, 0o555)
        hands.chmod(b"", 0o555)
        before = whole(anyones.root)
        with anyones.recorder() as recorder:
            start = recorder.snapshot(by="outside")
            for name in (b"", b"closed", b"closed/in"):
                hands.chmod(name, 0o755)
            hands.remove(b"closed/gone")
            hands.remove(b"closed/in/f")
            hands.write(b"closed/in/f", b"2")
            hands.write(b"made/in/f", b"2")
            for name in (b"made/in", b"made", b"closed/in", b"closed", b""):
                hands.chmod(name, 0o555)
            changed = whole(anyones.root)
            recorder.snapshot()
            assert recorder.rewind(start.tree, confirm_deletes=True).kept == ()
            assert whole(anyones.root) == before
            assert anyones.root.stat().st_mode & 0o777 == 0o555
            recorder.undo()
            assert whole(anyones.root) == changed
        hands.chmod(b"", 0o755)

    as_nobody(act)


def test_what_cannot_be_read_is_said_and_never_touched(anyones: Place) -> None:
    hands = FolderHands(anyones.root)

    def act() -> None:
        hands.write(b"f", b"1")
        hands.write(b"secret", b"s", 0o000)
        hands.write(b"shut/inner", b"s")
        hands.chmod(b"shut", 0o000)
        with anyones.recorder() as recorder:
            start = recorder.snapshot(by="outside")
            assert [(n.path, n.reason) for n in start.not_held] == [
                (b"secret", "unreadable"),
                (b"shut", "unreadable"),
            ]
            hands.write(b"f", b"2")
            recorder.snapshot()
            assert [c.path for c in recorder.rewind(start.tree).put_back] == [b"f"]
        hands.chmod(b"shut", 0o755)

    as_nobody(act)


def test_a_folder_of_someone_else_stops_the_rewind_by_name_with_nothing_changed(anyones: Place) -> None:
    """F28."""
    if os.geteuid() != 0:
        pytest.skip("needs a folder of another user")
    hands = FolderHands(anyones.root)
    hands.write(b"theirs/f", b"2")
    with anyones.recorder() as recorder:
        hands.remove(b"theirs/f")
        recorder.snapshot(by="outside")
        hands.write(b"theirs/f", b"2")
        hands.write(b"f", b"2")
        recorder.snapshot()
    for path in anyones.store.rglob("*"):
        os.chown(path, 65534, 65534)
    before = whole(anyones.root)

    def act() -> None:
        with anyones.recorder() as recorder:
            with pytest.raises(WorkspaceUnreachable) as caught:
                recorder.rewind(recorder.list()[0].tree, confirm_deletes=True)
            assert caught.value.path == "theirs"
            assert recorder.unfinished() is None

    as_nobody(act)
    assert whole(anyones.root) == before


def test_a_capture_that_meets_an_error_is_no_snapshot(place: Place, hands: FolderHands) -> None:
    class Failing(Disk):
        failing = True

        def open_file(self, name: bytes, at: int) -> int:
            if self.failing and name == b"bad":
                raise OSError(5, "Input/output error")
            return super().open_file(name, at)

    hands.write(b"d/bad", b"1")
    hands.write(b"f", b"1")
    disk = Failing()
    for threads in (0, 2):
        with place.recorder(disk=disk, threads=threads) as recorder:
            disk.failing = True
            with pytest.raises(SnapshotIncomplete) as caught:
                recorder.snapshot()
            assert caught.value.path == "d/bad"
            assert recorder.list() == ()
            disk.failing = False
            assert recorder.read(recorder.snapshot().tree, b"d/bad") == b"1"
            recorder.clear()


def test_many_files_are_read_by_several_threads_with_the_same_result(place: Place, hands: FolderHands) -> None:
    for number in range(400):
        hands.write(b"d%d/f%d" % (number % 7, number), b"%d" % (number % 300))
    hands.write(b"large", os.urandom(LARGE + 1))
    hands.write(b"same-large", hands.read(b"large") or b"")
    with (
        place.recorder(threads=2) as many,
        place_of(place.root, Place(place.root, place.store / "b")).recorder() as one,
    ):
        assert many.snapshot().tree == one.snapshot().tree
        assert many._store.digests() == one._store.digests()


def test_a_system_without_folder_handles_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_fd", set())
    with pytest.raises(WorkspaceUnsupported) as caught:
        place.recorder()
    assert "listdir" in str(caught.value)
