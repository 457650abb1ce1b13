"""Messages of OpenAI Chat Completions and Forkpoint's, and what an answer's body says beside its message. Pure.

What a message has beside words, calls and results stands under ``MARK`` in the ``extra`` of its first part, as
``message``. What is ``null`` or empty is not told apart from what is left out. Source of the shapes: the OpenAI API
reference, "Chat completions", and the ``reasoning_content`` that other providers add to them.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from forkpoint.adapters.openai_pieces import MARK, arguments_heard, arguments_said, kept
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

REASONING = ("reasoning_content", "reasoning")
"""Under which names providers that speak this API tell what a model thought."""

_MADE = ("parsed", "parsed_arguments", "index")
"""What the client itself makes of an answer. It is no part of it."""

_REASONS = {"tool_calls": "tool_call"}
_REASONS_SAID = {"tool_call": "tool_calls", "error": "stop"}
_KNOWN = frozenset({"stop", "length", "content_filter"})
_ROLES = {"developer": "system", "function": "user"}


def message_of(told: dict[str, Any]) -> tuple[Message, ...]:
    """The one message that an element of a request's ``messages`` is."""
    role = str(told.get("role"))
    if role == "assistant":
        return (said_by_model(told),)
    if role == "tool" and isinstance(told.get("content"), str):
        return (_result(told),)
    if role not in ("system", "developer", "user"):
        return (Message(role="user", parts=(Text(extra={MARK: {"whole": told}}),)),)
    left = {name: value for name, value in told.items() if name not in ("role", "content")}
    left |= {"role": role} if role in _ROLES else {}
    return (Message(role=_ROLES.get(role, role), parts=_with(_content(told.get("content")), left)),)  # type: ignore[arg-type]


def said_by_model(told: dict[str, Any], finish_reason: str | None = None) -> Message:
    """What a model said. ``finish_reason`` is for an answer that ended before its end."""
    parts = list(_said(told))
    known = {"role", "content", "refusal", "tool_calls", *REASONING, *_MADE}
    left = {name: value for name, value in told.items() if name not in known and _is_there(value)}
    calls = any(isinstance(part, CallPart) for part in parts)
    reason = "tool_call" if calls and finish_reason in (None, "stop") else finish_reason or "stop"
    return Message(role="assistant", parts=_with(parts, left), finish_reason=reason)


def said_of(message: Message) -> dict[str, Any]:
    """The assistant's message that ``message`` is, without what is null."""
    told: dict[str, Any] = {"role": "assistant"}
    pieces: list[Any] = []
    for part in message.parts:
        mark = kept(part)
        told |= mark.get("message") or {}
        match part:
            case CallPart():
                told.setdefault("tool_calls", []).append(_call_said(part))
            case Reasoning():
                told[mark.get("field", REASONING[0])] = part.content
            case Text() if "field" in mark:
                told[mark["field"]] = part.content
            case Text() if "piece" in mark:
                pieces.append(mark["piece"])
            case Text() if part.content:
                told["content"] = told.get("content", "") + part.content
            case _:
                pass
    return told | ({"content": pieces} if pieces else {})


def reason_of(said: Any) -> str:
    """Why a model stopped, in our words."""
    return _REASONS.get(said, said if said in _KNOWN else "stop")


def reason_said(message: Message) -> str:
    """The same in the API's."""
    reason = message.finish_reason or "stop"
    return _REASONS_SAID.get(reason, reason)


