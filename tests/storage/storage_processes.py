"""Processes for tests: forked, so that they start at once, and always reaped."""

import asyncio
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Child:
    """A forked process. ``said`` reads what it wrote; ``tell`` lets it go on."""

    pid: int
    out: int
    into: int
    ended: int | None = None

    def said(self, size: int = 1 << 16) -> bytes:
        return os.read(self.out, size)

    def said_all(self) -> bytes:
        return b"".join(iter(self.said, b""))

    def tell(self) -> None:
        os.write(self.into, b"x")

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def until_stopped(self) -> None:
        os.waitpid(self.pid, os.WUNTRACED)

    def status(self) -> int:
        """Wait for its end; its exit status, or the signal that killed it as a negative number."""
        if self.ended is None:
            self.ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.ended


class Parent:
    """The child's end: ``say`` and ``wait``."""

    def __init__(self, out: int, into: int) -> None:
        self.out, self.into = out, into

    def say(self, text: bytes) -> None:
        os.write(self.out, text)

    def wait(self) -> None:
        os.read(self.into, 1)


@contextmanager
def child(work: Callable[[Parent], Awaitable[None]]) -> Iterator[Child]:
    """A process that does ``work`` and ends; it is killed if it is still there in the end."""
    (said, out), (into, tell) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(said)
        os.close(tell)
        _do(work, Parent(out, into))
    os.close(out)
    os.close(into)
    started = Child(pid, said, tell)
    try:
        yield started
    finally:
        if started.ended is None:
            started.kill(signal.SIGKILL)
            started.status()
        os.close(said)
        os.close(tell)


def _do(work: Callable[[Parent], Awaitable[None]], parent: Parent) -> None:
    status = 1
    try:
        asyncio.run(_whole(work, parent))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


async def _whole(work: Callable[[Parent], Awaitable[None]], parent: Parent) -> None:
    await work(parent)
