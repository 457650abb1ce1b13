"""Given what has happened, when something is asked, then these events or this refusal; and nothing else changed.

Commands about unknown outcomes are in ``test_resolution``, those that end a turn in ``test_interrupt_pause_stop``.
"""

from typing import Any

import pytest

from forkpoint._canon import value_digest
from forkpoint.commands import (
    Advance,
    Answer,
    CallPlan,
    ChangeAgent,
    Decide,
    Interrupt,
    Pause,
    Plan,
    Resolve,
    Send,
    Start,
    Stop,
    Unpause,
)
from forkpoint.decide import start
from forkpoint.effects import ModelCall, Recovery, ToolCall
from forkpoint.errors import (
    AgentToolGone,
    AnswerNotAwaited,
    ApprovalDecidedAlready,
    ApprovalNotAsked,
    ApprovalOfOtherArguments,
    ForkpointError,
    InputKeyReused,
    RunIsStopped,
)
from forkpoint.events import (
    AgentChanged,
    ApprovalDecided,
    ApprovalRequested,
    EffectDispatched,
    EffectRequested,
    EffectSettled,
    InputReceived,
    RunStarted,
    StateChanged,
)
from forkpoint.messages import CallPart, Text, assistant
from forkpoint.outcomes import Cancelled, Failed, Succeeded
from given import (
    TOOLS,
    Past,
    advanced,
    agent,
    asks,
    decides,
    dispatched,
    ends,
    fails,
    given,
    plans,
    says,
    settled,
    started,
    told,
    unknown,
)

MORE = (Text(content="more"),)


def _kinds(events: Any) -> list[str]:
    return [type(event).__name__ for event in events]


def _refuses(past: Past, command: Any, error: type[ForkpointError]) -> ForkpointError:
    before = past.state
    with pytest.raises(error) as refused:
        past.when(command)
    assert past.state is before
    assert "nothing was written" in str(refused.value)
    return refused.value


# ── start and send ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_starts_with_its_agent_as_it_was_and_its_first_input() -> None:
    assert start(Start(agent=agent())) == (RunStarted(agent=agent()),)
    events = start(Start(agent=agent(), input=MORE, actor="ann"))
    assert events == (RunStarted(agent=agent(), actor="ann"), InputReceived(parts=MORE, actor="ann"))


def test_a_run_that_has_started_does_not_start_again() -> None:
    assert given(started()).when(Start(agent=agent())) == ()


def test_an_input_begins_a_turn_or_queues_while_the_run_is_busy() -> None:
    rests = given(started(None), Send(parts=MORE))
    assert (rests.state.turn, rests.state.inputs != (), rests.state.queue) == (1, True, ())
    busy = rests.after(Send(parts=MORE))
    assert (busy.state.turn, len(busy.state.queue)) == (1, 1)
    assert (busy.after(says()).state.turn, busy.after(says()).state.status) == (2, "running")


def test_an_input_sent_again_under_its_key_is_one_input_and_another_under_that_key_is_refused() -> None:
    past = given(started(None), Send(parts=MORE, key="k"))
    assert past.when(Send(parts=MORE, key="k")) == ()
    assert _kinds(past.when(Send(parts=MORE))) == ["InputReceived"]
    assert _refuses(past, Send(parts=(Text(content="other"),), key="k"), InputKeyReused).key == "k"


@pytest.mark.parametrize(
    "command",
    [
        Send(parts=MORE),
        Pause(),
        Unpause(),
        Interrupt(),
        ChangeAgent(agent=agent(), differences=("x",)),
    ],
)
def test_a_stopped_run_takes_nothing_more(command: Any) -> None:
    _refuses(given(started(), Stop()), command, RunIsStopped)


# ── advance and plan ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_is_asked_with_what_is_new_since_it_was_last_asked() -> None:
    past = given(started(), asks("look", "mail"), dispatched(), ends("look", 1), fails("mail"))
    look, request = past.events[-2].seq, past.when(Advance(by="p"))[0]
    assert isinstance(request, EffectRequested) and isinstance(request.effect, ModelCall)
    first, second = request.effect.add
    assert first == look
    assert second == past.state.messages[-1]


