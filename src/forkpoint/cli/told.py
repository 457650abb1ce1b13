"""What a run's story is made of: turns, steps, calls, and what else happened."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from forkpoint._word import Ref
from forkpoint.messages import Message, Part, Usage
from forkpoint.outcomes import Outcome
from forkpoint.state import RunState


class CallTold(Struct, frozen=True, kw_only=True):
    """One tool call. ``effect`` is 0 for one that never became an effect. ``status`` says how it stands:
    ``asked``, ``running``, ``retry``, ``probe``, ``held``, ``needs approval``, ``needs answer``, or how it ended."""

    effect: int
    step: int
    call: str
    tool: str
    arguments: Any = None
    arguments_aside: Ref | None = None
    status: str = "asked"
    outcome: Outcome | None = None
    attempts: int = 0
    recovery: str = ""
    key: str | None = None
    ms: int = 0
    remarks: tuple[str, ...] = ()


class FilesTold(Struct, frozen=True, kw_only=True):
    """What a step did to the workspace's files: the trees before and after it, or why they could not be captured."""

    seq: int
    before: str | None = None
    after: str | None = None
    failed: str | None = None


class StepTold(Struct, frozen=True, kw_only=True):
    """One response of the model and the calls it asked for. ``seq`` is the event that asked, ``ended`` the one that
    holds the answer (0 while there is none). ``number`` is 0 for a call of the model that gave no step."""

    seq: int
    number: int = 0
    ended: int = 0
    at_ms: int = 0
    status: str = "asking"
    message: Message | None = None
    usage: Usage | None = None
    cost: float | None = None
    ms: int = 0
    attempts: int = 0
    calls: tuple[CallTold, ...] = ()
    files: tuple[FilesTold, ...] = ()
    remarks: tuple[str, ...] = ()


class OwnTold(Struct, frozen=True, kw_only=True):
    """What a function's code asked for itself, by no model's message. ``seq`` is the event that asked."""

    seq: int
    at_ms: int
    call: CallTold


class Mark(Struct, frozen=True, kw_only=True):
    """Something else that happened: a pause, a snapshot, a fork's beginning. ``quiet`` for what says nothing new to a
    person, and ``failed`` for what did not go as it should."""

    seq: int
    at_ms: int
    kind: str
    says: str
    quiet: bool = False
    failed: bool = False


class TurnBegun(Struct, frozen=True, kw_only=True):
    """A turn began with an input."""

    turn: int
    seq: int
    at_ms: int
    parts: tuple[Part, ...] = ()


Item: TypeAlias = TurnBegun | StepTold | OwnTold | Mark


class Story(Struct, frozen=True, kw_only=True):
    """A run as it stood after its last event, and how it came to that, in order."""

    state: RunState
    items: tuple[Item, ...]

    @property
    def steps(self) -> tuple[StepTold, ...]:
        """The steps among the items."""
        return tuple(item for item in self.items if isinstance(item, StepTold))

    def calls(self) -> Mapping[int, CallTold]:
        """Every call that became an effect, by its effect."""
        asked = {call.effect: call for step in self.steps for call in step.calls if call.effect}
        return asked | {item.call.effect: item.call for item in self.items if isinstance(item, OwnTold)}
