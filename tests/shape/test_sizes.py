"""Modules and functions stay small enough to be read at once."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forkpoint"
MODULES = sorted(SOURCE.rglob("*.py"))

MODULE_LINES = 600
FUNCTION_LINES = 60

LONG = {"runtime/run.py": "the one handle on a run: each verb is a line or two, and users read it as a list"}
"""Modules over 400 lines, each with the reason."""


def name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_what_it_is_and_fits_its_budget(path: Path) -> None:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module begins with a docstring"
    assert text.count("\n") <= MODULE_LINES
    long = {
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= FUNCTION_LINES
    }
    assert long == set()


def test_a_long_module_has_a_reason() -> None:
    assert {name(path) for path in MODULES if path.read_text("utf-8").count("\n") > 400} == set(LONG)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_what_is_public_says_what_it_gives(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    silent: list[str] = []
    if path.parts[-2:] == ("testing", "workspace_contract.py") or path.parts[-3:-1] == ("testing", "journal"):
        return  # clauses of a contract: the name of each is the sentence it holds to
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            silent += [] if ast.get_docstring(node) else [node.name]
            silent += [f"{node.name}.{one.name}" for one in node.body if _is_silent(one)]
        elif _is_silent(node):
            silent.append(node.name)  # type: ignore[attr-defined]
    assert silent == []


def _is_silent(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return False
    overloaded = any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)
    overloaded |= any(isinstance(one, ast.Attribute) and one.attr == "setter" for one in node.decorator_list)
    bare = len(node.body) == 1 and isinstance(node.body[0], ast.Expr) and ast.unparse(node.body[0]) == "..."
    return not overloaded and not bare and ast.get_docstring(node) is None
