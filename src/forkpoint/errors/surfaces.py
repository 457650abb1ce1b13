"""Errors of the command line: what was typed, which store and agents it means, and our own faults."""

from forkpoint.errors._base import ForkpointError


class CommandUnfit(ForkpointError):
    """What was typed is not a command, or an option of it does not fit."""

    code = "cli.unfit"
    kind = "usage"
    says = "{detail}; nothing was written"
    why = "The command line takes only what it understands, and guesses nothing."
    fix = "See 'forkpoint --help', or 'forkpoint COMMAND --help' for one command."
    detail: str


class CommandNotConfirmed(ForkpointError):
    """A command that removes something was not confirmed."""

    code = "cli.not-confirmed"
    kind = "usage"
    says = "{what} was not confirmed; nothing was removed"
    why = "What is removed cannot be brought back, so a person says yes, or --yes is given."
    fix = "Run it in a terminal and answer yes, or add --yes."
    what: str


class CommandFileUnusable(ForkpointError):
    """A file that a command was given cannot be read."""

    code = "cli.file-unusable"
    kind = "environment"
    says = "The file {path} cannot be read: {detail}; nothing was written"
    why = "The operating system would not let it be read, or it is not text in UTF-8."
    fix = "Check that the path is right and that you may read it; a text that begins with @ is typed with @@."
    path: str
    detail: str


class CommandCrashed(ForkpointError):
    """Forkpoint met something that it has no answer to. The fault is ours."""

    code = "cli.crashed"
    kind = "bug"
    says = "Forkpoint failed in a way that it should not: {error} (in {place})"
    why = "This is a fault of Forkpoint, or of the program that --app names; what was recorded before is intact."
    fix = "Please report it with the lines below and what you typed."
    error: str
    place: str


class StoreMissing(ForkpointError):
    """There is no store where one is looked for."""

    code = "store.missing"
    kind = "usage"
    says = "There is no store at {path} ({chosen}); nothing was written"
    why = "Commands that read, and those that ask something of a run, never make a store."
    fix = "Go to the folder of your project, name the store with --store, or begin one with 'forkpoint start'."
    path: str
    chosen: str


class RunAmbiguous(ForkpointError):
    """The beginning of an id that several runs share."""

    code = "run.ambiguous"
    kind = "usage"
    says = "{given} begins the ids of several runs: {runs}; nothing was written"
    why = "The beginning of an id is enough only where it is that of one run."
    fix = "Type more of the id."
    given: str
    runs: str


class AppMissing(ForkpointError):
    """Nothing says where the agents are."""

    code = "app.missing"
    kind = "usage"
    says = "Nothing says where the agents are; nothing was written"
    why = "A run is performed with its agent's own model and tools, which only your program has."
    fix = 'Add --app module:name, or app = "module:name" under [tool.forkpoint] in pyproject.toml.'


class AppNotFound(ForkpointError):
    """The module or the name in it that should hold the agents cannot be loaded."""

    code = "app.not-found"
    kind = "usage"
    says = "The agents of '{app}' ({chosen}) cannot be loaded: {detail}; nothing was written"
    why = "It is 'module:name': a module that Python can import from here, and a name in it."
    fix = "Try it with python -c 'import module'; correct the name, or the module's own fault."
    app: str
    chosen: str
    detail: str


class AppUnfit(ForkpointError):
    """What should be agents is something else."""

    code = "app.unfit"
    kind = "usage"
    says = "'{app}' is {found}, not agents; nothing was written"
    why = "It may be an Agent, a recorded function, a list or tuple of them, an App, or what returns one of these."
    fix = "Give the name of one of those."
    app: str
    found: str


class DemoDiffers(ForkpointError):
    """The demo checked what it told, and found something else."""

    code = "demo.differs"
    kind = "bug"
    says = "The demo told: {claim}. It expected {expected} and found {found}; everything is kept in {folder}"
    why = "The demo tells nothing that it has not checked against the store and against what really happened outside."
    fix = "Please report it with the lines above and the folder."
    claim: str
    found: str
    expected: str
    folder: str


class DemoFolderUsed(ForkpointError):
    """The folder for the demo has something in it."""

    code = "demo.folder-used"
    kind = "usage"
    says = "The folder {path} is not empty; nothing was written"
    why = "The demo writes files of its own, and never among those of somebody else."
    fix = "Name a folder that is empty or not there yet, or leave --folder out."
    path: str
