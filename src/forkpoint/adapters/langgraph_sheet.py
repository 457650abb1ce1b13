"""Values of a LangGraph state to pieces, and pieces to values. Pure."""

import math
from collections.abc import Callable
from operator import is_
from typing import Any

import msgspec
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send
from msgspec.structs import replace

from forkpoint.adapters.langgraph_pieces import Pieces, Recent, absolute, digest, marked, place_in
from forkpoint.adapters.langgraph_seen import Place, Told, told_as
from forkpoint.adapters.langgraph_values import Values

SMALL = 64
"""Bytes of JSON up to which a value stands where it is used."""

APART = 1024
"""From how many bytes on a value inside a mapping is a node, so that the mapping may change around it."""

SHORT = 8
"""How many items a list has at most that is written where it is used."""

WATCHED = 16
"""How many of the last items of a list are looked at anew, though they are the same objects as before."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Sheet:
    """What one event adds to a thread's pieces, in the making. ``nodes`` is what it holds."""

    def __init__(self, pieces: Pieces, values: Values) -> None:
        self.nodes: list[Any] = []
        self._pieces = pieces
        self._values = values
        self._where = ""
        self._by_mark: dict[bytes, Place] = {}
        self._by_bytes: dict[bytes, Place] = {}
        self._stretches: dict[bytes, tuple[Place, int]] = {}
        self._marks: dict[Place, bytes] = {}
        self._chains: dict[Place, list[bytes]] = {}
        self._recent: dict[tuple[str, str], tuple[Recent, int]] = {}
        self._seen: list[Told] = []

    def told(self, value: Any, where: str) -> Any:
        """``value`` as the event tells it. Raises ``langgraph.no-safe-form``, naming it as ``where``."""
        self._where = where
        return self._small(self._told(value, apart=True)) if self._values.readable else self._leaf(value)

    def told_of(self, channel: tuple[str, str], value: Any, *, trusts: bool) -> Any:
        """The same for the value of a channel, whose list is known from the last time.

        What is still the very same object is taken to be what it was if ``trusts``, but for the last few: a list that
        grows then costs no more as it does. LangGraph asks that nothing in a state is changed in place.
        """
        where = f"the channel {channel[1]!r}"
        if type(value) is not list or len(value) <= SHORT or not self._values.readable:
            return self.told(value, where)
        self._where = where
        before = self._pieces.recent.get(channel)
        same = _same(before.items, value) if before is not None and trusts else 0
        kept = max(0, same - WATCHED)
        while before is not None and kept < same and self._is_still(before.told[kept], value[kept]):
            kept += 1
        old = (before.told[:kept], before.chains[:kept]) if before is not None else ([], [])
        told = [*old[0], *(self._item(item) for item in value[kept:])]
        chains = self._chained(told, old[1])
        self._recent[channel] = (Recent(list(value), told, chains), kept)
        return self._long(told, chains)

    def _is_still(self, told: Any, value: Any) -> bool:
        """Whether ``value`` is a message that has not changed since it was ``told``."""
        place = self._pieces.seen.place_of(value)
        return place is not None and told == _ref(place)

    def recorded(self, seq: int) -> None:
        """The event is on record as ``seq``: its nodes are known from now on."""
        self._pieces.hold(seq, self.nodes)
        for index in range(len(self.nodes)):
            self._pieces.note((seq, index))
        for key, place in self._by_bytes.items():
            self._pieces.by_bytes.setdefault(key, place if place[0] else (seq, place[1]))
        for told in self._seen:
            self._pieces.seen.keep(told if told.place[0] else replace(told, place=(seq, told.place[1])))
        for channel, (recent, kept) in self._recent.items():
            recent.told[kept:] = [absolute(one, seq) for one in recent.told[kept:]]
            self._pieces.recent[channel] = recent

    def _told(self, value: Any, *, apart: bool = False, inside: bool = False) -> Any:
        kind = type(value)
        if value is None or kind is bool or (kind is int and -(2**63) <= value < 2**64):
            return value
        if (kind is str and _is_text(value)) or (kind is float and math.isfinite(value)):
            return value
        if kind is list or kind is tuple:
            return self._list(value, inside=inside)
        if kind is dict and all(type(key) is str and _is_text(key) for key in value):
            return self._dict(value, apart=apart, inside=inside)
        if kind is Send:
            timeout = getattr(value, "timeout", None)
            arg = self._told(value.arg, apart=apart, inside=inside)
            return {"$send": [value.node, arg] if timeout is None else [value.node, arg, self._leaf(timeout)]}
        if kind is _DeltaSnapshot:
            return {"$delta": self._told(value.value)}
        return self._leaf(value)

    def _dict(self, value: dict[str, Any], *, apart: bool, inside: bool) -> Any:
        if len(value) > SHORT and apart:
            return {"$dict": self._list([[key, item] for key, item in value.items()], inside=False)}
        told = {key: self._told(item, apart=apart, inside=inside) for key, item in value.items()}
        if apart:
            told = {key: self._small(item, APART) for key, item in told.items()}
        if any(key[:1] == "$" for key in value):
            return {"$map": [[key, item] for key, item in told.items()]}
        return told

    def _leaf(self, value: Any) -> Any:
        """A value that only the serializer knows."""
        found = self._pieces.seen.place_of(value)
        if found is not None:
            return _ref(found)
        typed = self._values.typed(value, self._where)
        told = self._by_what_is_written(typed, lambda: self._values.told(typed, self._where))
        if _is_ref(told) and (now := told_as(value, place_in(told["$"]))) is not None:
            self._seen.append(now)
        return told

    def _item(self, value: Any) -> Any:
        """An item of a list. Most of a long one are known: what the serializer writes of them tells, and is quick."""
        if type(value) not in (dict, list, tuple):
            return self._small(self._told(value, inside=True))
        typed = self._values.typed(value, self._where)
        return self._by_what_is_written(typed, lambda: self._told(value, inside=True))

    def _by_what_is_written(self, typed: tuple[str, bytes], tell: Callable[[], Any]) -> Any:
        key = digest(typed[0].encode(), b"\n", typed[1])
        found = self._pieces.by_bytes.get(key) or self._by_bytes.get(key)
        if found is not None:
            return _ref(found)
        told = self._small(tell())
        if _is_ref(told):
            self._by_bytes[key] = place_in(told["$"])
        return told

    def _small(self, body: Any, limit: int = SMALL) -> Any:
        """``body``, or a reference to it as a node if it is over ``limit`` bytes."""
        if _is_ref(body) or (isinstance(body, dict) and len(body) == 1 and "$list" in body):
            return body
        if (isinstance(body, list) and len(body) <= SHORT) or len(_encode(body)) <= limit:
            return body
        mark = self._mark(body)
        found = self._pieces.by_mark.get(mark) or self._by_mark.get(mark)
        if found is None:
            found = (0, len(self.nodes))
            self.nodes.append(body)
            self._by_mark[mark], self._marks[found] = found, mark
        return _ref(found)

    def _list(self, items: Any, *, inside: bool) -> Any:
        told = [self._item(item) for item in items]
        if len(told) <= SHORT or (inside and len(_encode(told)) <= APART):
            return told
        return self._long(told, self._chained(told, []))

    def _chained(self, told: list[Any], known: list[bytes]) -> list[bytes]:
        """A digest up to each item, of which the first are known."""
        chains, chain = list(known), known[-1] if known else b""
        for item in told[len(known) :]:
            chain = digest(chain, self._mark(item))
            chains.append(chain)
        return chains

    def _long(self, told: list[Any], chains: list[bytes]) -> Any:
        """A list as a reference to one that is known, with what it has beyond that in a node."""
        base, keep = self._longest(chains)
        if base is None or keep < len(told):
            base = self._row(told, chains, base, keep)
        return {"$list": [*(base if base[0] else base[1:]), len(told)]}

    def _longest(self, chains: list[bytes]) -> tuple[Place | None, int]:
        """The known list that shares the longest beginning, and how long that is."""
        for count in range(len(chains), 0, -1):
            found = self._pieces.stretches.get(chains[count - 1]) or self._stretches.get(chains[count - 1])
            if found is not None:
                return found[0], count
        return None, 0

    def _row(self, told: list[Any], chains: list[bytes], base: Place | None, keep: int) -> Place:
        own = (0, len(self.nodes))
        kept = {} if base is None else {"$keep": [*(base if base[0] else base[1:]), keep]}
        self.nodes.append({**kept, "$add": told[keep:]})
        self._chains[own] = chains
        for count in range(keep + 1, len(chains) + 1):
            self._stretches[chains[count - 1]] = (own, count)
        return own

    def _mark(self, body: Any) -> bytes:
        return marked(body, self._mark_at, self._chain)

    def _mark_at(self, place: Place) -> bytes:
        return self._pieces.mark_at(place) if place[0] else self._marks[place]

    def _chain(self, place: Place, count: int) -> bytes:
        return self._pieces.chain(place, count) if place[0] else self._chains[place][count - 1]


