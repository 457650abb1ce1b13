"""What a measured stretch cost: CPU of this process with all its OS threads, and wall time."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Cost:
    """CPU and wall time of one stretch, in microseconds; zero until the stretch has ended."""

    cpu_us: float = 0.0
    wall_us: float = 0.0

    @property
    def wall_ms(self) -> float:
        """Wall time in milliseconds, the unit of the figures taken in a new process."""
        return self.wall_us / 1e3


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure the body of a `with`: the cost is filled in when the body ends."""
    cost = Cost()
    wall, cpu = time.perf_counter(), _cpu_s()
    try:
        yield cost
    finally:
        cost.cpu_us = (_cpu_s() - cpu) * 1e6
        cost.wall_us = (time.perf_counter() - wall) * 1e6


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