def test_requests_and_dispatches_share_one_append() -> None:
    past = given(started())
    assert _kinds(past.when(Advance(by="p"))) == ["EffectRequested", "EffectDispatched"]


def test_nothing_is_due_twice() -> None:
    past = given(started(), dispatched())
    assert past.when(Advance(by="q")) == ()


def test_calls_are_requested_once_each_with_what_decides_about_them() -> None:
    past = given(started(), asks("mail", "wire", "ask", planned=False))
    events = past.when(plans(past))
    assert _kinds(events) == ["EffectRequested", "EffectRequested", "ApprovalRequested", "EffectRequested"]
    calls = [event.effect for event in events if isinstance(event, EffectRequested)]
    assert all(isinstance(call, ToolCall) and call.arguments is None for call in calls)
    assert [call.call for call in calls] == [0, 1, 2]  # type: ignore[union-attr]
    assert past.after(plans(past)).when(Plan(plans=())) == ()


def test_a_call_that_is_refused_or_on_record_is_settled_as_it_is_requested() -> None:
    past = given(started(), asks("mail", "look", planned=False))
    refused = CallPlan(tool="mail", refused=Failed(error="InvalidArguments", text="of: not a number"))
    recorded = CallPlan(tool="look", recovery=Recovery.REPEAT, recorded=(3, Succeeded(value="then")))
    past = past.after(Plan(plans=(refused, recorded)))
    settles = [one.event for one in past.events[-4:] if isinstance(one.event, EffectSettled)]
    assert [(one.attempt, one.source) for one in settles] == [(0, None), (0, 3)]
    assert told(past.state)[3:] == [
        ("c1", {"error": "InvalidArguments", "message": "of: not a number"}),
        ("c2", "then"),
    ]
    assert past.state.sources == {3}
    assert past.state.spent.cost_unknown == 0


def test_plans_that_come_after_an_interrupt_are_dropped() -> None:
    """The model's answer and the plans for its calls are one append; an interrupt may get in before it."""
    past = given(started(), dispatched(), Interrupt())
    answer = settled(past, "", Succeeded(message=assistant("", CallPart(id="c1", name="mail"))))
    past = past.after(answer, Plan(plans=(TOOLS["mail"].plan(CallPart(id="c1", name="mail")),)))
    assert past.state.effects == {}
    assert past.state.status == "idle"
    assert told(past.state)[-1][1]["message"] == "cancelled before it ran"


@pytest.mark.parametrize("end", [Interrupt(), Stop()])
def test_nothing_is_planned_in_a_run_that_is_called_off(end: Any) -> None:
    past = given(started(), asks("mail", "look", planned=False), dispatched())
    command = plans(past)
    assert past.after(end).when(command) == ()


def test_a_tools_changes_to_the_state_come_with_its_outcome() -> None:
    past = given(started(), asks("mail"), dispatched())
    events = past.when(settled(past, "mail", Succeeded(value=1), set={"n": 1}, unset=("m",)))
    assert events[1:] == (StateChanged(effect=6, set={"n": 1}, unset=("m",)),)


# ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_is_on_record_first_and_bound_to_the_tool_and_its_arguments() -> None:
    past = given(started(), asks("wire"))
    asked = past.events[-1].event
    assert asked == ApprovalRequested(effect=6, digest=value_digest(["wire", {"of": "c1"}]))
    assert past.state.status == "waiting"
    assert past.when(Advance(by="p")) == ()


def test_an_allowed_call_runs_once() -> None:
    past = given(started(), asks("wire"), decides("wire", actor="ann"))
    assert isinstance(past.events[-1].event, ApprovalDecided)
    assert _kinds(past.when(Advance(by="p"))) == ["EffectDispatched"]


