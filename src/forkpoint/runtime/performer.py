"""The loop: under a lease, perform what is due, record how it ended together with what follows, until nothing is.

When an effect ends, its outcome, the requests that follow from it and their dispatches are one commit, and the
effects dispatched start only after that commit is durable:

    effect ends ──▶ [Settle, Plan, Advance] ──decide──▶ one commit ──▶ what it dispatched is performed

Killed before the commit: the attempt is lost, and recovery decides by its class. Killed after it: the new effects are
on record as dispatched, and are lost likewise.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec.structs import replace

from forkpoint.commands import Advance, AnyCommand, Captured, Found, Late, Plan, Recover, Settle
from forkpoint.effects import ModelCall
from forkpoint.errors import LeaseLost, RunBusy
from forkpoint.events import EffectDispatched, RecordedEvent
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.pieces import Open
from forkpoint.ports import Lease
from forkpoint.runtime.calls import Control
from forkpoint.runtime.cell import Cell
from forkpoint.runtime.dispatch import Bench, ask_model, call_tool, given_up, probe_tool, unanswered
from forkpoint.runtime.files import capture
from forkpoint.runtime.planning import Planner
from forkpoint.state import RunState
from forkpoint.status import Due, WhySnapshot, due, unplanned

TICK_S = 0.2
"""How often a performer looks for commands from other processes, and whether its lease needs renewing."""

GRACE_S = 2.0
"""How long a signalled call may take to end before its outcome counts as unknown."""


class Performer:
    """Performs one run until it rests, waits, pauses, or the lease is lost."""

    def __init__(
        self,
        cell: Cell,
        bench: Bench,
        planner: Planner,
        lease: Lease,
        *,
        orphans: set[asyncio.Task[None]],
        grace_s: float = GRACE_S,
    ) -> None:
        self._cell = cell
        self._bench = bench
        self._planner = planner
        self._lease = lease
        self._until_ms = lease.until_ms
        self._by = lease.owner.rpartition("-")[2]
        self._grace_s = grace_s
        self._controls: dict[int, Control] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._orphans = orphans
        self._moves = 0
        self._seeing = False
        self._wake = asyncio.Event()
        self._timer: Callable[[], None] | None = None
        self._version = -1
        self._error: BaseException | None = None
        self._closing = False

    async def perform(self) -> RunState:
        """Perform the run; its state when there is nothing more to do here. Raises what stopped it."""
        await self._perform_leased()
        while not self._resting() and await self._take_up_again():
            await self._perform_leased()
        return self._cell.state

    async def _take_up_again(self) -> bool:
        """Have the lease again, for what was asked for while it was given back: whoever asked saw the run performed."""
        edge = self._cell.edge
        now_ms = edge.clock.now_ms()
        try:
            self._lease = await edge.journal.take_lease(
                self._cell.run, owner=self._lease.owner, now_ms=now_ms, until_ms=now_ms + edge.lease_ms
            )
        except RunBusy:
            return False
        self._until_ms = self._lease.until_ms
        return True

    async def _perform_leased(self) -> None:
        self._cell.listeners.add(self._changed)
        try:
            await self._begin()
            while not self._resting():
                self._wake.clear()
                self._arm()
                await self._wake.wait()
                await self._look()
            if self._error is not None:
                raise self._error
        finally:
            self._cell.listeners.discard(self._changed)
            if self._timer is not None:
                self._timer()
                self._timer = None
            await self._let_go()

    async def close(self) -> None:
        """Signal what is in flight and let it end within the grace period; what does not is left to recovery."""
        self._closing = True
        self._signal_all()
        self._wake.set()

    def _fail(self, error: BaseException) -> None:
        """Begin nothing more; what is in flight may end within its grace period, and be recorded if it can be."""
        self._error = self._error or error
        self._closing = True
        self._signal_all()
        self._wake.set()

    async def _begin(self) -> None:
        state = await self._cell.warm()
        lost = any(opened.phase == "dispatched" for opened in state.effects.values())
        commands: list[AnyCommand] = [Recover()] if lost else []
        self._spawn(await self._move(*commands))

    async def _move(self, *commands: AnyCommand) -> Open | None:
        """Record ``commands`` and whatever falls due by them, then start what was dispatched.

        The first of it is returned for the caller to go on with, in the same task: a step of one call after another
        needs no new task. The rest have one each.
        """
        advance = () if self._closing else (self._advance(),)
        events = await self._submit(*commands, *advance)
        if _unplanned(self._cell.state) and not self._closing:
            events += await self._plan()
        return await self._begun(events)

    def _advance(self) -> Advance:
        """The command that requests and dispatches whatever is due here."""
        return Advance(by=self._by)

    async def _begun(self, events: tuple[RecordedEvent, ...]) -> Open | None:
        """Start what ``events`` dispatched, but for the first of it, which is returned."""
        ready = self._taken(self._cell.state, events)
        if self._cell.state.workspace is not None and self._snapshot_due() is not None:
            # A snapshot takes its time: what may run before it is on record does not wait for it.
            for opened in ready:
                self._spawn(opened)
            seen = await self._see_files()
            ready = self._taken(self._cell.state, seen)
        state = self._cell.state
        for opened in ready[1:]:
            self._spawn(opened)
        if state.interrupting or state.stopped:
            self._signal_all()
        return ready[0] if ready else None

    async def _see_files(self) -> tuple[RecordedEvent, ...]:
        """Take the snapshots of the workspace that are due, each with what may happen once it is on record."""
        events: tuple[RecordedEvent, ...] = ()
        while (why := self._snapshot_due()) is not None and self._bench.workspace is not None:
            self._seeing = True
            try:
                taken = await capture(self._bench.workspace, self._cell.state, why)
                events += await self._submit(Captured(taken=taken), self._advance())
            finally:
                self._seeing = False
        return events

    def _snapshot_due(self) -> WhySnapshot | None:
        """Which snapshot is to be taken here and now; none while another is being taken."""
        if self._seeing or self._closing:
            return None
        state = self._cell.state
        return due(state, max(self._cell.edge.clock.now_ms(), state.at_ms)).snapshot

    async def _submit(self, *commands: AnyCommand, moved: int | None = None) -> tuple[RecordedEvent, ...]:
        self._moves += 1
        try:
            events = await self._cell.submit(*commands, lease=self._lease, moved=moved)
        finally:
            self._moves -= 1
        if events:
            self._until_ms = events[-1].at_ms + self._cell.edge.lease_ms
        return events

    async def _plan(self) -> tuple[RecordedEvent, ...]:
        """Request calls of the last message that have no plan: after an edit, an import, or a fork."""
        state = self._cell.state
        message = state.transcript.entries[-1].message
        calls = [
            part
            for part, slot in zip(message.calls, state.batch, strict=True)
            if slot.effect == 0 and slot.answer is None
        ]
        plans = await self._planner.plans(state, calls)
        if self._cell.state is not state:
            return ()
        return await self._submit(Plan(plans=plans), self._advance())

    def _taken(self, state: RunState, events: Iterable[RecordedEvent]) -> list[Open]:
        """What ``events`` dispatched and what is to be probed, unless it is in flight here; from now on it is."""
        controls, taken = self._controls, []
        for recorded in events:
            if isinstance(recorded.event, EffectDispatched):
                found = state.effects.get(recorded.event.effect)
                if found is not None and found.phase == "dispatched" and found.seq not in controls:
                    taken.append(found)
        if not self._closing:
            opens = state.effects.values()
            taken += [one for one in opens if one.phase == "probe" and one.seq not in controls and self._can(one)]
        for opened in taken:
            controls[opened.seq] = Control(self._cell.edge.clock, self._grace_s)
        return taken

    def _can(self, opened: Open) -> bool:
        """Whether this process has what it takes to perform ``opened`` now."""
        return True

    def _spawn(self, opened: Open | None) -> None:
        """Perform ``opened``, and what follows from it, in a task of its own."""
        if opened is not None:
            self._keep(asyncio.get_running_loop().create_task(self._chain(opened), context=self._where(opened)))

    def _where(self, opened: Open) -> contextvars.Context | None:
        """The context variables that ``opened`` is performed with; ``None`` for those of whoever begins it."""
        return None

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _chain(self, opened: Open | None) -> None:
        """Perform one effect after the other for as long as each leads to the next."""
        task = asyncio.current_task()
        while opened is not None:
            control = self._controls[opened.seq]
            control.task = task
            seq = opened.seq
            try:
                opened = await (self._probe if opened.phase == "probe" else self._perform)(opened, control)
            finally:
                # Whatever became of it, it is no longer in flight here; another attempt has its own control.
                if self._controls.get(seq) is control:
                    del self._controls[seq]

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._orphans.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        if not self._tasks and self._minds():
            self._wake.set()

    def _minds(self) -> bool:
        """Whether there may be something to do or to decide now that nothing is in flight any more."""
        return True

    async def _perform(self, opened: Open, control: Control) -> Open | None:
        control.abandoned = lambda: self._abandon(opened, control)
        await self._still_ours()
        settle = await self._performed(opened, control)
        if not control.finish():
            await self._late(settle)
        elif not self._leave_open(settle, control):
            return await self._record(opened, settle)
        return None

    async def _performed(self, opened: Open, control: Control) -> Settle:
        """Perform one attempt; how it ended, as the command to record it."""
        perform = ask_model if isinstance(opened.effect, ModelCall) else call_tool
        return await perform(self._bench, self._cell.state, opened, control)

    def _leave_open(self, settle: Settle, control: Control) -> bool:
        """Whether this outcome only says that this process is closing: recovery knows better what to do."""
        return self._closing and control.why == "cancelled" and not isinstance(settle.outcome, Succeeded | Failed)

    async def _probe(self, opened: Open, control: Control) -> Open | None:
        control.abandoned = lambda: self._give_up_probe(opened, control)
        found = await probe_tool(self._bench, self._cell.state, opened, control)
        if not control.finish():
            return None
        self._controls.pop(opened.seq, None)
        return await self._guarded(found)

    def _give_up_probe(self, opened: Open, control: Control) -> None:
        """A probe that does not end has found nothing out; where this process closes, the next one asks again."""
        self._leave_behind(opened, control)
        if control.task is not None:
            control.task.cancel()
        if not self._closing:
            self._follow(lambda: self._guarded(unanswered(opened)))

    async def _still_ours(self) -> None:
        """Renew the lease if it ran out since it was last renewed. Raises ``lease.lost``; nothing was performed."""
        now_ms = self._cell.edge.clock.now_ms()
        if now_ms >= self._until_ms:
            await self._renew(now_ms)

    def _abandon(self, opened: Open, control: Control) -> None:
        """Give up on a call that did not end when signalled; it may still end, and be a late result."""
        self._leave_behind(opened, control)
        if self._closing:
            return
        settle = given_up(opened, control, self._timeout_s(opened))
        self._follow(lambda: self._record(opened, settle))

    def _timeout_s(self, opened: Open) -> float | None:
        tool = self._bench.equipment.tool(opened.name)
        return tool.timeout_s if tool is not None else None

    def _leave_behind(self, opened: Open, control: Control) -> None:
        self._controls.pop(opened.seq, None)
        if control.task is not None:
            self._tasks.discard(control.task)
            self._orphans.add(control.task)
        self._wake.set()

    def _follow(self, record: Callable[[], Awaitable[Open | None]]) -> None:
        """Record something, and perform what follows from it, in a task of its own."""

        async def following() -> None:
            await self._chain(await record())

        self._keep(asyncio.get_running_loop().create_task(following()))

    async def _record(self, opened: Open, settle: Settle) -> Open | None:
        """Append an outcome, with the plans of the calls that a model's message asks for."""
        self._controls.pop(opened.seq, None)
        outcome = settle.outcome
        own_loop = self._cell.state.function is None
        if own_loop and isinstance(outcome, Succeeded) and outcome.message is not None and _is_step(opened):
            message = self._cell.edge.writer.from_outside(outcome.message)
            if calls := message.calls:
                plans = await self._planner.plans(self._cell.state, calls)
                return await self._guarded(settle, Plan(plans=plans))
        return await self._guarded(settle)

    async def _late(self, settle: Settle) -> None:
        """Tell how a call ended that others have given up on; whether that settles anything is for the rules to say."""
        if isinstance(settle.outcome, Succeeded | Failed) and not settle.doubtful:
            await self._cell.refresh()
            await self._cell.submit(Late(effect=settle.effect, outcome=settle.outcome))

    async def _guarded(self, *commands: Settle | Plan | Found) -> Open | None:
        """Record commands under the lease; losing it ends the performing, and what is known comes as a late result."""
        try:
            return await self._move(*commands)
        except LeaseLost as lost:
            self._fail(lost)
            for command in commands:
                if isinstance(command, Settle):
                    await self._late(command)
            return None

    def _signal_all(self) -> None:
        for control in tuple(self._controls.values()):
            control.signal("cancelled")

    def _changed(self, events: Sequence[RecordedEvent]) -> None:
        if not self._moves:
            self._wake.set()

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._cell.edge.clock.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._wake.set()

    async def _look(self) -> None:
        """React to what others wrote, to time passing, and to the lease running down."""
        if self._closing:
            return
        try:
            await self._react()
        except Exception as error:  # told by ``perform``, once what is in flight has had its time to end
            self._fail(error)

    async def _react(self) -> None:
        edge = self._cell.edge
        version = await edge.journal.version()
        if version != self._version:
            self._version = version
            await self._cell.refresh()
        state, now_ms = self._cell.state, edge.clock.now_ms()
        if state.interrupting or state.stopped:
            self._signal_all()
        if not self._moves and self._is_new(due(state, now_ms)):
            self._spawn(await self._move())
        if self._until_ms < now_ms + edge.lease_ms // 2:
            await self._renew(now_ms)

    def _is_new(self, found: Due) -> bool:
        """Whether something of what is due is to be begun here."""
        seeing = found.snapshot is not None and not self._seeing
        probing = bool(set(found.probe) - self._controls.keys())
        return bool(found.dispatch) or found.ask or found.plan or seeing or probing

    async def _renew(self, now_ms: int) -> None:
        self._until_ms = now_ms + self._cell.edge.lease_ms
        await self._cell.edge.journal.renew_lease(replace(self._lease, until_ms=self._until_ms))

    def _resting(self) -> bool:
        if self._controls or self._tasks:
            return False
        if self._closing:
            return True
        found = due(self._cell.state, self._cell.edge.clock.now_ms())
        return not found.anything and found.wake_at_ms is None

    async def _let_go(self) -> None:
        """Give the lease back. Tasks are left only where performing was itself cut off."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=0)
        await self._cell.edge.journal.release_lease(self._lease)


def _unplanned(state: RunState) -> bool:
    return state.function is None and unplanned(state) and due(state, state.at_ms).plan


def _is_step(opened: Open) -> bool:
    return isinstance(opened.effect, ModelCall) and not opened.effect.compaction
