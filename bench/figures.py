"""Every figure that Forkpoint wants to reach, how it is computed from the rows, and whether it was reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.peers import BASELINE, OURS, Durability
from bench.rows import Row, found, ratio

Rows = Sequence[Row]
Computed = Callable[[Any], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the final table: `value` gives None when what it needs was not measured.

    `compared` says in words what is set against what. The figure is reached when its value is at most, or at
    least, `limit`.
    """

    key: str
    name: str
    compared: str
    bound: Literal["at most", "at least"]
    limit: float
    unit: str
    value: Computed

    @property
    def reach(self) -> str:
        """The bound in words, with its unit."""
        return f"{self.bound} {self.limit:,g}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A figure, its value in this run, and whether that reaches it; None for both when not measured."""

    figure: Figure
    value: float | None
    reached: bool | None


def verdicts(rows: Rows) -> tuple[Verdict, ...]:
    """Judge every figure by the rows of one run of the benchmark."""
    return tuple(judged(figure, rows) for figure in FIGURES)


def judged(figure: Figure, rows: Any) -> Verdict:
    """One figure's value in these rows, and whether that reaches it."""
    value = figure.value(rows)
    if value is None:
        return Verdict(figure=figure, value=None, reached=None)
    reached = value <= figure.limit if figure.bound == "at most" else value >= figure.limit
    return Verdict(figure=figure, value=value, reached=reached)


def _of(rows: Rows, key: str, *, peer: str = OURS, at: tuple[Durability, int] = ("normal", 1_000)) -> float | None:
    row = found(rows, peer=peer, durability=at[0], steps=at[1])
    return None if row is None else row.figure(key)


def _own(key: str, *, at: tuple[Durability, int] = ("normal", 1_000)) -> Computed:
    return lambda rows: _of(rows, key, at=at)


def _grown(key: str, *, small: int, large: int) -> Computed:
    """The figure in a run of `large` steps as a multiple of the same in a run of `small` steps."""
    return lambda rows: ratio(_of(rows, key, at=("normal", large)), _of(rows, key, at=("normal", small)))


def _against_bare(rows: Rows) -> float | None:
    return ratio(_of(rows, "cpu_us_step"), _of(rows, "cpu_us_step", peer=BASELINE))


def _below(prefix: str) -> Computed:
    """How many times more CPU the cheapest peer of that family takes a step."""

    def times_less(rows: Rows) -> float | None:
        family = {row.peer for row in rows if row.peer == prefix or row.peer.startswith(f"{prefix}-")}
        costs = [cost for peer in family if (cost := _of(rows, "cpu_us_step", peer=peer)) is not None]
        return ratio(min(costs), _of(rows, "cpu_us_step")) if costs else None

    return times_less


def _full_beside_fsync(rows: Rows) -> float | None:
    """CPU at FULL without what the two fsyncs a step cost bare SQLite, as a multiple of CPU at NORMAL."""
    full, normal = (_of(rows, "cpu_us_step", at=(durability, 1_000)) for durability in ("full", "normal"))
    bare = [_of(rows, "cpu_us_step", peer=BASELINE, at=(durability, 1_000)) for durability in ("full", "normal")]
    if full is None or bare[0] is None or bare[1] is None:
        return None
    return ratio(full - max(0.0, bare[0] - bare[1]), normal)


def _bytes_over_payload(rows: Rows) -> float | None:
    return ratio(_of(rows, "db_bytes"), _of(rows, "payload_bytes"))


