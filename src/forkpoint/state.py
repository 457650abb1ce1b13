"""Where a run stands, as data: what folding its events gives. Never stored as truth.

The rules, in the order in which they matter:

1. A message's place in the transcript is final once a model has been asked with it. Until then, results
   wait in ``batch`` (in call order), notes in ``notes`` and inputs in ``inputs``; the next ``ModelCall``
   lists what of them it adds, and that list is a fact that no later code derives again.
2. An effect leaves ``effects`` when nothing can happen to it any more and the model has been told. One
   that was ever unknown stays in ``doubts``, because a decision about it may be repeated or contradicted.
3. A turn begins with an accepted input and ends when the run rests; input that comes meanwhile queues.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from forkpoint._canon import canonical, link
from forkpoint._vector import Vector
from forkpoint.definition import AgentRecord, Limits
from forkpoint.effects import Effect, ModelCall, Recovery, StepCall, ToolCall
from forkpoint.events import ApprovalDecided, EffectsPolicy, Finding, RunPaused
from forkpoint.messages import CallPart, Message, Usage
from forkpoint.outcomes import Failed, Outcome, Succeeded

Arguments: TypeAlias = CallPart | ToolCall | StepCall | ModelCall | ApprovalDecided
Phase: TypeAlias = Literal["requested", "dispatched", "retry", "probe", "unknown", "held", "settled"]
Gate: TypeAlias = Literal["none", "asked", "allowed"]


class Entry(Struct, frozen=True, gc=False):
    """A message with its address: the event that holds it, and which of that event's messages it is
    (0 its own, then those written in full). ``effect`` is the tool call it answers, if it answers one."""

    seq: int
    index: int
    effect: int
    message: Message


class Transcript(Struct, frozen=True):
    """The messages whose place is final. The first ``cold`` of them are in the journal only, to be read
    with the answers in ``patched`` in place of their own."""

    entries: Vector[Entry] = field(default_factory=Vector)
    cold: int = 0
    patched: tuple[Entry, ...] = ()
    cold_chain: bytes = bytes(32)

    def __len__(self) -> int:
        return self.cold + len(self.entries)

    def append(self, entry: Entry) -> "Transcript":
        """The transcript with one more message."""
        return Transcript(self.entries.append(entry), self.cold, self.patched, self.cold_chain)


class Slot(Struct, frozen=True, gc=False):
    """One call of the model's last message, and the effect it became (0: none yet, -1: never to be one).

    ``answer`` is there where a patch answered a call that never became an effect."""

    call: str
    name: str
    effect: int = 0
    answer: Message | None = None


class Open(Struct, frozen=True, kw_only=True, gc=False):
    """An effect that something may still happen to, or whose answer the model has not been told.

    ``holder`` has its arguments. ``answer`` is the message for the model; ``answer_seq`` is the event that
    holds that message, 0 where none does. ``owner`` is the (run, effect) key of a call that a parent left.
    """

    seq: int
    effect: Effect
    name: str
    call: str = ""
    holder: Arguments
    phase: Phase = "requested"
    gate: Gate = "none"
    digest: str = ""
    attempt: int = 0
    by: str = ""
    key: str | None = None
    retry_at_ms: int = 0
    outcome: Outcome | None = None
    answer: Message | None = None
    answer_seq: int = 0
    owner: tuple[str, int] | None = None

    @property
    def recovery(self) -> Recovery:
        """What a restart may do about it."""
        return Recovery.RETRY if isinstance(self.effect, ModelCall) else self.effect.recovery

    @property
    def external(self) -> bool:
        """Whether its outcome comes from outside."""
        return isinstance(self.effect, ToolCall) and self.effect.external


class Doubt(Struct, frozen=True, kw_only=True):
    """What was found about an effect that had been unknown. ``contradiction`` is a late result that
    disagrees and that nobody has looked at yet."""

    name: str
    finding: Finding | None = None
    outcome: Succeeded | Failed | None = None
    note: str = ""
    actor: str | None = None
    contradiction: Succeeded | Failed | None = None


class Lineage(Struct, frozen=True, kw_only=True):
    """Where a fork comes from, and how its tools may be answered."""

    parent: str
    at: int
    parent_head: int
    effects: EffectsPolicy


class Spent(Struct, frozen=True, kw_only=True):
    """What a run has used: a known sum, and the number of calls whose cost is not known."""

    usage: Usage = Usage()
    cost: float = 0.0
    cost_unknown: int = 0


class RunState(Struct, frozen=True, kw_only=True):
    """A run after event ``seq``. See the field names; ``forkpoint.status`` has what follows from them."""

    run: str
    seq: int
    at_ms: int
    agent: AgentRecord
    agent_digest: bytes = b""
    overridden: frozenset[str] = frozenset()
    started_at_ms: int = 0
    turn_at_ms: int = 0
    labels: Mapping[str, str] = {}
    limits: Limits = Limits()
    workspace: str | None = None
    tree: str | None = None
    lineage: Lineage | None = None
    turn: int = 0
    step: int = 0
    active: bool = False
    interrupting: bool = False
    failure: Failed | None = None
    paused: RunPaused | None = None
    stopped: bool = False
    transcript: Transcript = field(default_factory=Transcript)
    asked: int = 0
    batch: tuple[Slot, ...] = ()
    effects: Mapping[int, Open] = {}
    doubts: Mapping[int, Doubt] = {}
    decided: Mapping[int, str] = {}
    notes: tuple[Message, ...] = ()
    decisions: tuple[str, ...] = ()
    inputs: tuple[Entry, ...] = ()
    queue: tuple[Entry, ...] = ()
    keys: Mapping[str, str] = {}
    app: Mapping[str, Any] | None = None
    title: str = ""
    output: str = ""
    spent: Spent = Spent()
    allowance: Spent = Spent()
    allowed_steps: int = 0
    context_tokens: int = 0
    sources: frozenset[int] = frozenset()


def agent_digest(agent: AgentRecord) -> bytes:
    """The name of a definition, 32 bytes."""
    return link(b"", canonical(agent))


def accept(state: RunState) -> RunState:
    """Begin the next turn with the first input in the queue, if the run is at rest."""
    if state.active or state.interrupting or not state.queue:
        return state
    return replace(
        state,
        turn=state.turn + 1,
        turn_at_ms=state.at_ms,
        active=True,
        failure=None,
        output="",
        inputs=(*state.inputs, state.queue[0]),
        queue=state.queue[1:],
    )


def rest(state: RunState) -> RunState:
    """End an interrupted turn once nothing of it is in flight or unknown; begin the next if input waits."""
    if state.interrupting and not _unfinished(state):
        state = replace(state, interrupting=False, active=False)
    return state if state.failure is not None else accept(state)


def _unfinished(state: RunState) -> bool:
    return any(opened.phase != "settled" for opened in state.effects.values())
