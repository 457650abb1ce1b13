"""Spans made of what is known when something ends: a turn, an attempt at an effect, a moment. Pure."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct

from forkpoint.definition import AgentRecord
from forkpoint.effects import Effect, ModelCall, StepCall
from forkpoint.events import (
    AgentChanged,
    ApprovalDecided,
    ContextCompacted,
    EffectSettled,
    RunContinued,
    RunForked,
    RunInterrupted,
    RunPaused,
    RunStopped,
    SnapshotTaken,
    WorkspaceRewound,
)
from forkpoint.messages import Message
from forkpoint.outcomes import Failed, Outcome, Succeeded
from forkpoint.pieces import Open, Spent
from forkpoint.timetravel.facts import blob_or
from forkpoint.timetravel.span_shapes import At, Attributes, Span, SpanEvent, SpanLink, span_id
from forkpoint.timetravel.span_words import (
    instructions_text,
    messages_text,
    model_words,
    outcome_text,
    outcome_words,
    settings_words,
    spent_words,
    usage_words,
    value_text,
)


class Turn(Struct, kw_only=True):
    """The turn that is open, as far as it has come."""

    number: int
    span: str
    began: At
    agent: AgentRecord
    spent: Spent
    heard: tuple[Message, ...] = ()
    said: Message | None = None
    called_off: bool = False
    events: list[SpanEvent]


class Work(Struct, kw_only=True):
    """An effect that something may still happen to. ``began`` is where its last attempt did, or its request while
    there was none; ``told`` says that an attempt was made, so that the effect as a whole needs no span."""

    effect: Effect
    opened: Open
    agent: AgentRecord
    began: At
    turn: int
    step: int
    parent: str | None
    shown: Sequence[Message] = ()
    attempt: int = 0
    trying: bool = False
    told: bool = False

    @property
    def is_summary(self) -> bool:
        """Whether it asks a model for a summary, which is no step."""
        return isinstance(self.effect, ModelCall) and self.effect.compaction


class Teller(Struct, frozen=True, kw_only=True):
    """Tells of one run: in its trace, with what every span says. ``origin`` links to where a fork left its parent,
    whose fork point is ``parent``."""

    run: str
    trace: str
    content: bool = False
    parent: str = ""
    origin: tuple[SpanLink, ...] = ()

    def span_of(self, work: Work) -> str:
        """The id of the span of an attempt, or of an effect that was never tried."""
        # Several calls that were never tried begin with one event in a fork, which inherits them all at once.
        return span_id(self.trace, "attempt" if work.attempt else f"call {work.opened.seq}", work.began.seq)

    def turn(self, turn: Turn, at: At, outcome: str, *, spent: Spent, failure: Failed | None = None) -> Span:
        """A turn that ended at ``at``."""
        words = self._words(at, turn.number) | {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": turn.agent.name,
            "forkpoint.outcome": outcome,
        }
        words |= model_words(turn.agent) | settings_words(turn.agent) | spent_words(turn.spent, spent)
        if failure is not None:
            words["error.type"] = failure.error
        if turn.said is not None and turn.said.finish_reason:
            words["gen_ai.response.finish_reasons"] = (turn.said.finish_reason,)
        if self.content:
            words["gen_ai.input.messages"] = messages_text(turn.heard)
            words["gen_ai.output.messages"] = messages_text([turn.said] if turn.said is not None else [])
        return Span(
            name=f"invoke_agent {turn.agent.name}".rstrip(),
            trace_id=self.trace,
            span_id=turn.span,
            start_ns=turn.began.ns,
            end_ns=at.ns,
            attributes=words,
            status="unset" if failure is None else "error",
            message=outcome_text(failure) if failure is not None and self.content else "",
            links=self.origin,
            events=tuple(turn.events),
        )

    def work(
        self, key: int, work: Work, at: At, *, step: int, ended: Attributes, outcome: Outcome | None = None
    ) -> Span:
        """An attempt at effect ``key`` that ended at ``at``, or the effect as a whole where it was never tried."""
        name, kind, words = _work_words(work)
        words = self._words(at, work.turn) | words | effect_words(key, work)
        words |= {"forkpoint.step": step} if step else {}
        words |= {"forkpoint.attempt": work.attempt} if work.attempt else {}
        words |= ended
        if self.content:
            words |= _content_words(work)
        return Span(
            name=name,
            kind=kind,
            trace_id=self.trace,
            span_id=self.span_of(work),
            parent_span_id=work.parent,
            start_ns=work.began.ns,
            end_ns=at.ns,
            attributes=words,
            status="error" if "error.type" in words else "unset",
            message=outcome_text(outcome) if outcome is not None and self.content else "",
            links=() if work.parent else self.origin,
        )

    def moment(
        self, name: str, at: At, words: Attributes, *, turn: int, parent: str | None, links: tuple[SpanLink, ...] = ()
    ) -> Span:
        """Something that took no time."""
        # One event may bring about several waits; a fork inherits all of its parent's at once.
        which = f"{name} {words.get('forkpoint.effect', '')} {words.get('forkpoint.wait', '')}"
        return Span(
            name=name,
            trace_id=self.trace,
            span_id=span_id(self.trace, which, at.seq),
            parent_span_id=parent,
            start_ns=at.ns,
            end_ns=at.ns,
            attributes=self._words(at, turn) | words,
            links=links if parent else (*links, *self.origin),
        )

    def _words(self, at: At, turn: int) -> Attributes:
        """What every span says: whose it is, and the fork point at which it had just ended."""
        words: Attributes = {
            "gen_ai.conversation.id": self.run,
            "forkpoint.run": self.run,
            "forkpoint.fork_point": f"{self.run}@{at.seq}",
        }
        words |= {"forkpoint.turn": turn} if turn else {}
        return words | ({"forkpoint.parent": self.parent} if self.parent else {})


def effect_words(key: int, work: Work) -> Attributes:
    """Which effect it is, and what a restart may do about it."""
    return {"forkpoint.effect": key, "forkpoint.recovery": work.opened.recovery.value}


def settled_words(work: Work, event: EffectSettled, *, content: bool) -> Attributes:
    """How an attempt ended, and what it used."""
    outcome = event.outcome
    words = outcome_words(outcome) | usage_words(event.usage, event.cost)
    words |= {"forkpoint.then": event.then} if event.then != "final" else {}
    words |= {"forkpoint.source": event.source} if event.source is not None else {}
    if not isinstance(outcome, Succeeded):
        return words
    if outcome.message is not None and outcome.message.finish_reason:
        words["gen_ai.response.finish_reasons"] = (outcome.message.finish_reason,)
    if content and isinstance(work.effect, ModelCall):
        words["gen_ai.output.messages"] = messages_text([outcome.message] if outcome.message else [])
    elif content:
        name = "forkpoint.result" if isinstance(work.effect, StepCall) else "gen_ai.tool.call.result"
        words[name] = value_text(blob_or(outcome, "value"))
    return words


def _work_words(work: Work) -> tuple[str, Literal["internal", "client"], Attributes]:
    """An effect's span name, kind and attributes, by the conventions."""
    effect, agent = work.effect, work.agent
    words: Attributes = {"gen_ai.agent.name": agent.name} if agent.name else {}
    if isinstance(effect, ModelCall):
        words |= {"gen_ai.operation.name": "chat"} | model_words(agent) | settings_words(agent)
        words |= {"forkpoint.compaction": True} if effect.compaction else {}
        return f"chat {words.get('gen_ai.request.model', '')}".rstrip(), "client", words
    if isinstance(effect, StepCall):
        return f"execute_step {effect.name}", "internal", words | {"forkpoint.name": effect.name}
    words |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": effect.tool, "gen_ai.tool.type": "function"}
    words |= {"gen_ai.tool.call.id": work.opened.call} if work.opened.call else {}
    return f"execute_tool {effect.tool}", "internal", words


