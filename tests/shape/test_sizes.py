"""Modules and functions stay small enough to be read at once."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forkpoint"
MODULES = sorted(SOURCE.rglob("*.py"))

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MODULE_LINES = 600
FUNCTION_LINES = 60

LONG = {
    "folding.py": "one arm for each kind of event, in one match",
    "runtime/performer.py": "the loop, and what becomes of each effect in flight when the loop has to end",
    "runtime/runtime.py": "the one handle on a store, likewise",
    "runtime/run.py": "the one handle on a run: each verb is a line or two, and users read it as a list",
}
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
    lines = {name(path): path.read_text("utf-8").count("\n") for path in MODULES}
    assert [one for one, count in lines.items() if count > 400 and one not in LONG] == []
    assert [one for one in LONG if lines.get(one, 0) < 350] == [], "the reason is stale"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_what_is_public_says_what_it_gives(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    silent: list[str] = []
    if path.parts[-2:] == ("testing", "workspace_contract.py") or path.parts[-3:-1] == ("testing", "journal"):
        return  # clauses of a contract: the name of each is the sentence it holds to
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = [(kind, one) for kind in classes for one in kind.body if isinstance(one, FUNCTIONS)]
    # What a protocol beside it says of a method need not be said again by what keeps to it.
    told = {one.name for _, one in methods if ast.get_docstring(one)}
    silent += [kind.name for kind in classes if not kind.name.startswith("_") and not ast.get_docstring(kind)]
    silent += [f"{kind.name}.{one.name}" for kind, one in methods if kind.name[0] != "_" and _is_silent(one, told)]
    silent += [node.name for node in tree.body if isinstance(node, FUNCTIONS) and _is_silent(node, set())]
    assert silent == []


def _is_silent(node: ast.FunctionDef | ast.AsyncFunctionDef, told: set[str]) -> bool:
    if node.name.startswith("_") or node.name in told or ast.get_docstring(node):
        return False
    marks = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
    bare = len(node.body) == 1 and ast.unparse(node.body[0]) == "..."
    return not bare and not marks & {"overload", "setter"}
