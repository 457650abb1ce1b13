"""Whether a regular expression repeats a repetition, which can take for ever on one line. Pure."""

import re
from math import inf

_QUANTIFIER = re.compile(
    r"""(?: (?P<sign> [*+?]) | \{ (?P<fewest> \d{1,9})? (?: (?P<comma> ,) (?P<most> \d{1,9})? )? (?<! \{ ) \} )
    [?+]?  # lazy or possessive: how it repeats, not another repetition""",
    re.VERBOSE,
)


def repeats_a_repetition(pattern: str) -> bool:
    """Whether a group that holds a repetition is itself repeated, as in ``(a+)*`` or ``(\\w*-){2,}``.

    It reads the pattern's outline only, and what is no valid pattern is for others to refuse.
    """
    holds = [False]
    place = 0
    while place < len(pattern):
        place, was_group, inner = _atom(pattern, place, holds)
        varies, is_many, place = _quantifier(pattern, place)
        if was_group and inner and is_many:
            return True
        holds[-1] = holds[-1] or varies or (was_group and inner)
    return False


def _atom(pattern: str, place: int, holds: list[bool]) -> tuple[int, bool, bool]:
    """Step over one atom: where it ends, whether it closed a group, and whether that held a repetition."""
    sign = pattern[place]
    if sign == "\\":
        return place + 2, False, False
    if sign == "[":
        return _after_set(pattern, place), False, False
    if sign == "(":
        if pattern.startswith("(?#", place):
            end = pattern.find(")", place)
            return (end if end >= 0 else len(pattern)) + 1, False, False
        holds.append(False)
        # The question mark of "(?:" and its like is no quantifier.
        return place + (2 if pattern.startswith("(?", place) else 1), False, False
    if sign == ")" and len(holds) > 1:
        return place + 1, True, holds.pop()
    return place + 1, False, False


def _after_set(pattern: str, place: int) -> int:
    place += 1
    if pattern[place : place + 1] == "^":
        place += 1
    if pattern[place : place + 1] == "]":
        place += 1
    while place < len(pattern) and pattern[place] != "]":
        place += 2 if pattern[place] == "\\" else 1
    return place + 1


def _quantifier(pattern: str, place: int) -> tuple[bool, bool, int]:
    """What stands behind an atom: whether it varies how often, whether that can be more than once, its end."""
    found = _QUANTIFIER.match(pattern, place)
    if found is None:
        return False, False, place
    fewest, most = _times(found)
    is_many = most > 1
    return is_many and fewest != most, is_many, found.end()


def _times(found: re.Match[str]) -> tuple[float, float]:
    if found["sign"]:
        return (1 if found["sign"] == "+" else 0), (1 if found["sign"] == "?" else inf)
    if not found["comma"]:
        return int(found["fewest"]), int(found["fewest"])
    return int(found["fewest"] or 0), (int(found["most"]) if found["most"] else inf)
