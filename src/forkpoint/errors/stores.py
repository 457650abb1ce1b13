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
