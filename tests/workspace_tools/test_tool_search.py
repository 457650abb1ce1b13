"""Searching: what is found, what is left out and said, and an end to it whatever the pattern."""

import asyncio
import fnmatch
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forkpoint as fp
from forkpoint.errors.tools import CallStopped, PathNotFound, PatternRefused, SearchFailed
from forkpoint.workspace.tooling import asking, searching
from forkpoint.workspace.tooling.globs import glob_of
from forkpoint.workspace.tooling.repeats import repeats_a_repetition

Use = Callable[..., Any]

SLOW = "a*a*a*a*a*a*a*a*a*a*b"
"""No nested repetition, and yet it takes for ever on a line of many a."""


@pytest.fixture
def tree(root: Path) -> Path:
    for path in ("a.py", "b.txt", "src/c.py", "src/deep/d.py", "src/deep/e.ts", ".hidden/f.py", "node_modules/g.py"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"first\nimport {Path(path).stem}\nlast\n")
    return root


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", [".hidden/f.py", "a.py", "src/c.py", "src/deep/d.py"]),
        ("./*.py", ["a.py"]),
        ("src/*.py", ["src/c.py"]),
        ("src/**/*.py", ["src/c.py", "src/deep/d.py"]),
        ("**/*.{py,ts}", [".hidden/f.py", "a.py", "src/c.py", "src/deep/d.py", "src/deep/e.ts"]),
        ("src/deep", ["src/deep/"]),
        ("**/[!a-c].*", [".hidden/f.py", "src/deep/d.py", "src/deep/e.ts"]),
        ("?.txt", ["b.txt"]),
        ("{a,src/{c,x}}.py", ["a.py", "src/c.py"]),
        ("nothing/**", ["[no paths]"]),
        ("**/**/d.py", ["src/deep/d.py"]),
    ],
)
def test_a_glob_finds_what_its_pattern_says(use: Use, tree: Path, pattern: str, found: list[str]) -> None:
    told = use("glob", pattern).split("\n")
    assert sorted(line for line in told if not line.startswith("[folders")) == found


def test_bulk_folders_are_entered_only_by_name_and_that_is_said(use: Use, tree: Path) -> None:
    assert "[folders not entered: node_modules/; name one as path to search it]" in use("glob", "*.py")
    assert "[folders not entered: node_modules/" in use("grep", "import g")
    assert use("glob", "*.py", "node_modules") == "node_modules/g.py"
    assert use("grep", "import g", "node_modules") == "node_modules/g.py:2:import g"


def test_a_search_stops_at_its_limit_and_says_so(use: Use, tree: Path) -> None:
    assert use("glob", "*.py", limit=2).split("\n") == [
        "a.py",
        ".hidden/f.py",
        "[incomplete: stopped at 2 paths; raise limit or narrow the pattern]",
        "[folders not entered: node_modules/; name one as path to search it]",
    ]
    told = use("grep", "first|last", limit=3).split("\n")
    assert told[3].startswith("[incomplete: stopped at 3 lines") and not told[2].startswith("[")
    assert "incomplete" not in use("grep", "import a", limit=1) + use("glob", "a.py", limit=1)


def test_a_grep_gives_path_line_and_text(use: Use, tree: Path) -> None:
    assert use("grep", r"import [cd]$", "src").split("\n") == ["src/c.py:2:import c", "src/deep/d.py:2:import d"]
    assert use("grep", "IMPORT C", ignore_case=True).split("\n")[0] == "src/c.py:2:import c"
    assert use("grep", "import", "src/c.py") == "src/c.py:2:import c"
    assert use("grep", "import", glob="*.ts").split("\n")[0] == "src/deep/e.ts:2:import e"
    with pytest.raises(PathNotFound):
        use("grep", "x", "nothing")


