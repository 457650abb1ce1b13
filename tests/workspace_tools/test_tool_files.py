"""Reading, writing and editing: bytes in, bytes out, whole or not at all."""

import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forkpoint as fp
from forkpoint.errors.tools import (
    CallStopped,
    EditEmpty,
    EditNotFound,
    EditNotUnique,
    FileBusy,
    FileChanged,
    FileNotText,
    FileReadOnly,
    FileTooLarge,
    FileUnusable,
    PathNotFound,
    TextInvalid,
)
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.tooling import files, writing
from forkpoint.workspace.tooling.edits import Edit, edited, judged, places
from forkpoint.workspace.tooling.paging import page_of
from forkpoint.workspace.tooling.reach import Reach

Use = Callable[..., Any]


def test_lines_are_numbered_and_paged(use: Use, root: Path) -> None:
    (root / "a").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert use("read_file", "a", 3, 2).split("\n") == [
        "     3\tline 3",
        "     4\tline 4",
        "[more lines follow; go on with offset=5]",
    ]
    assert use("read_file", "a", 9).split("\n") == ["     9\tline 9", "    10\tline 10"]
    assert use("read_file", "a", 11) == "[the file has 10 lines, none from 11 on]"
    assert use("read_file", "a", -5, 0).startswith("     1\tline 1\n[more")


def test_a_page_stops_at_its_bytes_and_says_where_to_go_on(use: Use, root: Path) -> None:
    (root / "a").write_text("x" * 50 + "\n" + "y" * 50 + "\n" + "z" * 50)
    told = use("read_file", "a", options={"max_read_bytes": 100})
    assert told.endswith("y\n[more lines follow; go on with offset=3]")
    assert "z" in use("read_file", "a", 3, options={"max_read_bytes": 1})


def test_a_long_line_is_cut_with_its_count(use: Use, root: Path) -> None:
    (root / "a").write_bytes(b"a" + "é".encode() * 2000 + b"\nnext\n")
    first, second = use("read_file", "a").split("\n")
    assert first.endswith("é[… 2002 more bytes in this line]")
    assert second == "     2\tnext"


def test_what_a_page_leaves_out_is_said(use: Use, root: Path) -> None:
    (root / "empty").write_bytes(b"")
    (root / "crlf").write_bytes(b"a\r\nb\r\n")
    (root / "mixed").write_bytes(b"a\r\nb\nc")
    (root / "latin").write_bytes(b"caf\xe9\n")
    assert use("read_file", "empty") == "[empty file]"
    assert use("read_file", "crlf") == "     1\ta\n     2\tb\n[lines end in CRLF]"
    assert use("read_file", "mixed").endswith(
        "[line endings are mixed, CRLF and LF]\n[no line end at the end of the file]"
    )
    assert use("read_file", "latin").split("\n")[0] == "     1\tcaf\\xe9"
    assert "not all of it is UTF-8" in use("read_file", "latin")


@pytest.mark.parametrize(
    ("data", "kind"), [(b"\x7fELF\0\0", "NUL"), ("text".encode("utf-16"), "UTF-16"), (b"x\n" * 9000 + b"\0", "NUL")]
)
def test_a_binary_file_is_refused_with_its_size(use: Use, root: Path, data: bytes, kind: str) -> None:
    (root / "a").write_bytes(data)
    with pytest.raises(FileNotText, match=f"{len(data)} bytes.*{kind}"):
        use("read_file", "a", limit=99_999)


@given(
    lines=st.lists(st.binary(max_size=12).filter(lambda b: not {b"\n", b"\0"} & {b[n : n + 1] for n in range(len(b))})),
    cut=st.integers(1, 7),
)
def test_a_page_is_the_same_however_the_file_comes_in(lines: list[bytes], cut: int) -> None:
    data = b"\n".join(lines)
    pieces = [data[n : n + cut] for n in range(0, len(data), cut)]
    assert page_of(pieces, offset=1, limit=99, max_bytes=9999) == page_of([data], offset=1, limit=99, max_bytes=9999)


