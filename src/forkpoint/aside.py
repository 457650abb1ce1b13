"""Large values out of events, and back in: what is over the limit is a blob that the event refers to."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct

from forkpoint._canon import content_digest
from forkpoint._word import Holder, Ref
from forkpoint.errors import BlobMissing

S = TypeVar("S", bound=Struct)

_encode = msgspec.json.Encoder().encode


def set_aside(word: S, limit: int) -> tuple[S, dict[str, bytes]]:
    """``word`` with every value over ``limit`` bytes of JSON replaced by a reference, and the blobs."""
    blobs: dict[str, bytes] = {}

    def out(held: Holder) -> Holder:
        large = {}
        for name in held.LARGE:
            value = getattr(held, name)
            data = b"" if value is UNSET else _encode(value)
            if len(data) > limit:
                digest = content_digest(data)
                blobs[digest] = data
                large[name] = Ref(digest=digest, size=len(data))
        if not large:
            return held
        empty = {name: _default(held, name) for name in large}
        return msgspec.structs.replace(held, aside=(held.aside or {}) | large, **empty)

    rebuilt: S = _rebuild(word, out)
    return rebuilt, blobs


def bring_back(word: S, blob: Callable[[str], bytes]) -> S:
    """``word`` with every value in its place again. Raises ``blob.missing`` where ``blob`` has none."""

    def back(held: Holder) -> Holder:
        if not held.aside:
            return held
        types = {field.name: field.type for field in msgspec.structs.fields(held)}
        values = {
            name: msgspec.json.decode(_load(blob, ref.digest), type=types[name]) for name, ref in held.aside.items()
        }
        return msgspec.structs.replace(held, aside=None, **values)

    rebuilt: S = _rebuild(word, back)
    return rebuilt


def stand_aside(words: Iterable[Holder]) -> bool:
    """Whether a large value of one of ``words`` is a blob."""
    for word in words:  # noqa: SIM110  a generator doubles the cost of every message
        if word.aside:
            return True
    return False


def refs(word: Any) -> dict[str, Ref]:
    """Every blob that ``word`` refers to, by digest."""
    found: dict[str, Ref] = {}
    _note(word, found)
    return found


def _note(value: Any, found: dict[str, Ref]) -> None:
    if isinstance(value, tuple):
        for item in value:
            if isinstance(item, Struct | tuple):
                _note(item, found)
        return
    for name in value.__struct_fields__:
        held = getattr(value, name)
        if isinstance(held, Struct | tuple):
            _note(held, found)
    if isinstance(value, Holder) and value.aside:
        found.update({ref.digest: ref for ref in value.aside.values()})


def _load(blob: Callable[[str], bytes], digest: str) -> bytes:
    try:
        return blob(digest)
    except KeyError:
        raise BlobMissing(digest=digest) from None


def _default(held: Holder, name: str) -> Any:
    return next(field.default for field in msgspec.structs.fields(held) if field.name == name)


def _rebuild(value: Any, change: Callable[[Holder], Holder]) -> Any:
    """``value`` with ``change`` made to every holder in it, inner ones first; the same object if none changed."""
    if isinstance(value, Struct):
        changed = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            if isinstance(old, Struct | tuple) and name != "aside":
                new = _rebuild(old, change)
                if new is not old:
                    changed[name] = new
        value = msgspec.structs.replace(value, **changed) if changed else value
        return change(value) if isinstance(value, Holder) else value
    if isinstance(value, tuple):
        items = tuple(_rebuild(item, change) for item in value)
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value
