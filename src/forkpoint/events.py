"""What has happened to a run. Past tense, never changed; ``docs/journal-format.md`` shows each as stored."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from forkpoint._word import Holder, Word
from forkpoint.definition import AgentRecord, Limits
from forkpoint.effects import Effect
from forkpoint.messages import Message, Part, Usage
from forkpoint.outcomes import Failed, Outcome, Succeeded

Finding: TypeAlias = Literal["occurred", "not_occurred", "abandoned_unknown", "unknown"]
Source: TypeAlias = Literal["person", "probe", "late"]
EffectsPolicy: TypeAlias = Literal["live", "recorded", "ask"]
Pending: TypeAlias = Literal["hold", "run", "skip"]
Decision: TypeAlias = Literal["allowed", "edited", "denied"]


_OF = {"effect": "of"}
"""How an event that is about an effect writes the effect's id."""


class Caller(Word, frozen=True, kw_only=True, tag=False):
    """The effect of another run that started this one."""

    run: str
    effect: int


class RunStarted(Word, frozen=True, kw_only=True, tag="run_started"):
    """A run began: its agent as it was, its labels, limits and workspace. ``format`` is the journal's version.

    ``function`` names the function whose run it is, where the loop is somebody else's code.
    """

    agent: AgentRecord
    labels: dict[str, str] | None = None
    limits: Limits | None = None
    workspace: str | None = None
    caller: Caller | None = None
    actor: str | None = None
    function: str | None = None
    format: int = 1


class Keep(Word, frozen=True, kw_only=True, tag="keep"):
    """Messages ``start`` up to but not including ``stop`` of the transcript that is edited."""

    start: int
    stop: int


class Put(Word, frozen=True, kw_only=True, tag="put"):
    """A message in full, in this place."""

    message: Message


class ResultPatch(Holder, frozen=True, kw_only=True, tag=False):
    """Another result for one tool call. ``error`` makes it a failure. ``effect`` is 0 for a call that
    never became an effect. In a function's run it may be any effect's; ``message`` is a model's."""

    LARGE: ClassVar[tuple[str, ...]] = ("value",)
    effect: int
    call: str
    value: Any = None
    error: str | None = None
    message: Message | None = None


class RunForked(Holder, frozen=True, kw_only=True, tag="run_forked"):
    """This run began as a fork: its past is ``parent``'s up to ``at``, changed by what is set here.

    ``parent_head`` is where the parent stood at the time; a recorded answer may come from up to there.
    ``edits`` is the whole transcript from here on, told as kept stretches and messages put in.
    """

    LARGE: ClassVar[tuple[str, ...]] = ("state",)
    parent: str
    at: int
    parent_head: int
    edits: tuple[Keep | Put, ...] | UnsetType = UNSET
    state: dict[str, Any] | UnsetType | None = UNSET
    tool_results: tuple[ResultPatch, ...] = ()
    agent: AgentRecord | None = None
    changed: tuple[str, ...] = ()
    input: tuple[Part, ...] | UnsetType = UNSET
    effects: EffectsPolicy = "live"
    pending: Pending = "hold"
    workspace: str | None = None
    labels: dict[str, str] | None = None
    actor: str | None = None


class InputReceived(Word, frozen=True, kw_only=True, tag="input"):
    """A user said something. It waits its turn if the run is busy. ``key`` makes a resend the same input."""

    parts: tuple[Part, ...]
    key: str | None = None
    actor: str | None = None


class EffectRequested(Word, frozen=True, kw_only=True, tag="requested"):
    """Outside work is wanted. From here on the effect is known by this event's ``seq``."""

    effect: Effect


class EffectDispatched(Word, frozen=True, kw_only=True, tag="dispatched", rename=_OF):
    """An attempt at the effect is about to be made, under ``key``, by the performer ``by``."""

    effect: int
    by: str
    attempt: int = 1
    key: str | None = None


class EffectSettled(Word, frozen=True, kw_only=True, tag="settled", rename=_OF):
    """How an attempt ended. ``then`` says what comes of it: it is final, tried again at ``retry_at_ms``,
    or the tool's probe is asked.

    ``call`` is the provider's id of a tool call. ``source`` names the effect of the parent run whose
    record answered. ``actor`` is who answered a tool that is performed outside.
    """

    effect: int
    outcome: Outcome
    attempt: int = 1
    then: Literal["final", "retry", "probe"] = "final"
    retry_at_ms: int | None = None
    call: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    ms: int = 0
    source: int | None = None
    actor: str | None = None


class EffectResolved(Word, frozen=True, kw_only=True, tag="resolved", rename=_OF):
    """What was found out about an effect whose outcome was unknown, by whom, with what evidence.

    ``contradicts`` marks a late result that disagrees with a decision already made.
    """

    effect: int
    finding: Finding
    source: Source = "person"
    outcome: Succeeded | Failed | None = None
    note: str = ""
    actor: str | None = None
    contradicts: bool = False


class ApprovalRequested(Word, frozen=True, kw_only=True, tag="approval_requested", rename=_OF):
    """May this call be made? Bound to ``digest``, which names the tool and its arguments."""

    effect: int
    digest: str


