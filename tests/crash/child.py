"""Processes to kill: one interpreter that has everything loaded, and forks a process for each piece of work.

It is started by ``processes.Nursery`` and spoken to over a socket: a line of JSON with a descriptor is work for a new
process, which talks over that descriptor; a line without asks for the end of one. It forks before there is an event
loop or an open store, so that a forked process is like one that was just started.

A process stops at the boundary it is told to (``stop``) and waits there for a byte, so that it can be killed exactly
there. The boundaries are in the wrappers here; the product knows nothing of them.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from forkpoint.agents.tool import Tool, ToolContext
from forkpoint.effects import ToolCall
from forkpoint.errors import RunBusy, RunNotFound
from forkpoint.events import (
    ApprovalDecided,
    EffectDispatched,
    EffectRequested,
    EffectSettled,
    RecordedEvent,
    RunContinued,
)
from forkpoint.ports import Append, Commit
from forkpoint.runtime.reading import decode_commit
from forkpoint.runtime.runtime import Runtime
from forkpoint.stores.sqlite import SqliteJournal

from .clerk import RUN, Errand, Office, World, decide
from .witness import Witness


class Stop(Struct, frozen=True, kw_only=True):
    """Where to stop: at the ``nth`` time that the boundary ``at`` is reached for the tool ``of``."""

    at: str
    of: str
    nth: int = 1


class Work(Struct, frozen=True, kw_only=True):
    """What a process is to do about the errand. ``ahead`` is a file with the milliseconds that the clock is ahead.

    ``waits`` has it go on only while the test hears what it acknowledges, but for a handful.
    """

    do: str
    store: str
    errand: Errand
    stop: Stop | None = None
    verdict: str = "abandoned_unknown"
    lease_s: float = 30.0
    ahead: str | None = None
    report: bool = True
    waits: bool = False


class Line:
    """The process's end of the talk with the test."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def say(self, **what: Any) -> None:
        """Tell the test something."""
        self._socket.sendall(json.dumps(what).encode() + b"\n")

    async def word(self) -> None:
        """Wait for the test's word, and let everything else go on meanwhile."""
        loop, given = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._socket, given.set)
        try:
            await given.wait()
            self._socket.recv(1)
        finally:
            loop.remove_reader(self._socket)

    def wait(self) -> None:
        """Stand still, with all of the process, until the test says to go on; end if it is gone."""
        if not self._socket.recv(1):
            os._exit(3)


class Boundaries:
    """Stops the process where it was told to."""

    def __init__(self, line: Line, stop: Stop | None) -> None:
        self._line, self._stop = line, stop
        self._passed = 0

    def at(self, boundary: str, tool: str) -> None:
        """The process is at a boundary of a call of ``tool``."""
        stop = self._stop
        if stop is None or (stop.at, stop.of) != (boundary, tool):
            return
        self._passed += 1
        if self._passed == stop.nth:
            self._line.say(at=boundary, of=tool)
            self._line.wait()


class WatchedJournal:
    """A journal that knows which tool's call an addition is about, and tells what it acknowledged."""

    def __init__(self, journal: SqliteJournal, boundaries: Boundaries, line: Line, *, report: bool) -> None:
        self._journal, self._boundaries, self._line, self._report = journal, boundaries, line, report
        self._tools: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def learn(self) -> None:
        """Learn the effects that earlier processes requested."""
        try:
            commits = await self._journal.commits(RUN)
        except RunNotFound:
            return
        for commit in commits:
            self._keep(_events_in(commit, RUN))

    def _keep(self, events: list[RecordedEvent]) -> None:
        for recorded in events:
            event = recorded.event
            if isinstance(event, EffectRequested) and isinstance(event.effect, ToolCall):
                self._tools[recorded.seq] = event.effect.tool

    async def append(self, append: Append) -> None:
        """Add to the run, stopping before and after as told."""
        events = _events_in(append.commit, append.run)
        self._keep(events)
        for boundary, tool in self._boundaries_of(events, "before"):
            self._boundaries.at(boundary, tool)
        await self._journal.append(append)
        if self._report:
            self._line.say(acked=append.commit.last, digest=append.commit.digest.hex())
        for boundary, tool in self._boundaries_of(events, "after"):
            self._boundaries.at(boundary, tool)

    def _boundaries_of(self, events: list[RecordedEvent], side: str) -> list[tuple[str, str]]:
        named = {
            EffectRequested: ("before the request", "requested"),
            EffectDispatched: ("before the dispatch", "dispatched"),
            EffectSettled: ("before the outcome", "settled"),
            ApprovalDecided: ("before the approval", "approved"),
        }
        found = []
        for recorded in events:
            event = recorded.event
            if isinstance(event, RunContinued):
                found += [("continued", tool) for tool in self._tools.values() if side == "after"]
            effect = recorded.seq if isinstance(event, EffectRequested) else getattr(event, "effect", None)
            if type(event) in named and effect in self._tools:
                found.append((named[type(event)][side == "after"], self._tools[effect]))
        return found


def _events_in(commit: Commit, run: str) -> list[RecordedEvent]:
    return decode_commit(commit, run, b"", only=range(commit.first, commit.last + 1))


