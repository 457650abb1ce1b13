"""What a provider's client is about to send, as a ``ModelRequest``: what the requests of all providers share. Pure.

The body that the client would send is sent as it is. What stands here says what it is, on record; only where a fork
changes something is a body made anew, of the original and what was changed.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forkpoint.definition import ToolRecord
from forkpoint.messages import Message, ResponsePart
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse

DELIVERY = frozenset({"stream", "stream_options"})
"""Options that say how an answer is delivered, and nothing about it."""

BETA = "-beta"
"""How the names of headers end that change what a provider does."""


class Gatherer(Protocol):
    """The events of one stream, put together again."""

    def add(self, event: dict[str, Any]) -> ModelProgress | None:
        """Take the next event: the words that it brings, if it brings any."""
        ...

    @property
    def whole(self) -> bool:
        """Whether the provider has said that the answer is at its end."""
        ...

    @property
    def pieces(self) -> list[list[int]]:
        """The lengths in which each of its texts came."""
        ...

    def body(self) -> dict[str, Any]:
        """The body that would have come in one piece, as far as it came."""
        ...


class Dialect(Protocol):
    """One API of a provider: how a request's body reads, and what an answer is."""

    @property
    def name(self) -> str:
        """How a person calls it."""
        ...

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What a model's name may begin with where a fork sets it, as in ``openai:gpt-5``."""
        ...

    def request(self, body: dict[str, Any], memory: "Memory") -> ModelRequest:
        """What ``body`` asks."""
        ...

    def changed(self, body: dict[str, Any], asked: ModelRequest, changed: ModelRequest) -> dict[str, Any]:
        """``body``, which asks ``asked``, so that it asks ``changed``."""
        ...

    def response(self, body: dict[str, Any]) -> ModelResponse:
        """What a whole answer's body says; its ``rest`` is what the message does not."""
        ...

    def body(self, message: Message, rest: Any, model: str) -> dict[str, Any]:
        """The body of a recorded answer. ``rest`` is ``None`` where a fork put the message in its place."""
        ...

    def gather(self) -> Gatherer:
        """Somebody who puts a stream together."""
        ...

    def events(self, body: dict[str, Any], pieces: list[list[int]], asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events of a stream that says ``body``; ``pieces`` are the lengths in which its texts came."""
        ...

    def begun(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of ``events`` after which nobody would take the answer to be at its end."""
        ...


class Memory:
    """What was converted before for one recorder: the same content is the same ``Message``.

    What is compared is the very JSON, because code changes messages in place.
    """

    def __init__(self) -> None:
        self._messages: dict[bytes, tuple[Message, ...]] = {}
        self._rest: tuple[bytes, Any] = (b"", None)
        self._joined: dict[tuple[int, ...], Message] = {}

    def messages(self, told: Any, convert: Callable[[Any], tuple[Message, ...]]) -> list[Message]:
        """The messages that ``told`` is, each of its elements converted by itself and once."""
        found: list[Message] = []
        for one in told:
            key = encoded(one)
            known = self._messages.get(key)
            if known is None:
                known = self._messages[key] = convert(msgspec.json.decode(key))
            found += known
        return found

    def rest(self, body: Mapping[str, Any], make: Callable[[dict[str, Any]], Any]) -> Any:
        """What ``make`` makes of everything in a body that is no message, again only if that has changed."""
        key = encoded(body)
        if self._rest[0] != key:
            self._rest = (key, make(msgspec.json.decode(key)))
        return self._rest[1]

    def joined(self, said: list[Message]) -> Message:
        """One message of several that were converted here and one model said in a row."""
        if len(said) == 1:
            return said[0]
        key = tuple([id(one) for one in said])
        if key not in self._joined:
            parts = tuple([part for one in said for part in one.parts])
            reason = "tool_call" if any(one.calls for one in said) else "stop"
            self._joined[key] = Message(role="assistant", parts=parts, finish_reason=reason)
        return self._joined[key]


def encoded(value: Any) -> bytes:
    """The JSON that ``value`` is sent as, as far as what it says goes; the client's own objects included."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError):
        return json.dumps(value, default=_plain, ensure_ascii=False).encode()


def given(body: Any, more: Any) -> dict[str, Any]:
    """A request's body without what was not given, with what ``extra_body`` adds; all of it can be read twice."""
    merged = {**(body or {}), **(more or {})}
    return {
        name: list(value) if isinstance(value, Iterator) else value
        for name, value in merged.items()
        if not is_unset(value)
    }


def is_unset(value: Any) -> bool:
    """Whether ``value`` is a client's way to say that an option was not given."""
    return type(value).__name__ in ("Omit", "NotGiven")


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        left_out = getattr(value, "__api_exclude__", None)
        return value.model_dump(mode="json", exclude_unset=True, by_alias=True, exclude=left_out, warnings=False)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | Iterator) or hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"a {type(value).__name__} is no JSON")


