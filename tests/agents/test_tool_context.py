"""What a tool learns of its call, and how it changes the application's state."""

import threading

import pytest

from forkpoint.agents.calling import OutcomeUnknown, ToolContext
from forkpoint.errors import ValueNotJson


def test_a_context_cannot_be_changed() -> None:
    ctx = ToolContext(run_id="r", effect_id=3, attempt=2)
    with pytest.raises(AttributeError):
        ctx.attempt = 1
    with pytest.raises(AttributeError):
        del ctx.run_id
    with pytest.raises(AttributeError):
        ctx.note = "x"  # type: ignore[attr-defined]
    assert (ctx.run_id, ctx.effect_id, ctx.attempt) == ("r", 3, 2)
    assert repr(ctx) == "ToolContext(run_id='r', effect_id=3, attempt=2)"


def test_state_is_read_as_a_copy_and_written_as_changes() -> None:
    stored = {"cart": [1], "user": "ann", "old": 1}
    ctx = ToolContext(state=stored)
    ctx.state["cart"].append(2)
    with pytest.raises(TypeError):
        ctx.state["user"] = "bob"  # type: ignore[index]
    assert stored == {"cart": [1], "user": "ann", "old": 1}
    assert ctx.changes == ({}, ())

    ctx.set_state(cart=(1, 2), fresh={3})
    ctx.unset_state("old", "never")
    assert ctx.state == {"user": "ann", "cart": [1, 2], "fresh": [3]}
    ctx.state["cart"].append(3)
    assert ctx.changes == ({"cart": [1, 2], "fresh": [3]}, ("old", "never"))

    ctx.set_state(old=5)
    ctx.unset_state("fresh")
    assert ctx.changes == ({"cart": [1, 2], "old": 5}, ("fresh", "never"))


def test_state_that_is_no_json_sets_nothing() -> None:
    ctx = ToolContext(state={"a": 1})
    with pytest.raises(ValueNotJson):
        ctx.set_state(a=2, b=object())
    assert ctx.changes == ({}, ())


def test_progress_goes_to_whoever_listens() -> None:
    heard: list[str] = []
    ToolContext(report=heard.append).progress("half")
    ToolContext().progress("nobody")
    assert heard == ["half"]


def test_cancelling_is_seen_from_a_thread() -> None:
    stop = threading.Event()
    ctx = ToolContext(is_cancelled=stop.is_set)
    seen: list[bool] = [ctx.cancelled, ToolContext().cancelled]
    stop.set()
    worker = threading.Thread(target=lambda: seen.append(ctx.cancelled))
    worker.start()
    worker.join()
    assert seen == [False, False, True]


def test_doubt_carries_its_words() -> None:
    assert OutcomeUnknown("the gateway hung up").text == "the gateway hung up"
    assert str(OutcomeUnknown()) == ""
