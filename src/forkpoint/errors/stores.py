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


class EventMissing(ForkpointError):
    """A run's journal lacks an event that comes before others, or that its list of runs says is there."""

    code = "event.missing"
    kind = "data"
    says = "Event {seq} of run {run} is missing; nothing was written"
    why = "A run's events are numbered without gaps, so a part of the store was removed or overwritten."
    fix = "Restore the store from a whole copy; the events before it are intact and can be read and forked."
    run: str
    seq: int


class EventMisfiled(ForkpointError):
    """What a store keeps beside an event, to find it by, does not agree with the event."""

    code = "event.misfiled"
    kind = "data"
    says = "Event {seq} of run {run} is not what its store lists it as ({detail}); nothing was written"
    why = "The kind, step and turn by which events are found were altered. The event itself is intact."
    fix = "Export the run and import it into a new store, or restore the store from a copy."
    run: str
    seq: int
    detail: str


class RunRowAltered(ForkpointError):
    """What the list of runs says of a run does not agree with its journal."""

    code = "run.row-altered"
    kind = "data"
    says = "The list of runs does not agree with the journal of run {run}: {detail}; nothing was written"
    why = "A run's row is derived from its journal, and one of the two was altered after it was written."
    fix = "Restore the store from a copy; what the journal itself holds is told by the other findings, if any."
    run: str
    detail: str


class ForkPastAltered(ForkpointError):
    """A fork does not continue what its parent holds at the fork point."""

    code = "fork.past-altered"
    kind = "data"
    says = "Run {run} does not continue what run {parent} holds at event {at}; nothing was written"
    why = "A fork's first digest covers its parent's at the fork point, so one of the two runs was altered."
    fix = "Restore the store from a copy; 'forkpoint verify' on the parent tells which of the two it is."
    run: str
    parent: str
    at: int


class CheckpointAltered(ForkpointError):
    """A cached state does not agree with the journal that it was taken from."""

    code = "checkpoint.altered"
    kind = "data"
    says = "The checkpoint after event {seq} of run {run} is not the state at that event; nothing was written"
    why = "A checkpoint is only a cache, and this one was altered, or was written by a release that is at fault."
    fix = "Nothing is lost: the journal is the truth. Delete the checkpoint, or restore the store from a copy."
    run: str
    seq: int


class PruneNoChoice(ForkpointError):
    """Pruning was asked for without saying what."""

    code = "prune.no-choice"
    kind = "usage"
    says = "Nothing says which runs to prune; nothing was removed"
    why = "Runs are only ever removed on command, never by a rule that nobody stated."
    fix = "Give an age, name the runs, or give an empty list of runs to only give back unused room."


class PruneNotConfirmed(ForkpointError):
    """Pruning was neither confirmed nor tried out."""

    code = "prune.not-confirmed"
    kind = "usage"
    says = "Pruning would remove {count} runs ({names}), and it was not confirmed; nothing was removed"
    why = "A run that is removed cannot be brought back."
    fix = "Look at what a dry run lists, then confirm."
    count: int
    names: str


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


class RuntimeClosed(ForkpointError):
    """A runtime was used after it was closed."""

    code = "runtime.closed"
    kind = "usage"
    says = "The runtime is closed; nothing was written"
    why = "It was closed, or its 'with' block was left."
    fix = "Connect again, or do it inside the 'with' block."


class RuntimeBlocksItself(ForkpointError):
    """A blocking call was made from inside what it would have to wait for."""

    code = "runtime.blocks-itself"
    kind = "usage"
    says = "A blocking call was made on the OS thread that would carry it out; nothing was written"
    why = "An async tool or model of a blocking runtime runs on that runtime's own event loop."
    fix = "Make the tool a plain function (it then runs on an OS thread of its own), or use the async API in it."


class StoreUnknownKind(ForkpointError):
    """A store was named by a scheme that Forkpoint has no store for."""

    code = "store.unknown-kind"
    kind = "usage"
    says = "There is no store for {given}; nothing was written"
    why = "A store is a file, named by its path or sqlite:PATH, or memory: for one that goes with the process."
    fix = "Give a path; for a file whose name looks like an address, write ./ before it."
    given: str
