"""Calling a turn off, holding a run still, ending it for good; and going on after a pause or a failure."""

from typing import Any

import pytest

from forkpoint.commands import Advance, Found, Interrupt, Late, Pause, Recover, Resolve, Send, Stop, Unpause
from forkpoint.messages import CallPart, Text, assistant
from forkpoint.outcomes import Cancelled, Succeeded, Unknown
from given import (
    asks,
    decides,
    dispatched,
    ends,
    fails,
    given,
    says,
    settled,
    started,
    told,
    unknown,
)

MORE = Send(parts=(Text(content="more"),))


# ── interrupt ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_interrupt_cancels_what_was_not_tried_and_withdraws_what_was_asked() -> None:
    past = given(started(), asks("mail", "wire", "ask"), Interrupt(reason="no"))
    assert past.state.status == "idle"
    assert [answer["message"] for _, answer in told(past.state)[4:]] == [
        "cancelled before it ran",
        "interrupted: the question was withdrawn",
        "interrupted: the question was withdrawn",
    ]


def test_an_allowed_call_that_was_not_tried_yet_is_cancelled() -> None:
    past = given(started(), asks("wire"), decides("wire"), Interrupt())
    assert told(past.state)[2][1] == {"error": "cancelled", "message": "cancelled before it ran"}


def test_what_was_finished_stays_and_what_is_in_flight_ends_first() -> None:
    past = given(started(), asks("look", "mail"), dispatched(), ends("look", 1), Interrupt())
    assert (past.state.status, past.when(Advance(by="p"))) == ("running", ())
    past = past.after(ends("mail", "sent"))
    assert past.state.status == "idle"
    assert told(past.state)[3:] == [("c1", 1), ("c2", "sent")]


def test_the_next_turn_is_shown_finished_calls_closed_ones_and_then_its_input() -> None:
    past = given(started(), asks("look", "mail"), Interrupt(), MORE, says("ok"))
    assert [str(one)[:40] for one in told(past.state)][4:] == [
        "('c2', {'error': 'cancelled', 'message':"[:40],
        "more",
        "ok",
    ]


def test_a_model_that_is_interrupted_while_it_speaks_is_told_how_far_it_came() -> None:
    past = given(started(), dispatched(), Interrupt())
    past = past.after(settled(past, "", Cancelled(reason="cancelled", partial=assistant("The answer is"))))
    assert past.state.status == "idle"
    past = past.after(MORE, says("42"))
    assert told(past.state) == ["hello", "[note] Your answer was interrupted after: The answer is", "more", "42"]


def test_a_model_that_answers_all_the_same_has_its_answer_kept_and_its_calls_not_made() -> None:
    past = given(started(), dispatched(), Interrupt())
    text = past.after(settled(past, "", Succeeded(message=assistant("done"))))
    assert (text.state.status, text.state.output) == ("idle", "done")
    calls = past.after(settled(past, "", Succeeded(message=assistant("", CallPart(id="c1", name="mail")))))
    assert (calls.state.status, [slot.effect for slot in calls.state.batch]) == ("idle", [-1])
    assert told(calls.after(MORE, says()).state)[2] == (
        "c1",
        {"error": "unknown", "message": "cancelled before it ran"},
    )


def test_a_model_call_that_waits_for_its_next_attempt_is_dropped() -> None:
    past = given(started(), dispatched(), fails("", transient=True), Interrupt())
    assert (past.state.effects, past.state.status) == ({}, "idle")


def test_a_lost_model_call_of_an_interrupted_turn_is_not_asked_again() -> None:
    past = given(started(), dispatched(), Interrupt(), Recover())
    assert (past.state.effects, past.state.status) == ({}, "idle")


@pytest.mark.parametrize(
    ("moves", "phase"),
    [
        ((asks("charge"), dispatched(), fails("charge", "BusyError", transient=True)), "settled"),
        ((asks("charge"), dispatched(), fails("charge", "ConnectionError", doubtful=True)), "unknown"),
        ((asks("charge"), dispatched(), Recover()), "unknown"),
        ((asks("look"), dispatched(), Recover()), "settled"),
    ],
)
def test_an_attempt_that_was_to_follow_is_called_off_and_what_is_known_stays(moves: Any, phase: str) -> None:
    past = given(started(), *moves)
    name = "look" if "look" in {one.name for one in past.state.effects.values()} else "charge"
    assert past.effect(name).phase == "retry"
    off = past.after(Interrupt())
    assert off.effect(name).phase == phase
    assert off.state.status == ("idle" if phase == "settled" else "waiting")


def test_what_a_probe_found_undone_is_known_not_to_have_happened() -> None:
    past = given(started(), asks("book"), dispatched(), Recover())
    past = past.after(Found(effect=past.effect("book").seq, finding="not_occurred"), Interrupt())
    assert isinstance(past.effect("book").outcome, Cancelled)
    assert past.state.status == "idle"


