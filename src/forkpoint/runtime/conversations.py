"""What a function's models were shown so far, so that a request is told as what it adds to a conversation on record.

A request is compared with what this process asked before, message by message: most of it is the very same objects,
and only what is new is encoded and digested.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forkpoint._canon import canonical, link, short, value_digest
from forkpoint._vector import Vector
from forkpoint.aside import set_aside
from forkpoint.codec import LARGE_BYTES
from forkpoint.commands import Ask
from forkpoint.definition import AgentRecord
from forkpoint.effects import ModelCall
from forkpoint.functions import HEADS, asking_message
from forkpoint.messages import Message, ResponsePart
from forkpoint.ports import ModelRequest
from forkpoint.state import RunState, agent_digest
from forkpoint.timetravel.facts import canonical_arguments
from forkpoint.transcript import stored_bytes


class Said(Struct, kw_only=True, eq=False):
    """A request that this process asked, with the digest of every stretch of it from the first message on.

    ``answer`` is the model's message, ``effect`` the call, once they are known. ``base`` is the request before that
    shares its longest beginning, and ``shared`` how long that is.
    """

    messages: list[Message]
    chains: Vector[bytes]
    identity: str
    base: "Said | None" = None
    shared: int = 0
    effect: int = 0
    answer: Message | None = None


class Conversations:
    """The conversations of one function's run, as far as this process has seen them."""

    def __init__(self, state: Callable[[], RunState], mask: Callable[[Any], Any], name: str) -> None:
        self._state = state
        self._mask = mask
        self._name = name
        self._said: list[Said] = []
        self._defined: tuple[tuple[Any, ...], bytes] = ((), b"")
        self._agent: tuple[AgentRecord, bytes] | None = None

    def asked(self, request: ModelRequest) -> Said:
        """A request and its identity: over everything that the code asks with it."""
        messages = list(request.messages)
        best, shared = self._nearest(messages)
        chains: Vector[bytes] = best.chains.first(shared) if best is not None else Vector()
        chain = chains[-1] if chains else bytes(32)
        for message in messages[len(chains) :]:
            chain = link(chain, self._encoded(message))
            chains = chains.append(chain)
        identity = short(link(chain, self._definition(request))[:16])
        return Said(messages=messages, chains=chains, identity=identity, base=best, shared=shared)

    def _encoded(self, message: Message) -> bytes:
        return canonical(self._mask(msgspec.to_builtins(message)))

    def _definition(self, request: ModelRequest) -> bytes:
        defined = (request.model, request.instructions, request.tools, request.settings)
        if self._defined[0] != defined:
            plain = [request.model, request.instructions, msgspec.to_builtins(request.tools), dict(request.settings)]
            self._defined = (defined, link(b"", canonical(self._mask(plain))))
        return self._defined[1]

    def _nearest(self, messages: list[Message]) -> tuple[Said | None, int]:
        """The newest conversation that shares the longest beginning with ``messages``, and how long that is."""
        best, most = None, 0
        for said in reversed(self._said):
            shared = _shared(said.messages, messages)
            if shared > most:
                best, most = said, shared
            if most == len(said.messages):
                break
        return best, most

    @staticmethod
    def changed(request: ModelRequest, overrides: Mapping[str, Any]) -> ModelRequest:
        """The request with what a fork set in place of what the code asks."""
        return replace(request, **overrides) if overrides else request

    def command(self, request: ModelRequest, said: Said, *, agent: str | None, attempts: int) -> Ask:
        """What requests it: told by what it adds to a conversation that is on record."""
        state = self._state()
        since, keep, add = self._told(state, said)
        effect = ModelCall(add=add, digest="", attempts=attempts, identity=said.identity, since=since, keep=keep)
        return Ask(effect=effect, agent=self._new_agent(state, request, agent, attempts))

    def _told(self, state: RunState, said: Said) -> tuple[int | None, int | None, tuple[int | Message, ...]]:
        since, keep, before = None, 0, said.base
        if before is not None and before.effect in state.heads:
            since, keep = before.effect, said.shared
            if keep == len(before.messages) and before.answer is not None and keep < len(said.messages):
                keep += _same(before.answer, said.messages[keep])
            keep = min(keep, len(state.heads[since]))
        rest = said.messages[keep:]
        whole = since is not None and keep == len(state.heads[since])
        return since, None if whole or since is None else keep, tuple(self._reference(state, one) for one in rest)

    @staticmethod
    def _reference(state: RunState, message: Message) -> int | Message:
        """The event that holds ``message``, if it is the answer of a call on record; the message itself if not."""
        if message.role == "tool" and len(message.parts) == 1:
            part = message.parts[0]
            for opened in state.effects.values():
                answers_it = opened.answer_seq and isinstance(part, ResponsePart) and opened.call == part.id
                if answers_it and opened.answer is not None and stored_bytes(message) == stored_bytes(opened.answer):
                    return opened.answer_seq
        return message

    def _new_agent(self, state: RunState, request: ModelRequest, name: str | None, attempts: int) -> AgentRecord | None:
        """The definition that the request is asked under, where it is not the one on record."""
        record = AgentRecord(
            name=name or self._name,
            model=request.model,
            instructions=request.instructions,
            settings=dict(request.settings) or None,
            tools=request.tools,
            attempts=attempts,
        )
        if self._agent is None or self._agent[0] != record:
            masked = msgspec.convert(self._mask(msgspec.to_builtins(record)), AgentRecord)
            self._agent = (record, agent_digest(_as_stored(masked)))
        return None if self._agent[1] == state.agent_digest else record

    def answered(self, said: Said, effect: int, message: Message | None) -> None:
        """What the model answered; later requests may build on it."""
        said.effect, said.answer = effect, message
        goes_on = said.base is not None and said.shared == len(said.base.messages)
        kept = [one for one in self._said if not (goes_on and one is said.base)]
        # What only one request can build on is let go with it.
        said.base = None
        self._said = [*kept[1 - HEADS :], said]

    def place_of(self, tool: str, arguments: Any, call: str) -> tuple[int, int]:
        """The model's message that asked for a call, by its event, and the call's place in it; (0, 0) if none did."""
        state = self._state()
        for head in reversed(tuple(state.heads.values())):
            entry = head.entries[-1] if head.entries else None
            if entry is None or entry.message.role != "assistant":
                continue
            effects = state.effects.values()
            taken = {one.effect.call for one in effects if getattr(one.effect, "message", None) == entry.seq}  # type: ignore[union-attr]
            for place, part in enumerate(entry.message.calls):
                named = part.id == call if call else part.name == tool and _equal(part.arguments, arguments)
                if named and place not in taken:
                    return entry.seq, place
        return 0, 0

    def holds(self, message: int, place: int, arguments: Any) -> bool:
        """Whether the model's message holds these very arguments."""
        said = asking_message(self._state(), message)
        part = said.calls[place] if said is not None else None
        return part is not None and not part.aside and value_digest(part.arguments) == value_digest(arguments)


def _equal(given: Any, arguments: Any) -> bool:
    return canonical_arguments(given) == canonical_arguments(arguments)


def _same(a: Message, b: Message) -> bool:
    return a is b or a == b


def _shared(a: list[Message], b: list[Message]) -> int:
    """How many messages both begin with."""
    least = min(len(a), len(b))
    # Nearly always one goes on from the other, and comparing lists whole looks at no equal object twice.
    if (a if len(a) == least else a[:least]) == (b if len(b) == least else b[:least]):
        return least
    return next(place for place in range(least) if a[place] is not b[place] and a[place] != b[place])


def _as_stored(record: AgentRecord) -> AgentRecord:
    """A definition as its event will hold it."""
    return set_aside(record, LARGE_BYTES)[0] if len(msgspec.json.encode(record)) > LARGE_BYTES else record
