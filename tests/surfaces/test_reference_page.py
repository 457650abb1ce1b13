"""The page about the command line is made from the commands, and every command says what it does."""

from pathlib import Path

import pytest
from typer.main import get_command

from forkpoint.cli.app import app
from forkpoint.cli.main import main
from forkpoint.cli.reference import reference

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def test_the_page_is_fresh() -> None:
    page = Path(__file__).parents[2] / "docs" / "command-line.md"
    assert page.read_text("utf-8") == reference(), "run python -m forkpoint.cli.reference"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_says_what_it_does(name: str) -> None:
    command = COMMANDS[name]
    assert command.help and command.help.strip().split("\n")[0].endswith((".", ","))
    for parameter in command.params:
        assert parameter.help, f"{name} {parameter.name}"
    assert "as_json" in {parameter.name for parameter in command.params}, "every command has --json"


def test_help_and_version_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in COMMANDS)
    assert main(["show", "-h"]) == 0
    assert "RUN[@AT]" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("forkpoint 0")
