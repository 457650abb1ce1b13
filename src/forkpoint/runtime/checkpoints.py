"""Checkpoints: folded states, cached. Safe to delete; ignored where they do not match the journal.

A checkpoint holds where the transcript's messages lie, not the messages, and only those that are new since the
checkpoint it builds on; so that all of a run's checkpoints together grow with the run and no faster.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forkpoint._vector import Vector
from forkpoint.answers import told
from forkpoint.effects import ModelCall
from forkpoint.events import (
    ContextCompacted,
    EffectRequested,
    EffectSettled,
    InputReceived,
    Put,
    RecordedEvent,
    RunForked,
)
from forkpoint.inherit import PUT_BASE, patched_answer
from forkpoint.messages import Message
from forkpoint.outcomes import Succeeded
from forkpoint.pieces import Entry, Transcript
from forkpoint.state import RunState
from forkpoint.transcript import chain_of

EVERY = 512
"""A checkpoint is taken once at least so many events came since the one before."""

_VERSION = 1

Address = tuple[int, int, int]


class Frozen(Struct, frozen=True, kw_only=True):
    """A checkpoint as data. ``base`` is the checkpoint (run, seq) whose messages come first, ``added``
    where the rest lie: (seq, index, effect)."""

    run: str
    seq: int
    size: int
    base: tuple[str, int] | None
    added: list[Address]
    state: bytes

    @classmethod
    def read(cls, body: bytes, *, run: str, seq: int, digest: bytes) -> "Frozen | None":
        """The checkpoint in ``body``; ``None`` if it is of another version, damaged, or of another event."""
        mark, data = body[:32], body[32:]
        if mark != _mark(run, seq, digest, data):
            return None
        try:
            found = msgspec.json.decode(data, type=_Stored)
        except msgspec.DecodeError:
            return None
        if found.version != _VERSION:
            return None
        added = [item if isinstance(item, tuple) else (item, 0, 0) for item in found.added]
        return cls(run=run, seq=seq, size=found.size, base=found.base, added=added, state=bytes(found.state))


class _Stored(Struct, frozen=True, kw_only=True):
    version: int
    size: int
    base: tuple[str, int] | None
    added: list[int | Address]
    state: msgspec.Raw


def freezable(state: RunState) -> bool:
    """Whether nothing of the state waits to be told to a model, so that events hold all its messages.

    A function's run has conversations side by side, and is read whole whenever its function is called: it has none.
    """
    if state.function is not None:
        return False
    settled = not state.batch and not state.notes and not state.inputs and not state.queue
    return settled and all(isinstance(opened.effect, ModelCall) for opened in state.effects.values())


class Anchor(Struct, frozen=True):
    """The last checkpoint of a run in this process: what the next one may build on."""

    run: str
    seq: int
    entries: Vector[Entry]

    def under(self, transcript: Transcript) -> bool:
        """Whether ``transcript`` only grew since."""
        return not transcript.cold and self.entries.shares(transcript.entries)


def freeze(state: RunState, digest: bytes, anchor: Anchor | None) -> bytes:
    """The checkpoint of ``state`` after its last event, whose digest is ``digest``."""
    transcript = state.transcript
    on = anchor if anchor is not None and anchor.under(transcript) else None
    entries = transcript.entries[len(on.entries) :] if on else list(transcript.entries)
    cold = replace(transcript, entries=Vector(), cold=len(transcript), cold_chain=chain_of(transcript))
    stored = _Stored(
        version=_VERSION,
        size=len(transcript),
        base=(on.run, on.seq) if on else None,
        added=[_address(entry) for entry in entries],
        state=msgspec.Raw(msgspec.json.encode(replace(state, transcript=cold), enc_hook=_no_entries)),
    )
    data = msgspec.json.encode(stored)
    return _mark(state.run, state.seq, digest, data) + data


def unfreeze(frozen: Frozen) -> RunState:
    """The state of a checkpoint, its messages still in the journal."""
    return _states.decode(frozen.state)


def needs_all(state: RunState, recorded: RecordedEvent) -> bool:
    """Whether ``recorded`` can be folded only with every message in memory: edits of a fork speak of all of them."""
    event = recorded.event
    return bool(state.transcript.cold) and isinstance(event, RunForked) and isinstance(event.edits, tuple)


def thawed(state: RunState, addresses: list[Address], events: Mapping[int, RecordedEvent]) -> RunState:
    """``state`` with its cold messages, which lie at ``addresses`` of ``events``."""
    old = state.transcript
    patched = {entry.effect: entry for entry in old.patched}
    entries = [old.summary] if old.summary is not None else []
    for seq, index, effect in addresses[old.cut :]:
        event = events[seq].event
        answers = event.effect if isinstance(event, EffectSettled) and event.call is not None else effect
        entries.append(patched.get(answers) or Entry(seq, index, answers, message_at(event, index)))
    vector = Vector(entries)
    if not patched and not old.cut:
        vector.memo[len(entries)] = old.cold_chain
    for entry in old.entries:
        vector = vector.append(entry)
    return replace(state, transcript=Transcript(vector))


def message_at(event: Any, index: int) -> Message:
    """The message number ``index`` that ``event`` holds: 0 is its own, others were written in full."""
    match event:
        case InputReceived():
            return Message(role="user", parts=event.parts)
        case EffectSettled():
            assert isinstance(event.outcome, Succeeded)
            if event.outcome.message is not None:
                return event.outcome.message
            return told(event.call or "", event.outcome)
        case EffectRequested():
            assert isinstance(event.effect, ModelCall)
            return [item for item in event.effect.add if isinstance(item, Message)][index - 1]
        case ContextCompacted():
            return event.summary
        case RunForked():
            return _of_fork(event, index)
        case _:
            raise AssertionError(f"{type(event).__name__} holds no message")


def _of_fork(event: RunForked, index: int) -> Message:
    if index == 0:
        assert isinstance(event.input, tuple)
        return Message(role="user", parts=event.input)
    if index <= PUT_BASE:
        return patched_answer(event.tool_results[index - 1])
    assert isinstance(event.edits, tuple)
    return [edit.message for edit in event.edits if isinstance(edit, Put)][index - PUT_BASE - 1]


def _address(entry: Entry) -> int | Address:
    return (entry.seq, entry.index, entry.effect) if entry.index else entry.seq


def _mark(run: str, seq: int, digest: bytes, data: bytes) -> bytes:
    return hashlib.sha256(digest + f"{run}\n{seq}\n".encode() + data).digest()


def _no_entries(value: Any) -> Any:
    if isinstance(value, Vector):
        return []
    raise NotImplementedError(type(value))


def _as_vector(kind: type, value: Any) -> Any:
    return Vector() if value == [] else value


_states = msgspec.json.Decoder(RunState, dec_hook=_as_vector)
