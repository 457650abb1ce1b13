"""Deaths for tests: wrap the ports of a runtime, and the process it stands for dies at any crossing of one.

Everything that lasts or shows crosses a port, so that dying before and after every crossing is dying at every moment
that can matter::

    world = ...                                   # counts what really happened, outside of every life
    store = MemoryJournal()

    def process(life):                            # what each process would build for itself
        agent = Agent("clerk", model=life.model(model), tools=[life.tool(tool) for tool in tools])
        return connect(life.journal(store.beside()), agents=[agent], clock=life.clock(clock))

    for crossing in await crossings(scenario, clock):
        life = Life(dies_at=crossing.number)
        with suppress(Killed):
            await life.live(scenario(life), clock)
        heir = Life()                             # another process, on what the first one left
        await heir.live(scenario(heir), clock)

``scenario(life)`` is what one process does, over a store and a world of its own each time the loop begins anew.

A death in process proves the logic. That a store keeps its word when the kernel ends its process is for real kills
to show.
"""

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from forkpoint.agents.tool import Tool
from forkpoint.ports import (
    Append,
    Clock,
    Commit,
    Journal,
    Lease,
    Model,
    ModelProgress,
    ModelRequest,
    ModelResponse,
    Page,
    RunFilter,
    RunRow,
    StoredCheckpoint,
)
from forkpoint.testing.fakes import FakeClock

T = TypeVar("T")

Side: TypeAlias = Literal["before", "after"]

QUIET_ROUNDS = 40
"""After how many rounds of the event loop without a crossing a life counts as waiting for time to pass."""

STEP_S = 0.25
"""How far time moves on when everything waits for it."""

MOVES = 10_000
"""How often time may move on in one life before it counts as stuck."""

_LASTING = ("append", "take_lease", "renew_lease", "release_lease", "delete", "collect")


class Killed(BaseException):
    """This life is over. ``except Exception`` lets it by, as the death of a process asks nobody."""


class Crossing(Struct, frozen=True):
    """One crossing of a port: its number (from 1), what crossed (``journal.append``, ``tool.charge``, ``probe.charge``,
    ``model``, ``clock``), and whether this is just before it or just after.

    ``lasting`` says that something outside of the process may be another thing after than before. To die at any
    other crossing leaves behind what dying at the one before it does.
    """

    number: int
    what: str
    side: Side
    lasting: bool


class Acknowledged(Struct, frozen=True):
    """Events up to ``seq`` of ``run`` that a journal said it has, ending in ``digest``."""

    run: str
    seq: int
    digest: bytes


class Mortal(Journal, Protocol):
    """A journal that can be let go of as a killed process does."""

    async def abandon(self) -> None:
        """Leases stay on record, and their owner is known to be dead."""
        ...


class Life:
    """One process, as far as its ports can tell: counted crossings, and an end at number ``dies_at``.

    From its end on every crossing raises ``Killed``, so that nothing more is written, performed or given back.
    ``crossings`` are those so far, ``acknowledged`` what its journal promised to keep.
    """

    def __init__(self, *, dies_at: int | None = None) -> None:
        self.dies_at = dies_at
        self.over = False
        self.crossings: list[Crossing] = []
        self.acknowledged: list[Acknowledged] = []
        self._journals: list[Mortal] = []

    def cross(self, what: str, side: Side, *, lasting: bool) -> None:
        """Pass one crossing. Raises ``Killed`` at the one to die at, and at every one after it."""
        if self.over:
            raise Killed
        self.crossings.append(Crossing(len(self.crossings) + 1, what, side, lasting))
        if len(self.crossings) == self.dies_at:
            self.over = True
            raise Killed

    def journal(self, journal: Mortal) -> Journal:
        """``journal`` for this life alone. When the life ends, its leases stay and their owner is dead."""
        self._journals.append(journal)
        return _Journal(self, journal)

    def model(self, model: Model) -> Model:
        """``model`` as this life asks it."""
        return _Model(self, model)

    def tool(self, tool: Tool[..., Any]) -> Tool[..., Any]:
        """``tool`` as this life performs it, and its probe as this life asks it."""
        probe = None if tool.probe is None else _crossed(self, f"probe.{tool.name}", tool.probe, tool.probe_is_async)
        function = _crossed(self, f"tool.{tool.name}", tool.function, tool.is_async)
        return dataclasses.replace(tool, function=function, probe=probe)

    def clock(self, clock: Clock) -> Clock:
        """``clock`` as this life reads it; its timers end with the life."""
        return _Clock(self, clock)

    async def live(self, work: Coroutine[Any, Any, T], clock: FakeClock) -> T:
        """What ``work`` gives, with ``clock`` moved on whenever nothing else happens. Raises ``Killed`` if the life
        ended before; then every task of it has ended too, and its journals are let go of.
        """
        others = asyncio.all_tasks()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_hear)
        task = loop.create_task(work)
        try:
            await self._carry(task, clock)
            if not self.over:
                return await task
        finally:
            self.over = True
            await _end({task, *asyncio.all_tasks()} - others)
            loop.set_exception_handler(None)
            for journal in self._journals:
                await journal.abandon()
        raise Killed

    async def _carry(self, task: "asyncio.Task[Any]", clock: FakeClock) -> None:
        for _ in range(MOVES):
            quiet, seen = 0, -1
            while quiet < QUIET_ROUNDS:
                if self.over or task.done():
                    return
                await asyncio.sleep(0)
                quiet = quiet + 1 if len(self.crossings) == seen else 0
                seen = len(self.crossings)
            await clock.advance(STEP_S)
        last = [crossing.what for crossing in self.crossings[-3:]]
        raise AssertionError(f"the life is stuck after {len(self.crossings)} crossings; the last were {last}")


