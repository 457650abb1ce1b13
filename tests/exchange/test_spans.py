"""A run as spans: which there are, what they say, how they hang together; the same however often and by whom told.

Not tested here: the SDK (see ``tests/adapters/test_otel.py``) and the bytes of an export (``test_otlp.py``).
"""

import json
from typing import Any

from histories import histories, searched
from hypothesis import given as for_any
from hypothesis import strategies as st

from forkpoint.commands import (
    Answer,
    CallPlan,
    ChangeAgent,
    Found,
    Interrupt,
    Late,
    Pause,
    Plan,
    Recover,
    Resolve,
    Rewind,
    Send,
    Settle,
    Stop,
    Unpause,
)
from forkpoint.definition import AgentRecord, Compaction
from forkpoint.effects import StepCall
from forkpoint.events import (
    ContextCompacted,
    EffectDispatched,
    EffectRequested,
    EffectSettled,
    RunStarted,
    SnapshotTaken,
    WorkspaceRewound,
)
from forkpoint.messages import Reasoning, Text, Usage, assistant
from forkpoint.outcomes import Failed, Succeeded, Unknown
from forkpoint.timetravel.span_shapes import Span, place
from forkpoint.timetravel.span_words import messages_text, model_words, settings_words
from forkpoint.timetravel.spans import SpanFold, spans
from given import Past, advanced, agent, asks, decides, dispatched, ends, fails, given, says, settled, started, unknown


def told(past: Past, *, content: bool = False) -> tuple[Span, ...]:
    return spans(past.events, content=content)


def named(found: tuple[Span, ...], name: str) -> list[Span]:
    return [span for span in found if span.name == name]


def one(past: Past, name: str, **options: Any) -> Span:
    (span,) = named(told(past, **options), name)
    return span


def happened(span: Span) -> list[str]:
    return [event.name.removeprefix("forkpoint.") for event in span.events]


def later(ms: int, name: str = "look", value: Any = "ok") -> Any:
    """The tool's attempt succeeds, ``ms`` from now."""
    return lambda past: past.after(settled(past, name, Succeeded(value=value)), later_ms=ms)


STEP = (started(), asks("look"), dispatched(later_ms=5), later(20), says())


# ── what there is ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_has_a_span_for_each_model_call_and_each_tool_call_below_it() -> None:
    found = told(given(*STEP))
    assert [span.name for span in found] == [
        "chat model",
        "execute_tool look",
        "chat model",
        "invoke_agent clerk",
    ]
    *below, turn = found
    assert turn.parent_span_id is None
    assert {span.parent_span_id for span in below} == {turn.span_id}
    assert {span.trace_id for span in found} == {turn.trace_id}
    assert [span.kind for span in found] == ["client", "internal", "client", "internal"]
    assert {span.status for span in found} == {"unset"}


def test_spans_say_what_the_conventions_ask_for() -> None:
    chat, tool, last, turn = told(given(*STEP))
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.provider.name"] == "test"
    assert chat.attributes["gen_ai.request.model"] == "model"
    assert chat.attributes["gen_ai.conversation.id"] == "r"
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert chat.attributes["gen_ai.usage.input_tokens"] == 10
    assert chat.attributes["gen_ai.usage.output_tokens"] == 0
    assert chat.attributes["forkpoint.cost_usd"] == 0.5
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "look"
    assert tool.attributes["gen_ai.tool.call.id"] == "c1"
    assert tool.attributes["gen_ai.tool.type"] == "function"
    assert last.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert turn.attributes["gen_ai.agent.name"] == "clerk"
    assert turn.attributes["gen_ai.usage.input_tokens"] == 20
    assert turn.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert turn.attributes["forkpoint.cost_usd"] == 1.0


