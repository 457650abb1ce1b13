"""Errors of runs whose loop is somebody else's code: functions, and what they ask for."""

from forkpoint.errors._base import ForkpointError


class InputNotTaken(ForkpointError):
    """A message was sent to a run that is one call of a function."""

    code = "input.not-taken"
    kind = "usage"
    says = "Run {run} is one call of the function {function} and takes no further input; nothing was written"
    why = "What a function is given are its arguments; its code decides what a model is told."
    fix = "Record another run with other arguments, or fork this one with other arguments."
    run: str
    function: str


class FunctionUnfit(ForkpointError):
    """A function, a step, or what one was given or returned, cannot be recorded."""

    code = "function.unfit"
    kind = "usage"
    says = "{function} cannot be recorded: {problem}"
    why = "What is recorded is known by its name, and what it is given and returns is on record as JSON."
    fix = "Mend what is named above: a name (name=…), arguments that it takes, values that have a JSON form."
    function: str
    problem: str


class FunctionOtherArguments(ForkpointError):
    """A run is a call of the same function with other arguments."""

    code = "function.other-arguments"
    kind = "conflict"
    says = "Run {run} is a call of {function} with {recorded}, not with {given}; nothing was written"
    why = "A run is one call, and its record is what came of these arguments."
    fix = "Choose another run id, fork the run with Patch(arguments=…), or leave the arguments out."
    run: str
    function: str
    recorded: str
    given: str


class FunctionMissing(ForkpointError):
    """A run's function is not known in this process."""

    code = "function.missing"
    kind = "usage"
    says = "Run {run} is a call of the function {function!r}, which this process does not have (it has: {known})"
    why = "Only its code can ask again for what is on record and go on from there."
    fix = "Give it to connect(functions=[…]), or call runtime.record(run_id, function)."
    run: str
    function: str
    known: str


class RunIsOfAgent(ForkpointError):
    """A function was to be recorded under the id of a run that an agent performs."""

    code = "function.other-run"
    kind = "conflict"
    says = "Run {run} is not a call of the function {function}: it belongs to {owner}; nothing was written"
    why = "A run has one loop, and its record only answers the code that made it."
    fix = "Choose another run id."
    run: str
    function: str
    owner: str


class RunWaits(ForkpointError):
    """The function cannot go on before somebody has decided."""

    code = "run.waits"
    kind = "conflict"
    says = "Run {run} waits for {count} decision(s): {waits}; everything so far is on record"
    why = "A call needs approval, an answer from outside, or a finding about an outcome that nobody knows."
    fix = "Decide with approve, deny, answer or resolve; then call record again with the same id, or resume."
    run: str
    count: int
    waits: str


class RunIsPaused(ForkpointError):
    """The function's run was paused, by a person or a limit."""

    code = "run.paused"
    kind = "conflict"
    says = "Run {run} is paused: {reason}; everything so far is on record"
    why = "A paused run asks for nothing more until it is continued."
    fix = "Continue it with unpause; then call record again with the same id, or resume."
    run: str
    reason: str


class RunCalledOff(ForkpointError):
    """The function was called off while it ran."""

    code = "run.interrupted"
    kind = "conflict"
    says = "Run {run} was interrupted; everything so far is on record"
    why = "Somebody interrupted it: what was in flight was signalled, and nothing more was begun."
    fix = "Call record again with the same id, or resume, to go on from where it was."
    run: str


class ReplayDiverged(ForkpointError):
    """A function asked for something that its record does not have, while the record has what it did not ask for."""

    code = "replay.diverged"
    kind = "conflict"
    says = "Run {run} does not go as recorded. Asked: {asked}. Only on record: {recorded}. Nothing was performed"
    why = "The code, its arguments or something that it reads is not what it was when the record was made."
    fix = "Run the code that made the record, or go on in a fork: record(..., on_divergence='fork')."
    run: str
    asked: str
    recorded: str


class AskOutOfPlace(ForkpointError):
    """Recorded code asked for an effect where it cannot wait for one."""

    code = "function.blocks"
    kind = "usage"
    says = "{name} was called without await on the event loop of a recorded function; nothing was performed"
    why = "Its outcome has to be put on record first, and waiting for that here would stop everything else."
    fix = "Make the function async and await it, or record a plain function, which runs in an OS thread of its own."
    name: str


class RecordingEnded(ForkpointError):
    """Code went on asking after its run had come to rest."""

    code = "function.ended"
    kind = "usage"
    says = "Run {run} is not being performed any more, so {name} was not asked for"
    why = "The function returned, waits for a decision, or was called off, and left something of it running."
    fix = "Await everything that the function begins before it returns."
    run: str
    name: str
