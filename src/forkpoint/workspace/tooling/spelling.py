"""How a path is spelled to and by a model, whose text is Unicode, while names are bytes. Pure.

Names are parted by ``/``. A byte that is no UTF-8, and every byte of a character that is not printable, is spelled
``\\xNN``; a backslash is spelled ``\\\\``. What is spelled so is read back to the same bytes.
"""

import re

from forkpoint.errors.tools import PathEscapes, PathInvalid, TextInvalid

MAX_PATH_CHARS = 4096

_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(\\)|)")


def names_of(path: str) -> tuple[bytes, ...]:
    """The names that a path goes through; none for the folder itself.

    Raises ``tool.path-escapes`` for an absolute path or one with ``..``, and ``tool.path-invalid`` for what
    no path can be.
    """
    if path.startswith("/"):
        raise PathEscapes(path=path[:MAX_PATH_CHARS], problem="is absolute, and paths here begin in the folder")
    return tuple(name for part in path.split("/") if (name := _name(part, path)) not in (b"", b"."))


def spelled(path: bytes) -> str:
    """A path for a model's eyes, which ``names_of`` reads back."""
    return "".join(map(_shown, path.decode("utf-8", "surrogateescape")))


def as_bytes(text: str, *, name: str) -> bytes:
    """A text's bytes. Raises ``tool.text-invalid`` for half of a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise TextInvalid(name=name, place=error.start) from error


def _name(part: str, path: str) -> bytes:
    def invalid(problem: str) -> PathInvalid:
        return PathInvalid(path=path[:MAX_PATH_CHARS], problem=problem)

    def read(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            return bytes([int(found[1], 16)])
        if found[2] is None:
            raise invalid("a backslash is spelled '\\\\', and names are parted by '/'")
        return b"\\"

    if len(path) > MAX_PATH_CHARS:
        raise invalid(f"it has {len(path)} characters, more than {MAX_PATH_CHARS}")
    try:
        name = _ESCAPE.sub(read, part.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise invalid("it has half of a character") from error
    if b"\0" in name or b"/" in name:
        raise invalid("a name can't hold NUL or '/'")
    if name == b"..":
        raise PathEscapes(path=path, problem="climbs with '..'")
    return name


def _shown(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
