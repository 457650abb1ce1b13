"""Exactly what a model is shown: rebuilt from the record, with large values and secrets back in place."""

from collections.abc import Iterable, Sequence

import msgspec

from forkpoint._vector import Vector
from forkpoint.aside import stand_aside
from forkpoint.definition import AgentRecord
from forkpoint.effects import ModelCall
from forkpoint.errors import ModelAnswersCalls
from forkpoint.messages import CallPart, Message, ResponsePart, Text
from forkpoint.pieces import Entry
from forkpoint.ports import ModelRequest, ModelResponse
from forkpoint.runtime.edges import Equipment
from forkpoint.runtime.reading import Reader
from forkpoint.state import RunState
from forkpoint.transcript import added_messages
from forkpoint.values import to_json


class Requests:
    """Builds one run's requests, each from the one before as long as the transcript only grows."""

    def __init__(self, equipment: Equipment | None, reader: Reader) -> None:
        self._equipment = equipment
        self._reader = reader
        self._from: Vector[Entry] = Vector()
        self._ready: list[Message] = []
        self._agent: tuple[bytes, AgentRecord] | None = None

    async def request(self, state: RunState, effect: ModelCall) -> ModelRequest:
        """What the model is shown for ``effect``, which the run at ``state`` has requested."""
        agent = await self._definition(state)
        messages: Sequence[Message] = await self._messages(state.transcript.entries)
        if effect.compaction:
            extra = await self._edge(added_messages(state, effect.add))
            messages = [*messages, *extra]
        return ModelRequest(
            model=agent.model,
            instructions=agent.instructions,
            messages=messages,
            tools=agent.tools,
            settings=agent.settings or {},
        )

    async def _messages(self, entries: Vector[Entry]) -> Vector[Message]:
        if not (self._from.shares(entries) and len(self._ready) == len(self._from)):
            self._ready = []
        new = entries[len(self._ready) :]
        self._ready += await self._edge(entry.message for entry in new)
        self._from = entries
        return Vector(self._ready, len(entries))

    async def _edge(self, messages: Iterable[Message]) -> list[Message]:
        ready = []
        for message in messages:
            whole = await self._reader.whole(message) if stand_aside(message.parts) else message
            ready.append(self._revealed(whole))
        return ready

    def _revealed(self, message: Message) -> Message:
        return message if self._equipment is None else self._equipment.shown(message)

    async def _definition(self, state: RunState) -> AgentRecord:
        if self._agent is None or self._agent[0] != state.agent_digest:
            agent = await self._reader.whole(state.agent)
            if self._equipment is not None:
                agent = self._equipment.shown(agent)
            self._agent = (state.agent_digest, agent)
        return self._agent[1]


def normal_response(response: ModelResponse) -> Message:
    """A model's message as it can be stored: plain JSON arguments, a call id for each call, texts joined.

    Raises ``value.not-json`` where arguments have no JSON form, and ``model.answers-calls``.
    """
    parts: list[msgspec.Struct] = []
    for part in response.message.parts:
        last = parts[-1] if parts else None
        if isinstance(part, Text) and isinstance(last, Text) and part.extra is None and last.extra is None:
            parts[-1] = Text(content=last.content + part.content)
        elif isinstance(part, ResponsePart):
            raise ModelAnswersCalls(call=part.id)
        elif isinstance(part, CallPart):
            call = part.id or f"call-{len(parts)}"
            arguments = to_json(part.arguments)
            same = call == part.id and arguments is part.arguments
            parts.append(part if same else msgspec.structs.replace(part, id=call, arguments=arguments))
        else:
            parts.append(part)
    message = response.message
    reason = message.finish_reason or ("tool_call" if message.calls else "stop")
    return Message(role="assistant", parts=tuple(parts), finish_reason=reason)  # type: ignore[arg-type]
