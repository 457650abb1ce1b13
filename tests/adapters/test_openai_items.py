"""Items of OpenAI's Responses API as messages and back: what came is what goes."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from forkpoint.adapters.openai_items import items_of, message_of, messages_of, output_of, usage_of
from forkpoint.messages import (
    BlobPart,
    CallPart,
    FilePart,
    Message,
    Reasoning,
    ResponsePart,
    Text,
    UriPart,
    Usage,
    user,
)

CITED = {"type": "url_citation", "url": "https://example.com", "title": "t", "start_index": 0, "end_index": 1}
SAID: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "final_answer",
    "content": [{"type": "output_text", "text": "Hello ünd \u2028", "annotations": [CITED], "logprobs": []}],
}
TWO_PIECES = {**SAID, "content": [*SAID["content"], {"type": "refusal", "refusal": "I will not say more."}]}
REFUSED = {**SAID, "content": [{"type": "refusal", "refusal": "No."}]}
THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAA" + "x" * 5000,
    "status": None,
}
HIDDEN = {**THOUGHT, "summary": []}
OPEN = {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
CALLED: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "status": "completed",
    "call_id": "c1",
    "name": "look",
    "arguments": '{"path":"a.txt"}',
}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
NEW = {"type": "of_next_year", "id": "n1", "call_id": "c9", "payload": {"b": [1, 2.5, None], "a": "\u0000"}}
CUSTOM = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "sql", "input": "select 1"}
CLICKED = {"type": "computer_call", "id": "cu_1", "call_id": "c3", "action": {"type": "click"}, "status": "completed"}
RAN = {"type": "shell_call", "id": "sh_1", "call_id": "c4", "action": {"commands": ["ls"]}, "status": "completed"}
RAN_THERE = {"type": "shell_call_output", "id": "so_1", "call_id": "c4", "output": [{"stdout": "a"}]}
ASKED = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}", "server_label": "s"}

ITEMS = {
    "a text": SAID,
    "several pieces": TWO_PIECES,
    "a refusal": REFUSED,
    "reasoning": THOUGHT,
    "reasoning without words": HIDDEN,
    "reasoning in the open": OPEN,
    "a call": CALLED,
    "a hosted call": SEARCHED,
    "an item that nobody knows yet": NEW,
    "a custom tool": CUSTOM,
    "a computer": CLICKED,
    "a question of a hosted server": ASKED,
    "a message without content": {**SAID, "content": []},
}


def stored(message: Message) -> Message:
    """The message after it was written down and read again."""
    return msgspec.json.decode(msgspec.json.encode(message), type=Message)


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_an_item_of_an_answer_comes_back_as_it_came(item: dict[str, Any]) -> None:
    assert output_of(stored(message_of([item]))) == [item]


def test_the_items_of_an_answer_keep_their_order() -> None:
    output = [THOUGHT, SAID, SEARCHED, OPEN, TWO_PIECES, NEW, CALLED, {**CALLED, "id": "fc_2", "call_id": "c2"}]
    message = message_of(output)
    assert output_of(stored(message)) == output
    assert [part.id for part in message.calls] == ["c1", "c2"]
    assert message.text == "Hello ünd \u2028" * 2 + "I will not say more."


def test_what_an_item_says_is_in_the_words_of_messages() -> None:
    thought, again, said, called = message_of([THOUGHT, SAID, CALLED]).parts
    assert (type(thought), type(said), type(called)) == (Reasoning, Text, CallPart)
    assert (thought.content, again.content, said.content) == ("First.", "Then.", "Hello ünd \u2028")
    assert (called.id, called.name, called.arguments) == ("c1", "look", {"path": "a.txt"})
    assert thought.extra["openai"]["item"]["encrypted_content"] == THOUGHT["encrypted_content"]
    assert message_of([REFUSED]).text == "No."


def test_why_an_answer_ended_is_said() -> None:
    assert message_of([SAID]).finish_reason == "stop"
    assert message_of([SAID, CALLED]).finish_reason == "tool_call"
    assert message_of([SAID], finish_reason="length").finish_reason == "length"


def test_a_call_that_the_provider_answered_itself_is_no_call_for_us() -> None:
    message = message_of([RAN, RAN_THERE])
    assert message.calls == ()
    assert output_of(stored(message)) == [RAN, RAN_THERE]
    assert [part.name for part in message_of([RAN]).calls] == ["shell"]


def test_objects_of_the_client_are_read_as_the_dicts_that_they_were_made_of() -> None:
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

    objects = [
        ResponseReasoningItem.model_validate(THOUGHT),
        ResponseOutputMessage.model_validate(SAID),
        ResponseFunctionToolCall.model_validate(CALLED),
    ]
    assert message_of(objects) == message_of([THOUGHT, SAID, CALLED])
    assert messages_of(objects) == messages_of([THOUGHT, SAID, CALLED])
    assert output_of(message_of(objects)) == [THOUGHT, SAID, CALLED]


TEXTS = {
    "compact": '{"a":1,"b":"ü"}',
    "spaced": '{"a": 1, "b": "ü\\n"}',
    "ascii": '{"a": "\\u00fc"}',
    "of no usual form": '{ "a" :1e3 }',
    "with a key twice": '{"a":1,"a":2}',
    "no object": "[1, 2]",
    "no JSON": '{"a":',
    "not finite": '{"a":NaN}',
    "too large": '{"a":1e999}',
    "half a character": '{"a":"\\ud800"}',
    "nothing": "",
    "empty": "{}",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_calls_arguments_come_back_as_they_were_written(text: str) -> None:
    item = {**CALLED, "arguments": text}
    assert output_of(stored(message_of([item]))) == [item]


def test_a_text_that_escapes_in_no_usual_form_is_not_kept_beside_its_object() -> None:
    """A registered secret is found by its value; in a second copy that spells it with escapes it would stay."""
    (part,) = message_of([{**CALLED, "arguments": '{ "a": "h\\u0075nter2" }'}]).parts
    assert part.arguments == {"a": "hunter2"}
    assert "u0075" not in repr(part)
    assert json.loads(output_of(message_of([{**CALLED, "arguments": '{ "a": "h\\u0075nter2" }'}]))[0]["arguments"]) == {
        "a": "hunter2"
    }


def test_words_that_were_changed_are_the_words_that_are_said() -> None:
    message = message_of([THOUGHT, SAID, CALLED])
    first, second, said, called = message.parts
    changed = replace(
        message,
        parts=(first, second, replace(said, content="Bye"), replace(called, arguments={"path": "b"})),
    )
    thought, words, call = output_of(changed)
    assert thought == THOUGHT
    assert words == {**SAID, "content": [{**SAID["content"][0], "text": "Bye"}]}
    assert call == {**CALLED, "arguments": '{"path":"b"}'}


def test_a_message_that_no_provider_made_has_items() -> None:
    message = Message(
        role="assistant",
        parts=(Reasoning(content="hm"), Text(content="Hi"), CallPart(id="c1", name="look", arguments={"a": 1})),
    )
    thought, said, called = output_of(message)
    assert (thought["type"], thought["summary"][0]["text"]) == ("reasoning", "hm")
    assert said["content"] == [{"type": "output_text", "text": "Hi", "annotations": []}]
    assert called == {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a":1}'}


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_what_a_person_says() -> None:
    assert messages_of("hi") == [user("hi")]
    assert messages_of([{"role": "user", "content": "hi"}]) == [user("hi")]
    assert messages_of([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]) == [
        user("hi")
    ]


def test_what_a_model_said_is_told_as_the_message_that_it_was() -> None:
    """So that a step's request is told by what it adds, and not all over again."""
    output = [THOUGHT, SAID, CALLED, {**CALLED, "call_id": "c2"}]
    answers = [{"type": "function_call_output", "call_id": name, "output": "fine"} for name in ("c1", "c2")]
    first, second, *rest = messages_of([{"role": "user", "content": "go"}, *output, *answers, SAID])
    assert (first, second) == (user("go"), message_of(output))
    assert rest[:2] == [Message(role="tool", parts=(ResponsePart(id=name, response="fine"),)) for name in ("c1", "c2")]
    assert rest[2] == message_of([SAID])


