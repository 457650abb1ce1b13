"""What must hold of an errand's journal and of the world after any deaths, as DESIGN's table of recovery has it."""

from collections.abc import Sequence

from msgspec import Struct, field

from forkpoint.advance import idempotency_key
from forkpoint.effects import ModelCall, Recovery, ToolCall
from forkpoint.events import (
    EffectDispatched,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    InputReceived,
    RecordedEvent,
)
from forkpoint.outcomes import Failed, Unknown
from forkpoint.state import RunState
from forkpoint.transcript import validate_transcript

from .clerk import Errand, World


class Told(Struct, kw_only=True):
    """What a history says of one effect."""

    seq: int
    effect: ToolCall | ModelCall
    dispatched: list[EffectDispatched] = field(default_factory=list)
    settled: list[EffectSettled] = field(default_factory=list)
    resolved: list[EffectResolved] = field(default_factory=list)

    @property
    def in_flight(self) -> bool:
        """Whether its last attempt has no outcome on record."""
        return len(self.dispatched) > sum(1 for one in self.settled if one.attempt)


def told(events: Sequence[RecordedEvent]) -> dict[int, Told]:
    """The effects of a history, by id."""
    found: dict[int, Told] = {}
    for recorded in events:
        match recorded.event:
            case EffectRequested(effect=ToolCall() | ModelCall() as effect):
                found[recorded.seq] = Told(seq=recorded.seq, effect=effect)
            case EffectDispatched() as event:
                found[event.effect].dispatched.append(event)
            case EffectSettled() as event:
                found[event.effect].settled.append(event)
            case EffectResolved() as event:
                found[event.effect].resolved.append(event)
            case _:
                pass
    return found


def in_doubt(events: Sequence[RecordedEvent]) -> set[int]:
    """The effects of which nobody but a person can say what became of them."""
    return {
        one.seq
        for one in told(events).values()
        if _recovery(one) is Recovery.HOLD and not one.resolved and (one.in_flight or _unknown(one))
    }


def _unknown(one: Told) -> bool:
    return bool(one.settled) and isinstance(one.settled[-1].outcome, Unknown)


def _recovery(one: Told) -> Recovery:
    return one.effect.recovery if isinstance(one.effect, ToolCall) else Recovery.RETRY


def check_effects(events: Sequence[RecordedEvent], world: World) -> None:
    """Nothing took place more often than its class allows, and nothing that no record said would."""
    keys = set()
    for one in told(events).values():
        _check_attempts(one)
        if not isinstance(one.effect, ToolCall):
            continue
        name, key = one.effect.tool, idempotency_key(events[0].run, one.seq)
        keys.add(key)
        assert {each.key for each in one.dispatched} <= {key}
        times, dispatched = world.times("did", key), len(one.dispatched)
        assert times <= dispatched, f"{name} took place without its dispatch on record"
        if _recovery(one) in (Recovery.HOLD, Recovery.RECONCILE):
            assert times <= 1, f"{name} took place twice"
        if _recovery(one) is Recovery.HOLD:
            assert dispatched <= 1, f"{name} was tried twice"
    assert world.keys() <= keys


def _check_attempts(one: Told) -> None:
    assert [each.attempt for each in one.dispatched] == list(range(1, len(one.dispatched) + 1))
    assert len({each.key for each in one.dispatched}) <= 1
    tried = {each.attempt for each in one.dispatched}
    for settled in one.settled:
        assert settled.attempt in tried or settled.attempt == 0
        # That a call was not tried is knowledge.
        assert settled.attempt or not isinstance(settled.outcome, Unknown)
    assert [each.attempt for each in one.settled] == sorted({each.attempt for each in one.settled})


def check_finished(errand: Errand, world: World, events: Sequence[RecordedEvent], state: RunState) -> None:
    """The run came to its end: every call is answered, and what was safe to do is done."""
    assert (state.status, state.output) == ("idle", "done")
    assert not state.waits
    validate_transcript(state.messages)
    assert state.turn == 1 + errand.more
    inputs = [one for one in events if isinstance(one.event, InputReceived)]
    assert len(inputs) == 1 + errand.more
    check_effects(events, world)
    effects = told(events)
    assert not any(one.in_flight for one in effects.values())
    for one in effects.values():
        if isinstance(one.effect, ToolCall) and one.effect.tool in errand.tools:
            _check_done(errand, world.times("did", idempotency_key(state.run, one.seq)), one)


def _check_done(errand: Errand, times: int, one: Told) -> None:
    name = one.effect.tool  # type: ignore[union-attr]
    assert one.dispatched, f"{name} was never tried"
    if name == "look" and errand.faulty and isinstance(one.settled[-1].outcome, Failed):
        return  # a read that failed is told to the model as it is
    match _recovery(one):
        case Recovery.HOLD:
            assert times == 1 or one.resolved
        case Recovery.RECONCILE:
            assert times == 1
        case _:
            assert times >= 1
