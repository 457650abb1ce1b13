"""What a fork begins with: its parent's state at the fork point, its patch, and what was open there put right.

Not tested here: names, lineage and what a fork costs (``runtime``), and recorded answers (``runtime``).
"""

from typing import Any

import pytest

from forkpoint.advance import idempotency_key
from forkpoint.commands import Advance, Decide, Found, Interrupt, Pause, Recover, Resolve, Send, Stop, Unpause
from forkpoint.definition import Limits
from forkpoint.effects import ModelCall
from forkpoint.errors import ApprovalDecidedAlready
from forkpoint.events import EffectDispatched, Keep, Put, ResultPatch
from forkpoint.folding import fold
from forkpoint.messages import CallPart, Message, ResponsePart, Text, answer, assistant, user
from forkpoint.outcomes import Cancelled
from forkpoint.timetravel.patches import Delete, Insert, Replace, as_edits, edited
from forkpoint.transcript import first_problem, known_messages, loose
from given import (
    Past,
    asks,
    decides,
    dispatched,
    ends,
    fails,
    given,
    says,
    started,
    told,
    unknown,
)


def _edits(past: Past, *edits: Any) -> Any:
    state = past.state
    known = known_messages(state)
    return as_edits(known, edited(known, edits), loose=loose(state))


def _dispatches(past: Past) -> list[str]:
    events = past.when(Advance(by="p"))
    return [
        past.state.effects[one.effect].name
        for one in events
        if isinstance(one, EffectDispatched) and one.effect in past.state.effects
    ]


# ── the patch, part by part ──────────────────────────────────────────────────────────────────────────────────


def test_a_plain_fork_of_a_finished_run_is_idle_and_calls_nothing() -> None:
    child = given(started(), says("hi")).forked()
    assert child.state.status == "idle"
    assert child.when(Advance(by="p")) == ()
    assert child.state.lineage is not None
    assert (child.state.lineage.parent, child.state.lineage.at) == ("r", 5)


def test_messages_are_replaced_deleted_and_inserted_where_they_stand() -> None:
    past = given(started("one"), says("two"), Send(parts=(Text(content="three"),)), says("four"))
    child = past.forked(edits=_edits(past, Replace(1, assistant("zwei")), Delete(2), Insert(3, user("drei"))))
    assert told(child.state) == ["one", "zwei", "drei", "four"]
    assert past.state.messages[1].text == "two"


def test_parts_that_no_edit_touches_stay_byte_for_byte() -> None:
    past = given(started("one"), asks("look"), dispatched(), ends("look", {"deep": [1, {"x": None}]}), says("two"))
    child = past.forked(edits=_edits(past, Replace(0, user("eins"))))
    assert child.state.messages[1:] == past.state.messages[1:]


def test_the_applications_state_is_set_cleared_or_left_alone() -> None:
    past = given(started(), asks("mail"), dispatched(), ends("mail", set={"n": 1}))
    assert past.forked().state.app == {"n": 1}
    assert past.forked(state={"n": 2}).state.app == {"n": 2}
    assert past.forked(state=None).state.app is None


@pytest.mark.parametrize("told_already", [False, True])
def test_a_result_is_replaced_in_place_and_its_call_keeps_id_and_position(told_already: bool) -> None:
    past = given(started(), asks("look", "mail"), dispatched(), ends("look", 1), ends("mail", 2))
    look = past.effect("look").seq
    past = past.after(says("so")) if told_already else past
    child = past.forked(tool_results=(ResultPatch(effect=look, call="c1", value={"due": 0}),))
    want = ["hello", "look(c1)", "mail(c2)", ("c1", {"due": 0}), ("c2", 2)]
    assert told(child.state) == want + (["so"] if told_already else [])
    assert child.when(Advance(by="p")) == () or not _dispatches(child)


def test_an_error_can_be_injected_and_taken_away() -> None:
    past = given(started(), asks("look"), dispatched(), fails("look", text="down"))
    look = past.effect("look").seq
    broken = past.forked(tool_results=(ResultPatch(effect=look, call="c1", error="gone"),))
    assert told(broken.state)[-1] == ("c1", {"error": "Error", "message": "gone"})
    mended = past.forked(tool_results=(ResultPatch(effect=look, call="c1", value="up"),))
    assert told(mended.state)[-1] == ("c1", "up")
    silent = past.forked(tool_results=(ResultPatch(effect=look, call="c1", error=""),))
    assert silent.effect("look").outcome is not None and not hasattr(silent.effect("look").outcome, "value")