def test_an_approval_covers_every_attempt_at_the_one_call_and_no_other() -> None:
    past = given(started(), asks("wire"), decides("wire"), dispatched(), ends("wire"), asks("wire"))
    assert past.state.status == "waiting"


def test_a_denial_is_the_answer_that_the_model_sees() -> None:
    past = given(started(), asks("wire", "look"), decides("wire", "denied", reason="too much"))
    assert told(past.state)[3] == ("c1", {"error": "denied", "message": "too much"})
    assert isinstance(past.effect("wire").outcome, Cancelled)
    assert _kinds(past.when(Advance(by="p"))) == ["EffectDispatched"]
    assert "did not allow" in told(given(started(), asks("wire"), decides("wire", "denied")).state)[2][1]["message"]


def test_edited_arguments_are_what_runs_and_are_told_as_edited() -> None:
    past = given(started(), asks("wire"), decides("wire", "edited", arguments={"of": "less"}, actor="ann"))
    assert past.effect("wire").holder.arguments == {"of": "less"}  # type: ignore[union-attr]
    past = past.after(dispatched(), ends("wire"), says())
    assert told(past.state)[1] == "wire(c1)"
    assert '[note] ann changed the arguments of wire before it ran, to {"of":"less"}.' in told(past.state)


@pytest.mark.parametrize("decision", [None, "yes", 1, 0, True, "Allowed", ""])
def test_whatever_is_not_a_yes_is_a_no(decision: Any) -> None:
    past = given(started(), asks("wire"), decides("wire", decision))
    (event,) = (one.event for one in past.events[-1:])
    assert isinstance(event, ApprovalDecided) and event.decision == "denied"
    assert not any(isinstance(one, EffectDispatched) and one.effect == 6 for one in past.when(Advance(by="p")))


def test_a_decision_about_other_arguments_is_refused() -> None:
    past = given(started(), asks("wire"))
    other = Decide(effect=6, decision="allowed", digest=value_digest(["wire", {"of": "c2"}]))
    assert _refuses(past, other, ApprovalOfOtherArguments).tool == "wire"  # type: ignore[attr-defined]


def test_the_same_decision_twice_is_one_and_another_is_refused_naming_both() -> None:
    past = given(started(), asks("wire"))
    digest = past.effect("wire").digest
    yes, no = (Decide(effect=6, decision=one, digest=digest) for one in ("allowed", "denied"))
    less, least = (Decide(effect=6, decision="edited", digest=digest, arguments=one) for one in (1, 2))
    for first, second in ((yes, no), (no, yes), (yes, less), (less, least)):
        decided = past.after(first)
        assert decided.when(first) == ()
        refused = _refuses(decided, second, ApprovalDecidedAlready)
        assert refused.decided != refused.asked  # type: ignore[attr-defined]
        assert decided.after(Stop()).when(first) == ()


@pytest.mark.parametrize("moves", [(asks("mail"),), (asks("wire"), dispatched(), Interrupt())])
def test_what_asks_for_no_approval_takes_none(moves: Any) -> None:
    _refuses(given(started(), *moves), Decide(effect=6, decision="allowed", digest=""), ApprovalNotAsked)
    _refuses(given(started()), Decide(effect=77, decision="allowed", digest=""), ApprovalNotAsked)


def test_a_resolution_is_never_an_approval() -> None:
    past = given(started(), asks("wire"))
    with pytest.raises(ForkpointError):
        past.when(Resolve(effect=6, verdict="not_occurred"))


def test_several_questions_are_each_decided_on_their_own() -> None:
    past = given(started(), asks("wire", "wire", "wire"))
    effects = [wait.effect for wait in past.state.waits]
    assert len(set(effects)) == 3
    for effect, decision in zip(effects, ("denied", "allowed", "denied"), strict=True):
        digest = past.state.effects[effect].digest
        past = past.after(Decide(effect=effect, decision=decision, digest=digest, reason=f"about {effect}"))
    assert [event.effect for event in past.when(Advance(by="p")) if isinstance(event, EffectDispatched)] == [effects[1]]
    assert [one[1]["message"] for one in told(past.state)[4::2]] == [f"about {effects[0]}", f"about {effects[2]}"]


