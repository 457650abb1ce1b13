"""What is recorded for an attempt that ended, and what comes of it: the table of recovery classes, cell by cell.

Not tested here: performing (``runtime``), and dying in the middle of it (``crash``).
"""

from typing import Any

import pytest

from forkpoint.commands import Advance, Found, Interrupt, Recover, Settle, Stop
from forkpoint.effects import ModelCall, Recovery, StepCall
from forkpoint.events import EffectDispatched, EffectResolved, EffectSettled
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Open
from forkpoint.recover import BACKOFF_MAX_MS, Act, act, rule
from given import HOLD, RECONCILE, REPEAT, RETRY, asks, dispatched, fails, given, settled, started, unknown

ERROR = Failed(error="ValueError", text="no")
DROPPED = Failed(error="ConnectionError", text="reset")
LATE = Failed(error="TimeoutError", text="slow")
UNUSABLE = Failed(error="ToolBadResult", text="odd", happened=True)
LOST = Unknown(because="lost")
TIMED_OUT = Unknown(because="timeout", text="no result")
REPORTED = Unknown(because="reported", text="who knows")
DONE = Succeeded(value=1)

DOUBTFUL = {"doubtful": True}
BOTH = {"doubtful": True, "transient": True}
TRANSIENT = {"transient": True}

