"""Messages of LangChain and ours, both ways."""

from typing import Any

import msgspec
import pytest

pytest.importorskip("langchain_core", reason="the extra 'langgraph' is not installed")

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from forkpoint.adapters.langchain_messages import rest_of, to_ours, to_theirs, usage_of
from forkpoint.messages import CallPart, Message, Reasoning, Text, Usage, assistant, user

MESSAGES: list[BaseMessage] = [
    HumanMessage("hi", id="1"),
    HumanMessage("hi", name="bob", additional_kwargs={"a": [1]}),
    HumanMessage(""),
    HumanMessage(
        [
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image", "base64": "AAAA", "mime_type": "image/png", "id": "i"},
            {"type": "audio", "url": "x.wav"},
            {"type": "file", "file_id": "f1"},
            "plain",
        ]
    ),
    SystemMessage("s"),
    SystemMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "x"}}]),
    AIMessage(
        "x",
        id="lc",
        name="agent",
        tool_calls=[{"name": "a", "args": {"x": [1]}, "id": "c1"}, {"name": "b", "args": {}, "id": None}],
        invalid_tool_calls=[{"name": "z", "args": "{bad", "id": "c3", "error": "no JSON"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"finish_reason": "tool_calls", "model_name": "m", "logprobs": None},
        additional_kwargs={"refusal": None, "signatures": {"c1": "c2ln"}},
    ),
    AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "hello", "citations": [{"n": 1}]},
            {"type": "tool_use", "id": "c1", "name": "a", "input": {}},
        ],
        tool_calls=[{"name": "a", "args": {}, "id": "c1"}],
    ),
    AIMessage([{"type": "reasoning", "summary": [{"t": "x"}], "id": "rs_1", "encrypted_content": "e=="}]),
    AIMessage([{"type": "reasoning", "reasoning": "so", "extras": {"signature": "s"}}, {"type": "text", "text": "q"}]),
    AIMessage([]),
    AIMessage([{"type": "text", "text": "only"}]),
    AIMessage(""),
    ToolMessage("r", tool_call_id="c", name="t", artifact={"k": [1, 2]}, id="9"),
    ToolMessage("bad", tool_call_id="c", status="error"),
    ToolMessage([{"type": "text", "text": "x"}], tool_call_id="c"),
    ChatMessage("x", role="critic"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: f"{message.type}: {str(message.content)[:30]}")
def test_a_message_comes_back_to_the_last_field(message: BaseMessage) -> None:
    """A15, A21."""
    ours = msgspec.json.decode(msgspec.json.encode(to_ours(message)), type=Message)
    rest = msgspec.json.decode(msgspec.json.encode(rest_of(message)))
    again = to_theirs(ours, rest)
    assert type(again) is type(message)
    assert again.model_dump() == message.model_dump()


def test_what_a_model_is_shown_stands_in_the_parts() -> None:
    told = to_ours(MESSAGES[6])
    assert (told.role, told.text, told.finish_reason) == ("assistant", "x", "tool_call")
    assert [(one.id, one.name, one.arguments) for one in told.calls] == [
        ("c1", "a", {"x": [1]}),
        ("", "b", {}),
        ("c3", "z", "{bad"),
    ]
    thought, said, *_ = to_ours(MESSAGES[7]).parts
    assert isinstance(thought, Reasoning) and thought.content == "hm"
    assert isinstance(said, Text) and said.content == "hello"


def test_an_id_that_langchain_made_up_is_no_part_of_what_is_asked() -> None:
    assert to_ours(HumanMessage("hi", id="a")) == to_ours(HumanMessage("hi", id="b"))
    one, other = (ToolMessage("r", tool_call_id="c", id=name, artifact=[name]) for name in "ab")
    assert to_ours(one) == to_ours(other)


@pytest.mark.parametrize(
    "ours",
    [
        user("hi"),
        assistant("hello", CallPart(id="c", name="t", arguments={"a": 1})),
        Message(role="assistant", parts=(Reasoning(content="hm"), Text(content="so")), finish_reason="stop"),
        Message(role="system", parts=(Text(content="be brief"),)),
    ],
)
def test_a_message_that_never_was_langchains_becomes_one_that_says_the_same(ours: Message) -> None:
    again = to_ours(to_theirs(ours))
    assert (again.role, again.text, again.finish_reason) == (ours.role, ours.text, ours.finish_reason)
    assert [(one.id, one.arguments) for one in again.calls] == [(one.id, one.arguments) for one in ours.calls]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("tool_use", "tool_call"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        (None, "stop"),
    ],
)
def test_why_a_model_stopped_is_told_in_our_words(reason: Any, told: str) -> None:
    assert to_ours(AIMessage("x", response_metadata={"finish_reason": reason})).finish_reason == told


def test_usage_is_told_with_its_details() -> None:
    said = AIMessage(
        "x",
        usage_metadata={
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_token_details": {"cache_read": 4},
            "output_token_details": {"reasoning": 3},
        },
    )
    assert usage_of(said) == Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=3)
    assert usage_of(HumanMessage("x")) == Usage()


def test_metadata_that_is_no_json_is_kept_as_the_text_that_python_shows() -> None:
    rest = rest_of(AIMessage("x", response_metadata={"good": 1, "odd": {1j}}))
    assert rest["response_metadata"] == {"good": 1, "odd": "{1j}"}
