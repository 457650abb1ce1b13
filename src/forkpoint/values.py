"""The one JSON form of a value: what is stored of it, and what goes on in its place.

| Python | JSON |
| --- | --- |
| ``str``, ``bool``, ``None``, ``int`` under 1000 digits, finite ``float`` | itself |
| ``list``, ``tuple``, ``NamedTuple``, ``deque`` | array |
| ``set``, ``frozenset`` | array, sorted: numbers and texts by value, others by their canonical JSON |
| ``dict`` and other mappings | object, in order |
| dataclass | object of all fields, also those that ``__init__`` does not take |
| msgspec ``Struct`` | object (or array) as its own options say, with its tag |
| pydantic model | what ``model_dump(mode="json")`` gives |
| ``Enum`` | the form of its value |
| ``datetime``, ``date``, ``time``, ``timedelta`` | ISO 8601 text; UTC is written ``Z`` |
| ``Decimal``, ``UUID``, paths | text |
| ``bytes``, ``bytearray``, ``memoryview`` | base64 text |

A key becomes text: a text stays, whole numbers, booleans and ``None`` are written as in JSON, and every
other key must have text as its form. Two keys that become the same text are refused, as are ``NaN`` and
infinities, text with lone surrogates, values that contain themselves, and nesting over 200 levels.
"""

import base64
import dataclasses
import datetime
import enum
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from forkpoint._canon import canonical
from forkpoint.errors import ValueNotJson

DEPTH = 200
"""How deep a value may nest."""

_INT_LIMIT = 10**999
_WORD = 2**63


