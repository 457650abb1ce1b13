"""Errors about comparing, and about files that runs are read from or written to."""

from forkpoint.errors._base import ForkpointError


class NotComparable(ForkpointError):
    """Something given to be compared or told as steps is neither a state, nor a history, nor messages."""

    code = "compare.not-comparable"
    kind = "usage"
    says = "A {found} is neither a run's state, nor its history, nor a list of messages"
    why = "Steps are told from a RunState, from recorded events 1 to n, or from a plain list of Message."
    fix = "Give one of these; 'await run.state()' and 'await run.history()' make the first two from a stored run."
    found: str


class ImportNoFile(ForkpointError):
    """The file to import cannot be read."""

    code = "import.no-file"
    kind = "environment"
    says = "{path} cannot be read: {detail}; nothing was imported"
    why = "It is not there, is no regular file, or this user may not read it."
    fix = "Check the path and its permissions."
    path: str
    detail: str


class ImportUnknownFormat(ForkpointError):
    """The format to import from or export to is none that Forkpoint knows."""

    code = "import.unknown-format"
    kind = "usage"
    says = "'{given}' is no format for this; the formats are: {known}"
    why = "A file's format is never guessed, because many look alike."
    fix = "Name one of the formats that are listed."
    given: str
    known: str


class ImportNotJson(ForkpointError):
    """The file to import is not JSON, or is damaged."""

    code = "import.not-json"
    kind = "data"
    says = "{where} is not JSON: {detail}; nothing was imported"
    why = "The file is damaged, cut off, or of another format."
    fix = "Check the file at that place; a file that was cut off can be written again by the program that made it."
    where: str
    detail: str


class ImportNotChat(ForkpointError):
    """The file to import is JSON, but not of the format that was named."""

    code = "import.not-chat"
    kind = "data"
    says = "{where} is not of the format {format}: {detail}; nothing was imported"
    why = "Only what is such a file is taken; broken conversations inside one are repaired and the repairs reported."
    fix = "Name the format that the file has, or mend it at that place."
    where: str
    format: str
    detail: str


class ImportAltered(ForkpointError):
    """An exported journal does not hold what its digests cover."""

    code = "import.altered"
    kind = "data"
    says = "{where} is not as it was exported: {detail}; nothing was written"
    why = "Each event's digest covers it and everything before it, and here they do not fit."
    fix = "Export the run again; events cannot be edited in an export."
    where: str
    detail: str


class ImportSecret(ForkpointError):
    """An exported journal holds the value of a secret that is registered here."""

    code = "import.secret"
    kind = "data"
    says = "Event {seq} of run {run} holds the value of a registered secret; nothing was written"
    why = "No secret's value may come into a store, and an event cannot be changed without breaking its digest."
    fix = "Register the secret where the run is performed, and export a run that was recorded under it."
    run: str
    seq: int


class ImportOtherRun(ForkpointError):
    """A run of the same id is in the store, with another history."""

    code = "import.other-run"
    kind = "conflict"
    says = "The store has another run {run}: the histories differ by event {seq}; nothing was written"
    why = "A run's id names one history, and what is to be imported is not a part or a continuation of it."
    fix = "Import into another store, or delete the run that is there if it is not wanted."
    run: str
    seq: int


class ExportExists(ForkpointError):
    """Something is already where an export should be written."""

    code = "export.exists"
    kind = "conflict"
    says = "{path} is already there; nothing was written"
    why = "An export overwrites only what it is told to."
    fix = "Choose another path, or say so: force=True, or --force on the command line."
    path: str


class ExportNotAFile(ForkpointError):
    """The place to write an export to is a link, a folder or a device."""

    code = "export.not-a-file"
    kind = "usage"
    says = "{path} is {found}; nothing was written"
    why = "An export is written as a regular file in exactly the place that was named, and no link is followed."
    fix = "Name the place itself."
    path: str
    found: str


class ExportFailed(ForkpointError):
    """An export could not be written."""

    code = "export.failed"
    kind = "environment"
    says = "{path} could not be written: {detail}; no part of it was left behind"
    why = "The folder is missing or read-only, or the disk is full."
    fix = "Make room or choose another place."
    path: str
    detail: str


class ExportDiffers(ForkpointError):
    """A run's events do not encode to the bytes that their digests cover."""

    code = "export.differs"
    kind = "data"
    says = "Event {seq} of run {run} cannot be exported exactly; nothing was written"
    why = "Another release wrote it in a form that this one reads but does not write."
    fix = "Export it with the release that wrote it, or choose the format openai-chat or html."
    run: str
    seq: int
