"""Lawful histories, grown by deciding random commands: whatever can be asked of a run, at any moment, in any order.

Crashes are ``Recover``; a fork goes on in the child, its patch drawn from everything a patch may hold. Commands come
as a performer sends them (a model's answer and the plans for its calls together), and also when they make no sense.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from forkpoint.commands import (
    Advance,
    Answer,
    AnyCommand,
    CallPlan,
    ChangeAgent,
    Decide,
    Found,
    Interrupt,
    Late,
    Pause,
    Plan,
    Recover,
    Resolve,
    Send,
    Settle,
    Stop,
    Unpause,
)
from forkpoint.definition import Compaction, Limits
from forkpoint.effects import ModelCall
from forkpoint.errors import ForkpointError
from forkpoint.events import RecordedEvent, ResultPatch, RunForked
from forkpoint.inherit import inherited
from forkpoint.messages import CallPart, ResponsePart, Text, Usage, answer, assistant, user
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Open
from forkpoint.state import RunState
from forkpoint.status import due
from forkpoint.timetravel.patches import Delete, Edit, Insert, Replace, as_edits, edited
from forkpoint.transcript import first_problem, known_messages, loose
from given import HOLD, TOOLS, Past, agent, given, started

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example)
THOROUGH = os.environ.get("FORKPOINT_LAWS") == "thorough"


def searched(quick: int, thorough: int = 3000) -> settings:
    """How many histories a law is tried on: few and the same ones by default, thousands of new ones with
    ``FORKPOINT_LAWS=thorough``."""
    number = thorough if THOROUGH else quick
    return settings(max_examples=number, deadline=None, suppress_health_check=_QUIET, derandomize=not THOROUGH)


@st.composite
def histories(draw: Draw[Any], most: int = 36, *, forks: bool = True) -> Past:
    """A run that up to ``most`` moves have been made in."""
    past = _begun(draw)
    for _ in range(draw(st.integers(most // 2, most))):
        past = moved(draw, past, forks=forks)
    return past


def _begun(draw: Draw[Any]) -> Past:
    compaction = draw(st.sampled_from([None, None, Compaction(after_tokens=50, keep_steps=1)]))
    limits = draw(st.sampled_from([None, None, Limits(steps=3), Limits(tokens=100, seconds=60), Limits(cost=1.5)]))
    text = draw(st.sampled_from(["hello", "hello", None]))
    return given(started(text, limits=limits, compaction=compaction, attempts=draw(st.sampled_from([1, 3]))))


def moved(draw: Draw[Any], past: Past, *, forks: bool) -> Past:
    """``past`` after one more move."""
    state = past.state
    kinds = _likely(state)
    if state.paused is not None:
        kinds = ["unpause"]
    elif state.failure is not None or not (kinds and state.active):
        kinds = ["send", "unpause"] if state.failure is not None else ["send"]
    if not draw(st.integers(0, 7)):
        kinds = ["send", "pause", "unpause", "interrupt", "recover", "recover", "agent", "nonsense", "nonsense"]
        kinds += ["stop"] if not draw(st.integers(0, 3)) else []
        kinds += ["fork", "fork", "fork"] if forks else []
    kind = draw(st.sampled_from(kinds))
    later_ms = draw(st.sampled_from([0, 0, 700, 5000, 90_000]))
    if kind == "fork":
        return forked(draw, past)
    try:
        return past.after(*commands(draw, past.state, kind), later_ms=later_ms)
    except ForkpointError:
        return past  # refused, and nothing was written


def _likely(state: RunState) -> list[str]:
    """Kinds of moves that would be made at this moment of a run, the likelier the more often."""
    found = due(state, state.at_ms)
    kinds = ["advance"] * (6 if found.dispatch or found.ask or found.wake_at_ms is not None else 0)
    kinds += ["plan"] * (4 if found.plan else 0)
    phases = {opened.phase for opened in state.effects.values()}
    kinds += ["settle"] * (8 if "dispatched" in phases else 0)
    kinds += ["found"] * (3 if "probe" in phases else 0)
    kinds += ["resolve", "resolve", "late"] if phases & {"unknown", "held", "probe", "retry"} else []
    kinds += ["late", "resolve"] if state.doubts else []
    kinds += ["decide"] * (3 if any(one.gate == "asked" for one in state.effects.values()) else 0)
    kinds += ["answer"] * (3 if any(one.external for one in state.effects.values()) else 0)
    return kinds


def commands(draw: Draw[Any], state: RunState, kind: str) -> tuple[AnyCommand, ...]:
    """The commands of one move of that kind."""
    match kind:
        case "advance":
            return (Advance(by="p"),)
        case "plan":
            return (Plan(plans=_plans(draw, _unplanned(state))),)
        case "settle":
            opened = draw(st.sampled_from([one for one in state.effects.values() if one.phase == "dispatched"]))
            return _settles(draw, opened)
        case "send":
            key = draw(st.sampled_from([None, "k1", "k2"]))
            text = f"more for {key}" if key else "more"
            return (Send(parts=(Text(content=text),), key=key),)
        case "pause":
            return (Pause(reason="lunch"),)
        case "unpause":
            return (Unpause(limits=draw(st.sampled_from([None, Limits(steps=20)]))),)
        case "interrupt":
            return (Interrupt(reason="no"),)
        case "recover":
            return (Recover(),)
        case "stop":
            return (Stop(),)
        case "agent":
            return (ChangeAgent(agent=agent(attempts=2), differences=("attempts: 3, now 2",)),)
        case "nonsense":
            return (draw(nonsense(state)),)
        case _:
            return _about(draw, state, kind)


def _about(draw: Draw[Any], state: RunState, kind: str) -> tuple[AnyCommand, ...]:
    """A command about an effect that may take one."""
    effect = draw(st.sampled_from([*state.effects, *state.doubts]))
    opened = state.effects.get(effect)
    return (draw(_command(kind, effect, opened)),)


def _command(kind: str, effect: int, opened: Open | None) -> st.SearchStrategy[AnyCommand]:
    digest = opened.digest if opened is not None else ""
    match kind:
        case "found":
            finding = st.sampled_from(["occurred", "not_occurred", "unknown"])
            return st.builds(_found, st.just(effect), finding)
        case "resolve":
            verdict = st.sampled_from(["occurred", "not_occurred", "abandoned_unknown"])
            outcome = st.sampled_from([None, None, Succeeded(value="seen")])
            return st.builds(Resolve, effect=st.just(effect), verdict=verdict, outcome=outcome, note=st.just("as seen"))
        case "late":
            outcome = st.sampled_from([Succeeded(value="late"), Failed(error="LateError"), Succeeded(value="seen")])
            return st.builds(Late, effect=st.just(effect), outcome=outcome)
        case "decide":
            decision = st.sampled_from(["allowed", "edited", "denied"])
            return st.builds(
                Decide,
                effect=st.just(effect),
                decision=decision,
                digest=st.just(digest),
                arguments=st.just({"of": "x"}),
            )
        case _:
            return st.builds(Answer, effect=st.just(effect), value=st.sampled_from(["yes", "no"]), actor=st.just("ann"))


def _found(effect: int, finding: Any) -> Found:
    return Found(effect=effect, finding=finding, outcome=Succeeded(value="probed") if finding == "occurred" else None)


def nonsense(state: RunState) -> st.SearchStrategy[AnyCommand]:
    """Any command about any effect, whether there is one or not: what is not refused must fold."""
    effect = draw_effect = st.sampled_from([0, 1, state.seq, *state.effects, *state.doubts, state.seq + 7])
    outcome = st.sampled_from([Succeeded(value=1), Failed(error="E", happened=True), Unknown(because="lost")])
    flags = {"doubtful": st.booleans(), "transient": st.booleans()}
    return st.one_of(
        *(effect.flatmap(lambda one, kind=kind: _command(kind, one, state.effects.get(one))) for kind in _KINDS),
        st.builds(Settle, effect=draw_effect, attempt=st.integers(0, 3), outcome=outcome, **flags),
        st.builds(Plan, plans=st.lists(st.just(CallPlan(tool="mail")), max_size=3).map(tuple)),
        st.just(ChangeAgent(agent=agent(), differences=())),
    )


_KINDS = ("found", "resolve", "late", "decide", "answer")


def _settles(draw: Draw[Any], opened: Open) -> tuple[AnyCommand, ...]:
    """An attempt ends, and what a performer sends with that."""
    if isinstance(opened.effect, ModelCall):
        return _model_settles(draw, opened)
    outcome, doubtful, transient = draw(
        st.sampled_from(
            [
                (Succeeded(value={"due": 3}), False, False),
                (Succeeded(value={"due": 3}), False, False),
                (Failed(error="ValueError", text="no such"), False, False),
                (Failed(error="ConnectionError", text="reset"), True, True),
                (Failed(error="BusyError", text="later"), False, True),
                (Failed(error="ToolBadResult", happened=True), False, False),
                (Unknown(because="timeout", text="no result within 5 s"), True, False),
                (Unknown(because="reported", text="who knows"), True, False),
                (Unknown(because="lost"), True, False),
            ]
        )
    )
    changes = draw(st.sampled_from([None, None, {"seen": 1}]))
    done = Settle(
        effect=opened.seq, attempt=opened.attempt, outcome=outcome, doubtful=doubtful, transient=transient, set=changes
    )
    return (done,)


def _model_settles(draw: Draw[Any], opened: Open) -> tuple[AnyCommand, ...]:
    def settle(outcome: Outcome, **more: Any) -> Settle:
        tokens = draw(st.sampled_from([10, 60]))
        usage = Usage(input_tokens=tokens, output_tokens=3)
        return Settle(effect=opened.seq, attempt=opened.attempt, outcome=outcome, usage=usage, cost=0.25, **more)

    kind = draw(st.sampled_from(["calls", "calls", "calls", "text", "failed", "transient", "cancelled"]))
    if kind == "calls" and not opened.effect.compaction:  # type: ignore[union-attr]
        parts = draw(st.lists(_call(), min_size=1, max_size=3))
        return settle(Succeeded(message=assistant("let me see", *parts))), Plan(plans=_plans(draw, parts))
    if kind == "cancelled":
        return (settle(Cancelled(reason="cancelled", partial=assistant("I was about to"))),)
    if kind in ("failed", "transient"):
        return (settle(Failed(error="ModelError", text="busy"), transient=kind == "transient"),)
    return (settle(Succeeded(message=assistant("all done"))),)


def _call() -> st.SearchStrategy[CallPart]:
    return st.builds(
        CallPart,
        id=st.sampled_from(["a", "b", "c"]),
        name=st.sampled_from(sorted(TOOLS)),
        arguments=st.sampled_from([{"of": 1}, {"of": 2}]),
    )


def _unplanned(state: RunState) -> list[CallPart]:
    calls = zip(state.transcript.entries[-1].message.calls, state.batch, strict=True)
    return [part for part, slot in calls if slot.effect == 0 and slot.answer is None]


def _plans(draw: Draw[Any], parts: list[CallPart]) -> tuple[CallPlan, ...]:
    plans = []
    for part in parts:
        plan = TOOLS[part.name].plan(part)
        fate = draw(st.sampled_from(["made", "made", "made", "made", "refused", "recorded"]))
        if fate == "refused":
            refused = Failed(error="InvalidArguments", text="of: not a number")
            plan = CallPlan(tool=part.name, recovery=HOLD, digest=plan.digest, refused=refused)
        elif fate == "recorded":
            outcome = draw(st.sampled_from([Succeeded(value="as then"), Failed(error="AsThen")]))
            plan = CallPlan(tool=part.name, recovery=plan.recovery, digest=plan.digest, recorded=(2, outcome))
        plans.append(plan)
    return tuple(plans)


def forked(draw: Draw[Any], past: Past, *, at: int | None = None) -> Past:
    """A fork of ``past`` at some moment, with some patch that is not refused."""
    last = len(past.events)
    seq = at or draw(st.one_of(st.integers(1, last), st.integers(max(1, last - 4), last)))
    shared = past.upto(seq)
    event = RunForked(
        parent=past.run,
        at=seq,
        parent_head=last,
        state=draw(st.sampled_from([UNSET, None, {"new": True}])),
        input=draw(st.sampled_from([UNSET, UNSET, (Text(content="and now?"),)])),
        agent=draw(st.sampled_from([None, agent(attempts=2)])),
        effects=draw(st.sampled_from(["live", "recorded", "ask"])),
        pending=draw(st.sampled_from(["hold", "hold", "run", "skip"])),
    )
    event = _with_edits(draw, shared.state, event)
    event = _with_results(draw, shared.state, event)
    child = f"{past.run[:40]}.{len(past.events)}"
    base = Past(shared.events, shared.state, child)
    return base.recorded(event, at_ms=past.now_ms)


def _replace(event: RunForked, **changes: Any) -> RunForked:
    return structs.replace(event, **changes)


def born(state: RunState, event: RunForked) -> RunState:
    """The state of a child with that birth, not yet on record."""
    return inherited(state, RecordedEvent("child", state.seq + 1, state.at_ms, b"", event), event)


def _with_edits(draw: Draw[Any], state: RunState, event: RunForked) -> RunForked:
    if draw(st.integers(0, 3)):
        return event
    told = known_messages(state)
    fresh = st.sampled_from(
        [
            user("another question"),
            assistant("another answer"),
            answer("a", "another result"),
            assistant("", CallPart(id="a", name="mail", arguments={}), CallPart(id="b", name="look", arguments={})),
        ]
    )
    edits: list[Edit] = []
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(0, max(0, len(told) - 1)))
        if not told or draw(st.booleans()):
            edits.append(Insert(draw(st.integers(0, len(told))), draw(fresh)))
        else:
            edits.append(draw(st.sampled_from([Delete(place), Replace(place, draw(fresh))])))
    wanted = edited(told, edits)
    changed = _replace(event, edits=as_edits(told, wanted, loose=loose(state)))
    return changed if first_problem(born(state, changed).messages) is None else event


def _with_results(draw: Draw[Any], state: RunState, event: RunForked) -> RunForked:
    found = calls_of(born(state, event))
    patches: list[ResultPatch] = []
    for effect, call in found:
        if found.count((effect, call)) == 1 and not draw(st.integers(0, 3)):
            error = draw(st.sampled_from([None, None, "as if it broke"]))
            patches.append(ResultPatch(effect=effect, call=call, value={"due": 0}, error=error))
    return _replace(event, tool_results=tuple(patches))


def calls_of(state: RunState) -> list[tuple[int, str]]:
    """Every call whose result a patch may set: (effect or 0, provider's id)."""
    found = [
        (entry.effect, part.id)
        for entry in state.transcript.entries
        for part in entry.message.parts
        if isinstance(part, ResponsePart)
    ]
    return found + [(max(slot.effect, 0), slot.call) for slot in state.batch]
