"""A run's files, typed: as they were at any moment, what changed, and back again."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from surfaces_typed import Ended, Typed

from forkpoint.errors import RewindCutShort
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.recorder import WorkspaceRecorder

APP = ("--app", "surfaces_coder:agent")
NASTY = r"\x1b]0;owned\x07<script>alert(1)\xff.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    (place / "kept.txt").write_text("mine\n")
    return place


def start(typed: Typed, folder: Path, *lines: str, run: str = "r") -> Ended:
    ended = typed("start", "coder", "\n".join(lines), "--id", run, "--workspace", str(folder), "--json", *APP)
    assert ended.status == 0, ended.err
    return ended


def go_on(typed: Typed, *lines: str, run: str = "r") -> None:
    assert typed("send", run, "\n".join(lines), "--resume", *APP).status == 0


def two_turns(typed: Typed, folder: Path) -> None:
    start(typed, folder, "look", "write a.txt one", "write sub/b.txt two")
    go_on(typed, "write a.txt three", "chmod sub/b.txt 600", "remove kept.txt", "binary c.bin xyz")


def paths(listed: Any) -> list[str]:
    return [one["path"] for one in listed]


def texts(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_files_are_listed_with_kind_mode_and_size_as_of_any_moment(typed: Typed, folder: Path) -> None:
    two_turns(typed, folder)
    now = typed("files", "r", "--json").document
    assert paths(now["entries"]) == ["a.txt", "c.bin", "sub", "sub/b.txt"]
    assert now["entries"][3] | {"sha256": ""} == {
        "path": "sub/b.txt", "kind": "file", "mode": "0600", "size": 4, "sha256": "",
    }  # fmt: skip
    then = typed("files", "r@turn:1", "--json").document
    assert paths(then["entries"]) == ["a.txt", "kept.txt", "sub", "sub/b.txt"]
    out = typed("files", "r@turn:1").out
    assert "-rw-r--r--        4 B  a.txt" in out and "drwxr-xr-x" in out and "3 files (13 B), 1 folder" in out
    assert f"As of the snapshot at r@{then['snapshot']}" in out


def test_what_is_not_held_is_listed_with_the_reason_and_is_in_no_snapshot(
    typed: Typed, folder: Path, tmp_path: Path
) -> None:
    (folder / ".forkpointignore").write_text("secret.txt\n")
    (folder / "secret.txt").write_text("a-value-that-nobody-may-store")
    (folder / "node_modules").mkdir()
    start(typed, folder, "write a.txt one")
    unheld = {
        one["path"]: one["reason"] for one in typed("files", "r", "--json").document["entries"] if "reason" in one
    }
    assert unheld == {"secret.txt": "ignored", "node_modules": "bulk"}
    out = typed("files", "r").out
    assert "not held: named in .forkpointignore" in out and "2 paths not held" in out
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parents]
    assert contents and not any(b"nobody-may-store" in one for one in contents)


def test_changes_between_two_moments_are_a_diff_for_each_file(typed: Typed, folder: Path) -> None:
    two_turns(typed, folder)
    found = typed("files", "r", "--changes", "turn:1", "turn:2", "--json").document["changes"]
    assert [(one["path"], one["kind"]) for one in found] == [
        ("a.txt", "modified"),
        ("c.bin", "created"),
        ("kept.txt", "deleted"),
        ("sub/b.txt", "mode"),
    ]
    out = typed("files", "r", "--changes", "turn:1", "turn:2").out
    assert "-one\n+three\n" in out and "binary, 0 bytes before and 4 after" in out
    assert "mode 0644 before and 0600 after" in out and "\x1b" not in out
    assert "No file differs" in typed("files", "r", "--changes", "step:6", "step:6").out


def test_a_files_content_comes_byte_for_byte(typed: Typed, folder: Path) -> None:
    two_turns(typed, folder)
    assert typed("files", "r@turn:1", "--cat", "a.txt").out == "one\n"
    assert typed("files", "r", "--cat", "a.txt", "--json").document["text"] == "three\n"
    assert typed("files", "r", "--cat", "c.bin").out == "\0xyz"
    missing = typed("files", "r", "--cat", "no.txt", "--json")
    assert (missing.status, missing.error["code"]) == (2, "snapshot.not-found")


def test_a_path_is_explained_by_who_changed_it_when(typed: Typed, folder: Path) -> None:
    start(typed, folder, "write a.txt one")
    (folder / "a.txt").write_text("a person's\n")
    go_on(typed, "write b.txt two")
    told = typed("files", "r", "--explain", "a.txt", "--json").document
    assert [(one["by"], one["kind"], one["turn"]) for one in told["changed"]] == [
        ("run", "created", 1),
        ("outside", "modified", 2),
    ]
    out = typed("files", "r", "--explain", "a.txt").out
    assert "turn 1  the run: + created" in out and "turn 2  somebody else: ~ modified" in out


def test_files_are_listed_when_the_folder_is_gone(typed: Typed, folder: Path) -> None:
    start(typed, folder, "write a.txt one")
    folder.rename(folder.with_name("elsewhere"))
    assert typed("files", "r", "--cat", "a.txt").out == "one\n"
    assert typed("rewind", "r", "--turn", "1", "--json").error["code"] == "workspace.refused"


def test_odd_names_are_text_everywhere(typed: Typed, folder: Path) -> None:
    start(typed, folder, f"write {NASTY} one")
    go_on(typed, "write a.txt one")
    (name,) = [os.fsencode(path.name) for path in folder.iterdir() if path.name.endswith("\udcff.txt")]
    said = [
        typed("files", "r").out,
        typed("files", "r", "--changes", "step:1", "turn:1").out,
        typed("files", "r", "--changes", "2", "turn:1").err,
        typed("show", "r").out,
        typed("show", "r", "--step", "1").out,
        typed("files", "r", "--explain", os.fsdecode(name)).out,
        typed("rewind", "r", "--turn", "1", "--dry-run").out,
    ]
    assert all("\x1b" not in one and "\x07" not in one for one in said)
    assert r"\x1b]0;owned\x07<script>alert(1)\xff.txt" in said[0]
    (listed,) = [one for one in typed("files", "r", "--json").document["entries"] if "path_hex" in one]
    assert bytes.fromhex(listed["path_hex"]) == name
    assert typed("files", "r", "--cat", os.fsdecode(name)).out == "one\n"


def test_what_cannot_be_meant_is_refused(typed: Typed, folder: Path) -> None:
    two_turns(typed, folder)
    typed("start", "coder", "look", "--id", "bare", *APP)
    for words, code in (
        (["files", "bare"], "workspace.none"),
        (["files", "r@step:1"], "snapshot.not-found"),
        (["files", "r@99"], "fork.no-such-point"),
        (["files", "r", "--changes", "turn:1", "nonsense"], "fork.bad-address"),
        (["files", "r", "--cat", "a.txt", "--explain", "a.txt"], "cli.unfit"),
        (["files", "r@step:2", "--explain", "a.txt"], "cli.unfit"),
        (["rewind", "r"], "cli.unfit"),
        (["rewind", "r", "--turn", "1", "--undo"], "cli.unfit"),
        (["rewind", "r", "--undo", "--path", "a.txt"], "cli.unfit"),
        (["rewind", "r", "--abort", "--force"], "cli.unfit"),
        (["rewind", "r", "--turn", "9"], "fork.no-such-point"),
        (["rewind", "r", "--turn", "2", "--path", "../a"], "workspace.escape"),
        (["rewind", "r", "--continue"], "workspace.nothing-unfinished"),
        (["rewind", "r", "--undo"], "workspace.nothing-to-undo"),
        (["start", "coder", "look", "--workspace", "nowhere", *APP], "workspace.refused"),
        (["fork", "r@turn:1", "--workspace", str(folder)], "workspace.folder-taken"),
    ):
        ended = typed(*words, "--json")
        assert (ended.status != 0, ended.error["code"]) == (True, code), words


# ── putting back ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_shows_the_list_that_the_real_one_acts_on(typed: Typed, folder: Path) -> None:
    start(typed, folder, "write a.txt one")
    before = texts(folder)
    go_on(typed, "write a.txt two", "write new.txt new")
    (folder / "kept.txt").write_text("a person's\n")
    (folder / "theirs.txt").write_text("theirs\n")
    dry = typed("rewind", "r", "--turn", "2", "--dry-run", "--json").document
    shown = typed("rewind", "r", "--turn", "2", "--dry-run").out
    assert "-two\n+one\n" in shown and "Do it: forkpoint rewind r --turn 2" in shown and "nothing was changed" in shown
    assert texts(folder)["new.txt"] == "new\n"
    done = typed("rewind", "r", "--turn", "2", "--json").document
    for told in dry["put_back"]:
        told.pop("diff")
    assert (dry["put_back"], dry["kept"]) == (done["put_back"], done["kept"])
    assert [(one["path"], one["kind"]) for one in done["put_back"]] == [("a.txt", "modified"), ("new.txt", "deleted")]
    assert [(one["path"], one["reason"]) for one in done["kept"]] == [
        ("kept.txt", "kept-not-ours"),
        ("theirs.txt", "kept-not-ours"),
    ]
    assert texts(folder) == before | {"kept.txt": "a person's\n", "theirs.txt": "theirs\n"}
    undone = typed("rewind", "r", "--undo")
    assert "~ modified a.txt" in undone.out and "Undo it: forkpoint rewind r --undo" in undone.out
    assert texts(folder)["a.txt"] == "two\n"


def test_a_conflict_is_kept_said_and_forced(typed: Typed, folder: Path) -> None:
    start(typed, folder, "write a.txt one")
    go_on(typed, "write a.txt two")
    (folder / "a.txt").write_text("a person's\n")
    ended = typed("rewind", "r", "--turn", "2")
    assert ended.status == 0
    assert "· kept     a.txt  also changed by somebody else: only with --force" in ended.out
    typed("rewind", "r", "--turn", "2", "--force")
    assert texts(folder)["a.txt"] == "one\n"
    typed("rewind", "r", "--undo")
    assert texts(folder)["a.txt"] == "a person's\n"


def test_a_rewind_goes_to_a_step_or_an_event_and_keeps_to_paths(typed: Typed, folder: Path) -> None:
    two_turns(typed, folder)
    seq = typed("files", "r@turn:1", "--json").document["at"]
    assert paths(typed("rewind", "r", "--step", "2", "--dry-run", "--json").document["put_back"]) == [
        "a.txt", "c.bin", "kept.txt", "sub", "sub/b.txt",
    ]  # fmt: skip
    done = typed("rewind", "r", "--at", str(seq), "--path", "sub", "--path", "kept.txt", "--json").document
    assert paths(done["put_back"]) == ["kept.txt", "sub/b.txt"]
    assert texts(folder)["a.txt"] == "three\n"


def test_a_plan_that_deletes_most_files_asks_first(typed: Typed, folder: Path) -> None:
    start(typed, folder, *(f"write n{number}.txt {number}" for number in range(4)))
    assert "or needs --yes" in typed("rewind", "r", "--turn", "1", "--dry-run").out
    ended = typed("rewind", "r", "--turn", "1", "--json")
    assert (ended.status, ended.error["code"]) == (3, "workspace.rewind-asks")
    assert len(texts(folder)) == 5
    assert typed("rewind", "r", "--turn", "1", "--yes").status == 0
    assert texts(folder) == {"kept.txt": "mine\n"}


# ── where files show elsewhere ───────────────────────────────────────────────────────────────────────────────────


def test_a_story_says_which_files_each_step_changed(typed: Typed, folder: Path) -> None:
    two_turns(typed, folder)
    steps = [step for turn in typed("show", "r", "--json").document["turns"] for step in turn["steps"]]
    changed = [[(one["path"], one["kind"]) for file in step["files"] for one in file["changes"]] for step in steps]
    assert changed == [
        [],
        [("a.txt", "created")],
        [("sub/b.txt", "created")],
        [],
        [("a.txt", "modified")],
        [("sub/b.txt", "mode")],
        [("kept.txt", "deleted")],
        [("c.bin", "created")],
        [],
    ]
    out = typed("show", "r").out
    assert "files  +sub/b.txt" in out and "files  ~a.txt" in out and "files  -kept.txt" in out
    assert "files changed: 1" in typed("show", "r", "--step", "5").out


def test_a_step_whose_files_could_not_be_captured_is_marked(typed: Typed, folder: Path) -> None:
    start(typed, folder, "write a.txt one", f"lose a.txt {folder.with_name('elsewhere')}")
    told = typed("show", "r", "--json").document["turns"][0]["steps"]
    assert told[0]["files"][0]["failed"] is None
    assert told[1]["files"][0]["failed"].startswith("workspace.refused")
    out = typed("show", "r").out
    assert "files  not captured" in out and "the files could not be captured: workspace.refused" in out
    assert "files not captured: workspace.refused" in typed("show", "r", "--step", "2").out
    assert "since then a later snapshot failed" in typed("files", "r").out


def test_a_story_is_told_also_when_the_contents_are_gone(typed: Typed, folder: Path, tmp_path: Path) -> None:
    start(typed, folder, "write a.txt one")
    (contents,) = tmp_path.rglob("*-files")
    contents.rename(tmp_path / "gone")
    ended = typed("show", "r")
    assert ended.status == 0 and "snapshot.not-found" in ended.out


def test_a_fork_has_a_folder_of_its_own_and_comparing_tells_the_files_apart(
    typed: Typed, folder: Path, tmp_path: Path
) -> None:
    two_turns(typed, folder)
    other = tmp_path / "other"
    words = ["--workspace", str(other), "--input", "write a.txt four", "--effects", "live", "--id", "f"]
    forked = typed("fork", "r@turn:1", *words, "--json").document
    assert (forked["workspace"], forked["snapshot"]) == (str(other), forked["at"] - 3)
    assert texts(other) == {"a.txt": "one\n", "kept.txt": "mine\n", "sub/b.txt": "two\n"}
    assert typed("resume", "f", *APP).status == 0
    found = typed("compare", "r", "f", "--json").document["files"]
    assert [(one["path"], one["kind"]) for one in found["changes"]] == [
        ("a.txt", "modified"),
        ("c.bin", "deleted"),
        ("kept.txt", "created"),
        ("sub/b.txt", "mode"),
    ]
    out = typed("compare", "r", "f").out
    assert "files that differ: 4" in out and "~ modified a.txt" in out
    assert "files" not in typed("compare", "r@turn:1", "f@turn:1", "--json").document
    again = typed("fork", "r@turn:1", "--workspace", str(tmp_path / "third"))
    assert f"files of its own in {tmp_path / 'third'}, as of r@" in again.out


def test_a_read_only_step_costs_no_snapshot(typed: Typed, folder: Path) -> None:
    start(typed, folder, "look", "look", "look")
    kinds = [one["kind"] for one in typed("show", "r", "--events", "--json").document["events"]]
    assert "snapshot" not in kinds


class Stuck(Disk):
    """A disk on which the second of the workspace's files cannot be removed."""

    def __init__(self) -> None:
        self.removed: list[bytes] = []

    def unlink(self, name: bytes, at: int) -> None:
        """Refuse, from the second file of the workspace on."""
        if name.startswith(b"n"):
            self.removed.append(name)
            if len(self.removed) > 1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().unlink(name, at)


