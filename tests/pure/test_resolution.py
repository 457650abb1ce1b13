"""Unknown outcomes: how they come to be, who may decide about them, and what the model is told of it.

Not tested here: grace periods and threads that end late (``runtime``).
"""

from typing import Any

import pytest

from forkpoint.commands import Advance, Found, Interrupt, Late, Recover, Resolve, Send, Settle
from forkpoint.definition import Compaction
from forkpoint.errors import EffectAlreadyResolved, EffectNotUnknown
from forkpoint.events import EffectDispatched, EffectResolved
from forkpoint.messages import Text
from forkpoint.outcomes import Failed, Outcome, Succeeded, Unknown
from given import Past, asks, dispatched, ends, given, says, started, told, unknown

MEANS = {"occurred": "did take effect", "not_occurred": "did not take effect", "abandoned_unknown": "Nobody knows"}


def _in_doubt(how: str = "reported") -> Past:
    past = given(started(), asks("mail"), dispatched())
    return past.after(Recover() if how == "lost" else unknown("mail", how))


def _resolve(past: Past, verdict: Any = "occurred", **more: Any) -> Resolve:
    (effect,) = (wait.effect for wait in past.state.waits)
    return Resolve(effect=effect, verdict=verdict, **more)


@pytest.mark.parametrize("how", ["lost", "timeout", "connection", "cancelled", "reported"])
@pytest.mark.parametrize("verdict", ["occurred", "not_occurred", "abandoned_unknown"])
def test_an_unknown_outcome_waits_for_one_decision_however_it_came_about(how: str, verdict: Any) -> None:
    past = _in_doubt(how)
    assert past.state.status == "waiting"
    assert past.when(Advance(by="p")) == ()
    past = past.after(_resolve(past, verdict, note="I looked", actor="ann"))
    assert past.state.waits == ()
    answer, note = told(past.state)[2:]
    assert answer[0] == "c1" and MEANS[verdict] in answer[1]["meaning"]
    assert note == f"[note] The outcome of mail (effect 6) was unknown; ann found: {verdict}. Their note: I looked"


@pytest.mark.parametrize("verdict", ["occurred", "not_occurred", "abandoned_unknown"])
def test_what_was_decided_about_is_never_dispatched_again(verdict: Any) -> None:
    past = _in_doubt()
    past = past.after(_resolve(past, verdict), Recover())
    assert not any(isinstance(event, EffectDispatched) and event.effect == 6 for event in past.when(Advance(by="p")))


def test_a_verified_output_is_the_answer_that_the_model_sees() -> None:
    past = _in_doubt()
    past = past.after(_resolve(past, outcome=Succeeded(value={"id": 7})))
    assert told(past.state)[2] == ("c1", {"id": 7})


def test_only_what_occurred_has_an_output() -> None:
    past = _in_doubt()
    (event,) = past.when(_resolve(past, "not_occurred", outcome=Succeeded(value="sent")))
    assert isinstance(event, EffectResolved) and event.outcome is None


def test_the_same_decision_twice_is_one() -> None:
    past = _in_doubt()
    decision = _resolve(past, outcome=Succeeded(value=1))
    past = past.after(decision)
    assert past.when(decision) == ()
    assert past.when(Resolve(effect=6, verdict="occurred")) == ()
    assert past.after(says()).when(decision) == ()


@pytest.mark.parametrize(
    ("first", "second", "decided", "asked"),
    [
        (("occurred", None), ("not_occurred", None), "occurred", "not_occurred"),
        (("abandoned_unknown", None), ("occurred", None), "abandoned_unknown", "occurred"),
        (("occurred", 1), ("occurred", 2), "occurred (it succeeded with 1)", "occurred (it succeeded with 2)"),
    ],
)
def test_a_second_decision_that_differs_is_refused_naming_both(
    first: Any, second: Any, decided: str, asked: str
) -> None:
    past = _in_doubt()

    def decision(verdict: Any, output: Any) -> Resolve:
        return Resolve(effect=6, verdict=verdict, outcome=None if output is None else Succeeded(value=output))

    past = past.after(decision(*first))
    with pytest.raises(EffectAlreadyResolved) as refused:
        past.when(decision(*second))
    assert (refused.value.decided, refused.value.asked) == (decided, asked)


def test_what_is_not_in_doubt_cannot_be_resolved() -> None:
    past = given(started(), asks("mail", "look"), dispatched(), ends("look"))
    for effect in (past.effect("mail").seq, past.effect("look").seq, 1, 99):
        with pytest.raises(EffectNotUnknown):
            past.when(Resolve(effect=effect, verdict="occurred"))


