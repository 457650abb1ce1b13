"""How an effect ended: succeeded, failed, cancelled, or nobody knows."""

from typing import Any, ClassVar, Literal, TypeAlias

from forkpoint._word import Holder
from forkpoint.messages import Message

WhyUnknown: TypeAlias = Literal["lost", "timeout", "connection", "cancelled", "reported"]


class Succeeded(Holder, frozen=True, kw_only=True, tag="succeeded"):
    """It happened. A tool's result is ``value``; a model's answer is ``message``."""

    LARGE: ClassVar[tuple[str, ...]] = ("value",)
    value: Any = None
    message: Message | None = None


class Failed(Holder, frozen=True, kw_only=True, tag="failed"):
    """It ended in an error: the error's name, and its text as it was.

    ``happened`` says that the tool did its work and only the result could not be used; such an
    effect is never safe to repeat.
    """

    LARGE: ClassVar[tuple[str, ...]] = ("text",)
    error: str
    text: str = ""
    happened: bool = False


class Cancelled(Holder, frozen=True, kw_only=True, tag="cancelled"):
    """It was called off before it took effect. ``partial`` is what a model had said by then."""

    LARGE: ClassVar[tuple[str, ...]] = ("reason",)
    reason: str = ""
    partial: Message | None = None


class Unknown(Holder, frozen=True, kw_only=True, tag="unknown"):
    """Nobody knows whether it happened. ``because``: ``lost`` in a crash, ``timeout``, ``connection``,
    ``cancelled`` in flight, or ``reported`` by the tool itself."""

    LARGE: ClassVar[tuple[str, ...]] = ("text",)
    because: WhyUnknown
    text: str = ""


Outcome: TypeAlias = Succeeded | Failed | Cancelled | Unknown