def test_spans_say_which_run_turn_step_effect_and_attempt_and_where_to_fork() -> None:
    past = given(*STEP)
    chat, tool, last, turn = told(past)
    assert all(
        span.attributes["forkpoint.run"] == "r" and span.attributes["forkpoint.turn"] == 1 for span in told(past)
    )
    assert [span.attributes.get("forkpoint.step") for span in (chat, tool, last, turn)] == [1, 1, 2, None]
    assert [span.attributes.get("forkpoint.attempt") for span in (chat, tool, turn)] == [1, 1, None]
    assert (tool.attributes["forkpoint.effect"], tool.attributes["forkpoint.recovery"]) == (6, "repeat")
    ended = [event.seq for event in past.events if isinstance(event.event, EffectSettled)]
    points = [span.attributes["forkpoint.fork_point"] for span in (chat, tool, last)]
    assert points == [f"r@{seq}" for seq in ended]


def test_a_span_lasts_as_long_as_its_attempt_did() -> None:
    past = given(*STEP)
    tool = one(past, "execute_tool look")
    began, ended = (
        next(event for event in past.events if isinstance(event.event, kind) and event.event.effect == 6)
        for kind in (EffectDispatched, EffectSettled)
    )
    assert (tool.start_ns // 10**6, tool.end_ns // 10**6) == (began.at_ms, ended.at_ms)
    assert ended.at_ms - began.at_ms == 20
    turn = one(past, "invoke_agent clerk")
    assert (turn.start_ns, turn.end_ns) == (place(past.events[1]).ns, place(past.events[-1]).ns)


def test_spans_of_events_of_one_moment_stand_in_the_order_of_the_events() -> None:
    found = told(given(started(), asks("look", "look"), dispatched(), ends("look"), ends("look")))
    assert len({span.start_ns for span in found}) == len(found)


def test_every_turn_has_its_own_span_and_an_input_that_waited_begins_one_when_the_last_ends() -> None:
    waiting = Send(parts=(Text(content="more"),))
    found = named(told(given(started(), advanced(), waiting, says("one"), says("two"))), "invoke_agent clerk")
    assert [span.attributes["forkpoint.turn"] for span in found] == [1, 2]
    assert found[0].end_ns == found[1].start_ns
    assert found[0].trace_id == found[1].trace_id


def test_calls_that_ran_side_by_side_have_spans_side_by_side() -> None:
    past = given(started(), asks("look", "charge"), dispatched(), ends("charge"), ends("look"), says())
    look, charge = one(past, "execute_tool look"), one(past, "execute_tool charge")
    assert look.start_ns < charge.end_ns < look.end_ns
    assert look.parent_span_id == charge.parent_span_id


# ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_attempt_has_a_span_of_its_own() -> None:
    past = given(started(), asks("charge"), dispatched(), fails("charge", "Busy", transient=True))
    past = past.after(advanced(later_ms=100_000), ends("charge"), says())
    first, second = named(told(past), "execute_tool charge")
    assert [span.attributes["forkpoint.attempt"] for span in (first, second)] == [1, 2]
    assert (first.status, first.attributes["error.type"], first.attributes["forkpoint.then"]) == (
        "error",
        "Busy",
        "retry",
    )
    assert (second.status, second.attributes["forkpoint.outcome"]) == ("unset", "succeeded")
    assert "forkpoint.then" not in second.attributes
    assert first.attributes["forkpoint.effect"] == second.attributes["forkpoint.effect"]
    assert first.span_id != second.span_id


def test_a_lost_attempt_ends_when_recovery_settles_it() -> None:
    past = given(started(), asks("charge"), dispatched())
    lost_at = past.now_ms + 60_000
    past = past.after(Recover(), later_ms=60_000).after(advanced(later_ms=100_000), ends("charge"), says())
    first, second = named(told(past), "execute_tool charge")
    assert first.end_ns // 10**6 == lost_at
    assert first.attributes["forkpoint.outcome"] == "unknown"
    assert first.attributes["forkpoint.because"] == "lost"
    assert (first.status, first.attributes["error.type"]) == ("error", "unknown")
    assert second.status == "unset"


def test_a_model_call_that_was_lost_is_a_span_and_so_is_the_one_that_asked_again() -> None:
    past = given(started(), advanced(), Recover(), advanced(later_ms=100_000), says())
    first, second = named(told(past), "chat model")
    assert [span.attributes["forkpoint.step"] for span in (first, second)] == [1, 1]
    assert (first.status, second.status) == ("error", "unset")


def test_a_turn_that_failed_is_an_error_and_going_on_with_it_is_another_span_of_the_same_turn() -> None:
    past = given(started(), advanced(), fails("", "ModelRefused", "no such model"), Unpause(), says())
    first, second = named(told(past), "invoke_agent clerk")
    assert (first.status, first.attributes["error.type"], first.message) == ("error", "ModelRefused", "")
    assert first.attributes["forkpoint.outcome"] == "failed"
    assert (second.status, second.attributes["forkpoint.outcome"]) == ("unset", "succeeded")
    assert first.attributes["forkpoint.turn"] == second.attributes["forkpoint.turn"] == 1
    assert first.span_id != second.span_id
    assert happened(second) == []
    assert named(told(past), "forkpoint.continued")[0].parent_span_id is None


def test_a_tools_error_is_its_spans_and_not_the_turns() -> None:
    past = given(started(), asks("look"), dispatched(), fails("look", "KeyError", "no ada@example.org"), says())
    tool, turn = one(past, "execute_tool look"), one(past, "invoke_agent clerk")
    assert (tool.status, tool.attributes["error.type"]) == ("error", "KeyError")
    assert (turn.status, turn.attributes["forkpoint.outcome"]) == ("unset", "succeeded")


def test_a_summary_is_a_model_call_that_is_no_step() -> None:
    policy = Compaction(after_tokens=50, keep_steps=1)
    past = given(started(compaction=policy), asks("look"), dispatched(), ends("look"))
    past = past.after(asks("look", tokens=60), dispatched(), ends("look"), says("short"), says())
    found = named(told(past, content=True), "chat model")
    summary = next(span for span in found if span.attributes.get("forkpoint.compaction"))
    assert "forkpoint.step" not in summary.attributes
    assert "Summarise the conversation" in str(summary.attributes["gen_ai.input.messages"])
    assert [span.attributes.get("forkpoint.step") for span in found if span is not summary] == [1, 2, 3]
    assert happened(one(past, "invoke_agent clerk")) == ["compacted"]
    summarised = next(event.seq for event in past.events if isinstance(event.event, ContextCompacted))
    turn = one(past.upto(summarised), "invoke_agent clerk")
    assert turn.attributes["gen_ai.response.finish_reasons"] == ("tool_call",), "a summary is not what the turn says"


# ── what nobody knows, and what waits ────────────────────────────────────────────────────────────────────────


def test_an_outcome_that_nobody_knows_is_an_error_and_a_finding_links_to_its_attempt() -> None:
    past = given(started(), asks("mail"), dispatched(), unknown("mail"))
    effect = past.effect("mail").seq
    past = past.after(Resolve(effect=effect, verdict="occurred", note="I saw it", actor="ann"), says())
    attempt, finding, turn = one(past, "execute_tool mail"), one(past, "resolve mail"), one(past, "invoke_agent clerk")
    assert (attempt.status, attempt.attributes["error.type"]) == ("error", "unknown")
    assert attempt.attributes["forkpoint.because"] == "timeout"
    assert [(link.trace_id, link.span_id) for link in finding.links] == [(attempt.trace_id, attempt.span_id)]
    assert finding.links[0].attributes["forkpoint.link"] == "resolves"
    assert finding.attributes["forkpoint.finding"] == "occurred"
    assert finding.attributes["forkpoint.finding_source"] == "person"
    assert finding.attributes["forkpoint.effect"] == effect
    assert finding.start_ns == finding.end_ns
    assert finding.parent_span_id == turn.span_id
    assert happened(turn) == ["waits"]
    assert turn.events[0].attributes == {
        "forkpoint.wait": "unknown",
        "forkpoint.effect": effect,
        "gen_ai.tool.name": "mail",
    }


def test_a_late_result_that_contradicts_a_decision_is_seen_though_the_turn_is_over() -> None:
    past = given(started(), asks("mail"), dispatched(), unknown("mail"))
    effect = past.effect("mail").seq
    past = past.after(Resolve(effect=effect, verdict="not_occurred"), says())
    past = past.after(Late(effect=effect, outcome=Succeeded(value="sent")))
    first, late = named(told(past), "resolve mail")
    assert late.attributes["forkpoint.contradicts"] is True
    assert late.parent_span_id is None
    assert late.links == first.links
    waits = one(past, "forkpoint.waits")
    assert (waits.attributes["forkpoint.wait"], waits.parent_span_id) == ("contradiction", None)


def test_a_probe_that_gives_up_is_told_of_on_the_turn() -> None:
    past = given(started(), asks("book"), dispatched(), Recover())
    for _ in range(2):
        effect = past.effect("book").seq
        past = past.after(Found(effect=effect, finding="not_occurred"), advanced(later_ms=100_000), Recover())
    past = past.after(Found(effect=past.effect("book").seq, finding="not_occurred"), says())
    assert [span.attributes["forkpoint.attempt"] for span in named(told(past), "execute_tool book")] == [1, 2, 3]
    assert [span.attributes["forkpoint.then"] for span in named(told(past), "execute_tool book")] == ["probe"] * 3
    assert len(named(told(past), "resolve book")) == 3
    (event,) = one(past, "invoke_agent clerk").events
    assert (event.name, event.attributes["error.type"]) == ("forkpoint.settled", "lost")


def test_an_approval_is_told_on_the_turn_and_the_calls_span_begins_when_it_is_performed() -> None:
    past = given(started(), asks("wire"))
    asked_ns = place(past.events[-1]).ns
    past = past.after(decides("wire", actor="ann"), dispatched(later_ms=9_000), ends("wire"), says())
    turn, tool = one(past, "invoke_agent clerk"), one(past, "execute_tool wire")
    assert happened(turn) == ["waits", "approval"]
    assert [event.attributes["forkpoint.effect"] for event in turn.events] == [tool.attributes["forkpoint.effect"]] * 2
    assert turn.events[0].attributes["forkpoint.wait"] == "approval"
    assert turn.events[1].attributes["forkpoint.decision"] == "allowed"
    assert tool.start_ns - asked_ns >= 9_000 * 10**6


def test_a_call_that_was_denied_is_one_span_and_no_error() -> None:
    past = given(started(), asks("wire"), decides("wire", "denied", reason="not today"), says())
    tool = one(past, "execute_tool wire")
    assert (tool.status, tool.attributes["forkpoint.outcome"]) == ("unset", "denied")
    assert "error.type" not in tool.attributes
    assert "forkpoint.attempt" not in tool.attributes


def test_a_question_is_a_span_as_long_as_its_answer_took() -> None:
    past = given(started(), asks("ask"))
    effect = past.effect("ask").seq
    past = past.after(Answer(effect=effect, value=42), later_ms=7_000).after(says())
    tool = one(past, "execute_tool ask")
    assert tool.end_ns - tool.start_ns >= 7_000 * 10**6
    assert tool.attributes["forkpoint.outcome"] == "succeeded"
    assert happened(one(past, "invoke_agent clerk")) == ["waits"]


def test_a_call_that_was_refused_before_it_was_tried_is_one_span_with_its_error() -> None:
    refused = Failed(error="ToolUnknown", text="there is no such tool")
    past = given(started(), asks("mail", planned=False)).after(Plan(plans=(CallPlan(tool="mail", refused=refused),)))
    tool = one(past, "execute_tool mail")
    assert (tool.status, tool.attributes["error.type"]) == ("error", "ToolUnknown")
    assert "forkpoint.attempt" not in tool.attributes


def test_an_interrupt_is_told_and_ends_what_was_never_tried() -> None:
    past = given(started(), asks("wire", "look"), dispatched(), Interrupt(reason="stop it"), ends("look"))
    assert one(past, "execute_tool wire").attributes["forkpoint.outcome"] == "cancelled"
    assert one(past, "execute_tool wire").status == "unset"
    turn = one(past, "invoke_agent clerk")
    assert (turn.status, turn.attributes["forkpoint.outcome"]) == ("unset", "interrupted")
    assert happened(turn) == ["waits", "interrupted"]


def test_pauses_and_stops_are_told_on_the_turn_or_as_spans_where_none_is_open() -> None:
    past = given(started(), advanced(), Pause(), Unpause(), Stop())
    turn = one(past, "invoke_agent clerk")
    assert (turn.attributes["forkpoint.outcome"], happened(turn)) == ("stopped", ["paused", "continued", "stopped"])
    idle = given(started(), says(), Pause(), Rewind(rewound=WorkspaceRewound(tree="t", before="b", to=2)))
    idle = idle.recorded(SnapshotTaken(failed="no space left"))
    assert [span.name for span in told(idle)][2:] == [
        "forkpoint.paused",
        "forkpoint.rewound",
        "forkpoint.snapshot_failed",
    ]
    assert one(idle, "forkpoint.rewound").attributes["forkpoint.rewound_to"] == 2


def test_what_ends_after_its_turn_still_belongs_to_it() -> None:
    past = given(started(), asks("look"), dispatched(), Stop(), ends("look"))
    assert one(past, "execute_tool look").parent_span_id == one(past, "invoke_agent clerk").span_id


def test_going_on_under_another_definition_is_told() -> None:
    past = given(started(), says())
    past = past.after(ChangeAgent(agent=AgentRecord(name="clerk", model="other:m2"), differences=("the model is new",)))
    past = past.after(Send(parts=(Text(content="again"),)), says())
    assert one(past, "forkpoint.agent_changed").attributes["forkpoint.differences"] == ("the model is new",)
    assert one(past, "chat m2").attributes["gen_ai.provider.name"] == "other"


# ── code of one's own ────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_of_ones_own_code_is_a_span_without_a_turn_if_there_is_none() -> None:
    past = given(started(None), EffectRequested(effect=StepCall(name="fetch", arguments={"n": 1})))
    past = past.recorded(EffectDispatched(effect=2, by="p"), EffectSettled(effect=2, outcome=Succeeded(value=3)))
    (span,) = told(past, content=True)
    assert (span.name, span.kind, span.parent_span_id) == ("execute_step fetch", "internal", None)
    assert span.attributes["forkpoint.name"] == "fetch"
    assert span.attributes["forkpoint.effect"] == 2
    assert (span.attributes["forkpoint.arguments"], span.attributes["forkpoint.result"]) == ('{"n":1}', "3")
    assert not {"gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.arguments"} & set(span.attributes)


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_is_a_trace_of_its_own_that_links_to_the_span_at_its_fork_point() -> None:
    parent = given(*STEP)
    at = next(
        event.seq for event in parent.events if isinstance(event.event, EffectSettled) and event.event.effect == 6
    )
    child = parent.forked(at, input=(Text(content="what if"),), agent=AgentRecord(name="other", model="x:y"))
    child = child.after(says("else"), says("and else"))
    theirs, ours = told(parent), told(child)
    assert {span.trace_id for span in ours} & {span.trace_id for span in theirs} == set()
    assert {span.attributes["forkpoint.parent"] for span in ours} == {f"r@{at}"}
    turn = named(ours, "invoke_agent other")[0]
    tool = named(theirs, "execute_tool look")[0]
    assert [(link.trace_id, link.span_id) for link in turn.links] == [(tool.trace_id, tool.span_id)]
    assert turn.links[0].attributes == {"forkpoint.link": "fork_point", "forkpoint.fork_point": f"r@{at}"}
    (event,) = turn.events
    assert (event.name, event.attributes["forkpoint.patched"]) == ("forkpoint.forked", ("agent", "input"))
    assert all(span.links == () for span in ours if span.parent_span_id)


def test_a_fork_tells_nothing_of_the_past_that_it_shares() -> None:
    parent = given(*STEP)
    child = parent.forked()
    (span,) = told(child)
    assert (span.name, span.attributes["forkpoint.run"]) == ("forkpoint.forked", "child")
    assert span.links[0].span_id == one(parent, "invoke_agent clerk").span_id


def test_a_fork_of_a_fork_links_to_the_trace_that_tells_of_its_fork_point() -> None:
    parent = given(*STEP)
    child = parent.forked()
    grandchild = child.forked(run="grandchild")
    assert {link.trace_id for span in told(grandchild) for link in span.links} == {told(parent)[0].trace_id}
    another = child.after(Send(parts=(Text(content="x"),)), says()).forked(run="another")
    assert {link.trace_id for span in told(another) for link in span.links} == {told(child)[0].trace_id}


def test_a_call_that_a_parent_left_in_flight_is_told_where_it_is_settled_and_links_to_the_parents_attempt() -> None:
    parent = given(started(), asks("mail"), dispatched())
    effect = parent.effect("mail").seq
    child = parent.forked().after(Resolve(effect=effect, verdict="not_occurred"), says())
    done = parent.after(ends("mail"), says())
    assert one(child, "resolve mail").links[0].span_id == one(done, "execute_tool mail").span_id
    turn = one(child, "invoke_agent clerk")
    assert turn.links[0].span_id == one(done, "execute_tool mail").span_id
    assert happened(turn) == ["forked", "waits"]
    assert turn.events[1].attributes["forkpoint.wait"] == "inherited"
    assert named(told(child), "execute_tool mail") == []


def test_calls_that_a_fork_inherits_untried_are_told_one_by_one() -> None:
    child = given(started(), asks("wire", "wire")).forked().after(decides("wire", "denied"))
    calls = named(told(child), "execute_tool wire")
    assert [span.attributes["forkpoint.outcome"] for span in calls] == ["denied", "open"]
    assert len({span.span_id for span in calls}) == 2


def test_waits_that_a_fork_inherits_at_rest_are_told_one_by_one() -> None:
    past = given(started(), asks("mail", "mail"), dispatched(), unknown("mail"))
    first, second = past.state.effects
    past = past.after(Settle(effect=second, attempt=1, outcome=Unknown(because="timeout")))
    past = past.after(*(Resolve(effect=effect, verdict="not_occurred") for effect in (first, second)), says())
    past = past.after(*(Late(effect=effect, outcome=Succeeded(value="sent")) for effect in (first, second)))
    waits = named(told(past.forked()), "forkpoint.waits")
    assert [span.attributes["forkpoint.effect"] for span in waits] == [first, second]
    assert len({span.span_id for span in waits}) == 2


def test_a_call_that_a_fork_answers_from_the_record_is_told_with_its_source() -> None:
    past = given(started(), asks("look", planned=False)).forked(effects="recorded")
    past = past.after(Plan(plans=(CallPlan(tool="look", recorded=(6, Succeeded(value="ok"))),)), says())
    tool = one(past, "execute_tool look")
    assert (tool.attributes["forkpoint.source"], tool.attributes["forkpoint.outcome"]) == (6, "succeeded")
    assert "forkpoint.attempt" not in tool.attributes


def test_a_fork_before_the_first_input_links_to_nothing_but_says_where_it_is_from() -> None:
    child = given(started(None)).forked(input=(Text(content="x"),)).after(says())
    turn = one(child, "invoke_agent clerk")
    assert (turn.links, turn.attributes["forkpoint.parent"]) == ((), "r@1")


# ── content ──────────────────────────────────────────────────────────────────────────────────────────────────

SECRETIVE = (
    started("hello ada@example.org"),
    asks("mail"),
    dispatched(),
    ends("mail", {"to": "ada@example.org"}),
    asks("wire", ids=["c2"]),
    decides("wire", "denied", reason="ada@example.org is unknown", actor="bob"),
    asks("look", ids=["c3"]),
    dispatched(),
    fails("look", "KeyError", "ada@example.org"),
    says("Dear ada@example.org"),
    Pause(reason="ask ada@example.org", actor="bob"),
)


def test_what_was_said_is_left_out_unless_it_is_asked_for() -> None:
    past = given(*SECRETIVE)
    plain = repr(told(past))
    assert "ada@" not in plain and "bob" not in plain and "messages" not in plain
    assert [span.span_id for span in told(past)] == [span.span_id for span in told(past, content=True)]


def test_with_content_the_messages_arguments_and_results_are_told_in_the_conventions_words() -> None:
    past = given(*SECRETIVE)
    chat = named(told(past, content=True), "chat model")
    assert json.loads(str(chat[0].attributes["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "hello ada@example.org"}]}
    ]
    said = json.loads(str(chat[0].attributes["gen_ai.output.messages"]))
    call = {"type": "tool_call", "id": "c1", "name": "mail", "arguments": {"of": "c1"}}
    assert said == [{"role": "assistant", "parts": [call], "finish_reason": "tool_call"}]
    shown = json.loads(str(chat[1].attributes["gen_ai.input.messages"]))
    assert [message["role"] for message in shown] == ["user", "assistant", "tool"]
    assert shown[2]["parts"] == [
        {"type": "tool_call_response", "id": "c1", "response": {"to": "ada@example.org"}},
    ]
    mail, wire = one(past, "execute_tool mail", content=True), one(past, "execute_tool wire", content=True)
    assert mail.attributes["gen_ai.tool.call.arguments"] == '{"of":"c1"}'
    assert mail.attributes["gen_ai.tool.call.result"] == '{"to":"ada@example.org"}'
    assert wire.message == "denied: ada@example.org is unknown"
    assert one(past, "execute_tool look", content=True).message == "ada@example.org"
    turn = one(past, "invoke_agent clerk", content=True)
    assert "Dear ada" in str(turn.attributes["gen_ai.output.messages"])
    assert "hello ada" in str(turn.attributes["gen_ai.input.messages"])
    assert one(past, "forkpoint.paused", content=True).attributes["forkpoint.actor"] == "bob"


def test_arguments_that_a_person_edited_are_told_as_they_were_performed() -> None:
    past = given(started(), asks("wire"), decides("wire", "edited", arguments={"cents": 1}), dispatched(), ends("wire"))
    assert one(past, "execute_tool wire", content=True).attributes["gen_ai.tool.call.arguments"] == '{"cents":1}'


def test_parts_are_told_without_what_only_a_provider_reads() -> None:
    parts = (Reasoning(content="hm", extra={"signature": "s"}), Text(content="", extra={"cache": 1}))
    (message,) = json.loads(messages_text([assistant("", *parts)]))  # type: ignore[arg-type]
    assert message["parts"] == [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": ""}]


def test_instructions_and_settings_are_told_as_the_conventions_name_them() -> None:
    definition = AgentRecord(
        name="a",
        model="google-gla:gemini-2.5-pro",
        instructions="Be kind.",
        settings={"temperature": 1, "max_tokens": 5.0, "seed": 2**64, "stop_sequences": ["x"], "output_schema": {}},
    )
    assert model_words(definition) == {"gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "gemini-2.5-pro"}
    words = settings_words(definition)
    assert words == {
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.output.type": "json",
    }
    assert [type(words[f"gen_ai.request.{name}"]) for name in ("temperature", "max_tokens")] == [float, int]
    past = given(RunStarted(agent=definition), Send(parts=(Text(content="x"),)), says())
    chat = one(past, "chat gemini-2.5-pro", content=True)
    assert json.loads(str(chat.attributes["gen_ai.system_instructions"])) == [{"type": "text", "content": "Be kind."}]
    assert chat.attributes["gen_ai.request.temperature"] == 1.0


def test_a_model_without_a_provider_in_its_name_still_has_what_the_conventions_require() -> None:
    assert model_words(AgentRecord(name="a", model="gpt")) == {
        "gen_ai.provider.name": "unknown",
        "gen_ai.request.model": "gpt",
    }
    assert model_words(AgentRecord(name="a")) == {"gen_ai.provider.name": "unknown"}


def test_tokens_from_a_cache_and_for_reasoning_are_told() -> None:
    usage = Usage(input_tokens=7, output_tokens=3, cached_tokens=5, reasoning_tokens=2)
    past = given(started(), advanced())
    past = past.after(settled(past, "", Succeeded(message=assistant("x")), usage=usage))
    for span in told(past):
        assert span.attributes["gen_ai.usage.cache_read.input_tokens"] == 5
        assert span.attributes["gen_ai.usage.reasoning.output_tokens"] == 2
        assert "forkpoint.cost_usd" not in span.attributes


# ── what is open, and what is the same ───────────────────────────────────────────────────────────────────────


def test_what_has_not_ended_is_told_as_it_stands() -> None:
    past = given(started(), asks("look", "wire"), dispatched())
    open_ones = [span for span in told(past) if span.attributes["forkpoint.outcome"] == "open"]
    assert [span.name for span in open_ones] == ["execute_tool look", "execute_tool wire", "invoke_agent clerk"]
    assert {span.end_ns for span in open_ones} == {place(past.events[-1]).ns}
    ended = past.after(ends("look"))
    assert one(ended, "execute_tool look").span_id == open_ones[0].span_id
    assert told(given()) == ()


def test_an_attempt_that_will_be_repeated_is_told_once() -> None:
    past = given(started(), asks("charge"), dispatched(), fails("charge", "Busy", transient=True))
    assert len(named(told(past), "execute_tool charge")) == 1


def test_two_runs_of_one_name_that_began_at_different_times_are_two_traces() -> None:
    hello = Send(parts=(Text(content="hello"),))
    first, second = (Past().recorded(RunStarted(agent=agent()), at_ms=ms).after(hello, says()) for ms in (1, 2))
    assert first.run == second.run
    assert {span.trace_id for span in told(first)} & {span.trace_id for span in told(second)} == set()
    assert {span.span_id for span in told(first)} & {span.span_id for span in told(second)} == set()


@searched(60)
@for_any(histories(), st.data())
def test_spans_told_event_by_event_are_those_of_the_whole_history(past: Past, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(past.events)))
    run = past.events[-1].run
    fold = SpanFold(run)
    first = [span for event in past.events[:cut] for span in fold.feed(event)]
    rest = [span for event in past.events[cut:] for span in fold.feed(event)]
    assert (*first, *rest, *fold.unfinished()) == spans(past.events)
    again = SpanFold(run)
    assert [span for event in past.events[:cut] for span in again.feed(event)] == first


@searched(80)
@for_any(histories())
def test_in_every_history_each_attempt_is_one_span_below_a_turn_that_is_told(past: Past) -> None:
    run = past.events[-1].run
    own = [event for event in past.events if event.run == run]
    found = spans(past.events)
    ids = [span.span_id for span in found]
    turns = {span.span_id for span in found if span.name.startswith("invoke_agent")}
    assert len(ids) == len(set(ids))
    assert len({span.trace_id for span in found}) <= 1
    assert all(len(span.trace_id) == 32 and len(span.span_id) == 16 for span in found)
    assert {span.parent_span_id for span in found} - {None} <= turns
    assert all(span.start_ns <= span.end_ns for span in found)
    tried = [(one.event.effect, one.event.attempt) for one in own if isinstance(one.event, EffectDispatched)]
    attempts = [
        (span.attributes["forkpoint.effect"], span.attributes["forkpoint.attempt"])
        for span in found
        if "forkpoint.attempt" in span.attributes
    ]
    assert sorted(attempts) == sorted(tried)  # type: ignore[type-var]
    assert all((span.status == "error") == ("error.type" in span.attributes) for span in found)


@searched(30)
@for_any(histories())
def test_in_every_history_telling_content_changes_neither_ids_nor_times(past: Past) -> None:
    def skeleton(span: Span) -> Any:
        return span.span_id, span.parent_span_id, span.start_ns, span.end_ns, span.status, span.name

    assert [skeleton(span) for span in told(past)] == [skeleton(span) for span in told(past, content=True)]
