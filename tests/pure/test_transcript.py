"""The rule that every transcript keeps, and how one that does not is found and closed."""

from typing import Any

import pytest

from forkpoint._vector import Vector
from forkpoint.commands import Interrupt, Send, Settle
from forkpoint.errors import TranscriptInvalid
from forkpoint.messages import CallPart, Message, ResponsePart, Text, answer, assistant, user
from forkpoint.outcomes import Succeeded
from forkpoint.transcript import (
    chain_of,
    first_problem,
    known_messages,
    loose,
    request_digest,
    validate_transcript,
)
from given import asks, decides, dispatched, ends, given, says, started, told, unknown

C1, C2 = CallPart(id="1", name="t"), CallPart(id="2", name="t")
BOTH = assistant("", C1, C2)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], None),
        ([user("a"), assistant("b")], None),
        ([user("a"), BOTH, answer("1", 0), answer("2", 0), user("b")], None),
        ([BOTH, Message(role="tool", parts=(ResponsePart(id="1"), ResponsePart(id="2")))], None),
        ([assistant("", C1, C1), answer("1", 0), answer("1", 0)], None),
        ([BOTH, answer("1", 0)], (2, "no answer at the end")),
        ([BOTH, answer("2", 0), answer("1", 0)], (1, "where 1 is next")),
        ([BOTH, answer("1", 0), user("x"), answer("2", 0)], (2, "no answer before it")),
        ([BOTH, answer("1", 0), answer("1", 0)], (2, "where 2 is next")),
        ([BOTH, answer("1", 0), answer("2", 0), answer("2", 0)], (3, "no call before it awaits")),
        ([answer("1", 0)], (0, "no call before it awaits")),
        ([Message(role="tool", parts=(Text(content="x"),))], (0, "answers no call")),
        ([Message(role="user", parts=(ResponsePart(id="1"),))], (0, "answers a call")),
        ([Message(role="user", parts=(C1,))], (0, "makes a call")),
        ([BOTH, BOTH], (1, "no answer before it")),
    ],
)
def test_each_call_is_answered_once_in_order_before_anything_else(messages: Any, problem: Any) -> None:
    found = first_problem(messages)
    if problem is None:
        assert found is None
        validate_transcript(messages)
        return
    assert found is not None and found[0] == problem[0] and problem[1] in found[1]
    with pytest.raises(TranscriptInvalid) as refused:
        validate_transcript(messages)
    assert refused.value.index == problem[0]


@pytest.mark.parametrize(
    ("moves", "says_"),
    [
        ((asks("mail", planned=False),), "not performed yet"),
        ((asks("mail"),), "not performed yet"),
        ((asks("wire"),), "not performed yet"),
        ((asks("mail"), dispatched()), "outcome unknown: the call has no recorded result"),
        ((asks("mail"), dispatched(), unknown("mail")), "outcome unknown: the call has no recorded result"),
        ((dispatched(), Interrupt(), asks("mail", planned=False)), "cancelled before it ran"),
        ((asks("mail"), Interrupt()), "cancelled before it ran"),
        ((asks("look"), dispatched(), unknown("look")), "timeout"),
    ],
)
def test_an_open_call_is_answered_with_what_is_known_of_it(moves: Any, says_: str) -> None:
    state = given(started(), *moves).state
    assert first_problem(state.messages) is None
    assert told(state)[-1][1]["message"] == says_


def test_answers_stand_in_call_order_whatever_order_they_came_in() -> None:
    past = given(
        started(), asks("look", "mail", "charge"), dispatched(), ends("charge", 3), ends("look", 1), ends("mail", 2)
    )
    assert told(past.state)[4:] == [("c1", 1), ("c2", 2), ("c3", 3)]
    assert told(past.after(says()).state)[4:7] == [("c1", 1), ("c2", 2), ("c3", 3)]


def test_call_ids_that_come_again_are_told_apart() -> None:
    def settle(effect: int, value: int) -> Settle:
        return Settle(effect=effect, attempt=1, outcome=Succeeded(value=value))

    past = given(started(), asks("look", "look", ids=("x", "x")), dispatched())
    first, second = past.state.effects
    assert [slot.effect for slot in past.state.batch] == [first, second]
    past = past.after(ends("look", 1), settle(second, 2), says())
    assert told(past.state)[3:5] == [("x", 1), ("x", 2)]


def test_what_comes_while_calls_are_open_never_parts_them_from_their_answers() -> None:
    past = given(
        started(),
        asks("mail"),
        dispatched(),
        Send(parts=(Text(content="hurry"),)),
        ends("mail", 1),
        says("a"),
        says("b"),
    )
    assert told(past.state) == ["hello", "mail(c1)", ("c1", 1), "a", "hurry", "b"]


def test_what_is_known_leaves_out_placeholders_and_says_what_no_event_holds() -> None:
    past = given(started(), asks("look", "mail", "wire"), dispatched(), ends("look", 1), decides("wire", "denied"))
    known = known_messages(past.state)
    assert [message.role for message in known] == ["user", "assistant", "tool", "tool"]
    assert loose(past.state) == {3}


def test_a_request_is_named_by_the_agent_and_every_message_in_order() -> None:
    past = given(started())
    other = given(started(attempts=2))
    assert request_digest(past.state, ()) != request_digest(other.state, ())
    assert request_digest(past.state, (user("a"), user("b"))) != request_digest(past.state, (user("b"), user("a")))
    assert request_digest(past.state, (2,)) == request_digest(past.state, (past.state.messages[0],))


def test_the_chain_of_digests_is_the_same_however_it_was_come_by() -> None:
    past = given(started(), asks("look"), dispatched(), ends("look"), says())
    transcript = past.state.transcript
    fresh = transcript.holding(Vector(list(transcript.entries)))
    assert chain_of(fresh) == chain_of(transcript)
    assert chain_of(transcript.holding(transcript.entries.first(2))) != chain_of(transcript)


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_vector_grows_by_sharing_and_older_views_stay_what_they_were() -> None:
    one = Vector([1])
    two = one.append(2)
    assert one.shares(two) and not two.shares(one)
    other = one.append(3)
    assert (list(one), list(two), list(other)) == ([1], [1, 2], [1, 3])
    assert not one.shares(other)
    assert two.first(1) == one and len(two.first(9)) == 2


def test_a_vector_reads_like_a_list_of_its_own_length() -> None:
    view = Vector([1, 2, 3, 4]).first(3)
    assert (view[0], view[-1], view[1:], view[:9], view[::2], view[5:]) == (1, 3, [2, 3], [1, 2, 3], [1, 3], [])
    for place in (3, -4):
        with pytest.raises(IndexError):
            view[place]
    assert view != [1, 2, 3] and repr(view) == "Vector([1, 2, 3])" and list(reversed(view)) == [3, 2, 1]


def test_what_was_computed_of_a_longer_view_is_not_known_of_a_copy() -> None:
    one = Vector([1])
    two = one.append(2)
    two.memo[1], two.memo[2] = b"1", b"2"
    assert one.append(3).memo == {1: b"1"}