def _hear(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out of the log that a callback met the end of its life; nobody above it could hear of it."""
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


async def _end(tasks: "set[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    # What they raise on their way out is nobody's any more: the process they stand for is gone.
    await asyncio.gather(*tasks, return_exceptions=True)


async def crossings(scenario: Callable[[Life], Coroutine[Any, Any, object]], clock: FakeClock) -> list[Crossing]:
    """Every crossing of a whole life of ``scenario``, in order: the places to die at."""
    life = Life()
    await life.live(scenario(life), clock)
    return life.crossings


def _crossed(life: Life, what: str, call: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    @functools.wraps(call)
    def crossing(*args: Any, **kwargs: Any) -> Any:
        life.cross(what, "before", lasting=True)
        result = call(*args, **kwargs)
        life.cross(what, "after", lasting=True)
        return result

    @functools.wraps(call)
    async def crossing_async(*args: Any, **kwargs: Any) -> Any:
        life.cross(what, "before", lasting=True)
        result = await call(*args, **kwargs)
        life.cross(what, "after", lasting=True)
        return result

    return crossing_async if is_async else crossing


class _Model:
    def __init__(self, life: Life, model: Model) -> None:
        self.name = model.name
        self._life, self._model = life, model

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        self._life.cross("model", "before", lasting=True)
        response = await self._model.respond(request, progress)
        self._life.cross("model", "after", lasting=True)
        return response


class _Clock:
    def __init__(self, life: Life, clock: Clock) -> None:
        self._life, self._clock = life, clock

    def now_ms(self) -> int:
        self._life.cross("clock.now_ms", "before", lasting=False)
        return self._clock.now_ms()

    def call_later(self, seconds: float, then: Callable[[], None]) -> Callable[[], None]:
        if self._life.over:
            return lambda: None  # a timer of a life that is over never comes
        self._life.cross("clock.call_later", "before", lasting=False)
        return self._clock.call_later(seconds, lambda: self._fire(then))

    def _fire(self, then: Callable[[], None]) -> None:
        if self._life.over:
            return
        try:
            self._life.cross("clock.timer", "before", lasting=False)
        except Killed:
            return  # nobody above a timer could hear of it; the life is over, and every crossing says so
        then()


class _Journal:
    """A journal whose every call is a crossing, and lets others go first, as a store on a network does."""

    def __init__(self, life: Life, journal: Journal) -> None:
        self._life, self._journal = life, journal

    async def _through(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        lasting = name in _LASTING
        self._life.cross(f"journal.{name}", "before", lasting=lasting)
        await asyncio.sleep(0)
        if self._life.over:
            raise Killed
        result = await call()
        self._life.cross(f"journal.{name}", "after", lasting=lasting)
        return result

    async def append(self, append: Append) -> None:
        await self._through("append", lambda: self._journal.append(append))
        commit = append.commit
        self._life.acknowledged.append(Acknowledged(append.run, commit.last, commit.digest))

    async def row(self, run: str) -> RunRow | None:
        return await self._through("row", lambda: self._journal.row(run))

    async def rows(self, which: RunFilter, *, after: int | None = None, limit: int = 50) -> Page:
        return await self._through("rows", lambda: self._journal.rows(which, after=after, limit=limit))

    async def children(self, run: str) -> tuple[RunRow, ...]:
        return await self._through("children", lambda: self._journal.children(run))

    async def commits(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        return await self._through("commits", lambda: self._journal.commits(run, after=after, upto=upto))

    async def outlines(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        return await self._through("outlines", lambda: self._journal.outlines(run, after=after, upto=upto))

    async def commit_reaching(self, run: str, *, step: int | None = None, turn: int | None = None) -> Commit | None:
        return await self._through("commit_reaching", lambda: self._journal.commit_reaching(run, step=step, turn=turn))

    async def effects_of_call(self, run: str, call: str) -> tuple[int, ...]:
        return await self._through("effects_of_call", lambda: self._journal.effects_of_call(run, call))

    async def checkpoint(self, run: str, *, upto: int) -> StoredCheckpoint | None:
        return await self._through("checkpoint", lambda: self._journal.checkpoint(run, upto=upto))

    async def blob(self, digest: str) -> bytes:
        return await self._through("blob", lambda: self._journal.blob(digest))

    async def take_lease(self, run: str, *, owner: str, now_ms: int, until_ms: int) -> Lease:
        return await self._through(
            "take_lease", lambda: self._journal.take_lease(run, owner=owner, now_ms=now_ms, until_ms=until_ms)
        )

    async def renew_lease(self, lease: Lease) -> None:
        await self._through("renew_lease", lambda: self._journal.renew_lease(lease))

    async def release_lease(self, lease: Lease) -> None:
        await self._through("release_lease", lambda: self._journal.release_lease(lease))

    async def version(self) -> int:
        return await self._through("version", self._journal.version)

    async def delete(self, run: str) -> None:
        await self._through("delete", lambda: self._journal.delete(run))

    async def collect(self) -> int:
        return await self._through("collect", self._journal.collect)

    async def close(self) -> None:
        await self._through("close", self._journal.close)
