"""No path that a tool is given leads out of its folder, however it is spelled and whatever is planted."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forkpoint.errors import ForkpointError, WorkspaceRefused
from forkpoint.errors.tools import (
    PathClosed,
    PathEscapes,
    PathInvalid,
    PathNotFound,
    PathWrongKind,
)
from forkpoint.workspace.tools import file_tools

Use = Callable[..., Any]

ESCAPES = {
    "climbing": "../outside/secret.txt",
    "climbing from below": "sub/../../outside/secret.txt",
    "climbing in escapes": "\\x2e\\x2e/outside/secret.txt",
    "climbing with backslashes": "..\\outside\\secret.txt",
    "absolute": "{outside}/secret.txt",
    "absolute with two slashes": "//{outside}/secret.txt",
    "the process's own root": "/proc/self/root{outside}/secret.txt",
    "a link out": "out/secret.txt",
    "a link out to the file": "out.txt",
    "a link that climbs": "climbs/secret.txt",
    "a link to a link out": "twice/secret.txt",
    "a link below a folder": "sub/out/secret.txt",
    "a link into the process": "process/secret.txt",
    "a link that goes back in and out": "weave/secret.txt",
    "a dangling link out": "dangling",
    "a circle of links": "circle/secret.txt",
    "NUL": "sub\0/../../outside/secret.txt",
    "NUL at the end": "out.txt\0",
    "NUL in escapes": "out.txt\\x00",
    "a slash in escapes": "..\\x2foutside\\x2fsecret.txt",
    "half a character": "\ud800/secret.txt",
}

OPERATIONS: dict[str, Callable[[Use, str], object]] = {
    "read_file": lambda use, path: use("read_file", path),
    "write_file": lambda use, path: use("write_file", path, "HARM"),
    "write_file below": lambda use, path: use("write_file", path + "/new/file.txt", "HARM"),
    "edit_file": lambda use, path: use("edit_file", path, "SECRET", "HARM"),
    "list_dir": lambda use, path: use("list_dir", path.removesuffix("/secret.txt")),
    "glob": lambda use, path: use("glob", "**", path.removesuffix("/secret.txt")),
    "glob pattern": lambda use, path: use("glob", path),
    "grep": lambda use, path: use("grep", "SECRET", path),
    "shell": lambda use, path: use("shell", "echo HARM > harm", path.removesuffix("/secret.txt")),
}


@pytest.fixture
def planted(root: Path, outside: Path) -> Path:
    sub = root / "sub"
    sub.mkdir()
    (sub / "inside.txt").write_text("inside\n")
    (root / "out").symlink_to(outside)
    (root / "out.txt").symlink_to(outside / "secret.txt")
    (root / "climbs").symlink_to("../outside")
    (root / "twice").symlink_to("out")
    (sub / "out").symlink_to(outside)
    (root / "process").symlink_to(f"/proc/self/root{outside}")
    (root / "weave").symlink_to("sub/../../project/../outside")
    (root / "dangling").symlink_to(outside / "made-by-a-write.txt")
    (root / "circle").symlink_to("circle")
    return root


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("spelling", ESCAPES)
def test_no_spelling_of_a_way_out_is_followed_by_any_tool(
    use: Use, planted: Path, outside: Path, spelling: str, operation: str
) -> None:
    path = ESCAPES[spelling].format(outside=outside)
    before = everything(outside), sorted(os.listdir(planted))  # noqa: PTH208
    try:
        told = OPERATIONS[operation](use, path)
    except (PathEscapes, PathInvalid, PathNotFound) as error:
        assert error.code in ("tool.path-escapes", "tool.path-invalid", "tool.path-not-found")
    except ForkpointError as error:
        assert operation == "glob pattern" and error.code == "tool.pattern-refused"
    else:
        # A pattern is only a pattern: it may match nothing, or the link itself, whose target is never looked at.
        assert operation == "glob pattern" and "secret" not in told.replace(path, "")
    assert (everything(outside), sorted(os.listdir(planted))) == before  # noqa: PTH208


@pytest.mark.parametrize(
    "spelling", [s for s in ESCAPES if not s.startswith(("NUL", "half", "a slash", "climbing with back"))]
)
@pytest.mark.parametrize("operation", ["read_file", "write_file", "edit_file", "list_dir", "grep", "shell"])
def test_a_way_out_is_told_as_an_escape(use: Use, planted: Path, outside: Path, spelling: str, operation: str) -> None:
    with pytest.raises(PathEscapes) as caught:
        OPERATIONS[operation](use, ESCAPES[spelling].format(outside=outside))
    assert caught.value.as_json()["code"] == "tool.path-escapes"
    assert "nothing was read or written" in str(caught.value)


@pytest.mark.parametrize("name", ["-rf", "--help", "-", "~", "$HOME", "`id`", "*", "a b", "\n", "C:", "%2e%2e", "…"])
def test_a_name_that_means_something_elsewhere_is_only_a_name_here(use: Use, root: Path, name: str) -> None:
    spelled = use("write_file", name, "one\n").path
    assert (root / name).read_text() == "one\n"
    use("edit_file", spelled, "one", "two")
    assert "two" in use("read_file", spelled)
    assert use("glob", "**") == spelled
    assert use("list_dir").startswith(spelled)
    assert use("grep", "two") == f"{spelled}:1:two"


@pytest.mark.parametrize("raw", [b"latin-\xe9", b"tab\there", b"back\\slash", b"bidi\xe2\x80\xae", b"\xff\xfe"])
def test_a_name_of_any_bytes_is_spelled_so_that_it_can_be_given_back(use: Use, root: Path, raw: bytes) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/" + raw))).write_text("hello\n")
    spelled = use("glob", "*")
    assert spelled.isprintable() and spelled.encode()
    assert "hello" in use("read_file", spelled)
    use("write_file", spelled, "changed\n")
    assert os.listdir(os.fsencode(root)) == [raw]  # noqa: PTH208
    assert use("read_file", os.fsdecode(raw)) if b"\\" not in raw and raw != b"\xff\xfe" else True


def test_a_link_that_stays_inside_is_followed_and_stays_a_link(use: Use, root: Path) -> None:
    (root / "real").mkdir()
    (root / "real" / "a.txt").write_text("one\n")
    (root / "near").symlink_to("real")
    (root / "real" / "back").symlink_to("../real/a.txt")
    (root / "absolute").symlink_to(root / "real" / "a.txt")
    for path in ("near/a.txt", "real/back", "near/back", "absolute"):
        assert "one" in use("read_file", path)
    assert use("write_file", "absolute", "two\n").path == "real/a.txt"
    assert use("edit_file", "near/back", "two", "three").path == "real/a.txt"
    use("write_file", "near/new/b.txt", "b")
    assert (root / "real" / "a.txt").read_text() == "three\n"
    assert (root / "real" / "new" / "b.txt").read_text() == "b"
    assert (root / "absolute").is_symlink() and (root / "near").is_symlink() and (root / "real" / "back").is_symlink()
    assert use("list_dir", "near").splitlines()[0] == "a.txt  (6 bytes)"
    assert use("shell", "pwd", "near", options={"approve_shell": False}).output == f"{root}/real\n"


def test_a_link_that_climbs_too_far_does_not_stop_at_the_root(use: Use, root: Path, outside: Path) -> None:
    (root / "outside").mkdir()
    (root / "outside" / "secret.txt").write_text("inside\n")
    (root / "climbs").symlink_to("../outside")
    with pytest.raises(PathEscapes, match="leads out"):
        use("read_file", "climbs/secret.txt")


def test_a_dangling_link_is_not_written_through(use: Use, root: Path) -> None:
    (root / "dangling").symlink_to("nowhere.txt")
    (root / "dangling-folder").symlink_to("nowhere")
    for path in ("dangling", "dangling-folder/new.txt"):
        with pytest.raises(PathEscapes, match="link that leads to nothing"):
            use("write_file", path, "x")
    assert sorted(os.listdir(root)) == ["dangling", "dangling-folder"]  # noqa: PTH208


def test_searching_follows_no_link(use: Use, planted: Path) -> None:
    found = use("glob", "**")
    assert "secret" not in found.replace("/outside/", "")
    assert {"out", "sub/out", "sub/inside.txt"} <= set(found.splitlines())
    assert use("grep", "SECRET|inside") == "sub/inside.txt:1:inside"
    assert "out -> " in use("list_dir")


def test_removing_a_link_in_a_command_removes_the_link(use: Use, planted: Path, outside: Path) -> None:
    assert use("shell", "rm -r out").exit_status == 0
    assert not (planted / "out").is_symlink()
    assert (outside / "secret.txt").read_text() == "SECRET\n"


def test_a_write_to_a_hard_link_leaves_the_other_name_as_it_was(use: Use, root: Path, outside: Path) -> None:
    (root / "hard.txt").hardlink_to(outside / "secret.txt")
    use("edit_file", "hard.txt", "SECRET", "mine")
    use("write_file", "hard.txt", "mine")
    assert (outside / "secret.txt").read_text() == "SECRET\n"


def test_pipes_sockets_and_folders_are_not_read_as_files(use: Use, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(root / "socket"))
        for name, kind in (("pipe", "a pipe"), ("folder", "a folder"), ("socket", "a socket")):
            for act in (
                lambda n=name: use("read_file", n),
                lambda n=name: use("write_file", n, "x"),
                lambda n=name: use("edit_file", n, "a", "b"),
            ):
                with pytest.raises(PathWrongKind) as caught:
                    act()
                assert caught.value.found == kind
        assert use("grep", "x") == "[no lines]"
    for folder in ("", ".", "folder/.."):
        with pytest.raises((PathWrongKind, PathEscapes)):
            use("write_file", folder, "x")
    with pytest.raises(PathWrongKind):
        use("list_dir", "pipe")
    with pytest.raises(PathWrongKind):
        use("read_file", "pipe/a")


def test_what_is_closed_is_not_opened_by_any_spelling_or_link(use: Use, root: Path) -> None:
    (root / ".forkpoint").mkdir()
    (root / ".forkpoint" / "runs.db").write_text("JOURNAL\n")
    (root / "way").symlink_to(".forkpoint")
    for path in (".forkpoint/runs.db", "./.forkpoint//runs.db", ".FORKPOINT/runs.db", "way/runs.db"):
        for act in (
            lambda p=path: use("read_file", p),
            lambda p=path: use("write_file", p, "x"),
            lambda p=path: use("edit_file", p, "JOURNAL", "x"),
            lambda p=path: use("grep", "J", p),
        ):
            with pytest.raises(PathClosed):
                act()
    assert use("glob", "**") == "way"
    assert use("grep", "JOURNAL") == "[no lines]"
    assert "JOURNAL" in use("read_file", ".forkpoint/runs.db", options={"closed": ()})


def test_a_folder_that_is_nobodys_project_is_refused(tmp_path: Path) -> None:
    for root in ("/", Path.home(), tmp_path / "none"):
        with pytest.raises(WorkspaceRefused):
            file_tools(root)


SWAPPER = """
import os, shutil, sys
root, outside = sys.argv[1], sys.argv[2]
d, aside = root + "/d", root + "/.aside"
print("ready", flush=True)
while True:
    try:
        os.rename(d, aside)
        os.symlink(outside, d)
        os.unlink(d)
        os.rename(aside, d)
    except OSError:  # a tool has made the folder while it was away
        if os.path.islink(d):
            os.unlink(d)
        if os.path.isdir(d):
            shutil.rmtree(aside, ignore_errors=True)
        elif os.path.isdir(aside):
            os.rename(aside, d)
"""


def test_a_folder_that_is_swapped_for_a_link_over_and_over_lets_nothing_out(
    use: Use, root: Path, outside: Path
) -> None:
    (root / "d").mkdir()
    (root / "d" / "secret.txt").write_text("inside\n")
    before = everything(outside)
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, root, outside], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    swapper.stdout.readline()
    seen: list[str] = []
    try:
        for number in range(120):
            acts = {
                0: lambda: use("read_file", "d/secret.txt"),
                1: lambda n=number: str(use("write_file", f"d/new{n}.txt", "HARM")),
                2: lambda: use("list_dir", "d"),
                3: lambda n=number: use("grep", "SECRET|inside") if n % 16 == 3 else use("glob", "**"),
            }
            try:
                seen.append(acts[number % 4]())
            except ForkpointError as error:
                seen.append(error.code)
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()
    assert not [text for text in seen if "SECRET" in text]
    assert everything(outside) == before
