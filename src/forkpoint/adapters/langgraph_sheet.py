"""Values of a LangGraph state to pieces. Pure."""

import math
from collections.abc import Callable
from operator import is_
from typing import Any

import msgspec
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from forkpoint.adapters.langgraph_pieces import Pieces, Recent, absolute, digest, marked, place_in
from forkpoint.adapters.langgraph_said import is_text, said_of
from forkpoint.adapters.langgraph_seen import Place, Told, moved, ref_to, told_as
from forkpoint.adapters.langgraph_values import Values

SMALL = 64
"""Bytes of JSON up to which a value stands where it is used."""

APART = 1024
"""From how many bytes on a value inside a mapping is a node, so that the mapping may change around it."""

SHORT = 8
"""How many items a list has at most that is written where it is used."""

WATCHED = 16
"""How many of the last items of a list are looked at anew, though they are the same objects as before."""

_SHORT_TEXT = 10
"""A text of so many characters is small however they are written."""

_encode = msgspec.json.Encoder().encode


class _Grown(msgspec.Struct, frozen=True):
    """What a channel's long list has after the first ``kept`` items: those, how each is told, a digest up to each."""

    kept: int
    items: list[Any]
    told: list[Any]
    chains: list[bytes]


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
        self._rows: dict[int, tuple[int, list[bytes]]] = {}
        self._grown: dict[tuple[str, str], _Grown] = {}
        self._messages: dict[int, Told] = {}
        self._sends: dict[int, tuple[Send, Any]] = {}

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
        kept = self._kept(before, value, trusts) if before is not None else 0
        chain = before.chains[kept - 1] if before is not None and kept else b""
        items = value[kept:]
        told = [self._item(item) for item in items]
        chains = self._chained(told, chain)
        self._grown[channel] = _Grown(kept, items, told, chains)
        return self._long(told, chains, kept, chain)

    def _kept(self, before: Recent, value: list[Any], trusts: bool) -> int:
        """How many items need not be told again: the same objects, if ``trusts``, but for the last few; and of the
        others those that are messages which are still what they were."""
        same = _same(before.items, value)
        kept = max(0, same - WATCHED) if trusts else 0
        kept += self._pieces.seen.unchanged(value[kept:same], before.told[kept:same])
        return kept if kept and before.chains[kept - 1] in self._pieces.stretches else 0

    def recorded(self, seq: int) -> None:
        """The event is on record as ``seq``: its nodes are known from now on."""
        pieces = self._pieces
        for index, body in enumerate(self.nodes):
            if index in self._rows:
                pieces.keep_row((seq, index), body, self._rows[index][1])
            else:
                pieces.keep((seq, index), body, self._marks[0, index])
        for key, place in self._by_bytes.items():
            pieces.by_bytes.setdefault(key, place if place[0] else (seq, place[1]))
        for message in self._messages.values():
            pieces.seen.keep(message if message.place[0] else moved(message, (seq, message.place[1])))
        for channel, grown in self._grown.items():
            told = [absolute(one, seq) for one in grown.told]
            if grown.kept:
                pieces.recent[channel].goes_on(grown.kept, grown.items, told, grown.chains)
            else:
                pieces.recent[channel] = Recent(grown.items, told, grown.chains)

    def _told(self, value: Any, *, apart: bool = False, inside: bool = False) -> Any:
        kind = type(value)
        if value is None or kind is bool or (kind is int and -(2**63) <= value < 2**64):
            return value
        if (kind is str and is_text(value)) or (kind is float and math.isfinite(value)):
            return value
        if kind is list or kind is tuple:
            return self._list(value, inside=inside)
        if kind is dict and all(type(key) is str and is_text(key) for key in value):
            return self._dict(value, apart=apart, inside=inside)
        if kind is Send:
            return self._send(value, apart=apart, inside=inside)
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

    def _send(self, value: Send, *, apart: bool, inside: bool) -> Any:
        # A task is written, and stands in the checkpoint that comes with that.
        if id(value) in self._sends:
            return self._sends[id(value)][1]
        timeout = getattr(value, "timeout", None)
        arg = self._told(value.arg, apart=apart, inside=inside)
        told = {"$send": [value.node, arg] if timeout is None else [value.node, arg, self._leaf(timeout)]}
        self._sends[id(value)] = value, told
        return told

    def _leaf(self, value: Any) -> Any:
        """A value that only the serializer knows."""
        ref = self._pieces.seen.ref_of(value)
        if ref is not None:
            return ref
        if id(value) in self._messages:
            return self._messages[id(value)].ref
        said = said_of(value) if self._values.is_langgraphs else None
        if said is not None:
            told, fields = self._small(said[0]), said[1]
        else:
            typed, fields = self._values.typed(value, self._where), None
            told = self._by_what_is_written(typed, lambda: self._values.told(typed, self._where))
        if _is_ref(told) and (now := told_as(value, place_in(told["$"]), fields)) is not None:
            self._messages[id(value)] = now
        return told

    def _item(self, value: Any) -> Any:
        """An item of a long list. Most are known: what the serializer writes of them tells, and is quick."""
        if type(value) not in (dict, list, tuple):
            return self._small(self._told(value, inside=True))
        typed = self._values.typed(value, self._where)
        return self._by_what_is_written(typed, lambda: self._told(value, inside=True))

    def _by_what_is_written(self, typed: tuple[str, bytes], tell: Callable[[], Any]) -> Any:
        key = digest(typed[0].encode(), b"\n", typed[1])
        found = self._pieces.by_bytes.get(key) or self._by_bytes.get(key)
        if found is not None:
            return ref_to(found)
        told = self._small(tell())
        if _is_ref(told):
            self._by_bytes[key] = place_in(told["$"])
        return told

    def _small(self, body: Any, limit: int = SMALL) -> Any:
        """``body``, or a reference to it as a node if it is over ``limit`` bytes."""
        if _is_small(body) or len(_encode(body)) <= limit:
            return body
        mark = self._mark(body)
        found = self._pieces.by_mark.get(mark) or self._by_mark.get(mark)
        if found is None:
            found = (0, len(self.nodes))
            self.nodes.append(body)
            self._by_mark[mark], self._marks[found] = found, mark
        return ref_to(found)

    def _list(self, items: Any, *, inside: bool) -> Any:
        if len(items) <= SHORT:
            return [self._small(self._told(item, inside=True)) for item in items]
        told = [self._item(item) for item in items]
        if inside and len(_encode(told)) <= APART:
            return told
        return self._long(told, self._chained(told, b""))

    def _chained(self, told: list[Any], chain: bytes) -> list[bytes]:
        """A digest up to each item, the first of which comes after ``chain``."""
        chains = []
        for item in told:
            chain = digest(chain, self._mark(item))
            chains.append(chain)
        return chains

    def _long(self, told: list[Any], chains: list[bytes], start: int = 0, before: bytes = b"") -> Any:
        """A list as a reference to one that is known, with what it has beyond that in a node.

        ``told`` and ``chains`` are of the items after the first ``start``, whose digest is ``before``.
        """
        base, keep = self._longest(chains, start, before)
        whole = start + len(told)
        if base is None or keep < whole:
            base = self._row(told[keep - start :], chains[keep - start :], base, keep)
        return {"$list": [*(base if base[0] else base[1:]), whole]}

    def _longest(self, chains: list[bytes], start: int, before: bytes) -> tuple[Place | None, int]:
        """The known list that shares the longest beginning, and how long that is."""
        for count in range(len(chains), 0, -1):
            found = self._pieces.stretches.get(chains[count - 1]) or self._stretches.get(chains[count - 1])
            if found is not None:
                return found[0], start + count
        return (self._pieces.stretches[before][0], start) if start else (None, 0)

    def _row(self, told: list[Any], chains: list[bytes], base: Place | None, keep: int) -> Place:
        own = (0, len(self.nodes))
        kept = {} if base is None else {"$keep": [*(base if base[0] else base[1:]), keep]}
        self.nodes.append({**kept, "$add": told})
        self._rows[own[1]] = keep, chains
        for count, chain in enumerate(chains, keep + 1):
            self._stretches[chain] = (own, count)
        return own

    def _mark(self, body: Any) -> bytes:
        return self._mark_at(place_in(body["$"])) if _is_ref(body) else marked(body, self._mark_at, self._chain)

    def _mark_at(self, place: Place) -> bytes:
        return self._pieces.mark_at(place) if place[0] else self._marks[place]

    def _chain(self, place: Place, count: int) -> bytes:
        if place[0]:
            return self._pieces.chain(place, count)
        keep, chains = self._rows[place[1]]
        return chains[count - keep - 1]


def _same(before: list[Any], now: list[Any]) -> int:
    """How many items both begin with, as the same objects."""
    if len(before) <= len(now) and all(map(is_, before, now)):
        return len(before)
    return next((place for place, (a, b) in enumerate(zip(before, now, strict=False)) if a is not b), 0)


def _is_small(body: Any) -> bool:
    """Whether ``body`` need not be written to see that it is small."""
    kind = type(body)
    if kind is dict:
        return not body or (len(body) == 1 and ("$" in body or "$list" in body))
    if kind is list:
        return len(body) <= SHORT
    return kind is not str or len(body) <= _SHORT_TEXT


def _is_ref(body: Any) -> bool:
    return type(body) is dict and len(body) == 1 and "$" in body
