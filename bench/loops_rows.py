"""What `python -m bench.loops` measured: each loop's rounds, and what a loop adds to a step of the framework alone."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

from bench.loops_clock import Stretch
from bench.loops_listed import Role
from bench.peers import Durability
from bench.script import PAYLOAD_BYTES_STEP

Part = Literal["whole", "first", "last"]
Kind = Literal["cpu_us", "wall_us"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One run: what a step cost over the whole of it, and near its beginning and its end."""

    whole: Stretch
    first: Stretch
    last: Stretch

    def cost(self, kind: Kind, part: Part = "whole") -> float:
        """Microseconds a step."""
        stretch: Stretch = getattr(self, part)
        value: float = getattr(stretch, kind)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRow:
    """One loop at one durability and length, in all rounds; `stored` is how many bytes a run left, of the last round.

    Of a loop that keeps nothing, it is the bytes of the run's messages as the framework writes them.
    """

    family: str
    name: str
    role: Role
    durability: Durability
    steps: int
    rounds: tuple[Round, ...]
    stored: int

    @property
    def content(self) -> int:
        """What the run's messages hold as compact JSON: words, calls and results, and nothing that a framework adds."""
        return PAYLOAD_BYTES_STEP * self.steps

    def middle(self, kind: Kind, part: Part = "whole") -> float:
        """The median of the rounds."""
        return median(one.cost(kind, part) for one in self.rounds)

    def least(self, kind: Kind, part: Part = "whole") -> float:
        """The round that was disturbed least."""
        return min(one.cost(kind, part) for one in self.rounds)

    def flat(self) -> dict[str, object]:
        """The row for `--json`."""
        return asdict(self) | {"content": self.content}


Rows = Sequence[LoopRow]


def of(rows: Rows, *, family: str, durability: Durability, steps: int) -> list[LoopRow]:
    """The rows of one family that are compared with each other."""
    wanted = (family, durability, steps)
    return [row for row in rows if (row.family, row.durability, row.steps) == wanted]


def alone(row: LoopRow, rows: Rows) -> LoopRow | None:
    """The framework alone in the same rounds."""
    beside = of(rows, family=row.family, durability=row.durability, steps=row.steps)
    return next((one for one in beside if one.role == "alone"), None)


def added(row: LoopRow, rows: Rows, kind: Kind, part: Part = "whole") -> float | None:
    """What the loop adds to a step: the median of the differences, round by round."""
    return _difference(row, rows, lambda base: median(_differences(row, base, kind, part)))


def least_added(row: LoopRow, rows: Rows, kind: Kind, part: Part = "whole") -> float | None:
    """The same between the least disturbed round of each."""
    return _difference(row, rows, lambda base: row.least(kind, part) - base.least(kind, part))


def spread(row: LoopRow, rows: Rows, kind: Kind) -> tuple[float, float] | None:
    """The smallest and the largest of the differences."""
    base = alone(row, rows)
    found = _differences(row, base, kind, "whole") if base is not None and base is not row else []
    return (min(found), max(found)) if found else None


def growth(row: LoopRow, rows: Rows) -> float | None:
    """The CPU that is added near the end of a run as a multiple of what is added near its beginning."""
    first, last = added(row, rows, "cpu_us", "first"), added(row, rows, "cpu_us", "last")
    return last / first if first is not None and last is not None and first > 0 else None


def cheapest(rows: Rows, kind: Kind, *, family: str, durability: Durability, steps: int) -> float | None:
    """What the cheapest of the framework's own durable options adds to a step."""
    beside = of(rows, family=family, durability=durability, steps=steps)
    found = [added(row, rows, kind) for row in beside if row.role == "theirs"]
    costs = [cost for cost in found if cost is not None and cost > 0]
    return min(costs) if costs else None


def _difference(row: LoopRow, rows: Rows, between: Callable[[LoopRow], float]) -> float | None:
    base = alone(row, rows)
    return None if base is None or base is row else between(base)


def _differences(row: LoopRow, base: LoopRow, kind: Kind, part: Part) -> list[float]:
    pairs = zip(row.rounds, base.rounds, strict=False)  # what takes minutes is measured in the first round alone
    return [one.cost(kind, part) - other.cost(kind, part) for one, other in pairs]
