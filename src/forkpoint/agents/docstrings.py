"""What a docstring says of a function and of each parameter, in the three usual ways of writing it.

Google (``Args:`` and ``name: text``), NumPy (``Parameters`` underlined, ``name : type`` and an indented
text) and reST (``:param name: text``). What is in none of these forms is description.
"""

import inspect
import re
from dataclasses import dataclass, field

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params):\s*$")
_TITLES = r"(?:Returns?|Yields?|Receives|Raises|Examples?|Notes?|Warnings?|Warns|See Also|References|Attributes|Todo)"
_OTHER = re.compile(rf"{_TITLES}:\s*$")
_NUMPY = re.compile(rf"(?:Other )?Parameters\s*$|{_TITLES}\s*$")
_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ITEM = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_REST = re.compile(r":(\w+)(?:\s+[^:]*?)?(?:\s*\b(\w+))?:\s*(.*)$")
_UNDERLINE = re.compile(r"-{3,}\s*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """A docstring, taken apart: ``description``, and a text for each parameter it speaks of."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docstring:
    """The description and the parameters' texts in ``text``. What it cannot place is description."""
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    lines = inspect.cleandoc(text or "").splitlines()
    place = 0
    while place < len(lines):
        line = lines[place]
        if _GOOGLE.match(line):
            place = _google(lines, place + 1, parameters)
        elif _is_numpy(lines, place):
            told = parameters if "Parameters" in line else {}
            place = _numpy(lines, place + 2, told)
        elif _OTHER.match(line):
            place = _after(lines, place + 1)
        elif _REST.match(line):
            place = _rest(lines, place, parameters)
        else:
            description.append(line)
            place += 1
    told_of = {name: " ".join(" ".join(words).split()) for name, words in parameters.items()}
    return Docstring(description="\n".join(description).strip(), parameters=told_of)


def _google(lines: list[str], place: int, parameters: dict[str, list[str]]) -> int:
    end = _after(lines, place)
    body = [line for line in lines[place:end] if line.strip()]
    margin = min((_indent(line) for line in body), default=0)
    words: list[str] = []
    for line in body:
        item = _ITEM.match(line.strip()) if _indent(line) == margin else None
        if item:
            words = parameters.setdefault(item[1], [])
            words.append(item[2])
        else:
            words.append(line)
    return end


def _numpy(lines: list[str], place: int, parameters: dict[str, list[str]]) -> int:
    names: list[str] = []
    while place < len(lines):
        line = lines[place]
        if _is_numpy(lines, place):
            break
        if line.strip() and not _indent(line):
            item = _NUMPY_ITEM.match(line)
            names = [name.strip().lstrip("*") for name in item[1].split(",")] if item else []
        for name in names if _indent(line) else ():
            parameters.setdefault(name, []).append(line)
        place += 1
    return place


def _is_numpy(lines: list[str], place: int) -> bool:
    below = lines[place + 1] if place + 1 < len(lines) else ""
    return bool(_NUMPY.match(lines[place]) and _UNDERLINE.match(below))


def _rest(lines: list[str], place: int, parameters: dict[str, list[str]]) -> int:
    item = _REST.match(lines[place])
    end = _after(lines, place + 1)
    if item and item[1] in ("param", "parameter", "arg", "argument") and item[2]:
        parameters.setdefault(item[2], []).extend([item[3], *lines[place + 1 : end]])
    return end


def _after(lines: list[str], place: int) -> int:
    """Where the indented stretch that begins at ``place`` is over."""
    while place < len(lines) and (not lines[place].strip() or _indent(lines[place])):
        place += 1
    return place


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