def value_of(body: Any, pieces: Pieces, values: Values) -> Any:
    """The value that ``body`` tells, new each time; every node it needs must be in ``pieces``.

    Raises ``langgraph.not-allowed`` for a class that may not be made here.
    """
    if isinstance(body, list):
        return [value_of(item, pieces, values) for item in body]
    if not isinstance(body, dict):
        return body
    if len(body) == 1:
        ((name, told),) = body.items()
        match name:
            case "$":
                return _node_value(place_in(told), pieces, values)
            case "$list":
                return [value_of(item, pieces, values) for item in pieces.items(place_in(told[:-1]), told[-1])]
            case "$dict":
                return dict(value_of(told, pieces, values))
            case "$map":
                return {_key(value_of(key, pieces, values)): value_of(item, pieces, values) for key, item in told}
            case "$send":
                node, *rest = (value_of(item, pieces, values) for item in told)
                return Send(node, rest[0], **({"timeout": rest[1]} if len(rest) > 1 else {}))
            case "$delta":
                return _DeltaSnapshot(value_of(told, pieces, values))
            case _ if name[:1] == "$":
                return values.value(values.written(body))
    return {key: value_of(item, pieces, values) for key, item in body.items()}


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _node_value(place: Place, pieces: Pieces, values: Values) -> Any:
    packed = pieces.packed.get(place)
    if packed is not None:
        return values.value(packed)
    raw = pieces.plain.get(place)
    if raw is not None:
        return _decode(raw)
    body = pieces.bodies[place]
    if isinstance(body, dict) and len(body) == 1 and ("$ext" in body or "$typed" in body):
        pieces.packed[place] = values.written(body)
        return values.value(pieces.packed[place])
    raw = _encode(body)
    if b'"$' not in raw:
        pieces.plain[place] = raw
    return value_of(body, pieces, values)


def _same(before: list[Any], now: list[Any]) -> int:
    """How many items both begin with, as the same objects."""
    if len(before) <= len(now) and all(map(is_, before, now)):
        return len(before)
    return next((place for place, (a, b) in enumerate(zip(before, now, strict=False)) if a is not b), 0)


def _ref(place: Place) -> Any:
    return {"$": list(place) if place[0] else place[1]}


def _is_ref(body: Any) -> bool:
    return isinstance(body, dict) and len(body) == 1 and "$" in body


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


__all__ = ["Sheet", "absolute", "value_of"]
