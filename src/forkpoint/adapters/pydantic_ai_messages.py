"""Messages between Forkpoint and Pydantic AI, both ways, nothing lost.

What Pydantic AI keeps of a part beside its content (a reasoning signature, a provider's id) stands under ``MARK`` in
the part's ``extra``, in Pydantic AI's own field names, and goes back to it as it came. What belongs to the message as
a whole stands there too, in its first part, under ``message``. Parts that Forkpoint has no word for are kept whole.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from msgspec.structs import replace
from pydantic_ai import messages as theirs

from forkpoint.adapters import pydantic_ai_plainly as plainly
from forkpoint.messages import BlobPart, CallPart, FilePart, Message, Part, Reasoning, ResponsePart, Text, UriPart
from forkpoint.transcript import encode_message

MARK = "pydantic-ai"
"""Where a part's ``extra`` keeps what Pydantic AI wants back."""

OF_MESSAGE = (
    "model_name",
    "provider_name",
    "canonical_system",
    "provider_details",
    "provider_response_id",
    "history_digest",
    "metadata",
)
"""Fields of a whole response that stand in its first part."""

_OF_PART = ("content", "tool_name", "args", "tool_call_id", "part_kind")
_REASONS = ("stop", "length", "content_filter", "tool_call", "error")
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MIME_TYPES = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4"}


def to_theirs(messages: Sequence[Message], instructions: str, *, provider: str) -> list[Any]:
    """Pydantic AI's messages for a transcript: what a model said as it was said, all between as one request.

    ``provider`` is who keeps the files that ``FilePart`` names.
    """
    told: list[Any] = []
    names: dict[str, str] = {}
    between: list[Any] = []
    for message in messages:
        if message.role == "assistant":
            told += _request(between)
            between = []
            names |= {call.id: call.name for call in message.calls}
            told.append(_response(message, {}))
        else:
            between += _request_parts(message, names, provider)
    told += _request(between)
    if instructions:
        if not told or not isinstance(told[-1], theirs.ModelRequest):
            told.append(theirs.ModelRequest(parts=[]))
        told[-1].instructions = instructions
    return told


def dumped_of(response: Any) -> dict[str, Any]:
    """A Pydantic AI ``ModelResponse`` as plain data, by its own rules; what is empty may be left out."""
    plain = plainly.dumped(response)
    if plain is not None:
        return plain
    dumped: dict[str, Any] = theirs.ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    return dumped


def to_ours(response: Any, dumped: dict[str, Any] | None = None) -> Message:
    """The message that a Pydantic AI ``ModelResponse`` says; ``dumped`` is the same as plain data, if that is known."""
    dumped = dumped_of(response) if dumped is None else dumped
    parts = [_part(held, told) for held, told in zip(response.parts, dumped["parts"], strict=True)]
    whole = {name: dumped[name] for name in OF_MESSAGE if dumped.get(name)}
    if parts and whole:
        parts[0] = replace(parts[0], extra={MARK: {**kept(parts[0]), "message": whole}})
    reason = response.finish_reason
    if reason in (None, "stop") and any(isinstance(part, CallPart) for part in parts):
        reason = "tool_call"
    return Message(role="assistant", parts=tuple(parts), finish_reason=reason or "stop")


def to_response(message: Message, rest: Any = None) -> Any:
    """The Pydantic AI ``ModelResponse`` that ``message`` is; ``rest`` has fields of it that no part holds, as JSON."""
    return _response(message, rest if isinstance(rest, dict) else {})


def rest_of(dumped: dict[str, Any], message: Message) -> dict[str, Any]:
    """What ``message`` leaves out of the Pydantic AI ``ModelResponse`` that it is, as plain data.

    That is its usage, its time, and where they are not what is to be expected its state and why it ended.
    """
    elsewhere = ("parts", "kind", *(OF_MESSAGE if dumped["parts"] else ()))
    usual = {"state": "complete", "finish_reason": message.finish_reason}
    used = {name: value for name, value in dumped["usage"].items() if value}
    said = {name: one for name, one in {**dumped, "usage": used}.items() if name not in elsewhere}
    rest = {name: one for name, one in said.items() if one not in (None, {}, [], usual.get(name))}
    # Otherwise the message's own reason would be taken for what the provider said.
    return rest if dumped.get("finish_reason") else {**rest, "finish_reason": None}


def kept(part: Part) -> dict[str, Any]:
    """What Pydantic AI keeps of a part beside its content."""
    found = (part.extra or {}).get(MARK)
    return found if isinstance(found, dict) else {}


def _request(parts: list[Any]) -> list[Any]:
    return [theirs.ModelRequest(parts=parts)] if parts else []


def _request_parts(message: Message, names: dict[str, str], provider: str) -> Iterator[Any]:
    if message.role == "system":
        yield theirs.SystemPromptPart(content=message.text)
    elif message.role == "tool":
        for part in message.parts:
            if isinstance(part, ResponsePart):
                yield _return(part, names.get(part.id, "unknown"))
    else:
        content = [_content(part, provider) for part in message.parts]
        plain = len(content) == 1 and isinstance(content[0], str)
        yield theirs.UserPromptPart(content=content[0] if plain else content)


