"""The "what if" a fork starts with, and how it becomes the data that the fork's first event holds. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from forkpoint.errors import PatchBad
from forkpoint.events import Keep, Put
from forkpoint.messages import Message, Part, Text


@dataclass(frozen=True)
class Replace:
    """Put ``message`` in the place of message ``index`` (from 0)."""

    index: int
    message: Message


@dataclass(frozen=True)
class Delete:
    """Leave out message ``index`` (from 0)."""

    index: int


@dataclass(frozen=True)
class Insert:
    """Put ``message`` before message ``index`` (from 0); at the end for the number of messages."""

    index: int
    message: Message


Edit: TypeAlias = Replace | Delete | Insert
Edits: TypeAlias = Sequence[Edit] | Callable[[list[Message]], Sequence[Message]]


@dataclass(frozen=True)
class ToolError:
    """In ``tool_results``: the call fails with this text, instead of succeeding with a value."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Patch:
    """What is different in a fork. A part left out is unset; ``None`` is a value. Applied in this order.

    ``messages``: edits of the transcript, or a function from it to another. ``state``: the application's state;
    ``None`` clears it. ``tool_results``: a call (provider's id, or effect id as an int) to its new result, or a
    ``ToolError``. ``instructions``, ``model``, ``settings``, ``tools``: the agent from here on. ``input``: a user's
    message, queued.
    """

    messages: Edits | UnsetType = UNSET
    state: Mapping[str, Any] | UnsetType | None = UNSET
    tool_results: Mapping[str | int, Any] = field(default_factory=dict)
    instructions: str | UnsetType = UNSET
    model: Any = UNSET
    settings: Mapping[str, Any] | UnsetType = UNSET
    tools: Sequence[Any] | UnsetType = UNSET
    input: "str | Sequence[Part] | UnsetType" = UNSET

    @property
    def changed(self) -> tuple[str, ...]:
        """The parts of the agent that it sets."""
        names = ("instructions", "model", "settings", "tools")
        return tuple(name for name in names if getattr(self, name) is not UNSET)


def parts_of(given: "str | Part | Message | Sequence[Part]") -> tuple[Part, ...]:
    """User input as parts. Raises ``patch.bad`` for what is none."""
    if isinstance(given, str):
        return (Text(content=given),)
    if isinstance(given, Message):
        return given.parts
    if isinstance(given, msgspec.Struct):
        return (given,)
    parts = tuple(given)
    if not all(isinstance(part, msgspec.Struct) for part in parts):
        raise PatchBad(part="input", detail="it is neither a text nor a sequence of message parts")
    return parts


def edited(told: Sequence[Message], edits: Edits) -> list[Message]:
    """The transcript ``told`` after ``edits``. Indices count in ``told``. Raises ``patch.bad``."""
    if callable(edits):
        result = list(edits(list(told)))
        if not all(isinstance(message, Message) for message in result):
            raise PatchBad(part="messages", detail="the function returned something that is no message")
        return result
    changed: dict[int, Message | None] = {}
    inserted: dict[int, list[Message]] = {}
    for edit in edits:
        limit = len(told) if isinstance(edit, Insert) else len(told) - 1
        if not isinstance(edit, Replace | Delete | Insert) or not 0 <= edit.index <= limit:
            raise PatchBad(part="messages", detail=f"{edit!r} does not fit {len(told)} messages")
        if isinstance(edit, Insert):
            inserted.setdefault(edit.index, []).append(edit.message)
        else:
            changed[edit.index] = edit.message if isinstance(edit, Replace) else None
    result = []
    for index in range(len(told) + 1):
        result += inserted.get(index, ())
        if index < len(told):
            message = changed.get(index, told[index])
            result += [message] if message is not None else []
    return result


def as_edits(told: Sequence[Message], wanted: Sequence[Message]) -> tuple[Keep | Put, ...]:
    """``wanted`` told as stretches kept of ``told`` and messages put in, in order."""
    edits: list[Keep | Put] = []
    place = 0
    for message in wanted:
        at = next((i for i in range(place, len(told)) if told[i] is message or told[i] == message), None)
        if at is None:
            edits.append(Put(message=message))
            continue
        last = edits[-1] if edits else None
        if isinstance(last, Keep) and last.stop == at:
            edits[-1] = Keep(start=last.start, stop=at + 1)
        else:
            edits.append(Keep(start=at, stop=at + 1))
        place = at + 1
    return tuple(edits)
