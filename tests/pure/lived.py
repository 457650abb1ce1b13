"""Runs grown without a store: each command is decided, drafted and folded as a runtime would."""

from typing import Any

from msgspec.structs import replace

from forkpoint.commands import Advance, AnyCommand, CallPlan, Plan, Send, Settle, Start
from forkpoint.decide import decide, start
from forkpoint.definition import AgentRecord, ToolRecord
from forkpoint.effects import Recovery
from forkpoint.events import RecordedEvent, RunForked
from forkpoint.messages import CallPart, Message, Text, Usage, assistant
from forkpoint.outcomes import Failed, Outcome, Succeeded
from forkpoint.runtime.writing import Draft, Writer
from forkpoint.state import RunState

TOOLS = tuple(ToolRecord(name=name) for name in ("search", "read", "edit", "test", "mail"))


class Lived:
    """One run, and what was recorded of it."""

    def __init__(self, run: str = "r", *, now_ms: int = 1000) -> None:
        self.run = run
        self.now_ms = now_ms
        self.history: list[RecordedEvent] = []
        self.state: RunState | None = None
        self._digest = bytes(32)

    def start(self, text: str = "go") -> "Lived":
        """Begin with one input."""
        agent = AgentRecord(name="coder", model="test:one", tools=TOOLS)
        return self._add(start(Start(agent=agent, input=(Text(content=text),))))

    def do(self, *commands: AnyCommand) -> "Lived":
        """Decide and record."""
        for command in commands:
            assert self.state is not None
            self._add(decide(self.state, command, self.now_ms))
        return self

    def say(self, text: str) -> "Lived":
        """One more input."""
        return self.do(Send(parts=(Text(content=text),)))

    def respond(self, message: Message, *, usage: Usage | None = None, cost: float | None = None) -> "Lived":
        """The model is asked and answers."""
        self.do(Advance(by="p"))
        self.now_ms += 40
        effect = self._open(-1)
        return self.do(
            Settle(effect=effect, attempt=1, outcome=Succeeded(message=message), usage=usage, cost=cost, ms=40)
        )

    def ask(self, *names: str, recovery: Recovery = Recovery.HOLD, gated: bool = False) -> "Lived":
        """The calls of the last message are requested, and dispatched unless gated."""
        plans = tuple(CallPlan(tool=name, recovery=recovery, gated=gated, digest="d") for name in names)
        return self.do(Plan(plans=plans), Advance(by="p"))

    def end(self, place: int, outcome: Outcome, **more: Any) -> "Lived":
        """The ``place``-th open effect ends."""
        self.now_ms += 10
        return self.do(Settle(effect=self._open(place), attempt=1, outcome=outcome, ms=10, **more))

    def step(self, name: str, result: Any, id: str = "c", text: str = "", **arguments: Any) -> "Lived":
        """A whole step: one call of one tool and its result."""
        self.respond(assistant(text, CallPart(id=id, name=name, arguments=arguments)))
        outcome = result if isinstance(result, Failed) else Succeeded(value=result)
        return self.ask(name).end(0, outcome)

    def fork(self, run: str, forked: RunForked | None = None, at: int | None = None) -> "Lived":
        """A child that shares the past up to ``at``."""
        seq = len(self.history) if at is None else at
        child = Lived(run, now_ms=self.now_ms)
        child.history = self.history[:seq]
        child.state = None
        writer = Writer()
        for recorded in child.history:
            draft = Draft(run=recorded.run, state=child.state, after=recorded.seq - 1, digest=child._digest, at_ms=0)
            writer.add(draft, recorded.event)
            child.state, child._digest = draft.state, recorded.digest
        base = forked or RunForked(parent=self.run, at=seq, parent_head=len(self.history))
        return child._add((replace(base, parent=self.run, at=seq, parent_head=len(self.history)),))

    def _open(self, place: int) -> int:
        assert self.state is not None
        waiting = [key for key, one in self.state.effects.items() if one.phase == "dispatched"]
        return waiting[place]

    def _add(self, events: Any) -> "Lived":
        draft = Draft(run=self.run, state=self.state, after=len(self.history), digest=self._digest, at_ms=self.now_ms)
        for event in events:
            Writer().add(draft, event)
        self.history += draft.recorded
        self.state, self._digest = draft.state, draft.digest
        return self
