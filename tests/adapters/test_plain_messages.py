"""Requests and answers of the three APIs as data: nothing of an answer is lost, no two requests are taken for one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forkpoint as fp
from forkpoint.adapters.plain_chat import Chat, chat_tool
from forkpoint.adapters.plain_messages import Messages, message_tool
from forkpoint.adapters.plain_requests import Memory, result_of
from forkpoint.adapters.plain_responses import Responses, responses_tool
from forkpoint.messages import BlobPart, FilePart, Reasoning, ResponsePart, Text, UriPart, answer
from forkpoint.transcript import encode_message

CHAT, RESPONSES, MESSAGES = Chat(), Responses(), Messages()
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"path": "a"}'}}


def chat_body(message: dict[str, Any], reason: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason, "logprobs": None}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **more}


CHATS = {
    "a text": chat_body({"content": "hi", "refusal": None, "annotations": []}, system_fingerprint="fp_1"),
    "calls": chat_body({"content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]}, "tool_calls"),
    "arguments that are no JSON": chat_body(
        {"content": None, "tool_calls": [{**CALL, "function": {"name": "look", "arguments": '{"path": '}}]}, "length"
    ),
    "arguments without anything": chat_body(
        {"content": None, "tool_calls": [{**CALL, "function": {"name": "look", "arguments": ""}}]}, "tool_calls"
    ),
    "a tool that takes a text": chat_body(
        {"content": None, "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]},
        "tool_calls",
    ),
    "thoughts": chat_body({"content": "hi", "reasoning_content": "hm"}),
    "thoughts under the other name": chat_body({"content": "hi", "reasoning": "hm", "reasoning_details": [{"a": 1}]}),
    "a refusal": chat_body({"content": None, "refusal": "no"}),
    "annotations": chat_body(
        {"content": "hi", "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]}
    ),
    "a sound": chat_body({"content": None, "audio": {"id": "a", "data": "AAAA", "expires_at": 1, "transcript": "hi"}}),
    "the old way to call": chat_body(
        {"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"
    ),
    "nothing": chat_body({"content": ""}),
    "a filter": chat_body({"content": "hi"}, "content_filter"),
}
ITEMS: dict[str, list[dict[str, Any]]] = {
    "a text": [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}],
        }
    ],
    "two texts and a refusal": [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "one", "annotations": [{"type": "url_citation", "url": "u"}]},
                {"type": "refusal", "refusal": "no"},
                {"type": "output_text", "text": "two", "annotations": []},
            ],
        }
    ],
    "thoughts and calls": [
        {
            "type": "reasoning",
            "id": "r",
            "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "hm hm"}],
            "encrypted_content": "AAAA",
        },
        {
            "type": "function_call",
            "id": "f",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"path": "a"}',
            "status": "completed",
        },
    ],
    "a search of the provider's own": [
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}
    ],
}
BLOCKS: dict[str, list[dict[str, Any]]] = {
    "a text": [{"type": "text", "text": "hi", "citations": None}],
    "cited": [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two", "citations": [{"type": "char_location", "cited_text": "t"}]},
    ],
    "thoughts and calls": [
        {"type": "thinking", "thinking": "hm", "signature": "AAAA"},
        {"type": "redacted_thinking", "data": "BBBB"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"path": "a"}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {}, "caller": {"type": "direct"}},
    ],
    "a search of the provider's own": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "text", "text": ""},
    ],
}
ANSWERS = (
    [pytest.param(CHAT, body, id=f"chat: {name}") for name, body in CHATS.items()]
    + [
        pytest.param(
            RESPONSES,
            {"id": "x", "object": "response", "created_at": 1.5, "model": "m", "status": "completed", "output": items},
            id=f"responses: {name}",
        )
        for name, items in ITEMS.items()
    ]
    + [
        pytest.param(
            MESSAGES,
            {
                "id": "x",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": blocks,
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": 3,
                    "cache_read_input_tokens": 2,
                    "output_tokens": 1,
                    "service_tier": "standard",
                },
            },
            id=f"messages: {name}",
        )
        for name, blocks in BLOCKS.items()
    ]
)


@pytest.mark.parametrize(("dialect", "body"), ANSWERS)
def test_an_answer_comes_out_of_the_record_as_it_went_in(dialect: Any, body: dict[str, Any]) -> None:
    before = json.dumps(body)
    response = dialect.response(body)
    assert dialect.body(response.message, json.loads(json.dumps(response.rest)), "m") == body
    assert json.dumps(body) == before


@pytest.mark.parametrize(("dialect", "body"), ANSWERS)
def test_the_events_of_a_recorded_answer_put_together_are_that_answer(dialect: Any, body: dict[str, Any]) -> None:
    gather = dialect.gather()
    for event in dialect.events(body, [], {}):
        assert not gather.whole
        gather.add(event)
    assert gather.whole
    again = gather.body()
    assert says(dialect, again) == says(dialect, body)


def says(dialect: Any, body: dict[str, Any]) -> Any:
    """What an answer says, without what a stream does not tell apart."""
    response = dialect.response(body)
    return response.message, response.usage if dialect is not CHAT else None, body["id"], body["model"]


@pytest.mark.parametrize(("dialect", "body"), ANSWERS)
def test_what_a_model_said_is_the_same_message_when_it_is_sent_back(dialect: Any, body: dict[str, Any]) -> None:
    """Else every request would put it on record once more."""
    said = dialect.response(body).message
    memory = Memory()
    if dialect is CHAT:
        (again,) = dialect.request({"messages": [body["choices"][0]["message"]]}, memory).messages
    elif dialect is RESPONSES:
        (again,) = dialect.request({"input": body["output"]}, memory).messages
    else:
        (again,) = dialect.request({"messages": [{"role": "assistant", "content": body["content"]}]}, memory).messages
    if said.finish_reason in ("stop", "tool_call"):
        assert encode_message(again) == encode_message(said)
    else:  # a request does not say that an answer ended before its end
        assert again.parts == said.parts


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES])
def test_a_message_that_a_fork_puts_in_the_models_place_is_an_answer_too(dialect: Any) -> None:
    from forkpoint.testing.fakes import call, calls

    said = calls(call("look", id="c1", path="a"), text="Let me see.")
    body = dialect.body(said, None, "m-1")
    again = dialect.response(body).message
    assert (again.text, [(one.id, one.name, one.arguments) for one in again.calls]) == (
        "Let me see.",
        [("c1", "look", {"path": "a"})],
    )
    assert body["model"] == "m-1"


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

PICTURE = "data:image/png;base64,AAAA"
CONTENTS: list[Any] = [
    [{"role": "user", "content": "hi"}],
    [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}],
    [{"role": "user", "content": "hi", "name": "bo"}],
    [{"role": "user", "content": "h"}, {"role": "user", "content": "i"}],
    [{"role": "user", "content": "hi"}, {"role": "developer", "content": "x"}],
    [{"role": "user", "content": "hi"}, {"role": "system", "content": "x"}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}]}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}],
    [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}],
    [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}],
    [{"role": "user", "content": [{"type": "never_heard_of", "x": 1}]}],
    [{"role": "tool", "tool_call_id": "c", "content": "5"}],
    [{"role": "tool", "tool_call_id": "c", "content": '"5"'}],
    [{"role": "tool", "tool_call_id": "c", "content": "5.0"}],
    [{"role": "tool", "tool_call_id": "c", "content": '{"a": 1}'}],
    [{"role": "tool", "tool_call_id": "c", "content": '{"a":1}'}],
    [{"role": "tool", "tool_call_id": "d", "content": "5"}],
    [{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "5"}]}],
    [{"role": "assistant", "content": "hi"}],
    [{"role": "assistant", "content": [{"type": "text", "text": "hi"}]}],
    [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
    [{"role": "assistant", "content": "hi", "tool_calls": [CALL]}],
    [{"role": "assistant", "content": "hi", "name": "bo"}],
    [{"role": "function", "name": "f", "content": "hi"}],
]


def test_no_two_requests_that_differ_are_taken_for_one() -> None:
    memory = Memory()
    asked = [CHAT.request({"model": "m", "messages": messages}, memory) for messages in CONTENTS]
    told = [json.dumps([encode_message(one).decode() for one in request.messages]) for request in asked]
    assert len(set(told)) == len(CONTENTS)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, BlobPart),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, UriPart),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}, "title": "t"}, FilePart),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}, Text),
        ({"type": "thinking", "thinking": "hm", "signature": "AAAA"}, Reasoning),
    ],
)
def test_files_are_told_as_files(body: dict[str, Any], part: type) -> None:
    told = {"messages": [{"role": "assistant" if part is Reasoning else "user", "content": [body]}]}
    (message,) = MESSAGES.request(told, Memory()).messages
    assert isinstance(message.parts[0], part)


def test_each_result_of_a_tool_is_a_message_of_its_own_with_the_value_that_was_recorded() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": json.dumps({"a": "ü"})},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c3"},
        {"type": "text", "text": "and?"},
    ]
    told = MESSAGES.request({"messages": [{"role": "user", "content": results}]}, Memory()).messages
    assert [one.role for one in told] == ["tool", "tool", "tool", "user"]
    assert encode_message(told[0]) == encode_message(answer("c1", {"a": "ü"}))
    assert isinstance(told[1].parts[0], ResponsePart)
    assert told[1].parts[0].extra == {"anthropic": {"left": {"is_error": True}}}
    assert told[2].parts[0].extra


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_a_result_is_read_as_a_value_only_where_its_text_can_be_made_of_it_again(value: Any) -> None:
    text = json.dumps(value)
    found = result_of(text)
    assert found == text or json.dumps(found) == text


@given(st.text())
def test_a_result_that_is_no_json_stays_the_text_it_is(text: str) -> None:
    found = result_of(text)
    assert found == text or json.dumps(found) == text


@pytest.mark.parametrize(
    ("first", "instructions", "system"),
    [
        ({"role": "system", "content": "Be brief."}, "Be brief.", None),
        ({"role": "developer", "content": "Be brief."}, "Be brief.", {"role": "developer"}),
        (
            {"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
            "Be brief.",
            {
                "role": "system",
                "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}],
            },
        ),
    ],
)
def test_the_first_message_of_the_system_is_the_instructions(first: Any, instructions: str, system: Any) -> None:
    body = {"model": "m", "messages": [first, {"role": "user", "content": "hi"}]}
    asked = CHAT.request(body, Memory())
    assert (asked.instructions, asked.settings.get("system"), len(asked.messages)) == (instructions, system, 1)
    from msgspec.structs import replace

    assert CHAT.changed(body, asked, replace(asked, model="m-2")) == {**body, "model": "m-2"}
    other = CHAT.changed(body, asked, replace(asked, instructions="Be long."))
    assert other["messages"] == [{"role": first["role"], "content": "Be long."}, body["messages"][1]]
    none = CHAT.changed(body, asked, replace(asked, instructions=""))
    assert none["messages"] == body["messages"][1:]


def test_blocks_of_the_system_stay_blocks_until_a_fork_says_something_else() -> None:
    from msgspec.structs import replace

    blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    body = {"model": "m", "max_tokens": 5, "system": blocks, "messages": [{"role": "user", "content": "hi"}]}
    asked = MESSAGES.request(body, Memory())
    assert (asked.instructions, asked.settings) == ("Be brief.", {"max_tokens": 5, "system": blocks})
    assert MESSAGES.changed(body, asked, replace(asked, model="m-2")) == {**body, "model": "m-2"}
    assert MESSAGES.changed(body, asked, replace(asked, instructions="Be long."))["system"] == "Be long."


@fp.tool(read_only=True)
def look(path: str) -> str:
    """Look at a file."""
    return path


@pytest.mark.parametrize(
    ("dialect", "make", "hosted", "more"),
    [
        (CHAT, chat_tool, {"type": "custom", "custom": {"name": "sh"}}, {"function": {"strict": True}}),
        (RESPONSES, responses_tool, {"type": "web_search"}, {"strict": True}),
        (
            MESSAGES,
            message_tool,
            {"type": "web_search_20250305", "name": "web_search"},
            {"cache_control": {"type": "e"}},
        ),
    ],
)
def test_what_is_said_of_tools_survives_a_fork_that_changes_something_else(
    dialect: Any, make: Any, hosted: dict[str, Any], more: dict[str, Any]
) -> None:
    from msgspec.structs import replace

    tool = make(look)
    strict = {**tool, **{key: {**tool[key], **one} if key == "function" else one for key, one in more.items()}}
    body = {"model": "m", "messages": [], "input": [], "tools": [strict, hosted]}
    body.pop("input" if dialect is not RESPONSES else "messages")
    asked = dialect.request(body, Memory())
    assert [one.name for one in asked.tools] == ["look"]
    assert asked.tools[0].parameters == look.record().parameters
    assert dialect.changed(body, asked, replace(asked, model="m-2")) == {**body, "model": "m-2"}


def test_the_same_content_is_the_same_message_and_other_content_another() -> None:
    memory, message = Memory(), {"role": "user", "content": "one"}
    first = CHAT.request({"messages": [message]}, memory).messages[0]
    assert CHAT.request({"messages": [dict(message)]}, memory).messages[0] is first
    message["content"] = "two"
    assert CHAT.request({"messages": [message]}, memory).messages[0].text == "two"
    assert first.text == "one"
