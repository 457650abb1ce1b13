"""The event loop that a saver's journal lives on, and how any OS thread and any other loop asks it to do things."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent import futures
from typing import TypeVar

from forkpoint.errors import RuntimeBlocksItself, RuntimeClosed

T = TypeVar("T")


class Home:
    """An event loop: its own, on an OS thread that never keeps the process from ending, or the one given."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._own = loop is None
        self._open = True
        self._loop = loop or asyncio.new_event_loop()
        self._runner: threading.Thread | None = None
        if self._own:
            self._runner = threading.Thread(target=self._run, name="forkpoint-langgraph", daemon=True)
            self._runner.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def wait(self, make: Callable[[], Awaitable[T]]) -> T:
        """What the awaitable that ``make`` gives comes to.

        Raises ``runtime.blocks-itself`` on the loop's own OS thread, and ``runtime.closed``.
        """
        if self._is_here():
            raise RuntimeBlocksItself()
        return self._begun(make).result()

    async def run(self, make: Callable[[], Awaitable[T]]) -> T:
        """The same, awaited on any loop. Being cancelled meanwhile does not call it off: it is recorded all the same.

        Raises ``runtime.closed``.
        """
        if self._is_here():
            return await asyncio.shield(make())
        return await asyncio.shield(asyncio.wrap_future(self._begun(make)))

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _begun(self, make: Callable[[], Awaitable[T]]) -> "futures.Future[T]":
        async def awaited() -> T:
            return await make()

        if not self._open or self._loop.is_closed():
            raise RuntimeClosed()
        return asyncio.run_coroutine_threadsafe(awaited(), self._loop)

    @property
    def is_open(self) -> bool:
        """Whether it still does things."""
        return self._open

    def stop(self) -> None:
        """End the loop, if it is its own. Stopping twice is stopping once."""
        if self._open and self._own:
            self._loop.call_soon_threadsafe(self._loop.stop)
            if self._runner is not None and threading.current_thread() is not self._runner:
                self._runner.join()
        self._open = False
