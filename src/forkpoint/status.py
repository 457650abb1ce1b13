"""What follows from a run's state: its status, what it waits for, what is due."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from forkpoint.effects import ModelCall
from forkpoint.pieces import Doubt, Open, may_write
from forkpoint.ports import RunSummary, Status
from forkpoint.recover import Act, act

if TYPE_CHECKING:
    from forkpoint.state import RunState

WhySnapshot: TypeAlias = Literal["start", "before", "after"]
WaitKind: TypeAlias = Literal["approval", "unknown", "inherited", "question", "contradiction"]


class Wait(Struct, frozen=True, kw_only=True):
    """One decision that a run needs: about which effect, of what kind, said in words.

    ``digest`` binds an approval to its tool and arguments.
    """

    effect: int
    kind: WaitKind
    name: str
    call: str = ""
    digest: str = ""
    says: str = ""


class Due(Struct, frozen=True, kw_only=True):
    """What a performer may do now. ``wake_at_ms`` is when more falls due by itself; ``call`` says that a function
    that nobody may be performing is to be called, to ask for what it asked for and go on."""

    dispatch: tuple[int, ...] = ()
    probe: tuple[int, ...] = ()
    plan: bool = False
    ask: bool = False
    snapshot: WhySnapshot | None = None
    wake_at_ms: int | None = None
    call: bool = False

    @property
    def anything(self) -> bool:
        """Whether there is something to do now."""
        return bool(self.dispatch or self.probe or self.plan or self.ask or self.snapshot or self.call)


def status(state: "RunState") -> Status:
    """The one word for where a run stands."""
    return _status(state, _in_flight(state))


def _in_flight(state: "RunState") -> bool:
    return any(opened.phase == "dispatched" for opened in state.effects.values())


def _status(state: "RunState", in_flight: bool) -> Status:
    if state.stopped:
        return "stopped"
    if state.paused is not None:
        return "paused"
    if not state.active and not state.interrupting:
        if state.failure is not None:
            return "failed"
        if was_called_off(state):
            return "paused"
        return "waiting" if _contradicted(state) else "idle"
    if in_flight or _falls_due(state):
        return "running"
    return "waiting" if waits(state) else "running"


def was_called_off(state: "RunState") -> bool:
    """Whether a function was interrupted before it returned: it goes on when it is asked to."""
    over = state.active or state.interrupting or state.stopped or state.failure is not None
    return state.function is not None and state.returned is None and not over


def _falls_due(state: "RunState") -> bool:
    """Whether something is due now, or falls due by itself."""
    found = due(state, state.at_ms)
    return found.anything or found.wake_at_ms is not None


def waits(state: "RunState") -> tuple[Wait, ...]:
    """The decisions that the run needs, in the order in which they came up."""
    opens = state.effects.values()
    found = [wait for opened in opens if opened.phase not in _MOVING and (wait := _wait(opened)) is not None]
    if state.doubts:
        found += [_contradiction(key, doubt) for key, doubt in state.doubts.items() if doubt.contradiction is not None]
    return tuple(sorted(found, key=lambda wait: wait.effect)) if found else ()


_MOVING = ("dispatched", "settled", "retry", "probe")


def _contradiction(effect: int, doubt: Doubt) -> Wait:
    return Wait(effect=effect, kind="contradiction", name=doubt.name, says=f"decided {doubt.finding}, yet it ended")


def _wait(opened: Open) -> Wait | None:
    kind: WaitKind
    if opened.phase == "unknown":
        kind, says = "unknown", "nobody knows whether it took effect"
    elif opened.phase == "held":
        kind, says = "inherited", "the parent run left it open; it is not repeated here by itself"
    elif opened.phase == "requested" and opened.gate == "asked":
        kind, says = "approval", "a person must allow it"
    elif opened.phase == "requested" and opened.external:
        kind, says = "question", "its answer comes from outside"
    else:
        return None
    return Wait(effect=opened.seq, kind=kind, name=opened.name, call=opened.call, digest=opened.digest, says=says)


def is_waited_for(opened: Open | None) -> bool:
    """Whether somebody has to decide about the effect before it can go on."""
    return opened is not None and opened.phase not in _MOVING and _wait(opened) is not None


def due(state: "RunState", now_ms: int) -> Due:
    """What a performer may do now. Nothing in a run that is stopped, paused or at rest."""
    if state.stopped or state.paused is not None or not (state.active or state.interrupting):
        return Due(snapshot=None if state.workspace is None else _snapshot(state, ()))
    dispatch, probe, wake = [], [], []
    unsettled = [opened for opened in state.effects.values() if opened.phase != "settled"]
    for opened in unsettled:
        match act(opened, now_ms):
            case Act.DISPATCH:
                dispatch.append(opened.seq)
            case Act.PROBE:
                probe.append(opened.seq)
            case Act.LATER:
                wake.append(opened.retry_at_ms)
            case _:
                pass
    snapshot = None if state.workspace is None else _snapshot(state, dispatch)
    if state.interrupting:
        return Due(probe=tuple(probe), snapshot=snapshot)
    if snapshot is not None:
        dispatch = [key for key in dispatch if not may_write(state.effects[key])]
    if state.function is not None:
        return Due(
            dispatch=tuple(dispatch),
            probe=tuple(probe),
            snapshot=snapshot,
            wake_at_ms=min(wake, default=None),
            call=not waits(state),
        )
    plan = unplanned(state)
    return Due(
        dispatch=tuple(dispatch),
        probe=tuple(probe),
        plan=plan,
        ask=not unsettled and not plan and snapshot is None and not _contradicted(state),
        snapshot=snapshot,
        wake_at_ms=min(wake, default=None),
    )


def left_behind(state: "RunState") -> bool:
    """Whether a performer that is gone left something to put on record: a lost call, or a snapshot that is missing."""
    lost = any(opened.phase == "dispatched" for opened in state.effects.values())
    return lost or due(state, state.at_ms).snapshot is not None


def _snapshot(state: "RunState", dispatch: Sequence[int]) -> WhySnapshot | None:
    """Which snapshot of the workspace is due: after what may have written has ended, and before anything may write."""
    if state.files == "changing":
        writing = any(may_write(opened) and opened.phase == "dispatched" for opened in state.effects.values())
        return None if writing else "after"
    if state.files == "unseen" and any(may_write(state.effects[key]) for key in dispatch):
        return "start" if state.tree is None else "before"
    return None


def unplanned(state: "RunState") -> bool:
    """Whether a call of the last message has become no effect yet."""
    return bool(state.batch) and any(slot.effect == 0 and slot.answer is None for slot in state.batch)


def _contradicted(state: "RunState") -> bool:
    """Whether a late result disagrees with a decision and nobody has looked at it: then no model is asked."""
    return bool(state.doubts) and any(doubt.contradiction is not None for doubt in state.doubts.values())


def asking(state: "RunState") -> bool:
    """Whether a model is being asked at this moment of the run."""
    return any(isinstance(opened.effect, ModelCall) for opened in state.effects.values())


def summary(state: "RunState") -> RunSummary:
    """The run's line in a list."""
    in_flight = _in_flight(state)
    return RunSummary(
        status=_status(state, in_flight),
        agent=state.agent.name,
        turn=state.turn,
        step=state.step,
        title=state.title,
        labels=state.labels,
        waits=len(waits(state)),
        due=in_flight or _falls_due(state),
        tokens=state.spent.usage.total,
        cost=state.spent.cost,
        cost_unknown=state.spent.cost_unknown,
        output=state.output[:80],
        error=f"{state.failure.error}: {state.failure.text}"[:200] if state.failure else "",
    )
