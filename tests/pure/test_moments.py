"""Where a step, a turn or a call is in a history, and the state there.

Not tested here: finding the same moments in a journal without folding it (``runtime``).
"""

from typing import Any

import pytest

from forkpoint.commands import Interrupt, Pause, Send, Stop, Unpause
from forkpoint.effects import ModelCall
from forkpoint.errors import ForkAmbiguousCall, ForkBadPoint, ForkNoSuchPoint, ReplayNoHistory
from forkpoint.events import EffectDispatched, EffectRequested, EffectSettled
from forkpoint.ids import AtSeq, AtStep, AtTurn, BeforeCall
from forkpoint.messages import CallPart, Text, assistant
from forkpoint.outcomes import Succeeded
from forkpoint.timetravel.moments import replay, seq_of, state_at, step_settles, where_of
from given import Past, asks, dispatched, ends, fails, given, says, started, told, unknown

MORE = Send(parts=(Text(content="more"),))


def _told() -> Past:
    """1 started 2 input 3 asked 4 dispatched 5 answer(c1, c2) 6 7 requested 8 9 dispatched 10 11 ended 12 asked
    13 dispatched 14 answer 15 input 16 asked 17 dispatched 18 answer"""
    past = given(started("one"), asks("look", "mail"), dispatched(), ends("look", 1), ends("mail", 2))
    return past.after(says("two"), MORE, says("three"))


@pytest.mark.parametrize(
    ("where", "seq"),
    [
        (None, 18),
        (AtSeq(1), 1),
        (AtSeq(18), 18),
        (AtStep(0), 2),
        (AtStep(1), 11),
        (AtStep(2), 14),
        (AtStep(3), 18),
        (AtTurn(0), 1),
        (AtTurn(1), 14),
        (AtTurn(2), 18),
        (BeforeCall("c1"), 6),
        (BeforeCall("c2"), 7),
        (BeforeCall("7"), 7),
    ],
)
def test_each_moment_is_where_it_should_be(where: Any, seq: int) -> None:
    past = _told()
    assert seq_of(past.events, where) == seq
    assert state_at(past.events, where) == past.upto(seq).state


def test_a_moment_has_the_messages_up_to_it_and_the_calls_still_pending() -> None:
    events = _told().events
    assert [part.id for part in state_at(events, 5).pending] == ["c1", "c2"]
    assert [part.id for part in state_at(events, 10).pending] == ["c2"]
    assert state_at(events, step=1).pending == ()
    assert told(state_at(events, turn=1)) == ["one", "look(c1)", "mail(c2)", ("c1", 1), ("c2", 2), "two"]


def test_a_seed_comes_first_where_the_events_hold_no_input() -> None:
    reply = assistant("", CallPart(id="c1", name="look"))
    past = given(
        started(None),
        EffectRequested(effect=ModelCall(digest="")),
        EffectDispatched(effect=2, by="p"),
        EffectSettled(effect=2, outcome=Succeeded(message=reply)),
    )
    assert told(replay(past.events, seed="what if"))[:2] == ["what if", "look(c1)"]
    assert told(state_at(past.events, step=0, seed="what if")) == ["what if"]


@pytest.mark.parametrize(
    "missing", [AtSeq(0), AtSeq(19), AtSeq(1.5), AtStep(4), AtStep(-1), AtTurn(3), BeforeCall("c9"), BeforeCall("3")]
)  # type: ignore[arg-type]
def test_a_moment_that_does_not_exist_lists_those_that_do(missing: Any) -> None:
    with pytest.raises(ForkNoSuchPoint) as refused:
        state_at(_told().events, missing)
    assert refused.value.exist == "events 1 to 18, steps 0 to 3, turns 0 to 2"


def test_a_number_that_is_no_whole_one_is_no_moment() -> None:
    with pytest.raises(ForkNoSuchPoint):
        state_at(_told().events, 1.5)  # type: ignore[arg-type]


