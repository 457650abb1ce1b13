"""What a store says of a run, read without performing anything: the demo's own check of what it tells."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from forkpoint.effects import ToolCall
from forkpoint.events import EffectDispatched, EffectRequested, EffectResolved, EffectSettled, RecordedEvent
from forkpoint.outcomes import Succeeded, Unknown
from forkpoint.state import RunState
from forkpoint.stores.choosing import open_store
from forkpoint.timetravel.comparing import compare
from forkpoint.wiring import connect


class CallFacts(Struct, kw_only=True):
    """What is on record of one tool call. ``endings`` has ``succeeded``, ``failed`` … for each attempt that ended."""

    effect: int
    keys: list[str | None] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        """How often it was tried."""
        return len(self.keys)

    @property
    def in_flight(self) -> bool:
        """Whether its last attempt has no outcome on record."""
        return self.attempts > len(self.endings)


class RunFacts(Struct, frozen=True, kw_only=True):
    """A run as it stands: its state, its events and its tool calls by the provider's call id."""

    state: RunState
    events: Sequence[RecordedEvent]
    calls: dict[str, CallFacts]
    digest: str


def run_facts(store: Path, run: str) -> RunFacts:
    """What is on record of ``run``."""

    async def look() -> RunFacts:
        async with connect(open_store(store, read_only=True)) as runtime:
            found = await runtime.open(run)
            events = await found.history()
            return RunFacts(state=await found.state(), events=events, calls=_calls(events), digest=await found.digest())

    return asyncio.run(look())


def divergence(a: RunFacts, b: RunFacts) -> int | None:
    """The first step in which the two runs differ."""
    return compare(list(a.events), list(b.events)).diverged_at


def _calls(events: Sequence[RecordedEvent]) -> dict[str, CallFacts]:
    names: dict[int, str] = {}
    calls: dict[str, CallFacts] = {}
    for recorded in events:
        match recorded.event:
            case EffectRequested(effect=ToolCall() as asked):
                names[recorded.seq] = _call_id(events, asked)
                calls[names[recorded.seq]] = CallFacts(effect=recorded.seq)
            case EffectDispatched(effect=effect, key=key) if effect in names:
                calls[names[effect]].keys.append(key)
            case EffectSettled(effect=effect, outcome=outcome) if effect in names:
                ending = outcome.because if isinstance(outcome, Unknown) else type(outcome).__name__.lower()
                calls[names[effect]].endings.append(ending)
            case EffectResolved(effect=effect, finding=finding) if effect in names:
                calls[names[effect]].findings.append(finding)
            case _:
                pass
    return calls


def _call_id(events: Sequence[RecordedEvent], asked: ToolCall) -> str:
    said = events[asked.message - 1].event
    if isinstance(said, EffectSettled) and isinstance(said.outcome, Succeeded) and said.outcome.message is not None:
        return said.outcome.message.calls[asked.call].id
    return f"{asked.tool} (effect asked in event {asked.message})"
