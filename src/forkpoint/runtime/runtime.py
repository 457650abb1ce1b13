"""A handle on a store and the agents this process can perform: start, open, list, recover, fork, compare."""

import asyncio
import os
import secrets as chance
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, overload
from weakref import WeakValueDictionary

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from forkpoint.agents.agent import Agent
from forkpoint.agents.function import Function, parts_of_arguments, written_arguments
from forkpoint.agents.tool import Tool
from forkpoint.commands import ChangeAgent, Start
from forkpoint.decide import start
from forkpoint.definition import AgentRecord, Limits
from forkpoint.errors import AgentDiffers, ForkpointError, RewindUnfinished, RunBusy, RunExists
from forkpoint.events import InputReceived, RunStarted
from forkpoint.ids import check_run_id
from forkpoint.messages import Message, Part
from forkpoint.ports import Append, Page, RunFilter, RunRow
from forkpoint.runtime.arguments import checked_limits, labels_of
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.cell import Cell, Edge
from forkpoint.runtime.comparing import compare_runs, compare_table
from forkpoint.runtime.dispatch import Bench
from forkpoint.runtime.edges import Equipment, Registry
from forkpoint.runtime.files import Workspaces, folder_of, workspace_of
from forkpoint.runtime.function_past import past_of
from forkpoint.runtime.function_runs import FunctionPerformer
from forkpoint.runtime.keeping import Pruned, Removed, prune, remove
from forkpoint.runtime.performer import GRACE_S, Performer
from forkpoint.runtime.planning import Planner
from forkpoint.runtime.recording import Recording, check_arguments, record
from forkpoint.runtime.requests import Requests
from forkpoint.runtime.run import POLL_S, Run
from forkpoint.runtime.verifying import Verified, Verifier
from forkpoint.runtime.writing import Draft
from forkpoint.state import RunState
from forkpoint.status import Wait, left_behind, status, summary, waits
from forkpoint.timetravel.comparing import Comparison, Table
from forkpoint.timetravel.patches import Patch, parts_of

AT_ONCE = 64
"""How many runs ``recover`` performs at the same time."""


class Recovered(Struct, frozen=True, kw_only=True):
    """What a recovery did: the runs it performed, and those it could not, with the reason."""

    runs: tuple[str, ...] = ()
    failed: Mapping[str, str] = {}


class RunWait(Struct, frozen=True, kw_only=True):
    """A decision that some run needs."""

    run: str
    wait: Wait


