"""Every figure that Forkpoint wants to reach inside other people's loops, and how it is computed from the rows."""

from collections.abc import Iterator, Sequence
from typing import Any

from bench.figures import Figure, Verdict, judged
from bench.loops_listed import FAMILIES, LANGGRAPH_ASYNC
from bench.loops_rows import Kind, LoopRow, Rows, added, cheapest, growth, of
from bench.peers import Durability
from bench.rows import ratio

SHARE = 0.2
GROWTH = 1.2
BYTES = 1.5
LENGTHS = (10, 100, 1_000)
LONGEST = 1_000


def verdicts(rows: Rows) -> tuple[Verdict, ...]:
    """Judge every figure of the loops by the rows of one run of the benchmark."""
    return tuple(judged(figure, rows) for figure in FIGURES)


def out_of_reach(rows: Rows) -> Iterator[str]:
    """Where a floor alone adds more than the share of the framework's own option that ours is to add at most."""
    for row in rows:
        where = {"family": row.family, "durability": row.durability, "steps": row.steps}
        theirs = cheapest(rows, "cpu_us", **where)  # type: ignore[arg-type]
        share = ratio(added(row, rows, "cpu_us"), theirs) if row.role == "floor" else None
        if share is not None and share > SHARE:
            what = f"{row.family}/{row.name}, {row.durability.upper()}, {row.steps:,} steps"
            yield f"{what}: {share:.2f}x of the CPU that the cheapest durable option adds, with no record"


def _ours(rows: Rows, family: str, name: str, durability: Durability, steps: int) -> LoopRow | None:
    beside = of(rows, family=family, durability=durability, steps=steps)
    return next((row for row in beside if row.name == name), None)


def _figures(family: str, name: str) -> Iterator[Figure]:
    what = f"{family}/{name}"
    for steps in LENGTHS:
        yield _share(what, family, name, "cpu_us", "normal", steps)
    yield _share(what, family, name, "cpu_us", "full", 100)
    yield _share(what, family, name, "wall_us", "full", 100)

    def grown(rows: Any) -> float | None:
        row = _ours(rows, family, name, "normal", LONGEST)
        return None if row is None else growth(row, rows)

    def heavy(rows: Any) -> float | None:
        row = _ours(rows, family, name, "normal", LONGEST)
        return None if row is None else row.stored / row.content

    compared = f"the last 100 of {LONGEST:,} steps against the first 100, NORMAL (no growth, within {GROWTH}x)"
    yield _figure(f"{what} growth", f"{what}: CPU added a step", compared, GROWTH, grown)
    compared = f"against the content's bytes, {LONGEST:,} steps"
    yield _figure(f"{what} bytes", f"{what}: bytes stored", compared, BYTES, heavy)


def _share(what: str, family: str, name: str, kind: Kind, durability: Durability, steps: int) -> Figure:
    def value(rows: Any) -> float | None:
        row = _ours(rows, family, name, durability, steps)
        mine = None if row is None else added(row, rows, kind)
        return ratio(mine, cheapest(rows, kind, family=family, durability=durability, steps=steps))

    word = "CPU" if kind == "cpu_us" else "wall time"
    compared = f"against the framework's cheapest durable option, {durability.upper()}, {steps:,} steps"
    return _figure(f"{what} {kind} {durability} {steps}", f"{what}: {word} added a step", compared, SHARE, value)


def _figure(key: str, name: str, compared: str, limit: float, value: Any) -> Figure:
    return Figure(key=key, name=name, compared=compared, bound="at most", limit=limit, unit="x", value=value)


def _all() -> Iterator[Figure]:
    for family in FAMILIES:
        yield from _figures(family, "forkpoint")
    yield from _figures(LANGGRAPH_ASYNC, "recorded")


FIGURES: Sequence[Figure] = tuple(_all())
