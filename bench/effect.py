"""The effect of the tool in `--crash`, and the witness outside that counts how often it really happened.

The witness is a plain file beside the peer's store: one line each time the effect happens, on disk before
anything else goes on. It stands for the payment service that cannot be asked to forget.
"""

import os
import signal
from pathlib import Path

CRASH_STEPS = 3
FATAL_STEP = 2


def effect(number: int, witness: Path) -> None:
    """Let the effect of step `number` happen; the first time at the fatal step, the process then dies.

    It dies by SIGKILL, so nothing that a peer does on exit can save it.
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
