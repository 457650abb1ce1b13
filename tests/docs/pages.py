"""The pages of the project as data: blocks, tables, headings, links; and how to play a page as its reader would."""

import ast
import asyncio
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from forkpoint.cli.main import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
GENERATED = {DOCS / "command-line.md", DOCS / "errors.md"}
WRITTEN = [page for page in PAGES if page not in GENERATED]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# exits with (\d+)$")
_SHELL = re.compile(r"[|><&;$*]|^\w+=")


class Block(Struct, frozen=True):
    """A fenced block: its language, its text, and the line of the page that its text begins on."""

    language: str
    text: str
    line: int


class Typed(Struct, frozen=True):
    """One command of a console block: what is typed, the exit status it is to have, what is shown of its output."""

    command: str
    status: int
    shown: tuple[str, ...]


def name(page: Path) -> str:
    """The page as people name it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """The page's fenced blocks, in order; only those of ``languages`` if any are named."""
    text = page.read_text("utf-8")
    found = [Block(m[1], m[2], text[: m.start(2)].count("\n") + 1) for m in _FENCE.finditer(text)]
    return [block for block in found if not languages or block.language in languages]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of the page: those it sets, and those of its headings, as GitHub makes them."""
    text = prose(page)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)">', text))


def links(page: Path) -> list[str]:
    """Where the page's links lead, as written."""
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def section(page: Path, title: str) -> str:
    """What stands under a heading, up to the next one of its level or above; blocks included."""
    text = page.read_text("utf-8")
    start = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert start is not None, f"{name(page)} has no heading {title!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def tables(text: str) -> list[list[list[str]]]:
    """The Markdown tables in ``text``: rows of cells, the heading first, the ruler left out."""
    found: list[list[list[str]]] = []
    for lines in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines.splitlines()]
        rows = [[cell.strip("| ").strip() for cell in row] for row in rows]
        found.append([row for row in rows if not all(re.fullmatch(r"-*", cell) for cell in row)])
    return found


def plain(cell: str) -> str:
    """A cell's words, without the marks that make them code."""
    return " ".join(cell.replace("`", "").split())


def typed(block: Block) -> list[Typed]:
    """The commands of a console block."""
    found: list[Typed] = []
    for line in block.text.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            status = _EXIT.search(line)
            found.append(Typed(_EXIT.sub("", line[2:]), int(status[1]) if status else 0, ()))
        elif line.strip():
            last = found[-1]
            found[-1] = Typed(last.command, last.status, (*last.shown, line))
    return found


def missing(shown: tuple[str, ...], output: str) -> str | None:
    """The first line of ``shown`` that ``output`` does not have, in order; ``…`` stands for anything."""
    lines = iter(" ".join(line.split()) for line in output.splitlines())
    for wanted in shown:
        if wanted.strip() == "…":
            continue
        pattern = ".*".join(re.escape(part) for part in re.split(r"\s*…\s*", " ".join(wanted.split())))
        if not any(re.fullmatch(pattern, line) for line in lines):
            return wanted
    return None


class Player:
    """Plays one page from top to bottom in a folder of its own: one namespace, one event loop, one terminal."""

    def __init__(self, folder: Path, read: Callable[[], str]) -> None:
        self._folder = folder
        self._read = read
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._output = ""

    def play(self, page: Path) -> None:
        """Run every block that can be run. Fails at the first that does not do what the page says."""
        before = [*sys.path]
        with asyncio.Runner() as runner:
            try:
                for block in blocks(page):
                    self._play(block, f"{name(page)}:{block.line}", runner)
            finally:
                sys.path[:] = before
                for module in self._imported():
                    del sys.modules[module]

    def _imported(self) -> list[str]:
        """Modules that came from files the page made."""
        files = {key: getattr(module, "__file__", None) for key, module in sys.modules.items()}
        return [key for key, file in files.items() if file and Path(file).parent == self._folder]

    def _play(self, block: Block, place: str, runner: asyncio.Runner) -> None:
        match block.language:
            case "python":
                file = re.match(r"# (\w+\.py)\n", block.text)
                if file:
                    (self._folder / file[1]).write_text(block.text, "utf-8")
                else:
                    self._run(block, place, runner)
            case "output":
                line = missing(tuple(filter(str.strip, block.text.splitlines())), self._output)
                assert line is None, f"{place}: not printed: {line!r}\n{self._output}"
            case "console":
                for each in typed(block):
                    self._type(each, place)

    def _run(self, block: Block, place: str, runner: asyncio.Runner) -> None:
        code = compile(
            "\n" * (block.line - 1) + block.text,
            place,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        awaited = eval(code, self._names)
        if inspect.iscoroutine(awaited):
            runner.run(awaited)
        self._output = self._read()

    def _type(self, each: Typed, place: str) -> None:
        words = shlex.split(each.command)
        if words[0] == "forkpoint" and not _SHELL.search(each.command.split("'")[0]):
            status = main(words[1:])
            output = self._read()
        else:
            status, output = _in_shell(each.command, self._folder)
        assert status == each.status, f"{place}: {each.command}: exits with {status}\n{output}"
        line = missing(each.shown, output)
        assert line is None, f"{place}: {each.command}: not printed: {line!r}\n{output}"


def _in_shell(command: str, folder: Path) -> tuple[int, str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    status = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
    return status, ended.stdout + ended.stderr


def reached(start: Path) -> Iterator[Path]:
    """Every page that links lead to from ``start``, itself first."""
    seen, waiting = {start}, [start]
    while waiting:
        page = waiting.pop()
        yield page
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file() and target not in seen:
                seen.add(target)
                waiting.append(target)


def parameters(pages: list[Path], *languages: str) -> Any:
    """Pages as parameters of a test; only those with a block of ``languages``."""
    return pytest.mark.parametrize("page", [page for page in pages if blocks(page, *languages)], ids=name)
