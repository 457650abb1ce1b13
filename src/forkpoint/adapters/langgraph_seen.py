"""Messages of a LangGraph state that were told before, known again without being written once more.

The same object is the same message only if it holds what it held: each is kept with a copy of that, so that one that
was changed in place is told anew. Only the last few are kept: they are what a graph shows again and again.
"""

from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from msgspec import Struct

from forkpoint.adapters.apart import apart

Place: TypeAlias = tuple[int, int]
"""An event and which of its nodes. Event 0 is the one that is being made."""

KEPT = 64
"""How many of the messages told last are known again."""


class Told(Struct, frozen=True):
    """A message, a copy of what it held when it was told and how that looks, and the node that it was told as."""

    message: BaseMessage
    held: tuple[Any, ...]
    looks: str
    place: Place


class Seen:
    """The messages of one thread that were told last."""

    def __init__(self) -> None:
        self._told: dict[int, Told] = {}

    def place_of(self, value: Any) -> Place | None:
        """The node that ``value`` was told as, if it was and has not changed since."""
        told = self._told.get(id(value))
        if told is None or told.message is not value or told.held != (held := _held(value)):
            return None
        # 1, 1.0 and True are equal, and are not the same.
        if told.looks != _looks(held):
            return None
        return told.place

    def keep(self, told: Told) -> None:
        """Know this one again, and let the oldest go."""
        self._told.pop(id(told.message), None)
        self._told[id(told.message)] = told
        while len(self._told) > KEPT:
            del self._told[next(iter(self._told))]


def told_as(value: Any, place: Place) -> Told | None:
    """``value`` as it is now, told as the node at ``place``; ``None`` for what is not known again."""
    if not isinstance(value, BaseMessage):
        return None
    try:
        fields, extra = held = _held(value)
        return Told(value, ({name: apart(item) for name, item in fields.items()}, apart(extra)), _looks(held), place)
    except Exception:  # what cannot be copied cannot be compared later; it is written each time
        return None


def _held(message: BaseMessage) -> tuple[dict[str, Any], Any]:
    return message.__dict__, message.__pydantic_extra__


def _looks(held: tuple[dict[str, Any], Any]) -> str:
    fields, extra = held
    return repr([extra, *[item for item in fields.values() if type(item) is not str]])