INPUTS = {
    "a system text": {"role": "system", "content": "Be brief."},
    "a developer's text": {"role": "developer", "content": "Be brief."},
    "a model's text": {"role": "assistant", "content": "Hello"},
    "a model's text with a type": {"role": "assistant", "content": "Hello", "type": "message", "id": "m1"},
    "a picture": {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": "data:image/jpeg;base64,AAAA", "detail": "low"},
            {"type": "input_image", "image_url": "https://example.com/a.png"},
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        ],
    },
    "a file": {
        "role": "user",
        "content": [
            {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
            {"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            {"type": "input_file", "file_id": "file-1"},
        ],
    },
    "a piece that nobody knows yet": {"role": "user", "content": [{"type": "input_smell", "smell": {"a": 1}}]},
    "an answer with pieces": {
        "type": "function_call_output",
        "id": "o1",
        "call_id": "c1",
        "output": [{"type": "input_text", "text": "x"}],
    },
    "a computer's answer": {"type": "computer_call_output", "call_id": "c3", "output": {"type": "computer_screenshot"}},
    "a reference": {"type": "item_reference", "id": "msg_1"},
    "an answer to a hosted server": {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True},
    **ITEMS,
}


@pytest.mark.parametrize("item", INPUTS.values(), ids=INPUTS)
def test_an_item_of_a_request_comes_back_as_it_came(item: dict[str, Any]) -> None:
    assert items_of([stored(message) for message in messages_of([item])]) == [item]


def test_pictures_and_files_are_in_the_words_of_messages() -> None:
    (seen,) = messages_of([INPUTS["a picture"]])
    text, blob, uri, file = seen.parts
    assert text == Text(content="see")
    assert isinstance(blob, BlobPart)
    assert (blob.mime_type, blob.modality, blob.content) == ("image/jpeg", "image", "AAAA")
    assert isinstance(uri, UriPart)
    assert uri.uri == "https://example.com/a.png"
    assert isinstance(file, FilePart)
    assert file.file_id == "file-1"
    (read,) = messages_of([INPUTS["a file"]])
    assert [part.modality for part in read.parts] == ["document"] * 4


def test_tokens_are_counted() -> None:
    from agents import Usage as TheirUsage
    from openai.types.responses import ResponseUsage

    told = {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    counted = Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=2)
    assert usage_of(told) == counted
    assert usage_of(ResponseUsage.model_validate(told)) == counted
    assert usage_of(None) == usage_of(TheirUsage()) == Usage()
