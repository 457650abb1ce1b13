"""The pieces that a LangGraph thread's values are made of, each stored once. Pure.

A value is told as JSON (see ``langgraph_values``), with what is large or shared as nodes that events hold:

| JSON | Means |
| --- | --- |
| ``{"$": i}``, ``{"$": [seq, i]}`` | node ``i`` of this event, of event ``seq`` |
| ``{"$list": [i, n]}``, ``{"$list": [seq, i, n]}`` | the first ``n`` items of the list in that node |
| ``{"$dict": list}`` | a mapping, as the list of its pairs |
| ``{"$send": [node, value, timeout]}``, ``{"$delta": value}`` | LangGraph's ``Send``; a delta channel's snapshot |

A list's node is ``{"$keep": [seq, i, k], "$add": […]}``: the first ``k`` items of another list, then its own. So a list
that grows costs what it grows by, wherever it stands, and what two branches share lies there once.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from forkpoint.adapters.langgraph_said import SAID, said_in
from forkpoint.adapters.langgraph_seen import Place, Seen

_encode = msgspec.json.Encoder().encode
_NESTED = (list, dict)
_WHOLE = ("$ext", SAID, "$typed", "$bytes", "$float")
"""What names no nodes within."""


class Row(Struct, frozen=True, gc=False):
    """What is known of a list's node: the list it begins with, how much of that, and a digest up to each own item."""

    base: Place | None
    keep: int
    chains: tuple[bytes, ...]


class Recent(Struct, frozen=True):
    """A long list as it was told last: its very items, how each was told, and a digest up to each."""

    items: list[Any]
    told: list[Any]
    chains: list[bytes]

    def goes_on(self, kept: int, items: list[Any], told: list[Any], chains: list[bytes]) -> None:
        """The list has other items after the first ``kept``."""
        self.items[kept:], self.told[kept:], self.chains[kept:] = items, told, chains


class Pieces:
    """The nodes of one thread that this process knows.

    ``bodies`` is what they hold. Equal values are found ``by_mark``, a digest of what a node means; lists by that of
    any beginning of theirs, in ``stretches``; and ``by_bytes``, a digest of what the serializer wrote. ``packed`` and
    ``plain`` hold nodes as they are made into values quickest: as the serializer wrote them, and as JSON. ``recent``
    has the long lists of channels, ``seen`` the messages that were told last.
    """

    def __init__(self) -> None:
        self.bodies: dict[Place, Any] = {}
        self.by_mark: dict[bytes, Place] = {}
        self.by_bytes: dict[bytes, Place] = {}
        self.stretches: dict[bytes, tuple[Place, int]] = {}
        self.packed: dict[Place, tuple[str, bytes]] = {}
        self.plain: dict[Place, bytes] = {}
        self.recent: dict[tuple[str, str], Recent] = {}
        self.seen = Seen()
        self._marks: dict[Place, bytes] = {}
        self._rows: dict[Place, Row] = {}

    def hold(self, seq: int, nodes: list[Any]) -> None:
        """Take the nodes that event ``seq`` holds."""
        for index, body in enumerate(nodes):
            self.bodies[seq, index] = absolute(body, seq)

    def keep(self, place: Place, body: Any, mark: bytes) -> None:
        """Take a node whose digest is known."""
        self.bodies[place] = absolute(body, place[0])
        self._marks[place] = mark
        self.by_mark.setdefault(mark, place)

    def keep_row(self, place: Place, body: Any, chains: list[bytes]) -> None:
        """Take a list's node, given a digest up to each of its own items."""
        self.bodies[place] = row = absolute(body, place[0])
        base, start = _base_of(row)
        for number, chain in enumerate(chains, start + 1):
            self.stretches.setdefault(chain, (place, number))
        self._rows[place] = Row(base, start, tuple(chains))

    def items(self, place: Place, count: int) -> list[Any]:
        """The first ``count`` items of a list, as told."""
        stretches: list[list[Any]] = []
        while count > 0:
            body = self.bodies[place]
            keep = body.get("$keep")
            start = keep[2] if keep else 0
            if count > start:
                stretches.append(body["$add"][: count - start])
            if not keep:
                break
            place, count = (keep[0], keep[1]), min(count, start)
        return [item for stretch in reversed(stretches) for item in stretch]

    def missing(self, bodies: list[Any]) -> set[int]:
        """The events whose nodes ``bodies`` need and that are not here; more may be needed once they are."""
        wanted, seen, lost = list(bodies), set[Place](), set[int]()
        while wanted:
            for place in places(wanted.pop()):
                if place in seen:
                    continue
                seen.add(place)
                if place in self.bodies:
                    wanted.append(self.bodies[place])
                else:
                    lost.add(place[0])
        return lost

    def learn(self, bodies: list[Any]) -> None:
        """Know every node that ``bodies`` need, so that equal values refer to them."""
        stack = [place for body in bodies for place in places(body)]
        while stack:
            place = stack[-1]
            unknown = [one for one in places(self.bodies[place]) if not self._is_known(one)]
            if unknown and not self._is_known(place):
                stack += unknown
                continue
            stack.pop()
            if not self._is_known(place):
                self.note(place)

    def _is_known(self, place: Place) -> bool:
        return place in self._marks or place in self._rows

    def note(self, place: Place) -> None:
        """Know one node, given that those it needs are known."""
        body = self.bodies[place]
        if not _is_row(body):
            self._marks[place] = mark = self.mark(body)
            self.by_mark.setdefault(mark, place)
            return
        base, start = _base_of(body)
        chains, chain = [], self.chain(base, start) if base else b""
        for number, item in enumerate(body["$add"], start + 1):
            chain = digest(chain, self.mark(item))
            chains.append(chain)
            self.stretches.setdefault(chain, (place, number))
        self._rows[place] = Row(base, start, tuple(chains))

    def mark(self, body: Any) -> bytes:
        """The digest of what ``body`` means, given that the nodes it needs are known."""
        return marked(body, self._marks.__getitem__, self.chain)

    def mark_at(self, place: Place) -> bytes:
        """The digest of what a known node means."""
        return self._marks[place]

    def chain(self, place: Place, count: int) -> bytes:
        """The digest of the first ``count`` items of a known list."""
        row = self._rows[place]
        while count <= row.keep and row.base is not None:
            row = self._rows[row.base]
        return row.chains[count - row.keep - 1] if count else b""


