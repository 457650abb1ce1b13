"""Pydantic AI's messages as Forkpoint's: each part converted once a run, and again where somebody changed it."""

import asyncio
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra 'pydantic-ai' is not installed")

from pydantic_ai import Agent
from pydantic_ai import messages as theirs
from pydantic_ai.models.function import FunctionModel

import forkpoint as fp
import forkpoint.adapters.pydantic_ai_heard as heard_module
from forkpoint.adapters.pydantic_ai import Forkpoint
from forkpoint.adapters.pydantic_ai_backend import Backend
from forkpoint.adapters.pydantic_ai_heard import Heard
from forkpoint.adapters.pydantic_ai_messages import MARK, dumped_of, rest_of, to_ours, to_response
from forkpoint.messages import Message, ResponsePart, Text


def talk(steps: int) -> list[Any]:
    """A conversation of so many calls and their results."""
    told: list[Any] = [theirs.ModelRequest(parts=[theirs.UserPromptPart("go")])]
    for step in range(steps):
        called = theirs.ToolCallPart("look", {"n": step}, tool_call_id=f"c{step}")
        told.append(theirs.ModelResponse(parts=[called], model_name="m", provider_name="p"))
        told.append(theirs.ModelRequest(parts=[theirs.ToolReturnPart("look", {"n": step}, tool_call_id=f"c{step}")]))
    return told


