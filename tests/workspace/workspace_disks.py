"""File-system ports that stop the world, refuse, or change a file behind the reader's back."""

import errno
import os
import signal
import sqlite3
from collections.abc import Callable
from typing import Any

from forkpoint.workspace.disk import Disk

WRITES = (
    "create",
    "write",
    "sync",
    "chmod",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "symlink",
    "discard",
    "commit",
)


class Killed(BaseException):
    """The process is gone: nothing after this is written by it."""


class Stopping(Disk):
    """Counts every call that writes, and calls ``stop`` at the one numbered ``at``, from 0.

    Once stopped, every later write stops too. A write that is stopped in the middle leaves half.
    """

    def __init__(self, at: int | None = None, *, half: bool = False) -> None:
        self.crossings, self._at, self._half = 0, at, half
        for name in WRITES:
            setattr(self, name, self._guarded(name, getattr(super(), name)))

    def stop(self, name: str) -> None:
        raise Killed(name)

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def crossing(*values: Any) -> Any:
            number, self.crossings = self.crossings, self.crossings + 1
            if self._at is None or number < self._at:
                return real(*values)
            if number == self._at and self._half:
                if name == "write":
                    real(values[0], values[1][: len(values[1]) // 2])
                else:
                    real(*values)
            return self.stop(name)

        return crossing


class Shooting(Stopping):
    """Kills this process for real."""

    def stop(self, name: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Full(Stopping):
    """A disk that is full from one write on, until ``freed``: what needs space is refused."""

    freed = False

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        if name in ("unlink", "rmdir", "chmod", "sync", "discard", "rename"):
            return real

        def crossing(*values: Any) -> Any:
            number, self.crossings = self.crossings, self.crossings + 1
            if self.freed or self._at is None or number < self._at:
                return real(*values)
            if name == "commit":
                raise sqlite3.OperationalError("database or disk is full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return crossing


class FullForFiles(Full):
    """A full disk that still takes the database's commits."""

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return real if name == "commit" else super()._guarded(name, real)
