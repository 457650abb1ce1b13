"""Where a run stands, as data: what folding its events gives. Never stored as truth.

The rules, in the order in which they matter:

1. A message's place in the transcript is final once a model has been asked with it. Until then, results
   wait in ``batch`` (in call order), notes in ``notes`` and inputs in ``inputs``; the next ``ModelCall``
   lists what of them it adds, and that list is a fact that no later code derives again.
2. An effect leaves ``effects`` when nothing can happen to it any more and the model has been told. One
   that was ever unknown stays in ``doubts``, because a decision about it may be repeated or contradicted.
3. A turn begins with an accepted input and ends when the run rests; input that comes meanwhile queues.
4. A function's run may hold several conversations at once: ``heads`` has each by the model call that was shown it
   last, ``transcript`` is the one that moved last. ``retold`` says that the function is called with other arguments
   than its record was made with, so that what it asks may differ.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from forkpoint import status as standing
from forkpoint import transcript as told
from forkpoint._canon import canonical, link
from forkpoint.definition import AgentRecord, Limits
from forkpoint.events import RunPaused
from forkpoint.messages import CallPart, Message
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.pieces import Doubt, Entry, FilesSeen, Lineage, Open, Slot, Spent, Transcript
from forkpoint.ports import Status


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
    files: FilesSeen = "unseen"
    files_blurred: bool = False
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
    summarised: bool = False
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
    function: str | None = None
    returned: Succeeded | None = None
    heads: Mapping[int, Transcript] = {}
    retold: bool = False
    title: str = ""
    output: str = ""
    spent: Spent = Spent()
    allowance: Spent = Spent()
    allowed_steps: int = 0
    context_tokens: int = 0
    sources: frozenset[int] = frozenset()

    @property
    def status(self) -> Status:
        """The one word for where the run stands."""
        return standing.status(self)

    @property
    def waits(self) -> tuple[standing.Wait, ...]:
        """The decisions that the run needs."""
        return standing.waits(self)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message as a model would be shown them now; always a valid transcript."""
        return told.compile_messages(self)

    @property
    def pending(self) -> tuple[CallPart, ...]:
        """The calls of the model's last message that have no answer yet, in order."""
        return told.pending_calls(self)


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