@pytest.mark.parametrize("tool", ["mail", "charge", "look", "book", "wire", "ask"])
def test_a_result_for_a_call_that_has_none_stands_for_it_and_the_tool_does_not_run(tool: str) -> None:
    past = given(started(), asks(tool), dispatched())
    patch = ResultPatch(effect=past.effect(tool).seq, call="c1", value="as told")
    child = past.forked(tool_results=(patch,), input=(Text(content="and then?"),))
    assert _dispatches(child) == []
    assert told(child.after(says()).state) == ["hello", f"{tool}(c1)", ("c1", "as told"), "done", "and then?"]


def test_a_call_that_never_became_an_effect_takes_a_result_by_its_id() -> None:
    past = given(started(), asks("mail", "look", planned=False))
    child = past.forked(tool_results=(ResultPatch(effect=0, call="c2", value=9),))
    assert [slot.answer is not None for slot in child.state.batch] == [False, True]
    off = given(started(), dispatched(), Interrupt(), asks("mail", planned=False))
    assert off.state.batch[0].effect == -1
    child = off.forked(tool_results=(ResultPatch(effect=0, call="c1", value=9),))
    assert told(child.state)[-1] == ("c1", 9)


def test_an_answer_that_an_edit_put_in_takes_another_result() -> None:
    past = given(started(), says())
    put = (user("q"), assistant("", CallPart(id="x", name="look")), answer("x", 1), assistant("so 1"))
    edits = tuple(Put(message=message) for message in put)
    child = past.forked(edits=edits, tool_results=(ResultPatch(effect=0, call="x", value=2),))
    assert told(child.state) == ["q", "look(x)", ("x", 2), "so 1"]


def test_the_agent_is_another_from_here_on() -> None:
    past = given(started(), says())
    from given import agent

    other = agent(attempts=7)
    child = past.forked(agent=other, changed=("settings",))
    assert child.state.agent == other
    assert child.state.overridden == {"settings"}
    assert child.state.agent_digest != past.state.agent_digest


def test_all_parts_together_apply_in_order_and_the_input_comes_last() -> None:
    past = given(started("one"), asks("look"), dispatched(), ends("look", 1))
    look = past.effect("look").seq
    child = past.forked(
        edits=_edits(past, Replace(0, user("eins"))),
        state={"k": 1},
        tool_results=(ResultPatch(effect=look, call="c1", value=2),),
        input=(Text(content="last"),),
    )
    assert look not in child.state.effects
    assert told(child.after(says("so")).state) == ["eins", "look(c1)", ("c1", 2), "so", "last"]
    assert child.state.app == {"k": 1}


def test_an_input_begins_the_next_turn_at_once_if_the_run_rests_and_queues_if_not() -> None:
    rests = given(started(), says()).forked(input=(Text(content="more"),))
    assert (rests.state.turn, rests.state.status, told(rests.state)[-1]) == (2, "running", "more")
    busy = given(started(), asks("mail")).forked(input=(Text(content="more"),))
    assert (busy.state.turn, len(busy.state.queue)) == (1, 1)
    failed = given(started(), dispatched(), fails("")).forked(input=(Text(content="more"),))
    assert (failed.state.turn, failed.state.status) == (2, "running")


def test_a_run_without_input_takes_its_title_from_the_forks() -> None:
    child = given(started(None)).forked(input=(Text(content="first words"),))
    assert (child.state.title, child.state.turn) == ("first words", 1)


# ── edits and what is open ───────────────────────────────────────────────────────────────────────────────────


def test_taking_back_the_models_last_word_makes_it_speak_again() -> None:
    past = given(started("one"), says("two"))
    child = past.forked(edits=_edits(past, Delete(1)))
    assert (child.state.status, child.state.turn) == ("running", 1)
    assert told(child.after(says("zwei")).state) == ["one", "zwei"]


def test_giving_the_model_the_last_word_ends_the_turn() -> None:
    past = given(started("one"), asks("look"), dispatched(), ends("look"))
    child = past.forked(edits=_edits(past, Delete(1), Replace(2, assistant("never mind"))))
    assert (child.state.status, child.state.output) == ("idle", "never mind")
    assert told(child.state) == ["one", "never mind"]


def test_an_edit_mends_a_failed_turn() -> None:
    past = given(started("one"), dispatched(), fails(""))
    assert past.state.status == "failed"
    child = past.forked(edits=_edits(past, Replace(0, user("eins"))))
    assert child.state.status == "running"


