"""An event loop on an OS thread of its own, and how other OS threads ask it to do things."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent import futures
from typing import Any, TypeVar

from forkpoint.errors import RuntimeBlocksItself, RuntimeClosed

T = TypeVar("T")

_END: Any = object()
_ROUNDS = 10
"""How often what still runs is called off before the loop ends without it."""


class Loop:
    """Does what any OS thread asks of it, on an event loop that nothing else uses.

    Its OS thread never keeps the process from ending: a process that ends without ``stop`` leaves the runs that it
    performed as a killed one does, for recovery to find.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="forkpoint-blocking", daemon=True)
        self._open = True
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            for _ in range(_ROUNDS):
                if not (tasks := asyncio.all_tasks(self._loop)):
                    break
                for task in tasks:
                    task.cancel()
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=0))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    @property
    def open(self) -> bool:
        """Whether it still does things."""
        return self._open

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """What the awaitable that ``make`` gives comes to.

        An interrupt (Ctrl-C) calls it off, waits until it has let go, and goes on up. Raises ``runtime.closed``, or
        ``runtime.blocks-itself`` on the loop's own OS thread, where waiting would wait for ever.
        """
        if threading.get_ident() == self._thread.ident:
            raise RuntimeBlocksItself()
        done: futures.Future[T] = futures.Future()
        made: list[asyncio.Task[T]] = []

        def start() -> None:
            made.append(self._loop.create_task(_awaited(make)))
            made[0].add_done_callback(lambda task: _settle(task, done))

        def call_off() -> None:
            made[0].cancel()

        self._soon(start)
        try:
            return done.result()
        except futures.CancelledError:
            raise RuntimeClosed() from None
        except BaseException:
            if not done.done():
                # It came from outside, to this OS thread alone; what was asked for goes on until it is called off.
                self._soon(call_off)
                futures.wait([done])
            raise

    def _soon(self, act: Callable[[], object]) -> None:
        try:
            if not self._open:
                raise RuntimeClosed()
            self._loop.call_soon_threadsafe(act)
        except RuntimeError as error:  # another OS thread has closed it since
            raise RuntimeClosed() from error

    def iterate(self, make: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """What the async iterator that ``make`` gives yields, each when it is asked for."""
        stream = make()

        async def following() -> T:
            async for item in stream:
                return item
            ended: T = _END
            return ended

        try:
            while (item := self.call(following)) is not _END:
                yield item
        finally:
            self._close(stream)

    def _close(self, stream: Any) -> None:
        if not self._open:
            return
        if threading.get_ident() == self._thread.ident:
            # Nobody held on to it, and it was found on the loop's own OS thread.
            self._loop.create_task(stream.aclose())
        else:
            self.call(stream.aclose)

    def stop(self) -> None:
        """End the loop and its OS thread. Stopping twice is stopping once."""
        if self._open:
            self._open = False
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def _settle(task: asyncio.Task[T], done: "futures.Future[T]") -> None:
    if task.cancelled():
        done.set_exception(futures.CancelledError())
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


def opened(make: Callable[[], T]) -> tuple[Loop, T]:
    """A new loop, and what ``make`` gives on its OS thread."""
    loop = Loop()

    async def made() -> T:
        return make()

    try:
        return loop, loop.call(made)
    except BaseException:
        loop.stop()
        raise
