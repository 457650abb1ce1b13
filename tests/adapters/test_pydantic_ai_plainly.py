"""What is plain is made without Pydantic: the very same data, and the very same response, as Pydantic makes of it."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra 'pydantic-ai' is not installed")

from pydantic_ai import messages as theirs
from pydantic_ai.usage import RequestUsage

from forkpoint.adapters import pydantic_ai_plainly as plainly
from forkpoint.adapters.pydantic_ai_messages import rest_of, to_ours, to_response

PLAIN = [
    theirs.ModelResponse(parts=[]),
    theirs.ModelResponse(parts=[theirs.TextPart('hi \u2028 ünd "so"')], model_name="m", finish_reason="stop"),
    theirs.ModelResponse(parts=[theirs.TextPart("")], state="suspended", provider_response_id="r1"),
    theirs.ModelResponse(
        parts=[
            theirs.ThinkingPart(
                "so", id="rs", signature="c2ln", provider_name="p", provider_details={"a": [{"b": None}]}
            ),
            theirs.TextPart("and", id="msg", provider_name="p", provider_details={}),
            theirs.ToolCallPart("look", {"n": {"m": [True, 1, "x", None]}}, tool_call_id="c1", id="fc"),
            theirs.ToolCallPart("look", '{"n": 1.50}', tool_call_id="c2", provider_details={"x": "y"}),
            theirs.ToolCallPart("look", None, tool_call_id="c3"),
            theirs.ToolCallPart("look", "{not json", tool_call_id="c4"),
        ],
        usage=RequestUsage(input_tokens=3, output_tokens=4, cache_read_tokens=1, details={"reasoning_tokens": 2}),
        model_name="gpt-5",
        provider_name="openai",
        provider_url="http://127.0.0.1",
        provider_details={"finish_reason": "completed", "more": {}},
        metadata={"a": [1]},
        run_id="run",
        conversation_id="talk",
    ),
    theirs.ModelResponse(parts=[], timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))),
    theirs.ModelResponse(parts=[], timestamp=datetime(2026, 1, 2, 3, 4, 5, 678)),
]

NOT_PLAIN = [
    theirs.ModelResponse(parts=[theirs.NativeToolCallPart("find", {"q": "x"}, tool_call_id="w1")]),
    theirs.ModelResponse(parts=[theirs.FilePart(theirs.BinaryContent(b"x", media_type="image/png"))]),
    theirs.ModelResponse(parts=[theirs.TextPart("a", provider_details={"at": datetime.now(UTC)})]),
    theirs.ModelResponse(parts=[theirs.ToolCallPart("look", {"n": 1.5}, tool_call_id="c1")]),
    theirs.ModelResponse(parts=[], provider_details={"at": datetime.now(UTC)}),
    theirs.ModelResponse(parts=[], usage=RequestUsage(input_tokens=1, cost=Decimal("0.1"))),
]


def by_pydantic(response: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = theirs.ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    return dumped


def validated(said: dict[str, Any]) -> Any:
    return theirs.ModelMessagesTypeAdapter.validate_python([said])[0]


def filled(dumped: dict[str, Any]) -> dict[str, Any]:
    """Plain data without what is empty: no reader tells that from what is left out."""
    told = {name: value for name, value in dumped.items() if value not in (None, {}, [])}
    parts = [{name: value for name, value in part.items() if value is not None} for part in dumped["parts"]]
    return {**told, "parts": parts, "usage": {name: value for name, value in dumped["usage"].items() if value}}


def kinds(value: Any) -> Any:
    """The types of everything in a response, as far as a dataclass or JSON goes."""
    if isinstance(value, list):
        return [kinds(one) for one in value]
    if isinstance(value, dict):
        return {name: kinds(one) for name, one in value.items()}
    held = fields(value) if hasattr(value, "__dataclass_fields__") else ()
    return type(value), {one.name: kinds(getattr(value, one.name)) for one in held}


@pytest.mark.parametrize("response", PLAIN, ids=range(len(PLAIN)))
def test_a_plain_response_is_the_data_that_pydantic_makes_of_it(response: Any) -> None:
    dumped = plainly.dumped(response)
    assert dumped is not None
    assert filled(dumped) == filled(by_pydantic(response))


@pytest.mark.parametrize("response", PLAIN, ids=range(len(PLAIN)))
def test_plain_data_is_the_response_that_pydantic_makes_of_it(response: Any) -> None:
    said = filled(by_pydantic(response))
    made, checked = plainly.loaded(said), validated(said)
    assert made == checked
    assert repr(made) == repr(checked)
    assert kinds(made) == kinds(checked)


@pytest.mark.parametrize("response", NOT_PLAIN, ids=range(len(NOT_PLAIN)))
def test_anything_else_is_left_to_pydantic(response: Any) -> None:
    assert plainly.dumped(response) is None


@pytest.mark.parametrize(
    "said",
    [
        {"parts": [{"content": "a"}]},
        {"parts": [{"part_kind": "text"}]},
        {"parts": [{"part_kind": "text", "content": 1}]},
        {"parts": [{"part_kind": "text", "content": "a", "signature": "b"}]},
        {"parts": [{"part_kind": "text", "content": "a", "unknown": "b"}]},
        {"parts": [{"part_kind": "tool-call", "tool_name": "a", "args": "{}", "tool_call_id": "c", "tool_kind": "x"}]},
        {"parts": [], "vendor_id": "r1"},
        {"parts": [], "timestamp": "never"},
        {"parts": [], "finish_reason": "bored"},
        {"parts": [], "usage": {"request_tokens": 3}},
        {"parts": [], "usage": {"details": 3}},
        {"parts": [], "usage": {"input_tokens": True}},
    ],
    ids=str,
)
def test_data_that_is_odd_is_left_to_pydantic(said: dict[str, Any]) -> None:
    assert plainly.loaded({"kind": "response", **said}) is None


@pytest.mark.parametrize("response", [*PLAIN, *NOT_PLAIN], ids=range(len(PLAIN) + len(NOT_PLAIN)))
def test_the_code_gets_live_what_a_replay_gives_it(response: Any) -> None:
    """Both make it of the record, and it is what Pydantic makes of the same record."""
    dumped = plainly.dumped(response) or by_pydantic(response)
    message, rest = to_ours(response, dumped), rest_of(dumped, to_ours(response, dumped))
    slow = by_pydantic(response)
    assert to_response(message, rest) == to_response(to_ours(response, slow), rest_of(slow, message))


def test_what_is_made_shares_nothing_that_can_be_changed_with_its_record() -> None:
    said = filled(by_pydantic(PLAIN[3]))
    made = plainly.loaded(said)
    made.provider_details["finish_reason"] = "changed"
    made.parts[0].provider_details["a"].append(1)
    made.usage.details["reasoning_tokens"] = 0
    assert said == filled(by_pydantic(PLAIN[3]))