class _NoForm(Exception):
    """Why there is no form, and the way from there up to the value: (step, container) pairs."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.way: list[tuple[str, Any]] = []


def to_json(value: Any) -> Any:
    """``value`` as plain JSON data: the same as decoding its encoding gives.

    It shares nothing that can change with ``value``. Raises ``value.not-json`` with the path of the first
    part that has no form.
    """
    kind = type(value)
    if (kind is str and value.isascii()) or value is None or kind is bool:
        return value
    try:
        return _form(value, 0)
    except _NoForm as problem:
        path, detail = _told(problem)
        raise ValueNotJson(path=path, detail=detail) from problem.__cause__
    except Exception as error:
        # A property, an iterator or a mapping of the caller's own gave up while it was read.
        raise ValueNotJson(path="$", detail=f"reading it raised {type(error).__name__}: {error}") from error


def _form(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is dict:
        return _object(value, value, depth)
    if kind is list or kind is tuple:
        return _array(value, value, depth)
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain(value)
    return _other(value, depth)


def _object(items: Mapping[Any, Any], source: Any, depth: int) -> dict[str, Any]:
    if depth >= DEPTH:
        raise _NoForm(f"it nests more than {DEPTH} levels")
    made: dict[str, Any] = {}
    # The leaves of most results are handled here, without a call for each: this is on every tool's way.
    for key, item in items.items():
        name = key if type(key) is str and key.isascii() else _key(key, source)
        kind = type(item)
        if (kind is str and item.isascii()) or (kind is int and -_WORD <= item < _WORD):
            made[name] = item
            continue
        try:
            made[name] = _form(item, depth + 1)
        except _NoForm as problem:
            problem.way.append((_step(name), source))
            raise
    if len(made) != len(items):
        raise _clash(items, source)
    return made


def _array(items: Iterable[Any], source: Any, depth: int) -> list[Any]:
    if depth >= DEPTH:
        raise _NoForm(f"it nests more than {DEPTH} levels")
    made: list[Any] = []
    for item in items:
        kind = type(item)
        if (kind is str and item.isascii()) or (kind is int and -_WORD <= item < _WORD):
            made.append(item)
            continue
        try:
            made.append(_form(item, depth + 1))
        except _NoForm as problem:
            problem.way.append((f"[{len(made)}]", source))
            raise
    return made


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _NoForm("the text has half a surrogate pair, which no UTF-8 can hold") from error
    return str.__str__(value)


def _int(value: int) -> int:
    if -_INT_LIMIT < value < _INT_LIMIT:
        return int.__int__(value)
    raise _NoForm("the number has a thousand digits or more")


def _float(value: float) -> float:
    if math.isfinite(value):
        return float.__float__(value)
    raise _NoForm(f"{float.__repr__(value)} is not a JSON number")


def _bytes(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode("ascii")


def _moment(value: datetime.datetime | datetime.date | datetime.time) -> str:
    text = value.isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _duration(value: datetime.timedelta) -> Any:
    exact = datetime.timedelta(days=value.days, seconds=value.seconds, microseconds=value.microseconds)
    return msgspec.to_builtins(exact)


def _same(value: Any) -> Any:
    return value


_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: _text,
    int: _int,
    float: _float,
    bool: _same,
    type(None): _same,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    UUID: str,
    Decimal: str,
    datetime.datetime: _moment,
    datetime.date: _moment,
    datetime.time: _moment,
    datetime.timedelta: _duration,
}
"""The types whose form is one plain value, each with what makes it."""


def _other(value: Any, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        return _form(value.value, depth)
    if isinstance(value, Mapping):
        return _object(value, value, depth)
    if isinstance(value, list | tuple | deque):
        return _array(value, value, depth)
    if isinstance(value, set | frozenset):
        return sorted(_array(value, value, depth), key=_place)
    if isinstance(value, PurePath):
        return _text(str(value))
    if isinstance(value, type):
        raise _NoForm(f"the class {value.__qualname__} is not a value")
    if isinstance(value, msgspec.Struct):
        return _struct(value, depth)
    if dataclasses.is_dataclass(value):
        return _object(_fields(value), value, depth)
    if hasattr(type(value), "__pydantic_core_schema__"):
        return _form(_dumped(value), depth)
    for kind, plain in _PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    raise _NoForm(f"{_article(type(value))} has no JSON form")


def _place(item: Any) -> tuple[int, Any, bytes]:
    if isinstance(item, int | float):
        return 0, item, canonical(item)
    if isinstance(item, str):
        return 1, item, b""
    return 2, canonical(item), b""


def _struct(value: msgspec.Struct, depth: int) -> Any:
    config = value.__struct_config__
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    pairs = [(name, getattr(value, field)) for name, field in names]
    if config.tag is not None:
        pairs.insert(0, (config.tag_field or "type", config.tag))
    if config.array_like:
        return _array([item for _, item in pairs], value, depth)
    return _object({name: item for name, item in pairs if item is not msgspec.UNSET}, value, depth)


def _fields(value: Any) -> dict[str, Any]:
    # A field that __init__ leaves alone may not have been set yet; then there is nothing to say of it.
    names = (field.name for field in dataclasses.fields(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _dumped(value: Any) -> Any:
    try:
        return value.model_dump(mode="json")
    except Exception as error:
        raise _NoForm(f"{_article(type(value))} could not be dumped: {error}") from error


def _key(key: Any, source: Any) -> str:
    if isinstance(key, enum.Enum):
        return _key(key.value, source)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    try:
        name = _form(key, 0)
    except _NoForm as problem:
        problem.way.append(("", source))
        problem.detail = f"a key cannot be text: {problem.detail}"
        raise
    if isinstance(name, int):
        return str(name)
    if isinstance(name, str):
        return name
    raise _NoForm(f"a key is {_article(type(key))}, which is not text")


def _clash(items: Mapping[Any, Any], source: Any) -> _NoForm:
    seen: dict[str, Any] = {}
    for key in items:
        name = _key(key, source)
        if name in seen:
            return _NoForm(f"the keys {seen[name]!r} and {key!r} both become {name!r}"[:300])
        seen[name] = key
    return _NoForm("it changed while it was read")


def _told(problem: _NoForm) -> tuple[str, str]:
    """The path from the top, cut where a value turns out to contain itself."""
    path, above = "$", set()
    for step, container in reversed(problem.way):
        if id(container) in above:
            return path, "it contains itself"
        above.add(id(container))
        path += step
    return path if len(path) <= 300 else f"{path[:300]}…", problem.detail


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{name!r}]"


def _article(kind: type) -> str:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"a value of type {name}"
