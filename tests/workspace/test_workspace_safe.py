"""Nothing is read or written outside the workspace, whatever is planted and whenever."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from workspace_hands import FolderHands, Place, whole

from forkpoint.errors.files import (
    ForkpointError,
    SnapshotCorrupt,
    WorkspaceEscape,
    WorkspaceRefused,
)
from forkpoint.workspace import Folder, Point
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.tree import digest_of, encode_tree, tree_id

SWAPPER = """
import os, sys
root, outside = sys.argv[1], sys.argv[2]
d, aside = root + "/d", root + "/.aside"
print("ready", flush=True)
while True:
    try:
        os.rename(d, aside)
        os.symlink(outside, d)
        os.unlink(d)
        os.rename(aside, d)
    except OSError:
        try:
            if os.path.islink(d): os.unlink(d)
            if os.path.isdir(aside) and not os.path.exists(d): os.rename(aside, d)
        except OSError:
            pass
"""


def test_a_racing_process_that_swaps_a_folder_for_a_link_lets_nothing_out(
    place: Place, hands: FolderHands, tmp_path: Path
) -> None:
    outside = FolderHands(tmp_path / "outside")
    for number in range(40):
        outside.write(b"f%d" % number, b"OUTSIDE-SECRET %d" % number)
        hands.write(b"d/f%d" % number, b"inside %d" % number)
    kept = whole(tmp_path / "outside")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        for number in range(40):
            hands.write(b"d/f%d" % number, b"changed %d" % number)
            hands.write(b"d/new%d" % number, b"new")
        changed = recorder.snapshot()
        swapper = subprocess.Popen(
            [sys.executable, "-c", SWAPPER, str(place.root), str(tmp_path / "outside")], stdout=subprocess.PIPE
        )
        assert swapper.stdout is not None
        swapper.stdout.readline()
        outcomes = []
        try:
            for number in range(40):
                outcomes.append(attempt(lambda n=number: to(recorder, start.tree if n % 2 else changed.tree)))
                if recorder.unfinished() is not None:
                    outcomes.append(attempt(recorder.abort))
        finally:
            swapper.kill()
            swapper.wait()
            swapper.stdout.close()
        assert whole(tmp_path / "outside") == kept
        assert None in outcomes
        store = recorder._store
        assert not [d for d in store.digests() if b"OUTSIDE-SECRET" in store.content(d)]


def to(recorder: object, tree: object) -> None:
    recorder.snapshot()  # type: ignore[attr-defined]
    recorder.rewind(tree, force=True, confirm_deletes=True)  # type: ignore[attr-defined]


def attempt(act: Callable[[], object]) -> str | None:
    try:
        act()
    except ForkpointError as error:
        return error.code
    return None


class SwappedAt(Disk):
    """Swaps a folder for a link out just before the write numbered ``at``."""

    def __init__(self, at: int, swap: Callable[[], None]) -> None:
        self.at, self.count, self.swap = at, 0, swap

    def _maybe(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.swap()

    def rename(self, name: bytes, at: int, to: bytes, to_at: int) -> None:
        self._maybe()
        super().rename(name, at, to, to_at)

    def unlink(self, name: bytes, at: int) -> None:
        self._maybe()
        super().unlink(name, at)

    def mkdir(self, name: bytes, at: int) -> None:
        self._maybe()
        super().mkdir(name, at)

    def create(self, name: bytes, at: int) -> int:
        self._maybe()
        return super().create(name, at)


def test_a_folder_swapped_at_any_write_of_a_rewind_lets_nothing_out(tmp_path: Path) -> None:
    for at in range(1, 16):
        place = Place(root=tmp_path / str(at) / "project", store=tmp_path / str(at) / "store")
        place.root.mkdir(parents=True)
        hands, outside = FolderHands(place.root), FolderHands(tmp_path / str(at) / "outside")
        for name in (b"a", b"b", b"gone", b"in/c"):
            outside.write(name, b"OUTSIDE")
            hands.write(b"d/" + name, b"1")
        hands.write(b"e", b"1")
        kept = whole(tmp_path / str(at) / "outside")

        def swap(root: Path = place.root, where: Path = tmp_path / str(at) / "outside") -> None:
            (root / "d").rename(root / "aside")
            (root / "d").symlink_to(where)

        with place.recorder(disk=SwappedAt(0, swap)) as recorder:
            start = recorder.snapshot(by="outside")
            for name in (b"d/a", b"d/b", b"d/in/c", b"d/new", b"e"):
                hands.write(name, b"2")
            hands.remove(b"d/gone")
            recorder.snapshot()
        with place.recorder(disk=SwappedAt(at, swap)) as recorder:
            outcome = attempt(lambda r=recorder, s=start: r.rewind(s.tree))
            assert outcome in (None, "workspace.rewind-cut-short", "workspace.escape")
        assert whole(tmp_path / str(at) / "outside") == kept


def test_a_folder_swapped_between_plan_and_write_fails_the_whole_rewind(
    place: Place, hands: FolderHands, tmp_path: Path
) -> None:
    hands.write(b"d/a", b"1")
    hands.write(b"e", b"1")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        hands.write(b"d/a", b"2")
        hands.write(b"e", b"2")
        recorder.snapshot()
        (tmp_path / "outside").mkdir()
        hands.remove(b"d")
        hands.link(b"d", os.fsencode(tmp_path / "outside"))
        for dry_run in (True, False):
            for force in (True, False):
                with pytest.raises(WorkspaceEscape):
                    recorder.rewind(start.tree, dry_run=dry_run, force=force)
        assert hands.read(b"e") == b"2"
        assert whole(tmp_path / "outside") == {}
        assert recorder.unfinished() is None


FILE = ("f", 0o644, 1, digest_of(b"x"))
BAD_FOLDERS: dict[str, object] = {
    "a name that climbs": (1, [(b"..", FILE)]),
    "the folder itself": (1, [(b".", FILE)]),
    "a path as a name": (1, [(b"a/../../x", FILE)]),
    "an absolute name": (1, [(b"/etc/passwd", FILE)]),
    "a NUL": (1, [(b"a\0b", FILE)]),
    "no name": (1, [(b"", FILE)]),
    "a name twice": (1, [(b"a", FILE), (b"a", FILE)]),
    "names out of order": (1, [(b"b", FILE), (b"a", FILE)]),
    "a device": (1, [(b"sda", ("b", 0o644, 8, 0))]),
    "a mode with a file type": (1, [(b"a", ("f", 0o60644, 1, digest_of(b"x")))]),
    "a digest too short": (1, [(b"a", ("f", 0o644, 1, b"x"))]),
    "a negative size": (1, [(b"a", ("f", 0o644, -1, digest_of(b"x")))]),
    "an unknown field": (1, [(b"a", (*FILE, 7))]),
    "an unknown reason": (1, [(b"a", ("x", "because", b""))]),
    "a link to nothing": (1, [(b"a", ("l", b""))]),
    "a link with a NUL": (1, [(b"a", ("l", b"a\0b"))]),
    "another version": (2, [(b"a", FILE)]),
    "no folder at all": "text",
}


@pytest.mark.parametrize("what", BAD_FOLDERS)
def test_a_stored_tree_that_says_what_no_tree_may_is_refused_whole(place: Place, hands: FolderHands, what: str) -> None:
    hands.write(b"a", b"1")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        data = msgspec.msgpack.encode(BAD_FOLDERS[what])
        root = encode_tree(Folder(0o755, digest_of(data)))
        recorder._store.insert([(digest_of(b), 0, len(b), len(b), b) for b in (data, root, b"x")])
        recorder._store.commit()
        for dry_run in (True, False):
            with pytest.raises(SnapshotCorrupt):
                recorder.rewind(
                    tree_id(digest_of(root)), since=[Point(tree=start.tree, by="run")], dry_run=dry_run, force=True
                )
        assert whole(place.root) == {b"a": ("file", 0o644, b"1")}
        assert recorder.unfinished() is None


def test_changed_or_missing_content_is_noticed_before_anything_is_written(place: Place, hands: FolderHands) -> None:
    hands.write(b"a", b"1" * 500)
    hands.write(b"b", b"1")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        hands.write(b"a", b"2")
        hands.write(b"b", b"2")
        recorder.snapshot()
        before = whole(place.root)
        store = recorder._store
        for query in (
            "UPDATE contents SET data = CAST('y' AS BLOB) WHERE digest = ?",
            "UPDATE contents SET packing = 9 WHERE digest = ?",
            "DELETE FROM contents WHERE digest = ?",
        ):
            store.database.execute(query, (digest_of(b"1" * 500),))
            store.commit()
            with pytest.raises(SnapshotCorrupt):
                recorder.rewind(start.tree)
            assert whole(place.root) == before
            assert recorder.unfinished() is None


def test_a_folder_that_can_not_be_a_workspace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forkpoint.workspace import WorkspaceRecorder

    home = tmp_path / "home" / "me"
    home.mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("HOME", str(home))
    for root in ("/", home, home.parent, tmp_path / "link", tmp_path / "none", tmp_path / "file", ""):
        with pytest.raises(WorkspaceRefused):
            WorkspaceRecorder(root, tmp_path / "store")
    (tmp_path / "store" / "inside").mkdir()
    for root in (tmp_path / "store", tmp_path / "store" / "inside"):
        with pytest.raises(WorkspaceRefused, match="store of snapshots"):
            WorkspaceRecorder(root, tmp_path / "store")


def test_the_store_is_for_its_owner_only(place: Place, hands: FolderHands) -> None:
    hands.write(b"small", b"x", 0o666)
    hands.write(b"large", bytes(2 << 20), 0o666)
    with place.recorder() as recorder:
        recorder.snapshot()
        recorder.rewind(recorder.list()[0].tree)
        for path in (place.store, *place.store.rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