def test_a_grep_reads_any_bytes_and_leaves_out_binary_and_large_files(
    use: Use, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_SEARCHED_BYTES", 1000)
    (root / "latin").write_bytes(b"x\r\ncaf\xe9 needle\r\n")
    (root / "utf").write_text("Ünüt NEEDLE\n")
    (root / "binary").write_bytes(b"needle\0")
    (root / "large").write_bytes(b"needle" * 1000)
    (root / "long").write_text("y" * 300 + "needle" + "z" * 600)
    told = use("grep", "needle$|needlez|(?i:ünüt)").split("\n")
    assert told[0] == "latin:2:caf\\xe9 needle"
    assert told[1] == "long:1:…" + "y" * 100 + "needle" + "z" * 294 + "…"
    assert told[2:] == ["utf:1:Ünüt NEEDLE", "[files not searched: 1 binary, 1 too large]"]


def test_a_slow_pattern_stops_at_the_limit_and_nothing_else_waits(use: Use, root: Path) -> None:
    (root / "a").write_text("needle\n")
    (root / "b").write_text("a" * 5000)

    async def both() -> tuple[str, int]:
        beats = 0
        call = asyncio.create_task(asyncio.to_thread(use, "grep", f"needle|{SLOW}", options={"search_s": 0.4}))
        while not call.done():
            beats += 1
            await asyncio.sleep(0)
        return await call, beats

    told, beats = asyncio.run(both())
    assert "[incomplete: stopped after 0.4 s" in told
    assert beats > 20


def test_a_slow_search_ends_when_the_call_is_cancelled(use: Use, root: Path) -> None:
    (root / "b").write_text("a" * 5000)
    asked = iter([False] * 8)
    with pytest.raises(CallStopped):
        use("grep", SLOW, ctx=fp.ToolContext(is_cancelled=lambda: next(asked, True)))
    with pytest.raises(CallStopped):
        use("glob", "**", ctx=fp.ToolContext(is_cancelled=lambda: True))


def test_no_process_is_left_by_a_search(use: Use, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def noted() -> Any:
        started.append(real())
        return started[-1]

    real = asking._started
    monkeypatch.setattr(asking, "_started", noted)
    (root / "b").write_text("a" * 5000)
    use("grep", SLOW, options={"search_s": 0.2})
    use("grep", "fine")
    with pytest.raises(PatternRefused):
        use("grep", "(")
    with pytest.raises(PathNotFound):
        use("grep", "x", "nothing")
    assert [process.returncode is not None for process in started] == [True] * len(started)


def test_a_search_whose_process_cannot_be_had_says_so(use: Use, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").write_text("x")
    monkeypatch.setattr(asking.sys, "executable", "/nowhere/python")
    with pytest.raises(SearchFailed, match="No such file"):
        use("grep", "x")
    monkeypatch.setattr(asking.sys, "executable", "/bin/false")
    with pytest.raises(SearchFailed, match="ended with status"):
        use("grep", "x")


@pytest.mark.parametrize("pattern", ["(a+)+", "(a*)*$", r"(\w+\s?)*x", "(?:a|b+){2,}", "((a{1,9})b)+", "(?P<n>x+)*?"])
def test_a_repeated_repetition_is_refused(use: Use, pattern: str) -> None:
    with pytest.raises(PatternRefused, match="repeats a repetition"):
        use("grep", pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)b+",
        r"\(a+\)+",
        "[(a+)]+",
        "(ab)+",
        "(a+)?",
        "(a{3}){2}",
        "(?:x)+y*?",
        "a++b",
        "(?#(a+)x+",
        "(a+){1}",
        "a{,}",
    ],
)
def test_a_harmless_pattern_is_not_refused(pattern: str) -> None:
    re.compile(pattern)
    assert not repeats_a_repetition(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "a" * 1001, r"\8"])
def test_a_pattern_that_is_none_is_refused(use: Use, pattern: str) -> None:
    with pytest.raises(PatternRefused):
        use("grep", pattern)


@pytest.mark.parametrize("pattern", ["", "a\0", "{a", "{a,b}" * 7, "a" * 1001])
def test_a_glob_that_is_none_is_refused(use: Use, pattern: str) -> None:
    with pytest.raises(PatternRefused):
        use("glob", pattern)


def test_a_glob_of_many_stars_takes_no_time() -> None:
    glob = glob_of("./" + "*a" * 100 + "*b")
    assert not glob.after(glob.start, "a" * 250)
    deep = glob_of("/".join(["**", "a"] * 100).removeprefix("/"))
    where = deep.start
    for _ in range(99):
        where = deep.after(where, "a")
    assert not deep.accepts(where)


names = st.text(alphabet="ab.-", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))


@given(pattern=st.text(alphabet="ab.-*?", min_size=1, max_size=8).filter(lambda p: p.strip(".")), name=names)
def test_a_pattern_of_one_name_means_what_fnmatch_says(pattern: str, name: str) -> None:
    glob = glob_of("./" + pattern)
    if "**" not in pattern:
        assert glob.accepts(glob.after(glob.start, name)) == fnmatch.fnmatchcase(name, pattern)
