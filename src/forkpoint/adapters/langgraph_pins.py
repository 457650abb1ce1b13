"""Which moment of a LangGraph thread a recorded function sees: the one at which it first looked, whenever it is called.

A function that is called again asks for everything again, and its record answers. A graph in it must then begin where
it began the first time, and not where that came to. So the thread's last event is a step of the function's run, and
what was written to the thread after it, by the call that was cut off, is not seen.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from forkpoint.adapters.langgraph_strand import Seen, everything
from forkpoint.agents.function import step
from forkpoint.runtime.recorder import Recorder, current

Head = Callable[[str], Awaitable[int]]

_NAME = "langgraph.thread"


@step(name=_NAME, read_only=True)
def _stand(**named: str) -> None:
    """Where a thread stands; what looks is given with each ask."""


class Pins:
    """What each recorded function sees of each thread."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._guard = threading.Lock()
        self._pinned: WeakKeyDictionary[Recorder, dict[str, Future[Seen]]] = WeakKeyDictionary()

    def seen(self, given: str) -> Seen:
        """What the function that this code belongs to sees of a thread; everything where nothing is recorded."""
        recorder = current()
        if recorder is None:
            return everything
        pinned, mine = self._place(recorder, given)
        if mine:
            _fill(pinned, lambda: recorder.waited(lambda: self._asked(recorder, given), _NAME, is_async=False))
        return pinned.result()

    async def aseen(self, given: str) -> Seen:
        """See ``seen``."""
        recorder = current()
        if recorder is None:
            return everything
        pinned, mine = self._place(recorder, given)
        if mine:
            try:
                pinned.set_result(await recorder.waited(lambda: self._asked(recorder, given), _NAME, is_async=True))
            except BaseException as error:
                pinned.set_exception(error)
        return await asyncio.wrap_future(pinned)

    def _place(self, recorder: Recorder, given: str) -> tuple["Future[Seen]", bool]:
        """Where the answer for a thread is told, and whether the caller is to find it."""
        with self._guard:
            known = self._pinned.setdefault(recorder, {})
            if given in known:
                return known[given], False
            known[given] = Future()
            return known[given], True

    async def _asked(self, recorder: Recorder, given: str) -> Seen:
        async def look(_: Any) -> int:
            return await self._head(given)

        answer = await recorder.step(_stand, {"thread_id": given}, perform=look)
        upto, now = int(answer.value), await self._head(given)

        def seen(seq: int) -> bool:
            return seq <= upto or seq > now

        return everything if upto == now else seen


def _fill(pinned: "Future[Seen]", find: Callable[[], Seen]) -> None:
    try:
        pinned.set_result(find())
    except BaseException as error:
        pinned.set_exception(error)
