"""A run told as steps: from its history, its state, or plain messages."""

import pytest
from lived import Lived

from forkpoint.commands import Advance, Decide, Interrupt, Resolve
from forkpoint.definition import AgentRecord
from forkpoint.effects import Recovery
from forkpoint.errors import NotComparable, ReplayNoHistory
from forkpoint.events import ResultPatch, RunForked
from forkpoint.messages import CallPart, Message, Reasoning, Text, Usage, answer, assistant, user
from forkpoint.outcomes import Failed, Succeeded, Unknown
from forkpoint.timetravel.trajectory import Trajectory, trajectory


def call(name: str, id: str = "c", **arguments: object) -> CallPart:
    return CallPart(id=id, name=name, arguments=arguments)


def keys(told: Trajectory) -> list[tuple[object, ...]]:
    return [
        (step.number, step.text, [(one.name, one.canonical_arguments, one.result, one.answered) for one in step.calls])
        for step in told.steps
    ]


def test_a_history_is_told_step_by_step_with_what_each_cost() -> None:
    lived = Lived().start("find it")
    lived.respond(
        Message(role="assistant", parts=(Reasoning(content="hm"), Text(content="I look"), call("search", q="x"))),
        usage=Usage(input_tokens=7, output_tokens=3),
        cost=0.5,
    )
    lived.ask("search").end(0, Succeeded(value=["hit"])).respond(assistant("done"))
    told = trajectory(lived.history)
    first, second = told.steps
    assert (first.number, first.turn, first.text, first.reasoning) == (1, 1, "I look", "hm")
    assert (first.usage, first.cost, first.ms, first.attempts) == (Usage(input_tokens=7, output_tokens=3), 0.5, 40, 1)
    assert (first.agent, first.model, first.heard) == ("coder", "test:one", (user("find it"),))
    (one,) = first.calls
    assert (one.name, one.arguments, one.status, one.result) == ("search", {"q": "x"}, "succeeded", ["hit"])
    assert (one.recovery, one.attempts, one.ms) == ("hold", 1, 10)
    assert lived.history[one.effect - 1].event.effect.tool == "search"  # type: ignore[operator, union-attr]
    assert (second.finish_reason, told.finish_reason, told.status, told.ms) == ("stop", "stop", "idle", 90)


def test_a_state_and_a_history_tell_the_same_steps() -> None:
    lived = Lived().start().step("search", {"n": 1}).step("read", Failed(error="NotFound", text="no"))
    lived.say("and now?").respond(assistant("", call("mail"), call("mail")))
    lived.ask("mail", "mail").end(1, Succeeded(value="sent"))
    assert lived.state is not None
    of_state, of_history = trajectory(lived.state), trajectory(lived.history)
    assert keys(of_state) == keys(of_history)
    assert [step.turn for step in of_state.steps] == [step.turn for step in of_history.steps]
    assert [one.status for one in of_state.steps[-1].calls] == ["open", "succeeded"]
    assert of_state.steps[1].calls[0].error == "NotFound"


def test_one_call_id_used_again_and_again_is_never_confused() -> None:
    lived = Lived().start().step("search", "first", id="c").step("search", "second", id="c")
    messages = [
        assistant("", call("a"), call("b")),
        answer("c", "of a"),
        answer("c", "of b"),
        assistant("", call("a")),
        answer("c", "again"),
    ]
    assert [step.calls[0].result for step in trajectory(lived.history).steps] == ["first", "second"]
    assert [[one.result for one in step.calls] for step in trajectory(messages).steps] == [["of a", "of b"], ["again"]]


def test_parallel_calls_of_one_id_keep_their_own_results_while_one_is_open() -> None:
    lived = Lived().start().respond(assistant("", call("read", n=1), call("read", n=2))).ask("read", "read")
    lived.end(1, Succeeded(value="two"))
    for told in (trajectory(lived.history), trajectory(lived.state)):  # type: ignore[arg-type]
        assert [one.status for one in told.steps[0].calls] == ["open", "succeeded"]
        assert [one.result for one in told.steps[0].calls] == [None, "two"]


def test_every_ending_of_a_call_is_told_as_what_it_was() -> None:
    lived = Lived().start().respond(assistant("", *(call("mail", id=f"c{n}") for n in range(3))))
    lived.ask("mail", "mail", "mail")
    lived.end(0, Failed(error="Bounced", text="no such address")).end(0, Unknown(because="lost"))
    told = trajectory(lived.history).steps[0].calls
    assert [one.status for one in told] == ["failed", "unknown", "open"]
    assert told[0].error == "Bounced"
    lived.end(0, Succeeded(value=1)).do(Resolve(effect=told[1].effect, verdict="abandoned_unknown"))  # type: ignore[arg-type]
    told = trajectory(lived.history).steps[0].calls
    assert [(one.status, one.finding) for one in told] == [
        ("failed", None),
        ("unknown", "abandoned_unknown"),
        ("succeeded", None),
    ]


