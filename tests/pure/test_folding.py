"""What each event makes of the state, from each state that matters and is not told elsewhere."""

from typing import Any

import pytest

from forkpoint.commands import Captured, Decide, Pause, Recover, Rewind, Send
from forkpoint.effects import Recovery, StepCall, ToolCall
from forkpoint.events import (
    ApprovalDecided,
    ApprovalRequested,
    EffectDispatched,
    EffectRequested,
    EffectSettled,
    RunStarted,
    SnapshotTaken,
    StateChanged,
    WorkspaceRewound,
)
from forkpoint.folding import fold
from forkpoint.messages import Text, Usage, assistant
from forkpoint.outcomes import Succeeded
from forkpoint.recover import spent
from forkpoint.status import asking, summary
from given import agent, asks, dispatched, ends, fails, given, says, settled, started, told, unknown


def _with_step(recovery: Recovery = Recovery.HOLD) -> Any:
    return given(started(), EffectRequested(effect=StepCall(name="s", arguments={"n": 1}, recovery=recovery)))


def test_nothing_has_no_state() -> None:
    with pytest.raises(ValueError, match="before the first event"):
        fold([])


def test_a_run_that_has_just_started_is_idle() -> None:
    state = given(started(None)).state
    assert (state.status, state.turn, state.step, state.messages, state.pending) == ("idle", 0, 0, (), ())
    assert (state.started_at_ms, state.title) == (state.at_ms, "")


def test_a_start_begins_from_nothing_wherever_it_stands() -> None:
    past = given(started(), says(), RunStarted(agent=agent(), labels={"k": "v"}))
    assert (past.state.seq, past.state.messages, past.state.labels) == (6, (), {"k": "v"})


def test_turns_and_steps_count_from_one() -> None:
    past = given(
        started("one"), asks("look"), dispatched(), ends("look"), says(), Send(parts=(Text(content="two"),)), says()
    )
    assert (past.state.turn, past.state.step, past.state.title) == (2, 3, "one")


def test_an_answer_is_the_runs_output_until_the_next_turn() -> None:
    past = given(started(), says("the answer"))
    assert (past.state.status, past.state.output) == ("idle", "the answer")
    assert past.after(Send(parts=(Text(content="more"),))).state.output == ""


def test_tokens_of_cached_and_reasoned_parts_add_up() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4)
    past = given(started(), dispatched())
    past = past.after(
        settled(past, "", Succeeded(message=assistant("a")), usage=usage), Send(parts=(Text(content="b"),))
    )
    past = past.after(dispatched())
    past = past.after(settled(past, "", Succeeded(), usage=usage))
    assert past.state.spent.usage == usage.plus(usage)
    assert past.state.spent.usage.total == 6
    assert past.state.messages[-1] == assistant("").__class__(role="assistant")


def test_what_a_tool_itself_used_counts_too() -> None:
    past = given(started(), asks("look"), dispatched(), ends("look", usage=Usage(input_tokens=5), cost=0.25))
    assert (past.state.spent.cost, past.state.spent.usage.input_tokens) == (0.75, 15)


def test_the_applications_state_is_changed_key_by_key() -> None:
    past = given(started(), asks("look"), StateChanged(effect=6, set={"a": 1, "b": 2}))
    past = past.after(StateChanged(effect=6, set={"a": 3}, unset=("b", "c")))
    assert past.state.app == {"a": 3}


def test_events_that_say_nothing_to_a_model_part_no_call_from_its_answer() -> None:
    past = given(started(), asks("look"), SnapshotTaken(tree="t1"), dispatched(), Pause(), ends("look", 1))
    past = past.after(WorkspaceRewound(tree="t0", before="t1", to=2))
    assert told(past.state) == ["hello", "look(c1)", ("c1", 1)]
    assert past.state.tree == "t0"
    assert past.after(SnapshotTaken(failed="disk full")).state.tree == "t0"


def test_a_step_of_someones_own_code_is_an_effect_like_any_other() -> None:
    past = _with_step()
    assert past.effect("s").holder.arguments == {"n": 1}  # type: ignore[union-attr]
    past = past.after(dispatched())
    assert past.effect("s").key is not None
    past = past.after(Recover())
    assert [wait.kind for wait in past.state.waits] == ["unknown"]


