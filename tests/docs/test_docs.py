"""What the pages say is so: their blocks run, their links lead somewhere, their tables are the code's own."""

import importlib.util
import inspect
import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.docs.pages import (
    DOCS,
    PAGES,
    ROOT,
    WRITTEN,
    Player,
    anchors,
    blocks,
    links,
    name,
    parameters,
    plain,
    prose,
    reached,
    section,
    tables,
)
from typer.main import get_command

import forkpoint
import forkpoint.recover
import forkpoint.values
from forkpoint.cli.app import app
from forkpoint.errors import REGISTRY

INDEX = DOCS / "index.md"
RUN = ("python", "console")
LANGUAGES = {*RUN, "output", "json", "toml", "sh", "text"}


@parameters(WRITTEN, *RUN)
def test_every_block_of_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("FORKPOINT_STORE", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def read() -> str:
        said = capsys.readouterr()
        return said.out + said.err

    Player(tmp_path, read).play(page)


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert page.read_text("utf-8").count("```") == 2 * len(blocks(page))


@parameters(WRITTEN, "json", "toml")
def test_data_in_the_page_can_be_read(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block.text)
    for block in blocks(page, "toml"):
        tomllib.loads(block.text)


@parameters(WRITTEN, "sh")
def test_what_a_shell_is_told_names_files_that_are_there(page: Path) -> None:
    for block in blocks(page, "sh"):
        named = re.findall(r"(?<![\w./])(?:tests|bench|docs|src|\.ci)(?:/[\w.-]+)*(?![\w./])", block.text)
        assert [path for path in named if not (ROOT / path).exists()] == []
        modules = re.findall(r"python -m ([\w.]+)", block.text)
        assert [module for module in modules if importlib.util.find_spec(module) is None] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    astray = []
    for link in links(page):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            astray.append(link)
    assert astray == []


def test_every_page_is_reached_from_the_index() -> None:
    assert {name(page) for page in PAGES} - {name(page) for page in reached(INDEX)} == set()


def test_every_command_is_reached_from_the_index() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    headings = {anchor for page in reached(INDEX) if page.name == "command-line.md" for anchor in anchors(page)}
    assert set(commands) - headings == set()


def test_the_index_says_of_every_exported_name_where_it_is_told() -> None:
    listed = {word for row in tables(section(INDEX, "Names"))[0][1:] for word in re.findall(r"`(\w+)`", row[0])}
    assert listed == set(forkpoint.__all__) - {"__version__"}


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_every_error_that_is_named_exists(page: Path) -> None:
    families = {code.partition(".")[0] for code in REGISTRY}
    unknown = []
    for word in re.findall(r"`([a-z]+\.[a-z-]+)`", prose(page)):
        family, _, rest = word.partition(".")
        is_attribute = hasattr(forkpoint.Run, rest.replace("-", "_")) if family == "run" else "_" in word
        if family in families and word not in REGISTRY and not is_attribute:
            unknown.append(word)
    assert unknown == []


# ── tables that the code has too ─────────────────────────────────────────────────────────────────────────────────


def of_docstring(text: str) -> list[list[str]]:
    """The rows of the table in ``recover``'s docstring, which is ruled with ``=``."""
    widths = [len(column) for column in re.search(r"^=+(?: +=+)+$", text, re.MULTILINE)[0].split()]  # type: ignore[index]
    body = re.split(r"^=[= ]+$\n?", text, flags=re.MULTILINE)
    rows = []
    for line in (body[1] + body[2]).splitlines():
        cells, rest = [], line
        for width in widths:
            cells.append(plain(rest[: width + 2]))
            rest = rest[width + 2 :]
        rows.append(cells)
    return rows


def test_every_table_of_recovery_is_the_one_in_the_code() -> None:
    head, *rows = of_docstring(inspect.getdoc(forkpoint.recover) or "")
    seen = 0
    for page in PAGES:
        for table in tables(prose(page)):
            titles = [plain(cell) for cell in table[0]]
            if titles[0] != head[0] or head[1] not in titles:
                continue
            seen += 1
            columns = [titles.index(title) for title in head]
            assert [[plain(row[column]) for column in columns] for row in table[1:]] == rows, name(page)
    assert seen, "no page has the table"


def test_what_can_be_stored_is_told_as_the_code_tells_it() -> None:
    ours = [[plain(cell) for cell in row] for row in tables(inspect.getdoc(forkpoint.values) or "")[0]]
    theirs = [[plain(cell) for cell in row] for row in tables(section(DOCS / "tools.md", "What can be stored"))[0]]
    assert theirs == ours


def test_what_readme_shows_of_the_demo_is_what_the_demo_tells() -> None:
    told = (ROOT / "src" / "forkpoint" / "demo" / "story.py").read_text("utf-8")
    shown = blocks(ROOT / "README.md", "text")[1].text.splitlines()
    claims = [line.split(" ", 1)[1] for line in map(str.strip, shown) if re.match(r"✓ |\d+\. ", line)]
    assert len(claims) > 5
    assert [claim for claim in claims if f'"{claim}"' not in told] == []


# ── the architecture ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_tree_in_architecture_has_every_module_and_no_other() -> None:
    tree = next(block.text for block in blocks(ROOT / "ARCHITECTURE.md", "text") if block.text.startswith("src/"))
    told = {name.rstrip("/") for line in tree.splitlines()[1:] for name in re.split(r" {2,}", line.strip())[0].split()}
    there = {path.stem for path in (ROOT / "src" / "forkpoint").iterdir() if (path / "__init__.py").is_file()}
    there |= {path.stem for path in (ROOT / "src" / "forkpoint").glob("*.py")} - {"__init__", "__main__"}
    assert told == there


def test_every_adapter_stands_in_the_table_of_architecture() -> None:
    rows = tables(section(ROOT / "ARCHITECTURE.md", "The adapters"))[0][1:]
    told = [pattern for row in rows for pattern in re.findall(r"`([\w.*]+)`", row[0])]
    files = [path.name for path in (ROOT / "src" / "forkpoint" / "adapters").glob("*.py") if path.stem != "__init__"]
    assert [file for file in files if not any(fnmatch(file, pattern) for pattern in told)] == []
    assert [pattern for pattern in told if not any(fnmatch(file, pattern) for file in files)] == []


def test_the_layers_in_architecture_are_those_that_are_checked() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = [layer.replace("(", "").replace(")", "") for layer in contract["layers"]]
    assert "\n".join(layers) + "\n" in [block.text for block in blocks(ROOT / "ARCHITECTURE.md", "text")]
