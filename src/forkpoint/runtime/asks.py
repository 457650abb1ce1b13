"""What passes between a function's code and the recorder: an ask, how it is performed, and what came of it."""

import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forkpoint.agents.asking import ASKER, failed_as
from forkpoint.agents.function import Step
from forkpoint.agents.tool import Tool, ToolContext
from forkpoint.answers import resolved, told
from forkpoint.commands import Ask
from forkpoint.effects import StepCall, ToolCall
from forkpoint.events import Finding
from forkpoint.messages import Message, ResponsePart
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded
from forkpoint.ports import ModelProgress, ModelResponse


class Answer(Struct, frozen=True, kw_only=True):
    """What came of an ask. ``outcome`` is ``None`` where a person found only that it occurred, did not, or that nobody
    will know, which ``finding`` says. ``replayed`` says that it was on record before this ask."""

    effect: int
    outcome: Succeeded | Failed | Cancelled | None = None
    finding: Finding | None = None
    replayed: bool = False

    @property
    def value(self) -> Any:
        """The result. Raises ``EffectFailed`` for any other ending."""
        if isinstance(self.outcome, Succeeded):
            return self.outcome.value
        raise self.failure

    @property
    def message(self) -> Message:
        """The model's message. Raises ``EffectFailed`` for any other ending."""
        if isinstance(self.outcome, Succeeded) and self.outcome.message is not None:
            return self.outcome.message
        raise self.failure

    @property
    def failure(self) -> Exception:
        """The exception for an ending that is no success."""
        match self.outcome:
            case Failed(error=error, text=text):
                return failed_as(error, text or error, self.effect)
            case Cancelled(reason=reason):
                return failed_as("Cancelled", reason, self.effect)
            case _:
                return failed_as("Resolved", str(self.told), self.effect)

    @property
    def told(self) -> Any:
        """What a model is told of it: the result, or a JSON object that says how it ended."""
        said = told("", self.outcome) if self.outcome is not None else resolved("", self.finding or "unknown", None)
        part = said.parts[0]
        assert isinstance(part, ResponsePart)
        return part.response


class Body(Struct, frozen=True, kw_only=True):
    """How this process performs one effect: with the context variables of the code that asked for it, but that nothing
    is recorded there.

    ``work`` is given the call's ``ToolContext`` and, where a person changed them, other arguments.
    """

    where: contextvars.Context
    work: Callable[[ToolContext, Any], Awaitable[Any]] | None = None
    respond: Callable[[Callable[[ModelProgress], None]], Awaitable[ModelResponse]] | None = None
    check: Callable[[Any], None] = lambda _: None
    timeout_s: float | None = None


class Planned(Struct, frozen=True, kw_only=True):
    """What is known about an ask before it is tried: the digest that a person is asked about, or how it ended."""

    digest: str = ""
    refused: Failed | None = None
    recorded: tuple[int, Outcome] | None = None


class Wanted(Struct, frozen=True, kw_only=True):
    """An ask before it is known whether it is on record.

    ``plan`` says what is to become of it, and is called once: what it finds in a parent's record is used up by that.
    ``command`` requests it by that plan, as things stand by then.
    """

    identity: str
    says: str
    plan: Callable[[], Awaitable[Planned]]
    command: Callable[[Planned], Ask]
    body: Body


class Unwound(BaseException):
    """Ends a plain function whose run has come to rest. Never recorded, and not for the function to catch."""


def where_it_is_quiet() -> contextvars.Context:
    """The context variables of the code that asks, but that nothing is recorded."""
    copied = contextvars.copy_context()
    copied.run(ASKER.set, None)
    return copied


def asking(asked: Tool[..., Any] | Step[..., Any], effect: ToolCall | StepCall, planned: Planned) -> Ask:
    """What requests a call by its plan."""
    gated = bool(planned.digest)
    if gated:
        effect = replace(effect, gated=True)
    if isinstance(asked, Tool) and isinstance(effect, ToolCall) and (gated or asked.external):
        effect = replace(effect, fits={"parameters": asked.parameters.schema, "result": asked.result})
    return Ask(effect=effect, gated=gated, digest=planned.digest, refused=planned.refused, recorded=planned.recorded)


async def nothing_to_plan() -> Planned:
    """The plan of an ask that nobody decides about."""
    return Planned()
