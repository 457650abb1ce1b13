"""Errors of journals, leases and the files that hold them."""

from forkpoint.errors._base import ForkpointError


class JournalConflict(ForkpointError):
    """Another writer appended to the run first; nothing was written."""

    code = "journal.conflict"
    kind = "conflict"
    says = "Run {run} is at event {actual}, not {expected}; nothing was written"
    why = "The journal moved on, or is another one, since this writer last read it."
    fix = "Read the run again and decide again; do not resend the same events."
    run: str
    expected: int
    actual: int


class LeaseLost(ForkpointError):
    """The writer no longer holds the run's lease; nothing was written."""

    code = "lease.lost"
    kind = "conflict"
    says = "Run {run} is no longer performed by {owner} under epoch {epoch}; nothing was written"
    why = "The lease ran out or was taken over, so that somebody else may be performing the run now."
    fix = "Stop performing; open the run again to see what the other performer recorded."
    run: str
    owner: str
    epoch: int


class RunBusy(ForkpointError):
    """Another performer holds the run's lease."""

    code = "run.busy"
    kind = "conflict"
    says = "Run {run} is being performed by {owner}; nothing was written"
    why = "A run has one performer at a time. Reading it, sending, approving, resolving and stopping need none."
    fix = "Wait for it, watch it, or stop that process; a dead performer's run is taken over at once."
    run: str
    owner: str


class RunExists(ForkpointError):
    """A run of that id is there already."""

    code = "run.exists"
    kind = "conflict"
    says = "There is a run {run} already, with another agent or input; nothing was written"
    why = "Starting a run again under its id gives the same run only when its agent and first input are the same."
    fix = "Choose another id, or open the run that is there and send to it."
    run: str


class RunNotFound(ForkpointError):
    """The store has no run of that id."""

    code = "run.not-found"
    kind = "usage"
    says = "There is no run {run} in this store"
    why = "Its id may be misspelt, it may have been deleted, or this is another store than you think."
    fix = "List the runs with 'forkpoint runs'; choose the store with --store or FORKPOINT_STORE."
    run: str


class LeaseRequired(ForkpointError):
    """Events that only a run's performer may record came without its lease."""

    code = "lease.required"
    kind = "conflict"
    says = "Run {run} was given events that need its lease, and no lease; nothing was written"
    why = "What performing gives is only recorded by the one performer, so that nothing is performed twice."
    fix = "Take the run's lease first (resume and recover do), then perform and record."
    run: str


class OwnerTaken(ForkpointError):
    """Another open store performs under the same owner name."""

    code = "lease.owner-taken"
    kind = "usage"
    says = "The owner name {owner} is in use by another open store; nothing was written"
    why = "An owner's life is known by a lock on a file of its name, so each open store needs names of its own."
    fix = "Leave the owner out to have a name made, or choose another."
    owner: str


class JournalMalformed(ForkpointError):
    """An addition to a journal does not fit together."""

    code = "journal.malformed"
    kind = "bug"
    says = "The addition to run {run} does not fit together: {detail}; nothing was written"
    why = "Numbers, kinds and digests of the events must agree. This is a defect of whoever built the addition."
    fix = "Report it with the text above, unless you built the addition yourself."
    run: str
    detail: str


class BadFilter(ForkpointError):
    """A filter for the list of runs holds something that no run can match."""

    code = "run.bad-filter"
    kind = "usage"
    says = "{given} cannot be used to choose runs"
    why = "A filter's names and values are plain text, and its numbers are whole numbers from 0."
    fix = "Give text for agent, parent, prefix and labels; take the cursor from the page before."
    given: str


class StoreTooNew(ForkpointError):
    """The store was written by a newer release."""

    code = "store.too-new"
    kind = "data"
    says = "The store {path} is of version {found}; this release reads up to {known}; nothing was written"
    why = "A newer release of Forkpoint made or changed it, and this one does not know what that means."
    fix = "Install the newer release; the store is untouched."
    path: str
    found: int
    known: int


class StoreForeign(ForkpointError):
    """The file is not a Forkpoint store."""

    code = "store.foreign"
    kind = "usage"
    says = "{path} is not a Forkpoint store: {detail}; nothing was written"
    why = "Only a file that Forkpoint made is opened as a store, so that nothing else is ever overwritten."
    fix = "Give the path of a store, or of a file that does not exist yet."
    path: str
    detail: str


class StoreDamaged(ForkpointError):
    """The store's file is broken."""

    code = "store.damaged"
    kind = "data"
    says = "The store {path} is damaged: {detail}; nothing was written"
    why = "The file was cut, overwritten or copied while it was in use, or the disk returned other bytes."
    fix = "Keep a copy of the file, restore the newest whole copy, and run 'forkpoint verify' on it."
    path: str
    detail: str


class StoreFull(ForkpointError):
    """There is no room to write."""

    code = "store.full"
    kind = "environment"
    says = "The store {path} cannot grow; nothing was written"
    why = "The disk, a quota or a limit on the size of files is reached."
    fix = "Make room, or prune runs that are not needed; then resume. What was recorded before is intact."
    path: str


class StoreReadOnly(ForkpointError):
    """The store can be read, not written."""

    code = "store.read-only"
    kind = "environment"
    says = "The store {path} can only be read; nothing was written"
    why = "It was opened for reading, or the file, its folder or the file system does not allow writing."
    fix = "Open it for writing, or give yourself the right to write the file and its folder."
    path: str


class StoreLocked(ForkpointError):
    """Another process kept the store locked for too long."""

    code = "store.locked"
    kind = "environment"
    says = "The store {path} was locked by another process for over {waited_s} s; nothing was written"
    why = "One process writes at a time, for milliseconds; this one held on, or is stopped while writing."
    fix = "Try again; if it stays, look for a stopped process or a backup program that holds the file."
    path: str
    waited_s: float


class StoreUnwritable(ForkpointError):
    """The operating system would not let the store be used."""

    code = "store.unwritable"
    kind = "environment"
    says = "The store {path} cannot be used: {detail}; nothing was written"
    why = "Opening, reading or writing the file failed below Forkpoint."
    fix = "Check that the folder exists, that you may write there, and that its disk is well."
    path: str
    detail: str


class StoreClosed(ForkpointError):
    """The store was closed, or belongs to another process or OS thread."""

    code = "store.closed"
    kind = "usage"
    says = "The store {path} is not open here; nothing was written"
    why = "It was closed, or opened by another OS thread, or by the process that this one was forked from."
    fix = "Open the store anew in this process and OS thread; any number may have it open."
    path: str
