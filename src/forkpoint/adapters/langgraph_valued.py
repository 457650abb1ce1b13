"""Values of a LangGraph state, made of their pieces. Pure."""

from typing import Any

import msgspec
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from forkpoint.adapters.langgraph_pieces import Pieces, place_in
from forkpoint.adapters.langgraph_said import SAID
from forkpoint.adapters.langgraph_seen import Place
from forkpoint.adapters.langgraph_values import Values

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_WRITTEN = ("$ext", "$typed", SAID)
"""What the serializer makes."""


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
    if isinstance(body, dict) and len(body) == 1 and any(name in body for name in _WRITTEN):
        pieces.packed[place] = values.written(body)
        return values.value(pieces.packed[place])
    raw = _encode(body)
    if b'"$' not in raw:
        pieces.plain[place] = raw
    return value_of(body, pieces, values)