@pytest.mark.parametrize("how", ["--continue", "--abort"])
def test_a_rewind_that_was_cut_off_is_carried_on_or_taken_back(
    typed: Typed, folder: Path, tmp_path: Path, how: str
) -> None:
    start(typed, folder, "write a.txt one")
    go_on(typed, "write n1.txt 1", "write n2.txt 2")
    before = texts(folder)
    (contents,) = tmp_path.rglob("*-files")
    with WorkspaceRecorder(folder, contents, owner="r", disk=Stuck()) as recorder, pytest.raises(RewindCutShort):
        recorder.rewind(turn=2)
    assert texts(folder) != before
    ended = typed("rewind", "r", "--turn", "2", "--json")
    assert (ended.status, ended.error["code"]) == (3, "workspace.rewind-unfinished")
    ended = typed("rewind", "r", how)
    assert ended.status == 0, ended.err
    after = texts(folder)
    assert after == (before if how == "--abort" else {"a.txt": "one\n", "kept.txt": "mine\n"})
    events = typed("show", "r", "--events", "--kind", "rewound", "--json").document["events"]
    then, now = (typed("files", place, "--json").document for place in (f"r@{events[0]['event']['to']}", "r"))
    assert then["tree"] == now["tree"] and then["at"] < now["at"]
    assert typed("rewind", "r", how, "--json").error["code"] == "workspace.nothing-unfinished"


def test_the_doctor_says_where_the_contents_are_and_whether_they_can_be_kept(
    typed: Typed, folder: Path, tmp_path: Path
) -> None:
    start(typed, folder, "write a.txt one")
    (contents,) = tmp_path.rglob("*-files")
    told = typed("doctor", "--json", *APP).document["store"]["files"]
    assert told["path"] == str(contents) and told["bytes"] > 0 and "problem" not in told
    (contents / "files.db").write_bytes(b"something else" * 100)
    ended = typed("doctor", "--json", *APP)
    assert ended.status == 1
    assert ended.document["store"]["files"]["problem"].startswith("snapshot.store-foreign")
    assert "snapshot.store-foreign" in typed("doctor", *APP).out
