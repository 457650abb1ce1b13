"""LangGraph threads in a journal: each is one run, and each checkpoint and each set of writes one commit of it."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from forkpoint.adapters.langgraph_holding import NAME, Held
from forkpoint.adapters.langgraph_joining import Wrote
from forkpoint.adapters.langgraph_noting import Note
from forkpoint.adapters.langgraph_sheet import Sheet
from forkpoint.adapters.langgraph_strand import CHECKPOINT, FORGET, WRITES, Kept, Name, Seen, Write, everything
from forkpoint.adapters.langgraph_telling import checkpoint_told, is_going, is_stopping, run_named, writes_told
from forkpoint.adapters.langgraph_valued import value_of
from forkpoint.adapters.langgraph_values import Values
from forkpoint.commands import Return, Start
from forkpoint.decide import decide, start
from forkpoint.definition import AgentRecord
from forkpoint.effects import StepCall
from forkpoint.errors import LeaseLost, RunExists
from forkpoint.errors.langgraph import GraphStoredBadly
from forkpoint.messages import Text
from forkpoint.outcomes import Succeeded
from forkpoint.ports import Append, RunFilter, RunRow
from forkpoint.runtime.cell import Edge
from forkpoint.runtime.edges import Equipment
from forkpoint.runtime.forking import fork
from forkpoint.runtime.keeping import remove
from forkpoint.runtime.writing import Draft
from forkpoint.status import summary
from forkpoint.timetravel.patches import Patch

_AGAIN = ".again-"

LABEL = "thread_id"
"""The label of a thread's run that has the thread's own id."""


class Desk:
    """The threads of one store, as far as this process uses them. Everything is done on one event loop."""

    def __init__(self, edge: Edge, *, prefix: str, idle_s: float, busy_s: float) -> None:
        self.edge = edge
        self._prefix = prefix
        self._idle_s = idle_s
        self._busy_s = busy_s
        self._held: dict[str, Held] = {}
        # What the store has by name only is put back as it is read.
        self._equipment = Equipment(model=_no_model, tools={}, secrets=edge.writer._secrets)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────

    async def head(self, given: str) -> int:
        """The last event of a thread's run, 0 if there is none."""
        _, row = await self._find(given)
        return 0 if row is None else row.head

    async def checkpoint(self, given: str, ns: str, id: str | None, seen: Seen) -> "tuple[Held, Kept] | None":
        """A thread's checkpoint, the newest if no id is given."""
        held = await self._read(given)
        kept = held.strand.latest(ns, seen) if id is None else held.strand.checkpoint((ns, id), seen)
        return None if kept is None else (held, kept)

    async def checkpoints(self, given: str | None, ns: str | None, seen: Seen) -> list[tuple[Held, Kept]]:
        """The checkpoints of one thread, or of all."""
        names = [given] if given is not None else [self.named(row) async for row in self._rows()]
        found: list[tuple[Held, Kept]] = []
        for name in names:
            if name is not None:
                held = await self._read(name)
                found += [(held, kept) for kept in held.strand.checkpoints(ns, seen)]
        return found

    async def writes(self, held: Held, name: Name, seen: Seen) -> list[Write]:
        """What waits on a checkpoint, with all that it needs in memory."""
        found = held.strand.writes(name, seen)
        await self.need(held, [write.body for write in found])
        return found

    async def need(self, held: Held, bodies: Sequence[Any]) -> None:
        """Have every node that ``bodies`` need in memory."""
        strand = held.strand
        while strand.aside and (lost := strand.pieces.missing(list(bodies))):
            for seq in lost:
                outcome = strand.aside.pop(seq, None)
                if outcome is None:
                    raise GraphStoredBadly(run=held.run, seq=seq, detail="it has not what another event says it has")
                strand.pieces.hold(seq, self._equipment.shown(await self.edge.reader.whole(outcome)).value)

    async def _rows(self) -> AsyncIterator[RunRow]:
        async for row in self.edge.reader.rows(RunFilter(agent=NAME)):
            yield row

    def named(self, row: RunRow) -> str | None:
        """The thread that a run is of: a fork's is the fork itself. ``None`` for a run of another prefix."""
        label = row.summary.labels.get(LABEL, "")
        if _is_place(row.run, run_named(self._prefix, label)):
            return label
        return row.run.removeprefix(self._prefix) if row.run.startswith(self._prefix) else None

    async def _find(self, given: str) -> tuple[str, RunRow | None]:
        """A thread's run. One that was deleted and is kept for its forks is not it; its name stays taken."""
        places = _places(run_named(self._prefix, given))
        while True:
            run = next(places)
            row = await self.edge.journal.row(run)
            if row is None or not row.deleted:
                return run, row

    async def _read(self, given: str) -> Held:
        held = await self._known(given)
        async with held.lock:
            if held.lease is None:
                await held.read_on(await self.edge.journal.row(held.run))
            held.read_at = held.strand.seq
        return held

    async def _known(self, given: str) -> Held:
        held = self._held.get(given)
        if held is not None and held.lease is not None:
            return held  # nobody else performs it, or deletes it
        run, _ = await self._find(given)
        held = self._held.get(given)
        if held is None or held.run != run:
            held = self._held[given] = Held(self.edge, given, run, self._equipment.shown)
        return held

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────

    async def put(
        self,
        given: str,
        ns: str,
        parent: str | None,
        checkpoint: Any,
        metadata: Any,
        new_versions: Any,
        values: Values,
        wrote: Wrote | None = None,
    ) -> None:
        """Record a checkpoint, with what a task wrote to the one before it."""
        held = await self._known(given)
        async with held.lock:
            await self._open(held)
            before = held.strand.any_checkpoint((ns, parent)) if parent is not None else None
            await self._learn(held, before)
            sheet = Sheet(held.strand.pieces, values)
            joined = None
            if wrote is not None and parent is not None:
                there = held.strand.writes((ns, parent), wrote.seen)
                joined = writes_told(sheet, wrote.writes, there, task=wrote.task, path=wrote.path)
            told = checkpoint_told(
                sheet, checkpoint, metadata, new_versions, ns=ns, parent=before or parent, wrote=joined
            )
            held.known.add(await self._record(held, CHECKPOINT, told, sheet))
            if not is_going(ns, checkpoint):
                held.rest_after(self._idle_s)

    async def put_writes(
        self,
        given: str,
        name: Name,
        writes: Sequence[tuple[str, Any]],
        task: str,
        path: str,
        values: Values,
        seen: Seen,
    ) -> None:
        """Record writes that wait on a checkpoint, but for those that are there already."""
        held = await self._known(given)
        async with held.lock:
            await self._open(held)
            of = held.strand.any_checkpoint(name)
            await self._learn(held, of)
            sheet = Sheet(held.strand.pieces, values)
            there = held.strand.writes(name, seen)
            told = writes_told(sheet, writes, there, task=task, path=path)
            if told is not None:
                where = {"of": name[1], "ns": name[0]} if of is None else {"of": of.seq}
                await self._record(held, WRITES, {**told, **where}, sheet)
            if is_stopping(writes):
                held.rest_after(self._idle_s)

    async def _learn(self, held: Held, kept: Kept | None) -> None:
        """Know what a checkpoint and its writes are made of, so that it is not written again."""
        if kept is None or kept.seq in held.known:
            return
        bodies = [*kept.values.values(), *(one.body for one in held.strand.writes(kept.name, everything))]
        await self.need(held, bodies)
        held.strand.pieces.learn(bodies)
        held.known.add(kept.seq)

    async def _open(self, held: Held) -> None:
        """Have the run there, the right to write to it, and everything in it read."""
        if held.lease is not None:
            held.stay()
            return
        row = await self.edge.journal.row(held.run)
        if row is None:
            await self._born(held)
        if await held.take(self._busy_s):
            row = await self.edge.journal.row(held.run)
        await held.read_on(row)
        held.check_unmoved()

    async def _born(self, held: Held) -> None:
        title = Text(content=f"LangGraph thread {held.given}")
        command = Start(agent=AgentRecord(name=NAME), function=NAME, labels={LABEL: held.given}, input=(title,))
        draft = Draft(run=held.run, state=None, after=0, digest=bytes(32), at_ms=self.edge.clock.now_ms())
        for event in start(command):
            self.edge.writer.add(draft, event)
        assert draft.state is not None
        for event in decide(draft.state, Return(outcome=Succeeded()), draft.at_ms):
            self.edge.writer.add(draft, event)
        append = Append(
            run=held.run,
            after=0,
            before=bytes(32),
            commit=draft.commit(self.edge.writer.codec),
            summary=summary(draft.state),
            born=True,
        )
        with suppress(RunExists):  # another process was first; whether it is the same thread is seen as it is read
            await self.edge.journal.append(append)

    async def _record(self, held: Held, name: str, told: dict[str, Any], sheet: Sheet | None) -> int:
        """Put one effect on record, with what came of it: the number of its event."""
        noted = Note(
            effect=StepCall(name=name, arguments=told),
            outcome=Succeeded(value=(sheet.nodes or None) if sheet else None),
        )
        try:
            seq = await held.cell.note(noted, held.lease)
        except LeaseLost:
            held.lease = None
            raise
        if seq == held.strand.seq + 1:
            if sheet is not None:
                sheet.recorded(seq)
            held.strand.take(seq, name, told)
            held.strand.seq = held.strand.effects_upto = seq + 1
        else:  # a command came in between
            await held.read_on(await self.edge.journal.row(held.run))
        held.read_at = held.strand.seq
        return seq

    # ── whole threads ─────────────────────────────────────────────────────────────────────────────────────────

    async def delete(self, given: str) -> None:
        """Remove a thread's run, as far as no fork shares it."""
        held = await self._known(given)
        async with held.lock:
            await held.release()
            row = await self.edge.journal.row(held.run)
            if row is not None:
                await held.read_on(row)
                await remove(self.edge, held.run)
            self._held.pop(given, None)

    async def copy(self, source: str, target: str) -> None:
        """Make ``target`` a fork of ``source`` as it stands now; nothing is copied. Raises ``fork.name-taken``."""
        held = await self._read(source)
        run, row = await self._find(target)
        if held.strand.seq == 0 or source == target:
            return
        await fork(
            self.edge,
            held.run,
            await self.edge.reader.load(held.run),
            patch=Patch(),
            run_id=run if row is None else row.run,
            effects="live",
            pending="hold",
            workspace=None,
            labels={LABEL: target},
            actor=None,
        )

    async def forget_runs(self, run_ids: frozenset[str], values: Values) -> None:
        """List the checkpoints that LangGraph's runs ``run_ids`` made no more; they stay on record."""

        def made_by(held: Held, kept: Kept) -> bool:
            return value_of(kept.metadata.get("run_id"), held.strand.pieces, values) in run_ids

        names = [self.named(row) async for row in self._rows()] if run_ids else []
        for given in names:
            if given is not None:
                await self._forget(given, made_by)

    async def forget_older(self, given: str) -> None:
        """List only the newest checkpoint of each of a thread's namespaces; the others stay on record."""
        await self._forget(given, lambda held, kept: held.strand.latest(kept.ns, everything) is not kept)

    async def _forget(self, given: str, wanted: Callable[[Held, Kept], bool]) -> None:
        held = await self._read(given)
        async with held.lock:
            there = held.strand.checkpoints(None, everything)
            await self.need(held, [kept.metadata for kept in there])
            seqs = [kept.seq for kept in there if wanted(held, kept)]
            if seqs:
                await self._open(held)
                await self._record(held, FORGET, {"checkpoints": seqs}, None)
                held.rest_after(self._idle_s)

    async def close(self) -> None:
        """Give every lease back."""
        for held in self._held.values():
            async with held.lock:
                await held.release()


def _no_model() -> Any:
    """A thread asks no model by itself."""


def _places(run: str) -> Iterator[str]:
    """The names under which a thread's run may stand: the next where one before was deleted and its name is taken."""
    yield run
    yield from (f"{run}{_AGAIN}{number}" for number in itertools.count(2))


def _is_place(run: str, first: str) -> bool:
    again = run.removeprefix(first)
    return run.startswith(first) and (again == "" or (again.startswith(_AGAIN) and again[len(_AGAIN) :].isdigit()))
