"""The printed form: one table of the loop, one of the cold figures, one of what was reached, and the notes."""

from collections.abc import Sequence

from bench.figures import Verdict, verdicts
from bench.measure import Measured
from bench.peers import BASELINE, OURS
from bench.rows import Row, found, ratio

_SHARED = ("first_step_ms", "state_half_ms", "history_ms")

Cells = Sequence[Sequence[str]]


def printed(measured: Measured) -> str:
    """Everything that one run of the benchmark has to say, as text."""
    parts = [titled("The loop: medians a step, and multiples of bare sqlite3", _loop_cells(measured.rows))]
    shared = [row for row in measured.rows if any(key in row.extra for key in _SHARED)]
    if shared:
        parts.append(titled("A run of 1,000 steps from a new process, after imports (ms)", _shared_cells(shared)))
    if any(row.peer == OURS for row in measured.rows):
        parts.append(titled("What Forkpoint wants to reach", verdict_cells(verdicts(measured.rows))))
    parts.append("\n".join(["Notes", *measured.notes]))
    return "\n\n".join(parts)


def aligned(cells: Cells) -> str:
    """Columns as wide as their widest cell: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "\n".join(_line(row, widths) for row in cells)


def multiple(value: float | None) -> str:
    """A ratio as people read it: two figures below ten, none after the point above."""
    if value is None:
        return "-"
    return f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def titled(title: str, cells: Cells) -> str:
    """A table under its title."""
    return f"{title}\n\n{aligned(cells)}"


def _loop_cells(rows: Sequence[Row]) -> Cells:
    head = ["peer", "durability", "steps", "CPU µs", "xbare", "wall µs", "xbare", "db bytes", "xpayload"]
    ordered = sorted(rows, key=lambda row: (row.durability != "normal", row.steps))
    return [head, *[_loop_line(row, rows) for row in ordered]]


def _loop_line(row: Row, rows: Sequence[Row]) -> list[str]:
    bare = found(rows, peer=BASELINE, durability=row.durability, steps=row.steps)
    return [
        row.peer,
        row.durability,
        f"{row.steps:,}",
        _number(row.cpu_us_step),
        multiple(ratio(row.cpu_us_step, bare.cpu_us_step if bare else None)),
        _number(row.wall_us_step),
        multiple(ratio(row.wall_us_step, bare.wall_us_step if bare else None)),
        _number(row.db_bytes),
        multiple(ratio(row.db_bytes, row.payload_bytes)),
    ]


def _shared_cells(rows: Sequence[Row]) -> Cells:
    head = ["peer", "first new step", "state at step 500", "list history"]
    return [head, *[[row.peer, *[_number(row.extra.get(key), 1) for key in _SHARED]] for row in rows]]


def verdict_cells(judged: Sequence[Verdict]) -> Cells:
    """Figures beside what they are to reach, and whether they did."""
    words = {True: "reached", False: "NOT REACHED", None: "not measured"}
    head = ["figure", "value", "reach", "verdict"]
    lines = [
        [
            f"{verdict.figure.name} ({verdict.figure.compared})",
            "-" if verdict.value is None else f"{verdict.value:,.4g}{verdict.figure.unit}",
            verdict.figure.reach,
            words[verdict.reached],
        ]
        for verdict in judged
    ]
    return [head, *lines]


def _number(value: float | None, places: int = 0) -> str:
    return "-" if value is None else f"{value:,.{places}f}"
