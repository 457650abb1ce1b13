"""Glob patterns as a machine that is fed one name at a time, so that only folders that can matter are entered. Pure.

``*`` and ``?`` stay within a name, ``**`` goes over any number of folders, ``[…]`` is a set of characters, ``{a,b}``
is a choice. A pattern without a slash matches names in every folder. Matching takes no more than a step for each
character and place of the pattern: no stretch is ever tried again in another way.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from forkpoint.errors.tools import PathEscapes, PatternRefused

MAX_PATTERN_CHARS = 1000
MAX_CHOICES = 64

Where: TypeAlias = frozenset[tuple[int, int]]
"""Where a path stands: which of the patterns, and how many of its parts are behind it."""

_ANY_FOLDERS = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glob:
    """A pattern: for each choice its parts, ``None`` for ``**``. Made by ``glob_of``."""

    choices: tuple[tuple[re.Pattern[str] | None, ...], ...]

    @property
    def start(self) -> Where:
        """Where a search begins."""
        return self._closed({(number, 0) for number in range(len(self.choices))})

    def after(self, where: Where, name: str) -> Where:
        """Where it stands one name deeper; nothing if no path below can match."""
        found: set[tuple[int, int]] = set()
        for number, place in where:
            parts = self.choices[number]
            if place == len(parts):
                continue
            part = parts[place]
            if part is _ANY_FOLDERS:
                found.add((number, place))
            elif part.fullmatch(name):
                found.add((number, place + 1))
        return self._closed(found)

    def accepts(self, where: Where) -> bool:
        """Whether a path that stands there matches."""
        return any(place == len(self.choices[number]) for number, place in where)

    def goes_on(self, where: Where) -> bool:
        """Whether a path that goes deeper from there can match."""
        return any(place < len(self.choices[number]) for number, place in where)

    def _closed(self, where: set[tuple[int, int]]) -> Where:
        # Two ``**`` never follow each other, so one step over it is enough.
        over = {(number, place + 1) for number, place in where if self._stands_at_any(number, place)}
        return frozenset(where | over)

    def _stands_at_any(self, number: int, place: int) -> bool:
        parts = self.choices[number]
        return place < len(parts) and parts[place] is _ANY_FOLDERS


def glob_of(pattern: str) -> Glob:
    """The machine of a pattern. Raises ``tool.pattern-refused``, and ``tool.path-escapes`` if it would lead out."""
    if not pattern or "\0" in pattern:
        raise PatternRefused(pattern=pattern[:MAX_PATTERN_CHARS], problem="it is empty or holds NUL")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(
            pattern=pattern[:80], problem=f"it has {len(pattern)} characters, more than {MAX_PATTERN_CHARS}"
        )
    choices: list[tuple[re.Pattern[str] | None, ...]] = []
    for choice in _choices(pattern, pattern):
        if len(choices) == MAX_CHOICES:
            raise PatternRefused(pattern=pattern, problem=f"it has more than {MAX_CHOICES} choices")
        choices.append(_parts(choice, pattern))
    return Glob(choices=tuple(choices))


def _choices(text: str, pattern: str) -> Iterator[str]:
    """Every choice of the braces in a text, outermost first."""
    begin = text.find("{")
    if begin < 0:
        yield text
        return
    depth, cuts = 0, [begin]
    for place in range(begin, len(text)):
        character = text[place]
        depth += (character == "{") - (character == "}")
        if depth == 1 and character == ",":
            cuts.append(place)
        if depth == 0:
            cuts.append(place)
            break
    else:
        raise PatternRefused(pattern=pattern, problem="a '{' has no '}'")
    for a, b in pairwise(cuts):
        yield from _choices(text[:begin] + text[a + 1 : b] + text[cuts[-1] + 1 :], pattern)


def _parts(choice: str, pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    if choice.startswith("/"):
        raise PathEscapes(path=pattern, problem="is absolute, and paths here begin in the folder")
    names = [name for name in choice.split("/") if name not in ("", ".")]
    if ".." in names:
        raise PathEscapes(path=pattern, problem="climbs with '..'")
    if "/" not in choice:
        names.insert(0, "**")
    parts: list[re.Pattern[str] | None] = []
    for name in names:
        if name != "**":
            parts.append(_name_pattern(name))
        elif not parts or parts[-1] is not _ANY_FOLDERS:
            parts.append(_ANY_FOLDERS)
    return tuple(parts)


def _name_pattern(name: str) -> re.Pattern[str]:
    """A name's pattern. What follows a star is taken at the first place where it fits, and that is never undone."""
    stretches: list[list[str]] = [[]]
    place = 0
    while place < len(name):
        place, piece = _piece(name, place)
        if piece is None:
            stretches.append([])
        else:
            stretches[-1].append(piece)
    first, *rest = ("".join(stretch) for stretch in stretches)
    if not rest:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{stretch})" for stretch in rest[:-1] if stretch)
    return re.compile(f"{first}{middle}.*{rest[-1]}", re.DOTALL)


def _piece(name: str, place: int) -> tuple[int, str | None]:
    """The next sign of a pattern as a regular expression, ``None`` for a star, and where the one after it is."""
    sign = name[place]
    if sign == "*":
        return place + 1, None
    if sign == "?":
        return place + 1, "."
    if sign == "[" and (end := name.find("]", place + 2 + (name[place + 1 : place + 2] in ("!", "^")))) > 0:
        inside = name[place + 1 : end]
        negated = inside[0] in "!^"
        return end + 1, _set(inside[1:] if negated else inside, negated=negated)
    if sign == "\\" and place + 1 < len(name):
        return place + 2, re.escape(name[place + 1])
    return place + 1, re.escape(sign)


def _set(inside: str, *, negated: bool) -> str:
    """A set of characters; a range that runs backwards holds nothing."""
    members = []
    place = 0
    while place < len(inside):
        if inside[place + 1 : place + 2] == "-" and place + 2 < len(inside):
            first, last = inside[place], inside[place + 2]
            if first <= last:
                members.append(f"{re.escape(first)}-{re.escape(last)}")
            place += 3
        else:
            members.append(re.escape(inside[place]))
            place += 1
    if not members:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(members)}]"
