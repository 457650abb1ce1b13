"""Messages of Anthropic's API and Forkpoint's, block by block. Pure.

What a block has beside words, calls and results stands under ``MARK`` in its part's ``extra``: ``left`` is what else
the block holds, ``block`` the whole of one that there is no word for. What is ``null`` is not told apart from what is
left out. Each result of a tool is a message of its own. Source of the shapes: the Anthropic API reference, "Messages".
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from forkpoint.adapters.plain_requests import result_of
from forkpoint.messages import (
    BlobPart,
    CallPart,
    FilePart,
    Message,
    Part,
    Reasoning,
    ResponsePart,
    Text,
    UriPart,
    Usage,
)

MARK = "anthropic"

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_REASONS_SAID = {"tool_call": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def messages_of(told: dict[str, Any]) -> tuple[Message, ...]:
    """The messages that an element of a request's ``messages`` is: one, or one for each result of a tool in it."""
    role = str(told.get("role"))
    left = {name: value for name, value in told.items() if name not in ("role", "content")}
    content = told.get("content")
    if role == "assistant":
        return (said_by_model(content, left=left),)
    made: list[Message] = []
    for part in _with(_content(content), left):
        if isinstance(part, ResponsePart):
            made.append(Message(role="tool", parts=(part,)))
        elif made and made[-1].role != "tool":
            made[-1] = replace(made[-1], parts=(*made[-1].parts, part))
        else:
            made.append(Message(role="system" if role == "system" else "user", parts=(part,)))
    return tuple(made)


def said_by_model(content: Any, stop_reason: str | None = None, *, left: dict[str, Any] | None = None) -> Message:
    """What a model said, as blocks or as one text. ``stop_reason`` is the API's."""
    parts = _with(_content(content), left or {})
    reason = _REASONS.get(stop_reason or "", "stop")
    if reason == "stop" and any(isinstance(part, CallPart) for part in parts):
        reason = "tool_call"
    return Message(role="assistant", parts=parts, finish_reason=reason)


def blocks_of(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """The blocks that what a model said consists of."""
    return [_block(part) for part in parts]


def reason_said(message: Message) -> str:
    """Why a model stopped, in the API's words."""
    return _REASONS_SAID.get(message.finish_reason or "", "end_turn")


def usage_of(told: Any) -> Usage:
    """The tokens that an answer's ``usage`` counts; all 0 where there is none."""
    if not isinstance(told, dict):
        return Usage()
    cached = told.get("cache_read_input_tokens") or 0
    return Usage(
        input_tokens=(told.get("input_tokens") or 0) + cached + (told.get("cache_creation_input_tokens") or 0),
        output_tokens=told.get("output_tokens") or 0,
        cached_tokens=cached,
        reasoning_tokens=(told.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
    )


def kept(part: Part) -> dict[str, Any]:
    """What is kept of a part beside its words."""
    found = (part.extra or {}).get(MARK)
    return found if isinstance(found, dict) else {}


def _with(parts: list[Part], left: dict[str, Any]) -> tuple[Part, ...]:
    """``parts`` with what is left of their message in the first of them."""
    if not left:
        return tuple(parts)
    first = parts[0] if parts else Text()
    return (replace(first, extra={MARK: {**kept(first), "message": left}}), *parts[1:])


def _content(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [Text(content=content)]
    return [
        _part(block) if isinstance(block, dict) else Text(extra={MARK: {"block": block}}) for block in content or ()
    ]


def _part(block: Any) -> Part:
    told: dict[str, Any] = {name: one for name, one in block.items() if one is not None}
    match told.get("type"):
        case "text" if isinstance(told.get("text"), str):
            return Text(content=told["text"], extra=_left(told, "type", "text"))
        case "thinking" if isinstance(told.get("thinking"), str):
            return Reasoning(content=told["thinking"], extra=_left(told, "type", "thinking"))
        case "tool_use" if isinstance(told.get("input"), dict) and isinstance(told.get("id"), str):
            extra = _left(told, "type", "id", "name", "input")
            return CallPart(id=told["id"], name=str(told.get("name")), arguments=told["input"], extra=extra)
        case "tool_result" if isinstance(told.get("tool_use_id"), str):
            return _result(told)
        case "image" | "document" if isinstance(told.get("source"), dict):
            return _file(told["type"], told["source"], _left(told, "type", "source")) or Text(
                extra={MARK: {"block": told}}
            )
        case _:
            return Text(extra={MARK: {"block": told}})


def _left(told: dict[str, Any], *known: str) -> dict[str, Any] | None:
    left = {name: one for name, one in told.items() if name not in known}
    return {MARK: {"left": left}} if left else None


def _result(told: dict[str, Any]) -> ResponsePart:
    """A tool's result: what its text says, where it is one text."""
    call, content = told["tool_use_id"], told.get("content")
    usual = ("type", "tool_use_id", "content", *(("is_error",) if told.get("is_error") is False else ()))
    if isinstance(content, str):
        return ResponsePart(id=call, response=result_of(content), extra=_left(told, *usual))
    extra = {MARK: {**((_left(told, *usual) or {}).get(MARK) or {}), "blocks": content is not None}}
    return ResponsePart(id=call, response=content, extra=extra)


def _file(kind: str, source: dict[str, Any], extra: dict[str, Any] | None) -> Part | None:
    match source:
        case {"type": "base64", "data": str(data), "media_type": str(mime), **more} if not more:
            return BlobPart(mime_type=mime, modality=kind, content=data, extra=extra)
        case {"type": "url", "url": str(url), **more} if not more:
            return UriPart(uri=url, modality=kind, extra=extra)
        case {"type": "file", "file_id": str(name), **more} if not more:
            return FilePart(file_id=name, modality=kind, extra=extra)
        case _:
            return None


def _block(part: Part) -> dict[str, Any]:
    """The block that one part of what a model said is."""
    mark = kept(part)
    left = mark.get("left") or {}
    match part:
        case Reasoning():
            return {"type": "thinking", "thinking": part.content, **({} if left else {"signature": ""}), **left}
        case CallPart():
            arguments = part.arguments if isinstance(part.arguments, dict) else {}
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments, **left}
        case Text() if isinstance(mark.get("block"), dict):
            block: dict[str, Any] = mark["block"]
            return block
        case Text():
            return {"type": "text", "text": part.content, **left}
        case _:
            return {"type": "text", "text": ""}
