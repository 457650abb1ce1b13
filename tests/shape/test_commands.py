"""The two commands of README are the ones that are checked."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest"
MAIN = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/forkpoint demo"


def test_readme_gives_both_commands() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert MAIN in lines
    assert TESTS in lines


def test_the_checks_call_exactly_the_tests_line_of_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert TESTS in script.read_text("utf-8").splitlines()
    assert os.access(script, os.X_OK)
