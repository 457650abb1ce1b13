"""Moments of a history: which event ends a step or a turn, and the state at any of them. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from forkpoint.effects import ModelCall
from forkpoint.errors import ForkAmbiguousCall, ForkBadPoint, ForkNoSuchPoint, ReplayNoHistory
from forkpoint.events import ContextCompacted, EffectRequested, EffectSettled, RecordedEvent, RunStarted
from forkpoint.folding import evolve, fold
from forkpoint.ids import AtSeq, AtStep, AtTurn, BeforeCall, Where
from forkpoint.messages import Message, Part
from forkpoint.outcomes import Succeeded
from forkpoint.pieces import Entry
from forkpoint.state import RunState
from forkpoint.timetravel.patches import parts_of


def replay(history: Sequence[RecordedEvent], *, seed: str | Sequence[Part] | None = None) -> RunState:
    """The state after a whole history. Pure: no model, tool, file or journal is touched."""
    return state_at(history, seed=seed)


def state_at(
    history: Sequence[RecordedEvent],
    at: Where | int | None = None,
    *,
    step: int | None = None,
    turn: int | None = None,
    seed: str | Sequence[Part] | None = None,
) -> RunState:
    """The state at a moment of ``history``: after event ``at``, after ``step``, or at the end of ``turn``.

    ``history`` is events 1 to n of a run; ``seed`` is a user's message to begin with, where its events hold none.
    ``messages`` of the state are those up to the moment, ``pending`` the calls not answered by then. Raises
    ``fork.no-such-point`` for a moment that is not in it, and ``replay.no-history`` for a list with a gap.
    """
    check_gapless(history)
    seq = seq_of(history, where_of(at, step=step, turn=turn))
    state = fold(history[:1])
    if seed is not None:
        first = Entry(0, 0, 0, Message(role="user", parts=parts_of(seed)))
        state = replace(state, transcript=state.transcript.append(first))
    return fold(history[1:seq], state)


def where_of(
    at: Where | int | None, *, step: int | None, turn: int | None, before: str | int | None = None
) -> Where | None:
    """The one moment that is meant by at most one of these. Raises ``fork.bad-point`` for more than one."""
    given: list[Where] = []
    if at is not None:
        given.append(at if isinstance(at, AtSeq | AtStep | AtTurn | BeforeCall) else AtSeq(at))
    if step is not None:
        given.append(AtStep(step))
    if turn is not None:
        given.append(AtTurn(turn))
    if before is not None:
        given.append(BeforeCall(str(before)))
    if len(given) > 1:
        raise ForkBadPoint(given=", ".join(str(where) for where in given))
    return given[0] if given else None


def check_gapless(history: Sequence[RecordedEvent]) -> None:
    """Raises ``replay.no-history`` unless ``history`` is events 1 to n, in order, from a run's start."""
    for seq, recorded in enumerate(history, 1):
        if recorded.seq != seq:
            raise ReplayNoHistory(place=seq, found=recorded.seq)
    if not history or not isinstance(history[0].event, RunStarted):
        raise ReplayNoHistory(place=1, found=0)


def seq_of(history: Sequence[RecordedEvent], where: Where | None) -> int:
    """The event after which the moment ``where`` of a whole history lies; its last one if ``where`` is None."""
    match where:
        case None:
            return len(history)
        case AtSeq(seq):
            if not isinstance(seq, int) or not 1 <= seq <= len(history):
                raise no_such_point(history, where)
            return seq
        case AtStep(step):
            return _end_of_step(history, step)
        case AtTurn(turn):
            return _end_of_turn(history, turn)
        case BeforeCall(call):
            return _before_call(history, call)


def no_such_point(history: Sequence[RecordedEvent], where: Where) -> ForkNoSuchPoint:
    """The error for a moment that does not exist, listing those that do."""
    state: RunState | None = None
    for recorded in history:
        state = evolve(state, recorded)
    assert state is not None
    return missing_point(state, where)


def missing_point(head: RunState, where: Where) -> ForkNoSuchPoint:
    """The same, given the state at the run's head."""
    turns = head.turn if head.active else head.turn + 1
    exist = f"events 1 to {head.seq}, steps 0 to {head.step}, turns 0 to {max(turns - 1, 0)}"
    return ForkNoSuchPoint(run=head.run, point=str(where), exist=exist)


def asks_model(recorded: RecordedEvent) -> bool:
    """Whether this event asks the model for a step."""
    event = recorded.event
    return isinstance(event, EffectRequested) and isinstance(event.effect, ModelCall) and not event.effect.compaction


def step_settles(events: Sequence[RecordedEvent]) -> list[int]:
    """The events by which steps came to be, in order: final answers of models that are no summaries."""
    summaries = {one.event.effect for one in events if isinstance(one.event, ContextCompacted)}
    return [
        one.seq
        for one in events
        if isinstance(one.event, EffectSettled)
        and isinstance(one.event.outcome, Succeeded)
        and one.event.outcome.message is not None
        and one.event.effect not in summaries
    ]


def _end_of_step(history: Sequence[RecordedEvent], step: int) -> int:
    state: RunState | None = None
    for place, recorded in enumerate(history):
        state = evolve(state, recorded)
        if state.step == step and step_is_over(state, history[place + 1 : place + 2]):
            return recorded.seq
    raise no_such_point(history, AtStep(step))


def step_is_over(state: RunState, following: Sequence[RecordedEvent]) -> bool:
    """Whether the step that ``state`` is in ends here: the run rests, the model is asked next, or nothing follows."""
    if state.step and not state.active and not state.interrupting:
        return True
    if not following or asks_model(following[0]):
        return True
    # A function's code may ask for something before it asks a model, or without ever asking one.
    return state.function is not None and not state.step and isinstance(following[0].event, EffectRequested)


def _end_of_turn(history: Sequence[RecordedEvent], turn: int) -> int:
    state: RunState | None = None
    for recorded in history:
        before, state = state, evolve(state, recorded)
        if state.turn > turn:
            was_over = before is not None and before.turn == turn and not before.active
            return before.seq if was_over and before is not None else recorded.seq
    if state is not None and state.turn == turn and not state.active:
        return state.seq
    raise no_such_point(history, AtTurn(turn))


def _before_call(history: Sequence[RecordedEvent], call: str) -> int:
    state: RunState | None = None
    found: list[int] = []
    for recorded in history:
        state = evolve(state, recorded)
        if isinstance(recorded.event, EffectRequested) and recorded.seq in state.effects:
            opened = state.effects[recorded.seq]
            named = opened.call or state.function is not None
            if named and call in (opened.call, str(recorded.seq)):
                found.append(recorded.seq)
    if len(found) > 1:
        raise ForkAmbiguousCall(call=call, effects=", ".join(map(str, found)))
    if not found:
        raise no_such_point(history, BeforeCall(call))
    return found[0]
