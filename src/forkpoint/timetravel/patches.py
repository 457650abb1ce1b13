"""The "what if" a fork starts with, and how it becomes the data that the fork's first event holds. Pure."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from forkpoint.errors import PatchBad
from forkpoint.events import Keep, Put
from forkpoint.messages import BlobPart, FilePart, Message, Part, Reasoning, Text, UriPart


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


_SPOKEN = (Text, Reasoning, BlobPart, FilePart, UriPart)
"""The parts that may come from a person: no calls, and no answers to calls."""

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

    Of a function's run, ``messages`` and ``input`` are not taken. ``tool_results`` takes any effect by its id, a
    model's answer as a text or a ``Message``, and the fork point moves to just before the first of them ended.
    ``model``, ``instructions``, ``settings`` and ``tools`` stand in place of what the code asks from here on.
    ``arguments`` are what the function is called with: a sequence, or a mapping of names.
    """

    messages: Edits | UnsetType = UNSET
    state: Mapping[str, Any] | UnsetType | None = UNSET
    tool_results: Mapping[str | int, Any] = field(default_factory=dict)
    instructions: str | UnsetType = UNSET
    model: Any = UNSET
    settings: Mapping[str, Any] | UnsetType = UNSET
    tools: Sequence[Any] | UnsetType = UNSET
    input: "str | Sequence[Part] | UnsetType" = UNSET
    arguments: Sequence[Any] | Mapping[str, Any] | UnsetType = UNSET

    @property
    def changed(self) -> tuple[str, ...]:
        """The parts of the agent that it sets."""
        names = ("instructions", "model", "settings", "tools")
        return tuple(name for name in names if getattr(self, name) is not UNSET)


def parts_of(given: "str | Part | Message | Sequence[Part]") -> tuple[Part, ...]:
    """User input as parts. Raises ``patch.bad`` for what is none."""
    parts: tuple[Any, ...]
    match given:
        case str():
            return (Text(content=given),)
        case Message():
            parts = given.parts
        case Sequence():
            parts = tuple(given)
        case _:
            parts = (given,)
    if not all(isinstance(part, _SPOKEN) for part in parts):
        raise PatchBad(part="input", detail="it is neither a text nor a sequence of parts that a person may say")
    return parts


def edited(told: Sequence[Message], edits: Edits) -> list[Message]:
    """The transcript ``told`` after ``edits``. Indices count in ``told``. Raises ``patch.bad``."""
    if callable(edits):
        return _sound(told, edits(list(told)))
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
    result: list[Message] = []
    for index in range(len(told) + 1):
        result += inserted.get(index, ())
        if index < len(told):
            message = changed.get(index, told[index])
            result += [message] if message is not None else []
    return _sound(told, result)


def _sound(told: Sequence[Message], wanted: Sequence[Message]) -> list[Message]:
    """``wanted``, each tool's answer a message of its own. Raises ``patch.bad`` for what could not be read again."""
    sound: list[Message] = []
    known = {id(message) for message in told}
    for message in wanted:
        if id(message) in known:
            sound.append(message)
            continue
        try:
            read = msgspec.json.decode(msgspec.json.encode(message), type=Message)
        except (TypeError, msgspec.MsgspecError, RecursionError) as error:
            raise PatchBad(part="messages", detail=f"{message!r:.200} is no message: {error}") from error
        apart = read.role == "tool" and len(read.parts) > 1
        sound += [Message(role="tool", parts=(part,)) for part in read.parts] if apart else [read]
    return sound


def as_edits(
    told: Sequence[Message], wanted: Sequence[Message], *, loose: Container[int] = ()
) -> tuple[Keep | Put, ...]:
    """``wanted`` told as stretches kept of ``told`` and messages put in, in order.

    ``loose`` has the indices of messages in ``told`` that no event holds (``transcript.loose``); they are put in.
    """
    edits: list[Keep | Put] = []
    place = 0
    for message in wanted:
        at = next((i for i in range(place, len(told)) if told[i] is message or told[i] == message), None)
        if at is None or at in loose:
            edits.append(Put(message=message))
            place = place if at is None else at + 1
            continue
        last = edits[-1] if edits else None
        if isinstance(last, Keep) and last.stop == at:
            edits[-1] = Keep(start=last.start, stop=at + 1)
        else:
            edits.append(Keep(start=at, stop=at + 1))
        place = at + 1
    return tuple(edits)