# ── answers from outside ─────────────────────────────────────────────────────────────────────────────────────


def test_an_external_call_is_never_dispatched_and_settled_by_its_answer() -> None:
    past = given(started(), asks("ask"))
    assert past.when(Advance(by="p")) == ()
    (event,) = past.when(Answer(effect=6, value="blue", actor="ann"))
    assert event == EffectSettled(effect=6, outcome=Succeeded(value="blue"), attempt=0, call="c1", actor="ann")
    past = past.after(Answer(effect=6, value="blue"))
    assert told(past.state)[2] == ("c1", "blue")
    assert past.when(Answer(effect=6, value="blue")) == ()
    _refuses(past, Answer(effect=6, value="red"), AnswerNotAwaited)
    _refuses(past.after(says()), Answer(effect=6, value="blue"), AnswerNotAwaited)


@pytest.mark.parametrize("effect", [1, 4, 6, 99])
def test_an_answer_that_nothing_waits_for_is_refused(effect: int) -> None:
    _refuses(given(started(), asks("mail"), dispatched()), Answer(effect=effect, value=1), AnswerNotAwaited)


def test_an_answer_is_not_taken_before_its_call_is_allowed_or_once_the_run_is_stopped() -> None:
    past = given(started(), asks("wire", planned=False))
    plan = CallPlan(tool="wire", gated=True, external=True, digest="d")
    past = past.after(Plan(plans=(plan,)))
    _refuses(past, Answer(effect=6, value=1), AnswerNotAwaited)
    past = past.after(decides("wire"))
    assert [wait.kind for wait in past.state.waits] == ["question"]
    assert _kinds(past.when(Answer(effect=6, value=1))) == ["EffectSettled"]
    _refuses(past.after(Stop()), Answer(effect=6, value=1), RunIsStopped)


# ── another definition ───────────────────────────────────────────────────────────────────────────────────────


def test_another_definition_is_on_record_with_its_differences() -> None:
    past = given(started())
    other = agent(attempts=9)
    assert past.when(ChangeAgent(agent=other, differences=())) == ()
    events = past.when(ChangeAgent(agent=other, differences=("attempts: 3, now 9",), actor="ann"))
    assert events == (AgentChanged(agent=other, differences=("attempts: 3, now 9",), actor="ann"),)
    after = past.after(*events)
    assert after.state.agent == other and after.state.agent_digest != past.state.agent_digest


@pytest.mark.parametrize(
    "moves", [(asks("mail"),), (asks("mail", planned=False),), (asks("mail"), dispatched(), unknown("mail"))]
)
def test_a_definition_without_the_tool_of_a_pending_call_is_refused(moves: Any) -> None:
    from msgspec.structs import replace

    less = replace(agent(), tools=tuple(tool for tool in agent().tools if tool.name != "mail"))
    past = given(started(), *moves)
    refused = _refuses(past, ChangeAgent(agent=less, differences=("without mail",)), AgentToolGone)
    assert refused.tools == "mail"  # type: ignore[attr-defined]
    done = given(started(), asks("mail"), dispatched(), ends("mail"))
    assert _kinds(done.when(ChangeAgent(agent=less, differences=("without mail",)))) == ["AgentChanged"]


def test_a_later_attempt_waits_until_it_is_due() -> None:
    past = given(
        started(), asks("charge"), dispatched(), fails("charge", "ConnectionError", doubtful=True, transient=True)
    )
    assert past.when(Advance(by="p"), later_ms=499) == ()
    assert _kinds(past.when(Advance(by="p"), later_ms=500)) == ["EffectDispatched"]
    assert past.after(advanced(later_ms=500)).effect("charge").attempt == 2
