"""What an agent is, as data: the definition that a run records, and the limits it runs under."""

from typing import Any, ClassVar

from forkpoint._word import Holder, Word
from forkpoint.effects import ATTEMPTS, Recovery


class ToolRecord(Word, frozen=True, kw_only=True, tag=False):
    """A tool as a model is told of it, and as a restart must treat it.

    ``parameters`` and ``result`` are JSON Schemas. ``approval`` says that calls of it may need a person.
    """

    name: str
    description: str = ""
    parameters: Any = None
    result: Any = None
    recovery: Recovery = Recovery.HOLD
    approval: bool = False
    external: bool = False
    attempts: int = ATTEMPTS


class Limits(Word, frozen=True, kw_only=True, tag=False):
    """How far a run may go before it pauses. A limit left out is no limit.

    ``seconds`` counts from the turn's start; the others count over the whole run.
    """

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


class Compaction(Word, frozen=True, kw_only=True, tag=False):
    """When to write a summary: once a request had ``after_tokens`` input tokens, keeping ``keep_steps``."""

    after_tokens: int
    keep_steps: int = 4


class AgentRecord(Holder, frozen=True, kw_only=True, tag=False):
    """An agent as it was when the run began, or as it is from an ``AgentChanged`` on."""

    LARGE: ClassVar[tuple[str, ...]] = ("instructions", "settings", "tools")
    name: str
    model: str = ""
    instructions: str = ""
    settings: dict[str, Any] | None = None
    tools: tuple[ToolRecord, ...] = ()
    attempts: int = ATTEMPTS
    compaction: Compaction | None = None
