"""One class a code; and code, page, raise sites and tests agree."""

import ast
import pickle
import re
from pathlib import Path

import pytest

from forkpoint import errors
from forkpoint.errors import KINDS, REGISTRY, ForkpointError
from forkpoint.errors.page import main, page

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forkpoint"
CODES = Path(__file__).with_name("codes.txt")

PLAIN = {
    ("__init__.py", "AttributeError"): "what Python asks of a module for a name that it does not have",
    ("_vector.py", "IndexError"): "what Python asks of a sequence",
    ("adapters/langgraph.py", "AttributeError"): "what Python asks of a module for a name that it does not have",
    ("adapters/plain_requests.py", "TypeError"): "what json asks of an encoding hook",
    ("adapters/plain_sending.py", "NotImplementedError"): "a method of the client's that its callers do not reach",
    ("adapters/openai_agents_marks.py", "AssertionError"): "nobody can come here: whoever asks performs it",
    ("agents/annotations.py", "NotImplementedError"): "caught beside it, where the parameter's name is known",
    ("agents/calling.py", "AttributeError"): "what Python asks of an object that cannot be changed",
    ("demo/payments.py", "LookupError"): "the demo's tool fails as a user's own tool would",
    ("errors/_base.py", "TypeError"): "a class of ours is declared wrongly; told when it is imported",
    ("folding.py", "ValueError"): "nobody can come here: a history begins with its first event",
    ("runtime/checkpoints.py", "AssertionError"): "nobody can come here: addresses are made beside",
    ("runtime/checkpoints.py", "NotImplementedError"): "what msgspec asks of an encoding hook",
    ("testing/crash.py", "AssertionError"): "a test has failed",
    ("testing/fakes.py", "AssertionError"): "a test has failed",
    ("testing/journal/given.py", "AssertionError"): "a test has failed",
    ("testing/workspace_contract.py", "NotImplementedError"): "whoever runs the contract implements it",
    ("workspace/disk.py", "OSError"): "translated where the others of the system are",
    ("workspace/live.py", "AssertionError"): "nobody can come here",
    ("workspace/tree.py", "ValueError"): "translated where the name of a tree comes in",
}
"""Where an exception of Python's own is raised, and why that is right."""

ORDINARY = {
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "Exception",
    "IndexError",
    "KeyError",
    "LookupError",
    "NotImplementedError",
    "OSError",
    "RuntimeError",
    "TypeError",
    "ValueError",
}


def sources() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }


def used(tree: ast.AST) -> set[str]:
    """Every name that a module uses for more than to import, to catch or to annotate."""
    caught = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        for one in ast.walk(node.type)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in caught:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                found.add(name)
    return found


def test_the_page_is_what_the_registry_says() -> None:
    there = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert there == page(), "docs/errors.md is stale: python -m forkpoint.errors.page"


def test_the_page_can_be_written_anywhere(tmp_path: Path) -> None:
    main(str(tmp_path / "errors.md"))
    assert (tmp_path / "errors.md").read_text("utf-8") == page()


@pytest.mark.parametrize("code", sorted(REGISTRY))
def test_a_code_is_a_noun_and_a_problem(code: str) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z]+(-[a-z]+)*", code)


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=lambda kind: kind.code)
def test_an_error_says_what_why_and_what_to_do(kind: type[ForkpointError]) -> None:
    fields = {name: f"<{name}>" for name in kind.__annotations__}
    error = kind(**fields)
    assert all(str(value) in str(error) for name, value in fields.items() if f"{{{name}" in kind.says)
    assert not str(error).endswith(".")
    assert "\n" not in str(error)
    for text in (kind.why, kind.fix):
        assert text.endswith(".")
        assert text[0].isupper() or text[0] in "'`"
    assert (error.exit_status, error.http_status) == KINDS[kind.kind]
    assert error.as_json()["values"] == fields
    assert kind.__name__ in dir(errors)


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=lambda kind: kind.code)
def test_an_error_survives_the_way_between_processes(kind: type[ForkpointError]) -> None:
    error = kind(**{name: f"<{name}>" for name in kind.__annotations__})
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.as_json()) == (kind, error.as_json())


def test_every_error_is_raised_somewhere() -> None:
    everywhere = set().union(*(used(tree) for name, tree in sources().items() if not name.startswith("errors/")))
    assert sorted(kind.__name__ for kind in REGISTRY.values() if kind.__name__ not in everywhere) == []


def test_every_error_has_a_test_that_triggers_it() -> None:
    mine = Path(__file__)
    tests = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py")) if path != mine)
    kinds = ROOT / "src" / "forkpoint" / "testing"
    tests += "\n".join(path.read_text("utf-8") for path in sorted(kinds.rglob("*.py")))
    lacking = [
        code
        for code, kind in sorted(REGISTRY.items())
        if not re.search(rf"\b{kind.__name__}\b", tests) and f'"{code}"' not in tests
    ]
    assert lacking == []


def test_the_list_of_codes_only_grows() -> None:
    """A code is never renamed and never used for anything else. A new one is added to the list, in its place."""
    stored = CODES.read_text("utf-8").split()
    assert stored == sorted(stored)
    assert sorted(set(stored) - set(REGISTRY)) == [], "a code is gone"
    assert sorted(set(REGISTRY) - set(stored)) == [], "a code is new: add it to tests/shape/codes.txt"


def test_what_is_refused_is_refused_with_a_code() -> None:
    found = set()
    for name, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and node.exc is not None:
                made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                if isinstance(made, ast.Name) and made.id in ORDINARY:
                    found.add((name, made.id))
    assert sorted(found - set(PLAIN)) == [], "refuse with a coded error, or say here why not"
    assert sorted(set(PLAIN) - found) == [], "stale"