def test_a_call_whose_answer_an_edit_takes_away_is_open_again_as_a_new_effect() -> None:
    past = given(started(), asks("look", "mail"), dispatched(), ends("look"))
    look, mail = past.effect("look").seq, past.effect("mail").seq
    child = past.forked(edits=_edits(past, Delete(2)))
    assert [slot.effect for slot in child.state.batch] == [0, mail]
    assert look not in child.state.effects and child.effect("mail").phase == "held"


def test_an_edit_elsewhere_leaves_open_calls_as_they_are() -> None:
    past = given(started(), asks("look", "mail", "wire"), dispatched(), ends("look"))
    child = past.forked(edits=_edits(past, Replace(0, user("hi"))))
    assert told(child.state)[:2] == ["hi", "look(c1)"]
    assert [slot.effect for slot in child.state.batch][1:] == [past.effect("mail").seq, past.effect("wire").seq]
    assert child.state.batch[0].answer is not None


def test_an_effect_whose_call_was_removed_is_gone() -> None:
    past = given(started(), asks("mail"), dispatched(), unknown("mail"))
    child = past.forked(edits=_edits(past, Delete(1)))
    assert (child.state.effects, child.state.doubts, child.state.waits) == ({}, {}, ())


def test_calls_that_an_edit_puts_in_are_planned_like_any_other() -> None:
    past = given(started(), says())
    put = assistant("", CallPart(id="x", name="look"), CallPart(id="y", name="mail"))
    child = past.forked(edits=(Keep(start=0, stop=1), Put(message=put), Put(message=answer("y", 5))))
    assert [(slot.effect, slot.answer is not None) for slot in child.state.batch] == [(0, False), (0, True)]
    from forkpoint.status import due

    assert due(child.state, 0).plan


@pytest.mark.parametrize(
    "tail",
    [
        (answer("z", 1),),
        (answer("x", 1), answer("x", 1)),
        (answer("y", 1), answer("x", 1)),
        (answer("x", 1), answer("y", 1), answer("z", 1)),
    ],
)
def test_an_answer_that_no_call_awaits_is_kept_so_that_the_fork_is_refused(tail: tuple[Message, ...]) -> None:
    past = given(started(), says())
    put = assistant("", CallPart(id="x", name="look"), CallPart(id="y", name="mail"))
    child = past.forked(edits=tuple(Put(message=message) for message in (user("q"), put, *tail)))
    assert first_problem(child.state.messages) is not None


def test_words_of_this_release_are_written_out_when_an_edit_keeps_them() -> None:
    """A later release may word an error otherwise; what this fork was shown must not change with it."""
    past = given(started(), asks("look", "mail"), dispatched(), fails("look"), ends("mail"))
    edits = _edits(past, Replace(0, user("hi")))
    assert [type(edit).__name__ for edit in edits] == ["Put", "Keep", "Put", "Keep"]
    child = past.forked(edits=edits)
    assert all(entry.seq for entry in child.state.transcript.entries)


def test_one_message_with_several_answers_is_told_as_one_each() -> None:
    both = Message(role="tool", parts=(ResponsePart(id="x", response=1), ResponsePart(id="y", response=2)))
    calls = assistant("", CallPart(id="x", name="look"), CallPart(id="y", name="mail"))
    assert edited([], lambda known: [user("q"), calls, both])[2:] == [answer("x", 1), answer("y", 2)]


# ── what the parent left open ────────────────────────────────────────────────────────────────────────────────


def test_an_open_model_call_is_dropped_and_the_child_asks_anew() -> None:
    past = given(started(), dispatched())
    child = past.forked()
    assert child.state.effects == {}
    assert isinstance(child.after(Advance(by="p")).effect("").effect, ModelCall)


# phase in the parent -> what becomes of it: for pending = hold, run, skip
LEFT = [
    ("mail", "requested", "mail", "mail", "mail"),
    ("charge", "requested", "charge", "charge", "charge"),
    ("look", "requested", "look", "look", "look"),
    ("book", "requested", "book", "book", "book"),
    ("wire", "requested", "asked", "asked", "asked"),
    ("ask", "requested", "question", "question", "question"),
    ("mail", "dispatched", "held", "mail", "left open"),
    ("charge", "dispatched", "held", "charge", "left open"),
    ("look", "dispatched", "look", "look", "look"),
    ("book", "dispatched", "probe", "book", "left open"),
    ("mail", "lost", "unknown", "mail", "left open"),
    ("charge", "lost", "held", "charge", "left open"),
    ("look", "lost", "look", "look", "look"),
    ("book", "lost", "probe", "book", "left open"),
    ("book", "undone", "probe", "book", "left open"),
    ("book", "unknown", "unknown", "book", "left open"),
]


