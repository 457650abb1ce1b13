"""Message content between the OpenAI chat format and our parts, both ways.

Source: the OpenAI API reference, "Create chat completion". What our parts have no place for is kept in ``extra``.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from forkpoint.errors import ValueNotJson
from forkpoint.exchange.conversation import MARK
from forkpoint.messages import BlobPart, FilePart, Part, Text, UriPart
from forkpoint.values import to_json

_TEXTS = ("text", "input_text", "output_text")


def as_text(value: Any) -> str:
    """A JSON value as text, whatever it is: a text stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def storable(value: Any) -> Any:
    """``value`` as it can be stored; as JSON text where it nests too deep or is no JSON number."""
    try:
        return to_json(value)
    except ValueNotJson:
        return as_text(value)


def parts_of_content(content: Any) -> tuple[list[Part], list[str]]:
    """The parts of a message's content, and what had to be said about them."""
    if content is None:
        return [], []
    if isinstance(content, str):
        return [Text(content=content)], []
    if not isinstance(content, list):
        return [Text(content=as_text(content))], [
            f"its content is neither text nor a list; kept as {_kind(content)} text"
        ]
    parts, remarks = [], []
    for place, item in enumerate(content):
        part = _part(item)
        if part is None:
            part = Text(content=as_text(item), extra={MARK: {"part": "json"}})
            remarks.append(f"its content part {place} is of no known kind; kept as JSON text")
        parts.append(part)
    return parts, remarks


def _kind(value: Any) -> str:
    return "JSON" if isinstance(value, dict | list) else type(value).__name__


def _part(item: Any) -> Part | None:
    if isinstance(item, str):
        return Text(content=item)
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    if kind in _TEXTS and isinstance(item.get("text"), str):
        return Text(content=item["text"], extra=_rest(item, "text", kind != "text"))
    if kind == "refusal" and isinstance(item.get("refusal"), str):
        return Text(content=item["refusal"], extra=_rest(item, "refusal", True))
    held = item.get(kind) if isinstance(kind, str) else None
    if kind == "image_url" and isinstance(held, str | dict):
        return _image(item, held)
    if kind == "input_audio" and isinstance(held, dict) and isinstance(held.get("data"), str):
        return _media(item, held, "data", "audio", f"audio/{held.get('format', 'wav')}")
    if kind == "file" and isinstance(held, dict):
        return _file(item, held)
    return None


def _image(item: dict[str, Any], held: str | dict[str, Any]) -> Part | None:
    url = held if isinstance(held, str) else held.get("url")
    if not isinstance(url, str):
        return None
    rest = {} if isinstance(held, str) else {key: value for key, value in held.items() if key != "url"}
    extra = _rest({**item, "image_url": rest}, "", True)
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return BlobPart(mime_type=head[5:-7] or None, content=data, extra=extra)
    return UriPart(uri=url, extra=extra)


def _media(item: dict[str, Any], held: dict[str, Any], field: str, modality: str, mime_type: str | None) -> Part:
    rest = {key: value for key, value in held.items() if key != field}
    extra = _rest({**item, item["type"]: rest}, "", True)
    return BlobPart(mime_type=mime_type, modality=modality, content=held[field], extra=extra)


def _file(item: dict[str, Any], held: dict[str, Any]) -> Part | None:
    if isinstance(held.get("file_data"), str):
        return _media(item, held, "file_data", "file", None)
    if isinstance(held.get("file_id"), str):
        rest = {key: value for key, value in held.items() if key != "file_id"}
        return FilePart(file_id=held["file_id"], modality="file", extra=_rest({**item, "file": rest}, "", True))
    return None


def _rest(item: dict[str, Any], field: str, typed: bool) -> dict[str, Any] | None:
    """What an item says beside ``field``, as a part's ``extra``; its type only where our part does not tell it."""
    rest = {key: storable(value) for key, value in item.items() if key != field and (typed or key != "type")}
    return {MARK: rest} if rest else None


def with_beside(parts: list[Part], beside: dict[str, Any]) -> list[Part]:
    """``parts`` with what their message says beside them, kept in the first one's ``extra``."""
    if not beside:
        return parts
    head, *tail = parts or [Text(content="")]
    return [replace(head, extra={**(head.extra or {}), MARK: {**marked(head), **beside}}), *tail]


def marked(part: Part) -> dict[str, Any]:
    """What the file said beside a part that came from one."""
    found = (part.extra or {}).get(MARK)
    return found if isinstance(found, dict) else {}


def content_of(parts: Sequence[Part]) -> str | list[dict[str, Any]] | None:
    """The content that says what these parts say: plain text where one text says it all."""
    told = [item for part in parts if (item := _item(part)) is not None]
    if not told:
        return None
    if len(told) == 1 and set(told[0]) == {"type", "text"}:
        return str(told[0]["text"])
    return told


def _item(part: Part) -> dict[str, Any] | None:
    rest = {key: value for key, value in marked(part).items() if key not in ("role", "message", "part")}
    match part:
        case Text() if marked(part).get("part") == "json":
            return _as_it_was(part.content)
        case Text():
            if rest.get("type") == "refusal":
                return {**rest, "refusal": part.content}
            return {"type": "text", **rest, "text": part.content}
        case UriPart():
            return {"type": "image_url", **rest, "image_url": {**rest.get("image_url", {}), "url": part.uri}}
        case BlobPart():
            return _blob_item(part, rest)
        case FilePart():
            return {"type": "file", **rest, "file": {**rest.get("file", {}), "file_id": part.file_id}}
        case _:
            return None


def _as_it_was(content: str) -> dict[str, Any]:
    """A content part that was kept as JSON text."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"type": "text", "text": content}


def _blob_item(part: BlobPart, rest: dict[str, Any]) -> dict[str, Any]:
    if part.modality == "audio":
        form = (part.mime_type or "audio/wav").removeprefix("audio/")
        held = {"format": form, **rest.get("input_audio", {}), "data": part.content}
        return {"type": "input_audio", **rest, "input_audio": held}
    if part.modality == "file":
        return {"type": "file", **rest, "file": {**rest.get("file", {}), "file_data": part.content}}
    url = f"data:{part.mime_type or ''};base64,{part.content}"
    return {"type": "image_url", **rest, "image_url": {**rest.get("image_url", {}), "url": url}}
