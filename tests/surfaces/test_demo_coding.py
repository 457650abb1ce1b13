"""The coding story is played once for real, and everything it tells is looked at from outside.

Not tested here: how it looks on a terminal, and how long it takes.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forkpoint.demo.programmer import TESTS, next_message
from forkpoint.demo.project import make_project
from forkpoint.messages import Message, answer, user

DEMO = [sys.executable, "-m", "forkpoint", "demo", "coding"]


class Played:
    """A story that was played to its end, and the folder that it left."""

    def __init__(self, folder: Path) -> None:
        ended = subprocess.run([*DEMO, "--json", "--folder", str(folder)], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        self.folder = folder
        self.account: dict[str, Any] = json.loads(ended.stdout)

    def type(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Paste a line into a shell, after the line that leads there."""
        line = f"{self.account['enter']} && {command}"
        return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)

    def scene(self, word: str) -> dict[str, Any]:
        """The first scene whose command has ``word`` in it."""
        return next(scene for scene in self.account["scenes"] if f" {word}" in scene["command"])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("demo") / "kept here")


def passes(folder: Path) -> bool:
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_the_project_begins_with_a_failing_test(tmp_path: Path) -> None:
    assert not passes(make_project(tmp_path))


def test_the_project_ends_as_it_was_after_the_first_turn_but_for_the_note(played: Played) -> None:
    project = played.folder / "project"
    there = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert there == {"pricing.py", "test_pricing.py", "tools/report.py", "notes.md", "data/rates.csv"}
    assert passes(project)
    assert "ask Ada" in (project / "notes.md").read_text()
    modes = {name: (project / name).stat().st_mode & 0o777 for name in ("test_pricing.py", "tools/report.py")}
    assert modes == {"test_pricing.py": 0o644, "tools/report.py": 0o755}


def test_the_fork_has_files_of_its_own_and_does_better(played: Played) -> None:
    other = played.folder / "project-b"
    assert passes(other)
    assert "@cache" in (other / "pricing.py").read_text()
    assert "ask Ada" not in (other / "notes.md").read_text()


def test_the_dry_run_named_what_the_rewind_did(played: Played) -> None:
    dry, real = (scene for scene in played.account["scenes"] if " rewind " in scene["command"])
    assert "--dry-run" in dry["command"] and "--dry-run" not in real["command"]
    named = [line for line in real["output"].splitlines() if line[:2] in ("+ ", "- ", "~ ", "· ")]
    assert len(named) == 9
    assert "· kept     notes.md  changed by somebody else, not by this run" in named
    assert all(line in dry["output"].splitlines() for line in named)
    assert "-    return cents * (1 - percent / 100)" in dry["output"]


def test_the_comparison_names_the_files(played: Played) -> None:
    said = played.scene("compare")["output"]
    assert "files that differ: 2" in said and "~ modified pricing.py" in said


def test_every_scene_was_checked_and_names_its_command(played: Played) -> None:
    scenes = played.account["scenes"]
    assert all(scene["checked"] and scene["command"] for scene in scenes)
    told = [scene["command"].split()[1] for scene in scenes if "forkpoint " in scene["command"]]
    assert told == ["start", "show", "send", "files", "rewind", "rewind", "fork", "compare"]


def test_what_it_suggests_in_the_end_works(played: Played) -> None:
    for command in played.account["more"]:
        ended = played.type(command)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"


# ── the programmer ───────────────────────────────────────────────────────────────────────────────────────────────


def said_after(*messages: Message) -> Message:
    return next_message(messages)


def test_the_programmer_goes_by_what_the_tools_answer() -> None:
    asked = user("Make the tests pass.")
    look = said_after(asked)
    assert [call.name for call in look.calls] == ["list_dir"]
    tests = said_after(asked, look, answer(look.calls[0].id, "pricing.py"))
    assert tests.calls[0].arguments == {"command": TESTS}
    seen = (asked, look, answer(look.calls[0].id, "pricing.py"), tests)
    passing = said_after(*seen, answer(tests.calls[0].id, {"exit_status": 0, "output": ""}))
    assert passing.text == "The tests pass." and not passing.calls
    failing = said_after(*seen, answer(tests.calls[0].id, {"exit_status": 1, "output": "FAILED (failures=2)"}))
    assert failing.text == "2 tests failed." and failing.calls[0].name == "read_file"
    read = answer(failing.calls[0].id, "return 0")
    stuck = said_after(*seen, answer(tests.calls[0].id, {"exit_status": 1}), failing, read)
    assert stuck.text == "The tests fail, and I do not see why."
