"""Errors of the tools that ship: what a model is told of a path, an edit, a pattern or a command that is refused."""

from forkpoint.errors._base import ForkpointError


class PathEscapes(ForkpointError):
    """A path that a tool was given leads out of its folder; nothing was read or written."""

    code = "tool.path-escapes"
    kind = "data"
    says = "The path {path!r} {problem}; nothing was read or written"
    why = "File tools work in one folder. Every name of a path is opened by itself, and no link leads out."
    fix = "Give a path relative to the folder, without '..', and not through a link that leads out of it."
    path: str
    problem: str


class PathInvalid(ForkpointError):
    """What a tool was given can't be a path; nothing was read or written."""

    code = "tool.path-invalid"
    kind = "data"
    says = "{path!r} is no path: {problem}; nothing was read or written"
    why = "Names hold no NUL. A byte that is no UTF-8 or not printable is spelled '\\xNN', a backslash '\\\\'."
    fix = "Spell the path with '/' between its names, as list_dir and glob do."
    path: str
    problem: str


class PathClosed(ForkpointError):
    """A path lies in a part of the folder that is closed to the tools; nothing was read or written."""

    code = "tool.path-closed"
    kind = "data"
    says = "The path {path!r} is closed to file tools; nothing was read or written"
    why = "The program that made the tools closed this part of the folder, such as the store of the run itself."
    fix = "Work on other files; whoever made the tools can open it with closed=."
    path: str


class PathNotFound(ForkpointError):
    """Nothing is at a path that a tool was given; nothing was written."""

    code = "tool.path-not-found"
    kind = "data"
    says = "There is no {path!r}; nothing was written"
    why = "Paths are relative to the folder that the tools were made for."
    fix = "Look for the file with list_dir or glob."
    path: str


class PathWrongKind(ForkpointError):
    """A path is not what the tool works on: a folder in place of a file, a device; nothing was written."""

    code = "tool.path-wrong-kind"
    kind = "data"
    says = "{path!r} is {found}, not {wanted}; nothing was written"
    why = "Files are read and written, folders are listed; pipes, sockets and devices are never opened."
    fix = "Name a path of the right kind; list_dir shows which is which."
    path: str
    found: str
    wanted: str


class FileNotText(ForkpointError):
    """A file is binary, so it isn't shown; nothing was written."""

    code = "tool.file-not-text"
    kind = "data"
    says = "{path!r} is binary ({size_bytes} bytes, {problem}) and can't be shown as text; nothing was written"
    why = "Lines of text are all that a model can be shown, and guessed text would be written back as damage."
    fix = "Look at it with a program that knows its format."
    path: str
    size_bytes: int
    problem: str


class FileTooLarge(ForkpointError):
    """A file is too large to be edited in one piece; nothing was written."""

    code = "tool.file-too-large"
    kind = "data"
    says = "{path!r} has {size_bytes} bytes, and at most {limit_bytes} can be edited; nothing was written"
    why = "An edit reads the whole file, to know that the text to replace is in it exactly once."
    fix = "Change the file with a program that works on a stream."
    path: str
    size_bytes: int
    limit_bytes: int


class FileReadOnly(ForkpointError):
    """A file may not be written by its permissions; nothing was written."""

    code = "tool.file-read-only"
    kind = "data"
    says = "{path!r} is read-only; nothing was written"
    why = "Files are replaced as a whole, which permissions alone would not prevent, so the tools hold to them."
    fix = "Leave the file alone, or ask for it to be made writable."
    path: str


class FileChanged(ForkpointError):
    """A file was changed by someone else during the edit; the edit was not written."""

    code = "tool.file-changed"
    kind = "conflict"
    says = "{path!r} was changed by someone else during the edit; the edit was not written"
    why = "What others write is never overwritten by an edit that has not seen it."
    fix = "Read the file again and repeat the edit if it still fits."
    path: str


class FileBusy(ForkpointError):
    """Another write to the same folder did not end in time; nothing was written."""

    code = "tool.file-busy"
    kind = "conflict"
    says = "{path!r} is being written by someone else and did not come free within {waited_s} s; nothing was written"
    why = "Writes to one path are made one after the other."
    fix = "Try again."
    path: str
    waited_s: float


class FileUnusable(ForkpointError):
    """The system refused an operation on a file; the file is as it was."""

    code = "tool.file-unusable"
    kind = "environment"
    says = "{path!r} can't be used: {reason}; the file is as it was"
    why = "The operating system refused: permissions, no space, too long a name, or another cause it names."
    fix = "Remove the cause, or work on another path."
    path: str
    reason: str


class EditNotFound(ForkpointError):
    """The text to replace is not in the file; nothing was written."""

    code = "tool.edit-not-found"
    kind = "data"
    says = "The text to replace is not in {path!r}; nothing was written"
    why = "Text is found exactly, with its white space; only line endings may differ."
    fix = "Read the file again and copy the text, without the line numbers."
    path: str


class EditNotUnique(ForkpointError):
    """The text to replace is in the file several times; nothing was written."""

    code = "tool.edit-not-unique"
    kind = "data"
    says = "The text to replace is in {path!r} {count} times, not once; nothing was written"
    why = "Which of them is meant can't be told, and a wrong guess would damage the file."
    fix = "Give more of the lines around it, or replace_all to change all of them."
    path: str
    count: int


class EditEmpty(ForkpointError):
    """An edit says nothing to do; nothing was written."""

    code = "tool.edit-empty"
    kind = "data"
    says = "The edit of {path!r} can't be made: {problem}; nothing was written"
    why = "An edit replaces a text that is there with a different one."
    fix = "Say the text that is there and the text that takes its place; write_file makes a new file."
    path: str
    problem: str


class TextInvalid(ForkpointError):
    """A text has no bytes, as half a character has none; nothing was written."""

    code = "tool.text-invalid"
    kind = "data"
    says = "The {name} has half of a character at {place}, which no file can hold; nothing was written"
    why = "Text is written as UTF-8, and a lone surrogate has no form in it."
    fix = "Give the whole character."
    name: str
    place: int


class PatternRefused(ForkpointError):
    """A search pattern can't be used; nothing was searched."""

    code = "tool.pattern-refused"
    kind = "data"
    says = "The pattern {pattern!r} is refused: {problem}; nothing was searched"
    why = "A pattern must be valid, and one that repeats a repetition can take for ever on a single line."
    fix = "Correct or simplify the pattern; a search for plain text escapes the signs that mean something."
    pattern: str
    problem: str


class SearchFailed(ForkpointError):
    """The process that a search runs in ended by itself; nothing was written."""

    code = "tool.search-failed"
    kind = "environment"
    says = "The search stopped: {reason}; nothing was written"
    why = "Patterns are matched in a process of their own, so that one can be stopped; it ended early or never began."
    fix = "Search again with a narrower path; if it happens again, the machine lacks memory or processes."
    reason: str


class CommandNotStarted(ForkpointError):
    """A command could not be started; nothing was run."""

    code = "tool.command-not-started"
    kind = "environment"
    says = "The command was not started: {reason}; nothing was run"
    why = "It holds what no command may hold, is too long for the system, or no process could be made."
    fix = "Put long text into a file with write_file, and run a command that reads it."
    reason: str


class CallStopped(ForkpointError):
    """A call that only reads was asked to end and did; nothing was written."""

    code = "tool.call-stopped"
    kind = "conflict"
    says = "{what} was stopped before it ended; nothing was written"
    why = "The call ran out of time, or a person interrupted the run."
    fix = "Call it again if its result is still wanted."
    what: str
