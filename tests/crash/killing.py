"""Cases of real kills, and the work of one: kill processes exactly where told, recover, look at everything."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from forkpoint.commands import Verdict
from forkpoint.effects import Recovery
from forkpoint.events import RecordedEvent
from forkpoint.runtime.runtime import Runtime
from forkpoint.stores.sqlite import SqliteJournal

from .child import Alive, SharedClock, Stop, Work, witness_of
from .clerk import ALL, RECOVERY, RUN, Errand, Office
from .processes import Nursery, Process
from .verdicts import check_effects, check_finished, in_doubt
from .witness import Witness

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

ONCE = ("before the request", "dispatched", "during", "done", "before the outcome", "settled")
GATED = (
    "before the request",
    "requested",
    "before the approval",
    "approved",
    "dispatched",
    "during",
    "done",
    "settled",
)
PAUSED = ("requested", "continued", "dispatched", "during", "done", "before the outcome")
TWICE = {
    Recovery.REPEAT: ("dispatched", "during", "done"),
    Recovery.RETRY: ("dispatched", "during", "done"),
    Recovery.RECONCILE: ("probing",),
    Recovery.HOLD: ("before the outcome", "settled"),
}
"""Where a process that recovers is killed, for each class: in its second attempt, or in what it does instead of one."""


class Case(Struct, frozen=True, kw_only=True):
    """Kill one process after the other, each where it stops, then let one do the rest."""

    errand: Errand
    stops: tuple[Stop, ...]

    def __str__(self) -> str:
        return " ".join([str(self.errand), *(f"{stop.of}@{stop.at.replace(' ', '-')}" for stop in self.stops)])

    @property
    def recovery(self) -> Recovery:
        """The class of the call that is aimed at."""
        return RECOVERY[self.stops[0].of]


def grid() -> list[Case]:
    """Every boundary of every class: one call, parallel ones, gated and queued ones, later attempts, twice in a row."""
    cases = []
    for name in ALL:
        one = Errand(tools=(name,))
        once = (one, Errand(tools=ALL), Errand(tools=(name,), more=True), Errand(tools=ALL, asks=True))
        cases += [Case(errand=errand, stops=(Stop(at=at, of=name),)) for at in ONCE for errand in once]
        gated = (Errand(tools=(name,), gated=True), Errand(tools=ALL, gated=True))
        cases += [Case(errand=errand, stops=(Stop(at=at, of=name),)) for at in GATED for errand in gated]
        paused = (Errand(tools=(name,), paused=True), Errand(tools=ALL, paused=True))
        cases += [Case(errand=errand, stops=(Stop(at=at, of=name),)) for at in PAUSED for errand in paused]
        cases += [
            Case(errand=one, stops=(Stop(at=first, of=name), Stop(at=second, of=name)))
            for first in ("dispatched", "during", "done")
            for second in TWICE[RECOVERY[name]]
        ]
    retried = Errand(tools=("charge",), faulty=True)
    second = {"dispatched": 2, "during": 2, "done": 1, "before the outcome": 2}
    cases += [Case(errand=retried, stops=(Stop(at=at, of="charge", nth=nth),)) for at, nth in second.items()]
    return cases


class Scene:
    """One store, its world, and the processes that come and go there."""

    def __init__(self, nursery: Nursery, folder: Path, errand: Errand) -> None:
        self.nursery, self.errand = nursery, errand
        self.store = folder / "runs.db"
        self.witness = Witness(witness_of(self.store))
        self.ahead: str | None = None
        self._all: list[Process] = []

    def work(self, do: str = "attend", **more: object) -> Work:
        """A piece of work in this scene."""
        return Work(do=do, store=str(self.store), errand=self.errand, **more)  # type: ignore[arg-type]

    def process(self, do: str = "attend", **more: object) -> Process:
        """A process that does it."""
        started = self.nursery.start(self.work(do, **more))
        self._all.append(started)
        return started

    def finish(self, verdict: Verdict) -> None:
        """Do the rest in the test's own process, and look at everything that must hold."""
        asyncio.run(self._finish(verdict))
        self.witness.close()

    async def _finish(self, verdict: Verdict) -> None:
        office = self._office()
        before = await self.events(office)
        check_effects(before, self.witness)
        doubts = in_doubt(before)

        async def recovered(runtime: Runtime) -> None:
            waits = {one.wait.effect for one in await runtime.waits() if one.wait.kind == "unknown"}
            paused = [row async for row in runtime.all_runs() if row.summary.status == "paused"]
            assert doubts <= waits or paused

        alive: Any = Alive()
        state = await office.attend(alive, verdict=verdict, look=recovered)
        events = await self.events(office)
        self._check_acknowledged(events)
        check_finished(self.errand, self.witness, events, state)
        again = await office.attend(alive)
        assert again.seq == state.seq, "a second recovery recorded something"

    def onlooker(self) -> Runtime:
        """A runtime of the test's own process."""
        return self._office().onlooker()

    def _office(self) -> Office:
        return Office(self.errand, self._open, SharedClock(self.ahead), self.witness)

    def _open(self) -> SqliteJournal:
        return SqliteJournal(self.store, synchronous="normal")

    async def events(self, office: Office) -> list[RecordedEvent]:
        """The run's history as it lies in the file."""
        async with office.onlooker() as runtime:
            rows = [row.run async for row in runtime.all_runs()]
            return await (await runtime.open(RUN)).history() if RUN in rows else []

    def _check_acknowledged(self, events: Sequence[RecordedEvent]) -> None:
        for process in self._all:
            for seq, digest in process.acked:
                assert events[seq - 1].digest.hex() == digest, f"event {seq} was acknowledged and is not there"


def play(nursery: Nursery, case: Case, folder: Path, verdict: Verdict) -> list[tuple[str, Recovery]]:
    """Kill as ``case`` has it, and see that everything holds; where each kill was, and of what class."""
    try:
        return _played(Scene(nursery, folder, case.errand), case, verdict)
    except BaseException as error:
        error.add_note(str(case))
        raise


def _played(scene: Scene, case: Case, verdict: Verdict) -> list[tuple[str, Recovery]]:
    kills: list[tuple[str, Recovery]] = []
    for stop in case.stops:
        process = scene.process(stop=stop)
        said = process.hear()
        if said is None or "at" not in said:
            assert kills, f"it did not come to that: {said}"
            process.end()
            break  # a recovery that has nothing of the kind left to do
        assert process.kill()
        kills.append((stop.at, case.recovery))
    scene.finish(verdict)
    return kills


def play_at_random(nursery: Nursery, folder: Path, chance: random.Random, kills: int) -> None:
    """Kill processes that work on one long errand, ``kills`` times, whenever chance has it.

    None comes far before it is killed, also where the test is given no time to kill it: it waits to be heard.
    """
    scene = Scene(nursery, folder, Errand(tools=ALL, steps=2 * kills))
    while kills:
        process = scene.process(waits=True)
        for _ in range(chance.randrange(1, 8)):
            assert process.hear_ack(), "the errand is too short for this many kills"
        for _ in range(chance.randrange(4000)):
            pass  # a moment, as short as chance has it
        assert process.kill()
        kills -= 1
    scene.finish("abandoned_unknown")
