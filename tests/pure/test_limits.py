"""Limits pause a run before the model is asked again, say which one it was, and count anew once it goes on.

Not tested here: timeouts of tools, which are no limits of a run (``runtime``).
"""

from typing import Any

import pytest

from forkpoint.commands import Advance, Pause, Send, Unpause
from forkpoint.definition import Limits
from forkpoint.events import RunPaused
from forkpoint.messages import Text
from given import asks, dispatched, ends, fails, given, says, started


def _one_step(**limits: Any) -> Any:
    return given(started(limits=Limits(**limits)), asks("look"), dispatched(), ends("look"))


@pytest.mark.parametrize(
    ("limits", "later_ms", "name"),
    [
        ({"steps": 1}, 0, "1 steps"),
        ({"tokens": 10}, 0, "10 tokens"),
        ({"cost": 0.5}, 0, "cost of 0.5"),
        ({"seconds": 1}, 1000, "1 seconds"),
        ({"seconds": 0.5}, 500, "0.5 seconds"),
        ({"steps": 2}, 0, None),
        ({"tokens": 11}, 0, None),
        ({"cost": 0.51}, 0, None),
        ({"seconds": 1}, 999, None),
        ({}, 10**9, None),
    ],
)
def test_a_limit_that_is_reached_pauses_the_run_and_says_which(limits: Any, later_ms: int, name: str | None) -> None:
    events = _one_step(**limits).when(Advance(by="p"), later_ms=later_ms)
    if name is None:
        assert [type(event).__name__ for event in events] == ["EffectRequested", "EffectDispatched"]
    else:
        assert events == (RunPaused(reason=f"the limit was reached: {name}", limit=name),)


def test_a_limit_never_stops_calls_that_the_model_has_asked_for() -> None:
    past = given(started(limits=Limits(steps=1)), asks("look"))
    assert [type(event).__name__ for event in past.when(Advance(by="p"))] == ["EffectDispatched"]


def test_a_limit_counts_anew_once_the_run_goes_on() -> None:
    past = _one_step(steps=1).after(Advance(by="p"), Unpause())
    past = past.after(asks("look"), dispatched(), ends("look"), Advance(by="p"))
    assert past.state.status == "paused"
    assert past.state.step == 2


def test_a_run_goes_on_under_new_limits() -> None:
    past = _one_step(steps=1).after(Advance(by="p"), Unpause(limits=Limits(steps=5)))
    for _ in range(5):
        past = past.after(asks("look"), dispatched(), ends("look"))
    assert past.after(Advance(by="p")).state.status == "paused"


def test_a_persons_pause_or_a_failed_turn_gives_no_new_allowance() -> None:
    """Otherwise pausing and going on would be a way around every limit."""
    paused = given(started(limits=Limits(steps=2)), asks("look"), Pause(), Unpause(), dispatched(), ends("look"))
    paused = paused.after(asks("look"), dispatched(), ends("look"))
    assert paused.after(Advance(by="p")).state.status == "paused"
    failed = given(started(limits=Limits(tokens=20)), asks("look"), dispatched(), ends("look"), dispatched(), fails(""))
    failed = failed.after(Unpause(), asks("look"), dispatched(), ends("look"))
    assert failed.after(Advance(by="p")).state.status == "paused"


def test_seconds_count_from_the_turns_start_and_the_others_over_the_whole_run() -> None:
    past = given(started(limits=Limits(seconds=10)), says())
    past = past.after(Send(parts=(Text(content="more"),)), later_ms=60_000)
    assert [type(event).__name__ for event in past.when(Advance(by="p"))] == ["EffectRequested", "EffectDispatched"]
    past = given(started(limits=Limits(steps=1)), says(), Send(parts=(Text(content="more"),)))
    assert past.after(Advance(by="p")).state.status == "paused"


def test_input_to_a_paused_run_waits_until_it_goes_on() -> None:
    past = _one_step(steps=1).after(Advance(by="p"), Send(parts=(Text(content="more"),)))
    assert (past.state.status, len(past.state.queue)) == ("paused", 1)


def test_calls_whose_cost_nobody_knows_are_counted_and_not_guessed() -> None:
    past = given(started(), dispatched(), fails("", transient=True), dispatched(later_ms=500))
    assert past.state.spent.cost_unknown == 1
    past = past.after(says())
    assert (past.state.spent.cost, past.state.spent.cost_unknown, past.state.spent.usage.total) == (0.5, 1, 10)
