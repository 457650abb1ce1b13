"""Errors about names, addresses and what is written in a journal."""

from forkpoint.errors._base import ForkpointError


class BadRunId(ForkpointError):
    """A run id has a character, a length or a type that is not allowed."""

    code = "run.bad-id"
    kind = "usage"
    says = "{given} cannot name a run; nothing was written"
    why = "A run id has 1 to 128 letters, digits, '.', '_' or '-'; it starts with a letter or digit, ends with no '.'."
    fix = "Choose an id of those characters, or leave it out to have one made."
    given: str


class BadAddress(ForkpointError):
    """What follows the '@' of an address names no kind of moment."""

    code = "fork.bad-address"
    kind = "usage"
    says = "'{given}' names no moment of a run"
    why = "A moment is an event's number, or step:N, turn:N or before:CALL."
    fix = "Write RUN@12, RUN@step:3, RUN@turn:2 or RUN@before:CALL; 'forkpoint show RUN' lists the moments."
    given: str


class EventUnknown(ForkpointError):
    """A journal holds a kind of event that this release does not know."""

    code = "event.unknown"
    kind = "data"
    says = "Event {seq} of run {run} is of the unknown kind '{event}'; nothing was written"
    why = "A newer release wrote it, or the journal was changed by something else. Events before it stay readable."
    fix = "Open the store with the release that wrote it, or read the run up to the event before."
    run: str
    seq: int
    event: str


class EventUnreadable(ForkpointError):
    """An event's bytes are not an event: broken, of another shape, or with fields that are not known."""

    code = "event.unreadable"
    kind = "data"
    says = "Event {seq} of run {run} cannot be read: {detail}; nothing was written"
    why = "A newer release wrote it, or the bytes were damaged. Events before it stay readable."
    fix = "Run 'forkpoint verify' to see what is damaged; read the run up to the event before, or fork it there."
    run: str
    seq: int
    detail: str


class EventAltered(ForkpointError):
    """An event's bytes are not those that its digest covers."""

    code = "event.altered"
    kind = "data"
    says = "Event {seq} of run {run} was altered after it was written; nothing was written"
    why = "Each event's digest covers its bytes and everything before it, and this one's does not fit."
    fix = "Run 'forkpoint verify' for the whole picture, and restore the store from a copy; earlier events are intact."
    run: str
    seq: int


class BlobMissing(ForkpointError):
    """An event refers to a blob that the store does not hold."""

    code = "blob.missing"
    kind = "data"
    says = "The store has no blob {digest}"
    why = "The store was copied without its blobs, or damaged. The event that refers to it is intact."
    fix = "Restore the store from a whole copy; 'forkpoint verify' names the events that lack blobs."
    digest: str


class BlobCorrupt(ForkpointError):
    """A blob's bytes are not those that its name promises."""

    code = "blob.corrupt"
    kind = "data"
    says = "The blob {digest} was altered after it was stored"
    why = "A blob is named by the SHA-256 of its bytes, and these bytes have another."
    fix = "Restore the store from a copy; 'forkpoint verify' names every event that refers to it."
    digest: str


class ValueNotJson(ForkpointError):
    """A value has no JSON form, so it cannot be stored."""

    code = "value.not-json"
    kind = "usage"
    says = "The value at {path} cannot be stored: {detail}"
    why = "Everything that a run keeps is JSON, so that it reads back the same on another day."
    fix = "Use plain data, a dataclass, a pydantic model, or a type that the docs list under 'What can be stored'."
    path: str
    detail: str
