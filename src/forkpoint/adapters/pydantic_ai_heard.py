"""What Pydantic AI is about to show a model, as Forkpoint's messages: each part converted once a run.

Pydantic AI builds its requests anew at every step, around the very same part objects, so parts are what is remembered,
each with a copy of what it was: one that was changed in place since (by a history processor, or by Pydantic AI, which
renders dynamic system prompts again) is converted again. Comparing costs no encoding and no digest: what is equal is
mostly the very same text.

Left out is what a model is not shown and no replay repeats: times, run ids, metadata of results.
"""

import base64
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pydantic_ai import messages as theirs

from forkpoint.adapters.pydantic_ai_messages import MARK, OF_MESSAGE, to_ours
from forkpoint.messages import BlobPart, FilePart, Message, Part, ResponsePart, Text, UriPart, answer

T = TypeVar("T")

_VOLATILE = ("timestamp", "metadata", "content_file_digests", "tool_call_id")
_MODALITIES = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "file"}


class Heard:
    """The messages of one recorded function, each part of them converted once."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Any, Any]] = {}

    def messages(self, told: Sequence[Any]) -> list[Message]:
        """Forkpoint's messages for Pydantic AI's: the same object for what is the same as before."""
        made: list[Message] = []
        for one in told:
            if isinstance(one, theirs.ModelResponse):
                made.append(self._once(_key(one), _compared(one), lambda one=one: to_ours(one)))  # type: ignore[misc]
                continue
            for part in one.parts:
                made += self._once(id(part), part, lambda part=part: tuple(asked(part)))  # type: ignore[misc]
        return made

    def is_said(self, response: Any, message: Message) -> None:
        """Remember that ``response`` is ``message``, which is on record."""
        self._keep(_key(response), _compared(response), message)

    def _once(self, key: Any, held: Any, convert: Callable[[], T]) -> T:
        known = self._known.get(key)
        if known is not None and known[1] == held:
            found: T = known[2]
            return found
        made = convert()
        self._keep(key, held, made)
        return made

    def _keep(self, key: Any, held: Any, made: Any) -> None:
        # ``held`` keeps the objects whose ids make the key, so that no other object can have them.
        try:
            self._known[key] = (held, copy.deepcopy(held), made)
        except Exception:  # what cannot be copied cannot be compared later; it is converted every time
            self._known.pop(key, None)


def _key(response: Any) -> Any:
    return tuple([id(part) for part in response.parts]) or ("", id(response))


def _compared(response: Any) -> tuple[Any, ...]:
    parts = list(response.parts) or [response]
    return (parts, *[getattr(response, name, None) for name in (*OF_MESSAGE, "finish_reason")])


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
    content = _dumped(part)["content"]
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