# recovery, outcome, flags -> (kind of outcome, then) with attempts left, with none left, and being called off.
TABLE: list[tuple[Recovery, Outcome, dict[str, bool], tuple[str, str], tuple[str, str], tuple[str, str]]] = [
    (REPEAT, DONE, {}, ("succeeded", "final"), ("succeeded", "final"), ("succeeded", "final")),
    (REPEAT, ERROR, {}, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (REPEAT, DROPPED, BOTH, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (REPEAT, TIMED_OUT, DOUBTFUL, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (REPEAT, LOST, DOUBTFUL, ("unknown", "retry"), ("failed", "final"), ("cancelled", "final")),
    (RETRY, DONE, {}, ("succeeded", "final"), ("succeeded", "final"), ("succeeded", "final")),
    (RETRY, ERROR, {}, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (RETRY, ERROR, TRANSIENT, ("failed", "retry"), ("failed", "final"), ("failed", "final")),
    (RETRY, DROPPED, BOTH, ("unknown", "retry"), ("failed", "final"), ("unknown", "final")),
    (RETRY, TIMED_OUT, DOUBTFUL, ("unknown", "retry"), ("failed", "final"), ("unknown", "final")),
    (RETRY, LOST, DOUBTFUL, ("unknown", "retry"), ("failed", "final"), ("unknown", "final")),
    (RETRY, UNUSABLE, BOTH, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (RECONCILE, DONE, {}, ("succeeded", "final"), ("succeeded", "final"), ("succeeded", "final")),
    (RECONCILE, ERROR, {}, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (RECONCILE, DROPPED, BOTH, ("unknown", "probe"), ("unknown", "probe"), ("unknown", "probe")),
    (RECONCILE, LATE, BOTH, ("unknown", "probe"), ("unknown", "probe"), ("unknown", "probe")),
    (RECONCILE, REPORTED, {}, ("unknown", "probe"), ("unknown", "probe"), ("unknown", "probe")),
    (RECONCILE, LOST, DOUBTFUL, ("unknown", "probe"), ("unknown", "probe"), ("unknown", "probe")),
    (RECONCILE, UNUSABLE, BOTH, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (HOLD, DONE, {}, ("succeeded", "final"), ("succeeded", "final"), ("succeeded", "final")),
    (HOLD, ERROR, {}, ("failed", "final"), ("failed", "final"), ("failed", "final")),
    (HOLD, DROPPED, BOTH, ("unknown", "final"), ("unknown", "final"), ("unknown", "final")),
    (HOLD, LATE, BOTH, ("unknown", "final"), ("unknown", "final"), ("unknown", "final")),
    (HOLD, REPORTED, DOUBTFUL, ("unknown", "final"), ("unknown", "final"), ("unknown", "final")),
    (HOLD, LOST, DOUBTFUL, ("unknown", "final"), ("unknown", "final"), ("unknown", "final")),
    (HOLD, UNUSABLE, BOTH, ("failed", "final"), ("failed", "final"), ("failed", "final")),
]

MODEL_TABLE: list[tuple[Outcome, dict[str, bool], tuple[str, str], tuple[str, str], tuple[str, str]]] = [
    (DONE, {}, ("succeeded", "final"), ("succeeded", "final"), ("succeeded", "final")),
    (ERROR, {}, ("failed", "final"), ("failed", "final"), ("cancelled", "final")),
    (DROPPED, TRANSIENT, ("failed", "retry"), ("failed", "final"), ("cancelled", "final")),
    (LOST, DOUBTFUL, ("unknown", "retry"), ("failed", "final"), ("cancelled", "final")),
    (Cancelled(reason="cancelled"), {}, ("cancelled", "final"), ("cancelled", "final"), ("cancelled", "final")),
]


def _rows() -> list[Any]:
    rows = []
    for recovery, outcome, flags, *cells in TABLE:
        effect = StepCall(name="s", recovery=recovery)
        rows += [
            (effect, outcome, flags, *where) for where in zip(((1, False), (3, False), (1, True)), cells, strict=True)
        ]
    for outcome, flags, *cells in MODEL_TABLE:
        model = ModelCall(digest="")
        rows += [
            (model, outcome, flags, *where) for where in zip(((1, False), (3, False), (1, True)), cells, strict=True)
        ]
    return rows


def _kind(outcome: Outcome) -> str:
    return type(outcome).__name__.lower()


@pytest.mark.parametrize(("effect", "outcome", "flags", "where", "cell"), _rows())
def test_each_cell_of_the_table(
    effect: Any, outcome: Outcome, flags: dict[str, bool], where: tuple[int, bool], cell: tuple[str, str]
) -> None:
    attempt, calling_off = where
    opened = Open(seq=5, effect=effect, name="s", phase="dispatched", attempt=attempt)
    given_flags = {"doubtful": False, "transient": False} | flags
    ruling = rule(opened, outcome, now_ms=1000, calling_off=calling_off, **given_flags)
    assert (_kind(ruling.outcome), ruling.then) == cell
    assert (ruling.retry_at_ms is not None) == (ruling.then == "retry")


def test_a_spent_budget_says_how_often_it_was_tried_and_what_came_last() -> None:
    opened = Open(seq=5, effect=StepCall(name="s", recovery=RETRY), name="s", attempt=3)
    ruling = rule(opened, DROPPED, doubtful=True, transient=True, now_ms=0)
    assert ruling.outcome == Failed(error="connection", text="gave up after 3 attempts: ConnectionError: reset")
    ruling = rule(opened, LOST, doubtful=True, transient=False, now_ms=0)
    assert ruling.outcome == Failed(error="lost", text="gave up after 3 attempts")


def test_attempts_are_spaced_further_apart_and_never_sooner_than_was_asked_for() -> None:
    waits = []
    for attempt in (1, 2, 3, 12):
        opened = Open(seq=5, effect=ModelCall(digest="", attempts=99), name="", attempt=attempt)
        waits.append(rule(opened, DROPPED, doubtful=False, transient=True, now_ms=0).retry_at_ms)
    assert waits == [500, 1000, 2000, BACKOFF_MAX_MS]
    opened = Open(seq=5, effect=ModelCall(digest=""), name="", attempt=1)
    asked = rule(opened, DROPPED, doubtful=False, transient=True, now_ms=0, after_ms=90_000)
    assert asked.retry_at_ms == 90_000


def test_a_lost_attempt_is_made_again_at_once() -> None:
    opened = Open(seq=5, effect=StepCall(name="s", recovery=RETRY), name="s", attempt=1)
    assert rule(opened, LOST, doubtful=True, transient=False, now_ms=70).retry_at_ms == 70


@pytest.mark.parametrize(
    ("phase", "more", "doing"),
    [
        ("requested", {}, Act.DISPATCH),
        ("requested", {"gate": "allowed"}, Act.DISPATCH),
        ("requested", {"gate": "asked"}, Act.WAIT),
        ("retry", {"retry_at_ms": 100}, Act.DISPATCH),
        ("retry", {"retry_at_ms": 101}, Act.LATER),
        ("probe", {}, Act.PROBE),
        ("dispatched", {}, Act.IN_FLIGHT),
        ("unknown", {}, Act.WAIT),
        ("held", {}, Act.WAIT),
        ("settled", {}, Act.DONE),
    ],
)
def test_each_open_effect_has_one_safe_thing_to_do(phase: Any, more: dict[str, Any], doing: Act) -> None:
    assert act(Open(seq=5, effect=StepCall(name="s"), name="s", phase=phase, **more), 100) is doing


# ── the same, through a run ──────────────────────────────────────────────────────────────────────────────────


def test_a_call_on_record_that_was_never_tried_is_performed_whatever_its_class() -> None:
    for tool in ("mail", "charge", "look", "book"):
        past = given(started(), asks(tool), Recover())
        (event,) = past.when(Advance(by="next"))
        assert isinstance(event, EffectDispatched) and event.attempt == 1


def test_a_crash_settles_every_lost_attempt_before_the_next_is_made() -> None:
    past = given(started(), asks("mail", "charge", "look", "book"), dispatched(), Recover())
    settles = [recorded.event for recorded in past.events if isinstance(recorded.event, EffectSettled)]
    lost = [event for event in settles if isinstance(event.outcome, Unknown)]
    assert [event.then for event in lost] == ["final", "retry", "retry", "probe"]
    assert all(event.outcome.because == "lost" for event in lost)  # type: ignore[union-attr]
    again = past.when(Advance(by="next"))
    names = [past.state.effects[event.effect].name for event in again if isinstance(event, EffectDispatched)]
    assert names == ["charge", "look"]
    assert [event.attempt for event in again if isinstance(event, EffectDispatched)] == [2, 2]


def test_the_key_stays_over_attempts() -> None:
    past = given(started(), asks("charge"), dispatched())
    key = past.effect("charge").key
    assert past.after(Recover(), Advance(by="next")).effect("charge").key == key


def test_repeated_crashes_spend_the_budget_and_end_as_a_visible_failure() -> None:
    past = given(started(), asks("charge"))
    for _ in range(3):
        past = past.after(dispatched(), Recover())
    opened = past.effect("charge")
    assert opened.outcome == Failed(
        error="lost", text="gave up after 3 attempts: the process that performed it is gone"
    )
    assert past.after(Advance(by="p")).effect().name == ""  # the model is asked with that failure


def test_a_lost_model_call_is_asked_again_and_both_costs_count() -> None:
    past = given(started(), dispatched(), Recover(), dispatched())
    assert past.effect("").attempt == 2
    assert past.state.spent.cost_unknown == 1
    past = past.after(settled(past, "", Succeeded(), cost=0.5))
    assert (past.state.spent.cost, past.state.spent.cost_unknown) == (0.5, 1)


def test_recovering_a_run_that_rests_or_waits_writes_nothing() -> None:
    for past in (
        given(started(None)),
        given(started(), asks("wire")),
        given(started(), asks("mail"), dispatched(), unknown("mail")),
    ):
        assert past.when(Recover()) == ()


@pytest.mark.parametrize(
    ("finding", "phase"), [("occurred", "settled"), ("not_occurred", "retry"), ("unknown", "unknown")]
)
def test_the_probe_decides_what_becomes_of_a_lost_call(finding: Any, phase: str) -> None:
    past = given(started(), asks("book"), dispatched(), Recover())
    assert past.effect("book").phase == "probe"
    outcome = Succeeded(value="seat 3") if finding == "occurred" else None
    past = past.after(Found(effect=past.effect("book").seq, finding=finding, outcome=outcome))
    assert past.effect("book").phase == phase


def test_what_the_probe_finds_undone_is_performed_under_the_same_key_until_the_budget_is_spent() -> None:
    past = given(started(), asks("book"), dispatched())
    key = past.effect("book").key
    for attempt in (2, 3):
        past = past.after(Recover())
        past = past.after(Found(effect=past.effect("book").seq, finding="not_occurred"), dispatched())
        assert (past.effect("book").attempt, past.effect("book").key) == (attempt, key)
    past = past.after(Recover())
    past = past.after(Found(effect=past.effect("book").seq, finding="not_occurred"))
    assert past.effect("book").outcome == Failed(error="lost", text="gave up after 3 attempts; none took effect")


def test_a_probe_that_answers_twice_is_heard_once() -> None:
    past = given(started(), asks("book"), dispatched(), Recover())
    found = Found(effect=past.effect("book").seq, finding="occurred", outcome=Succeeded(value=1))
    assert past.after(found).when(found) == ()


@pytest.mark.parametrize("end", [Interrupt(), Stop()])
def test_what_a_probe_finds_undone_is_not_performed_once_the_turn_is_called_off(end: Any) -> None:
    past = given(started(), asks("book"), dispatched(), Recover(), end)
    past = past.after(Found(effect=past.effect("book").seq, finding="not_occurred"))
    resolved, closed = (recorded.event for recorded in past.events[-2:])
    assert isinstance(resolved, EffectResolved) and isinstance(closed, EffectSettled)
    assert isinstance(closed.outcome, Cancelled)
    assert past.state.status in ("idle", "stopped")


def test_an_outcome_of_an_attempt_that_was_settled_is_dropped() -> None:
    past = given(started(), asks("charge"), dispatched())
    first = settled(past, "charge", Succeeded(value="first"))
    past = past.after(Recover(), dispatched())
    assert past.when(first) == ()
    assert past.when(Settle(effect=99, attempt=1, outcome=DONE)) == ()


def test_a_tools_own_error_is_shown_to_the_model_and_nothing_else_happens() -> None:
    past = given(started(), asks("mail"), dispatched(), fails("mail", "ValueError", "no such person"))
    assert past.state.messages[-1].parts[0].response == {"error": "ValueError", "message": "no such person"}
    assert past.state.status == "running"
