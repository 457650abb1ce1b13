"""Events on their way into a journal: masked, large values set aside, encoded, digested.

What is folded afterwards is the event as stored, so that a run sees the same on the first day and the second.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from forkpoint._canon import content_digest
from forkpoint.aside import refs, set_aside
from forkpoint.codec import LARGE_BYTES, encode_event, event_digest
from forkpoint.effects import ToolCall
from forkpoint.errors import BlobCorrupt
from forkpoint.events import KINDS, EffectRequested, Event, RecordedEvent
from forkpoint.folding import evolve
from forkpoint.ports import MARK_BYTES, Commit

if TYPE_CHECKING:
    from forkpoint.secrets import Secrets
from forkpoint.state import RunState

S = TypeVar("S", bound=Struct)

_encode = msgspec.json.Encoder().encode

_NUMBER = {kind: number for number, kind in enumerate(KINDS)}


class PayloadCodec(Protocol):
    """Changes bytes on their way to the store and back: encryption, compression."""

    def encode(self, data: bytes) -> bytes:
        """The bytes to store."""
        ...

    def decode(self, data: bytes) -> bytes:
        """The bytes that were given to ``encode``."""
        ...


class Draft:
    """A commit in the making: events are added one by one, each folded as it will be stored.

    A ``careful`` one masks every event. One that is not is quicker to make, and must be made again with care if
    the writer finds afterwards that a secret may stand in it.
    """

    def __init__(
        self,
        *,
        run: str,
        state: RunState | None,
        after: int,
        digest: bytes,
        at_ms: int,
        careful: bool = True,
    ) -> None:
        self.run = run
        self.state = state
        self.after = after
        self.before = digest
        self.digest = digest
        self.at_ms = at_ms
        self.recorded: list[RecordedEvent] = []
        self.lines: list[bytes] = []
        self.blobs: dict[str, bytes] = {}
        self.refs: list[str] = []
        self.calls: list[tuple[str, int]] = []
        self.careful = careful
        self.suspect = False
        self._body: bytes | None = None

    def onwards(self, *, careful: bool) -> "Draft":
        """A draft that holds all of this one and goes on from it; what is added there is not added here."""
        on = Draft(
            run=self.run, state=self.state, after=self.after, digest=self.before, at_ms=self.at_ms, careful=careful
        )
        on.digest, on.suspect = self.digest, self.suspect
        on.recorded, on.lines = [*self.recorded], [*self.lines]
        on.blobs, on.refs, on.calls = {**self.blobs}, [*self.refs], [*self.calls]
        return on

    def body(self) -> bytes:
        """The lines of its events."""
        if self._body is None:
            self._body = b"\n".join(self.lines)
        return self._body

    def commit(self, codec: PayloadCodec | None) -> Commit:
        """The draft as a commit, its body after the payload codec."""
        assert self.state is not None
        body = self.body()
        marks = [recorded.digest[:MARK_BYTES] for recorded in self.recorded]
        marks[-1] = self.digest
        return Commit(
            first=self.after + 1,
            at_ms=self.at_ms,
            kinds=bytes([_NUMBER[type(recorded.event)] for recorded in self.recorded]),
            marks=b"".join(marks),
            body=codec.encode(body) if codec else body,
            step=self.state.step,
            turn=self.state.turn,
        )


class Writer:
    """What every event passes on its way into the journal."""

    def __init__(
        self,
        *,
        secrets: "Secrets | None" = None,
        redact: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        codec: PayloadCodec | None = None,
    ) -> None:
        self._secrets = secrets
        self._redact = redact
        self.codec = codec

    def from_outside(self, word: S) -> S:
        """``word`` as it may be written, where it comes from a model, a tool or a person: no value of a secret is
        left, and a text that only looks like a secret's name is told apart from one."""
        if self._secrets is None or not self._secrets.occurs_in(_encode(word)):
            return word
        return msgspec.convert(self._secrets.mask(msgspec.to_builtins(word)), type(word))

    def needs_care(self, draft: "Draft") -> bool:
        """Whether a secret may stand in what ``draft`` would write, so that it must be drafted again with care."""
        return not draft.careful and (draft.suspect or self._occurs_in(draft.body()))

    def _occurs_in(self, data: bytes) -> bool:
        return self._secrets is not None and self._secrets.occurs_in(data)

    def _masked(self, event: Event) -> Event:
        """``event``, built from words already masked, once more without secrets and as the redact hook leaves it."""
        plain = msgspec.to_builtins(event)
        if self._redact is not None:
            plain = self._redact(plain)
        if self._secrets:
            plain = self._secrets.mask_written(plain)
        return msgspec.convert(plain, type(event))

    def add(self, draft: Draft, event: Event) -> RunState:
        """Put ``event`` into ``draft``, as it will be stored, and fold it: the state after it."""
        if draft.careful or self._redact is not None:
            event = self._masked(event)
        line = encode_event(event)
        if len(line) > LARGE_BYTES:
            if not draft.careful and self._occurs_in(line):
                draft.suspect = True
            event, blobs = set_aside(event, LARGE_BYTES)
            line = encode_event(event)
            draft.blobs.update({name: self._stored(data) for name, data in blobs.items()})
            draft.refs += refs(event)
        run, at_ms = draft.run, draft.at_ms
        seq = draft.after + len(draft.recorded) + 1
        draft.digest = event_digest(draft.digest, run, seq, at_ms, line)
        recorded = RecordedEvent(run, seq, at_ms, draft.digest, event)
        draft.recorded.append(recorded)
        draft.lines.append(line)
        draft.state = state = evolve(draft.state, recorded)
        if isinstance(event, EffectRequested) and isinstance(event.effect, ToolCall):
            draft.calls.append((state.effects[seq].call, seq))
        return state

    def _stored(self, data: bytes) -> bytes:
        return self.codec.encode(data) if self.codec else data

    def loaded(self, digest: str, stored: bytes) -> bytes:
        """A blob as it was before the payload codec. Raises ``blob.corrupt`` if its bytes were altered."""
        try:
            data = self.codec.decode(stored) if self.codec else stored
        except Exception as error:  # whatever a codec raises, these bytes are not what it gave
            raise BlobCorrupt(digest=digest) from error
        if content_digest(data) != digest:
            raise BlobCorrupt(digest=digest)
        return data
