"""A change of one file as a unified diff, for reading: bytes in, text out. Pure."""

import difflib
from collections.abc import Iterator

import msgspec

from forkpoint.workspace.tree import Change, Entry, File, Folder, Link, Unheld, shown

BINARY_WITHIN = 8000
"""A NUL in this many first bytes makes a file binary."""

LONGEST = 2_000_000
"""Above this many bytes a side is told by its size only."""


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A change told for reading. ``text`` is a unified diff, or one line that says what changed."""

    path: bytes
    text: str


def diff_of(change: Change, before: bytes | None, after: bytes | None) -> FileDiff:
    """A change with both sides' bytes (``None`` where a side is no file or isn't held) as text.

    Line ends are kept as they are: only lines that differ in a byte are shown as changed.
    """
    lines = [f"{change.kind} {change.shown}"]
    lines += _modes(change.before, change.after)
    if before is not None or after is not None:
        lines += _body(change, before or b"", after or b"")
    else:
        lines += _told(change.before, change.after)
    return FileDiff(path=change.path, text="\n".join(lines) + "\n")


def _body(change: Change, before: bytes, after: bytes) -> Iterator[str]:
    if before == after:
        return
    if b"\0" in before[:BINARY_WITHIN] or b"\0" in after[:BINARY_WITHIN]:
        yield f"binary, {len(before)} bytes before and {len(after)} after"
        return
    if max(len(before), len(after)) > LONGEST:
        yield f"too long to show, {len(before)} bytes before and {len(after)} after"
        return
    old = "/dev/null" if change.before is None else f"a/{change.shown}"
    new = "/dev/null" if change.after is None else f"b/{change.shown}"
    for line in difflib.diff_bytes(
        difflib.unified_diff, _lines(before), _lines(after), old.encode(), new.encode(), lineterm=b""
    ):
        text = line.removesuffix(b"\n").decode("utf-8", "backslashreplace")
        yield text.replace("\r", "\\r")
        if not line.endswith(b"\n") and line[:1] in (b"+", b"-", b" ") and line[:3] not in (b"+++", b"---"):
            yield "\\ no line end at the end of the file"


def _lines(data: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1].removesuffix(b"\n")
    return lines if lines[-1] else lines[:-1]


def _modes(before: Entry | None, after: Entry | None) -> Iterator[str]:
    if isinstance(before, File | Folder) and isinstance(after, File | Folder) and before.mode != after.mode:
        yield f"mode {before.mode:04o} before and {after.mode:04o} after"


def _told(before: Entry | None, after: Entry | None) -> Iterator[str]:
    match before, after:
        case (Unheld(), _) | (_, Unheld()):
            yield f"not captured: {_name(before)} before and {_name(after)} after"
        case (Link(), _) | (_, Link()):
            yield f"{_name(before)} before and {_name(after)} after"
        case _:
            return


def _name(entry: Entry | None) -> str:
    match entry:
        case None:
            return "nothing"
        case File():
            return "a file"
        case Folder():
            return "a folder"
        case Link(target=target):
            return f"a link to {shown(target)!r}"
        case Unheld(reason=reason):
            return reason
