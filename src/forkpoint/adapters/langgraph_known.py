"""What a recorded function's messages are in our words, each told once: a request has most of what the last one had.

A message is known by being the same object, and told anew if its content or its calls are others than they were: set
in its place, or changed within. For the messages that a conversation had before, all of that is compared at once,
without looking at each in Python.
"""

from collections.abc import Iterable, Sequence
from operator import is_, itemgetter
from typing import Any

from langchain_core.messages import BaseMessage

from forkpoint.adapters.apart import apart
from forkpoint.adapters.langchain_messages import to_ours
from forkpoint.adapters.langgraph_seen import has_numbers
from forkpoint.messages import Message

LINES = 8
"""How many conversations are known that go on side by side."""

_MOST = 10_000

_content, _calls = itemgetter("content"), itemgetter("tool_calls")


class Known:
    """The messages that one recorded function's models were shown."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._told: dict[int, tuple[BaseMessage, Any, Any, Message]] = {}

    def told(self, messages: Sequence[BaseMessage]) -> list[Message]:
        """``messages`` in our words."""
        line = next((line for line in self._lines if line.goes_on(messages)), None)
        if line is None:
            line = _Line()
        else:
            self._lines.remove(line)
        for message in messages[len(line.messages) :]:
            line.add(message, self._ours(message))
        self._lines = [line, *self._lines[: LINES - 1]]
        return [*line.told]

    def _ours(self, message: BaseMessage) -> Message:
        """One message, which another conversation may have had."""
        content, calls = message.content, message.__dict__.get("tool_calls")
        there = self._told.get(id(message))
        if there is not None and there[0] is message and there[1] is content and there[2] == calls:
            return there[3]
        ours = to_ours(message)
        if isinstance(content, str):  # blocks may change within
            if len(self._told) >= _MOST:
                self._told.clear()
            self._told[id(message)] = (message, content, apart(calls), ours)
        return ours


class _Line:
    """A conversation as it was told last, and what its messages held then."""

    def __init__(self) -> None:
        self.messages: list[BaseMessage] = []
        self.told: list[Message] = []
        self._fields: list[dict[str, Any]] = []
        self._contents: list[Any] = []
        self._asking: list[dict[str, Any]] = []
        self._asked: list[Any] = []
        self._in_blocks: list[dict[str, Any]] = []
        self._blocks: list[Any] = []
        # 1, 1.0 and True are equal, and are not the same.
        self._counted: list[dict[str, Any]] = []
        self._looks: list[str] = []

    def goes_on(self, messages: Sequence[BaseMessage]) -> bool:
        """Whether ``messages`` begin with these, and these are what they were."""
        return (
            len(self.messages) <= len(messages)
            and _are(self.messages, messages)
            and _are(self._contents, map(_content, self._fields))
            and self._asked == list(map(_calls, self._asking))
            and self._blocks == list(map(_content, self._in_blocks))
            and self._looks == [repr(fields["content"]) for fields in self._counted]
        )

    def add(self, message: BaseMessage, ours: Message) -> None:
        """The conversation goes on with this message."""
        fields = message.__dict__
        self.messages.append(message)
        self.told.append(ours)
        self._fields.append(fields)
        self._contents.append(fields["content"])
        if "tool_calls" in fields:
            self._asking.append(fields)
            self._asked.append(apart(fields["tool_calls"]))
        if not isinstance(fields["content"], str):
            self._in_blocks.append(fields)
            self._blocks.append(apart(fields["content"]))
            if has_numbers(fields["content"]):
                self._counted.append(fields)
                self._looks.append(repr(fields["content"]))


def _are(before: Sequence[Any], now: Iterable[Any]) -> bool:
    """Whether these are the very objects that were there before, as far as those go."""
    return all(map(is_, before, now))