def marked(body: Any, mark_at: Callable[[Place], bytes], chain: Callable[[Place, int], bytes]) -> bytes:
    """The digest of what ``body`` means, wherever its nodes lie."""
    if isinstance(body, dict) and "$ext" in body and len(body) == 1:
        body = said_in(body)
    raw = _encode(body)
    if b'"$":' not in raw and b'"$list":' not in raw:
        return digest(raw)
    if isinstance(body, list):
        return digest(b"[", *(marked(item, mark_at, chain) for item in body))
    if "$" in body:
        return mark_at(place_in(body["$"]))
    if "$list" in body:
        *where, count = body["$list"]
        return digest(b"list", chain(place_in(where), count))
    return digest(b"{", *(digest(_encode(key), marked(item, mark_at, chain)) for key, item in body.items()))


def digest(*parts: bytes) -> bytes:
    """128 bits of SHA-256."""
    return hashlib.sha256(b"".join(parts)).digest()[:16]


def places(body: Any) -> Iterator[Place]:
    """The nodes that ``body`` names."""
    if isinstance(body, list):
        for item in body:
            yield from places(item)
    elif isinstance(body, dict):
        if len(body) == 1:
            (name,) = body
            if name in _WHOLE:
                return
            if name == "$":
                yield place_in(body["$"])
                return
            if name == "$list":
                yield place_in(body["$list"][:-1])
                return
        if _is_row(body):
            if "$keep" in body:
                yield (body["$keep"][0], body["$keep"][1])
            yield from places(body["$add"])
            return
        for item in body.values():
            yield from places(item)


def absolute(body: Any, seq: int) -> Any:
    """``body`` with the event's own nodes named as those of event ``seq``."""
    kind = type(body)
    if kind is list:
        return [absolute(item, seq) if type(item) in _NESTED else item for item in body]
    if kind is not dict:
        return body
    if len(body) == 1:
        (name,) = body
        if name in _WHOLE:
            return body
        if name == "$":
            return {"$": [seq, body["$"]]} if type(body["$"]) is int else body
        if name == "$list":
            return {"$list": [seq, *body["$list"]]} if len(body["$list"]) == 2 else body
    told = {key: absolute(item, seq) if type(item) in _NESTED else item for key, item in body.items()}
    if _is_row(body) and len(body.get("$keep", "   ")) == 2:
        told["$keep"] = [seq, *body["$keep"]]
    return told


def place_in(where: Any) -> Place:
    """The place that ``i``, ``[i]`` or ``[seq, i]`` means."""
    if isinstance(where, int):
        return 0, where
    return (0, where[0]) if len(where) == 1 else (where[0], where[1])


def _base_of(row: Any) -> tuple[Place | None, int]:
    keep = row.get("$keep")
    return ((keep[0], keep[1]), keep[2]) if keep else (None, 0)


def _is_row(body: Any) -> bool:
    return isinstance(body, dict) and "$add" in body
