"""The messages a model is shown, and the rule that they always keep.

The rule: each assistant message's calls are answered once each, in call order, before anything else
follows. Whatever happened to a run, ``compile_messages`` keeps it: a call without an answer gets an explicit
one that says what is known.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from forkpoint import answers
from forkpoint._canon import link, short
from forkpoint.aside import set_aside
from forkpoint.codec import LARGE_BYTES
from forkpoint.errors import TranscriptInvalid
from forkpoint.messages import CallPart, Message, ResponsePart
from forkpoint.pieces import Entry, Open, Slot, Transcript

if TYPE_CHECKING:
    from forkpoint.state import RunState

encode_message = msgspec.json.Encoder().encode
"""A message as it is digested: the JSON in which it is stored."""


def compile_messages(state: "RunState") -> tuple[Message, ...]:
    """Every message of the run as a model would be shown them now; always a valid transcript."""
    return (*(entry.message for entry in state.transcript.entries), *_pending(state))


def known_messages(state: "RunState") -> tuple[Message, ...]:
    """The same without placeholders: calls that are still open have no answer yet. What a patch edits."""
    return tuple(entry.message for entry in known_entries(state))


def known_entries(state: "RunState") -> list[Entry]:
    """Every message that is known, with its address; 0 as ``seq`` where no event holds it in full."""
    entries = list(state.transcript.entries)
    for slot in state.batch:
        opened = state.effects.get(slot.effect)
        if slot.answer is not None:
            entries.append(Entry(0, 0, 0, slot.answer))
        elif opened is not None and opened.answer is not None:
            entries.append(Entry(opened.answer_seq, 0, slot.effect, opened.answer))
    entries += [Entry(0, 0, 0, message) for message in state.notes]
    return entries + list(state.inputs)


def pending_calls(state: "RunState") -> tuple[CallPart, ...]:
    """The calls of the model's last message that have no answer yet, in order."""
    if not state.batch:
        return ()
    calls = zip(state.transcript.entries[-1].message.calls, state.batch, strict=True)
    return tuple(part for part, slot in calls if not _answered(slot, state.effects.get(slot.effect)))


def _answered(slot: Slot, opened: Open | None) -> bool:
    return slot.effect < 0 or slot.answer is not None or (opened is not None and opened.answer is not None)


def loose(state: "RunState") -> frozenset[int]:
    """Which of ``known_messages`` no event holds in full, by index: answers and notes in words of this release."""
    return frozenset(index for index, entry in enumerate(known_entries(state)) if not entry.seq)


def additions(state: "RunState") -> tuple[int | Message, ...]:
    """What the next request adds to the transcript so far: events that hold a message, or messages in full."""
    added: list[int | Message] = []
    for slot in state.batch:
        opened = state.effects.get(slot.effect)
        if opened is not None and opened.answer is not None and opened.answer_seq:
            added.append(opened.answer_seq)
        else:
            added.append(_answer(slot, opened))
    added += state.notes
    added += (entry.seq for entry in state.inputs)
    return tuple(added)


def _pending(state: "RunState") -> Iterable[Message]:
    for slot in state.batch:
        yield _answer(slot, state.effects.get(slot.effect))
    yield from state.notes
    for entry in state.inputs:
        yield entry.message


def _answer(slot: Slot, opened: Open | None) -> Message:
    if slot.answer is not None:
        return slot.answer
    if opened is not None and opened.answer is not None:
        return opened.answer
    return answers.placeholder(slot.call, _known(slot, opened))


def _known(slot: Slot, opened: Open | None) -> str:
    """What is known of a call that has no answer."""
    if slot.effect < 0:
        return answers.NOT_RUN
    if opened is None or opened.phase == "requested":
        return answers.NOT_YET
    return answers.LEFT_OPEN if opened.phase == "held" else answers.NOT_ANSWERED


def request_digest(state: "RunState", added: Iterable[int | Message]) -> str:
    """The name of a request: over the agent's definition and every message shown; 128 bits in 22 characters.

    Each message's digest covers the one before, so that a step's cost does not grow with the steps.
    """
    chain = chain_of(state.transcript)
    for message in added_messages(state, added):
        chain = link(chain, stored_bytes(message))
    return short(link(chain, state.agent_digest)[:16])


def digest_of(base: Transcript, added: Iterable[Message], definition: bytes) -> str:
    """The same for a function's request: what it keeps of a conversation, what it adds, and under which definition."""
    chain = chain_of(base)
    for message in added:
        chain = link(chain, stored_bytes(message))
    return short(link(chain, definition)[:16])


def stored_bytes(message: Message) -> bytes:
    """A message's JSON once it is written: what is large in it is a blob by then, and is digested as that."""
    data = encode_message(message)
    return data if len(data) <= LARGE_BYTES else encode_message(set_aside(message, LARGE_BYTES)[0])


def added_messages(state: "RunState", added: Iterable[int | Message]) -> list[Message]:
    """The messages that a request's additions name, before they have found their place."""
    known = {opened.answer_seq: opened.answer for opened in state.effects.values() if opened.answer is not None}
    for entry in state.inputs:
        known[entry.seq] = entry.message
    return [known[item] if isinstance(item, int) else item for item in added]


def chain_of(transcript: Transcript) -> bytes:
    """The chain of message digests over a transcript, 32 bytes; what was computed before is remembered."""
    entries, memo = transcript.entries, transcript.entries.memo
    size, place = len(entries), entries.remembered()
    chain = memo[place] if place else transcript.cold_chain
    for entry in entries[place:size]:
        chain = link(chain, encode_message(entry.message))
    memo[size] = chain
    return chain


def validate_transcript(messages: Sequence[Message]) -> None:
    """Check that any provider would take ``messages``. Raises ``transcript.invalid`` with index and reason."""
    problem = first_problem(messages)
    if problem is not None:
        raise TranscriptInvalid(index=problem[0], detail=problem[1])


def first_problem(messages: Sequence[Message]) -> tuple[int, str] | None:
    """Where ``messages`` first break the rule, and how; ``None`` if they keep it."""
    awaited: list[str] = []
    for index, message in enumerate(messages):
        responses = [part for part in message.parts if isinstance(part, ResponsePart)]
        if message.role == "tool":
            for part in responses:
                if not awaited:
                    return index, f"it answers the call {part.id}, which no call before it awaits"
                if part.id != awaited[0]:
                    return index, f"it answers the call {part.id} where {awaited[0]} is next"
                awaited.pop(0)
            if not responses:
                return index, "a tool's message answers no call"
            continue
        if awaited:
            return index, f"the call {awaited[0]} has no answer before it"
        if responses:
            return index, f"a message of the role {message.role} answers a call"
        calls = [part.id for part in message.parts if isinstance(part, CallPart)]
        if calls and message.role != "assistant":
            return index, f"a message of the role {message.role} makes a call"
        awaited = calls
    return (len(messages), f"the call {awaited[0]} has no answer at the end") if awaited else None
