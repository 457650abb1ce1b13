"""The seams: what the runtime asks of a store, a model, a clock. Protocols and plain data only.

A store keeps bytes and never reads them: a commit's body is opaque to it, and what it needs to find
things again (numbers of kinds, steps, turns, call ids, the run's row) stands beside the body as plain data.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from forkpoint.definition import ToolRecord
from forkpoint.messages import Message, Usage

Status: TypeAlias = Literal["running", "waiting", "paused", "idle", "failed", "stopped"]


MARK_BYTES = 4
"""How much of an event's digest is kept to tell which event of a commit was altered; the commit's last is whole."""


class Commit(Struct, frozen=True, kw_only=True, gc=False):
    """Events ``first`` to ``last`` of one run, written together.

    ``kinds`` has one byte an event: its place in ``events.KINDS``. ``marks`` has, for every event but the
    last, the first ``MARK_BYTES`` of its digest, then the whole digest (32 bytes) of the last. ``body`` is the
    events' JSON lines joined by a line feed, after the payload codec. ``step`` and ``turn`` are the run's
    counters after the last event.
    """

    first: int
    at_ms: int
    kinds: bytes
    marks: bytes
    body: bytes
    step: int
    turn: int

    @property
    def last(self) -> int:
        """The ``seq`` of its last event."""
        return self.first + len(self.kinds) - 1

    @property
    def digest(self) -> bytes:
        """The digest of its last event, 32 bytes."""
        return self.marks[-32:]


class RunSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a list of runs shows of one. Derived from the run's state, never the truth."""

    status: Status
    agent: str
    turn: int = 0
    step: int = 0
    title: str = ""
    labels: Mapping[str, str] = {}
    waits: int = 0
    due: bool = False
    tokens: int = 0
    cost: float = 0.0
    cost_unknown: int = 0
    output: str = ""
    error: str = ""


class RunRow(Struct, frozen=True, kw_only=True):
    """One run as its store lists it.

    ``head`` is its last ``seq`` and ``digest`` that event's. A child has ``parent`` and ``at``; its own
    events are ``at + 1`` and on. ``owner`` holds the lease until ``lease_until_ms`` under ``epoch``;
    ``owner_alive`` is ``None`` where life cannot be seen from here. ``deleted`` marks a run that is kept
    only because forks share its past.
    """

    run: str
    head: int
    digest: bytes
    started_at_ms: int
    updated_at_ms: int
    summary: RunSummary
    parent: str | None = None
    at: int = 0
    epoch: int = 0
    owner: str | None = None
    lease_until_ms: int = 0
    owner_alive: bool | None = None
    deleted: bool = False


class Lease(Struct, frozen=True, kw_only=True):
    """The right to perform ``run`` until ``until_ms``. ``epoch`` only grows; an older one is refused."""

    run: str
    owner: str
    epoch: int
    until_ms: int


