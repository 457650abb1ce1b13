"""`python -m bench.loops`: what durability adds to a step of other people's loops, theirs and ours.

The same Pydantic AI agent alone, with its DBOS integration, with the step persistence of its harness, and with ours;
the same LangGraph agent alone, with its SQLite saver and with ours. A floor is the framework's own way of being durable
with nothing behind it but one row and one commit of what is new: no engine or saver adds less. Progress goes to
standard error.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from bench.arguments import add_common, each_of
from bench.loops_figures import SHARE, out_of_reach, verdicts
from bench.loops_listed import FAMILIES, VARIANTS
from bench.loops_measure import Found, Wanted, measure
from bench.loops_rows import LoopRow, Rows, added, cheapest, growth, least_added, spread
from bench.rows import ratio
from bench.table import Cells, multiple, titled, verdict_cells

DEFAULT_STEPS = (10, 100, 1_000)


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for."""
    asked = parser().parse_args(arguments)
    variants = [variant for variant in VARIANTS if variant.family in asked.families]
    wanted = Wanted(variants=variants, steps=asked.steps, durabilities=asked.durability, rounds=asked.repeat)
    found = measure(wanted, _tell)
    if asked.json:
        for note in found.notes:
            _tell(note)
    print(json.dumps([row.flat() for row in found.rows], indent=1) if asked.json else printed(found))


def parser() -> argparse.ArgumentParser:
    """What `python -m bench.loops` can be asked for: `families`, `steps`, `durability`, `repeat` and `json`."""
    made = argparse.ArgumentParser(
        prog="python -m bench.loops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--families", type=_families, default=FAMILIES, help=f"of {','.join(FAMILIES)}")
    add_common(made, steps=DEFAULT_STEPS, repeat=5)
    return made


def _families(text: str) -> tuple[str, ...]:
    return each_of(text, FAMILIES)


def printed(found: Found) -> str:
    """Everything that one run has to say, as text."""
    title = "Loops: medians a step, and what is added to the framework alone (µs)"
    figures = [verdict for verdict in verdicts(found.rows) if verdict.value is not None]
    parts = [titled(title, _cells(found.rows))]
    if figures:
        parts.append(titled("What Forkpoint wants to reach", verdict_cells(figures)))
    if beyond := list(out_of_reach(found.rows)):
        parts.append(
            "\n".join([f"Where no engine, saver or middleware adds {SHARE}x: one that only writes rows", *beyond])
        )
    return "\n\n".join([*parts, "\n".join(["Notes", *found.notes])])


def _cells(rows: Rows) -> Cells:
    head = ["loop", "durability", "steps", "CPU", "adds", "least", "spread", "xcheapest", "wall adds", "xcheapest"]
    return [[*head, "growth", "bytes a step", "xcontent"], *[_line(row, rows) for row in rows]]


def _line(row: LoopRow, rows: Rows) -> list[str]:
    where = {"family": row.family, "durability": row.durability, "steps": row.steps}
    cpu, wall = added(row, rows, "cpu_us"), added(row, rows, "wall_us")
    between = spread(row, rows, "cpu_us")
    return [
        f"{row.family}/{row.name}",
        row.durability,
        f"{row.steps:,}",
        _number(row.middle("cpu_us")),
        _number(cpu),
        _number(least_added(row, rows, "cpu_us")),
        "-" if between is None else f"{between[0]:,.0f}…{between[1]:,.0f}",
        multiple(ratio(cpu, cheapest(rows, "cpu_us", **where))),  # type: ignore[arg-type]
        _number(wall),
        multiple(ratio(wall, cheapest(rows, "wall_us", **where))),  # type: ignore[arg-type]
        multiple(growth(row, rows)),
        _number(row.stored / row.steps),
        multiple(row.stored / row.content),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
