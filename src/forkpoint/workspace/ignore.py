"""Which paths a ``.forkpointignore`` names, and which folders are bulk.

The rules are those people know from ``.gitignore``: ``#`` comments, ``!`` takes back, a slash at the
end means folders, a slash elsewhere ties the rule to the root, ``*``, ``?``, ``[…]`` within one name
and ``**`` over several. A line that can't be read is an error, never a rule that matches nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

IGNORE_FILE = b".forkpointignore"

BULK_FOLDERS: frozenset[bytes] = frozenset(
    {
        b".cache",
        b".gradle",
        b".hypothesis",
        b".mypy_cache",
        b".next",
        b".nox",
        b".nuxt",
        b".parcel-cache",
        b".pnpm-store",
        b".pytest_cache",
        b".ruff_cache",
        b".tox",
        b".turbo",
        b".venv",
        b".yarn",
        b"__pycache__",
        b"bower_components",
        b"node_modules",
        b"target",
        b"venv",
    }
)
"""Folders that tools make again: noted with a fingerprint, not held. A recorder can be given others."""


class IgnoreInvalid(ValueError):
    """A line of an ignore file that can't be read."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line, self.problem = line, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line: what it matches, whether only folders, and whether it takes back."""

    matches: re.Pattern[bytes]
    folders_only: bool
    takes_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """The rules of one ignore file, in its order. The last rule that matches a path decides."""

    rules: tuple[Rule, ...] = ()

    def names(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether the rules leave out ``path`` itself; a folder left out takes all below with it."""
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and rule.matches.fullmatch(path):
                return not rule.takes_back
        return False


def parse_ignore(data: bytes) -> Ignore:
    """The rules of an ignore file. Raises ``IgnoreInvalid`` with the number of a line it can't read."""
    rules = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        rule = _rule(number, line.removesuffix(b"\r"))
        if rule is not None:
            rules.append(rule)
    return Ignore(rules=tuple(rules))


def _rule(number: int, line: bytes) -> Rule | None:
    if b"\0" in line:
        raise IgnoreInvalid(number, "holds a NUL byte")
    if not line.strip() or line.startswith(b"#"):
        return None
    text = line if line.endswith(b"\\ ") else line.rstrip(b" \t")
    takes_back = text.startswith(b"!")
    text = text.removeprefix(b"!")
    folders_only = text.endswith(b"/")
    text = text.rstrip(b"/")
    anchored = b"/" in text
    names = text.lstrip(b"/").split(b"/")
    if names == [b""] or any(name in (b".", b"..", b"") for name in names):
        raise IgnoreInvalid(number, f"{line!r} names no path below the root")
    pattern = _pattern(number, names if anchored else [b"**", *names])
    return Rule(matches=pattern, folders_only=folders_only, takes_back=takes_back)


def _pattern(number: int, names: Sequence[bytes]) -> re.Pattern[bytes]:
    parts: list[bytes] = []
    for i, name in enumerate(names):
        last = i == len(names) - 1
        if name == b"**":
            parts.append(b".+" if last else b"(?:[^/]+/)*")
        else:
            parts.append(_name(number, name) + (b"" if last else b"/"))
    return re.compile(b"".join(parts), re.DOTALL)


def _name(number: int, name: bytes) -> bytes:
    out: list[bytes] = []
    at = 0
    while at < len(name):
        char = name[at : at + 1]
        if char == b"*":
            out.append(b"[^/]*")
        elif char == b"?":
            out.append(b"[^/]")
        elif char == b"[":
            piece, at = _bracket(number, name, at)
            out.append(piece)
        elif char == b"\\":
            at += 1
            if at == len(name):
                raise IgnoreInvalid(number, "ends in a lone backslash")
            out.append(re.escape(name[at : at + 1]))
        else:
            out.append(re.escape(char))
        at += 1
    return b"".join(out)


def _bracket(number: int, name: bytes, at: int) -> tuple[bytes, int]:
    start = at + 1
    negated = name[start : start + 1] in (b"!", b"^")
    start += negated
    end = name.find(b"]", start + 1)
    if end < 0:
        raise IgnoreInvalid(number, "has a '[' without its ']'")
    inside = name[start:end]
    escaped = b"".join(b"-" if c == 0x2D else re.escape(bytes([c])) for c in inside)
    try:
        re.compile(b"[" + escaped + b"]")
    except re.error as error:
        raise IgnoreInvalid(number, f"has a range that runs backwards: {error}") from error
    return b"(?!/)[" + (b"^" if negated else b"") + escaped + b"]", end