def test_a_step_is_inherited_by_its_class() -> None:
    flying = _with_step().after(dispatched())
    assert flying.forked().effect("s").phase == "held"
    assert _with_step(Recovery.REPEAT).after(dispatched()).forked().effect("s").phase == "requested"
    asked = _with_step().forked(effects="ask")
    assert [wait.kind for wait in asked.state.waits] == ["approval"]
    allowed = asked.after(Decide(effect=3, decision="edited", digest=asked.effect("s").digest, arguments={"n": 2}))
    assert allowed.effect("s").holder.arguments == {"n": 2}  # type: ignore[union-attr]
    assert allowed.forked(run="c2").effect("s").holder.arguments == {"n": 1}  # type: ignore[union-attr]


def test_a_call_may_hold_its_own_arguments() -> None:
    call = ToolCall(tool="wire", message=5, call=0, gated=True, arguments={"of": "own"})
    past = given(
        started(), asks("wire", planned=False), EffectRequested(effect=call), ApprovalRequested(effect=6, digest="d")
    )
    assert past.effect("wire").holder is past.effect("wire").effect
    past = past.after(ApprovalDecided(effect=6, digest="d", decision="edited", arguments={"of": "theirs"}))
    assert past.effect("wire").holder.arguments == {"of": "theirs"}  # type: ignore[union-attr]
    assert past.forked().effect("wire").holder.arguments == {"of": "own"}  # type: ignore[union-attr]


def test_what_is_not_a_yes_never_lets_a_call_go_even_from_a_journal() -> None:
    past = given(started(), asks("wire"))
    state = fold(
        [past.events[-1].__class__("r", 8, past.now_ms, b"", ApprovalDecided(effect=6, digest="d", decision="ok"))],
        past.state,
    )  # type: ignore[arg-type]
    assert state.effects[6].phase == "settled"


def test_a_result_patched_out_of_sight_is_kept_for_when_it_is_read() -> None:
    from forkpoint.events import ResultPatch

    past = given(started(), says())
    child = past.forked(tool_results=(ResultPatch(effect=99, call="c1", value=1),))
    assert [entry.effect for entry in child.state.transcript.patched] == [99]
    assert child.state.messages == past.state.messages


def test_a_summary_of_a_run_says_what_a_list_shows() -> None:
    past = given(started("do it"), asks("mail", "wire"), dispatched(), unknown("mail"))
    line = summary(past.state)
    assert (line.status, line.agent, line.turn, line.step, line.title, line.waits, line.due) == (
        "waiting", "clerk", 1, 1, "do it", 2, False,
    )  # fmt: skip
    flying = summary(given(started(), dispatched()).state)
    assert (flying.status, flying.due) == ("running", True)
    later = given(started(), dispatched(), fails("", transient=True))
    assert (summary(later.state).status, summary(later.state).due) == ("running", True)
    failed = summary(given(started(), dispatched(), fails("", "AuthError", "no key")).state)
    assert (failed.status, failed.error, failed.due) == ("failed", "AuthError: no key", False)


def test_a_model_is_being_asked_from_its_request_to_its_answer() -> None:
    past = given(started())
    assert not asking(past.state)
    assert asking(past.after(dispatched()).state)
    assert not asking(past.after(says()).state)


def test_a_budget_is_spent_when_as_many_attempts_were_made() -> None:
    past = given(started(attempts=1), dispatched())
    assert spent(past.effect(""))
    assert not spent(given(started(), dispatched()).effect(""))


def test_what_the_workspace_says_of_itself_is_recorded_as_it_comes() -> None:
    past = given(started())
    taken, rewound = SnapshotTaken(tree="t"), WorkspaceRewound(tree="t", before="s", to=1)
    assert past.when(Captured(taken=taken)) == (taken,)
    assert past.when(Rewind(rewound=rewound)) == (rewound,)


def test_a_record_of_the_parents_is_free() -> None:
    done = EffectSettled(
        effect=6, outcome=Succeeded(value=1), attempt=1, call="c1", source=3, usage=Usage(input_tokens=9), cost=1.0
    )
    past = given(started(), asks("look"), EffectDispatched(effect=6, by="p"), done)
    assert past.state.spent.cost == 0.5
