"""Processes that left the group of the command that began them, found by the mark in their environment.

Only where ``/proc`` tells, so on Linux. A process that cleared its environment as well is not found.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PASSES = 5
"""How often the list is read again while there is someone to end: a process may begin others meanwhile."""

_PROCESSES = Path("/proc")


def end_strays(mark: bytes, number: signal.Signals) -> None:
    """Signal every process whose environment has ``mark``; with KILL, until there is none."""
    for _ in range(PASSES if number == signal.SIGKILL else 1):
        if not [pid for pid in _marked(mark) if _signalled(pid, mark, number)]:
            return


def _marked(mark: bytes) -> Iterator[int]:
    if not hasattr(os, "pidfd_open") or not _PROCESSES.is_dir():
        return
    for process in _PROCESSES.iterdir():
        if process.name.isdigit() and _has(int(process.name), mark):
            yield int(process.name)


def _has(pid: int, mark: bytes) -> bool:
    try:
        return mark in (_PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is someone else's
        return False


def _signalled(pid: int, mark: bytes, number: signal.Signals) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Asked again now that the handle holds it: the number alone could be another process's by now.
        if not _has(pid, mark):
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        return True
    finally:
        os.close(handle)
