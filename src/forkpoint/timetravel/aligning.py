"""Steps of two runs side by side: equal, changed, or only on one side. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["same", "changed", "only_a", "only_b"]
Line: TypeAlias = tuple[Kind, int | None, int | None]
"""A kind, and the places (from 0) of the steps it is about."""

Keyed: TypeAlias = tuple[str, tuple[tuple[str, Any, Any], ...]]

CELLS = 1 << 18
"""Up to how many pairs of steps are all weighed. A longer stretch is first cut at steps that occur once on each side,
and what remains over the limit is paired by position."""

GAP = 10
SAME_TOOLS = 9
OTHER_TOOLS = 15
"""A step that only one side has costs 10. Pairing two different steps is cheaper than telling both apart (20), and
cheaper where they asked for the same tools, so that an insertion is not read as a row of changes."""


def aligned_steps(a: Sequence[Keyed], b: Sequence[Keyed]) -> list[Line]:
    """The steps ``a`` and ``b`` side by side, in order, at the least cost."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    lines: list[Line] = [("same", place, place) for place in range(start)]
    lines += _between_anchors(a, b, start, len(a) - end, start, len(b) - end)
    lines += [("same", len(a) - left, len(b) - left) for left in range(end, 0, -1)]
    return lines


def _between_anchors(a: Sequence[Keyed], b: Sequence[Keyed], a0: int, a1: int, b0: int, b1: int) -> list[Line]:
    if (a1 - a0) * (b1 - b0) <= CELLS:
        return _weighed(a, b, a0, a1, b0, b1)
    lines: list[Line] = []
    for at_a, at_b in _anchors(a, b, a0, a1, b0, b1):
        lines += _stretch(a, b, a0, at_a, b0, at_b)
        lines.append(("same", at_a, at_b))
        a0, b0 = at_a + 1, at_b + 1
    return lines + _stretch(a, b, a0, a1, b0, b1)


def _stretch(a: Sequence[Keyed], b: Sequence[Keyed], a0: int, a1: int, b0: int, b1: int) -> list[Line]:
    if (a1 - a0) * (b1 - b0) <= CELLS:
        return _weighed(a, b, a0, a1, b0, b1)
    both = min(a1 - a0, b1 - b0)
    lines: list[Line] = [
        ("same" if a[a0 + place] == b[b0 + place] else "changed", a0 + place, b0 + place) for place in range(both)
    ]
    lines += [("only_a", place, None) for place in range(a0 + both, a1)]
    lines += [("only_b", None, place) for place in range(b0 + both, b1)]
    return lines


def _anchors(a: Sequence[Keyed], b: Sequence[Keyed], a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    """Steps that occur once on each side, the longest row of them that is in order on both."""
    once_a, once_b = _once(a, a0, a1), _once(b, b0, b1)
    pairs = [(place, once_b[key]) for key, place in once_a.items() if key in once_b]
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(ends, place)
        before.append(last[at - 1] if at else None)
        if at == len(ends):
            ends.append(place)
            last.append(number)
        else:
            ends[at], last[at] = place, number
    row: list[tuple[int, int]] = []
    number_or_none = last[-1] if last else None
    while number_or_none is not None:
        row.append(pairs[number_or_none])
        number_or_none = before[number_or_none]
    return row[::-1]


def _once(keys: Sequence[Keyed], start: int, stop: int) -> dict[Keyed, int]:
    places: dict[Keyed, int] = {}
    again: set[Keyed] = set()
    for place in range(start, stop):
        if keys[place] in places:
            again.add(keys[place])
        places[keys[place]] = place
    return {key: place for key, place in places.items() if key not in again}


def _weighed(a: Sequence[Keyed], b: Sequence[Keyed], a0: int, a1: int, b0: int, b1: int) -> list[Line]:
    """The cheapest alignment of a stretch, every pair weighed."""
    rows, columns = a1 - a0, b1 - b0
    costs = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows, -1, -1):
        for column in range(columns, -1, -1):
            choices = []
            if row < rows and column < columns:
                choices.append(costs[row + 1][column + 1] + _cost(a[a0 + row], b[b0 + column]))
            if row < rows:
                choices.append(costs[row + 1][column] + GAP)
            if column < columns:
                choices.append(costs[row][column + 1] + GAP)
            costs[row][column] = min(choices, default=0)
    return _walked(a, b, costs, a0, b0)


def _walked(a: Sequence[Keyed], b: Sequence[Keyed], costs: list[list[int]], a0: int, b0: int) -> list[Line]:
    rows, columns = len(costs) - 1, len(costs[0]) - 1
    row = column = 0
    lines: list[Line] = []
    while row < rows or column < columns:
        both = row < rows and column < columns
        pair = _cost(a[a0 + row], b[b0 + column]) if both else 0
        if both and costs[row][column] == costs[row + 1][column + 1] + pair:
            lines.append(("changed" if pair else "same", a0 + row, b0 + column))
            row, column = row + 1, column + 1
        elif row < rows and costs[row][column] == costs[row + 1][column] + GAP:
            lines.append(("only_a", a0 + row, None))
            row += 1
        else:
            lines.append(("only_b", None, b0 + column))
            column += 1
    return lines


def _cost(a: Keyed, b: Keyed) -> int:
    if a == b:
        return 0
    same_tools = [call[0] for call in a[1]] == [call[0] for call in b[1]]
    return SAME_TOOLS if same_tools else OTHER_TOOLS
