"""Errors of the LangGraph adapter: values without a safe form, runs that are no thread, threads that moved on."""

from forkpoint.errors._base import ForkpointError


class GraphValueUnsafe(ForkpointError):
    """A LangGraph state holds a value that can be stored in no form from which it is safe to make it again."""

    code = "langgraph.no-safe-form"
    kind = "usage"
    says = "{where} holds {what}, which has no safe form; nothing was written"
    why = "Nothing that was stored is ever unpickled, and a class is made again only if it is allowed by name."
    fix = "Keep plain data in the state, or name the class: ForkpointSaver(store, allow=[TheClass])."
    where: str
    what: str


class GraphValueNotAllowed(ForkpointError):
    """A stored LangGraph state names a class that may not be made here."""

    code = "langgraph.not-allowed"
    kind = "data"
    says = "A stored value is {what}, which is not allowed here; nothing was imported or made"
    why = "What lies in a store is data that anybody may have written; only classes that are allowed by name are made."
    fix = "If the class is yours, name it: ForkpointSaver(store, allow=[TheClass])."
    what: str


class GraphStoredBadly(ForkpointError):
    """An event of a LangGraph thread's run does not say what such an event says."""

    code = "langgraph.unreadable"
    kind = "data"
    says = "Event {seq} of run {run} cannot be read as part of a LangGraph thread: {detail}"
    why = "It was written by a newer release, or by something else than ForkpointSaver."
    fix = "Read the run with the release that wrote it; `forkpoint show` shows its events."
    run: str
    seq: int
    detail: str


class GraphRunTaken(ForkpointError):
    """The run that a LangGraph thread would be stored in is a run of something else."""

    code = "langgraph.run-taken"
    kind = "conflict"
    says = "The LangGraph thread {given!r} would be stored in run {run}, which is a run of {owner}; nothing was written"
    why = "A LangGraph thread and its run have the same name, so that `forkpoint show` finds it; one name is one run."
    fix = 'Use another `thread_id`, or give the saver a prefix of its own: ForkpointSaver(store, prefix="chat-").'
    given: str
    run: str
    owner: str


class GraphMoved(ForkpointError):
    """Another process wrote to a LangGraph thread since this one last read it."""

    code = "langgraph.moved"
    kind = "conflict"
    says = "The LangGraph thread {given!r} is at event {actual}, not {expected}; nothing was written"
    why = "Two graphs that go on from the same checkpoint would each leave the other's work behind."
    fix = "Invoke the graph again: it reads the LangGraph thread anew and goes on from where it stands now."
    given: str
    expected: int
    actual: int


class GraphBadConfig(ForkpointError):
    """A LangGraph config does not name what is asked for."""

    code = "langgraph.bad-config"
    kind = "usage"
    says = "The config has no usable {name}: {given}"
    why = "Names of LangGraph threads, namespaces and checkpoints are texts; nothing else is looked up."
    fix = 'Give them as texts: {{"configurable": {{"thread_id": "…"}}}}.'
    name: str
    given: str
