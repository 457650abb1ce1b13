"""What Pydantic AI is about to show a model, as Forkpoint's messages: each part converted once a run.

Pydantic AI shows the same messages again at every step, with new ones at the end. What it shows again is the very same
objects, so objects are what is remembered, each with a copy of what it held: one that was changed in place since (by a
history processor, or by Pydantic AI, which renders dynamic system prompts again) is converted again. Whether anything
changed is seen by comparing whole lists, where what is the same object costs next to nothing.

Left out is what a model is not shown and no replay repeats: times, run ids, metadata of results.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from pydantic_ai import messages as theirs

from forkpoint.adapters.apart import apart
from forkpoint.adapters.pydantic_ai_messages import MARK, OF_MESSAGE, to_ours
from forkpoint.messages import BlobPart, FilePart, Message, Part, ResponsePart, Text, UriPart, answer

T = TypeVar("T")

_VOLATILE = ("timestamp", "metadata", "content_file_digests", "tool_call_id")
_MODALITIES = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "file"}
_CONVERSATIONS = 16

# An older release does not have them all.
_OF_RESPONSE = [name for name in (*OF_MESSAGE, "finish_reason") if name in theirs.ModelResponse.__dataclass_fields__]
_parts = attrgetter("parts")
_said = attrgetter(*_OF_RESPONSE)


class Heard:
    """The messages of one recorded function, each part of them converted once."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[list[Any], Any, Any]] = {}
        self._conversations: dict[int, _Conversation] = {}

    def messages(self, told: Sequence[Any]) -> list[Message]:
        """Forkpoint's messages for Pydantic AI's: the same object for what is the same as before."""
        first = id(told[0]) if told else 0
        known = self._conversations.pop(first, None)
        if known is None or not known.begins(told):
            known = _Conversation()
        for one in told[len(known.messages) :]:
            known.add(one, self._made(one))
        if not known.unsure:
            self._conversations[first] = known
            while len(self._conversations) > _CONVERSATIONS:
                del self._conversations[next(iter(self._conversations))]
        return list(known.made)

    def is_said(self, response: Any, message: Message) -> None:
        """Remember that ``response`` is ``message``, which is on record."""
        self._keep(*_response(response), message)

    def _made(self, message: Any) -> list[Message]:
        if isinstance(message, theirs.ModelResponse):
            return [self._once(*_response(message), lambda: to_ours(message))]
        made: list[Message] = []
        for part in message.parts:
            made += self._once((id(part),), [part], None, lambda part=part: tuple(asked(part)))  # type: ignore[misc]
        return made

    def _once(self, key: Any, objects: list[Any], whole: Any, convert: Callable[[], T]) -> T:
        known = self._known.get(key)
        if known is not None and known[1] == (list(map(vars, objects)), whole):
            found: T = known[2]
            return found
        made = convert()
        if known is not None and known[2] == made:
            made = known[2]
        self._keep(key, objects, whole, made)
        return made

    def _keep(self, key: Any, objects: list[Any], whole: Any, made: Any) -> None:
        try:
            # The objects are kept as well, so that no other object can have their ids.
            self._known[key] = (objects, (list(map(_copied, objects)), _apart(whole)), made)
        except Exception:  # what cannot be copied cannot be compared later; it is converted every time
            self._known.pop(key, None)


class _Conversation:
    """Messages as they were told last, and what was made of them.

    ``unsure`` says that it cannot be seen whether one of them has changed since.
    """

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.made: list[Message] = []
        self.unsure = False
        self._ids: list[int] = []
        self._held: list[list[Any]] = []
        self._parts: list[Any] = []
        self._copies: list[dict[str, Any]] = []
        self._responses: list[Any] = []
        self._wholes: list[Any] = []

    def begins(self, told: Sequence[Any]) -> bool:
        """Whether ``told`` begins with these messages, each as it was."""
        head = told[: len(self.messages)]
        return (
            list(map(id, head)) == self._ids
            and list(map(_parts, head)) == self._held
            and list(map(vars, self._parts)) == self._copies
            and list(map(_said, self._responses)) == self._wholes
        )

    def add(self, message: Any, made: Sequence[Message]) -> None:
        """``message`` comes next, and ``made`` was made of it."""
        self.messages.append(message)
        self.made += made
        self._ids.append(id(message))
        self._held.append(list(message.parts))
        self._parts += message.parts
        try:
            self._copies += map(_copied, message.parts)
            if isinstance(message, theirs.ModelResponse):
                self._wholes.append(_apart(_said(message)))
                self._responses.append(message)
        except Exception:  # what cannot be copied cannot be compared later
            self.unsure = True


