"""Messages of LangChain's own classes as JSON, without what nearly every message has alike. Pure.

``{"$said": {"type": "ai", "content": …, "id": …}}`` is what the serializer writes of that message, without the fields
that are as ``_USUAL`` has them. They are put back before a message is made of it. A message of another class, with
more or other fields, or that holds what is no plain JSON, is told as any other class is (see ``langgraph_values``).
"""

import math
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES

SAID = "$said"

_ALL = ("content", "additional_kwargs", "response_metadata", "type", "name", "id")
_FIELDS: Mapping[type[BaseMessage], tuple[str, ...]] = {
    HumanMessage: _ALL,
    SystemMessage: _ALL,
    AIMessage: (*_ALL, "tool_calls", "invalid_tool_calls", "usage_metadata"),
    ToolMessage: (*_ALL, "tool_call_id", "artifact", "status"),
}
_TYPES: Mapping[type[BaseMessage], str] = {
    HumanMessage: "human",
    SystemMessage: "system",
    AIMessage: "ai",
    ToolMessage: "tool",
}
_CLASSES = {name: kind for kind, name in _TYPES.items() if (kind.__module__, kind.__name__) in SAFE_MSGPACK_TYPES}
_USUAL: Mapping[str, Any] = {
    "additional_kwargs": {},
    "response_metadata": {},
    "name": None,
    "id": None,
    "tool_calls": [],
    "invalid_tool_calls": [],
    "usage_metadata": None,
    "artifact": None,
    "status": "success",
}
_PYDANTIC, _MAKE = 5, "model_validate_json"


def said_of(message: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """A message as JSON, and all its fields as they are now; ``None`` if it has to be told as any other class is."""
    kind = type(message)
    if kind not in _FIELDS or _TYPES[kind] not in _CLASSES:
        return None
    fields = message.model_dump()
    if not all(map(is_plain, fields.values())):
        return None
    told = _short(kind, fields)
    return None if told is None else (told, fields)


def said_in(body: Any) -> Any:
    """The short form of what ``langgraph_values`` tells of a message, where it has one; any other body as it is."""
    code, made = body["$ext"]
    if code != _PYDANTIC or not isinstance(made, list) or len(made) != 4 or made[3] != _MAKE:
        return body
    module, name, fields, _ = made
    kind = _CLASSES.get(str(fields.get("type"))) if isinstance(fields, dict) else None
    if kind is None or (kind.__module__, kind.__name__) != (module, name) or not is_plain(fields):
        return body
    return _short(kind, fields) or body


def whole_of(body: Any) -> Any:
    """What ``langgraph_values`` tells of the message that ``body`` is the short form of. Raises ``KeyError``."""
    told = body[SAID]
    kind = _CLASSES[told["type"]]
    fields = {name: told[name] if name in told else _USUAL[name] for name in _FIELDS[kind]}
    return {"$ext": [_PYDANTIC, [kind.__module__, kind.__name__, fields, _MAKE]]}


def _short(kind: type[BaseMessage], fields: dict[str, Any]) -> dict[str, Any] | None:
    if tuple(fields) != _FIELDS[kind] or fields["type"] != _TYPES[kind]:
        return None
    return {SAID: {name: item for name, item in fields.items() if name not in _USUAL or item != _USUAL[name]}}


def is_plain(value: Any) -> bool:
    """Whether ``value`` is JSON that reads back as it is, and holds nothing that could be taken for a reference."""
    kind = type(value)
    if kind is str:
        return value.isascii() or is_text(value)
    if value is None or kind is bool:
        return True
    if kind is list:
        return all(map(is_plain, value))
    if kind is dict:
        return all(map(_is_key, value)) and all(map(is_plain, value.values()))
    if kind is int:
        return bool(-(2**63) <= value < 2**64)
    return kind is float and math.isfinite(value)


def _is_key(key: Any) -> bool:
    return type(key) is str and key[:1] != "$" and is_text(key)


def is_text(value: str) -> bool:
    """Whether ``value`` can be encoded."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
