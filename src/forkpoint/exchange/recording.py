"""A recorded conversation as the events of a run: the same commands, decided in the same place, as if it had been live.

1. Every event comes from ``decide``, so that an imported run is as lawful as any other.
2. What the file does not know is not made up: a call without an answer is unknown; times, usage and cost are absent.
3. A turn that the file breaks off is interrupted; a response that nothing asked for is preceded by a note that says so.
4. A run whose next step would be due is paused, so that nothing goes on with a recording by itself.
"""

from forkpoint.answers import NOTE
from forkpoint.commands import Advance, AnyCommand, CallPlan, Interrupt, Pause, Plan, Resolve, Send, Settle, Start
from forkpoint.decide import decide, start
from forkpoint.definition import AgentRecord
from forkpoint.effects import ModelCall
from forkpoint.exchange.conversation import Conversation, Response
from forkpoint.messages import Message, Text
from forkpoint.outcomes import Succeeded, Unknown
from forkpoint.runtime.writing import Draft, Writer
from forkpoint.state import RunState

BY = "import"
NO_ANSWER = "the imported file has no answer to this call"
UNASKED = "[note] In the imported file, the model speaks here without being asked."
ENDS = "the imported conversation ends here"


def recorded(
    conversation: Conversation,
    *,
    run: str,
    agent: str,
    writer: Writer,
    at_ms: int,
    labels: dict[str, str],
) -> "Recording":
    """The run that lived through ``conversation``, as one commit that has not been written.

    One commit, so that a run is there whole or not at all. All its events have the time ``at_ms``.
    """
    told = Recording(Draft(run=run, state=None, after=0, digest=bytes(32), at_ms=at_ms), writer)
    definition = AgentRecord(
        name=agent,
        model=conversation.model,
        instructions=conversation.instructions,
        tools=conversation.tools,
    )
    told.begin(Start(agent=definition, labels={**conversation.labels, **labels}, actor=BY))
    last = len(conversation.items) - 1
    for place, item in enumerate(conversation.items):
        if isinstance(item, Response):
            told.response(item, last=place == last)
        else:
            told.do(Interrupt(reason="the imported file has another input here", actor=BY))
            told.do(Send(parts=item.parts, actor=BY))
    if told.state.status == "running":
        told.do(Pause(reason=ENDS, actor=BY))
    return told


class Recording:
    """A run in the making: its draft, and the provider's call ids with their effects."""

    def __init__(self, draft: Draft, writer: Writer) -> None:
        self.draft = draft
        self.calls: list[tuple[str, int]] = []
        self._writer = writer

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        assert self.draft.state is not None
        return self.draft.state

    def begin(self, command: Start) -> None:
        """Record the first events."""
        for event in start(self._writer.from_outside(command)):
            self._writer.add(self.draft, event)

    def do(self, command: AnyCommand) -> None:
        """Decide and record."""
        for event in decide(self.state, self._writer.from_outside(command), self.draft.at_ms):
            self._writer.add(self.draft, event)

    def response(self, said: Response, *, last: bool) -> None:
        """The model is asked and answers, and its calls end as the file says."""
        if not self.state.active:
            self.do(Send(parts=(Text(content=UNASKED, extra=NOTE),), actor=BY))
        self.do(Advance(by=BY))
        asked = next(key for key, one in self.state.effects.items() if isinstance(one.effect, ModelCall))
        self.do(Settle(effect=asked, attempt=1, outcome=Succeeded(message=said.message)))
        if said.message.calls:
            self._calls(said, last=last)

    def _calls(self, said: Response, *, last: bool) -> None:
        self.do(Plan(plans=tuple(CallPlan(tool=part.name) for part in said.message.calls)))
        self.do(Advance(by=BY))
        effects = [slot.effect for slot in self.state.batch]
        self.calls += ((slot.call, slot.effect) for slot in self.state.batch)
        for result in said.results:
            self.do(Settle(effect=effects[result.place], attempt=1, outcome=Succeeded(value=result.value)))
        answered = {result.place for result in said.results}
        for effect in (effect for place, effect in enumerate(effects) if place not in answered):
            self.do(Settle(effect=effect, attempt=1, outcome=Unknown(because="lost", text=NO_ANSWER)))
            if not last:
                self.do(Resolve(effect=effect, verdict="abandoned_unknown", note=NO_ANSWER, actor=BY))


def is_unasked(message: Message) -> bool:
    """Whether the message is the note before a response that nothing had asked for."""
    return message.text == UNASKED and all(part.extra == NOTE for part in message.parts)
