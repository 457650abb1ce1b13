"""A recorded conversation as data, whatever file it came from, and what had to be repaired to make it one."""

from typing import Any, TypeAlias

from msgspec import Struct

from forkpoint._canon import value_digest
from forkpoint.definition import ToolRecord
from forkpoint.messages import Message, Part

MARK = "openai"
"""Where a part's ``extra`` keeps what the file said beside it: keys that our parts have no place for, another role."""


class Repair(Struct, frozen=True):
    """One thing that was not as it should be, and what was made of it. ``index`` is the message in the file, from 0."""

    index: int | None
    says: str

    def __str__(self) -> str:
        return self.says if self.index is None else f"message {self.index}: {self.says}"


class Result(Struct, frozen=True):
    """The answer to call number ``place`` (from 0) of a response, from message ``index`` of the file."""

    place: int
    value: Any
    index: int


class Input(Struct, frozen=True):
    """Something that was said to the model."""

    parts: tuple[Part, ...]
    index: int


class Response(Struct, frozen=True):
    """Something that the model said, with the results of its calls as the file orders them."""

    message: Message
    results: tuple[Result, ...]
    index: int


Item: TypeAlias = Input | Response


class Conversation(Struct, frozen=True, kw_only=True):
    """One conversation of a file. ``where`` is its place there (``$[3]``, ``line 4``).

    ``tools`` are those that the file defines or that were called, ``labels`` what it says about the whole.
    """

    where: str
    format: str
    items: tuple[Item, ...] = ()
    instructions: str = ""
    model: str = ""
    tools: tuple[ToolRecord, ...] = ()
    labels: dict[str, str] = {}
    repairs: tuple[Repair, ...] = ()

    @property
    def digest(self) -> str:
        """The name of what it says: equal conversations, equal names, whatever file they are in."""
        said = [self.format, self.instructions, self.model, self.tools, self.labels, self.items]
        return value_digest(said).removeprefix("sha256:")