def usage_of(told: Any) -> Usage:
    """The tokens that an answer's ``usage`` counts; all 0 where there is none."""
    if not isinstance(told, dict):
        return Usage()
    return Usage(
        input_tokens=told.get("prompt_tokens") or 0,
        output_tokens=told.get("completion_tokens") or 0,
        cached_tokens=(told.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        reasoning_tokens=(told.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    )


def _is_there(value: Any) -> bool:
    return value is not None and value not in ([], "")


def _with(parts: list[Part], left: dict[str, Any]) -> tuple[Part, ...]:
    """``parts`` with what is left of their message in the first of them."""
    if not left:
        return tuple(parts)
    first = parts[0] if parts else Text()
    return (replace(first, extra={MARK: {**kept(first), "message": left}}), *parts[1:])


def _said(told: dict[str, Any]) -> Iterator[Part]:
    for name in REASONING:
        if isinstance(told.get(name), str) and told[name]:
            yield Reasoning(content=told[name], extra=None if name == REASONING[0] else {MARK: {"field": name}})
    content = told.get("content")
    if isinstance(content, str) and content:
        yield Text(content=content)
    elif isinstance(content, list):
        yield from (Text(content=str(one.get("text") or ""), extra={MARK: {"piece": one}}) for one in content)
    if isinstance(told.get("refusal"), str) and told["refusal"]:
        yield Text(content=told["refusal"], extra={MARK: {"field": "refusal"}})
    yield from (_call(one) for one in told.get("tool_calls") or ())


def _call(told: dict[str, Any]) -> CallPart:
    """A call of a function, or of a tool that takes a text."""
    kind = told.get("type") or "function"
    held = dict(told.get(kind) or {})
    name, where = str(held.pop("name", "")), "arguments" if kind == "function" else "input"
    arguments, note = arguments_heard(held.pop(where, "")) if kind == "function" else (held.pop(where, ""), None)
    usual = ("id", kind, *_MADE, *(("type",) if kind == "function" else ()))
    left = {key: value for key, value in told.items() if key not in usual and value is not None}
    held = {key: value for key, value in held.items() if key not in _MADE and value is not None}
    mark: dict[str, Any] = ({"call": left} if left else {}) | ({"held": held} if held else {})
    mark |= {} if note is None else {"arguments": note}
    return CallPart(id=str(told.get("id") or ""), name=name, arguments=arguments, extra={MARK: mark} if mark else None)


def _call_said(part: CallPart) -> dict[str, Any]:
    mark = kept(part)
    left = mark.get("call") or {}
    kind = left.get("type", "function")
    value = arguments_said(part) if kind == "function" else part.arguments
    held = {"name": part.name, "arguments" if kind == "function" else "input": value, **(mark.get("held") or {})}
    return {"id": part.id, "type": kind, **left, kind: held}


def _result(told: dict[str, Any]) -> Message:
    left = {name: value for name, value in told.items() if name not in ("role", "content", "tool_call_id")}
    extra = {MARK: {"message": left}} if left else None
    call = str(told.get("tool_call_id") or "")
    return Message(role="tool", parts=(ResponsePart(id=call, response=result_of(told["content"]), extra=extra),))


def _content(content: Any) -> list[Part]:
    """What a person or the code says: a text, or a list of pieces."""
    if isinstance(content, str):
        return [Text(content=content)]
    if not isinstance(content, list):
        return [Text(extra={MARK: {"content": content}})]
    parts = [_piece(one) for one in content]
    if len(parts) == 1 and parts[0].extra is None:
        parts[0] = replace(parts[0], extra={MARK: {"alone": True}})  # not the same request as the bare text
    return parts


def _piece(piece: Any) -> Part:
    match piece:
        case {"type": "text", "text": str(text), **left}:
            return Text(content=text, extra={MARK: {"left": left}} if left else None)
        case {"type": "image_url", "image_url": {"url": str(url), **detail}, **left}:
            extra = {MARK: {"detail": detail, "left": left}} if detail or left else None
            head, comma, data = url.partition(",")
            if comma and head.startswith("data:") and head.endswith(";base64"):
                return BlobPart(mime_type=head[5:-7], content=data, extra=extra)
            return UriPart(uri=url, extra=extra)
        case {"type": "input_audio", "input_audio": {"data": str(data), **detail}, **left}:
            extra = {MARK: {"detail": detail, "left": left}}
            return BlobPart(mime_type=f"audio/{detail.get('format')}", modality="audio", content=data, extra=extra)
        case {"type": "file", "file": {"file_id": str(name), **detail}, **left}:
            extra = {MARK: {"detail": detail, "left": left}} if detail or left else None
            return FilePart(file_id=name, modality="document", extra=extra)
        case _:
            return Text(extra={MARK: {"piece": piece}})
