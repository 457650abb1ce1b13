"""The rows that a run of the benchmark prints: what they hold, and how repeats become one row."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from bench.peers import Durability

FIGURE_AT: dict[str, tuple[tuple[Durability, int], ...]] = {
    "first_step_ms": (("normal", 1_000),),
    "state_half_ms": (("normal", 1_000),),
    "history_ms": (("normal", 1_000),),
    "appends_per_fsync": (("full", 1_000),),
    "fold_events_s": (("normal", 10_000),),
    "fork_ms": (("normal", 1_000), ("normal", 10_000)),
    "fork_bytes": (("normal", 1_000), ("normal", 10_000)),
    "runs_page_ms": (("normal", 1_000),),
    "import_ms": (("normal", 1_000),),
    "cli_runs_ms": (("normal", 1_000),),
}
"""The further figures, and the rows (durability, steps) that hold them. A peer gives those it has."""

READING_KEYS = ("state_half_ms", "history_ms")
"""Taken before the others, because those add to the run they are taken on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One peer at one durability and length of run; a figure that was not measured is None.

    `cpu_us_step` and `wall_us_step` are microseconds, `payload_bytes` what the messages hold as JSON, `db_bytes` what
    the database's files hold after the run. `extra` has the figures of `FIGURE_AT` that were measured.
    """

    peer: str
    durability: Durability
    steps: int
    cpu_us_step: float | None = None
    wall_us_step: float | None = None
    payload_bytes: int | None = None
    db_bytes: int | None = None
    extra: dict[str, float] = field(default_factory=dict)

    def flat(self) -> dict[str, object]:
        """The row for `--json`: always the same keys, None where nothing was measured."""
        kept = asdict(self)
        extra = kept.pop("extra")
        return kept | {key: extra.get(key) for key in FIGURE_AT}

    def figure(self, key: str) -> float | None:
        """A figure by its key, wherever it is kept."""
        value = self.flat()[key]
        return value if isinstance(value, int | float) else None


def middle(values: Iterable[float]) -> float:
    """The median of repeats: one slow repeat on a busy machine does not move it."""
    return median(values)


def found(rows: Sequence[Row], *, peer: str, durability: Durability, steps: int) -> Row | None:
    """The row of that peer, durability and length, if it was measured."""
    wanted = (peer, durability, steps)
    return next((row for row in rows if (row.peer, row.durability, row.steps) == wanted), None)


def ratio(value: float | None, base: float | None) -> float | None:
    """`value / base`, or None when either was not measured or the base is nothing."""
    if value is None or not base:
        return None
    return value / base
