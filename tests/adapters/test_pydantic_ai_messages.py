"""Messages to Pydantic AI and back: what a part holds comes back as it was, and goes out as it came."""

import base64
from typing import Any

import msgspec
import pytest

from forkpoint.messages import (
    BlobPart,
    CallPart,
    FilePart,
    Message,
    Reasoning,
    Text,
    UriPart,
    answer,
    assistant,
    user,
)
from forkpoint.testing.fakes import call

pytest.importorskip("pydantic_ai", reason="the extra 'models' is not installed")

from pydantic_ai import messages as theirs

from forkpoint.adapters.pydantic_ai_messages import to_ours, to_theirs


def stored(message: Message) -> Message:
    """The message after it was written down and read again."""
    return msgspec.json.decode(msgspec.json.encode(message), type=Message)


def again(*parts: Any, **more: Any) -> Any:
    """Their response after it was ours, stored, and theirs again."""
    (back,) = to_theirs([stored(to_ours(theirs.ModelResponse(parts=list(parts), **more)))], "", provider="openai")
    return back


def test_every_field_of_a_response_comes_back() -> None:
    parts = [
        theirs.ThinkingPart(
            content="so ünd \u2028 so",
            id="rs_1",
            signature="c2ln+/==",
            provider_name="openai",
            provider_details={"raw_content": ["a", {"b": 1}]},
        ),
        theirs.TextPart(content="Hello ", id="msg_1", provider_name="openai", provider_details={"phase": "commentary"}),
        theirs.TextPart(content="there"),
        theirs.ToolCallPart(
            tool_name="look", args='{"path": "a"}', tool_call_id="c1", id="fc_1", provider_details={"namespace": "n"}
        ),
    ]
    whole = {
        "model_name": "gpt-5",
        "provider_name": "openai",
        "provider_details": {"finish_reason": "completed"},
        "provider_response_id": "resp_1",
        "metadata": {"kept": [1, 2]},
    }
    back = again(*parts, **whole)
    assert list(back.parts) == parts
    assert {name: getattr(back, name) for name in whole} == whole


def test_a_part_without_a_word_of_ours_is_kept_whole() -> None:
    called = theirs.NativeToolCallPart(
        tool_name="web_search", args={"query": "x"}, tool_call_id="ws_1", provider_name="openai"
    )
    returned = theirs.NativeToolReturnPart(
        tool_name="web_search", content={"status": "completed"}, tool_call_id="ws_1", provider_name="openai"
    )
    back = again(called, returned, theirs.TextPart(content="found"))
    assert [part.part_kind for part in back.parts] == ["builtin-tool-call", "builtin-tool-return", "text"]
    assert back.parts[0] == called
    assert (back.parts[1].content, back.parts[1].tool_call_id) == ({"status": "completed"}, "ws_1")


def test_a_picture_that_a_model_made_has_the_bytes_it_had() -> None:
    content = theirs.BinaryContent(data=bytes(range(256)), media_type="image/webp")
    made = theirs.FilePart(content=content, id="ig_1", provider_name="openai")
    message = to_ours(theirs.ModelResponse(parts=[made]))
    assert isinstance(message.parts[0], BlobPart)
    assert message.parts[0].content == base64.b64encode(bytes(range(256))).decode()
    (back,) = again(made).parts
    assert (back.content.data, back.content.media_type, back.id) == (bytes(range(256)), "image/webp", "ig_1")


@pytest.mark.parametrize("text", ['{"a":1}', '{"a": 1}', '{\n  "a": 1.0\n}', "", '{"a":', "[1]"])
def test_a_calls_arguments_go_back_in_the_very_text_they_came_in(text: str) -> None:
    (part,) = again(theirs.ToolCallPart(tool_name="look", args=text, tool_call_id="c1")).parts
    assert part.args == text