def test_every_step_and_turn_that_is_listed_exists() -> None:
    for past in (_told(), _told().after(MORE), given(started(None)), given(started(), dispatched())):
        steps, turns = past.state.step, past.state.turn - past.state.active
        for step in range(steps + 1):
            assert state_at(past.events, step=step).step == step
        for turn in range(turns + 1):
            assert state_at(past.events, turn=turn).turn == turn


def test_a_turn_that_is_going_on_has_no_end_yet() -> None:
    past = _told().after(MORE)
    with pytest.raises(ForkNoSuchPoint) as refused:
        state_at(past.events, turn=3)
    assert "turns 0 to 2" in str(refused.value)


def test_a_turn_whose_next_input_was_queued_ends_where_that_is_taken_up() -> None:
    past = given(started("one"), dispatched(), MORE, says("two"), says("three"))
    assert seq_of(past.events, AtTurn(1)) == 6
    assert seq_of(past.events, AtStep(1)) == 6


def test_the_last_step_of_a_run_at_rest_ends_where_it_came_to_rest() -> None:
    past = given(started(), says(), Pause(), Unpause())
    assert seq_of(past.events, AtStep(1)) == 5


def test_a_step_that_waits_or_was_called_off_ends_where_it_stands() -> None:
    waits = given(started(), asks("mail"), dispatched(), unknown("mail"))
    assert seq_of(waits.events, AtStep(1)) == len(waits.events)
    off = given(started(), asks("mail"), Interrupt(), MORE)
    assert seq_of(off.events, AtStep(1)) == len(off.events) - 1


def test_a_step_that_failed_is_no_step_and_the_one_before_it_can_be_forked() -> None:
    past = given(started(), asks("look"), dispatched(), ends("look"), dispatched(), fails(""))
    assert seq_of(past.events, AtStep(1)) == 8
    with pytest.raises(ForkNoSuchPoint):
        state_at(past.events, step=2)


def test_a_stopped_run_has_its_moments() -> None:
    past = given(started(), asks("look"), Stop())
    assert state_at(past.events, step=1).stopped


def test_a_call_id_that_names_two_calls_needs_the_effect() -> None:
    past = given(started(), asks("look"), dispatched(), ends("look"), asks("look"), dispatched())
    with pytest.raises(ForkAmbiguousCall) as refused:
        state_at(past.events, BeforeCall("c1"))
    assert refused.value.effects == "6, 12"
    assert seq_of(past.events, BeforeCall("12")) == 12


def test_moments_of_a_fork_count_on_from_its_parents() -> None:
    parent = given(started("one"), says("two"))
    child = parent.forked(input=(Text(content="three"),)).after(says("four"))
    assert state_at(child.events, step=1).run == "r"
    assert [told(state_at(child.events, step=step))[-1] for step in (1, 2)] == ["two", "four"]
    assert told(state_at(child.events, turn=1))[-1] == "two"


def test_a_list_with_a_gap_or_without_a_start_is_no_history() -> None:
    events = _told().events
    for broken, place in ((events[1:], 1), (events[:3] + events[4:], 4), ((), 1)):
        with pytest.raises(ReplayNoHistory) as refused:
            replay(broken)
        assert refused.value.place == place


def test_at_most_one_moment_is_meant() -> None:
    assert where_of(3, step=None, turn=None) == AtSeq(3)
    assert where_of(AtStep(1), step=None, turn=None) == AtStep(1)
    assert where_of(None, step=None, turn=2) == AtTurn(2)
    assert where_of(None, step=None, turn=None, before=7) == BeforeCall("7")
    assert where_of(None, step=None, turn=None) is None
    with pytest.raises(ForkBadPoint) as refused:
        where_of(3, step=1, turn=None)
    assert refused.value.given == "3, step:1"


def test_steps_are_found_by_the_answers_that_made_them() -> None:
    assert step_settles(_told().events) == [5, 14, 18]
