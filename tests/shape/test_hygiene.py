"""What stands in no file: ways to run what was stored, places of one machine, hosts that code would call."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forkpoint"
MODULES = sorted(SOURCE.rglob("*.py"))

NEVER_IMPORTED = {"dill", "jsonpickle", "marshal", "pickle", "shelve", "yaml"}
NEVER_CALLED = {"__import__", "compile", "eval", "exec", "execfile"}
LOOPBACK = {"127.0.0.1", "localhost", "[::1]"}

# Split, so that this file does not hold what it looks for.
MACHINE = re.compile(
    "|".join(("/wor" + "k/", "/ho" + r"me/\w", "/Use" + r"rs/\w", "/ro" + r"ot/", r"[A-Z]:\\Us" + "ers"))
)
HOST = re.compile(r"(?:https?|wss?|ftp)://([^/\s\"'{}:?)>]+)")
READ_ONLY_HOSTS = {"json-schema.org", "spdx.org"}
"""Hosts in names of formats, which nobody calls."""


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_nothing_that_was_stored_is_ever_run(path: Path) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=imported):
                found += [one.name for one in imported if one.name.split(".")[0] in NEVER_IMPORTED]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in NEVER_IMPORTED:
                found.append(module)
            case ast.Call(func=ast.Name(id=name)) if name in NEVER_CALLED:
                found.append(name)
    assert found == []


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_the_code_names_no_host_but_this_one(path: Path) -> None:
    hosts = set(HOST.findall(path.read_text("utf-8")))
    assert hosts - LOOPBACK - READ_ONLY_HOSTS == set()


def test_no_tracked_file_names_a_place_of_one_machine() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{relative(path)}: {match[0]}" for match in MACHINE.finditer(text)]
    assert found == []
