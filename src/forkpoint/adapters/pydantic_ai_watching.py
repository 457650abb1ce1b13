"""Whether what Pydantic AI shows again is as it was: fields are read and compared, whole lists at a time.

Parts and responses can be changed in place, by a history processor, by a tool, by Pydantic AI itself. Of every object
the fields that a conversion reads are kept as they were: what nobody can change in place as it is, so that it is known
again for being the very same object, anything else as a copy.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter, is_
from typing import Any

from pydantic_ai import messages as theirs

from forkpoint.adapters.apart import apart
from forkpoint.adapters.pydantic_ai_messages import OF_MESSAGE

# Of any other kind a conversion reads every field.
_READ = {
    theirs.SystemPromptPart: ("content", "part_kind"),
    theirs.UserPromptPart: ("content", "part_kind"),
    theirs.ToolReturnPart: ("content", "tool_call_id", "outcome", "part_kind"),
    theirs.ModelResponse: (*OF_MESSAGE, "finish_reason"),
}

Held = tuple[Any, ...]
"""The fields of one object as they were."""

_parts = attrgetter("parts")


def read(things: Iterable[Any]) -> list[Held]:
    """The fields of each as they are now."""
    return [_reader(one.__class__)(one) for one in things]


def held(things: Iterable[Any]) -> list[Held] | None:
    """The fields of each, so that no later change reaches them; ``None`` if one cannot be copied."""
    try:
        return [tuple(map(apart, values)) for values in read(things)]
    except Exception:  # what a copy raises is up to whoever made the value
        return None


class Talk:
    """Messages as they were told last, and what was made of them.

    ``unsure`` says that it cannot be seen whether one of them has changed since.
    """

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.made: list[Any] = []
        self.unsure = False
        self._parts: list[list[Any]] = []
        self._things: dict[Any, tuple[list[Any], list[Held]]] = {}

    def begins(self, told: Sequence[Any]) -> bool:
        """Whether ``told`` begins with these messages, each as it was."""
        head = told[: len(self.messages)]
        return (
            len(head) == len(self.messages)
            and all(map(is_, head, self.messages))
            and list(map(_parts, head)) == self._parts
            and all(list(map(_reader(kind), things)) == were for kind, (things, were) in self._things.items())
        )

    def add(self, message: Any) -> None:
        """``message`` comes next."""
        self.messages.append(message)
        self._parts.append(list(message.parts))

    def heard(self, things: Sequence[Any], were: Sequence[Held] | None, made: Iterable[Any]) -> None:
        """``made`` was made of the last message, by reading ``things`` when they were so."""
        self.made += made
        self.unsure = self.unsure or were is None
        for thing, values in zip(things, were or (), strict=False):
            known = self._things.setdefault(thing.__class__, ([], []))
            known[0].append(thing)
            known[1].append(values)


@cache
def _reader(kind: type) -> Callable[[Any], Held]:
    known = [one.name for one in fields(kind)]
    wanted = next((names for base, names in _READ.items() if issubclass(kind, base)), known)
    # An older release does not have them all.
    names = [name for name in wanted if name in known]
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda thing: (get(thing),)
