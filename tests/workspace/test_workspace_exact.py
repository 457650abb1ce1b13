"""After a rewind the folder is what it was: bytes, modes, links and empty folders."""

# ruff: noqa: PTH104, PTH108, PTH123
# Names here are bytes, which pathlib does not take.

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from workspace_hands import FolderHands, Place, whole

from forkpoint.workspace import Kept

Edit = Callable[[FolderHands], object]

LONG = b"/".join([b"n" * 250] * 15)


def build(hands: FolderHands) -> None:
    """A project with one of everything."""
    hands.write(b"latin", "größe\n".encode("latin-1"))
    hands.write(b"gbk", "文件".encode("gbk"))
    hands.write(b"utf16", "text\r\n".encode("utf-16"))
    hands.write(b"nul", b"a\0b")
    hands.write(b"invalid", b"\xff\xfe\x80")
    hands.write(b"empty-file", b"")
    hands.write(b"crlf", b"one\r\ntwo\nthree\r\n")
    hands.write(b"script", b"#!/bin/sh\n", 0o755)
    hands.write(b"key", b"secret", 0o600)
    hands.write(b"read-only", b"r", 0o444)
    hands.write(b"set-id", b"s", 0o4755)
    hands.write(b"Case", b"upper")
    hands.write(b"-rf", b"looks like an option")
    hands.write(b"--", b"so does this")
    hands.write(b"sp ace\nline", b"odd name")
    hands.write("emoji-😀".encode(), b"odd name")
    hands.write(b"raw-\xff\xfe", b"not UTF-8")
    hands.write(b"d\xe9/inner", b"folder that is not UTF-8")
    hands.write(b"sub/deep/er/file", b"deep")
    hands.write(LONG, b"long")
    hands.mkdir(b"hollow/inner")
    hands.chmod(b"hollow", 0o750)
    hands.link(b"to-file", b"latin")
    hands.link(b"to-folder", b"sub")
    hands.link(b"dangling", b"nowhere/\xff")
    hands.link(b"outside", b"/etc/hostname")
    with open(hands.at(b"sparse"), "wb") as file:
        file.truncate(3_000_000)
    os.link(hands.at(b"latin"), hands.at(b"hard"))


def swap(hands: FolderHands, *paths: bytes) -> None:
    """Each path becomes what the one before was."""
    kept = hands.at(b"swapping")
    os.rename(hands.at(paths[0]), kept)
    for old, new in zip(paths[1:], paths, strict=False):
        os.rename(hands.at(old), hands.at(new))
    os.rename(kept, hands.at(paths[-1]))


def shell(hands: FolderHands, script: str) -> None:
    subprocess.run(["/bin/sh", "-ec", script], cwd=hands.at(b""), check=True, env={"PATH": os.environ["PATH"]})


