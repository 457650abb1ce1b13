"""Messages of a LangGraph state that were told before, known again without being written once more.

The same object is the same message only if it holds what it held: each is kept with a copy of that, so that one that
was changed in place is told anew. Only the last are kept: they are what a graph shows again and again.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from msgspec import Struct

from forkpoint.adapters.apart import apart

Place: TypeAlias = tuple[int, int]
"""An event and which of its nodes. Event 0 is the one that is being made."""

KEPT = 128
"""How many of the messages told last are known again. More cost more in garbage collections than they save at rest."""


class Told(Struct, frozen=True, gc=False):
    """A message, a copy of what it held when it was told, and the node that it was told as.

    1, 1.0 and True are equal, and are not the same: ``counted`` are the fields that hold such things, and ``looks``
    is how they looked.
    """

    message: BaseMessage
    fields: dict[str, Any]
    extra: dict[str, Any] | None
    counted: tuple[str, ...]
    looks: str
    place: Place
    ref: dict[str, Any]
    """How the node is referred to."""

    def is_still(self) -> bool:
        """Whether the message holds what it held when it was told."""
        extra = self.message.__pydantic_extra__
        if self.fields != self.message.__dict__ or self.extra != extra:
            return False
        return not (self.counted or extra) or self.looks == _looks(self.message, self.counted)


class Seen:
    """The messages of one thread that were told last."""

    def __init__(self) -> None:
        self._told: dict[int, Told] = {}

    def ref_of(self, value: Any) -> dict[str, Any] | None:
        """A reference to the node that ``value`` was told as, if it was and has not changed since."""
        told = self._told.get(id(value))
        return told.ref if told is not None and told.message is value and told.is_still() else None

    def unchanged(self, messages: Iterable[Any], refs: Iterable[Any]) -> int:
        """How many of ``messages``, from the first on, hold what they held and were told as ``refs`` say."""
        known, count = self._told, 0
        for message, ref in zip(messages, refs, strict=False):
            told = known.get(id(message))
            if told is None or told.message is not message or told.ref != ref or not told.is_still():
                break
            count += 1
        return count

    def keep(self, told: Told) -> None:
        """Know this one again, and let the oldest go."""
        self._told.pop(id(told.message), None)
        self._told[id(told.message)] = told
        while len(self._told) > KEPT:
            del self._told[next(iter(self._told))]


def told_as(value: Any, place: Place, fields: dict[str, Any] | None = None) -> Told | None:
    """``value`` as it is now, told as the node at ``place``; ``None`` for what is not known again.

    ``fields`` is a copy of all it holds, if there is one.
    """
    if not isinstance(value, BaseMessage):
        return None
    try:
        if fields is None or fields != value.__dict__:
            fields = {name: apart(item) for name, item in value.__dict__.items()}
        extra = apart(value.__pydantic_extra__)
        counted = tuple(name for name, item in fields.items() if has_numbers(item))
        return Told(value, fields, extra, counted, _looks(value, counted), place, ref_to(place))
    except Exception:  # what cannot be copied cannot be compared later; it is written each time
        return None


def moved(told: Told, place: Place) -> Told:
    """The same, told as the node at ``place``."""
    return Told(told.message, told.fields, told.extra, told.counted, told.looks, place, ref_to(place))


def ref_to(place: Place) -> dict[str, Any]:
    """How an event refers to a node: by its number alone where it is its own."""
    return {"$": [place[0], place[1]] if place[0] else place[1]}


def has_numbers(value: Any) -> bool:
    """Whether ``value`` may hold what is equal to something that is not the same: numbers, or what is not known."""
    kind = type(value)
    if kind is str or value is None:
        return False
    if kind is list:
        return any(map(has_numbers, value))
    if kind is dict:
        return any(map(has_numbers, value)) or any(map(has_numbers, value.values()))
    return True


def _looks(message: BaseMessage, counted: tuple[str, ...]) -> str:
    extra = message.__pydantic_extra__
    return repr([extra or None, *[message.__dict__[name] for name in counted]]) if counted or extra else ""