def test_with_several_unknowns_the_run_waits_for_the_last() -> None:
    past = given(started(), asks("mail", "mail", "look"), dispatched(), Recover(), dispatched(), ends("look"))
    first, second = (wait.effect for wait in past.state.waits)
    past = past.after(Resolve(effect=second, verdict="occurred"))
    assert (past.state.status, past.when(Advance(by="p"))) == ("waiting", ())
    past = past.after(Resolve(effect=first, verdict="not_occurred"))
    assert past.state.status == "running"
    past = past.after(says())
    assert [one for one in told(past.state) if str(one).startswith("[note]")] == [
        f"[note] The outcome of mail (effect {second}) was unknown; a person found: occurred.",
        f"[note] The outcome of mail (effect {first}) was unknown; a person found: not_occurred.",
    ]


def test_a_person_may_decide_where_a_probe_does_not_answer() -> None:
    past = given(started(), asks("book"), dispatched(), Recover())
    past = past.after(Resolve(effect=past.effect("book").seq, verdict="occurred"))
    assert past.when(Found(effect=past.effect("book").seq, finding="not_occurred")) == ()
    assert past.effect("book").phase == "settled"


def test_a_decision_stays_word_for_word_after_a_compaction_and_after_the_next() -> None:
    past = given(
        started(compaction=Compaction(after_tokens=50, keep_steps=1)), asks("mail"), dispatched(), unknown("mail")
    )
    said = "The outcome of mail (effect 6) was unknown; ann found: not_occurred. Their note: the box is empty"
    past = past.after(Resolve(effect=6, verdict="not_occurred", note="the box is empty", actor="ann"))
    past = past.after(asks("look", tokens=60), dispatched(), ends("look"))
    for _ in range(2):
        past = past.after(says("in short"), asks("look", tokens=60), dispatched(), ends("look"))
        summary = past.state.messages[0].text
        assert summary.startswith("Summary") and said in summary


# ── late results ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("outcome", [Succeeded(value="sent"), Failed(error="MailError", text="refused")])
def test_a_late_result_settles_an_open_unknown_as_occurred(outcome: Any) -> None:
    past = _in_doubt("timeout").after(Late(effect=6, outcome=outcome))
    (event,) = (one.event for one in past.events[-1:])
    assert isinstance(event, EffectResolved)
    assert (event.finding, event.source) == ("occurred", "late")
    assert past.state.waits == ()
    assert told(past.state)[2][1] in ("sent", {"error": "MailError", "message": "refused"})
    assert past.when(Late(effect=6, outcome=outcome)) == ()


def test_a_late_result_that_comes_before_the_probe_answers_settles_it() -> None:
    past = given(started(), asks("book"), dispatched(), unknown("book"))
    assert past.effect("book").phase == "probe"
    past = past.after(Late(effect=6, outcome=Succeeded(value="seat 3")))
    assert told(past.state)[2] == ("c1", "seat 3")


def test_a_late_result_that_comes_before_the_next_attempt_saves_it() -> None:
    past = given(started(), asks("charge"), dispatched(), unknown("charge"))
    assert past.effect("charge").phase == "retry"
    assert past.when(Late(effect=6, outcome=Failed(error="E"))) == ()
    assert told(past.after(Late(effect=6, outcome=Succeeded(value=9))).state)[2] == ("c1", 9)


def test_a_late_result_of_what_is_in_flight_again_or_was_never_in_doubt_is_not_needed() -> None:
    late = Late(effect=6, outcome=Succeeded(value=9))
    again = given(started(), asks("charge"), dispatched(), unknown("charge")).after(
        Recover(), dispatched(later_ms=9999)
    )
    assert again.effect("charge").phase == "dispatched"
    assert again.when(late) == ()
    assert given(started(), asks("look"), dispatched(), unknown("look")).when(late) == ()


def _decided(verdict: Any, outcome: Any = None) -> Past:
    return _in_doubt("timeout").after(Resolve(effect=6, verdict=verdict, outcome=outcome, actor="ann"))