class StoppingWorld(Witness):
    """A world in which the process may stop during an effect, just after it, or while it is asked after."""

    def __init__(self, path: Path, boundaries: Boundaries, line: Line) -> None:
        super().__init__(path)
        self._boundaries, self._line = boundaries, line

    async def hang(self, name: str) -> None:
        """Wait for the test's word."""
        self._line.say(at="hanging", of=name)
        await self._line.word()

    def note(self, what: str, name: str, key: str) -> None:
        """Let something have happened, and stop there if told to."""
        super().note(what, name, key)
        self._boundaries.at({"tried": "during", "did": "done", "probed": "probing"}[what], name)


class SharedClock:
    """The machine's clock, ahead by what a file says: one clock for several processes that a test can move on."""

    def __init__(self, ahead: str | None) -> None:
        self._ahead = None if ahead is None else Path(ahead)

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, and what the file says."""
        ahead_ms = 0 if self._ahead is None else int(self._ahead.read_text())
        return time.time_ns() // 1_000_000 + ahead_ms

    def call_later(self, seconds: float, then: Callable[[], None]) -> Callable[[], None]:
        """Call ``then`` after ``seconds`` of the machine's clock."""
        return asyncio.get_running_loop().call_later(seconds, then).cancel


class SqliteOffice(Office):
    """An office on a store file, whose world is a file beside it."""

    def __init__(self, work: Work, world: World, open: Callable[[], Any]) -> None:
        super().__init__(work.errand, open, SharedClock(work.ahead), world)
        self.lease_s = work.lease_s
        self.grace_s = 0.2


class Alive:
    """A life that nothing in the process ends: the kernel will."""

    def journal(self, journal: Any) -> Any:
        """The journal as it is."""
        return journal

    def model(self, model: Any) -> Any:
        """The model as it is."""
        return model

    def tool(self, tool: Tool[..., Any]) -> Tool[..., Any]:
        """The tool as it is."""
        return tool

    def clock(self, clock: Any) -> Any:
        """The clock as it is."""
        return clock


async def attend(work: Work, line: Line) -> None:
    """Do the errand, or the part of it that ``work`` names."""
    boundaries = Boundaries(line, work.stop)
    watched = WatchedJournal(SqliteJournal(work.store, synchronous="normal"), boundaries, line, report=work.report)
    await watched.learn()
    world = StoppingWorld(witness_of(work.store), boundaries, line)
    handles = chain([watched], (SqliteJournal(work.store, synchronous="normal") for _ in count()))
    office = SqliteOffice(work, world, lambda: next(handles))
    alive: Any = Alive()
    match work.do:
        case "attend":
            state = await office.attend(alive, verdict=work.verdict)  # type: ignore[arg-type]
            line.say(seq=state.seq, status=state.status, output=state.output)
        case "resume":
            async with office.process(alive) as runtime:
                await resume(runtime, line)
        case "recover":
            async with office.process(alive) as runtime:
                recovered = await runtime.recover()
                line.say(recovered=list(recovered.runs), failed=dict(recovered.failed))


async def resume(runtime: Runtime, line: Line) -> None:
    """Wait for the word, then perform the run, or say who does; once told that, wait for the word again and end."""
    run = await runtime.open(RUN)
    line.say(ready=True)
    line.wait()
    try:
        await run.resume()
    except RunBusy as busy:
        line.say(busy=busy.owner)
        line.wait()
        return
    state = await run.wait()
    line.say(seq=state.seq, status=state.status, output=state.output)


def witness_of(store: str | Path) -> Path:
    """The file of what really happened in the world of a store."""
    return Path(f"{store}.witness")


def live(work: Work, descriptor: int) -> None:
    """The whole life of a forked process."""
    line = Line(descriptor)
    status = 0
    try:
        asyncio.run(attend(work, line))
    except KeyboardInterrupt:
        line.say(interrupted=True)
    except BaseException as error:
        line.say(error=type(error).__name__, code=getattr(error, "code", ""), text=str(error)[:500])
        status = 1
    finally:
        os._exit(status)


def serve(control: socket.socket) -> None:
    """Fork a process for each piece of work, and say how each ended when asked."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not data:
            return
        asked = json.loads(data)
        if "reap" in asked:
            status = os.waitstatus_to_exitcode(os.waitpid(asked["reap"], 0)[1])
            control.sendall(json.dumps({"status": status}).encode() + b"\n")
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            live(convert(asked, Work), descriptors[0])
        os.close(descriptors[0])
        control.sendall(json.dumps({"pid": pid}).encode() + b"\n")


def warm() -> None:
    """Load what a run loads on its way, so that a forked process need not."""
    import sqlite3  # noqa: F401

    from forkpoint.stores.memory import MemoryJournal
    from forkpoint.testing.crash import Life
    from forkpoint.testing.fakes import FakeClock

    office = Office(Errand(tools=("look",)), MemoryJournal().beside, FakeClock())
    asyncio.run(Life().live(office.attend(Life()), office.clock))
    assert decide and ToolContext


if __name__ == "__main__":
    warm()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        serve(control)
