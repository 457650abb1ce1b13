"""Whatever a run holds is text on its way out: no escape code is obeyed, no markup taken, in any command."""

import json

import pytest
from surfaces_shop import NASTY
from surfaces_typed import Typed


@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["show", "bad"],
        ["show", "bad", "--step", "1"],
        ["show", "bad", "--full"],
        ["show", "bad", "--events"],
        ["request", "bad@step:2"],
        ["waits"],
        ["tree"],
        ["watch", "bad", "--after", "0", "--no-follow"],
        ["compare", "bad", "bad@step:1"],
        ["compare", "bad", "bad@step:1", "bad@step:0"],
    ],
)
def test_escape_codes_of_a_run_reach_no_terminal(typed: Typed, words: list[str]) -> None:
    typed("start", "shop", f"nasty {NASTY}", "--id", "bad", "--label", f"why={NASTY}")
    for more in ([], ["--json"]):
        ended = typed(*words, *more)
        assert ended.status == 0, ended.err
        for code in ("\x1b", "\x07", "\u202e", "\x9b"):
            assert code not in ended.out
    assert typed(*words).status == 0


def test_markup_in_a_run_is_shown_as_it_is(typed: Typed) -> None:
    typed("start", "shop", "nasty", "--id", "bad")
    assert "[bold]markup[/bold]" in typed("show", "bad").out
    step = typed("show", "bad", "--step", "1", "--json").document
    assert step["text"] == NASTY, "JSON says exactly what the run holds"


def test_an_error_says_what_was_typed_as_text(typed: Typed) -> None:
    ended = typed("show", "no\x1b[31msuch", "--store", "here.db")
    assert ended.status == 2 and "\x1b" not in ended.err
    assert json.loads(typed("show", "x", "--store", "a\x1bb", "--json").err)["values"]["path"] == "a\x1bb"