# ── the results of tools ─────────────────────────────────────────────────────────────────────────────────────────


def result_of(text: Any) -> Any:
    """The value that a tool's result says: what ``json.dumps`` made the text of, else the text.

    So the value of a recorded call that is passed on as ``json.dumps(value)`` or as its own text is that very value.
    A JSON text that says a text stays as it is; a text in which JSON is written otherwise does too.
    """
    if not isinstance(text, str) or text[:1] not in _BEGINNINGS:
        return text
    try:
        value = json.loads(text)
        same = not isinstance(value, str) and json.dumps(value) == text
        msgspec.json.encode(value)
    except (ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return text
    return value if same else text


_BEGINNINGS = tuple("{[-0123456789tfn")


def with_results(message: Message) -> Message:
    """A tool's message with the values that its texts say."""
    parts = tuple(
        [
            replace(one, response=result_of(one.response)) if isinstance(one, ResponsePart) else one
            for one in message.parts
        ]
    )
    return replace(message, parts=parts)


# ── tools and settings ───────────────────────────────────────────────────────────────────────────────────────────


class Declared(Struct, frozen=True, kw_only=True):
    """The tools of a request: what a ``ToolRecord`` says of them, and as settings what it does not."""

    records: tuple[ToolRecord, ...] = ()
    settings: dict[str, Any] = {}


def declared(tools: Any, read: Callable[[dict[str, Any]], tuple[ToolRecord, dict[str, Any]] | None]) -> Declared:
    """The declared tools. ``read`` gives a tool and what else is said of it; ``None`` for one of the provider's own."""
    records: list[ToolRecord] = []
    options: dict[str, Any] = {}
    others: list[Any] = []
    for tool in tools or ():
        found = read(tool) if isinstance(tool, dict) else None
        if found is None:
            others.append(tool)
            continue
        records.append(found[0])
        options |= {found[0].name: found[1]} if found[1] else {}
    settings = ({"tools": others} if others else {}) | ({"tool_options": options} if options else {})
    return Declared(records=tuple(records), settings=settings)


def said_tools(request: ModelRequest, write: Callable[[ToolRecord, dict[str, Any]], dict[str, Any]]) -> list[Any]:
    """The tools of ``request`` as its provider wants them; ``write`` makes one of a tool and its further options."""
    options = request.settings.get("tool_options") or {}
    made = [write(record, dict(options.get(record.name) or {})) for record in request.tools]
    return made + list(request.settings.get("tools") or ())


OURS = frozenset({"tools", "tool_options", "system"})
"""Settings that say what a tool's or the instructions' own form leaves unsaid. They are no option of a provider."""


def with_options(
    body: dict[str, Any], asked: ModelRequest, changed: ModelRequest, *, fixed: frozenset[str]
) -> dict[str, Any]:
    """``body`` with the model and the options of ``changed``. ``fixed`` names what is no option of it."""
    made = {"model": changed.model}
    for name, value in body.items():
        if name in fixed or name in DELIVERY:
            made.setdefault(name, value)
        elif name in changed.settings and changed.settings[name] == asked.settings.get(name):
            made[name] = value
    made |= {name: value for name, value in changed.settings.items() if name not in OURS and name not in made}
    return made


def model_name(name: str, prefixes: tuple[str, ...]) -> str:
    """The name by which a provider knows a model."""
    return next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)


def pieces_in(text: str, lengths: list[int]) -> list[str]:
    """``text`` in pieces of these lengths; in one where they do not fit it."""
    if not text:
        return []
    if sum(lengths) != len(text):
        return [text]
    ends = [sum(lengths[: place + 1]) for place in range(len(lengths))]
    return [text[end - size : end] for size, end in zip(lengths, ends, strict=True)]
