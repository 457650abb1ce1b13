"""The clock of the machine."""

import asyncio
import time
from collections.abc import Callable


class SystemClock:
    """Wall time, and timers of the running event loop."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, then: Callable[[], None]) -> Callable[[], None]:
        """Call ``then`` after ``seconds``, unless what is returned is called first."""
        return asyncio.get_running_loop().call_later(seconds, then).cancel