def _content_words(work: Work) -> Attributes:
    """What was asked of a model or a tool, in full."""
    if not isinstance(work.effect, ModelCall):
        name = "forkpoint.arguments" if isinstance(work.effect, StepCall) else "gen_ai.tool.call.arguments"
        return {name: value_text(blob_or(work.opened.holder, "arguments"))}
    words: Attributes = {"gen_ai.input.messages": messages_text(work.shown)}
    return words | ({"gen_ai.system_instructions": instructions_text(work.agent)} if work.agent.instructions else {})


def patch_words(event: RunForked) -> Attributes:
    """Which parts of a patch a fork began with, and what becomes of its calls."""
    parts = {
        "messages": event.edits is not UNSET,
        "state": event.state is not UNSET,
        "tool_results": bool(event.tool_results),
        "agent": event.agent is not None,
        "input": event.input is not UNSET,
    }
    words: Attributes = {"forkpoint.effects": event.effects, "forkpoint.pending": event.pending}
    patched = tuple(name for name, is_set in parts.items() if is_set)
    return words | ({"forkpoint.patched": patched} if patched else {})


def noted(event: object, *, content: bool) -> tuple[str, Attributes] | None:
    """How an event that takes no time is told; ``None`` for one that is not. Reasons and actors are content."""
    match event:
        case ApprovalDecided():
            words: Attributes = {"forkpoint.effect": event.effect, "forkpoint.decision": event.decision}
            return "forkpoint.approval", words | said(content, reason=event.reason, actor=event.actor)
        case RunPaused():
            limit: Attributes = {"forkpoint.limit": event.limit} if event.limit else {}
            return "forkpoint.paused", limit | said(content, reason=event.reason, actor=event.actor)
        case RunContinued():
            return "forkpoint.continued", said(content, actor=event.actor)
        case RunInterrupted():
            return "forkpoint.interrupted", said(content, reason=event.reason, actor=event.actor)
        case RunStopped():
            return "forkpoint.stopped", said(content, reason=event.reason, actor=event.actor)
        case AgentChanged():
            return "forkpoint.agent_changed", {"forkpoint.differences": event.differences}
        case ContextCompacted():
            return "forkpoint.compacted", {"forkpoint.effect": event.effect, "forkpoint.replaced": event.replaced}
        case WorkspaceRewound():
            return "forkpoint.rewound", {"forkpoint.rewound_to": event.to, "forkpoint.tree": event.tree}
        case SnapshotTaken() if event.failed is not None:
            return "forkpoint.snapshot_failed", said(content, reason=event.failed)
        case _:
            return None


def said(content: bool, **words: str | None) -> Attributes:
    """What somebody said, where content is told."""
    return {f"forkpoint.{name}": word for name, word in words.items() if word} if content else {}
