"""What a run cost, step by step: CPU of the process with all its OS threads, and wall time."""

import time
from dataclasses import dataclass, field

WINDOW = 100
"""How many steps the first and the last stretch have at most whose costs are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one step cost on average over a stretch of a run, in microseconds."""

    cpu_us: float
    wall_us: float


@dataclass(slots=True)
class Clock:
    """Times at the beginning of a run, at each of its tool calls, and at its end."""

    _marks: list[tuple[int, int]] = field(default_factory=list)

    def mark(self) -> None:
        """A run begins, the tool of one more step is called, or the run has ended."""
        self._marks.append((time.process_time_ns(), time.perf_counter_ns()))

    @property
    def steps(self) -> int:
        """How many steps were told of between the beginning and the end."""
        return len(self._marks) - 2

    def whole(self) -> Stretch:
        """A step's share of the whole run, its beginning and its end included."""
        return self._stretch(0, len(self._marks) - 1, self.steps)

    def first(self) -> Stretch:
        """A step from tool call to tool call near the beginning: of the first 100, or the first half if it is less."""
        count = self._window()
        return self._stretch(1, 1 + count, count)

    def last(self) -> Stretch:
        """The same near the end."""
        count = self._window()
        return self._stretch(self.steps - count, self.steps, count)

    def _window(self) -> int:
        return min(WINDOW, max(1, self.steps // 2))

    def _stretch(self, begin: int, end: int, steps: int) -> Stretch:
        (cpu, wall), (cpu_after, wall_after) = self._marks[begin], self._marks[end]
        return Stretch(cpu_us=(cpu_after - cpu) / 1e3 / steps, wall_us=(wall_after - wall) / 1e3 / steps)
