"""Values of LangGraph's serializer as JSON that a journal holds, and back. Pure.

What the serializer writes is MessagePack with extensions that name classes. Here it is told as JSON, so that people
can read it and secrets can be found in it:

| JSON | Means |
| --- | --- |
| ``{"$ext": [code, value]}`` | an extension: a class, its name and what it is made from |
| ``{"$bytes": base64}``, ``{"$float": "nan"}`` | bytes; a number that JSON has not |
| ``{"$said": fields}`` | a message (see ``langgraph_said``) |
| ``{"$map": [[key, value], …]}`` | a mapping whose keys are not all texts, or begin with ``$`` |
| ``{"$typed": [kind, base64]}`` | anything else, as the serializer wrote it |

A class is told, and made again, only if the serializer allows it by name.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from msgspec import Struct

from forkpoint.adapters.langgraph_said import SAID, whole_of
from forkpoint.errors.langgraph import GraphValueNotAllowed, GraphValueUnsafe

CLASSES = (0, 1, 2, 4, 5)
"""Extensions of LangGraph's serializer that call a class; 3 calls one of its methods."""

METHOD = 3

_PLAIN_KINDS = ("null", "bytes", "bytearray", "msgpack")
_OPTION = ormsgpack.OPT_NON_STR_KEYS

Allows = Callable[[tuple[str, ...]], bool]


class _Ext(Struct, frozen=True):
    code: int
    data: bytes


class Values:
    """What one serializer makes of values."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde
        self.readable = isinstance(serde, JsonPlusSerializer)
        """Whether its bytes are told as JSON. Those of another serializer, which may encrypt, are kept as they are."""
        self.is_langgraphs = type(serde) is JsonPlusSerializer
        """Whether what it writes of a message is known without asking it."""
        self._allowed = getattr(serde, "_allowed_msgpack_modules", None)

    def typed(self, value: Any, where: str) -> tuple[str, bytes]:
        """``value`` as the serializer writes it. Raises ``langgraph.no-safe-form`` where it cannot."""
        try:
            kind, data = self._serde.dumps_typed(value)
        except Exception as error:  # whatever a serializer raises, it does not take this value
            raise GraphValueUnsafe(where=where, what=f"{_article(value)} ({error})"[:300]) from error
        if self.readable and kind not in _PLAIN_KINDS:
            raise GraphValueUnsafe(where=where, what=f"{_article(value)} that would be stored as {kind}")
        return kind, data

    def told(self, typed: tuple[str, bytes], where: str) -> Any:
        """What the serializer wrote, as JSON. Raises ``langgraph.no-safe-form`` for a class that is not allowed."""
        kind, data = typed
        if kind == "null":
            return None
        if kind == "bytes" and self.readable:
            return {"$bytes": b64encode(data).decode()}
        if kind == "msgpack" and self.readable:

            def allowed(name: tuple[str, ...]) -> bool:
                if not self.allows(name):
                    raise GraphValueUnsafe(where=where, what="a " + ".".join(name))
                return True

            body = _told(_unpacked(data), allowed)
            if _same(body, data):
                return body
        return {"$typed": [kind, b64encode(data).decode()]}

    def written(self, body: Any) -> tuple[str, bytes]:
        """What ``told`` was made from. Raises ``langgraph.not-allowed`` for a class that may not be made here."""
        if body is None:
            return "null", b""
        if isinstance(body, dict) and len(body) == 1:
            if "$typed" in body:
                kind, data = body["$typed"]
                if self.readable and kind not in _PLAIN_KINDS:
                    raise GraphValueNotAllowed(what=f"of the kind {kind!r}"[:80])
                if self.readable and kind == "msgpack":
                    _check(_told(_unpacked(b64decode(data)), lambda name: True), self.allows)
                return str(kind), b64decode(data)
            if "$bytes" in body:
                return "bytes", b64decode(body["$bytes"])
            if SAID in body:
                body = whole_of(body)
        _check(body, self.allows)
        return "msgpack", _packed(body)

    def value(self, typed: tuple[str, bytes]) -> Any:
        """The value that the serializer wrote, given what ``written`` gave."""
        return self._serde.loads_typed(typed)

    def allows(self, name: tuple[str, ...]) -> bool:
        """Whether the class (module, name), or its method (module, name, method), may be called."""
        if len(name) == 3:
            return name in SAFE_MSGPACK_METHODS
        return name in SAFE_MSGPACK_TYPES or self._allowed is True or name in (self._allowed or ())


def _article(value: Any) -> str:
    kind = type(value)
    return f"a {kind.__qualname__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__qualname__}"


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Ext, option=_OPTION)


def _same(body: Any, data: bytes) -> bool:
    """Whether ``body`` gives the very bytes back; what does not is kept as it is."""
    try:
        return _packed(body) == data
    except (ormsgpack.MsgpackEncodeError, RecursionError):
        return False


def _told(value: Any, allows: Allows) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list or kind is tuple:
        return [_told(item, allows) for item in value]
    if kind is dict:
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: _told(item, allows) for key, item in value.items()}
        return {"$map": [[_told(key, allows), _told(item, allows)] for key, item in value.items()]}
    if kind is bytes:
        return {"$bytes": b64encode(value).decode()}
    assert kind is _Ext
    inner = _unpacked(value.data)
    _called(value.code, inner, allows)
    return {"$ext": [value.code, _told(inner, allows)]}


def _called(code: Any, inner: Any, allows: Allows) -> bool:
    """Whether what an extension calls is allowed; ``allows`` may raise instead."""
    if code not in (*CLASSES, METHOD):
        return True
    named = inner[:2] if isinstance(inner, list | tuple) else ()
    if code == METHOD:
        named = (*named, inner[3]) if len(inner) > 3 else ()
    return len(named) > 1 and all(isinstance(part, str) for part in named) and allows(tuple(named))


def _check(body: Any, allows: Allows) -> None:
    """Raises ``langgraph.not-allowed`` for the first class in ``body`` that may not be made."""
    if isinstance(body, list):
        for item in body:
            _check(item, allows)
    elif isinstance(body, dict):
        if "$ext" in body and len(body) == 1:
            code, inner = body["$ext"]
            if not _called(code, inner, allows):
                raise GraphValueNotAllowed(what=f"made by {inner[:2] if isinstance(inner, list) else code!r}"[:200])
        for item in body.values():
            _check(item, allows)


def _packed(body: Any) -> bytes:
    return ormsgpack.packb(_theirs(body), option=_OPTION)


def _theirs(body: Any) -> Any:
    kind = type(body)
    if kind is list:
        return [_theirs(item) for item in body]
    if kind is not dict:
        return body
    if len(body) == 1:
        if "$ext" in body:
            code, inner = body["$ext"]
            return ormsgpack.Ext(code, _packed(inner))
        if "$bytes" in body:
            return b64decode(body["$bytes"])
        if "$float" in body:
            return float(body["$float"])
        if "$map" in body:
            return {_key(key): _theirs(item) for key, item in body["$map"]}
    return {key: _theirs(item) for key, item in body.items()}


def _key(body: Any) -> Any:
    key = _theirs(body)
    return tuple(key) if isinstance(key, list) else key