def _left(tool: str, phase: str) -> Past:
    past = given(started(), asks(tool))
    if phase == "requested":
        return past
    past = past.after(dispatched())
    past = past.after(Recover()) if phase != "dispatched" else past
    finding: Any = {"undone": "not_occurred", "unknown": "unknown"}.get(phase)
    return past.after(Found(effect=past.effect(tool).seq, finding=finding)) if finding else past


def _fate(child: Past, tool: str) -> str:
    opened = child.effect(tool)
    if opened.phase == "settled":
        return "left open" if isinstance(opened.outcome, Cancelled) else "settled"
    if opened.phase != "requested":
        return opened.phase
    if opened.gate == "asked":
        return "asked"
    return "question" if opened.external else ",".join(_dispatches(child))


@pytest.mark.parametrize(("tool", "phase", "hold", "run", "skip"), LEFT)
def test_a_call_left_open_is_performed_only_if_that_is_safe_or_asked_for(
    tool: str, phase: str, hold: str, run: str, skip: str
) -> None:
    past = _left(tool, phase)
    assert _fate(past.forked(), tool) == hold
    assert _fate(past.forked(pending="run"), tool) == run
    assert _fate(past.forked(pending="skip"), tool) == skip


def test_what_is_held_says_so_and_takes_a_decision() -> None:
    child = given(started(), asks("mail"), dispatched()).forked()
    (wait,) = child.state.waits
    assert (wait.kind, wait.name) == ("inherited", "mail")
    assert told(child.state)[-1] == (
        "c1",
        {"error": "unknown", "message": "left open in the parent run; it was not performed here"},
    )
    child = child.after(Resolve(effect=wait.effect, verdict="not_occurred", actor="ann"))
    assert child.state.waits == ()
    assert _dispatches(child) == []


def test_a_call_is_performed_in_the_child_under_the_childs_key() -> None:
    past = given(started(), asks("look"), dispatched())
    child = past.forked(run="other").after(dispatched())
    assert child.effect("look").key == idempotency_key("other", child.effect("look").seq) != past.effect("look").key
    assert child.effect("look").attempt == 1


def test_a_probe_for_a_call_that_a_parent_made_gets_the_parents_key() -> None:
    past = given(started(), asks("book"), dispatched())
    child = past.forked(run="c1").forked(run="c2")
    assert child.effect("book").owner == ("r", past.effect("book").seq)
    assert child.effect("book").key == past.effect("book").key


def test_a_fork_of_a_fork_inside_their_shared_past_knows_whose_call_it_was() -> None:
    past = given(started(), asks("book"), dispatched())
    at = len(past.events)
    middle = past.after(ends("book"), says()).forked(run="c1")
    child = middle.forked(at, run="c2")
    assert child.effect("book").owner == ("r", past.effect("book").seq)


def test_a_probe_that_finds_a_parents_call_undone_leaves_it_to_a_person() -> None:
    child = given(started(), asks("book"), dispatched()).forked()
    child = child.after(Found(effect=child.effect("book").seq, finding="not_occurred"))
    assert [wait.kind for wait in child.state.waits] == ["inherited"]
    assert _dispatches(child) == []


def test_a_parents_spent_budget_or_called_off_turn_decides_nothing_about_its_call_here() -> None:
    past = given(started(), asks("book"))
    for _ in range(3):
        past = past.after(dispatched(), Recover())
        if past.effect("book").attempt < 3:
            past = past.after(Found(effect=past.effect("book").seq, finding="not_occurred"))
    for child in (past.forked(), past.forked().after(Interrupt())):
        found = child.after(Found(effect=child.effect("book").seq, finding="not_occurred"))
        assert [wait.kind for wait in found.state.waits] == ["inherited"]


def test_a_probe_that_finds_a_parents_call_done_settles_it() -> None:
    from forkpoint.outcomes import Succeeded

    child = given(started(), asks("book"), dispatched()).forked()
    child = child.after(Found(effect=child.effect("book").seq, finding="occurred", outcome=Succeeded(value="seat 3")))
    assert told(child.state)[2] == ("c1", "seat 3")


@pytest.mark.parametrize("moves", [(), (decides("wire"),), (decides("wire"), dispatched())])
def test_an_approval_is_asked_again_in_the_child(moves: Any) -> None:
    past = given(started(), asks("wire"), *moves)
    child = past.forked(pending="run")
    (wait,) = child.state.waits
    assert (wait.kind, wait.digest) == ("approval", past.effect("wire").digest)
    assert _dispatches(child) == []
    assert _dispatches(child.after(decides("wire"))) == ["wire"]