def test_a_probe_still_decides_in_an_interrupted_turn() -> None:
    past = given(started(), asks("book"), dispatched(), Interrupt(), Recover())
    assert (past.effect("book").phase, past.state.status) == ("probe", "running")
    past = past.after(Found(effect=past.effect("book").seq, finding="unknown"))
    assert past.state.status == "waiting"
    assert past.after(Resolve(effect=past.effect("book").seq, verdict="occurred")).state.status == "idle"


def test_a_summary_that_is_interrupted_is_not_told_as_an_answer() -> None:
    from forkpoint.definition import Compaction

    past = given(started(compaction=Compaction(after_tokens=50, keep_steps=1)))
    past = past.after(
        asks("look", tokens=10), dispatched(), ends("look"), asks("look", tokens=60), dispatched(), ends("look")
    )
    past = past.after(Advance(by="p"), Interrupt())
    past = past.after(settled(past, "", Cancelled(reason="cancelled", partial=assistant("so far"))))
    assert past.state.notes == () and past.state.status == "idle"


@pytest.mark.parametrize("moves", [(says(),), (asks("mail"), dispatched(), Interrupt()), (dispatched(), fails(""))])
def test_there_is_nothing_to_interrupt_in_a_run_at_rest_or_twice(moves: Any) -> None:
    assert given(started(), *moves).when(Interrupt()) == ()


def test_queued_input_begins_its_turn_when_the_interrupted_one_has_ended() -> None:
    past = given(started(), dispatched(), MORE, Interrupt())
    past = past.after(settled(past, "", Cancelled(reason="cancelled")))
    assert (past.state.turn, past.state.status) == (2, "running")


# ── pause ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_paused_run_begins_nothing_and_records_what_ends() -> None:
    past = given(started(), asks("look", "mail"), dispatched(), Pause(reason="lunch", actor="ann"))
    assert (past.state.status, past.state.paused.reason) == ("paused", "lunch")  # type: ignore[union-attr]
    past = past.after(ends("look"), unknown("mail"))
    assert past.when(Advance(by="p")) == ()
    assert [wait.kind for wait in past.state.waits] == ["unknown"]
    past = past.after(Resolve(effect=past.effect("mail").seq, verdict="occurred"))
    assert past.state.status == "paused"
    assert past.after(Unpause()).state.status == "running"


def test_pausing_twice_or_continuing_what_goes_on_changes_nothing() -> None:
    past = given(started())
    assert past.when(Unpause()) == ()
    assert past.after(Pause()).when(Pause()) == ()


def test_calls_of_a_model_that_answers_while_paused_wait_untried() -> None:
    past = given(started(), dispatched(), Pause(), asks("mail"))
    assert past.effect("mail").phase == "requested"
    assert past.when(Advance(by="p")) == ()


def test_a_pause_is_lifted_before_a_failed_turn_is_tried_again() -> None:
    past = given(started(), dispatched(), fails(""), Pause(), Unpause())
    assert past.state.status == "failed"
    assert past.after(Unpause()).state.status == "running"


# ── failure ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_turn_keeps_what_waits_behind_it_and_is_tried_again_on_request() -> None:
    past = given(started(), dispatched(), MORE, fails("", "AuthError", "no key"))
    assert (past.state.status, past.state.failure.error) == ("failed", "AuthError")  # type: ignore[union-attr]
    assert past.when(Advance(by="p")) == ()
    again = past.after(Unpause(), says("one"))
    assert (again.state.turn, again.state.status) == (2, "running")
    assert told(again.after(says("two")).state) == ["hello", "one", "more", "two"]


def test_new_input_begins_the_next_turn_of_a_failed_run() -> None:
    past = given(started(), dispatched(), fails(""), MORE)
    assert (past.state.status, past.state.turn, past.state.failure) == ("running", 2, None)
    assert told(past.after(says()).state) == ["hello", "more", "done"]


def test_a_model_that_is_said_to_be_unknown_fails_the_turn() -> None:
    """No release writes this; a journal that holds it is still read."""
    from forkpoint.events import EffectSettled

    past = given(started(), dispatched(), EffectSettled(effect=3, outcome=Unknown(because="lost", text="gone")))
    assert past.state.status == "failed"


# ── stop ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stopping_is_final_and_said_once() -> None:
    past = given(started(), asks("mail"), Stop(reason="enough"))
    assert (past.state.status, past.when(Stop()), past.when(Advance(by="p"))) == ("stopped", (), ())


def test_a_stopped_run_still_takes_what_is_found_out_about_it() -> None:
    past = given(started(), asks("mail", "mail"), dispatched(), Stop(), Recover())
    first, second = (wait.effect for wait in past.state.waits)
    past = past.after(Late(effect=first, outcome=Succeeded(value="sent")), Resolve(effect=second, verdict="occurred"))
    assert (past.state.waits, past.state.status) == ((), "stopped")


def test_a_stopped_run_tries_nothing_again() -> None:
    past = given(started(), asks("charge"), dispatched(), Stop(), Recover())
    assert past.effect("charge").phase == "unknown"
