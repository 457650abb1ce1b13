"""What Pydantic AI is about to show a model, as Forkpoint's messages: each part converted once a run.

Pydantic AI shows the same messages again at every step, with new ones at the end. What it shows again is the very same
objects, so objects are what is remembered, and one that was changed in place since is converted again.

Left out is what a model is not shown and no replay repeats: times, run ids, metadata of results.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from pydantic_ai import messages as theirs

from forkpoint.adapters.pydantic_ai_messages import MARK, to_ours
from forkpoint.adapters.pydantic_ai_watching import Held, Talk, held, read
from forkpoint.messages import BlobPart, FilePart, Message, Part, ResponsePart, Text, UriPart, answer

_VOLATILE = ("timestamp", "metadata", "content_file_digests", "tool_call_id")
_MODALITIES = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "file"}
_TALKS = 16


class Known(Struct, frozen=True, kw_only=True):
    """What was made of some objects, and what they were then; ``None`` if that cannot be kept."""

    things: list[Any]
    were: list[Held] | None
    made: list[Message]


class Heard:
    """The messages of one recorded function, each part of them converted once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], Known] = {}
        self._talks: dict[int, Talk] = {}

    def messages(self, told: Sequence[Any]) -> list[Message]:
        """Forkpoint's messages for Pydantic AI's: the same object for what is the same as before."""
        first = id(told[0]) if told else 0
        talk = self._talks.pop(first, None)
        if talk is None or not talk.begins(told):
            talk = Talk()
        for one in told[len(talk.messages) :]:
            talk.add(one)
            for things, known in self._of(one):
                talk.heard(things, known.were, known.made)
        if not talk.unsure:
            self._talks[first] = talk
            while len(self._talks) > _TALKS:
                del self._talks[next(iter(self._talks))]
        return list(talk.made)

    def is_said(self, response: Any, message: Message) -> None:
        """Remember that ``response`` is ``message``, which is on record."""
        things = [*response.parts, response]
        self._keep(_key(things), Known(things=things, were=held(things), made=[message]))

    def _of(self, message: Any) -> Iterator[tuple[list[Any], Known]]:
        """What to look at again in ``message``, with what it was and what is made of it."""
        if isinstance(message, theirs.ModelResponse):
            things = [*message.parts, message]
            yield things, self._once(things, lambda: [to_ours(message)])
        else:
            for part in message.parts:
                yield [part], self._once([part], lambda part=part: list(asked(part)))  # type: ignore[misc]

    def _once(self, things: list[Any], convert: Callable[[], list[Message]]) -> Known:
        key = _key(things)
        known = self._known.get(key)
        if known is not None and read(things) == known.were:
            return known
        made = convert()
        if known is not None and known.made == made:
            made = known.made
        return self._keep(key, Known(things=things, were=held(things), made=made))

    def _keep(self, key: tuple[int, ...], known: Known) -> Known:
        # The objects are kept as well, so that no other object can have their ids.
        if known.were is None:
            self._known.pop(key, None)
        else:
            self._known[key] = known
        return known


def _key(things: list[Any]) -> tuple[int, ...]:
    """What things are known by: a response by its parts, if it has any, because it can be made anew around them."""
    return tuple(map(id, things[:-1] or things))


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
