"""OpenAI Chat Completions. Source: the OpenAI API reference, "Chat completions" and its streaming events."""

from collections.abc import Iterator
from typing import Any

from forkpoint.messages import CallPart, Message, Part, Reasoning, Text, Usage
from forkpoint.testing.provider import wire

_REASONS = {"tool_call": "tool_calls", "length": "length", "content_filter": "content_filter"}


class Chat:
    """Chat Completions as a dialect."""

    def read(self, body: dict[str, Any]) -> tuple[str, tuple[Message, ...]]:
        """Instructions and messages of a request's body."""
        raw = body.get("messages") or []
        told = [wire.joined(m["content"]) for m in raw if m["role"] in ("system", "developer")]
        said = [one for m in raw if m["role"] not in ("system", "developer") for one in _said(m)]
        return "\n\n".join(told), wire.conversation(said)

    def whole(self, asked: wire.Asked, answer: wire.Answer) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        parts = answer.message.parts
        calls = [_call(index, part) for index, part in enumerate(answer.message.calls)]
        thought = "".join(part.content for part in parts if isinstance(part, Reasoning))
        message: dict[str, Any] = {"role": "assistant", "content": wire.texts(parts) or None}
        if thought:
            message["reasoning_content"] = thought
        if calls:
            message["tool_calls"] = [{key: one[key] for key in ("id", "type", "function")} for one in calls]
        choice = {"index": 0, "message": message, "finish_reason": _reason(answer.message)}
        return {**_head(asked, "chat.completion"), "choices": [choice], "usage": _usage(answer.usage)}

    def events(self, asked: wire.Asked, answer: wire.Answer) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
        """The events of an answer that is streamed."""
        head = _head(asked, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], reason: str | None = None) -> tuple[None, dict[str, Any]]:
            return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        yield chunk({"role": "assistant", "content": ""})
        called = 0
        for part in answer.message.parts:
            if isinstance(part, Text | Reasoning):
                field = "content" if isinstance(part, Text) else "reasoning_content"
                yield from (chunk({field: piece}) for piece in wire.pieces(part.content))
            elif isinstance(part, CallPart):
                yield from (chunk({"tool_calls": [piece]}) for piece in _call_pieces(called, part))
                called += 1
        yield chunk({}, _reason(answer.message))
        if (asked.body.get("stream_options") or {}).get("include_usage"):
            yield None, {**head, "choices": [], "usage": _usage(answer.usage)}
        yield None, "[DONE]"

    def error(self, fault: wire.Fault) -> dict[str, Any]:
        """The body that tells of a fault."""
        return {"error": {"message": fault.text, "type": fault.kind, "code": fault.kind, "param": None}}


def _said(message: dict[str, Any]) -> Iterator[tuple[str, Part]]:
    role, content = message["role"], message.get("content")
    if role == "tool":
        yield "tool", wire.result(message["tool_call_id"], content)
        return
    if message.get("reasoning_content"):
        yield role, Reasoning(content=message["reasoning_content"])
    for item in wire.items(content):
        if item["type"] == "image_url":
            yield role, wire.image(item["image_url"]["url"])
        elif item.get("text"):
            yield role, Text(content=item["text"])
    for call in message.get("tool_calls") or []:
        held = call["function"]
        yield role, CallPart(id=call["id"], name=held["name"], arguments=wire.value(held["arguments"]))


def _head(asked: wire.Asked, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{asked.number}", "object": kind, "created": wire.CREATED_S, "model": asked.model}


def _call(index: int, part: CallPart) -> dict[str, Any]:
    function = {"name": part.name, "arguments": wire.arguments(part)}
    return {"index": index, "id": part.id, "type": "function", "function": function}


def _call_pieces(index: int, part: CallPart) -> Iterator[dict[str, Any]]:
    whole = _call(index, part)
    yield {**whole, "function": {"name": part.name, "arguments": ""}}
    for piece in wire.pieces(whole["function"]["arguments"]):
        yield {"index": index, "function": {"arguments": piece}}


def _reason(message: Message) -> str:
    return _REASONS.get(message.finish_reason or "", "tool_calls" if message.calls else "stop")


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
