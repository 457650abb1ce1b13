"""A function's run at the command line: what its code asked for is told, decided, forked and compared."""

import asyncio
from pathlib import Path

import pytest
from surfaces_loop import collect
from surfaces_typed import Typed

import forkpoint as fp
from forkpoint.errors import RunWaits

APP = ("--app", "surfaces_loop:functions")


@pytest.fixture(autouse=True)
def _recorded(tmp_path: Path, _elsewhere: None) -> None:
    Path(".forkpoint").mkdir()

    async def record() -> None:
        async with fp.connect(".forkpoint/runs.db") as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("inv", collect, "17")

    asyncio.run(record())


def test_what_the_code_asked_for_is_told_in_its_place(typed: Typed) -> None:
    shown = typed("show", "inv").out
    lines = [line.strip() for line in shown.splitlines() if "(" in line and "→" in line]
    assert [line.split("(")[0].split()[-1] for line in lines] == ["invoice", "total"]
    assert "forkpoint approve inv 9" in shown
    (turn,) = typed("show", "inv", "--json").document["turns"]
    assert [(call["tool"], call["status"]) for call in turn["calls"]] == [
        ("invoice", "succeeded"),
        ("total", "succeeded"),
        ("charge", "needs approval"),
    ]


def test_a_decision_is_acted_on_by_whoever_has_the_function(typed: Typed) -> None:
    typed("approve", "inv", "9")
    assert typed("recover", *APP, "--json").document["runs"] == [{"run": "inv", "status": "idle"}]
    shown = typed("show", "inv").out
    assert "charged 1000" in shown
    assert "the function returned charged 1000" in shown


def test_a_process_without_the_function_says_so(typed: Typed) -> None:
    typed("approve", "inv", "9")
    ended = typed("resume", "inv")
    assert ended.status == 2
    assert "function.missing" in ended.err


def test_a_fork_with_another_outcome_is_compared_by_what_the_code_asked(typed: Typed) -> None:
    ended = typed("fork", "inv", "--result", '3={"due": 0}', "--effects", "live", "--json")
    assert ended.document["changes"] == ["another result for effect 3"]
    typed("resume", "inv.fork-1", *APP)
    compared = typed("compare", "inv", "inv.fork-1").out
    assert "total, asked by the function's own code" in compared
    assert "nothing due" in compared


def test_a_fork_with_other_arguments_is_called_with_them(typed: Typed) -> None:
    typed("fork", "inv", "--arguments", '["18"]', "--effects", "live", "--resume", *APP)
    shown = typed("show", "inv.fork-1").out
    assert 'invoice(number="18")' in shown
    assert "arguments: 18" in shown


def test_a_function_takes_no_further_input(typed: Typed) -> None:
    ended = typed("send", "inv", "hello")
    assert (ended.status, "input.not-taken" in ended.err) == (2, True)


def test_the_functions_of_an_app_are_listed(typed: Typed) -> None:
    assert "collect  a function" in typed("doctor", *APP).out