class ApprovalDecided(Holder, frozen=True, kw_only=True, tag="approval_decided", rename=_OF):
    """The answer to an approval. ``arguments`` are the edited ones, when it was allowed with edits."""

    LARGE: ClassVar[tuple[str, ...]] = ("arguments",)
    effect: int
    digest: str
    decision: Decision
    arguments: Any = None
    reason: str = ""
    actor: str | None = None


class StateChanged(Holder, frozen=True, kw_only=True, tag="state_changed", rename=_OF):
    """A tool changed the application's own state: keys set, keys removed."""

    LARGE: ClassVar[tuple[str, ...]] = ("set",)
    effect: int
    set: dict[str, Any] | None = None
    unset: tuple[str, ...] = ()


class ContextCompacted(Word, frozen=True, kw_only=True, tag="compacted", rename=_OF):
    """From here on ``summary`` stands for the first ``replaced`` messages shown, events up to ``through``."""

    effect: int
    summary: Message
    replaced: int
    through: int


class SnapshotTaken(Word, frozen=True, kw_only=True, tag="snapshot", rename=_OF):
    """The workspace's files were captured as ``tree``, or could not be, for the reason in ``failed``.

    ``outside`` lists paths that changed since the last snapshot and not by this run, the first few of them;
    ``changed`` counts all that changed, ``unheld`` the paths that are noted without their bytes.
    """

    tree: str | None = None
    why: Literal["start", "before", "after", "recovery", "rewind"] = "after"
    effect: int | None = None
    outside: tuple[str, ...] = ()
    changed: int = 0
    unheld: int = 0
    failed: str | None = None


class WorkspaceRewound(Word, frozen=True, kw_only=True, tag="rewound"):
    """The workspace's files were put back to ``tree``, as of the event ``to``."""

    tree: str
    before: str
    to: int
    actor: str | None = None


class RunPaused(Word, frozen=True, kw_only=True, tag="paused"):
    """The run does nothing more until it is continued. ``limit`` names the limit that was reached."""

    reason: str = ""
    limit: str | None = None
    actor: str | None = None


class RunContinued(Word, frozen=True, kw_only=True, tag="continued"):
    """A paused or failed run goes on, under new limits if any are set."""

    limits: Limits | None = None
    actor: str | None = None


class RunInterrupted(Word, frozen=True, kw_only=True, tag="interrupted"):
    """The turn was called off. What is in flight is signalled; what was not tried is cancelled."""

    reason: str = ""
    actor: str | None = None


class RunStopped(Word, frozen=True, kw_only=True, tag="stopped"):
    """The run ended for good."""

    reason: str = ""
    actor: str | None = None


class AgentChanged(Word, frozen=True, kw_only=True, tag="agent_changed"):
    """The run goes on under another definition; ``differences`` says in words what is new."""

    agent: AgentRecord
    differences: tuple[str, ...] = ()
    actor: str | None = None


class FunctionReturned(Word, frozen=True, kw_only=True, tag="returned"):
    """The function whose run this is came to its end: what it returned, or what it raised."""

    outcome: Succeeded | Failed


Event: TypeAlias = (
    EffectSettled
    | EffectRequested
    | EffectDispatched
    | InputReceived
    | RunStarted
    | RunForked
    | EffectResolved
    | ApprovalRequested
    | ApprovalDecided
    | StateChanged
    | ContextCompacted
    | SnapshotTaken
    | WorkspaceRewound
    | RunPaused
    | RunContinued
    | RunInterrupted
    | RunStopped
    | AgentChanged
    | FunctionReturned
)

KINDS: tuple[type[Event], ...] = (
    RunStarted,
    RunForked,
    InputReceived,
    EffectRequested,
    EffectDispatched,
    EffectSettled,
    EffectResolved,
    ApprovalRequested,
    ApprovalDecided,
    StateChanged,
    ContextCompacted,
    SnapshotTaken,
    WorkspaceRewound,
    RunPaused,
    RunContinued,
    RunInterrupted,
    RunStopped,
    AgentChanged,
    FunctionReturned,
)
"""Every kind of event. A kind's place here is its number in a store's index; the list only grows."""


class RecordedEvent(Struct, frozen=True, gc=False):
    """An event with its place: the run whose journal holds it, ``seq`` from 1, time in ms, and the
    digest (32 bytes) that covers it and everything before it."""

    run: str
    seq: int
    at_ms: int
    digest: bytes
    event: Event


def needs_lease(event: Event) -> bool:
    """Whether only the run's performer may record this: what performing gives, not what a caller asks."""
    match event:
        case EffectSettled():
            return event.actor is None
        case EffectResolved():
            return event.source == "probe"
        case RunPaused():
            return event.limit is not None
        case SnapshotTaken():
            return event.why in ("before", "after", "recovery")
        case EffectRequested() | EffectDispatched() | ApprovalRequested() | StateChanged() | ContextCompacted():
            return True
        case FunctionReturned():
            return True
        case _:
            return False
