"""For each open effect, the one safe thing to do next; and what settles one that was lost.

=========  ==========================================  ==========================================
Recovery   lost in flight (dispatched, no outcome)     error while running
=========  ==========================================  ==========================================
REPEAT     performed again                             ``Failed``
RETRY      performed again under the same key          transient: again; else ``Failed``
RECONCILE  the probe decides                           doubtful: the probe decides; else ``Failed``
HOLD       ``Unknown``: a person decides               doubtful: ``Unknown``; else ``Failed``
=========  ==========================================  ==========================================

Attempts are bounded: where another one is wanted and the budget is spent, the effect fails visibly.
"""

from enum import Enum
from typing import Literal, TypeAlias

from msgspec import Struct

from forkpoint.effects import ModelCall, Recovery
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Open

BACKOFF_MS = 500
BACKOFF_MAX_MS = 60_000

Then: TypeAlias = Literal["final", "retry", "probe"]


class Act(Enum):
    """What may be done about an open effect now."""

    DISPATCH = "dispatch"
    PROBE = "probe"
    LATER = "later"
    IN_FLIGHT = "in flight"
    WAIT = "wait"
    DONE = "done"


class Ruling(Struct, frozen=True):
    """The outcome to record for an attempt, and what comes of it."""

    outcome: Outcome
    then: Then = "final"
    retry_at_ms: int | None = None


def act(opened: Open, now_ms: int) -> Act:
    """The one safe thing to do about ``opened``."""
    match opened.phase:
        case "requested":
            return Act.WAIT if opened.gate == "asked" or opened.external else Act.DISPATCH
        case "retry":
            return Act.DISPATCH if opened.retry_at_ms <= now_ms else Act.LATER
        case "probe":
            return Act.PROBE
        case "dispatched":
            return Act.IN_FLIGHT
        case "unknown" | "held":
            return Act.WAIT
        case "settled":
            return Act.DONE


def rule(
    opened: Open,
    outcome: Outcome,
    *,
    doubtful: bool,
    transient: bool,
    now_ms: int,
    after_ms: int | None = None,
    calling_off: bool = False,
) -> Ruling:
    """What to record for an attempt that ended as ``outcome``, by the table above.

    ``doubtful`` and ``transient`` are about an error; ``calling_off`` says that no attempt may follow.
    """
    match outcome:
        case Succeeded() | Cancelled() | Failed(happened=True):
            return Ruling(outcome)
    doubtful = doubtful or isinstance(outcome, Unknown)
    lost = isinstance(outcome, Unknown) and outcome.because == "lost"
    if isinstance(opened.effect, ModelCall):
        return _model(opened, outcome, lost or transient, now_ms, after_ms, calling_off)
    match opened.recovery:
        case Recovery.REPEAT:
            if not lost:
                return Ruling(_as_failed(outcome))
            return Ruling(Cancelled(reason="interrupted")) if calling_off else _again(opened, outcome, now_ms, 0)
        case Recovery.RETRY:
            ended = _as_unknown(outcome) if doubtful else outcome
            if calling_off or not (doubtful or transient):
                return Ruling(ended)
            return _again(opened, ended, now_ms, 0 if lost else _backoff(opened, after_ms))
        case Recovery.RECONCILE:
            return Ruling(_as_unknown(outcome), then="probe") if doubtful else Ruling(outcome)
        case Recovery.HOLD:
            return Ruling(_as_unknown(outcome) if doubtful else outcome)


def spent(opened: Open) -> bool:
    """Whether the budget of attempts is used up."""
    return opened.attempt >= opened.effect.attempts


def _model(
    opened: Open, outcome: Failed | Unknown, again: bool, now_ms: int, after_ms: int | None, calling_off: bool
) -> Ruling:
    if calling_off:
        return Ruling(Cancelled(reason="interrupted"))
    if not again:
        return Ruling(_as_failed(outcome))
    lost = isinstance(outcome, Unknown)
    return _again(opened, outcome, now_ms, 0 if lost else _backoff(opened, after_ms))


def _again(opened: Open, outcome: Failed | Unknown, now_ms: int, wait_ms: int) -> Ruling:
    if spent(opened):
        return Ruling(_as_spent(opened, outcome))
    return Ruling(outcome, then="retry", retry_at_ms=now_ms + wait_ms)


def _backoff(opened: Open, after_ms: int | None) -> int:
    wait_ms: int = min(BACKOFF_MAX_MS, BACKOFF_MS << max(0, opened.attempt - 1))
    return max(wait_ms, after_ms or 0)


def _as_failed(outcome: Failed | Unknown) -> Failed:
    if isinstance(outcome, Unknown):
        return Failed(error=outcome.because, text=outcome.text)
    return outcome


def _as_unknown(outcome: Failed | Unknown) -> Unknown:
    if isinstance(outcome, Failed):
        because: Literal["timeout", "connection"] = "timeout" if "Timeout" in outcome.error else "connection"
        return Unknown(because=because, text=f"{outcome.error}: {outcome.text}")
    return outcome


def _as_spent(opened: Open, outcome: Failed | Unknown) -> Failed:
    failed = _as_failed(outcome)
    said = f"gave up after {opened.attempt} attempt{'s' if opened.attempt != 1 else ''}"
    return Failed(error=failed.error, text=f"{said}: {failed.text}" if failed.text else said)
