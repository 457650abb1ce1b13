"""What may be asked of a run. Imperative; any of them may be refused."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from forkpoint.definition import AgentRecord, Limits
from forkpoint.effects import Effect, Recovery
from forkpoint.events import Caller, Decision, SnapshotTaken, WorkspaceRewound
from forkpoint.messages import Part, Usage
from forkpoint.outcomes import Failed, Outcome, Succeeded

Verdict: TypeAlias = Literal["occurred", "not_occurred", "abandoned_unknown"]


class Command(Struct, frozen=True, kw_only=True):
    """Base of the commands."""


class Start(Command, frozen=True, kw_only=True):
    """Begin a run, with a first input if there is one."""

    agent: AgentRecord
    input: tuple[Part, ...] | None = None
    labels: dict[str, str] | None = None
    limits: Limits | None = None
    workspace: str | None = None
    caller: Caller | None = None
    actor: str | None = None
    function: str | None = None


class Send(Command, frozen=True, kw_only=True):
    """Give a run its next input. The same ``key`` again is the same input."""

    parts: tuple[Part, ...]
    key: str | None = None
    actor: str | None = None


class Decide(Command, frozen=True, kw_only=True):
    """Answer an approval. ``digest`` is that of the question; ``edited`` is the digest of new arguments."""

    effect: int
    decision: Decision
    digest: str
    arguments: Any = None
    reason: str = ""
    actor: str | None = None


class Answer(Command, frozen=True, kw_only=True):
    """Give the result of a tool that is performed outside."""

    effect: int
    value: Any
    actor: str | None = None


class Resolve(Command, frozen=True, kw_only=True):
    """Decide what became of an effect whose outcome is unknown. ``outcome`` is the verified output, if any."""

    effect: int
    verdict: Verdict
    outcome: Succeeded | Failed | None = None
    note: str = ""
    actor: str | None = None


class Pause(Command, frozen=True, kw_only=True):
    """Do nothing more until continued."""

    reason: str = ""
    actor: str | None = None


class Unpause(Command, frozen=True, kw_only=True):
    """Go on after a pause or a failure, under new limits if any are given."""

    limits: Limits | None = None
    actor: str | None = None


class Interrupt(Command, frozen=True, kw_only=True):
    """Call the turn off."""

    reason: str = ""
    actor: str | None = None


class Stop(Command, frozen=True, kw_only=True):
    """End the run for good."""

    reason: str = ""
    actor: str | None = None


class ChangeAgent(Command, frozen=True, kw_only=True):
    """Go on under another definition. ``gone`` names tools that pending calls need and ``agent`` lacks."""

    agent: AgentRecord
    differences: tuple[str, ...]
    actor: str | None = None


class Late(Command, frozen=True, kw_only=True):
    """A tool that was given up on has ended after all."""

    effect: int
    outcome: Succeeded | Failed


class CallPlan(Struct, frozen=True, kw_only=True):
    """What is to become of one call that the model asked for, as decided by its tool when it was asked.

    ``digest`` names tool and arguments where a person is asked about them. ``refused`` ends it before it is tried;
    ``recorded`` is the parent's outcome that answers it, with the parent's effect id.
    """

    tool: str
    recovery: Recovery = Recovery.HOLD
    gated: bool = False
    external: bool = False
    attempts: int = 3
    digest: str = ""
    refused: Failed | None = None
    recorded: tuple[int, Outcome] | None = None


class Plan(Command, frozen=True, kw_only=True):
    """Request the calls of the model's last message, one plan a call that has none yet, in order."""

    plans: tuple[CallPlan, ...]


class Ask(Command, frozen=True, kw_only=True):
    """Request what a function's code asks for: ``effect``, with the definition it is asked under where that differs
    from the one on record. ``gated``, ``digest``, ``refused`` and ``recorded`` are a ``CallPlan``'s."""

    effect: Effect
    agent: AgentRecord | None = None
    gated: bool = False
    digest: str = ""
    refused: Failed | None = None
    recorded: tuple[int, Outcome] | None = None


class Return(Command, frozen=True, kw_only=True):
    """The function has come to its end: it returned, or raised."""

    outcome: Succeeded | Failed


class Advance(Command, frozen=True, kw_only=True):
    """Request and dispatch whatever is due, by the performer ``by``. Of a function's effects, those ``ready`` here and
    those that were asked for after event ``after``."""

    by: str
    ready: frozenset[int] = frozenset()
    after: int | None = None


class Settle(Command, frozen=True, kw_only=True):
    """Record how an attempt ended.

    ``doubtful`` marks an error after which nobody knows whether the effect took place (a timeout, a lost
    connection, a cancellation in flight); ``transient`` one that another attempt may mend.
    """

    effect: int
    attempt: int
    outcome: Outcome
    doubtful: bool = False
    transient: bool = False
    usage: Usage | None = None
    cost: float | None = None
    ms: int = 0
    retry_after_ms: int | None = None
    set: dict[str, Any] | None = None
    unset: tuple[str, ...] = ()


class Captured(Command, frozen=True, kw_only=True):
    """The workspace was captured, or could not be."""

    taken: SnapshotTaken


class Rewind(Command, frozen=True, kw_only=True):
    """The workspace's files were put back."""

    rewound: WorkspaceRewound


class Found(Command, frozen=True, kw_only=True):
    """What a tool's probe found out about a lost attempt."""

    effect: int
    finding: Literal["occurred", "not_occurred", "unknown"]
    outcome: Succeeded | Failed | None = None
    note: str = ""


class Recover(Command, frozen=True, kw_only=True):
    """Settle, as lost, what a performer that is gone had dispatched."""


AnyCommand: TypeAlias = (
    Start
    | Send
    | Decide
    | Answer
    | Resolve
    | Pause
    | Unpause
    | Interrupt
    | Stop
    | ChangeAgent
    | Late
    | Plan
    | Ask
    | Return
    | Advance
    | Settle
    | Found
    | Recover
    | Captured
    | Rewind
)
