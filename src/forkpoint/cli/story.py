"""A run told as turns, steps and calls, with what else happened to it in its place. Pure: events in, data out."""

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from forkpoint.cli.phrases import effect_name, kind_of_outcome, phrase
from forkpoint.cli.told import CallTold, FilesTold, Mark, OwnTold, StepTold, Story, TurnBegun
from forkpoint.effects import ModelCall, StepCall, ToolCall
from forkpoint.events import (
    AgentChanged,
    ApprovalDecided,
    ApprovalRequested,
    ContextCompacted,
    EffectDispatched,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    FunctionReturned,
    InputReceived,
    RecordedEvent,
    ResultPatch,
    RunContinued,
    RunForked,
    RunInterrupted,
    RunPaused,
    RunStarted,
    RunStopped,
    SnapshotTaken,
    StateChanged,
    WorkspaceRewound,
)
from forkpoint.folding import evolve
from forkpoint.messages import Message
from forkpoint.outcomes import Failed, Outcome, Succeeded
from forkpoint.pieces import Open
from forkpoint.state import RunState


def story(history: Sequence[RecordedEvent]) -> Story:
    """The story of a whole history (events 1 to n)."""
    teller = _Teller()
    for recorded in history:
        teller.hear(recorded)
    return teller.told()


class _Teller:
    """Hears a run's events one by one. Steps and calls change until the end, so they are kept by number."""

    def __init__(self) -> None:
        self.state: RunState | None = None
        self._order: list[TurnBegun | Mark | int | OwnTold] = []
        self._steps: dict[int, StepTold] = {}
        self._calls: dict[int, list[CallTold]] = {}
        self._message_step: dict[int, int] = {}
        self._call_place: dict[int, tuple[int, int]] = {}
        self._names: dict[int, str] = {}

    def hear(self, recorded: RecordedEvent) -> None:
        before, self.state = self.state, evolve(self.state, recorded)
        if self.state.turn > (before.turn if before else 0) and isinstance(recorded.event, RunForked):
            self._tell(recorded)
            self._turn(recorded)
            return
        if self.state.turn > (before.turn if before else 0):
            self._turn(recorded)
        self._tell(recorded)
        if isinstance(recorded.event, SnapshotTaken) and before is not None:
            self._files(recorded.seq, recorded.event, before.tree)

    def told(self) -> Story:
        assert self.state is not None
        return Story(state=self.state, items=tuple(self._item(one) for one in self._order))

    def _item(self, one: TurnBegun | Mark | int | OwnTold) -> TurnBegun | Mark | StepTold | OwnTold:
        assert self.state is not None
        match one:
            case int():
                return self._whole_step(one)
            case OwnTold():
                return replace(one, call=_now(self._calls[-one.seq][0], self.state.effects.get(one.seq)))
            case _:
                return one

    def _whole_step(self, seq: int) -> StepTold:
        assert self.state is not None
        step = self._steps[seq]
        opened = self.state.effects.get(seq)
        if opened is None and not step.ended and step.status == "asking":
            # A fork never inherits an open call of the model: it asks anew.
            step = replace(step, status="not inherited")
        calls = tuple(_now(call, self.state.effects.get(call.effect)) for call in self._calls.get(seq, ()))
        return replace(step, calls=calls)

    def _turn(self, recorded: RecordedEvent) -> None:
        assert self.state is not None
        message = self.state.inputs[-1].message if self.state.inputs else Message(role="user")
        turn = TurnBegun(turn=self.state.turn, seq=recorded.seq, at_ms=recorded.at_ms, parts=message.parts)
        self._order.append(turn)

    def _mark(self, recorded: RecordedEvent) -> None:
        told = phrase(recorded.event, self._names)
        subject = "queued input" if isinstance(recorded.event, InputReceived) else told.subject
        says = f"{subject}: {told.says}" if subject else told.says
        failed = isinstance(recorded.event, SnapshotTaken) and recorded.event.failed is not None
        quiet = isinstance(recorded.event, SnapshotTaken) and not failed and not recorded.event.outside
        if isinstance(recorded.event, AgentChanged) and self.state is not None and self.state.function is not None:
            quiet = True  # its code says with every ask who is asked under what; that is told with the step
        mark = Mark(seq=recorded.seq, at_ms=recorded.at_ms, kind=told.kind, says=says, quiet=quiet, failed=failed)
        self._order.append(mark)

    def _tell(self, recorded: RecordedEvent) -> None:
        event = recorded.event
        match event:
            case EffectRequested():
                self._requested(recorded, event)
            case EffectDispatched():
                self._dispatched(event)
            case EffectSettled():
                self._settled(recorded, event)
            case EffectResolved():
                self._decided(recorded, event, event.outcome, event.finding)
            case ApprovalDecided():
                self._decided(recorded, event, None, "")
            case InputReceived():
                self._input(recorded)
            case RunForked():
                for patch in event.tool_results:
                    self._patched(patch)
                self._mark(recorded)
            case ApprovalRequested() | RunStarted():
                pass
            case (
                StateChanged()
                | ContextCompacted()
                | SnapshotTaken()
                | WorkspaceRewound()
                | RunPaused()
                | RunContinued()
                | RunInterrupted()
                | RunStopped()
                | AgentChanged()
                | FunctionReturned()
            ):
                self._mark(recorded)
            case _:
                assert_never(event)

    def _files(self, seq: int, event: SnapshotTaken, before: str | None) -> None:
        """What is seen after a step's calls, or before them in vain, is told with the step."""
        step = next(reversed(self._steps), None)
        if step is None or not (event.why == "after" or event.failed is not None):
            return
        told = FilesTold(seq=seq, before=before, after=event.tree, failed=event.failed)
        self._steps[step] = replace(self._steps[step], files=(*self._steps[step].files, told))

    def _input(self, recorded: RecordedEvent) -> None:
        """An input that began no turn waits in the queue; the turn it begins tells it again."""
        last = self._order[-1] if self._order else None
        if not (isinstance(last, TurnBegun) and last.seq == recorded.seq):
            self._mark(recorded)

    def _requested(self, recorded: RecordedEvent, event: EffectRequested) -> None:
        seq, effect = recorded.seq, event.effect
        self._names[seq] = effect_name(effect)
        match effect:
            case ModelCall():
                if not effect.compaction:
                    self._steps[seq] = StepTold(seq=seq, at_ms=recorded.at_ms)
                    self._order.append(seq)
            case ToolCall() if effect.message or self.state is None or self.state.function is None:
                self._tool_requested(seq, effect)
            case ToolCall() | StepCall():
                self._own(recorded, effect)
            case _:
                assert_never(effect)

    def _own(self, recorded: RecordedEvent, effect: ToolCall | StepCall) -> None:
        seq = recorded.seq
        call = CallTold(
            effect=seq,
            step=0,
            call=effect.id if isinstance(effect, ToolCall) else "",
            tool=effect_name(effect),
            recovery=effect.recovery.value,
            **_arguments_of(effect),
        )
        self._order.append(OwnTold(seq=seq, at_ms=recorded.at_ms, call=call))
        # Steps are kept by the event that asked for them; what no step asked for is kept under its own, negated.
        self._calls[-seq] = [call]
        self._call_place[seq] = (-seq, 0)

    def _tool_requested(self, seq: int, effect: ToolCall) -> None:
        assert self.state is not None
        step = self._message_step.get(effect.message, next(reversed(self._steps), 0))
        calls = self._calls.setdefault(step, [])
        opened = self.state.effects.get(seq)
        fresh = CallTold(
            effect=seq,
            step=self._steps[step].number if step else 0,
            call=opened.call if opened else "",
            tool=effect.tool,
            recovery=effect.recovery.value,
        )
        if effect.message in self._message_step and effect.call < len(calls) and not calls[effect.call].effect:
            place, asked = effect.call, calls[effect.call]
            calls[place] = replace(fresh, arguments=asked.arguments, arguments_aside=asked.arguments_aside)
        else:
            place = len(calls)
            calls.append(fresh)
        if effect.arguments is not None or effect.aside:
            calls[place] = replace(calls[place], **_arguments_of(effect))
        self._call_place[seq] = (step, place)

    def _change(self, effect: int, **fields: Any) -> bool:
        """Tell something new of a call; whether there is one of that number."""
        place = self._call_place.get(effect)
        if place is None:
            return False
        calls = self._calls[place[0]]
        calls[place[1]] = replace(calls[place[1]], **fields)
        return True

    def _remarks(self, effect: int) -> tuple[str, ...]:
        step, place = self._call_place[effect]
        return self._calls[step][place].remarks

    def _dispatched(self, event: EffectDispatched) -> None:
        if event.effect in self._steps:
            self._steps[event.effect] = replace(self._steps[event.effect], attempts=event.attempt)
        else:
            self._change(event.effect, status="running", attempts=event.attempt, key=event.key)

    def _settled(self, recorded: RecordedEvent, event: EffectSettled) -> None:
        if event.effect in self._steps:
            self._step_settled(recorded, event)
            return
        if event.effect not in self._call_place:
            if self._names.get(event.effect) != "summary":
                self._mark(recorded)
            return
        remarks = self._remarks(event.effect)
        if event.source is not None:
            remarks += (f"recorded: the parent's effect {event.source}",)
        if event.actor:
            remarks += (f"answered by {event.actor}",)
        if event.then == "retry":
            remarks += (phrase(event, self._names).says,)
        status = kind_of_outcome(event.outcome) if event.then == "final" else event.then
        if status == "failed" and self._was_denied(event.effect):
            status = "denied"
        self._change(event.effect, status=status, outcome=event.outcome, ms=event.ms, remarks=remarks)

    def _was_denied(self, effect: int) -> bool:
        step, place = self._call_place[effect]
        return self._calls[step][place].status == "denied"

    def _step_settled(self, recorded: RecordedEvent, event: EffectSettled) -> None:
        assert self.state is not None
        step = self._steps[event.effect]
        outcome = event.outcome
        if not (isinstance(outcome, Succeeded) and outcome.message is not None):
            status = "retry" if event.then == "retry" else kind_of_outcome(outcome)
            remarks = (*step.remarks, phrase(event, {}).says)
            ended = recorded.seq if event.then == "final" else 0
            self._steps[step.seq] = replace(step, status=status, remarks=remarks, ended=ended)
            return
        number = self.state.step
        self._message_step[recorded.seq] = step.seq
        self._calls[step.seq] = [
            CallTold(effect=0, step=number, call=part.id, tool=part.name, **_arguments_of(part))
            for part in outcome.message.calls
        ]
        self._steps[step.seq] = replace(
            step,
            number=number,
            ended=recorded.seq,
            at_ms=recorded.at_ms,
            status="succeeded",
            message=outcome.message,
            usage=event.usage,
            cost=event.cost,
            ms=event.ms,
        )

    def _decided(
        self,
        recorded: RecordedEvent,
        event: EffectResolved | ApprovalDecided,
        outcome: Outcome | None,
        finding: str,
    ) -> None:
        told = phrase(recorded.event, self._names)
        if event.effect not in self._call_place:
            self._mark(recorded)
            return
        remarks = (*self._remarks(event.effect), told.says)
        changes: dict[str, Any] = {"remarks": remarks}
        if isinstance(event, EffectResolved) and event.contradicts:
            changes["remarks"] = (*remarks, "this contradicts what was decided")
        elif finding and finding != "unknown":
            changes["status"] = finding.replace("_", " ")
            changes["outcome"] = outcome
        elif isinstance(event, ApprovalDecided) and event.decision == "denied":
            changes["status"] = "denied"
            changes["outcome"] = Failed(error="denied", text=event.reason)
        elif isinstance(event, ApprovalDecided) and event.decision == "edited":
            changes |= _arguments_of(event)
        self._change(event.effect, **changes)

    def _patched(self, patch: ResultPatch) -> None:
        aside = {"value": patch.aside["value"]} if patch.aside and "value" in patch.aside else None
        given: Outcome = Succeeded(value=patch.value, aside=aside)
        if patch.error is not None:
            given = Failed(error="error", text=patch.error)
        effect = patch.effect or self._effectless(patch.call)
        if effect in self._call_place:
            fields = {"status": kind_of_outcome(given), "outcome": given, "remarks": ("replaced by the fork's patch",)}
            self._change(effect, **fields)

    def _effectless(self, call: str) -> int:
        """A made-up number (below 0) for the newest call of that id that never became an effect; 0 for none."""
        for step in reversed(self._calls):
            for place, told in enumerate(self._calls[step]):
                if told.call == call and not told.effect:
                    number = -1 - len(self._call_place)
                    self._call_place[number] = (step, place)
                    return number
        return 0


def _arguments_of(holder: Any) -> dict[str, Any]:
    return {"arguments": holder.arguments, "arguments_aside": (holder.aside or {}).get("arguments")}


def _now(call: CallTold, opened: Open | None) -> CallTold:
    """``call`` as it stands in the state at the end: what it waits for is known only there."""
    if opened is None:
        return call
    match opened.phase:
        case "requested":
            waits = "needs approval" if opened.gate == "asked" else "needs answer" if opened.external else "asked"
            return replace(call, status=waits)
        case "dispatched":
            return replace(call, status="running")
        case "unknown" | "held" | "retry" | "probe":
            return replace(call, status=opened.phase)
        case "settled":
            return call
        case _:
            assert_never(opened.phase)
