"""The pieces of a run's state: messages with their places, calls and effects that are open, doubts, lineage."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from forkpoint._vector import Vector
from forkpoint.effects import Effect, ModelCall, Recovery, StepCall, ToolCall
from forkpoint.events import ApprovalDecided, EffectsPolicy, Finding
from forkpoint.messages import CallPart, Message, Usage
from forkpoint.outcomes import Failed, Outcome, Succeeded

Arguments: TypeAlias = CallPart | ToolCall | StepCall | ModelCall | ApprovalDecided
Phase: TypeAlias = Literal["requested", "dispatched", "retry", "probe", "unknown", "held", "settled"]
FilesSeen: TypeAlias = Literal["unseen", "seen", "changing"]
"""What is known of a workspace's files: ``seen`` by a snapshot and not touched since by this run, ``unseen`` because
time has passed in which others may have changed them, ``changing`` while a tool of this run may change them. A state's
``files_blurred`` says that what changed since the last snapshot may be anybody's: one failed, or a call that had been
given up ended after it."""

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
    with the answers in ``patched`` in place of their own, after leaving out the first ``cut`` of what lies
    there for the ``summary`` that stands for them."""

    entries: Vector[Entry] = field(default_factory=Vector)
    cold: int = 0
    patched: tuple[Entry, ...] = ()
    cold_chain: bytes = bytes(32)
    cut: int = 0
    summary: Entry | None = None

    def __len__(self) -> int:
        return self.cold + len(self.entries)

    def append(self, entry: Entry) -> "Transcript":
        """The transcript with one more message."""
        return self.holding(self.entries.append(entry))

    def holding(self, entries: Vector[Entry]) -> "Transcript":
        """The transcript with ``entries`` after the cold messages."""
        return Transcript(entries, self.cold, self.patched, self.cold_chain, self.cut, self.summary)

    def summarised(self, summary: Entry, replaced: int) -> "Transcript":
        """The transcript with ``summary`` in place of its first ``replaced`` messages."""
        if replaced >= self.cold:
            return Transcript(Vector([summary, *self.entries[replaced - self.cold :]]))
        cut = self.cut + replaced - (self.summary is not None)
        return Transcript(self.entries, self.cold - replaced + 1, self.patched, bytes(32), cut, summary)


class Slot(Struct, frozen=True, gc=False):
    """One call of the model's last message, and the effect it became (0: none yet, -1: never to be one).

    ``answer`` is there where a patch answered a call that never became an effect."""

    call: str
    name: str
    effect: int = 0
    answer: Message | None = None


class Open(Struct, frozen=True, kw_only=True, gc=False):
    """An effect that something may still happen to, or whose answer the model has not been told.

    ``asked`` is what holds its arguments, where the effect itself does not. ``answer`` is the message for the
    model; ``answer_seq`` is the event that holds that message, 0 where none does. ``owner`` is the (run, effect)
    key of a call that a parent left.
    """

    seq: int
    effect: Effect
    name: str
    call: str = ""
    asked: Any = None
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
    def holder(self) -> Arguments:
        """The word that holds its arguments: the effect, the model's call, or a person's edit of it."""
        held: Arguments = self.effect if self.asked is None else self.asked
        return held

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


def may_write(opened: Open) -> bool:
    """Whether performing it may change files: it is not a model's, not read-only, and performed here."""
    return not isinstance(opened.effect, ModelCall) and opened.recovery is not Recovery.REPEAT and not opened.external