EDITS: dict[str, Edit] = {
    "contents of every kind": lambda h: (
        [h.write(name, b"other") for name in (b"latin", b"gbk", b"utf16", b"nul", b"invalid", b"empty-file")]
    ),
    "line endings": lambda h: h.write(b"crlf", b"one\ntwo\nthree\n"),
    "one byte, same length": lambda h: h.write(b"sub/deep/er/file", b"deeP"),
    "deleted files and trees": lambda h: (
        [h.remove(name) for name in (b"latin", b"sub", b"hollow", b"d\xe9", b"raw-\xff\xfe", b"dangling")]
    ),
    "modes": lambda h: [h.chmod(n, 0o640) for n in (b"script", b"key", b"read-only", b"set-id", b"hollow")],
    "renames": lambda h: (
        [
            os.rename(h.at(a), h.at(b))
            for a, b in ((b"Case", b"case"), (b"sub", b"bus"), (b"-rf", b"-fr"), (b"raw-\xff\xfe", b"raw"))
        ]
    ),
    "file and folder and link swapped": lambda h: swap(h, b"latin", b"sub", b"to-folder"),
    "an empty folder and a file swapped": lambda h: swap(h, b"hollow/inner", b"nul"),
    "links": lambda h: [h.remove(b"to-file"), h.link(b"to-file", b"gbk"), h.remove(b"outside")],
    "a link turned into what it led to": lambda h: (
        [
            h.remove(b"to-folder"),
            h.write(b"to-folder/deep/er/file", b"copy"),
        ]
    ),
    "a folder turned into a link out": lambda h: [h.remove(b"sub"), h.link(b"sub", b"/etc")],
    "long paths": lambda h: [h.write(LONG, b"changed"), h.remove(LONG.rpartition(b"/")[0])],
    "options as names": lambda h: [h.remove(b"-rf"), h.write(b"--", b"x"), h.write(b"--help", b"x")],
    "sparse and hard-linked": lambda h: [h.write(b"sparse", b"full"), h.write(b"hard", b"both change")],
    "shell commands": lambda h: shell(
        h,
        "sed -i s/one/ONE/ crlf; mkdir -p made/by/shell; echo new > made/by/shell/file; mv script moved;"
        " rm -r sub; chmod 700 hollow; ln -s made link; touch -d @0 gbk; : > nul; cp -r made made2",
    ),
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("what", EDITS)
def test_a_rewind_brings_the_folder_back_exactly(place: Place, hands: FolderHands, what: str) -> None:
    build(hands)
    before = whole(place.root)
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside", turn=1)
        EDITS[what](hands)
        changed = whole(place.root)
        recorder.snapshot(turn=1)
        done = recorder.rewind(start.tree)
        assert whole(place.root) == before
        assert done.kept == ()
        assert recorder.snapshot(by="outside").tree == start.tree
        if changed != before:
            recorder.undo()
            assert whole(place.root) == changed


def test_all_at_once_over_several_turns(place: Place, hands: FolderHands) -> None:
    build(hands)
    states = {}
    order = [name for name in EDITS if name not in ("renames", "long paths", "shell commands")]
    with place.recorder() as recorder:
        recorder.snapshot(by="outside", turn=0)
        for turn, name in enumerate(("contents of every kind", "modes", "options as names", "line endings"), 1):
            states[turn] = whole(place.root)
            assert name in order
            EDITS[name](hands)
            recorder.snapshot(turn=turn)
        for turn in sorted(states, reverse=True):
            recorder.rewind(turn=turn, confirm_deletes=True)
            assert whole(place.root) == states[turn]


def test_a_rewind_writes_only_what_differs(place: Place, hands: FolderHands) -> None:
    build(hands)
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        stamps = {p: os.lstat(hands.at(p)) for p in whole(place.root)}
        assert recorder.rewind(start.tree).put_back == ()
        hands.write(b"gbk", b"changed")
        recorder.snapshot()
        recorder.rewind(start.tree)
    moved = [p for p, old in stamps.items() if os.lstat(hands.at(p)).st_ino != old.st_ino]
    touched = [p for p, old in stamps.items() if os.lstat(hands.at(p)).st_mtime_ns != old.st_mtime_ns]
    assert moved == touched == [b"gbk"]


def test_a_very_deep_tree_needs_no_more_handles_than_a_flat_one(place: Place, hands: FolderHands) -> None:
    """Deeper than the interpreter's stack, than the open files allowed, and than one path may be long."""
    depth = 1500
    at = os.open(place.root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(b"d", dir_fd=at)
        inner = os.open(b"d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open(b"file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    hands.write(b"d/d/sibling/file", b"x")
    hands.write(b"other", b"1")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        assert start.files == 3
        os.unlink(b"file", dir_fd=at)
        os.close(at)
        gone = recorder.snapshot()
        assert [c.kind for c in gone.changes] == ["deleted"]
        recorder.rewind(start.tree)
        assert recorder.snapshot(by="outside").tree == start.tree
        hands.remove(b"d/d/sibling")
        assert len(recorder.snapshot().changes) == 2
    _remove_deep(place.root, depth)


def _remove_deep(root: Path, depth: int) -> None:
    chain = [os.open(root, os.O_RDONLY)]
    try:
        for _ in range(depth - 1):
            if len(chain) > 400:
                break
            chain.append(os.open(b"d", os.O_RDONLY, dir_fd=chain[-1]))
    finally:
        for handle in chain:
            os.close(handle)
    subprocess.run(["rm", "-rf", "d"], cwd=root, check=True)


def test_a_nested_repository_keeps_its_own_git_and_gets_its_files_back(place: Place, hands: FolderHands) -> None:
    """F08, F09, F25, J13: working files return, no git folder is touched, nothing of it is run."""
    env = {"PATH": os.environ["PATH"], "HOME": str(place.store.parent), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str, at: str = ".") -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=place.root / at, check=True, env=env, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout

    marker = place.store.parent / "marker"
    git("init", "-q")
    hands.write(b"tracked", b"1")
    git("add", "."), git("commit", "-qm", "one")
    hands.mkdir(b"nested")
    git("init", "-q", at="nested")
    hands.write(b"nested/inner", b"1")
    git("add", ".", at="nested"), git("commit", "-qm", "inner", at="nested")
    git("worktree", "add", "-q", str(place.root / "tree"))
    git("config", "core.fsmonitor", f"touch {marker}")
    git("config", "filter.x.clean", f"touch {marker}; cat")
    hands.write(b".gitattributes", b"* filter=x\n")
    hands.write(b".gitignore", b"ignored\n")
    hands.write(b"ignored", b"1")
    repositories = {p: v for p, v in whole(place.root).items() if b".git" in p.split(b"/")}
    marker.unlink(missing_ok=True)
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        before = whole(place.root)
        for path in (b"tracked", b"nested/inner", b"tree/tracked", b"ignored"):
            hands.write(path, b"changed")
        hands.remove(b"nested/inner")
        recorder.snapshot()
        recorder.rewind(start.tree)
        assert whole(place.root) == before
        assert repositories.items() <= whole(place.root).items()
        assert not marker.exists()
        git("config", "--unset", "core.fsmonitor")
        hands.write(b"tracked", b"2")
        git("-c", "filter.x.clean=cat", "commit", "-qam", "two")
        moved = recorder.snapshot()
        done = recorder.rewind(start.tree)
        assert {k.reason for k in done.kept} == {"git"}
        assert b"tracked" in {c.path for c in done.put_back}
        assert git("rev-list", "--count", "HEAD").strip() == "2"
        assert moved.tree != start.tree


def test_a_fork_of_a_repository_becomes_one_when_it_fetches(place: Place, hands: FolderHands, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(place.store.parent), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str, at: Path = place.root) -> str:
        words = ("-c", "user.name=a", "-c", "user.email=a@b", *words)
        return subprocess.run(["git", *words], cwd=at, check=True, env=env, capture_output=True, text=True).stdout

    git("init", "-q", "-b", "topic")
    hands.write(b"tracked", b"1")
    git("add", "."), git("commit", "-qm", "one")
    hands.write(b"staged", b"2")
    git("add", "staged")
    fork = tmp_path / "fork"
    with place.recorder() as recorder:
        recorder.copy_to(recorder.snapshot(by="outside").tree, fork)
    assert sorted(path.name for path in (fork / ".git").iterdir()) == ["HEAD", "config", "index", "refs"]
    git("init", "-q", at=fork), git("fetch", "-q", str(place.root), at=fork)
    assert git("log", "--format=%s %D", at=fork) == "one HEAD -> topic\n"
    assert git("diff", "HEAD", "--name-only", at=fork) == "staged\n"


def test_what_is_not_held_is_said_and_never_touched(place: Place, hands: FolderHands) -> None:
    hands.write(b"node_modules/m/index.js", b"1")
    hands.write(b"big", b"x" * 2000)
    hands.write(b".forkpointignore", b"*.env\nprivate/\n")
    hands.write(b"prod.env", b"PASSWORD=hunter2")
    hands.write(b"private/key", b"hunter2")
    os.mkfifo(hands.at(b"pipe"))
    with place.recorder(max_file_bytes=1000) as recorder:
        start = recorder.snapshot(by="outside")
        assert {(n.path, n.reason) for n in start.not_held} == {
            (b"big", "too-large"),
            (b"node_modules", "bulk"),
            (b"pipe", "not-a-file"),
            (b"private", "ignored"),
            (b"prod.env", "ignored"),
        }
        for path in (b"node_modules/m/index.js", b"big", b"prod.env", b"private/key"):
            hands.write(path, b"c" * 3000)
        hands.write(b"huge", b"h" * 3000)
        os.unlink(hands.at(b"pipe"))
        changed = {c.path for c in recorder.snapshot().changes}
        assert changed == {b"big", b"huge", b"node_modules", b"pipe", b"prod.env"}
        before = whole(place.root)
        done = recorder.rewind(start.tree, force=True)
        assert whole(place.root) == before
        assert done.kept == tuple(
            Kept(path=path, reason=reason)
            for path, reason in (
                (b"big", "too-large"),
                (b"huge", "too-large"),
                (b"node_modules", "bulk"),
                (b"pipe", "not-a-file"),
                (b"prod.env", "ignored"),
            )
        )
        assert b"hunter2" not in b"".join(f.read_bytes() for f in place.store.rglob("*") if f.is_file())


def test_an_ignore_file_that_cannot_be_read_fails_the_snapshot(place: Place, hands: FolderHands) -> None:
    from forkpoint.errors.files import WorkspaceBadIgnore

    hands.write(b"a", b"1")
    with place.recorder() as recorder:
        for bad in (b"[", b"a\\", b"../x", b"a\0b", b"[z-a]"):
            hands.write(b".forkpointignore", b"# first\n" + bad)
            with pytest.raises(WorkspaceBadIgnore) as caught:
                recorder.snapshot()
            assert caught.value.line == 2
        hands.remove(b".forkpointignore")
        hands.link(b".forkpointignore", b"a")
        with pytest.raises(WorkspaceBadIgnore):
            recorder.snapshot()
        assert recorder.list() == ()


def test_a_path_ignored_later_is_never_deleted(place: Place, hands: FolderHands) -> None:
    hands.write(b"a", b"1")
    with place.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        hands.write(b"made", b"by the run")
        recorder.snapshot()
        hands.write(b".forkpointignore", b"made\n")
        done = recorder.rewind(start.tree, force=True, confirm_deletes=True)
        assert hands.read(b"made") == b"by the run"
        assert (b"made", "ignored") in {(k.path, k.reason) for k in done.kept}


def test_losses_that_a_restore_cannot_undo_are_reported(place: Place, hands: FolderHands) -> None:
    hands.write(b"a", b"1")
    os.link(hands.at(b"a"), hands.at(b"b"))
    hands.write(b"c", b"1")
    try:
        os.setxattr(hands.at(b"c"), b"user.note", b"x")
        attributes = [(b"c", ("user.note",))]
    except (OSError, AttributeError):
        attributes = []
    with place.recorder() as recorder:
        lost = [(n.path, n.what) for n in recorder.snapshot().not_kept]
        assert lost == [(b"a", ("hard link",)), (b"b", ("hard link",)), *attributes]
        assert [(n.path, n.what) for n in recorder.snapshot().not_kept] == lost


def test_the_store_inside_the_workspace_is_passed_over(place: Place, hands: FolderHands) -> None:
    hands.write(b"a", b"1")
    hands.write(b".forkpoint/runs.db", b"journal")
    inside = Place(root=place.root, store=place.root / "kept-here")
    with inside.recorder() as recorder:
        start = recorder.snapshot(by="outside")
        assert {(n.path, n.reason) for n in start.not_held} == {(b".forkpoint", "store"), (b"kept-here", "store")}
        hands.write(b"a", b"2")
        hands.write(b".forkpoint/runs.db", b"journal grew")
        assert [c.path for c in recorder.snapshot().changes] == [b"a"]
        recorder.rewind(start.tree)
        assert hands.read(b"a") == b"1"
        assert hands.read(b".forkpoint/runs.db") == b"journal grew"
        assert recorder.snapshot(by="outside").tree == start.tree


def test_a_callers_own_files_in_the_workspace_are_passed_over_also_when_they_come_and_go(
    place: Place, hands: FolderHands
) -> None:
    hands.write(b"a", b"1")
    hands.write(b"runs.db", b"journal")
    own = (place.root / "runs.db", place.root / "runs.db-wal")
    with place.recorder(own=own) as recorder:
        start = recorder.snapshot(by="outside")
        assert [(n.path, n.reason) for n in start.not_held] == [(b"runs.db", "store")]
        hands.write(b"a", b"2")
        hands.write(b"runs.db", b"journal grew")
        hands.write(b"runs.db-wal", b"new")
        assert [c.path for c in recorder.snapshot().changes] == [b"a"]
        done = recorder.rewind(start.tree, force=True)
        assert [c.path for c in done.put_back] == [b"a"]
        assert (hands.read(b"runs.db"), hands.read(b"runs.db-wal")) == (b"journal grew", b"new")
        hands.remove(b"runs.db-wal")
        assert recorder.snapshot(by="outside").changes == ()
