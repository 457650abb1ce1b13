"""What a model answered through the Agents SDK, put on record; and from the record the SDK's own answer again.

An answer's items are its message. What else there is stands in ``rest``: ``id``, ``request_id``, ``usage``, and for
one that was streamed ``response`` (the provider's object without its output and without what it repeats of the
request) and ``ending``, the type of its last event.
"""

from collections.abc import Iterator
from typing import Any

from agents import ModelResponse as TheirResponse
from agents import Usage as TheirUsage
from agents.usage import deserialize_usage, serialize_usage
from openai._models import construct_type
from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent

from forkpoint.adapters.openai_items import NO_ID, message_of, output_of, plain, usage_of
from forkpoint.ports import ModelResponse
from forkpoint.runtime.asks import Answer
from forkpoint.values import to_json

_REPEATED = ("output", "instructions", "tools", "input")
"""What a response holds that is on record elsewhere."""

_EMPTY: dict[str, dict[str, Any]] = {
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
    "message": {"content": []},
}

_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def of_whole(response: TheirResponse) -> ModelResponse:
    """What an answer that came in one piece puts on record."""
    rest = {
        "id": response.response_id,
        "request_id": response.request_id,
        "usage": to_json(serialize_usage(response.usage)),
        "raw_usage": getattr(response, "raw_usage", None),
    }
    return ModelResponse(message=message_of(response.output), usage=usage_of(response.usage), rest=to_json(rest))


def of_stream(event: Any, items: list[Any]) -> ModelResponse:
    """What a stream puts on record: its last event, and the items that came before where that has none."""
    response = event.response
    told = plain(response)
    why = (told.get("incomplete_details") or {}).get("reason")
    usage = told.get("usage")
    rest = {
        "id": told.get("id"),
        "request_id": getattr(response, "_request_id", None),
        "usage": None if usage is None else to_json(serialize_usage(_their_usage(usage))),
        "response": {name: value for name, value in told.items() if name not in _REPEATED},
        "ending": event.type,
    }
    message = message_of(told.get("output") or items, finish_reason=_REASONS.get(str(why)))
    return ModelResponse(message=message, usage=usage_of(usage), rest=to_json(rest))


def _their_usage(told: dict[str, Any]) -> TheirUsage:
    counts = {name: told.get(name) or 0 for name in ("input_tokens", "output_tokens", "total_tokens")}
    details = {name: told[name] for name in ("input_tokens_details", "output_tokens_details") if told.get(name)}
    return deserialize_usage({"requests": 1, **counts, **details})


def whole_of(answer: Answer) -> TheirResponse:
    """The SDK's answer for one on record."""
    rest = answer.value or {}
    more = {"raw_usage": rest["raw_usage"]} if rest.get("raw_usage") is not None else {}
    usage = rest.get("usage")
    return TheirResponse(
        output=[_item(item) for item in output_of(answer.message)],
        usage=TheirUsage() if usage is None else deserialize_usage(usage),
        response_id=rest.get("id"),
        request_id=rest.get("request_id"),
        **more,
    )


def _item(item: dict[str, Any]) -> Any:
    # As the client makes its objects: of the type that the item names, and without refusing what it does not know.
    return construct_type(value=item, type_=ResponseOutputItem)


def events_of(answer: Answer, model: str) -> Iterator[Any]:
    """The events of a stream that brings an answer on record, each item's words in one piece."""
    rest, items = answer.value or {}, output_of(answer.message)
    head = _head(rest, model)
    begun = {**head, "status": "in_progress", "output": [], "usage": None}
    told: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(items):
        told += _told(item, {"output_index": place, "item_id": item.get("id") or NO_ID})
    told.append({"type": rest.get("ending") or "response.completed", "response": {**head, "output": items}})
    for number, event in enumerate(told):
        made = construct_type(value={**event, "sequence_number": number}, type_=ResponseStreamEvent)
        response = getattr(made, "response", None)
        if isinstance(response, Response) and rest.get("request_id"):
            response._request_id = rest["request_id"]
        yield made


def _head(rest: dict[str, Any], model: str) -> dict[str, Any]:
    """The provider's object without its output."""
    usage = rest.get("usage")
    usual = {
        "id": rest.get("id") or NO_ID,
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "completed",
        "parallel_tool_calls": False,
        "tool_choice": "auto",
    }
    counted = None if usage is None else _response_usage(usage)
    return {"usage": counted, **usual, **(rest.get("response") or {}), "tools": [], "instructions": None}


def _response_usage(usage: dict[str, Any]) -> dict[str, Any]:
    counts = {name: usage.get(name, 0) for name in ("input_tokens", "output_tokens", "total_tokens")}
    details = {}
    for name in ("input_tokens_details", "output_tokens_details"):
        found = usage.get(name)
        details[name] = found[0] if isinstance(found, list) and found else found or {}
    return {**counts, **details}


def _told(item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events that bring one item."""
    at = {"output_index": place["output_index"]}
    yield {"type": "response.output_item.added", **at, "item": _bare(item)}
    kind = item.get("type")
    if kind == "function_call":
        whole = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
        yield {"type": "response.function_call_arguments.delta", **place, "delta": whole["arguments"]}
        yield {"type": "response.function_call_arguments.done", **place, **whole}
    elif kind == "reasoning":
        for index, piece in enumerate(item.get("summary") or ()):
            yield from _thought({**place, "summary_index": index}, piece)
    elif kind == "message":
        for index, piece in enumerate(item.get("content") or ()):
            yield from _said({**place, "content_index": index}, piece)
    yield {"type": "response.output_item.done", **at, "item": item}


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    """An item before its words have come."""
    empty: dict[str, dict[str, Any]] = {
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
        "message": {"content": []},
    }
    return {**item, **empty.get(str(item.get("type")), {})}


def _thought(place: dict[str, Any], piece: dict[str, Any]) -> Iterator[dict[str, Any]]:
    text = piece.get("text", "")
    yield {"type": "response.reasoning_summary_part.added", **place, "part": {**piece, "text": ""}}
    yield {"type": "response.reasoning_summary_text.delta", **place, "delta": text}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": piece}


def _said(place: dict[str, Any], piece: dict[str, Any]) -> Iterator[dict[str, Any]]:
    where = "refusal" if piece.get("type") == "refusal" else "text"
    kind = "refusal" if where == "refusal" else "output_text"
    text, more = piece.get(where, ""), dict[str, Any]() if where == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": {**piece, where: ""}}
    yield {"type": f"response.{kind}.delta", **place, "delta": text, **more}
    yield {"type": f"response.{kind}.done", **place, where: text, **more}
    yield {"type": "response.content_part.done", **place, "part": piece}
