"""Bytes of a file as JSON, with the place of what is wrong with them."""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from forkpoint.errors import ImportNotJson

_SURROGATE = re.compile("[\ud800-\udfff]")


def decoded(data: bytes) -> str:
    """The text of a file. Raises ``import.not-json`` naming the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ImportNotJson(where=f"line {line}", detail=f"byte {error.start} is not UTF-8") from error


def documents(data: bytes) -> list[tuple[str, Any]]:
    """The JSON values of a file, each with its place: one value, or one a line. Raises ``import.not-json``."""
    text = decoded(data)
    try:
        return [("$", parsed(text))]
    except ImportNotJson:
        lines = list(_lines(text))
        if len(lines) < 2 or not _begins_value(lines[0][1]):
            raise
    return [(f"line {number}", parsed(line, line_number=number)) for number, line in lines]


def parsed(text: str, *, line_number: int = 1) -> Any:
    """One JSON value. Text that cannot be encoded has its lone surrogates replaced. Raises ``import.not-json``."""
    if not text.strip():
        raise ImportNotJson(where=f"line {line_number}", detail="there is nothing in it")
    try:
        return _whole(json.loads(text, parse_constant=lambda name: _no_number(name, line_number)))
    except json.JSONDecodeError as error:
        line = line_number + error.lineno - 1
        raise ImportNotJson(where=f"line {line}, column {error.colno}", detail=error.msg) from error
    except RecursionError as error:
        raise ImportNotJson(where=f"line {line_number}", detail="it nests too deep") from error
    except ValueError as error:
        raise ImportNotJson(where=f"line {line_number}", detail=str(error)) from error


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line


def _begins_value(line: str) -> bool:
    """Whether a first line is a JSON value by itself, so that the file has one a line."""
    try:
        parsed(line)
    except ImportNotJson:
        return False
    return True


def _no_number(name: str, line_number: int) -> NoReturn:
    raise ImportNotJson(where=f"line {line_number}", detail=f"{name} is no JSON number")


def _whole(value: Any) -> Any:
    """``value`` without lone surrogates, which no UTF-8 file can hold; U+FFFD stands in their place."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value