def test_a_question_forked_before_it_was_put_is_still_bound_to_its_arguments() -> None:
    past = given(started(), asks("wire"))
    wire = past.effect("wire")
    child = past.forked(wire.seq)
    assert child.effect("wire").digest == wire.digest != ""


def test_a_denial_in_the_parent_can_be_a_yes_in_the_child() -> None:
    past = given(started(), asks("wire"), decides("wire", "denied"))
    child = past.forked(len(past.events) - 1).after(decides("wire"))
    assert _dispatches(child) == ["wire"]
    with pytest.raises(ApprovalDecidedAlready):
        past.when(Decide(effect=past.effect("wire").seq, decision="allowed", digest=past.effect("wire").digest))


def test_arguments_that_a_person_edited_in_the_parent_are_the_models_again() -> None:
    past = given(started(), asks("wire"), decides("wire", "edited", arguments={"of": "other"}))
    assert past.effect("wire").holder.arguments == {"of": "other"}  # type: ignore[union-attr]
    assert past.forked().effect("wire").holder.arguments == {"of": "c1"}  # type: ignore[union-attr]


def test_a_fork_that_asks_first_asks_about_calls_that_were_left_untried() -> None:
    past = given(started(), asks("mail", "look", "ask"))
    child = past.forked(effects="ask")
    assert [(wait.name, wait.kind) for wait in child.state.waits] == [("mail", "approval"), ("ask", "question")]
    assert child.state.waits[0].digest
    assert _dispatches(child) == ["look"]
    assert _dispatches(child.after(decides("mail"))) == ["mail", "look"]
    assert _dispatches(past.forked(effects="ask", pending="run")) == ["mail", "look"]


def test_a_later_fork_that_does_not_ask_lets_such_a_call_go() -> None:
    child = given(started(), asks("mail")).forked(effects="ask")
    assert _dispatches(child.forked(run="c2")) == ["mail"]


@pytest.mark.parametrize("tool", ["look", "mail", "wire"])
def test_in_a_turn_that_was_called_off_nothing_is_performed_any_more(tool: str) -> None:
    past = given(started(), asks("charge", tool), dispatched(), Interrupt())
    assert past.state.interrupting
    child = past.forked()
    assert _dispatches(child) == []
    held = [wait.effect for wait in child.state.waits]
    for effect in held:
        child = child.after(Resolve(effect=effect, verdict="abandoned_unknown"))
    assert child.state.status == "idle"


def test_asking_for_what_is_pending_takes_up_the_turn_again() -> None:
    past = given(started(), asks("mail"), dispatched(), Interrupt())
    assert _dispatches(past.forked(pending="run")) == ["mail"]


def test_unknown_outcomes_and_contradictions_are_waited_for_in_the_child_too() -> None:
    past = given(started(), asks("mail"), dispatched(), unknown("mail"))
    child = past.forked()
    assert [wait.kind for wait in child.state.waits] == ["unknown"]
    assert past.forked(pending="skip").state.waits == ()
    assert past.forked(pending="skip").state.doubts == {}


# ── what carries over ────────────────────────────────────────────────────────────────────────────────────────


def test_usage_limits_keys_and_queue_carry_over_and_a_stop_or_a_pause_does_not() -> None:
    past = given(started(limits=Limits(steps=9, seconds=60)), asks("mail"), Send(parts=(Text(content="q"),), key="k"))
    child = past.after(Pause(), Stop()).forked(labels={"what": "if"})
    assert child.state.limits == past.state.limits
    assert child.state.spent == past.state.spent
    assert (len(child.state.queue), set(child.state.keys)) == (1, {"k"})
    assert (child.state.stopped, child.state.paused) == (False, None)
    assert child.state.labels == {"what": "if"}


def test_a_turn_has_used_as_much_of_its_time_in_the_child_as_in_the_parent() -> None:
    """A fork made the next day must not run into the parent's limit in seconds at once."""
    past = given(started(limits=Limits(seconds=60)), asks("look"))
    past = past.after(dispatched(later_ms=20_000))
    child = past.forked(later_ms=86_400_000)
    assert child.now_ms - child.state.turn_at_ms == 20_000


def test_a_failed_turn_is_failed_in_the_child_and_can_be_tried_again() -> None:
    child = given(started(), dispatched(), fails("")).forked()
    assert child.state.status == "failed"
    assert child.after(Unpause()).state.status == "running"


def test_a_child_folds_from_its_whole_history() -> None:
    child = given(started(), asks("mail"), dispatched()).forked()
    assert fold(child.events) == child.state
