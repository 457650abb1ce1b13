"""Messages between people, models and tools, in the parts of the OpenTelemetry GenAI conventions.

Source of names and shapes: OpenTelemetry semantic conventions for generative AI, input and output
messages. ``extra`` is ours: what a provider attached to a part (signatures, cache marks) and wants back.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from forkpoint._word import Holder, Word

_USAGE_NAMES = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cached_tokens": "cached",
    "reasoning_tokens": "reasoning",
}

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Text(Holder, frozen=True, kw_only=True, tag="text", tag_field="type"):
    """Words, from a person or a model."""

    LARGE: ClassVar[tuple[str, ...]] = ("content", "extra")
    content: str = ""
    extra: dict[str, Any] | None = None


class Reasoning(Holder, frozen=True, kw_only=True, tag="reasoning", tag_field="type"):
    """What a model thought before it answered, with the provider's signature in ``extra``."""

    LARGE: ClassVar[tuple[str, ...]] = ("content", "extra")
    content: str = ""
    extra: dict[str, Any] | None = None


class CallPart(Holder, frozen=True, kw_only=True, tag="tool_call", tag_field="type"):
    """A model asks for a tool. ``arguments`` is an object, or the raw text where it is not JSON."""

    LARGE: ClassVar[tuple[str, ...]] = ("arguments", "extra")
    id: str
    name: str
    arguments: Any = None
    extra: dict[str, Any] | None = None


class ResponsePart(Holder, frozen=True, kw_only=True, tag="tool_call_response", tag_field="type"):
    """The answer to the call ``id``: any JSON value."""

    LARGE: ClassVar[tuple[str, ...]] = ("response", "extra")
    id: str
    response: Any = None
    extra: dict[str, Any] | None = None


class BlobPart(Holder, frozen=True, kw_only=True, tag="blob", tag_field="type"):
    """Bytes shown to a model, such as an image: ``content`` is base64."""

    LARGE: ClassVar[tuple[str, ...]] = ("content", "extra")
    mime_type: str | None = None
    modality: str = "image"
    content: str = ""
    extra: dict[str, Any] | None = None


class FilePart(Holder, frozen=True, kw_only=True, tag="file", tag_field="type"):
    """A file that the provider keeps under ``file_id``."""

    LARGE: ClassVar[tuple[str, ...]] = ("extra",)
    file_id: str
    mime_type: str | None = None
    modality: str = "image"
    extra: dict[str, Any] | None = None


class UriPart(Holder, frozen=True, kw_only=True, tag="uri", tag_field="type"):
    """A file that the provider fetches from ``uri``."""

    LARGE: ClassVar[tuple[str, ...]] = ("uri", "extra")
    uri: str = ""
    mime_type: str | None = None
    modality: str = "image"
    extra: dict[str, Any] | None = None


Part: TypeAlias = Text | Reasoning | CallPart | ResponsePart | BlobPart | FilePart | UriPart


class Message(Holder, frozen=True, kw_only=True, tag=False):
    """One message: who speaks, and the parts of what is said.

    ``finish_reason`` is there on a model's message: ``stop``, ``tool_call``, ``length``,
    ``content_filter`` or ``error``.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.content for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The tools it asks for, in order."""
        return tuple([part for part in self.parts if isinstance(part, CallPart)])


class Usage(Word, frozen=True, kw_only=True, tag=False, rename=_USAGE_NAMES):
    """Tokens that a model call used. A part that the provider does not report is 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


def user(text: str) -> Message:
    """A user's message of one text."""
    return Message(role="user", parts=(Text(content=text),))


def assistant(text: str = "", *calls: CallPart, finish_reason: str | None = None) -> Message:
    """A model's message: a text, then the tools it asks for."""
    words = (Text(content=text),) if text else ()
    return Message(
        role="assistant",
        parts=(*words, *calls),
        finish_reason=finish_reason or ("tool_call" if calls else "stop"),
    )


def answer(call_id: str, response: Any) -> Message:
    """The message that answers one call."""
    return Message(role="tool", parts=(ResponsePart(id=call_id, response=response),))