def test_a_denied_call_and_an_edited_one_are_told_so() -> None:
    lived = Lived().start().respond(assistant("", call("mail", id="c1"), call("mail", id="c2", to="a")))
    lived.ask("mail", "mail", gated=True)
    first, second = [wait.effect for wait in lived.state.waits]  # type: ignore[union-attr]
    lived.do(Decide(effect=first, decision="denied", digest="d", reason="no"))
    lived.do(Decide(effect=second, decision="edited", digest="d", arguments={"to": "b"}))
    one, two = trajectory(lived.history).steps[0].calls
    assert (one.status, one.error) == ("denied", "denied")
    assert (two.arguments, two.performed_with) == ({"to": "a"}, {"to": "b"})


def test_calls_that_an_interrupt_kept_from_running_are_cancelled() -> None:
    lived = Lived().start().respond(assistant("", call("mail"))).do(Interrupt())
    assert [one.status for one in trajectory(lived.history).steps[0].calls] == ["cancelled"]
    lived.say("go on").respond(assistant("ok"))
    for told in (trajectory(lived.history), trajectory(lived.state)):  # type: ignore[arg-type]
        assert (told.steps[0].calls[0].status, told.steps[1].turn) == ("cancelled", 2)


def test_a_run_whose_last_model_call_failed_ends_in_the_errors_name_without_tokens() -> None:
    lived = Lived().start().respond(assistant("", call("read")), usage=Usage(input_tokens=9)).ask("read")
    lived.end(0, Succeeded(value=1))
    lived.do(Advance(by="p")).end(0, Failed(error="Overloaded", text="busy"))
    told = trajectory(lived.history)
    assert (told.finish_reason, told.usage, told.tokens, told.count) == ("Overloaded", None, 9, 1)


def test_a_patched_result_is_the_forks_own() -> None:
    lived = Lived().start().step("search", {"due": 12}).respond(assistant("done"))
    effect = trajectory(lived.history).steps[0].calls[0].effect
    assert effect is not None
    patch = RunForked(
        parent="r", at=1, parent_head=1, tool_results=(ResultPatch(effect=effect, call="c", value={"due": 0}),)
    )
    child = lived.fork("child", patch)
    told = trajectory(child.history)
    assert (told.steps[0].calls[0].result, told.steps[0].calls[0].patched) == ({"due": 0}, True)
    assert trajectory(lived.history).steps[0].calls[0].result == {"due": 12}


def test_an_orphan_answer_is_kept_as_something_that_was_said() -> None:
    stray = answer("nobody", "words")
    told = trajectory([user("hi"), stray, assistant("yes"), stray])
    assert (told.steps[0].heard, told.after) == ((user("hi"), stray), (stray,))


def test_a_late_answer_finds_its_call() -> None:
    told = trajectory([assistant("", call("read")), user("and?"), answer("c", 5), assistant("ok")])
    assert (told.steps[0].calls[0].result, told.steps[1].heard) == (5, (user("and?"),))


def test_only_the_steps_after_a_state_are_told_with_their_numbers() -> None:
    lived = Lived().start().step("search", 1).step("read", 2)
    middle = lived.state
    assert middle is not None
    lived.step("edit", 3).respond(assistant("done"))
    told = trajectory(lived.history[middle.seq :], after=middle)
    assert ([step.number for step in told.steps], told.missing, told.count) == ([3, 4], 2, 4)
    assert keys(told) == keys(trajectory(lived.history))[2:]


def test_arguments_that_are_text_are_compared_as_the_json_they_are() -> None:
    one = CallPart(id="1", name="t", arguments='{"b": 1,\n "a": 2}')
    told = trajectory([assistant("", one, CallPart(id="2", name="t", arguments="{oops"))])
    assert [made.canonical_arguments for made in told.steps[0].calls] == ['{"a":2,"b":1}', "{oops"]


def test_what_is_no_run_is_refused() -> None:
    for wrong in ("text", 5, [1], [user("a"), 2], AgentRecord(name="x")):
        with pytest.raises(NotComparable):
            trajectory(wrong)  # type: ignore[arg-type]
    lived = Lived().start().step("search", 1)
    with pytest.raises(ReplayNoHistory):
        trajectory(lived.history[1:])


def test_nothing_is_a_trajectory_without_steps() -> None:
    assert trajectory([]).count == 0


def test_recovery_and_attempts_of_a_call_are_told() -> None:
    lived = Lived().start().respond(assistant("", call("read"))).ask("read", recovery=Recovery.REPEAT)
    (one,) = trajectory(lived.state).steps[0].calls  # type: ignore[arg-type]
    assert (one.status, one.recovery) == ("open", "repeat")
