"""Messages between Forkpoint and LangChain, both ways, nothing lost. Pure.

What a model is shown stands in the parts; what LangChain keeps of a block beside its words stands under ``MARK`` in
the part's ``extra``, and goes back to it as it came. What no model is shown (ids, metadata, usage, artifacts) is the
message's *rest*, which is kept beside it. A message's id is no part of what is asked: LangChain makes up new ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from forkpoint.errors import ValueNotJson
from forkpoint.messages import (
    BlobPart,
    CallPart,
    FilePart,
    Message,
    Part,
    Reasoning,
    ResponsePart,
    Role,
    Text,
    UriPart,
    Usage,
)
from forkpoint.values import to_json

MARK = "langchain"
"""Where a part's ``extra`` keeps what LangChain wants back."""

_ROLES: Mapping[str, Role] = {"human": "user", "system": "system", "ai": "assistant", "tool": "tool"}
_TOLD = ("content", "type", "tool_calls", "invalid_tool_calls", "tool_call_id", "role")
_WORDS = {"text": "text", "reasoning": "reasoning", "thinking": "thinking"}
_FILES = ("image", "audio", "video", "file")
_REASONS = {
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
    "function_call": "tool_call",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


def to_ours(message: BaseMessage) -> Message:
    """What a model is shown of a message, or says with it."""
    role = _ROLES.get(message.type) or _role(message)
    if isinstance(message, ToolMessage):
        mark = {"status": message.status} if message.status != "success" else {}
        extra = {MARK: mark} if mark else None
        return Message(
            role="tool", parts=(ResponsePart(id=message.tool_call_id, response=_plain(message.content), extra=extra),)
        )
    parts = list(_content_parts(message.content))
    if message.name and role != "assistant":
        parts = _named(parts, message.name)
    if not isinstance(message, AIMessage):
        return Message(role=role, parts=tuple(parts))
    parts += [_call(call, None) for call in message.tool_calls]
    parts += [_call(call, call.get("error") or "") for call in message.invalid_tool_calls]
    reason = _reason(message, calls=any(isinstance(part, CallPart) for part in parts))
    return Message(role="assistant", parts=tuple(parts), finish_reason=reason)


def rest_of(message: BaseMessage, told: Message | None = None) -> dict[str, Any]:
    """What a message has that no model is shown, as JSON; and its content as it is, where the parts do not tell it.

    ``told`` is the message in our words, for who has it already.
    """
    kept = {name: getattr(message, name) for name in _untold(type(message))}
    rest = {name: _plain(value) for name, value in kept.items() if value not in (None, {}, [], "", False, "success")}
    if not isinstance(message, ToolMessage):
        told = to_ours(message) if told is None else told
        if _content(told.parts) != message.content:
            rest["content"] = _plain(message.content)
    if isinstance(message, ChatMessage):
        rest["role"] = message.role
    return rest


@cache
def _untold(kind: type[BaseMessage]) -> tuple[str, ...]:
    """The fields of a class of messages that no model is shown."""
    return tuple(name for name in kind.model_fields if name not in _TOLD)


def to_theirs(message: Message, rest: Mapping[str, Any] | None = None) -> BaseMessage:
    """LangChain's message for one of ours; ``rest`` is what was kept beside it, if anything was."""
    kept = dict(rest or {})
    content = kept.pop("content", None)
    if message.role == "tool":
        part = next(part for part in message.parts if isinstance(part, ResponsePart))
        status = _mark(part).get("status", "success")
        return ToolMessage(content=as_content(part.response), tool_call_id=part.id, **{"status": status, **kept})
    content = _content(message.parts) if content is None else content
    if message.role == "assistant":
        good = [part for part in message.parts if isinstance(part, CallPart) and isinstance(part.arguments, dict)]
        bad = [part for part in message.parts if isinstance(part, CallPart) and not isinstance(part.arguments, dict)]
        calls = [{"name": p.name, "args": p.arguments, "id": _id(p), "type": "tool_call", **_extras(p)} for p in good]
        invalid = [_invalid(part) for part in bad]
        return AIMessage(content=content, tool_calls=calls, invalid_tool_calls=invalid, **kept)
    names = [_mark(part)["name"] for part in message.parts if "name" in _mark(part)]
    if names:
        kept.setdefault("name", names[0])
    if "role" in kept:
        return ChatMessage(content=content, **kept)
    return SystemMessage(content=content, **kept) if message.role == "system" else HumanMessage(content=content, **kept)


def usage_of(message: BaseMessage) -> Usage:
    """The tokens that a message says it used."""
    said: Any = getattr(message, "usage_metadata", None) or {}
    return Usage(
        input_tokens=said.get("input_tokens", 0),
        output_tokens=said.get("output_tokens", 0),
        cached_tokens=(said.get("input_token_details") or {}).get("cache_read", 0) or 0,
        reasoning_tokens=(said.get("output_token_details") or {}).get("reasoning", 0) or 0,
    )


def as_content(value: Any) -> Any:
    """A result as a message's content: a text or a list of blocks stays, anything else is JSON, as tools have it."""
    from forkpoint._canon import canonical

    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(
        isinstance(item, str) or (isinstance(item, dict) and "type" in item) for item in value
    ):
        return value
    return canonical(value).decode()


# ── content ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _content_parts(content: Any) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(content=content)
        return
    for block in content:
        yield _part(block)


def _part(block: Any) -> Part:
    if isinstance(block, str):
        return Text(content=block, extra={MARK: {"plain": True}})
    kind = block.get("type")
    word = _WORDS.get(kind)
    if word is not None and isinstance(block.get(word), str):
        extra = {MARK: _plain({key: item for key, item in block.items() if key != word})}
        return Text(content=block[word], extra=extra) if kind == "text" else Reasoning(content=block[word], extra=extra)
    if kind == "reasoning":
        return Reasoning(extra={MARK: {"block": _plain(block)}})
    if kind in _FILES:
        for key, made in (("base64", BlobPart), ("url", UriPart), ("file_id", FilePart)):
            if isinstance(block.get(key), str):
                extra = {MARK: _plain({name: item for name, item in block.items() if name not in (key, "mime_type")})}
                held: Any = {"base64": "content", "url": "uri", "file_id": "file_id"}[key]
                return made(**{held: block[key]}, mime_type=block.get("mime_type"), modality=kind, extra=extra)
    return Text(extra={MARK: {"block": _plain(block)}})


def _content(parts: Sequence[Part]) -> Any:
    """A message's content: a text where there is only one, else its blocks."""
    shown = [part for part in parts if not isinstance(part, CallPart)]
    if not shown:
        return ""
    if len(shown) == 1 and isinstance(shown[0], Text) and not set(_mark(shown[0])) - {"name"}:
        return shown[0].content
    return [_block(part) for part in shown]


def _block(part: Any) -> Any:
    mark = {key: item for key, item in _mark(part).items() if key != "name"}
    if "block" in mark:
        return mark["block"]
    match part:
        case Text():
            return part.content if mark.get("plain") else {"type": "text", "text": part.content, **mark}
        case Reasoning():
            kind = mark.get("type", "reasoning")
            return {"type": kind, _WORDS[kind]: part.content, **mark}
        case BlobPart():
            return _file(part, mark, base64=part.content)
        case UriPart():
            return _file(part, mark, url=part.uri)
        case _:
            return _file(part, mark, file_id=part.file_id)


def _file(part: Any, mark: Mapping[str, Any], **held: str) -> dict[str, Any]:
    mime = {"mime_type": part.mime_type} if part.mime_type is not None else {}
    return {"type": part.modality, **held, **mime, **mark}


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _call(call: Any, error: str | None) -> CallPart:
    mark = {key: _plain(item) for key, item in call.items() if key not in ("name", "args", "id", "type", "error")}
    if call.get("id") is None:
        mark["id"] = None
    if error is not None:
        mark["error"] = error
        if call.get("name") is None:
            mark["name"] = None
    arguments = _plain(call.get("args"))
    return CallPart(
        id=call.get("id") or "", name=call.get("name") or "", arguments=arguments, extra={MARK: mark} if mark else None
    )


def _invalid(part: CallPart) -> dict[str, Any]:
    mark = _mark(part)
    name = None if "name" in mark else part.name
    return {
        "name": name,
        "args": part.arguments,
        "id": _id(part),
        "error": mark.get("error") or None,
        "type": "invalid_tool_call",
    }


def _id(part: CallPart) -> str | None:
    return None if "id" in _mark(part) else part.id


def _extras(part: CallPart) -> dict[str, Any]:
    return {key: item for key, item in _mark(part).items() if key not in ("id", "error", "name")}


def _reason(message: AIMessage, *, calls: bool) -> str:
    said = message.response_metadata.get("finish_reason") or message.response_metadata.get("stop_reason")
    return (
        _REASONS.get(said, "tool_call" if calls else "stop")
        if isinstance(said, str)
        else "tool_call"
        if calls
        else "stop"
    )


def _role(message: BaseMessage) -> Role:
    match getattr(message, "role", ""):
        case "system":
            return "system"
        case "assistant":
            return "assistant"
        case _:
            return "user"


def _named(parts: list[Part], name: str) -> list[Part]:
    from msgspec.structs import replace

    first = parts[0] if parts else Text()
    return [replace(first, extra={MARK: {**_mark(first), "name": name}}), *parts[1:]]


def _mark(part: Part) -> dict[str, Any]:
    found = (part.extra or {}).get(MARK)
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> Any:
    """``value`` as JSON; what has no such form as the text that Python shows of it."""
    try:
        return to_json(value)
    except ValueNotJson:
        if isinstance(value, Mapping):
            return {str(key): _plain(item) for key, item in value.items()}
        return [_plain(item) for item in value] if isinstance(value, list | tuple) else repr(value)