def _return(part: ResponsePart, name: str) -> Any:
    # Pydantic AI says nothing at all for None; a model is told the value that the tool gave.
    content = "null" if part.response is None else part.response
    return theirs.ToolReturnPart(tool_name=name, content=content, tool_call_id=part.id)


def _content(part: Part, provider: str) -> Any:
    """One part of what a person says."""
    match part:
        case Text() | Reasoning():
            return part.content
        case BlobPart():
            more = kept(part).get("vendor_metadata")
            return theirs.BinaryContent(data=_bytes(part), media_type=_mime_type(part), vendor_metadata=more)
        case UriPart():
            return _url(part)
        case FilePart():
            return theirs.UploadedFile(file_id=part.file_id, provider_name=provider, media_type=_mime_type(part))
        case CallPart() | ResponsePart():
            return encode_message(Message(role="user", parts=(part,))).decode()
        case _:
            assert_never(part)


def _bytes(part: BlobPart) -> bytes:
    return base64.b64decode(part.content, validate=True)


def _mime_type(part: BlobPart | FilePart) -> str:
    return part.mime_type or _MIME_TYPES.get(part.modality, "application/octet-stream")


def _url(part: UriPart) -> Any:
    kinds = {"image": theirs.ImageUrl, "audio": theirs.AudioUrl, "video": theirs.VideoUrl}
    return kinds.get(part.modality, theirs.DocumentUrl)(url=part.uri, media_type=part.mime_type)


def _response(message: Message, rest: dict[str, Any]) -> Any:
    """What a model said, as Pydantic AI holds it; checked by its own rules."""
    whole = kept(message.parts[0]).get("message", {}) if message.parts else {}
    said = {
        "finish_reason": message.finish_reason if message.finish_reason in _REASONS else None,
        **rest,
        **{name: whole[name] for name in OF_MESSAGE if name in whole},
        "kind": "response",
        "parts": [_said(part) for part in message.parts],
    }
    plain = plainly.loaded(said)
    return theirs.ModelMessagesTypeAdapter.validate_python([said])[0] if plain is None else plain


def _said(part: Part) -> dict[str, Any]:
    """One part of what a model said, in Pydantic AI's field names."""
    more = {name: value for name, value in kept(part).items() if name not in ("message", "part", "args")}
    match part:
        case Text():
            whole = kept(part).get("part")
            return whole if isinstance(whole, dict) else {**more, "part_kind": "text", "content": part.content}
        case Reasoning():
            return {**more, "part_kind": "thinking", "content": part.content}
        case CallPart():
            called = {"tool_name": part.name, "args": _arguments_said(part), "tool_call_id": part.id}
            return {**more, "part_kind": "tool-call", **called}
        case BlobPart():
            content = {"kind": "binary", "data": _bytes(part), "media_type": _mime_type(part)}
            return {**more, "part_kind": "file", "content": content}
        case UriPart():
            return {"part_kind": "text", "content": part.uri}
        case FilePart() | ResponsePart():
            return {"part_kind": "text", "content": encode_message(Message(role="user", parts=(part,))).decode()}
        case _:
            assert_never(part)


def _part(held: Any, told: dict[str, Any]) -> Part:
    """One of Pydantic AI's parts as ours; ``told`` is the same as plain data."""
    more = {name: value for name, value in told.items() if value is not None and name not in _OF_PART}
    match told["part_kind"]:
        case "text":
            return Text(content=held.content, extra=_marked(more))
        case "thinking":
            return Reasoning(content=held.content, extra=_marked(more))
        case "tool-call":
            # As plain data, because the object can be changed in place afterwards.
            arguments, text = _arguments_heard(told.get("args"))
            more |= {"args": text} if text is not None else {}
            return CallPart(id=held.tool_call_id, name=held.tool_name, arguments=arguments, extra=_marked(more))
        case "file":
            modality = held.content.media_type.partition("/")[0]
            content = base64.b64encode(held.content.data).decode()
            extra = _marked(more)
            return BlobPart(mime_type=held.content.media_type, modality=modality, content=content, extra=extra)
        case _:
            return Text(extra={MARK: {"part": told}})


def _marked(more: dict[str, Any]) -> dict[str, Any] | None:
    return {MARK: more} if more else None


def _arguments_heard(args: Any) -> tuple[Any, str | None]:
    """A call's arguments as an object, and their text where it is not simply that object's.

    Text with a backslash in it is not kept: a secret that is escaped there would not be found.
    """
    if not isinstance(args, str):
        return args if args is not None else {}, None
    try:
        value = json.loads(args) if args.strip() else {}
    except ValueError:
        return args, None
    if not isinstance(value, dict):
        return args, None
    return value, None if args == _compact(value) or "\\" in args else args


def _arguments_said(part: CallPart) -> Any:
    """A call's arguments as they were said, unless somebody has changed them since."""
    text = kept(part).get("args")
    if isinstance(text, str) and _arguments_heard(text)[0] == part.arguments:
        return text
    return _compact(part.arguments) if isinstance(part.arguments, dict) else part.arguments


def _compact(value: Any) -> str:
    return _COMPACT.encode(value)
