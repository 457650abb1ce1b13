"""Secrets by name where things are written, and by value only at the edge to a tool or provider.

1. ``mask`` turns what came from outside into what may be written; ``reveal`` turns it back, exactly:
   ``reveal(mask(x)) == x`` for every JSON value. Each is done once, where a value comes in or goes out.
2. Found is the value itself, also inside longer text, in keys and in the digits of numbers, and as text of
   these forms, which placeholders name: ``base64`` and ``base64url`` (with padding, ``-bare`` without, and
   ``-0``, ``-1``, ``-2`` for the part that is sure when bytes stand before it), ``percent`` and ``form`` (as
   URLs and forms write it), ``json``, ``repr``, ``html`` and ``hex``. Longer finds go first. Not found:
   what was compressed, encrypted, hashed, broken over lines or written in another case.
3. Text that looks like a placeholder when it comes in is no placeholder: ``{{secret:`` is written as
   ``{{secret:|literal}}``, so that a page or a model that writes ``{{secret:TOKEN}}`` gets its own words back
   and never the token. Only what a person edits in its written form goes through ``mask_written``, which
   leaves placeholders as they are.
4. The names of forms are written into journals. They are never renamed.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from forkpoint.errors.agents import SecretBadName, SecretMissing, SecretTooShort

LEAST = 6
"""The fewest characters of a secret's value."""

MARK = "{{secret:"
_LITERAL = "{{secret:|literal}}"
_NUMBER = "{{secret:|number}}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
_PLACEHOLDER = re.compile(r"(\{\{secret:(?:[A-Za-z_][A-Za-z0-9_.-]{0,63})?(?:\|[a-z0-9-]+)?\}\})")


class Secrets:
    """Values that are never written down, by name: ``Secrets({"TOKEN": "…"})``.

    Raises ``secret.too-short`` for a value under six characters and ``secret.bad-name`` for a name that cannot
    stand in a placeholder.
    """

    __slots__ = ("_needles", "_pairs", "_stems", "_values", "names")

    names: tuple[str, ...]

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = {_LITERAL: MARK}
        hidden: dict[str, str] = {}
        for name, value in (values or {}).items():
            _check(name, value)
            for form, text in _forms(value):
                placeholder = f"{MARK}{name}|{form}}}}}" if form else f"{MARK}{name}}}}}"
                self._values[placeholder] = text
                hidden.setdefault(text, placeholder)
        self.names = tuple(values or {})
        self._pairs = sorted(hidden.items(), key=lambda pair: -len(pair[0]))
        self._stems = _stems(hidden)
        self._needles = (MARK, *_stems(form for text in hidden for form in _encoded(text)))

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self.names)})"

    def occurs_in(self, data: bytes) -> bool:
        """Whether masking could change the value whose JSON is ``data``. Cheap, and never wrongly ``False``."""
        text = data.decode()  # in bytes, `in` takes each needle for a number first, and raises within
        for needle in self._needles:  # noqa: SIM110  a generator doubles the cost of every event
            if needle in text:
                return True
        return False

    def mask(self, tree: Any) -> Any:
        """A JSON value from outside, as it may be written: every secret replaced by its name."""
        return _changed(tree, self._hide, self._hide_number)

    def mask_written(self, tree: Any) -> Any:
        """The same for a value that a person edited in its written form: its placeholders stay."""
        return _changed(tree, self._hide_between, self._hide_number)

    def reveal(self, tree: Any) -> Any:
        """A written JSON value with every secret back in place.

        Raises ``secret.missing`` naming every secret that has no value here.
        """
        missing = self.missing(tree)
        if missing:
            raise SecretMissing(names=", ".join(missing))
        return _changed(tree, self._show, lambda number: number)

    def missing(self, tree: Any) -> tuple[str, ...]:
        """The secrets that ``tree`` names and that have no value here, in order of appearance."""
        found = (place for text in _texts(tree) if MARK in text for place in _PLACEHOLDER.findall(text))
        unknown = (place for place in found if place not in self._values and place != _NUMBER)
        names = (place.removeprefix(MARK).removesuffix("}}") for place in unknown)
        # A form is named only where the secret is known and the form is not: a newer release wrote it.
        return tuple(dict.fromkeys(n if n.partition("|")[0] in self.names else n.partition("|")[0] for n in names))

    def stream(self) -> "StreamMask":
        """Masks one stream of text that comes in pieces."""
        return StreamMask(self._pairs, self._stems)

    def _hide(self, text: str) -> str:
        if not self._may_change(text):
            return text
        return "".join(_split(self._split_secrets([text]), MARK, _LITERAL))

    def _hide_between(self, text: str) -> str:
        return "".join(self._split_secrets(_PLACEHOLDER.split(text)))

    def _hide_number(self, number: float) -> float | str:
        text = msgspec.json.encode(number).decode()
        hidden = self._hide(text)
        return number if hidden == text else _NUMBER + hidden

    def _show(self, text: str) -> Any:
        if MARK not in text:
            return text
        shown = _PLACEHOLDER.sub(lambda place: self._values.get(place[0], place[0]), text)
        return _number(shown.removeprefix(_NUMBER)) if text.startswith(_NUMBER) else shown

    def _may_change(self, text: str) -> bool:
        return MARK in text or any(stem in text for stem in self._stems)

    def _split_secrets(self, pieces: list[str]) -> list[str]:
        for text, placeholder in self._pairs:
            pieces = _split(pieces, text, placeholder)
        return pieces