FIGURES: tuple[Figure, ...] = (
    Figure(
        key="cpu_over_bare",
        name="CPU a durable step at NORMAL",
        compared="against bare sqlite3, 1,000 steps, everything on",
        bound="at most",
        limit=5,
        unit="x",
        value=_against_bare,
    ),
    Figure(
        key="cpu_below_langgraph",
        name="CPU a durable step, LangGraph's cheapest",
        compared="the cheapest LangGraph row as a multiple of ours, NORMAL, 1,000 steps",
        bound="at least",
        limit=8,
        unit="x",
        value=_below("langgraph"),
    ),
    Figure(
        key="cpu_below_dbos",
        name="CPU a durable step, DBOS",
        compared="DBOS as a multiple of ours, NORMAL, 1,000 steps",
        bound="at least",
        limit=8,
        unit="x",
        value=_below("dbos"),
    ),
    Figure(
        key="cpu_full_over_normal",
        name="CPU a step at FULL",
        compared="against NORMAL, less what FULL adds to bare sqlite3 (the fsyncs' own), 1,000 steps",
        bound="at most",
        limit=1.3,
        unit="x",
        value=_full_beside_fsync,
    ),
    Figure(
        key="appends_per_fsync",
        name="appends that share an fsync",
        compared="64 runs at once in one process at FULL",
        bound="at least",
        limit=16,
        unit="",
        value=_own("appends_per_fsync", at=("full", 1_000)),
    ),
    Figure(
        key="cpu_growth",
        name="CPU a step at 10,000 steps",
        compared="against 100 steps, NORMAL",
        bound="at most",
        limit=1.2,
        unit="x",
        value=_grown("cpu_us_step", small=100, large=10_000),
    ),
    Figure(
        key="bytes_over_payload",
        name="database bytes after 1,000 steps",
        compared="against the payload's bytes",
        bound="at most",
        limit=1.65,
        unit="x",
        value=_bytes_over_payload,
    ),
    Figure(
        key="fold_events_s",
        name="reading, checking digests and folding 10,000 steps",
        compared="events a second",
        bound="at least",
        limit=150_000,
        unit="/s",
        value=_own("fold_events_s", at=("normal", 10_000)),
    ),
    Figure(
        key="fork_ms",
        name="fork, cold, at step 9,999 of 10,000 with a replaced tool result",
        compared="wall time",
        bound="at most",
        limit=5,
        unit=" ms",
        value=_own("fork_ms", at=("normal", 10_000)),
    ),
    Figure(
        key="fork_bytes",
        name="the same fork's bytes",
        compared="growth of the database",
        bound="at most",
        limit=8_192,
        unit=" B",
        value=_own("fork_bytes", at=("normal", 10_000)),
    ),
    Figure(
        key="fork_growth",
        name="the same fork's time",
        # "The same" needs a tolerance: a fork that read its parent would take ten times as long.
        compared="against step 999 of 1,000 (same within 1.5x)",
        bound="at most",
        limit=1.5,
        unit="x",
        value=_grown("fork_ms", small=1_000, large=10_000),
    ),
    Figure(
        key="first_step_ms",
        name="first new step of a 1,000-step run in a new process",
        compared="wall time after imports",
        bound="at most",
        limit=25,
        unit=" ms",
        value=_own("first_step_ms"),
    ),
    Figure(
        key="state_half_ms",
        name="state at step 500 of 1,000, cold",
        compared="wall time in a new process after imports",
        bound="at most",
        limit=10,
        unit=" ms",
        value=_own("state_half_ms"),
    ),
    Figure(
        key="history_ms",
        name="listing the history of a 1,000-step run without bodies",
        compared="wall time in a new process after imports",
        bound="at most",
        limit=5,
        unit=" ms",
        value=_own("history_ms"),
    ),
    Figure(
        key="runs_page_ms",
        name="listing a page of 50 among 10,000 runs",
        compared="wall time; that it reads no events is a test",
        bound="at most",
        limit=10,
        unit=" ms",
        value=_own("runs_page_ms"),
    ),
    Figure(
        key="import_ms",
        name="import forkpoint",
        compared="wall time above bare Python",
        bound="at most",
        limit=80,
        unit=" ms",
        value=_own("import_ms"),
    ),
    Figure(
        key="cli_runs_ms",
        name="forkpoint runs",
        compared="wall time above bare Python",
        bound="at most",
        limit=300,
        unit=" ms",
        value=_own("cli_runs_ms"),
    ),
)
