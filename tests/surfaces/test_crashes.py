"""What the command line says when the fault is ours."""

from typing import Any

import pytest

from forkpoint.cli.main import main
from forkpoint.errors import KINDS, CommandCrashed


def test_a_fault_of_ours_is_told_as_one_and_asks_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    """No input is known to do this; a list that no shell could give stands in for the fault."""
    typed: list[Any] = ["runs", 5]
    assert main(typed) == KINDS[CommandCrashed.kind][0]
    told = capsys.readouterr()
    assert told.out == ""
    assert "cli.crashed" in told.err
    assert "report" in told.err
