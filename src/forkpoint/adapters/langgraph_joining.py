"""Writes that wait for the checkpoint that follows them, so that both are one commit.

LangGraph saves what a task wrote in the background, and the checkpoint that ends a super-step right after its last
task.

1. The writes of the last task wait for that checkpoint, ``JOIN_S`` at most. Saving them returns once they are on
   record.
2. Nothing else waits: of other tasks, the next may be long in coming; an error, an interrupt and the writes of a delta
   channel are themselves waited for; and after what is written within a task or from outside there is no checkpoint.
3. A checkpoint that cannot be recorded leaves its writes to who saves them.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from msgspec import Struct

from forkpoint.adapters.langgraph_strand import Name, Seen
from forkpoint.adapters.langgraph_telling import is_special, tasks_after

JOIN_S = 0.005
"""How long writes wait at most for their checkpoint."""

_WATCHED = 1024
_SOURCES = ("input", "loop", "fork")
_WITHIN = "~__pregel_push, ~"
_DELTAS = "counters_since_delta_snapshot"


class Wrote(Struct, frozen=True):
    """What one task wrote, and how who saves it is told whether it went on record with its checkpoint."""

    writes: Sequence[tuple[str, Any]]
    task: str
    path: str
    seen: Seen
    tell: Callable[[bool], None]


class _Step(Struct):
    """A super-step: how many of its tasks have not written, which channels are delta channels, and what waits."""

    tasks: int
    deltas: frozenset[str]
    waiting: Wrote | None = None


class Joining:
    """The super-steps that run in this process, by the checkpoint that they run from. Any OS thread may use it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._steps: dict[tuple[str, str, str], _Step] = {}

    def begin(self, given: str, ns: str, checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """A checkpoint is on its way to the record: what its tasks write comes next, if it has any."""
        tasks = tasks_after(checkpoint) if metadata.get("source") in _SOURCES else 0
        self.end(given, ns, checkpoint["id"])
        if not tasks:
            return
        snapshots = (name for name, value in checkpoint["channel_values"].items() if type(value) is _DeltaSnapshot)
        deltas = frozenset((*snapshots, *(metadata.get(_DELTAS) or ())))
        with self._guard:
            self._steps[given, ns, checkpoint["id"]] = _Step(tasks, deltas)
            oldest = next(iter(self._steps)) if len(self._steps) > _WATCHED else None
        if oldest is not None:
            self.end(*oldest)

    def end(self, given: str, ns: str, id: str) -> None:
        """No checkpoint is to follow that one."""
        one = self.taken(given, ns, id)
        if one is not None:
            one.tell(False)

    def taken(self, given: str, ns: str, id: str | None) -> Wrote | None:
        """What waits for the checkpoint after that one, which ends the super-step.

        Whoever takes it tells whether it went on record.
        """
        with self._guard:
            step = self._steps.pop((given, ns, id or ""), None)
            return None if step is None else step.waiting

    def wait(self, given: str, of: Name, writes: Any, task: str, path: str, seen: Seen) -> bool:
        """Wait for the checkpoint that follows; whether the writes went on record with it."""
        told: Future[bool] = Future()
        one = Wrote(writes, task, path, seen, told.set_result)
        if not self._offered(given, of, one):
            return False
        try:
            return told.result(JOIN_S)
        except TimeoutError:
            return False if self._withdrawn(given, of, one) else told.result()

    async def awaited(self, given: str, of: Name, writes: Any, task: str, path: str, seen: Seen) -> bool:
        """See ``wait``. Where it is cancelled, the writes may or may not be on record soon."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[bool] = loop.create_future()

        def here(joined: bool) -> None:
            if not told.done():
                told.set_result(joined)

        def late() -> None:
            if self._withdrawn(given, of, one):
                here(False)

        one = Wrote(writes, task, path, seen, lambda joined: _on(loop, here, joined))
        if not self._offered(given, of, one):
            return False
        timer = loop.call_later(JOIN_S, late)
        try:
            return await told
        finally:
            timer.cancel()

    def waits(self, given: str) -> bool:
        """Whether anything waits for a checkpoint of this thread."""
        with self._guard:
            return any(step.waiting is not None for (of, *_), step in self._steps.items() if of == given)

    def _offered(self, given: str, of: Name, one: Wrote) -> bool:
        """Have ``one`` wait, if nothing but its checkpoint is to follow it."""
        if not one.path.startswith("~") or one.path.startswith(_WITHIN):
            return False
        with self._guard:
            step = self._steps.get((given, *of))
            if step is None:
                return False
            step.tasks -= 1
            if step.tasks or any(is_special(channel) or channel in step.deltas for channel, _ in one.writes):
                return False
            step.waiting = one
            return True

    def _withdrawn(self, given: str, of: Name, one: Wrote) -> bool:
        with self._guard:
            step = self._steps.get((given, *of))
            if step is None or step.waiting is not one:
                return False
            step.waiting = None
            return True


def _on(loop: asyncio.AbstractEventLoop, call: Callable[[bool], None], joined: bool) -> None:
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        call(joined)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(call, joined)
