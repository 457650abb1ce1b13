"""True of every history: what may be done about open effects, what a run's status says, what recovery changes."""

from histories import born, histories, nonsense, searched
from hypothesis import given as for_any
from hypothesis import strategies as st

from forkpoint.commands import Advance, Interrupt, Recover
from forkpoint.effects import ModelCall
from forkpoint.errors import ForkpointError
from forkpoint.events import EffectDispatched, EffectResolved, EffectSettled, RunForked, needs_lease
from forkpoint.folding import fold
from forkpoint.outcomes import Unknown
from forkpoint.pieces import Open
from forkpoint.recover import Act, act
from forkpoint.state import RunState
from forkpoint.status import due, waits
from given import HOLD, REPEAT, Past


def _moments(past: Past) -> list[RunState]:
    states: list[RunState] = []
    for recorded in past.events:
        states.append(fold([recorded], states[-1] if states else None))
    return states


@searched(80)
@for_any(histories())
def test_every_open_effect_is_due_or_in_flight_or_later_or_waits_and_never_two_of_these(past: Past) -> None:
    for state in _moments(past):
        waiting = {wait.effect for wait in waits(state) if wait.kind != "contradiction"}
        found = due(state, state.at_ms)
        for key, opened in state.effects.items():
            doing = act(opened, state.at_ms)
            assert (key in waiting) == (doing is Act.WAIT)
            free = state.active and not (state.interrupting or state.paused or state.stopped)
            if free:
                assert (key in found.dispatch) == (doing is Act.DISPATCH)
                assert (key in found.probe) == (doing is Act.PROBE)
                assert doing is not Act.LATER or found.wake_at_ms is not None


@searched(80)
@for_any(histories())
def test_the_status_says_what_is_the_case(past: Past) -> None:
    for state in _moments(past):
        found = due(state, state.at_ms)
        flying = any(opened.phase == "dispatched" for opened in state.effects.values())
        moves = found.anything or found.wake_at_ms is not None or flying
        match state.status:
            case "running":
                assert moves
            case "waiting":
                assert waits(state) and not moves
            case "idle":
                assert not moves and not waits(state) and not state.queue
            case "failed":
                assert state.failure is not None and not moves
            case "paused" | "stopped":
                assert not found.anything


@searched(80)
@for_any(histories())
def test_no_effect_that_nobody_vouches_for_is_tried_twice_in_one_run(past: Past) -> None:
    tried: set[tuple[str, int]] = set()
    for before, recorded in zip(_moments(past), past.events[1:], strict=False):
        event = recorded.event
        if isinstance(event, EffectDispatched) and before.effects[event.effect].recovery is HOLD:
            assert (recorded.run, event.effect) not in tried
            tried.add((recorded.run, event.effect))


@searched(80)
@for_any(histories())
def test_attempts_are_counted_without_gaps_and_bounded(past: Past) -> None:
    for before, recorded in zip(_moments(past), past.events[1:], strict=False):
        event = recorded.event
        if isinstance(event, EffectDispatched):
            opened = before.effects[event.effect]
            assert event.attempt == opened.attempt + 1 <= opened.effect.attempts


@searched(80)
@for_any(histories())
def test_a_call_that_a_parent_left_open_is_performed_in_a_fork_only_if_that_is_safe(past: Past) -> None:
    """A fork made with ``pending="run"`` is a person's decision, and left out."""
    left: dict[int, Open] = {}
    for before, recorded in zip(_moments(past), past.events[1:], strict=False):
        event = recorded.event
        if isinstance(event, RunForked):
            left = {} if event.pending == "run" else dict(before.effects)
        elif isinstance(event, EffectDispatched) and event.effect in left:
            inherited = left[event.effect]
            assert inherited.phase == "requested" or inherited.recovery is REPEAT


