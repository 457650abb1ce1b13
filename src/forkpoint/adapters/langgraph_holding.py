"""One LangGraph thread in this process: what it has read of its run, and the right to write to it while it has that.

1. The lease is taken with the first write, and given back soon after the graph has come to rest. While a graph runs
   on, it lasts until nothing was written for as long as a lease lasts.
2. Who had no lease meanwhile may write again only if nobody else wrote since this process last read the thread.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from forkpoint.adapters.langgraph_noting import NotingCell
from forkpoint.adapters.langgraph_strand import Strand
from forkpoint.effects import StepCall
from forkpoint.errors import RunBusy
from forkpoint.errors.langgraph import GraphMoved, GraphRunTaken
from forkpoint.events import EffectRequested, RecordedEvent, RunStarted
from forkpoint.ports import Lease, RunRow
from forkpoint.runtime.cell import Edge

NAME = "langgraph"
"""The name of the agent and of the function that a thread's run is of."""

POLL_S = 0.02


class Held:
    """One thread. ``lock`` is held while it is read or written."""

    def __init__(self, edge: Edge, given: str, run: str, shown: Callable[[Any], Any]) -> None:
        self.given = given
        self.run = run
        self.strand = Strand(run)
        self.cell = NotingCell(edge, run)
        self.lease: Lease | None = None
        self.read_at: int | None = None
        self.known: set[int] = set()
        """The checkpoints whose values and writes are known by their digests."""
        self.lock = asyncio.Lock()
        self._edge = edge
        self._shown = shown
        self._born_ms = 0
        self._calm: Callable[[], None] | None = None
        self._resting: asyncio.Task[None] | None = None

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────

    async def read_on(self, row: RunRow | None) -> None:
        """Read what is new. ``row`` is the run's row, if there is one. Raises ``langgraph.run-taken``."""
        born_ms = 0 if row is None else row.started_at_ms
        if self._born_ms not in (0, born_ms):
            self._forget()
        self._born_ms = born_ms
        if row is None or row.head == self.strand.seq:
            return
        for recorded in await self._edge.reader.history(self.run, after=self.strand.seq, upto=row.head):
            self._check(recorded)
            self.strand.note(await self._whole(recorded))

    def _forget(self) -> None:
        """The run is gone, or another one of its name: what is known of it is of no use."""
        self.strand, self.cell = Strand(self.run), NotingCell(self._edge, self.run)
        self.lease = self.read_at = None
        self.known.clear()

    def _check(self, recorded: RecordedEvent) -> None:
        event = recorded.event
        if isinstance(event, RunStarted) and event.function != NAME:
            owner = f"the function {event.function}" if event.function else f"the agent {event.agent.name}"
            raise GraphRunTaken(given=self.given, run=self.run, owner=owner)

    async def _whole(self, recorded: RecordedEvent) -> RecordedEvent:
        """The event with the arguments of its effect in place; a large result stays aside until it is needed."""
        event = recorded.event
        if isinstance(event, EffectRequested) and isinstance(event.effect, StepCall):
            event = self._shown(await self._edge.reader.whole(event))
            return replace(recorded, event=event)
        return replace(recorded, event=self._shown(event))

    # ── the right to write ────────────────────────────────────────────────────────────────────────────────────

    async def take(self, busy_s: float) -> bool:
        """Take the lease, if it is not held; whether it was taken now.

        Waits up to ``busy_s`` for another process to give it back, and raises ``run.busy`` then.
        """
        self.stay()
        if self.lease is not None:
            return False
        waited = 0.0
        while True:
            now_ms = self._edge.clock.now_ms()
            try:
                self.lease = await self._edge.journal.take_lease(
                    self.run, owner=self._edge.owner, now_ms=now_ms, until_ms=now_ms + self._edge.lease_ms
                )
            except RunBusy:
                if waited >= busy_s:
                    raise
            else:
                return True
            await _pause(self._edge, POLL_S)
            waited += POLL_S

    def check_unmoved(self) -> None:
        """Raises ``langgraph.moved`` where another process wrote since this one last read the thread."""
        if self.read_at is not None and self.strand.effects_upto > self.read_at:
            raise GraphMoved(given=self.given, expected=self.read_at, actual=self.strand.seq)

    def rest_after(self, seconds: float) -> None:
        """Give the lease back after ``seconds`` without a write."""
        self.stay()
        self._calm = self._edge.clock.call_later(seconds, self._begin_rest)

    def _begin_rest(self) -> None:
        # Held on to: an event loop itself does not keep its tasks alive.
        self._resting = asyncio.get_running_loop().create_task(self._rest())

    async def _rest(self) -> None:
        async with self.lock:
            if self._resting is asyncio.current_task():
                await self.release()

    def stay(self) -> None:
        """Keep the lease: the thread is in use."""
        if self._calm is not None:
            self._calm()
        self._calm = self._resting = None

    async def release(self) -> None:
        """Give the lease back."""
        self.stay()
        lease, self.lease = self.lease, None
        if lease is not None:
            await self._edge.journal.release_lease(lease)


async def _pause(edge: Edge, seconds: float) -> None:
    over = asyncio.Event()
    edge.clock.call_later(seconds, over.set)
    await over.wait()