class Runtime:
    """What ``connect`` gives: the runs of one store, and what this process can do with them."""

    def __init__(self, edge: Edge, registry: Registry, *, workspaces: Workspaces, grace_s: float = GRACE_S) -> None:
        self.edge = edge
        self.workspaces = workspaces
        self._registry = registry
        self._grace_s = grace_s
        self._cells: WeakValueDictionary[str, Cell] = WeakValueDictionary()
        self._performing: dict[str, asyncio.Task[RunState]] = {}
        self._performers: dict[str, Performer] = {}
        self._orphans: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Runtime":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let what is in flight end within its grace period, give every lease back, and close the store."""
        for performer in tuple(self._performers.values()):
            await performer.close()
        tasks = tuple(self._performing.values())
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tuple(self._orphans):
            task.cancel()
        if self._orphans:
            # They were given their grace; one that ignores even this must not keep the store open.
            await asyncio.wait(self._orphans, timeout=0)
        self.workspaces.close()
        if self.edge.observer is not None:
            await self.edge.observer.close()
        await self.edge.journal.close()
        await self._registry.close()

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(
        self,
        agent: str | Agent,
        input: str | Part | Message | Sequence[Part] | None = None,
        *,
        run_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        workspace: str | os.PathLike[str] | None = None,
        actor: str | None = None,
        perform: bool = True,
    ) -> Run:
        """Begin a run and perform it in the background of this process (unless ``perform`` is false).

        A ``run_id`` that is taken is the same run if agent and input are the same; else ``run.exists`` is raised.
        """
        definition = self._registry.agent(agent if isinstance(agent, str) else agent.name)
        command = Start(
            agent=self._registry.record(definition.name),
            input=None if input is None else self._from_outside(input),
            labels=labels_of(labels),
            limits=checked_limits(limits) or definition.limits,
            workspace=folder_of(workspace),
            actor=actor,
        )
        name = check_run_id(run_id) if run_id is not None else f"{definition.name}-{chance.token_hex(4)}"
        if command.workspace is not None:
            self.workspaces(name, command.workspace)  # refused before anything is written
        cell = await self._begin(name, command)
        run = Run(self, cell, live=perform)
        if perform:
            await self.perform(cell, accept_changes=False)
        return run

    def _from_outside(self, input: str | Part | Message | Sequence[Part]) -> tuple[Part, ...]:
        return self.edge.writer.from_outside(InputReceived(parts=parts_of(input))).parts

    async def _begin(self, name: str, command: Start) -> Cell:
        draft = Draft(run=name, state=None, after=0, digest=bytes(32), at_ms=self.edge.clock.now_ms())
        for event in start(command):
            self.edge.writer.add(draft, event)
        assert draft.state is not None
        append = Append(
            run=name,
            after=0,
            before=bytes(32),
            commit=draft.commit(self.edge.writer.codec),
            summary=summary(draft.state),
            blobs=draft.blobs,
            refs=draft.refs,
            born=True,
        )
        try:
            await self.edge.journal.append(append)
            self.edge.recorded(name, draft.recorded)
        except RunExists:
            await self._check_same(name, draft)
        return await self.cell(name)

    async def _check_same(self, name: str, draft: Draft) -> None:
        """Raises ``run.exists`` unless the run began with the same agent and input as ``draft``."""
        there = await self.edge.reader.history(name, upto=len(draft.recorded) + 1)
        ours = [_said(one.event) for one in draft.recorded]
        theirs = [_said(one.event) for one in there]
        if theirs[: len(ours)] != ours or (len(ours) == 1 and len(theirs) > 1 and theirs[1] is not None):
            raise RunExists(run=name)

    async def open(self, run_id: str) -> Run:
        """A handle on a run that is there. Performs nothing. Raises ``run.not-found``."""
        return Run(self, await self.cell(check_run_id(run_id)))

    async def cell(self, name: str) -> Cell:
        """The state of a run in this process. Raises ``run.not-found``."""
        cell = self._cells.get(name)
        if cell is None:
            await self.edge.reader.row(name)
            cell = self._cells.setdefault(name, Cell(self.edge, name))
        return cell

    async def runs(self, which: RunFilter | None = None, *, after: int | None = None, limit: int = 50) -> Page:
        """A page of runs, newest first. Reads no event."""
        return await self.edge.journal.rows(which or RunFilter(), after=after, limit=limit)

    async def all_runs(self, which: RunFilter | None = None) -> AsyncIterator[RunRow]:
        """Every run, newest first."""
        async for row in self.edge.reader.rows(which or RunFilter()):
            yield row

    async def waits(self) -> tuple[RunWait, ...]:
        """Every decision that some run of the store needs, oldest run first."""
        found: list[RunWait] = []
        async for row in self.all_runs():
            if row.summary.waits:
                state = (await self.edge.reader.load(row.run)).state
                found[:0] = [RunWait(run=row.run, wait=wait) for wait in waits(state)]
        return tuple(found)

    async def record(
        self,
        run_id: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        on_divergence: Literal["raise", "fork"] = "raise",
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        workspace: str | os.PathLike[str] | None = None,
        actor: str | None = None,
        **named: Any,
    ) -> Any:
        """What ``function(*args, **named)`` returns, with every model, tool and step that it asks for as an effect of
        the run ``run_id``: on record before it is performed, and performed once.

        Called again with the same id it goes on where the record ends; a function that has returned is not called.
        Without arguments, a run that is there is called with its recorded ones. What is returned is what was recorded,
        as the function's annotation says. A plain function runs in an OS thread of its own.

        Raises what the function raises; ``run.waits`` where somebody must decide first, ``run.paused``,
        ``run.interrupted`` or ``run.stopped``; ``replay.diverged`` where the code asks for something else than is on
        record (``on_divergence="fork"`` goes on in a fork from there instead); ``function.other-arguments``,
        ``function.other-run``, ``function.unfit``, ``run.busy`` and ``lease.lost``.
        """
        options = Recording(labels=labels, limits=limits, workspace=workspace, actor=actor, on_divergence=on_divergence)
        return await record(self, run_id, function, args, named, options)

    async def function_cell(
        self, name: str, function: Function[..., Any], args: tuple[Any, ...], named: Mapping[str, Any], how: Recording
    ) -> Cell:
        """The cell of a function's run, begun now unless it is there. Raises as ``record`` does."""
        self._registry.functions[function.name] = function
        if await self.edge.journal.row(name) is not None:
            cell = await self.cell(name)
            if args or named:
                await check_arguments(self.edge, name, function, function.written(args, named))
            return cell
        command = Start(
            agent=AgentRecord(name=function.name),
            input=self._from_outside(parts_of_arguments(function.written(args, named))),
            labels=labels_of(how.labels),
            limits=checked_limits(how.limits),
            workspace=folder_of(how.workspace),
            actor=how.actor,
            function=function.name,
        )
        if command.workspace is not None:
            self.workspaces(name, command.workspace)  # refused before anything is written
        return await self._begin(name, command)

    def performer(self, run: str) -> Performer | None:
        """Who performs ``run`` in this process, if anybody does."""
        return self._performers.get(run)

    # ── performing ───────────────────────────────────────────────────────────────────────────────────────────

    def performing(self, run: str) -> "asyncio.Task[RunState] | None":
        """The task that performs ``run`` in this process, if one does."""
        task = self._performing.get(run)
        return task if task is not None and not task.done() else None

    async def perform(self, cell: Cell, *, accept_changes: bool, quiet: bool = False) -> None:
        """Have ``cell``'s run performed in this process, if it is not already. ``quiet``: not if another does."""
        if self.performing(cell.run) is not None:
            return
        state = await cell.refresh()
        if status(state) in ("idle", "stopped", "paused", "failed") and not left_behind(state):
            return
        await self._accept(cell, accept_changes)
        async with cell.rewinding:
            await self._take_up(cell, quiet=quiet)

    async def _take_up(self, cell: Cell, *, quiet: bool) -> None:
        """Take the run's lease and perform it. ``quiet``: not if that is refused for now."""
        if self.performing(cell.run) is not None:
            return
        now_ms = self.edge.clock.now_ms()
        try:
            lease = await self.edge.journal.take_lease(
                cell.run, owner=self.edge.owner, now_ms=now_ms, until_ms=now_ms + self.edge.lease_ms
            )
        except RunBusy:
            if quiet:
                return
            raise
        await cell.refresh()
        try:
            performer = await self._performer(cell, lease)
        except BaseException as error:
            await self.edge.journal.release_lease(lease)
            if quiet and isinstance(error, RewindUnfinished):
                return
            raise
        self._performers[cell.run] = performer
        task = asyncio.get_running_loop().create_task(performer.perform())
        self._performing[cell.run] = task
        task.add_done_callback(lambda done: self._performed(cell.run, done))

    def _performed(self, run: str, task: "asyncio.Task[RunState]") -> None:
        if self._performing.get(run) is task:
            self._performers.pop(run, None)
        if not task.cancelled():
            task.exception()  # looked at, so that a run nobody waits for does not warn; wait() raises it

    async def _performer(self, cell: Cell, lease: Any) -> Performer:
        if cell.state.function is not None:
            return await self._function_performer(cell, lease, cell.state.function)
        agent = await self.edge.reader.whole(cell.state.agent)
        equipment = self._registry.equip(replace(cell.state, agent=agent))
        bench = await self._bench(cell, equipment)
        planner = Planner(equipment, self.edge.reader)
        return Performer(cell, bench, planner, lease, orphans=self._orphans, grace_s=self._grace_s)

    async def _function_performer(self, cell: Cell, lease: Any, name: str) -> Performer:
        tools: dict[str, Tool[..., Any]] = {}
        equipment = self._registry.equip_function(tools)
        return FunctionPerformer(
            cell,
            await self._bench(cell, equipment),
            Planner(equipment, self.edge.reader),
            lease,
            function=self._registry.function(name, cell.run),
            past=await past_of(self.edge.reader, cell.run),
            tools=tools,
            orphans=self._orphans,
            grace_s=self._grace_s,
        )

    async def _bench(self, cell: Cell, equipment: Equipment) -> Bench:
        return Bench(
            equipment=equipment,
            requests=Requests(equipment, self.edge.reader),
            reader=self.edge.reader,
            workspace=await workspace_of(self.workspaces, cell.state),
            report=lambda notice: self.edge.bulletin.post(notice.run, notice),
        )

    async def _accept(self, cell: Cell, accept_changes: bool) -> None:
        """Record that the run goes on under another definition. Raises ``agent.differs`` unless accepted."""
        if cell.state.function is not None:
            return  # its code says with every ask what it is asked under
        agent = await self.edge.reader.whole(cell.state.agent)
        found = self._registry.differences(replace(cell.state, agent=agent))
        if not found:
            return
        if not accept_changes:
            raise AgentDiffers(run=cell.run, differences="; ".join(found))
        now = self._registry.record(cell.state.agent.name)
        await cell.submit(ChangeAgent(agent=now, differences=found))

    def know(self, patch: Patch, state: RunState) -> None:
        """Remember the model and tools of a patch, so that this process can perform the fork.

        Raises ``function.unfit`` for arguments that a function which is known here does not take.
        """
        function = self._registry.functions.get(state.function or "")
        if function is not None and not isinstance(patch.arguments, UnsetType):
            function.bound(written_arguments(patch.arguments))
        if "model" in patch.changed and not isinstance(patch.model, str):
            self._registry.patched[patch.model.name] = patch.model
        if "tools" in patch.changed:
            self._registry.extra.update({tool.name: tool for tool in patch.tools if isinstance(tool, Tool)})  # type: ignore[union-attr]

    async def recover(self, *, wait: bool = True) -> Recovered:
        """Perform what is due in every run that nobody owns, once. Runs that cannot be recovered are named."""
        done: list[str] = []
        failed: dict[str, str] = {}
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(row: RunRow) -> None:
            async with slots:
                try:
                    run = await self.open(row.run)
                    await run.resume()
                    if wait:
                        await run.wait()
                    done.append(row.run)
                except RunBusy:
                    return
                except ForkpointError as error:
                    failed[row.run] = f"{error.code}: {error}"

        rows = [row async for row in self.all_runs(RunFilter(due=True))]
        await asyncio.gather(*(one(row) for row in rows if not self._alive(row)))
        return Recovered(runs=tuple(sorted(done)), failed=failed)

    def _alive(self, row: RunRow) -> bool:
        if row.owner is None or row.owner_alive is False:
            return False
        return row.owner_alive is True and row.lease_until_ms > self.edge.clock.now_ms()

    async def keep_recovering(self, seen: Callable[[Recovered], None]) -> None:
        """Recover whenever the store changes, until cancelled; ``seen`` is told of every round that did something."""
        version = -1
        while True:
            now = await self.edge.journal.version()
            if now != version:
                recovered = await self.recover(wait=False)
                if recovered.runs or recovered.failed:
                    seen(recovered)
                version = await self.edge.journal.version()
            pause = asyncio.Event()
            self.edge.clock.call_later(POLL_S * 5, pause.set)
            await pause.wait()

    # ── comparing ────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    async def compare(self, a: Run | str, b: Run | str, /, *, usage: bool = False) -> Comparison: ...
    @overload
    async def compare(self, a: Run | str, b: Run | str, /, *more: Run | str) -> Table: ...
    async def compare(self, a: Run | str, b: Run | str, /, *more: Run | str, usage: bool = False) -> Comparison | Table:
        """What two runs share and where they part; more than two as a table. Performs nothing.

        Each is a handle, an id, or an address such as ``RUN@step:3``. What they share is known from their lineage and
        not read. ``usage`` also compares tokens and cost of two. Raises ``run.not-found`` or ``fork.no-such-point``.
        """
        names = [run if isinstance(run, str) else run.id for run in (a, b, *more)]
        for cell in tuple(self._cells.values()):
            await cell.on_record()
        if more:
            return await compare_table(self.edge.reader, names)
        return await compare_runs(self.edge.reader, *names, usage=usage)

    # ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────

    async def verify(self, run_id: str | None = None, *, fold: bool = False) -> Verified:
        """Whether one run, with all that it descends from, or every run of the store is as it was written.

        Checks every event against its digest, each fork against its parent, each run's row against its journal, and
        reads every blob. ``fold`` also rebuilds every state and holds checkpoints, summaries and the digest of every
        request against it. Findings are returned, not raised, and nothing is written. That the whole file was put
        back to an earlier moment cannot be seen. Raises ``run.not-found``.
        """
        verifier = Verifier(self.edge.reader, fold=fold)
        if run_id is not None:
            return await verifier.run(check_run_id(run_id))
        return await verifier.all(self.all_runs())

    async def delete(self, run_id: str) -> Removed:
        """Remove one run for good; says how much of it went.

        Where forks share its past, its events up to the last fork point stay, unlisted, and its id stays taken.
        Blobs that nothing refers to any more, and room in the file, are given back by ``prune``. The snapshots of its
        workspace go once no fork shares the run; the folder itself is not touched. Raises ``run.not-found``, or
        ``run.busy`` while somebody performs it.
        """
        removed = await remove(self.edge, check_run_id(run_id))
        await self._forget(removed)
        return removed

    async def _forget(self, *removed: Removed) -> None:
        """Let go of what this process and the workspaces' store hold of runs that are gone."""
        names = dict.fromkeys(name for one in removed for name in (one.run, *one.ancestors))
        gone = [name for name in names if await self.edge.journal.row(name) is None]
        for one in removed:
            self._cells.pop(one.run, None)
        await in_thread(lambda: self.workspaces.forget(gone))

    async def prune(
        self,
        *,
        older_than_s: float | None = None,
        runs: Sequence[str] | None = None,
        dry_run: bool = False,
        confirm: bool = False,
    ) -> Pruned:
        """Remove whole runs: those that nothing was written to for ``older_than_s`` seconds, and those named in
        ``runs``. Then give back blobs that nothing refers to, and room in the file; ``runs=()`` does only that.

        Nothing is ever removed without this call. By age, a run that is performed stays, and one with an effect of
        which nobody knows whether it happened; name it to remove it. What forks share stays as ``delete`` says. A
        dry run changes nothing and lists exactly what the same call with ``confirm`` removes. Raises
        ``prune.no-choice``, ``prune.not-confirmed``, ``run.not-found``, or ``run.busy`` for a named run that
        somebody performs; then nothing was removed.
        """
        names = None if runs is None else tuple(check_run_id(run) for run in runs)
        pruned = await prune(self.edge, older_than_s=older_than_s, runs=names, dry_run=dry_run, confirm=confirm)
        if not dry_run:
            await self._forget(*pruned.removed)
        return pruned


def _said(event: object) -> object:
    """What of a first event must be equal for two starts to be the same."""
    if isinstance(event, RunStarted):
        return event.agent
    return event.parts if isinstance(event, InputReceived) and event.key is None else None