def test_arguments_that_somebody_changed_go_out_changed() -> None:
    heard = to_ours(theirs.ModelResponse(parts=[theirs.ToolCallPart("look", '{"a": 1}', "c1")]))
    (called,) = heard.calls
    edited = msgspec.structs.replace(heard, parts=(msgspec.structs.replace(called, arguments={"a": 2}),))
    (back,) = to_theirs([edited], "", provider="openai")
    assert back.parts[0].args == '{"a":2}'


def test_text_with_escapes_is_not_kept_beside_the_arguments() -> None:
    """A registered secret is found by its characters, which escapes hide."""
    heard = to_ours(theirs.ModelResponse(parts=[theirs.ToolCallPart("look", '{"a": "se\\"cret"}', "c1")]))
    assert heard.calls[0].arguments == {"a": 'se"cret'}
    assert heard.calls[0].extra is None


def test_all_between_two_answers_is_one_request_in_order() -> None:
    """Providers want every answer to a batch of calls before anything else, and in one message."""
    spoken = [
        user("go"),
        assistant("", call("look", id="c1", path="a"), call("mail", id="c2")),
        answer("c1", {"of": "a"}),
        answer("c2", None),
        user("and then?"),
    ]
    first, _, second = to_theirs(spoken, "Be brief.", provider="openai")
    assert [part.part_kind for part in first.parts] == ["user-prompt"]
    assert [part.part_kind for part in second.parts] == ["tool-return", "tool-return", "user-prompt"]
    assert [(one.tool_name, one.tool_call_id) for one in second.parts[:2]] == [("look", "c1"), ("mail", "c2")]
    assert [one.model_response_str() for one in second.parts[:2]] == ['{"of":"a"}', "null"]
    assert second.instructions == "Be brief."


def test_an_id_that_is_used_again_names_the_call_before_it() -> None:
    spoken = [
        user("go"),
        assistant("", call("look", id="c1")),
        answer("c1", 1),
        assistant("", call("mail", id="c1")),
        answer("c1", 2),
    ]
    told = to_theirs(spoken, "", provider="openai")
    assert [part.tool_name for one in (told[2], told[4]) for part in one.parts] == ["look", "mail"]


def test_what_a_person_shows_goes_out_as_what_it_is() -> None:
    shown = Message(
        role="user",
        parts=(
            Text(content="see"),
            BlobPart(mime_type="application/pdf", modality="file", content=base64.b64encode(b"%PDF").decode()),
            UriPart(uri="http://localhost/a.png"),
            UriPart(uri="http://localhost/a.mp3", modality="audio"),
            UriPart(uri="http://localhost/a.txt", modality="file", mime_type="text/plain"),
            FilePart(file_id="file-1", mime_type="application/pdf", modality="file"),
        ),
    )
    ((told,),) = (one.parts for one in to_theirs([shown], "", provider="openai"))
    assert [getattr(one, "kind", "text") for one in told.content] == [
        "text",
        "binary",
        "image-url",
        "audio-url",
        "document-url",
        "uploaded-file",
    ]
    assert told.content[1].data == b"%PDF"
    assert told.content[4].media_type == "text/plain"
    assert (told.content[5].file_id, told.content[5].provider_name) == ("file-1", "openai")


def test_a_system_message_stays_one() -> None:
    (told,) = to_theirs([Message(role="system", parts=(Text(content="rules"),)), user("go")], "", provider="openai")
    assert [part.part_kind for part in told.parts] == ["system-prompt", "user-prompt"]


def test_what_another_library_kept_of_a_part_is_left_alone() -> None:
    """An imported conversation has marks of its own, which mean nothing to Pydantic AI."""
    spoken = Message(
        role="assistant",
        parts=(
            Reasoning(content="hm", extra={"openai": {"key": "reasoning_content"}}),
            CallPart(id="c1", name="look", arguments={"a": 1}, extra={"openai": {"index": 0}}),
        ),
    )
    (told,) = to_theirs([spoken], "", provider="openai")
    assert [part.part_kind for part in told.parts] == ["thinking", "tool-call"]
    assert told.parts[1].args == '{"a":1}'
