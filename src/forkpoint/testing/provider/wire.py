"""What a scripted provider is asked and what it answers, whichever API it is asked through."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from forkpoint.messages import BlobPart, CallPart, Message, Part, ResponsePart, Text, UriPart, Usage, assistant
from forkpoint.ports import ModelResponse

API: TypeAlias = Literal["chat", "responses", "messages"]
"""OpenAI Chat Completions, OpenAI Responses, Anthropic Messages."""

CREATED_S = 1_700_000_000
"""When every answer says it was made, in seconds since 1970."""

PIECE = 8
"""How many characters one event of a stream brings."""


class Asked(Struct, frozen=True, kw_only=True):
    """One request as it arrived: what a model would be shown, and the very body and headers that said so.

    ``headers`` have names in lower case. ``number`` counts requests from 1.
    """

    number: int
    api: API
    model: str
    stream: bool
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    body: dict[str, Any]
    headers: dict[str, str]


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer, or one that breaks off.

    A ``Reasoning`` part has what the provider attaches to it as ``extra={"signature": "…"}``. With ``stops_after``
    only so many events of the stream are sent (half of the body where nothing is streamed), ``then`` the connection
    is cut, the body ends as if it were whole, nothing comes until ``release``, or an error of the provider is told.
    """

    message: Message
    usage: Usage = Usage(input_tokens=10, output_tokens=5)
    stops_after: int | None = None
    then: Literal["cut", "end", "stall", "error"] = "cut"


class Fault(Struct, frozen=True, kw_only=True):
    """An answer that is none: a status and a body, or silence.

    ``body`` is sent as it is (malformed JSON, a page of a proxy); left out, it is an error of ``kind`` with
    ``text`` in the API's own form. ``retry_after`` is the header's value. ``stall`` holds all of it back until
    ``release``.
    """

    status: int = 500
    text: str = "the scripted provider fails"
    kind: str = "server_error"
    body: str | None = None
    retry_after: float | str | None = None
    stall: bool = False


Told: TypeAlias = str | Message | ModelResponse | Answer | Fault
"""What a script may answer with."""


class Dialect(Protocol):
    """One API: how a request is read, and how an answer is written."""

    def read(self, body: dict[str, Any]) -> tuple[str, tuple[Message, ...]]:
        """Instructions and messages of a request's body."""
        ...

    def whole(self, asked: Asked, answer: Answer) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        ...

    def events(self, asked: Asked, answer: Answer) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
        """The events of an answer that is streamed: the name of each, if it has one, and its data."""
        ...

    def error(self, fault: Fault) -> dict[str, Any]:
        """The body that tells of a fault."""
        ...


def as_answer(told: Told) -> Answer | Fault:
    """What a script answered with, in full."""
    match told:
        case str():
            return Answer(message=assistant(told))
        case Message():
            return Answer(message=told)
        case ModelResponse():
            return Answer(message=told.message, usage=told.usage)
        case _:
            return told


def conversation(said: Iterable[tuple[str, Part]]) -> tuple[Message, ...]:
    """Messages from parts and who says each: a run of parts of one speaker is one message, each answer its own."""
    messages: list[Message] = []
    for role, part in said:
        if messages and messages[-1].role == role != "tool":
            messages[-1] = Message(role=messages[-1].role, parts=(*messages[-1].parts, part))
        else:
            messages.append(Message(role=role, parts=(part,)))  # type: ignore[arg-type]
    return tuple(messages)


def items(content: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """A message's content as a list of items, also where it is one text or nothing."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def image(url: str) -> Part:
    """The part for an image's URL."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return BlobPart(mime_type=head[5:-7] or None, content=data)
    return UriPart(uri=url)


def result(call: str, content: Any) -> ResponsePart:
    """The part for a call's result: its JSON value where it is JSON, else its text."""
    return ResponsePart(id=call, response=value(joined(content)))


def joined(content: str | list[dict[str, Any]] | None) -> str:
    """The text of a message's content."""
    return "".join(item.get("text", "") for item in items(content))


def value(text: str) -> Any:
    """The JSON value that a text says, or the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def arguments(call: CallPart) -> str:
    """A call's arguments as the text that a provider sends."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments or {}, ensure_ascii=False, separators=(",", ":"))


def pieces(text: str) -> list[str]:
    """A text as the pieces that a stream brings."""
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)] or [""]


def signature(part: Any) -> str | None:
    """What the provider attached to a part."""
    found = (part.extra or {}).get("signature")
    return found if isinstance(found, str) else None


def texts(parts: Sequence[Part]) -> str:
    """The text parts, joined."""
    return "".join(part.content for part in parts if isinstance(part, Text))