async def recorded(steps: int) -> str:
    """What an agent comes to that makes so many calls in a recorded function."""

    def speak(messages: list[Any], info: Any) -> theirs.ModelResponse:
        said = sum(1 for one in messages if one.kind == "response")
        asks = theirs.ToolCallPart("look", {"n": said}, tool_call_id=f"c{said}")
        return theirs.ModelResponse(parts=[asks if said < steps else theirs.TextPart("done")])

    agent: Agent[Any, Any] = Agent(FunctionModel(speak), capabilities=[Forkpoint()])

    @agent.tool_plain
    async def look(n: int) -> dict[str, int]:
        return {"n": n}

    async def answer() -> str:
        return (await agent.run("go")).output  # type: ignore[no-any-return]

    async with fp.connect("memory:") as runtime:
        return await runtime.record("r", answer)


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many parts and responses were converted."""
    count: Counter[str] = Counter()
    asked, ours = heard_module.asked, heard_module.to_ours

    def counting_asked(part: Any) -> Any:
        count["parts"] += 1
        return asked(part)

    def counting_ours(response: Any) -> Message:
        count["responses"] += 1
        return ours(response)

    monkeypatch.setattr(heard_module, "asked", counting_asked)
    monkeypatch.setattr(heard_module, "to_ours", counting_ours)
    return count


def test_every_message_is_converted_once_however_often_it_is_told(converted: Counter[str]) -> None:
    """Also where Pydantic AI puts the same parts into messages made anew, as it does at every step."""
    heard, told = Heard(), talk(50)
    before: list[Message] = []
    for upto in range(1, len(told) + 1, 2):
        made_anew = [type(one)(parts=list(one.parts)) if one.kind == "request" else one for one in told[:upto]]
        now = heard.messages(made_anew)
        assert all(one is other for one, other in zip(before, now, strict=False))
        before = now
    assert converted == {"parts": 51, "responses": 50}


def test_in_a_recorded_run_every_part_is_converted_once_and_what_is_on_record_not_at_all(
    converted: Counter[str],
) -> None:
    assert asyncio.run(recorded(20)) == "done"
    assert converted == {"parts": 21}


def test_the_operations_of_a_model_are_bound_once_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: Counter[Any] = Counter()
    bind = Backend.bind

    def counting(backend: Backend, operation: Any) -> Any:
        bound[type(operation.operation_id).__name__, getattr(operation.operation_id, "streaming", None)] += 1
        return bind(backend, operation)

    monkeypatch.setattr(Backend, "bind", counting)
    assert asyncio.run(recorded(20)) == "done"
    assert bound["ModelRequestId", False] == 1


def test_a_part_that_was_changed_in_place_is_converted_again() -> None:
    heard, told = Heard(), talk(2)
    first = heard.messages(told)
    told[2].parts[0].content["n"] = "changed"
    told[0].parts[0].content = "go on"
    told[3].parts[0].args = {"n": "edited"}
    again = heard.messages(told)
    assert again[0].text == "go on"
    assert again[2].parts[0].response == {"n": "changed"}  # type: ignore[union-attr]
    assert again[3].calls[0].arguments == {"n": "edited"}
    assert [one is other for one, other in zip(first, again, strict=True)] == [False, True, False, False, True]


@pytest.mark.parametrize(
    "part",
    [
        theirs.SystemPromptPart("a"),
        theirs.UserPromptPart("a"),
        theirs.UserPromptPart(["a", "b"]),
        theirs.ToolReturnPart("look", {"n": [1]}, tool_call_id="c1"),
        theirs.RetryFeedbackPart("a", retry=theirs.RetryInfo("model_retry")),
        theirs.TextPart("a"),
        theirs.ThinkingPart("a"),
        theirs.ToolCallPart("look", {"n": [1]}, tool_call_id="c1"),
        theirs.NativeToolCallPart("find", {"n": [1]}, tool_call_id="c1"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_whichever_field_of_a_part_is_set_anew_is_seen(part: Any) -> None:
    said = isinstance(part, theirs.TextPart | theirs.ThinkingPart | theirs.ToolCallPart | theirs.NativeToolCallPart)
    told = [theirs.ModelResponse(parts=[part]) if said else theirs.ModelRequest(parts=[part])]
    values = {"args": {"n": [2]}, "content": "b", "outcome": "failed", "provider_details": {"x": 1}}
    for field in fields(part):
        if field.name in (
            "part_kind",
            "tool_kind",
            "timestamp",
            "metadata",
            "citations",
            "content_file_digests",
            "retry",
        ):
            continue
        heard = Heard()
        heard.messages(told)
        before = getattr(part, field.name)
        setattr(part, field.name, values.get(field.name, "another"))
        assert heard.messages(told) == Heard().messages(told)
        setattr(part, field.name, before)
        assert heard.messages(told) == Heard().messages(told)


def test_what_lies_deep_in_a_field_and_is_changed_there_is_seen() -> None:
    result, asks, details = {"n": [1]}, {"n": [1]}, {"n": [1]}
    called = theirs.ToolCallPart("look", asks, tool_call_id="c1", provider_details=details)
    response = theirs.ModelResponse(parts=[called], provider_details={"n": [1]})
    heard = Heard()
    told = [response, theirs.ModelRequest(parts=[theirs.ToolReturnPart("look", result, tool_call_id="c1")])]
    heard.messages(told)
    for held in (result, asks, details, response.provider_details):
        held["n"].append(2)  # type: ignore[index]
        assert heard.messages(told) == Heard().messages(told)


def test_what_was_heard_stays_as_it_was_however_often_it_is_changed_in_place_afterwards() -> None:
    asks: dict[str, Any] = {"n": [1]}
    heard, told = Heard(), [theirs.ModelResponse(parts=[theirs.ToolCallPart("look", asks, tool_call_id="c1")])]
    first = heard.messages(told)
    asks["n"].append(2)
    second = heard.messages(told)
    asks["n"].append(3)
    assert [one[0].calls[0].arguments for one in (first, second, heard.messages(told))] == [
        {"n": [1]},
        {"n": [1, 2]},
        {"n": [1, 2, 3]},
    ]


def test_a_response_made_anew_around_the_same_parts_is_looked_at_in_its_own_right() -> None:
    heard, told = Heard(), talk(1)
    heard.messages(told)
    told[1] = replace(told[1])
    heard.messages(told)
    told[1].metadata = {"seen": True}
    assert heard.messages(told)[1] == to_ours(told[1])


def test_parts_that_were_put_in_taken_out_or_exchanged_in_place_are_seen() -> None:
    heard, told = Heard(), talk(3)
    heard.messages(told)
    told[2].parts[0] = theirs.ToolReturnPart("look", "another", tool_call_id="c0")
    told[4].parts.append(theirs.UserPromptPart("and"))
    told[5].parts.insert(0, theirs.TextPart("so"))
    del told[6].parts[:]
    assert heard.messages(told) == Heard().messages(told)


def test_conversations_side_by_side_are_each_remembered(converted: Counter[str]) -> None:
    heard, talks = Heard(), [talk(5) for _ in range(4)]
    for upto in range(1, 12, 2):
        for told in talks:
            heard.messages(told[:upto])
    assert converted == {"parts": 4 * 6, "responses": 4 * 5}


def test_a_field_of_a_whole_response_that_was_changed_in_place_is_seen() -> None:
    heard, told = Heard(), talk(1)
    heard.messages(told)
    told[1].metadata = {"seen": True}
    assert heard.messages(told)[1] == to_ours(told[1])


def test_no_other_object_is_taken_for_one_that_is_gone() -> None:
    heard = Heard()
    for number in range(500):
        (message,) = heard.messages([theirs.ModelRequest(parts=[theirs.UserPromptPart(str(number))])])
        assert message.text == str(number)


def test_what_cannot_be_copied_is_converted_every_time() -> None:
    class Odd(theirs.TextContent):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("not this one")

    content: list[Any] = ["a", Odd("")]
    part, heard = theirs.UserPromptPart(content), Heard()
    for text in "ab":
        content[0] = text
        assert heard.messages([theirs.ModelRequest(parts=[part])])[0].text == text


def test_times_and_run_ids_are_no_part_of_what_is_asked() -> None:
    """They are new on every replay, and no provider is told of them."""
    first, again = Heard().messages(talk(2)), Heard().messages(talk(2))
    assert first == again


@pytest.mark.parametrize(
    ("part", "role", "words"),
    [
        (theirs.SystemPromptPart("rules"), "system", "rules"),
        (theirs.UserPromptPart(["a", theirs.TextContent("b"), theirs.CachePoint()]), "user", "ab"),
        (theirs.RetryFeedbackPart("longer", retry=theirs.RetryInfo("model_retry")), "user", "longer"),
    ],
)
def test_every_kind_of_part_has_its_role_and_its_words(part: Any, role: str, words: str) -> None:
    (message,) = Heard().messages([theirs.ModelRequest(parts=[part])])
    assert message.role == role
    assert words in message.text


@pytest.mark.parametrize("outcome", ["success", "failed", "denied", "retried"])
def test_a_result_says_how_the_call_ended(outcome: Any) -> None:
    part = theirs.ToolReturnPart("look", "so", tool_call_id="c1", outcome=outcome)
    (message,) = Heard().messages([theirs.ModelRequest(parts=[part])])
    extra = None if outcome == "success" else {MARK: {"outcome": outcome}}
    assert message == Message(role="tool", parts=(ResponsePart(id="c1", response="so", extra=extra),))


def test_a_response_comes_back_whole_from_its_message_and_the_rest() -> None:
    said = theirs.ModelResponse(
        parts=[theirs.TextPart("hi", id="m1")],
        usage=theirs.RequestUsage(input_tokens=3, output_tokens=4, details={"reasoning_tokens": 2}),
        model_name="gpt-5",
        provider_name="openai",
        provider_url="http://127.0.0.1",
        provider_details={"finish_reason": "completed"},
        provider_response_id="r1",
        finish_reason="stop",
        state="suspended",
        metadata={"a": [1]},
    )
    assert to_response(to_ours(said), rest_of(dumped_of(said), to_ours(said))) == said


def test_a_response_without_parts_comes_back_whole_too() -> None:
    said = theirs.ModelResponse(parts=[], model_name="m", provider_details={"a": 1}, finish_reason=None)
    assert to_response(to_ours(said), rest_of(dumped_of(said), to_ours(said))) == said


def test_what_the_message_says_already_is_not_recorded_beside_it() -> None:
    called = theirs.ToolCallPart("look", {}, tool_call_id="c1")
    for reason, more in (("tool_call", {}), (None, {"finish_reason": None}), ("stop", {"finish_reason": "stop"})):
        said = theirs.ModelResponse(parts=[called], model_name="m", finish_reason=reason)  # type: ignore[arg-type]
        dumped = dumped_of(said)
        assert rest_of(dumped, to_ours(said)) == {"timestamp": dumped["timestamp"], **more}


def test_a_record_that_says_everything_reads_as_one_that_does_not() -> None:
    said = theirs.ModelResponse(parts=[theirs.TextPart("hi")], model_name="m", finish_reason="stop")
    rest = rest_of(dumped_of(said), to_ours(said))
    whole = {**rest, "usage": {}, "state": "complete", "finish_reason": "stop"}
    assert to_response(to_ours(said), whole) == to_response(to_ours(said), rest) == said


def test_a_message_that_somebody_wrote_is_a_response_of_its_own() -> None:
    response = to_response(Message(role="assistant", parts=(Text(content="hi"),), finish_reason="stop"), None)
    assert (response.text, response.finish_reason, response.model_name) == ("hi", "stop", None)
