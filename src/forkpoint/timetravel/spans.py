"""A run told as OpenTelemetry spans, event by event: the same ones live and out of the journal. Pure.

1. One trace a run. A span begins with one event and ends with another, and its id is made of the run and the event it
   begins with: telling a run twice, or in another process, tells the same spans.
2. A turn is ``invoke_agent``. Below it, each attempt at a model call is ``chat``, each attempt at a tool call
   ``execute_tool``, each attempt at a step of someone's own code ``execute_step``. A call that was never tried (denied,
   refused, answered from outside or from a record, called off) is one span, from its request to its end.
3. What an operator should see and takes no time is an event of the turn's span, or a span without length where no
   turn is open. A finding about an unknown outcome is a span without length that links to the attempt.
4. A fork is a trace of its own, whose topmost spans link to the parent's span at the fork point. The past that they
   share is told by the parent's trace.

Source of span names, kinds and attributes: OpenTelemetry semantic conventions for generative AI.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from forkpoint.effects import Effect, ModelCall
from forkpoint.events import (
    ApprovalDecided,
    EffectDispatched,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    RecordedEvent,
    RunForked,
    RunInterrupted,
    RunStarted,
)
from forkpoint.folding import evolve
from forkpoint.messages import Message
from forkpoint.outcomes import Outcome, Succeeded, Unknown
from forkpoint.pieces import Open
from forkpoint.state import RunState
from forkpoint.status import waits
from forkpoint.timetravel.span_making import (
    Teller,
    Turn,
    Work,
    effect_words,
    noted,
    patch_words,
    said,
    settled_words,
)
from forkpoint.timetravel.span_shapes import At, Attributes, Span, SpanEvent, SpanLink, place, span_id, trace_id
from forkpoint.timetravel.span_words import outcome_words
from forkpoint.transcript import added_messages


def spans(history: Sequence[RecordedEvent], *, content: bool = False) -> tuple[Span, ...]:
    """Every span of the run that ``history`` (events 1 to n) is of, in the order in which they ended.

    What has not ended is told as it stands at the last event, with ``forkpoint.outcome`` ``open``. A fork's spans begin
    where it left its parent. ``content`` also tells what people, models and tools said.
    """
    if not history:
        return ()
    fold = SpanFold(history[-1].run, content=content)
    ended = [span for recorded in history for span in fold.feed(recorded)]
    return (*ended, *fold.unfinished())


class SpanFold:
    """The spans of one run, made as its events are fed, from event 1 on; an event costs the same at any length.

    ``seq`` is the last event fed. The events of a fork's parents must be fed as well and give no span.
    """

    def __init__(self, run: str, *, content: bool = False) -> None:
        self.run = run
        self.seq = 0
        self._content = content
        self._teller = Teller(run=run, trace="", content=content)
        self._folded: RunState | None = None
        self._at = At(0, 0)
        self._turn: Turn | None = None
        self._works: dict[int, Work] = {}
        self._doubtful: dict[int, SpanLink] = {}
        self._touched: SpanLink | None = None
        self._waits: frozenset[tuple[int, str]] = frozenset()
        self._ended: list[Span] = []

    def feed(self, recorded: RecordedEvent) -> tuple[Span, ...]:
        """The spans that ended with this event, which is the next one of the run."""
        before, self._folded = self._folded, evolve(self._folded, recorded)
        self.seq, self._ended = recorded.seq, []
        at = self._at = place(recorded)
        self._take(before, recorded, at)
        self._let_go(recorded, at)
        self._look_for_waits(at)
        self._look_at_turn(at)
        return tuple(self._ended) if recorded.run == self.run else ()

    def unfinished(self) -> tuple[Span, ...]:
        """What has not ended, as it stands at the last event: calls first, then the turn."""
        if self._folded is None or self._folded.run != self.run:
            return ()
        at = self._at
        still: Attributes = {"forkpoint.outcome": "open"}
        going = {key: work for key, work in self._works.items() if work.trying or not work.told}
        found = [self._work_span(key, work, at, still, None) for key, work in going.items()]
        if self._turn is not None:
            found.append(self._teller.turn(self._turn, at, "open", spent=self._state.spent))
        return tuple(found)

    @property
    def _state(self) -> RunState:
        assert self._folded is not None
        return self._folded

    @property
    def _parent(self) -> str | None:
        return self._turn.span if self._turn is not None else None

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, before: RunState | None, recorded: RecordedEvent, at: At) -> None:
        event = recorded.event
        match event:
            case RunStarted():
                self._teller = Teller(run=recorded.run, trace=trace_id(recorded.digest), content=self._content)
            case RunForked():
                self._fork(recorded, event, at)
            case EffectRequested():
                shown = self._shown(before, event.effect) if self._content else ()
                self._begin(self._state.effects[recorded.seq], at, shown)
            case EffectDispatched():
                self._dispatch(event, at)
            case EffectSettled():
                self._settle(event, at)
            case EffectResolved():
                self._resolve(event, at)
            case _:
                if isinstance(event, RunInterrupted) and self._turn is not None:
                    self._turn.called_off = True
                if (found := noted(event, content=self._content)) is not None:
                    self._note(at, *found)

    def _begin(self, opened: Open, at: At, shown: Sequence[Message] = ()) -> None:
        state = self._state
        self._works[opened.seq] = Work(
            effect=opened.effect,
            opened=opened,
            agent=state.agent,
            began=at,
            turn=state.turn,
            step=state.step,
            parent=self._parent,
            shown=shown,
        )

    def _shown(self, before: RunState | None, effect: Effect) -> Sequence[Message]:
        """What a model is shown for a request that was just recorded."""
        if not isinstance(effect, ModelCall):
            return ()
        shown = [entry.message for entry in self._state.transcript.entries]
        return [*shown, *added_messages(before, effect.add)] if effect.compaction and before is not None else shown

    def _dispatch(self, event: EffectDispatched, at: At) -> None:
        work = self._works.get(event.effect)
        if work is not None:
            work.opened, work.parent, work.began = self._state.effects[event.effect], self._parent, at
            work.attempt, work.trying, work.told = event.attempt, True, True
            self._touch(self._teller.span_of(work))

    def _settle(self, event: EffectSettled, at: At) -> None:
        work, outcome = self._works.get(event.effect), event.outcome
        if work is None:
            return
        if self._turn is not None and isinstance(outcome, Succeeded) and outcome.message and not work.is_summary:
            self._turn.said = outcome.message
        if work.trying or not work.told:
            words = settled_words(work, event, content=self._content)
            span = self._work_span(event.effect, work, at, words, outcome)
            if isinstance(outcome, Unknown):
                self._doubtful[event.effect] = SpanLink(trace_id=span.trace_id, span_id=span.span_id)
            self._end(span)
        else:
            self._note(at, "forkpoint.settled", effect_words(event.effect, work) | outcome_words(outcome))
        work.trying, work.told = False, True

    def _resolve(self, event: EffectResolved, at: At) -> None:
        """A finding: a span of its own, because the attempt's may have ended long ago, in another process."""
        opened, doubt = self._state.effects.get(event.effect), self._state.doubts.get(event.effect)
        name = opened.name if opened else doubt.name if doubt else ""
        words: Attributes = {
            "forkpoint.effect": event.effect,
            "forkpoint.finding": event.finding,
            "forkpoint.finding_source": event.source,
        }
        words |= {"gen_ai.tool.name": name} if name else {}
        words |= {"forkpoint.contradicts": True} if event.contradicts else {}
        words |= said(self._content, note=event.note, actor=event.actor)
        about = self._doubtful.get(event.effect)
        links = () if about is None else (replace(about, attributes={"forkpoint.link": "resolves"}),)
        self._moment(at, f"resolve {name}".rstrip(), words, links)

    def _fork(self, recorded: RecordedEvent, event: RunForked, at: At) -> None:
        """What was open belongs to the parent; what of it stays open here begins here."""
        for key, work in self._works.items():
            if work.trying:
                self._doubtful[key] = SpanLink(trace_id=self._teller.trace, span_id=self._teller.span_of(work))
        point = f"{event.parent}@{event.at}"
        words: Attributes = {"forkpoint.link": "fork_point", "forkpoint.fork_point": point}
        self._teller = Teller(
            run=recorded.run,
            trace=trace_id(recorded.digest),
            content=self._content,
            parent=point,
            origin=() if self._touched is None else (replace(self._touched, attributes=words),),
        )
        self._turn, self._works, self._waits = None, {}, frozenset()
        self._look_at_turn(at)
        self._note(at, "forkpoint.forked", patch_words(event))
        for opened in self._state.effects.values():
            if opened.phase != "settled":
                self._begin(opened, at)

    # ── what follows from the state ──────────────────────────────────────────────────────────────────────────

    def _let_go(self, recorded: RecordedEvent, at: At) -> None:
        """Leave out what nothing can happen to any more; a call that was never tried has its one span now."""
        event, effects = recorded.event, self._state.effects
        gone = [key for key in self._works if key not in effects or effects[key].phase == "settled"]
        for key in gone:
            work = self._works.pop(key)
            outcome = effects[key].outcome if key in effects else None
            if work.told or outcome is None or isinstance(event, EffectResolved):
                continue
            words = outcome_words(outcome)
            if isinstance(event, ApprovalDecided):
                words["forkpoint.outcome"] = "denied"
            self._end(self._work_span(key, work, at, words, outcome))

    def _look_for_waits(self, at: At) -> None:
        """Tell of decisions that the run needs now and did not need before."""
        found = waits(self._state)
        if not found and not self._waits:
            return
        for wait in found:
            if (wait.effect, wait.kind) not in self._waits:
                words: Attributes = {"forkpoint.wait": wait.kind, "forkpoint.effect": wait.effect}
                self._note(at, "forkpoint.waits", words | ({"gen_ai.tool.name": wait.name} if wait.name else {}))
        self._waits = frozenset((wait.effect, wait.kind) for wait in found)

    def _look_at_turn(self, at: At) -> None:
        """End the turn if the run rests or another began, and begin the one that is open now."""
        state, turn = self._state, self._turn
        going = (state.active or state.interrupting) and not state.stopped
        if turn is not None and not (going and state.turn == turn.number):
            outcome = _ending(state, turn)
            failure = state.failure if outcome == "failed" else None
            self._end(self._teller.turn(turn, at, outcome, spent=state.spent, failure=failure))
            self._turn = turn = None
        if going and turn is None:
            self._turn = Turn(
                number=state.turn,
                span=span_id(self._teller.trace, "turn", at.seq),
                began=at,
                agent=state.agent,
                spent=state.spent,
                heard=tuple(entry.message for entry in state.inputs) if self._content else (),
                called_off=state.interrupting,
                events=[],
            )
            self._touch(self._turn.span)

    # ── spans ────────────────────────────────────────────────────────────────────────────────────────────────

    def _work_span(self, key: int, work: Work, at: At, ended: Attributes, outcome: Outcome | None) -> Span:
        """A model's answer makes a step; a tool's call is of the step that asked for it."""
        step = work.step
        if isinstance(work.effect, ModelCall):
            step = self._state.step if isinstance(outcome, Succeeded) else self._state.step + 1
        return self._teller.work(key, work, at, step=0 if work.is_summary else step, ended=ended, outcome=outcome)

    def _end(self, span: Span) -> None:
        self._touch(span.span_id)
        self._ended.append(span)

    def _touch(self, span: str) -> None:
        self._touched = SpanLink(trace_id=self._teller.trace, span_id=span)

    def _note(self, at: At, name: str, words: Attributes) -> None:
        """Tell of something that took no time."""
        if self._turn is None:
            self._moment(at, name, words)
        else:
            self._turn.events.append(SpanEvent(name=name, at_ns=at.ns, attributes=words))

    def _moment(self, at: At, name: str, words: Attributes, links: tuple[SpanLink, ...] = ()) -> None:
        turn = self._state.turn
        self._ended.append(self._teller.moment(name, at, words, turn=turn, parent=self._parent, links=links))


def _ending(state: RunState, turn: Turn) -> str:
    if state.stopped:
        return "stopped"
    if state.failure is not None:
        return "failed"
    return "interrupted" if turn.called_off else "succeeded"