class Append(Struct, frozen=True, kw_only=True):
    """One all-or-nothing addition to a run's journal.

    ``after`` and ``before`` are the head the writer knows: its ``seq`` and digest. With ``after`` at the
    run's birth (0, or ``at`` for a child) and ``born`` set, the run is created. ``lease`` is the writer's,
    and is renewed to its ``until_ms``; ``leased`` says that these events may only be written under one.
    ``blobs`` are by digest, after the payload codec. ``calls`` are (provider call id, effect id).
    ``checkpoint`` caches the state after the last event.
    """

    run: str
    after: int
    before: bytes
    commit: Commit
    summary: RunSummary
    blobs: Mapping[str, bytes] = {}
    refs: Sequence[str] = ()
    calls: Sequence[tuple[str, int]] = ()
    checkpoint: bytes | None = None
    lease: Lease | None = None
    leased: bool = False
    born: bool = False
    parent: str | None = None


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs to list. What is left out does not restrict. ``labels`` must all be equal to those that the
    run was born with."""

    status: Status | None = None
    agent: str | None = None
    parent: str | None = None
    prefix: str | None = None
    labels: Mapping[str, str] = {}
    due: bool | None = None


class Page(Struct, frozen=True):
    """A stretch of a list, newest run first, and the cursor of the next one if there is more."""

    rows: tuple[RunRow, ...]
    next: int | None = None


class StoredCheckpoint(Struct, frozen=True, kw_only=True):
    """A cached state: after which event, bound to which digest, and its bytes."""

    seq: int
    digest: bytes
    body: bytes


class Journal(Protocol):
    """The append-only store of events. Reads give a run's own events; a child's past is its parent's.

    Every method but those of the lease may be called by any process at any time.
    """

    async def append(self, append: Append) -> None:
        """Write all of it, durably, or nothing. Returning means that it will be there after a crash.

        Raises ``journal.conflict`` if the head is not ``after`` with digest ``before`` (or a parent's does
        not reach its fork point), ``run.not-found``, ``run.exists`` if a run to be born is there,
        ``lease.lost`` if ``lease`` is not the current one (told before a moved head), ``lease.required`` if
        events that need one come without, ``blob.missing``, ``journal.malformed`` and the ``store.*`` errors.
        A lease past its time counts until it is taken over: what was performed under it did happen.
        """
        ...

    async def row(self, run: str) -> RunRow | None:
        """The run's row, also of one that is deleted but shared; ``None`` if there is none."""
        ...

    async def rows(self, which: RunFilter, *, after: int | None = None, limit: int = 50) -> Page:
        """A page of runs, newest first, without those deleted. Reads no event."""
        ...

    async def children(self, run: str) -> tuple[RunRow, ...]:
        """The forks of ``run``, oldest first, also those that are deleted but shared."""
        ...

    async def commits(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        """The run's own commits that hold an event over ``after`` and up to ``upto``, in order, whole."""
        ...

    async def outlines(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        """The same with empty bodies, without reading them."""
        ...

    async def commit_reaching(self, run: str, *, step: int | None = None, turn: int | None = None) -> Commit | None:
        """The run's own first commit after which ``step`` (or ``turn``) is at least that, by binary search."""
        ...

    async def effects_of_call(self, run: str, call: str) -> tuple[int, ...]:
        """The effects, in order, by which the run's own events asked for the provider's call id ``call``."""
        ...

    async def checkpoint(self, run: str, *, upto: int) -> StoredCheckpoint | None:
        """The newest of the run's own checkpoints at or before ``upto``."""
        ...

    async def blob(self, digest: str) -> bytes:
        """The stored bytes of a blob, before the payload codec is undone. Raises ``blob.missing``."""
        ...

    async def take_lease(self, run: str, *, owner: str, now_ms: int, until_ms: int) -> Lease:
        """The lease, under a new epoch, if nobody else holds it: it is free, its owner is known to be
        dead, or it has expired. Raises ``run.busy`` naming the owner, ``run.not-found``, or
        ``lease.owner-taken`` if another open store performs under the name ``owner``."""
        ...

    async def renew_lease(self, lease: Lease) -> None:
        """Hold the lease until its ``until_ms``. Raises ``lease.lost``."""
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Give the lease back; nothing happens if it is lost already."""
        ...

    async def version(self) -> int:
        """A number that changes when any process has written; cheap enough to ask often."""
        ...

    async def delete(self, run: str) -> None:
        """Remove the run's commits after the one that holds its last fork point, or all of it and its row if
        it has no forks; what was kept of deleted parents goes with the last fork that shares it.

        Raises ``run.not-found``. Deleting what is deleted but shared changes nothing.
        """
        ...

    async def collect(self) -> int:
        """Remove blobs and checkpoints that nothing refers to, and give the space back. Returns bytes freed."""
        ...

    async def close(self) -> None:
        """Let go of everything, with every lease this process holds through it."""
        ...


class Clock(Protocol):
    """Time, as one thing that can be replaced."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def call_later(self, seconds: float, then: Callable[[], None]) -> Callable[[], None]:
        """Call ``then`` on the event loop after ``seconds``; calling what is returned calls that off."""
        ...


class ModelRequest(Struct, frozen=True, kw_only=True):
    """Exactly what a model is shown. ``messages`` is a sequence that must not be changed."""

    model: str
    instructions: str
    messages: Sequence[Message]
    tools: tuple[ToolRecord, ...] = ()
    settings: Mapping[str, Any] = {}


class ModelResponse(Struct, frozen=True, kw_only=True):
    """A model's answer. ``cost`` is in US dollars, ``None`` where it is not known.

    ``rest`` is what else the provider said, as JSON, for who has to make the provider's own answer of it again.
    """

    message: Message
    usage: Usage = Usage()
    cost: float | None = None
    rest: Any = None


class ModelProgress(Struct, frozen=True, kw_only=True):
    """A piece of an answer that is still being written."""

    text: str = ""
    reasoning: str = ""


class Model(Protocol):
    """Something that answers. ``name`` is ``provider:model``.

    One that keeps connections may have ``async def close(self)``. A runtime that asked it calls that as it closes;
    the model may be asked again after, by another one.
    """

    @property
    def name(self) -> str:
        """The name that a run records."""
        ...

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        """Answer ``request``. Raising ``ModelUnavailable`` asks for another attempt; any other error is final."""
        ...


class ModelUnavailable(Exception):
    """The provider could not answer now (busy, cut off, timed out); asking again may help.

    ``retry_after_s`` is what the provider asked for, if it did.
    """

    def __init__(self, text: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
