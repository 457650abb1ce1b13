"""The pieces that items of OpenAI's Responses API are made of, as parts, and a call's arguments as text."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from forkpoint.messages import BlobPart, CallPart, FilePart, Part, Reasoning, ResponsePart, Text, UriPart
from forkpoint.transcript import encode_message

MARK = "openai"
"""Where a part's ``extra`` keeps what the API wants back."""

_WORDS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
"""Pieces that are words, and where each has them."""

_PLAIN = ({"type": "input_text"},)
"""What is not kept of a piece that a person says, because it is what every text becomes again."""

_STYLES: dict[str, dict[str, Any]] = {
    "compact": {"ensure_ascii": False, "separators": (",", ":")},
    "spaced": {"ensure_ascii": False},
    "compact ascii": {"separators": (",", ":")},
    "spaced ascii": {},
}
"""The ways to write JSON down in which models write arguments."""


def plain(item: Any) -> dict[str, Any]:
    """An item as plain data: a dict as it is, an object of the client's with the fields that were set."""
    made = _plain(item)
    return made if isinstance(made, dict) else {"type": "message", "role": "user", "content": made}


def kept(part: Part) -> dict[str, Any]:
    """What is kept of a part beside its words."""
    found = (part.extra or {}).get(MARK)
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True, by_alias=True, warnings=False)
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────


def part_of(piece: dict[str, Any], kind: type[Text | Reasoning], head: dict[str, Any], *, always: bool) -> Part:
    """The part that a piece is. ``head`` is kept with it; ``always``: its form too, where it is the usual one."""
    made, left = _part(piece, kind)
    mark = head if left in _PLAIN and not always else {**head, "piece": left}
    return replace(made, extra={MARK: mark}) if mark else made


def _part(piece: dict[str, Any], kind: type[Text | Reasoning]) -> tuple[Part, dict[str, Any]]:
    """A piece as a part, and what is left of it beside the part's content."""
    where = _WORDS.get(str(piece.get("type")))
    if where is not None and isinstance(piece.get(where), str):
        return kind(content=piece[where]), _without(piece, where)
    for name, modality in (("image_url", "image"), ("file_data", "document"), ("file_url", "document")):
        if isinstance(piece.get(name), str):
            return _held(piece[name], modality, name), {**_without(piece, name), "in": name}
    if isinstance(piece.get("file_id"), str):
        modality = "image" if piece.get("type") == "input_image" else "document"
        return FilePart(file_id=piece["file_id"], modality=modality), {**_without(piece, "file_id"), "in": "file_id"}
    return kind(), {"whole": piece}


def _held(content: str, modality: str, name: str) -> Part:
    head, comma, data = content.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return BlobPart(mime_type=head[5:-7], modality=modality, content=data)
    if name == "file_data":
        return BlobPart(modality=modality, content=content)
    return UriPart(uri=content, modality=modality)


def _without(piece: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in piece.items() if key != name}


def piece_of(part: Part, usual: str) -> dict[str, Any]:
    """The piece that a part is; ``usual`` is the type of words that no provider made."""
    left = kept(part).get("piece")
    found = dict(left) if isinstance(left, dict) else {}
    if "whole" in found:
        whole: dict[str, Any] = found["whole"]
        return whole
    match part:
        case Text() | Reasoning():
            found = found or ({"type": usual, "annotations": []} if usual == "output_text" else {"type": usual})
            return {**found, _WORDS.get(str(found.get("type")), "text"): part.content}
        case BlobPart() | UriPart() | FilePart():
            return _file_piece(part, found)
        case CallPart() | ResponsePart():
            from forkpoint.messages import Message

            return {"type": usual, "text": encode_message(Message(role="user", parts=(part,))).decode()}


def _file_piece(part: BlobPart | UriPart | FilePart, found: dict[str, Any]) -> dict[str, Any]:
    image = part.modality == "image"
    where = found.pop("in", None)
    left = found or {"type": "input_image" if image else "input_file"}
    match part:
        case FilePart():
            return {**left, "file_id": part.file_id}
        case UriPart():
            return {**left, where or ("image_url" if image else "file_url"): part.uri}
        case BlobPart():
            bare = part.mime_type is None and where == "file_data"
            data = part.content if bare else f"data:{_mime_type(part)};base64,{part.content}"
            return {**left, where or ("image_url" if image else "file_data"): data}


def _mime_type(part: BlobPart) -> str:
    usual = "image/png" if part.modality == "image" else "application/octet-stream"
    return usual if part.mime_type is None else part.mime_type


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────────


def arguments_heard(text: Any) -> tuple[Any, str | None]:
    """A call's arguments as an object, and how they were written where that is not compactly.

    Text that is no JSON object is the arguments itself. A text with a backslash in it that was written in no usual way
    is not kept beside its object: a secret that is escaped there would not be found.
    """
    if not isinstance(text, str):
        return text, None
    try:
        value = json.loads(text)
        encoded = {name: json.dumps(value, allow_nan=False, **style) for name, style in _STYLES.items()}
        encoded["compact"].encode()
    except (ValueError, RecursionError):
        return text, None
    if not isinstance(value, dict):
        return text, None
    style = next((name for name, said in encoded.items() if said == text), None)
    if style is not None:
        return value, None if style == "compact" else style
    return value, None if "\\" in text else text


def arguments_said(part: CallPart) -> str:
    """A call's arguments as text: as it was said, unless somebody has changed them since."""
    if isinstance(part.arguments, str):
        return part.arguments
    note = kept(part).get("arguments")
    if isinstance(note, str) and note not in _STYLES and arguments_heard(note)[0] == part.arguments:
        return note
    style = _STYLES.get(note or "compact", _STYLES["compact"])
    return json.dumps({} if part.arguments is None else part.arguments, **style)
