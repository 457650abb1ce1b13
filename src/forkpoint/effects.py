"""Requests for outside work, and what a restart may do about one that was lost."""

from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from forkpoint._word import Holder
from forkpoint.messages import Message

ATTEMPTS = 3
"""How often an effect is tried before its budget is spent, unless its tool or agent says otherwise."""


class Recovery(StrEnum):
    """What a restart may do about an effect that was dispatched and has no outcome on record."""

    REPEAT = "repeat"
    """It only reads: perform it again."""
    RETRY = "retry"
    """It is idempotent: perform it again under the same key."""
    RECONCILE = "reconcile"
    """It has a probe: ask the outside what happened, then decide."""
    HOLD = "hold"
    """Nothing is known about it: wait for a person."""


class ModelCall(Holder, frozen=True, kw_only=True, tag="model_call"):
    """Ask the model. ``add`` is what its request has beyond the transcript so far, in order: the
    ``seq`` of an event that holds a message, or a message in full where no event holds it.

    ``digest`` covers the agent and every message shown. ``compaction`` marks a call that writes a summary.

    In a function's run, ``identity`` names what the code asked, before anything was put in its place, and the
    request builds on what the model call ``since`` was shown and answered: the first ``keep`` messages of that,
    all if left out. Without ``since`` it is a conversation of its own.
    """

    add: tuple[int | Message, ...] = ()
    digest: str
    attempts: int = ATTEMPTS
    compaction: bool = False
    identity: str | None = None
    since: int | None = None
    keep: int | None = None


class ToolCall(Holder, frozen=True, kw_only=True, tag="tool_call"):
    """Run a tool: call number ``call`` (from 0) of the model's message in event ``message``.

    ``arguments`` is set only where the message does not hold them. What decides about recovery,
    approval and recorded answers is settled when the call is requested, and stands.

    In a function's run, ``identity`` names what the code asked. ``message`` is 0 where no model's message is known to
    have asked for it; then ``id`` is the call's id, if the code has one. ``fits`` has the JSON Schemas (``parameters``,
    ``result``) that what a person says of it is held against.
    """

    LARGE: ClassVar[tuple[str, ...]] = ("arguments", "fits")
    tool: str
    message: int
    call: int = 0
    recovery: Recovery = Recovery.HOLD
    gated: bool = False
    external: bool = False
    attempts: int = ATTEMPTS
    arguments: Any = None
    identity: str | None = None
    id: str = ""
    fits: dict[str, Any] | None = None


class StepCall(Holder, frozen=True, kw_only=True, tag="step_call"):
    """Run a step of someone's own code, known by its name and arguments; ``identity`` names both."""

    LARGE: ClassVar[tuple[str, ...]] = ("arguments",)
    name: str
    arguments: Any = None
    recovery: Recovery = Recovery.HOLD
    gated: bool = False
    attempts: int = ATTEMPTS
    identity: str | None = None


Effect: TypeAlias = ModelCall | ToolCall | StepCall