@pytest.mark.parametrize(
    ("verdict", "known", "late", "contradicts"),
    [
        ("occurred", None, Succeeded(value=1), False),
        ("occurred", None, Failed(error="E", happened=True), False),
        ("occurred", None, Failed(error="E"), True),
        ("occurred", Succeeded(value=1), Succeeded(value=2), True),
        ("not_occurred", None, Failed(error="E"), False),
        ("not_occurred", None, Failed(error="E", happened=True), True),
        ("not_occurred", None, Succeeded(value=1), True),
        ("abandoned_unknown", None, Succeeded(value=1), True),
        ("abandoned_unknown", None, Failed(error="E"), True),
    ],
)
def test_a_late_result_after_a_decision_agrees_or_contradicts(
    verdict: Any, known: Any, late: Any, contradicts: bool
) -> None:
    past = _decided(verdict, known)
    (event,) = past.when(Late(effect=6, outcome=late))
    assert isinstance(event, EffectResolved) and event.contradicts is contradicts
    past = past.after(Late(effect=6, outcome=late))
    assert past.when(Late(effect=6, outcome=late)) == ()
    assert [wait.kind for wait in past.state.waits] == (["contradiction"] if contradicts else [])


def test_a_contradiction_is_waited_for_noted_and_ended_by_a_decision() -> None:
    past = _decided("not_occurred").after(Late(effect=6, outcome=Succeeded(value="sent")))
    assert past.state.status == "waiting"
    assert past.when(Advance(by="p")) == ()
    said = 'mail (effect 6) was decided as not_occurred, but a late result says that it succeeded with "sent".'
    assert told(past.state)[-1] == f"[note] {said}"
    past = past.after(Resolve(effect=6, verdict="occurred", actor="bob"))
    assert past.state.status == "running"
    assert "bob found: occurred" in told(past.state)[-1]
    with pytest.raises(EffectAlreadyResolved):
        past.when(Resolve(effect=6, verdict="not_occurred"))


def test_a_contradiction_makes_a_resting_run_wait_and_input_queues_behind_it() -> None:
    past = _decided("not_occurred").after(says("ok"))
    assert past.state.status == "idle"
    past = past.after(Late(effect=6, outcome=Succeeded(value="sent")))
    assert past.state.status == "waiting"
    past = past.after(Send(parts=(Text(content="next"),)))
    assert past.when(Advance(by="p")) == ()
    past = past.after(Resolve(effect=6, verdict="occurred"))
    assert [type(event).__name__ for event in past.when(Advance(by="p"))] == ["EffectRequested", "EffectDispatched"]


def test_a_result_that_comes_when_its_call_was_answered_is_a_note_and_never_a_second_answer() -> None:
    past = _decided("occurred").after(says("ok"), Late(effect=6, outcome=Succeeded(value={"id": 7})))
    past = past.after(Send(parts=(Text(content="next"),)), says("so"))
    answers = [one for one in told(past.state) if isinstance(one, tuple)]
    assert len(answers) == 1
    note = 'The outcome of mail (effect 6) was unknown; a late result found: occurred. It succeeded with {"id":7}.'
    assert f"[note] {note}" in told(past.state)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Failed(error="E", text="bad"), "failed with E: bad"),
        (Failed(error="E"), "failed with E"),
        (Succeeded(value="x" * 600), "characters)"),
    ],
)
def test_how_a_call_ended_is_told_in_few_words(outcome: Any, words: str) -> None:
    from forkpoint.answers import ending

    assert words in ending(outcome) and len(ending(outcome)) < 600


def test_a_result_that_stands_aside_is_not_told_as_if_it_were_empty() -> None:
    from forkpoint._word import Ref
    from forkpoint.answers import ending

    assert "too large" in ending(Succeeded(aside={"value": Ref(digest="sha256:0", size=9000)}))


# ── interrupts ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_interrupted_call_that_nobody_vouches_for_waits_and_new_input_queues() -> None:
    past = given(started(), asks("mail"), dispatched(), Interrupt())
    past = past.after(Settle(effect=6, attempt=1, outcome=Unknown(because="cancelled"), doubtful=True))
    past = past.after(Send(parts=(Text(content="next"),)))
    assert (past.state.status, len(past.state.queue), past.state.turn) == ("waiting", 1, 1)
    past = past.after(Resolve(effect=6, verdict="abandoned_unknown"))
    assert (past.state.status, past.state.turn) == ("running", 2)


@pytest.mark.parametrize("outcome", [Succeeded(value="sent"), Failed(error="E", text="no")])
def test_a_call_that_ends_when_signalled_reports_how(outcome: Outcome) -> None:
    past = given(started(), asks("mail"), dispatched(), Interrupt(), Settle(effect=6, attempt=1, outcome=outcome))
    assert past.state.status == "idle"
    assert told(past.state)[2][1] in ("sent", {"error": "E", "message": "no"})
