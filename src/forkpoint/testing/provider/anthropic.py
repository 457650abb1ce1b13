"""Anthropic Messages. Source: the Anthropic API reference, "Messages" and "Streaming messages"."""

import json
from collections.abc import Iterator
from typing import Any

from forkpoint.messages import BlobPart, CallPart, Message, Part, Reasoning, Text, UriPart, Usage
from forkpoint.testing.provider import wire

_REASONS = {"tool_call": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


class Messages:
    """Messages as a dialect."""

    def read(self, body: dict[str, Any]) -> tuple[str, tuple[Message, ...]]:
        """Instructions and messages of a request's body."""
        told = "\n\n".join(block["text"] for block in wire.items(body.get("system")))
        return told, wire.conversation(one for message in body.get("messages") or [] for one in _said(message))

    def whole(self, asked: wire.Asked, answer: wire.Answer) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        return {
            **_head(asked),
            "content": [_block(part) for part in answer.message.parts],
            "stop_reason": _reason(answer.message),
            "usage": _usage(answer.usage),
        }

    def events(self, asked: wire.Asked, answer: wire.Answer) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
        """The events of an answer that is streamed."""
        usage = _usage(answer.usage)
        begun = {**_head(asked), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        told: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        for at, part in enumerate(answer.message.parts):
            told.append({"type": "content_block_start", "index": at, "content_block": _bare(part)})
            told += ({"type": "content_block_delta", "index": at, "delta": delta} for delta in _deltas(part))
            told.append({"type": "content_block_stop", "index": at})
        delta = {"stop_reason": _reason(answer.message), "stop_sequence": None}
        spent = {name: usage[name] for name in ("output_tokens", "output_tokens_details")}
        told.append({"type": "message_delta", "delta": delta, "usage": spent})
        told.append({"type": "message_stop"})
        yield from ((event["type"], event) for event in told)

    def error(self, fault: wire.Fault) -> dict[str, Any]:
        """The body that tells of a fault."""
        return {"type": "error", "error": {"type": fault.kind, "message": fault.text}}


def _said(message: dict[str, Any]) -> Iterator[tuple[str, Part]]:
    role = message["role"]
    for block in wire.items(message["content"]):
        match block["type"]:
            case "text":
                yield role, Text(content=block["text"])
            case "image":
                yield role, _image(block["source"])
            case "thinking":
                yield role, Reasoning(content=block["thinking"], extra={"signature": block["signature"]})
            case "tool_use":
                yield role, CallPart(id=block["id"], name=block["name"], arguments=block["input"])
            case "tool_result":
                yield "tool", wire.result(block["tool_use_id"], block.get("content") or "")
            case _:
                yield role, Text(content=json.dumps(block, ensure_ascii=False))


def _image(source: dict[str, Any]) -> Part:
    if source["type"] == "base64":
        return BlobPart(mime_type=source["media_type"], content=source["data"])
    return UriPart(uri=source.get("url", ""))


def _head(asked: wire.Asked) -> dict[str, Any]:
    head = {"id": f"msg_{asked.number}", "type": "message", "role": "assistant", "model": asked.model}
    return {**head, "stop_sequence": None}


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Reasoning():
            return {"type": "thinking", "thinking": part.content, "signature": wire.signature(part) or ""}
        case CallPart():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": wire.value(wire.arguments(part))}
        case _:
            return {"type": "text", "text": getattr(part, "content", "")}


def _bare(part: Part) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
        "text": {"text": ""},
    }
    block = _block(part)
    return {**block, **empty[block["type"]]}


def _deltas(part: Part) -> Iterator[dict[str, Any]]:
    match part:
        case Reasoning():
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in wire.pieces(part.content))
            yield {"type": "signature_delta", "signature": wire.signature(part) or ""}
        case CallPart():
            told = wire.arguments(part)
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in wire.pieces(told))
        case _:
            told = getattr(part, "content", "")
            yield from ({"type": "text_delta", "text": piece} for piece in wire.pieces(told))


def _reason(message: Message) -> str:
    return _REASONS.get(message.finish_reason or "", "tool_use" if message.calls else "end_turn")


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