@searched(60)
@for_any(histories())
def test_a_call_under_approval_never_runs_without_a_yes_in_its_own_run(past: Past) -> None:
    for before, recorded in zip(_moments(past), past.events[1:], strict=False):
        event = recorded.event
        if isinstance(event, EffectDispatched):
            opened = before.effects[event.effect]
            assert opened.gate != "asked"
            assert opened.gate == "allowed" or not getattr(opened.effect, "gated", False)


@searched(60)
@for_any(histories())
def test_a_second_recovery_changes_nothing(past: Past) -> None:
    for state in _moments(past)[::5]:
        once = Past(past.events[: state.seq], state).after(Recover())
        assert once.when(Recover()) == ()
        assert not any(opened.phase == "dispatched" for opened in once.state.effects.values())
        for recorded in once.events[state.seq :]:
            assert isinstance(recorded.event, EffectSettled)
            lost = state.effects[recorded.event.effect]
            if lost.recovery is HOLD:
                assert isinstance(recorded.event.outcome, Unknown)


@searched(60)
@for_any(histories(), st.data())
def test_what_is_refused_changes_nothing_and_what_is_not_refused_folds(past: Past, data: st.DataObject) -> None:
    command = data.draw(nonsense(past.state))
    events = past.events
    try:
        after = past.after(command)
    except ForkpointError as refused:
        assert "nothing was written" in str(refused)
        after = past
    assert past.events == events
    assert after.state.seq == len(after.events)


@searched(60)
@for_any(histories())
def test_advancing_twice_at_one_moment_dispatches_nothing_twice(past: Past) -> None:
    first = past.after(Advance(by="p"))
    assert first.when(Advance(by="q")) == ()


@searched(60)
@for_any(histories())
def test_an_interrupted_run_comes_to_rest_once_everything_has_ended(past: Past) -> None:
    state = past.state
    if state.stopped or state.paused is not None:
        return
    off = past.after(Interrupt(), Recover()).state
    assert off.status != "running" or (off.active and not off.interrupting) or _probing(off)


def _probing(state: RunState) -> bool:
    return any(opened.phase == "probe" for opened in state.effects.values())


@searched(60)
@for_any(histories())
def test_a_recorded_outcome_is_never_overwritten(past: Past) -> None:
    """Once an effect has ended for good, only a finding about an unknown one may follow, or a late contradiction."""
    ended: dict[tuple[str, int], bool] = {}
    for recorded in past.events:
        event = recorded.event
        if isinstance(event, RunForked):
            ended = {}
        if isinstance(event, EffectSettled) and event.then == "final":
            assert (recorded.run, event.effect) not in ended
            ended[recorded.run, event.effect] = isinstance(event.outcome, Unknown)
        if isinstance(event, EffectResolved) and not event.contradicts and event.finding != "unknown":
            assert ended.get((recorded.run, event.effect), True)


@searched(60)
@for_any(histories())
def test_what_performing_gives_needs_the_lease_and_what_a_person_asks_does_not(past: Past) -> None:
    for recorded in past.events:
        event = recorded.event
        if isinstance(event, EffectDispatched):
            assert needs_lease(event)
        if isinstance(event, EffectSettled):
            assert needs_lease(event) == (event.actor is None)
        if isinstance(event, EffectResolved):
            assert needs_lease(event) == (event.source == "probe")


@searched(60)
@for_any(histories())
def test_a_plain_fork_is_its_parent_at_that_moment_but_for_identity_and_what_is_open(past: Past) -> None:
    state = past.state
    child = born(state, RunForked(parent=past.run, at=state.seq, parent_head=state.seq))
    kept = ("step", "spent", "limits", "app", "transcript", "agent", "keys", "decisions", "notes", "tree")
    assert (*child.inputs, *child.queue) == (*state.inputs, *state.queue)
    for name in kept:
        assert getattr(child, name) == getattr(state, name), name
    assert not any(isinstance(opened.effect, ModelCall) for opened in child.effects.values())
    assert not child.stopped