def _copied(part: Any) -> dict[str, Any]:
    """What ``part`` holds, so that no change to it can be missed."""
    return {name: apart(value) for name, value in vars(part).items()}


def _apart(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """The same of several values."""
    if values is None:
        return None
    return tuple([apart(value) for value in values])


def _response(response: Any) -> tuple[Any, list[Any], Any]:
    """What a response is known by: the objects that it is made of, and what it says beside them."""
    parts = list(response.parts)
    return tuple(map(id, parts)) or ("", id(response)), parts or [response], _said(response)


def asked(part: Any) -> Iterator[Message]:
    """The messages for one part of a Pydantic AI ``ModelRequest``."""
    match part.part_kind:
        case "system-prompt":
            yield Message(role="system", parts=(Text(content=part.content),))
        case "user-prompt":
            content = [part.content] if isinstance(part.content, str) else part.content
            yield Message(role="user", parts=tuple([shown(one) for one in content]))
        case "tool-return":
            yield _returned(part)
        case "retry-prompt" if part.tool_name is not None:
            yield _marked_answer(part.tool_call_id, part.model_response(), "retried")
        case _:
            yield Message(role="user", parts=(_other(part),))


def _returned(part: Any) -> Message:
    content = part.content if type(part.content) is str else _dumped(part)["content"]
    outcome = getattr(part, "outcome", "success")
    if outcome == "success":
        return answer(part.tool_call_id, content)
    return _marked_answer(part.tool_call_id, content, outcome)


def _marked_answer(call: str, content: Any, outcome: str) -> Message:
    return Message(role="tool", parts=(ResponsePart(id=call, response=content, extra={MARK: {"outcome": outcome}}),))


def _other(part: Any) -> Text:
    """A part that only Pydantic AI has a word for: kept whole, with its words as text where it has any."""
    whole = {name: value for name, value in _dumped(part).items() if name not in _VOLATILE and value is not None}
    if hasattr(part, "model_response"):
        words = part.model_response()
    else:
        words = part.content if isinstance(getattr(part, "content", None), str) else ""
    return Text(content=words, extra={MARK: {"part": whole}})


def _dumped(part: Any) -> dict[str, Any]:
    message = theirs.ModelRequest(parts=[part])
    found: dict[str, Any] = theirs.ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]["parts"][0]
    return found


def shown(item: Any) -> Part:
    """One piece of what a person says or shows."""
    if isinstance(item, str):
        return Text(content=item)
    if isinstance(item, theirs.BinaryContent):
        kind = item.media_type.partition("/")[0]
        modality = kind if kind in ("image", "audio", "video") else "file"
        return BlobPart(mime_type=item.media_type, modality=modality, content=base64.b64encode(item.data).decode())
    kind = getattr(item, "kind", type(item).__name__)
    if kind in _MODALITIES:
        return UriPart(uri=item.url, modality=_MODALITIES[kind], mime_type=_media_type(item))
    if isinstance(item, theirs.UploadedFile):
        return FilePart(file_id=item.file_id, mime_type=_media_type(item), modality="file")
    words = item.content if isinstance(getattr(item, "content", None), str) else ""
    return Text(content=words, extra=None if kind in ("text-content", "text") else {MARK: {"part": {"kind": kind}}})


def _media_type(item: Any) -> str | None:
    # Pydantic AI guesses it from the address, and raises where it cannot.
    try:
        return str(item.media_type)
    except ValueError:
        return None