class StreamMask:
    """Masks text that comes in pieces, so that a secret split over pieces never shows.

    What may be the beginning of a secret is held back until more comes, at most one character less than
    the longest form. It is for showing, not for storing: placeholder-like text is left as it is.
    """

    __slots__ = ("_covered", "_held", "_longest", "_pairs", "_starts", "_stems")

    def __init__(self, pairs: list[tuple[str, str]], stems: tuple[str, ...]) -> None:
        self._pairs = pairs
        self._stems = stems
        self._longest = max((len(text) for text, _ in pairs), default=0)
        self._starts: dict[str, list[str]] = {}
        for text, _ in pairs:
            self._starts.setdefault(text[0], []).append(text)
        self._held = ""
        # How much of what is held was part of a secret whose placeholder is out already.
        self._covered = 0

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        text = self._held + piece
        return self._out(text, self._open(text))

    def flush(self) -> str:
        """What was held back, when nothing more will come."""
        return self._out(self._held, len(self._held))

    def _out(self, text: str, cut: int) -> str:
        out: list[str] = []
        place = self._covered
        for start, end, placeholder in self._spans(text):
            if start >= cut:
                break
            if start >= place:
                out += (text[place:start], placeholder)
            place = max(place, end)
        out.append(text[place:cut])
        self._held, self._covered = text[cut:], max(place - cut, 0)
        return "".join(out)

    def _open(self, text: str) -> int:
        """Where the first secret begins that may go on after ``text``."""
        for place in range(max(0, len(text) - self._longest + 1), len(text)):
            begun = self._starts.get(text[place])
            if begun:
                tail = text[place:]
                if any(len(whole) > len(tail) and whole.startswith(tail) for whole in begun):
                    return place
        return len(text)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        spans: list[tuple[int, int, str]] = []
        if not any(stem in text for stem in self._stems):
            return spans
        for whole, placeholder in self._pairs:
            start = text.find(whole)
            while start >= 0:
                spans.append((start, start + len(whole), placeholder))
                start = text.find(whole, start + 1)
        return sorted(spans, key=lambda span: (span[0], -span[1]))


def _number(text: str) -> Any:
    try:
        return msgspec.json.decode(text, type=int | float)
    except msgspec.DecodeError:
        # A person edited it, or the value is another one by now.
        return text


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not _NAME.match(name):
        raise SecretBadName(name=repr(name)[:80], problem="its name cannot stand in a placeholder")
    if not isinstance(value, str):
        raise SecretBadName(name=name, problem=f"its value is a {type(value).__name__}, not text")
    if len(value) < LEAST:
        raise SecretTooShort(name=name, characters=len(value), least=LEAST)
    try:
        value.encode()
    except UnicodeEncodeError:
        # Without the cause: it would carry the value into a traceback.
        raise SecretBadName(name=name, problem="its value has half a surrogate pair") from None


def _forms(value: str) -> Iterator[tuple[str, str]]:
    import html  # Its table of names is large, and only who has secrets needs it.

    data = value.encode()
    yield "", value
    yield from _base64_forms("base64", data, base64.b64encode)
    yield from _base64_forms("base64url", data, base64.urlsafe_b64encode)
    for form, text in (
        ("percent", quote(value, safe="")),
        ("percent-path", quote(value, safe="/")),
        ("percent-component", quote(value, safe="!'()*")),
        ("form", quote_plus(value)),
    ):
        yield form, text
        yield f"{form}-lower", re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), text)
    yield "json", json.dumps(value)[1:-1]
    yield "json-utf8", json.dumps(value, ensure_ascii=False)[1:-1]
    yield "repr", repr(value)[1:-1]
    yield "repr-bytes", repr(data)[2:-1]
    yield "html", html.escape(value)
    yield "hex", data.hex()
    yield "hex-upper", data.hex().upper()


def _base64_forms(form: str, data: bytes, encode: Callable[[bytes], bytes]) -> Iterator[tuple[str, str]]:
    whole = encode(data).decode()
    yield form, whole
    yield f"{form}-bare", whole.rstrip("=")
    for before in range(3):
        # Only characters all of whose six bits are the secret's: the others depend on what is around it.
        sure = slice(math.ceil(before * 8 / 6), (before + len(data)) * 8 // 6)
        yield f"{form}-{before}", encode(b"\0" * before + data).decode()[sure]


def _encoded(text: str) -> Iterator[str]:
    yield msgspec.json.encode(text)[1:-1].decode()
    yield json.dumps(text)[1:-1]


def _stems(needles: Any) -> tuple[Any, ...]:
    """The fewest of ``needles`` such that none can occur without one of them: no one holds another."""
    kept: list[Any] = []
    for needle in sorted(set(needles), key=lambda needle: (len(needle), needle)):
        if not any(stem in needle for stem in kept):
            kept.append(needle)
    return tuple(kept)


def _split(pieces: list[str], text: str, placeholder: str) -> list[str]:
    """``pieces`` are texts at even places and placeholders at odd ones, and stay so."""
    made: list[str] = []
    for place, piece in enumerate(pieces):
        if place % 2 or text not in piece:
            made.append(piece)
            continue
        first, *rest = piece.split(text)
        made.append(first)
        for part in rest:
            made += (placeholder, part)
    return made


def _changed(tree: Any, text: Callable[[str], Any], number: Callable[[Any], Any]) -> Any:
    match tree:
        case str():
            return text(tree)
        case dict():
            return {text(name): _changed(item, text, number) for name, item in tree.items()}
        case list() | tuple():
            return [_changed(item, text, number) for item in tree]
        case int() | float() if not isinstance(tree, bool):
            return number(tree)
        case _:
            return tree


def _texts(tree: Any) -> Iterator[str]:
    match tree:
        case str():
            yield tree
        case dict():
            for name, item in tree.items():
                yield name
                yield from _texts(item)
        case list() | tuple():
            for item in tree:
                yield from _texts(item)