def test_a_listing_tells_kinds_and_pages(use: Use, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").write_text("12")
    (root / "link").symlink_to("file")
    os.mkfifo(root / "pipe")
    assert use("list_dir").split("\n") == ["file  (2 bytes)", "folder/", "link -> file", "pipe  (a pipe)"]
    assert use("list_dir", ".", 2, 1) == "folder/\n[4 entries; go on with offset=3]"
    assert use("list_dir", "folder") == "[empty]"


def test_a_write_makes_folders_and_keeps_permissions(use: Use, root: Path) -> None:
    written = use("write_file", "a/b/c.txt", "é\r\n")
    assert (written.path, written.bytes) == ("a/b/c.txt", 4)
    path = root / "a" / "b" / "c.txt"
    assert path.read_bytes() == "é\r\n".encode()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    for mode in (0o755, 0o600, 0o640, 0o4755):
        path.chmod(mode)
        use("write_file", "a/b/c.txt", "x")
        use("edit_file", "a/b/c.txt", "x", "y")
        assert stat.S_IMODE(path.stat().st_mode) == mode & 0o777
    assert os.listdir(path.parent) == ["c.txt"]  # noqa: PTH208


def test_a_read_only_file_is_left_alone(use: Use, root: Path) -> None:
    (root / "a").write_text("one")
    (root / "a").chmod(0o444)
    for act in (lambda: use("write_file", "a", "two"), lambda: use("edit_file", "a", "one", "two")):
        with pytest.raises(FileReadOnly):
            act()
    assert (root / "a").read_text() == "one"


def test_an_edit_replaces_what_is_there_once_and_says_how_often_it_is_there_else(use: Use, root: Path) -> None:
    (root / "a").write_text("one two two aaa")
    with pytest.raises(EditNotUnique, match="2 times") as caught:
        use("edit_file", "a", "two", "x")
    assert caught.value.count == 2
    with pytest.raises(EditNotUnique, match="2 times"):
        use("edit_file", "a", "aa", "x")
    with pytest.raises(EditNotFound):
        use("edit_file", "a", "three", "x")
    with pytest.raises(EditEmpty):
        use("edit_file", "a", "", "x")
    with pytest.raises(EditEmpty):
        use("edit_file", "a", "one", "one")
    with pytest.raises(PathNotFound):
        use("edit_file", "b", "one", "two")
    assert (root / "a").read_text() == "one two two aaa"
    assert use("edit_file", "a", "two", "2", replace_all=True).replaced == 2
    assert (root / "a").read_text() == "one 2 2 aaa"


@pytest.mark.parametrize("new", ["$&", "$1", "\\1", "\\g<0>", "\\n", "\\\\", "%s", "{0}", "&", "\\"])
def test_a_replacement_is_literal(use: Use, root: Path, new: str) -> None:
    (root / "a").write_text("(x) [old] (y)\n")
    use("edit_file", "a", "[old]", new)
    assert (root / "a").read_text() == f"(x) {new} (y)\n"


def test_an_edit_keeps_line_endings(use: Use, root: Path) -> None:
    def after(data: bytes, old: str, new: str) -> bytes:
        (root / "a").write_bytes(data)
        use("edit_file", "a", old, new)
        return (root / "a").read_bytes()

    assert after(b"a\r\nb\r\nc", "a\nb", "a\nB\nnew") == b"a\r\nB\r\nnew\r\nc"
    assert after(b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nb\nC\nd") == b"a\r\nb\nC\r\nd\n"
    assert after(b"a\r\nb\r\n", "b", "b\nc") == b"a\r\nb\r\nc\r\n"
    assert after(b"a\nb\n", "b", "b\nc") == b"a\nb\nc\n"
    assert after(b"a\r\nb\r\n", "a\r\nb", "x\ny") == b"x\ny\r\n"
    assert after(b"a\r\nb\r\n", "\nb", "\nc") == b"a\r\nc\r\n"
    assert after(b"a\nb\n", "a", "a\r\nx") == b"a\r\nx\nb\n"


@pytest.mark.parametrize("rest", [b"caf\xe9", b"\xc4\xe3\xba\xc3", b"\0\1\2", b"\xff\xfe\xfd", b"\r\r\n\n\r"])
def test_bytes_that_are_no_text_survive_an_edit(use: Use, root: Path, rest: bytes) -> None:
    (root / "a").write_bytes(rest + b"old" + rest)
    use("edit_file", "a", "old", "new")
    assert (root / "a").read_bytes() == rest + b"new" + rest


def test_half_a_character_is_not_written(use: Use, root: Path) -> None:
    with pytest.raises(TextInvalid, match="at 1"):
        use("write_file", "new/a", "x\ud800")
    assert not (root / "new").exists()


def test_a_file_too_large_to_edit_is_refused(use: Use, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_EDIT_BYTES", 3)
    (root / "a").write_text("1234")
    with pytest.raises(FileTooLarge):
        use("edit_file", "a", "1", "2")


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename"])
def test_a_write_that_fails_leaves_everything_as_it_was(
    use: Use, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (root / "a").write_text("one")
    before = (root / "a").stat()
    monkeypatch.setattr(Reach if call == "create" else Disk, call, full)
    failures = [
        lambda: use("edit_file", "a", "one", "two"),
        lambda: use("write_file", "a", "two"),
        lambda: use("write_file", "new/deep/b", "two"),
    ]
    for act in failures:
        with pytest.raises(FileUnusable, match="No space left"):
            act()
    monkeypatch.undo()
    assert os.listdir(root) == ["a"]  # noqa: PTH208
    assert (root / "a").read_text() == "one" and (root / "a").stat().st_mtime_ns == before.st_mtime_ns


def test_a_refusal_of_the_system_is_told_with_its_reason(use: Use) -> None:
    with pytest.raises(FileUnusable, match="name too long"):
        use("write_file", "x" * 300, "x")


KILLED = """
import os, signal, sys
from forkpoint import ToolContext
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.tools import file_tools
Disk.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
file_tools(sys.argv[1])[1](ToolContext(), "a", "half of it")
"""


def test_what_a_killed_write_left_is_replaced_by_the_next(use: Use, root: Path) -> None:
    (root / "a").write_text("old")
    assert subprocess.run([sys.executable, "-c", KILLED, root], check=False).returncode == -9
    assert (root / "a").read_text() == "old" and len(os.listdir(root)) == 2  # noqa: PTH208
    use("write_file", "a", "whole")
    assert os.listdir(root) == ["a"]  # noqa: PTH208
    assert (root / "a").read_text() == "whole"


def test_an_edit_does_not_overwrite_what_was_changed_meanwhile(
    use: Use, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("one")
    sync = Disk.sync

    def person_writes(self: Disk, handle: int) -> None:
        (root / "a").write_text("by a person")
        sync(self, handle)

    monkeypatch.setattr(Disk, "sync", person_writes)
    with pytest.raises(FileChanged):
        use("edit_file", "a", "one", "two")
    assert os.listdir(root) == ["a"]  # noqa: PTH208
    assert (root / "a").read_text() == "by a person"


def test_parallel_edits_of_one_path_are_all_made(use: Use, root: Path) -> None:
    (root / "a").write_text("".join(f"<{n}>" for n in range(12)))
    (root / "same").symlink_to("a")
    threads = [
        threading.Thread(target=use, args=("edit_file", "a" if n % 2 else "same", f"<{n}>", f"[{n}]"))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (root / "a").read_text() == "".join(f"[{n}]" for n in range(12))


def test_a_write_waits_for_another_process_and_gives_up_in_the_end(
    use: Use, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAIT_S", 0.02)
    handle = os.open(root, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(FileBusy):
        use("write_file", "a", "x")
    os.close(handle)
    use("write_file", "a", "x")


def test_a_read_that_is_cancelled_ends(use: Use, root: Path) -> None:
    (root / "a").write_text("x")
    with pytest.raises(CallStopped):
        use("read_file", "a", ctx=fp.ToolContext(is_cancelled=lambda: True))


EDITS = [
    (b"a OLD b", "OLD", "NEW", False, "before"),
    (b"a NEW b", "OLD", "NEW", False, "after"),
    (b"NEW OLD", "OLD", "NEW", False, "before"),
    (b"a b", "OLD", "NEW", False, "neither"),
    (b"a b", "OLD", "", False, "neither"),
    (b"a OLD b", "OLD", "", False, "before"),
    (b"x foobar y", "foo", "foobar", False, "either"),
    (b"x foo y", "foo", "foobar", False, "before"),
    (b"x foobarbar y", "foo", "foobar", False, "either"),
    (b"OLD OLD", "OLD", "NEW", False, "neither"),
    (b"aab", "ab", "a", False, "either"),
    (b"a\r\nNEW\r\n", "OLD\n", "NEW\n", False, "after"),
    (b"OLD OLD", "OLD", "NEW", True, "before"),
    (b"NEW NEW", "OLD", "NEW", True, "after"),
    (b"foobar foobar", "foo", "foobar", True, "either"),
    (b"foo foobar", "foo", "foobar", True, "before"),
]


@pytest.mark.parametrize(("data", "old", "new", "everywhere", "verdict"), EDITS)
def test_a_file_tells_whether_an_edit_was_made(data: bytes, old: str, new: str, everywhere: bool, verdict: str) -> None:
    assert judged(data, Edit(old=old.encode(), new=new.encode(), everywhere=everywhere)) == verdict


short = st.text(alphabet="ab\n", max_size=8).map(str.encode)


@given(data=short, old=short.filter(bool), new=short, crlf=st.booleans(), everywhere=st.booleans())
def test_a_probe_never_takes_a_made_edit_for_one_not_made_nor_the_other_way(
    data: bytes, old: bytes, new: bytes, crlf: bool, everywhere: bool
) -> None:
    data = data.replace(b"\n", b"\r\n") if crlf else data
    edit = Edit(old=old, new=new, everywhere=everywhere)
    spans = places(data, edit)
    if old == new or not spans or (len(spans) > 1 and not everywhere):
        return
    assert judged(data, edit) in ("before", "either")
    after = edited(data, edit, spans)
    nested = not new and places(after, edit)
    assert nested or judged(after, edit) != "before"


@given(data=short, old=short.filter(bool), new=short)
def test_an_edit_everywhere_is_what_replace_does(data: bytes, old: bytes, new: bytes) -> None:
    edit = Edit(old=old, new=new, everywhere=True)
    assert edited(data, edit, places(data, edit)) == data.replace(old, new)
