"""`python -m bench --crash`: die between a tool's effect and its record, then recover, and count.

The witness is a plain file beside the peer's database: one line each time the effect really happened,
on disk before anything else goes on. It stands for the payment service that cannot be asked to forget.
"""

import os
import signal
from pathlib import Path

CRASH_STEPS = 3
FATAL_STEP = 2


def effect(number: int, witness: Path) -> None:
    """Let the effect of step `number` happen; the first time at the fatal step, the process then dies.

    The process is killed with SIGKILL, so nothing that a peer does on exit can save it.
    """
    times_before = happened(FATAL_STEP, witness)
    with witness.open("a") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())
    if number == FATAL_STEP and times_before == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def happened(number: int, witness: Path) -> int:
    """How many times the effect of step `number` has happened so far."""
    if not witness.exists():
        return 0
    return witness.read_text().split().count(str(number))
