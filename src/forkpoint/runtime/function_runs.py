"""Performing a function's run: the function is called, and what it asks for is performed like any other effect.

It ends when the function has returned and everything it began is on record, or when nothing can go on before somebody
decides. Then the function is called off; the next process calls it again, and its record answers.
"""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Any

from forkpoint._canon import value_digest
from forkpoint.agents.asking import ASKER
from forkpoint.agents.function import Function, Step
from forkpoint.agents.tool import Tool
from forkpoint.commands import Advance, AnyCommand, Return, Settle
from forkpoint.effects import ModelCall, Recovery
from forkpoint.errors import (
    ForkpointError,
    FunctionUnfit,
    LeaseLost,
    ValueNotJson,
)
from forkpoint.events import EffectRequested, RecordedEvent
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.pieces import Lineage, Open
from forkpoint.ports import Lease
from forkpoint.runtime.asks import Planned, Unwound, Wanted
from forkpoint.runtime.calls import Control, in_thread
from forkpoint.runtime.cell import Cell
from forkpoint.runtime.conversations import Conversations
from forkpoint.runtime.deferring import DEFER_MS, MovedError
from forkpoint.runtime.dispatch import Bench, asked, done, plain_response
from forkpoint.runtime.function_past import Past, ended_after
from forkpoint.runtime.performer import GRACE_S, Performer
from forkpoint.runtime.planning import Planner
from forkpoint.runtime.recorder import Recorder
from forkpoint.state import RunState
from forkpoint.status import Due, due, is_waited_for
from forkpoint.values import to_json

QUIET_S = 0.05
"""How long nothing may have been asked before a function that waits for decisions is taken to wait for nothing else."""

DIVERGED_S = 1.0
"""The same before what it asked for is held against what is on record and was not asked for."""

Asks = Tool[..., Any] | Step[..., Any]
"""What a function's code may ask for beside a model."""


class FunctionPerformer(Performer):
    """Performs one function's run until it returned, waits, is paused, stopped or called off, or the lease is lost."""

    def __init__(
        self,
        cell: Cell,
        bench: Bench,
        planner: Planner,
        lease: Lease,
        *,
        function: Function[..., Any],
        past: Past,
        tools: dict[str, Tool[..., Any]],
        orphans: set[asyncio.Task[None]],
        grace_s: float = GRACE_S,
    ) -> None:
        super().__init__(cell, bench, planner, lease, orphans=orphans, grace_s=grace_s)
        self._function = function
        self._arguments = past.arguments
        self._parents: dict[str, list[tuple[int, Any]]] | None = None
        self._called: asyncio.Task[None] | None = None
        self._outcome: Succeeded | Failed | None = None
        self._over = False
        self._asks_seen = -1
        self._quiet: Callable[[], None] | None = None
        self._flush: Callable[[], None] | None = None
        self.raised: BaseException | None = None
        """What the function raised, or what ended it."""
        self.recorder = Recorder(
            run=cell.run,
            record=past.record,
            equipment=bench.equipment,
            overrides=past.overrides,
            whole=bench.reader.whole,
            plan=self._planned,
            request=self._request,
            stirred=self._wake.set,
            conversations=Conversations(lambda: cell.state, bench.equipment.mask, function.name),
            tools=tools,
        )

    # ── the function ──────────────────────────────────────────────────────────────────────────────────────────

    async def _begin(self) -> None:
        await super()._begin()
        if self._cell.state.active:
            self._called = asyncio.get_running_loop().create_task(self._call())
            self._called.add_done_callback(self._function_ended)

    async def _call(self) -> None:
        """Call the function; what came of it is in ``_outcome`` and ``raised``."""
        ASKER.set(self.recorder)
        function = self._function
        try:
            bound = function.bound(self._arguments)
            if function.is_async:
                result = await function.function(*bound.args, **bound.kwargs)
            else:
                result = await in_thread(lambda: function.function(*bound.args, **bound.kwargs))
            self._outcome = self._stored(result)
        except (asyncio.CancelledError, Unwound):
            if not self.recorder.ended:
                self._outcome = Failed(error="CancelledError", text="the function was cancelled from within")
        except ForkpointError as error:
            # A refusal of ours says that the code cannot go on here and now; that is no outcome of the function.
            self.raised = error
        except Exception as error:  # what the function raises is how it ended
            self.raised = error
            self._outcome = Failed(error=type(error).__name__, text=str(error)[:4000])

    def _function_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)  # what is no Exception ends this process's work, and says nothing of the function
        self._wake.set()

    def _stored(self, result: Any) -> Succeeded:
        try:
            return Succeeded(value=to_json(result))
        except ValueNotJson as error:
            raise FunctionUnfit(function=self._function.name, problem=f"its result: {error}") from error

    async def _end(self, raised: BaseException | None = None) -> None:
        """Call the function off, if it still runs, and answer nothing more."""
        self.raised = self.raised or raised
        if isinstance(self.raised, ForkpointError):
            self._error = self._error or self.raised
        self._over = True
        self._calm()
        self.recorder.end()
        if self._called is not None and not self._called.done():
            self._called.cancel()
            await asyncio.wait([self._called], timeout=self._grace_s)

    # ── what it asks for ──────────────────────────────────────────────────────────────────────────────────────

    def _advance(self) -> Advance:
        return Advance(by=self._by, ready=frozenset(self.recorder.bodies))

    async def _request(self, wanted: Wanted, planned: Planned) -> int | None:
        """Put an ask on record and perform it; its effect, or ``None`` where nothing may be asked for now."""
        events: tuple[RecordedEvent, ...] | None = None
        while events is None:
            if self._closing:
                return None
            moved, after = self._cell.moved, self._cell.state.seq
            ask = wanted.command(planned)
            advance = Advance(by=self._by, ready=frozenset(self.recorder.bodies), after=after)
            try:
                events = await self._submit(ask, advance, moved=moved)
            except MovedError:
                continue  # what it refers to has another number now
            except LeaseLost as lost:
                self._fail(lost)
                return None
        seq = next((one.seq for one in events if isinstance(one.event, EffectRequested)), None)
        if seq is not None:
            self.recorder.bodies[seq] = wanted.body
        await self._begun(events)
        return seq

    async def _planned(self, wanted: Asks, identity: str, plain: Any, checks: bool) -> Planned:
        """Whether a call is refused, answered by the parent's record, or for a person to allow."""
        gated, external = bool(wanted.approval), False
        if isinstance(wanted, Tool):
            external = wanted.external
            arguments = plain
            if checks:
                try:
                    arguments = wanted.convert(plain)
                except ForkpointError as error:
                    text = self._bench.equipment.mask_text(str(error))
                    return Planned(refused=Failed(error="InvalidArguments", text=text[:2000]))
            gated = await self._planner.gated(wanted, arguments)
        lineage = self._cell.state.lineage
        if lineage is not None and lineage.effects != "live":
            found = await self._from_parent(lineage, identity)
            if found is not None:
                return Planned(recorded=found)
            gated = gated or (lineage.effects == "ask" and wanted.recovery is not Recovery.REPEAT and not external)
        return Planned(digest=value_digest([wanted.name, plain]) if gated else "")

    async def _from_parent(self, lineage: Lineage, identity: str) -> tuple[int, Any] | None:
        """What the parent's record has after the fork point for an equal ask, each used once."""
        if self._parents is None:
            self._parents = await ended_after(self._bench.reader, lineage)
        left = self._parents.get(identity, [])
        while left:
            effect, outcome = left.pop(0)
            if effect not in self._cell.state.sources:
                return effect, await self._bench.reader.whole(outcome)
        return None

    # ── how it is performed ───────────────────────────────────────────────────────────────────────────────────

    async def _begun(self, events: tuple[RecordedEvent, ...]) -> None:
        """Start what ``events`` dispatched, each apart: with the context variables of the code that asked for it."""
        self._spawn(await super()._begun(events))

    def _where(self, opened: Open) -> contextvars.Context | None:
        body = self.recorder.bodies.get(opened.seq)
        return None if body is None else body.where

    def _minds(self) -> bool:
        # While the code runs on, it asks for more or comes to its end, and says so.
        return self._closing or self._called is None or self._called.done() or self.recorder.is_waited_for

    def _can(self, opened: Open) -> bool:
        return opened.seq in self.recorder.bodies

    def _is_new(self, found: Due) -> bool:
        mine = self.recorder.bodies.keys()
        seeing = found.snapshot is not None and not self._seeing
        return bool(mine & set(found.dispatch)) or seeing or bool((mine & set(found.probe)) - self._controls.keys())

    async def _performed(self, opened: Open, control: Control) -> Settle:
        body = self.recorder.bodies[opened.seq]
        state, bench = self._cell.state, self._bench
        if body.respond is not None:
            return await asked(bench, state, opened, control, body.respond, plain_response)
        edited = await self._edited(opened)

        async def work(ctx: Any) -> Any:
            asked_for = body.work
            assert asked_for is not None
            control.interruptible = True
            try:
                return await asked_for(ctx, edited)
            finally:
                control.interruptible = False

        return await done(bench, state, opened, control, work, timeout_s=body.timeout_s, check=body.check)

    async def _move(self, *commands: AnyCommand) -> Open | None:
        """Record ``commands``; an outcome that may be asked for again is put on record with what is asked for next."""
        if self._closing or not _may_be_deferred(self._cell.state, commands):
            return await super()._move(*commands)
        self._moves += 1
        try:
            await self._cell.defer(*commands, lease=self._lease)
        finally:
            self._moves -= 1
        if self._flush is None:
            self._flush_in(DEFER_MS)
        return None

    def _flush_in(self, ms: int) -> None:
        self._flush = self._cell.edge.clock.call_later(ms / 1000, self._flush_deferred)

    def _flush_deferred(self) -> None:
        """Put on record what has waited its time; what was deferred since has the rest of its own."""
        self._flush, since_ms = None, self._cell.deferred_at_ms
        if since_ms is None:
            return
        left_ms = since_ms + DEFER_MS - self._cell.edge.clock.now_ms()
        if left_ms > 0:
            self._flush_in(left_ms)
        else:
            self._keep(asyncio.get_running_loop().create_task(self._cell.flush()))

    async def _edited(self, opened: Open) -> Any:
        """The arguments that a person set in place of those asked for, if somebody did."""
        if opened.gate != "allowed" or not hasattr(opened.asked, "decision"):
            return None
        return self._bench.equipment.reveal((await self._bench.reader.whole(opened.asked)).arguments)

    def _timeout_s(self, opened: Open) -> float | None:
        body = self.recorder.bodies.get(opened.seq)
        return body.timeout_s if body is not None else None

    # ── how it comes to rest ──────────────────────────────────────────────────────────────────────────────────

    def _changed(self, events: Any) -> None:
        super()._changed(events)
        for recorded in events:
            self.recorder.record.note(recorded, self._cell.state)
        if not self._files_unseen():
            self.recorder.tell()
        if not self._moves:
            self._wake.set()

    def _files_unseen(self) -> bool:
        """Whether what just ended may have changed files that are still to be seen: until then the code waits."""
        state = self._cell.state
        return state.workspace is not None and not self._closing and due(state, state.at_ms).snapshot == "after"

    async def _react(self) -> None:
        await super()._react()
        if self._over or self._busy():
            return
        state = self._cell.state
        if state.stopped or state.paused is not None or state.interrupting or not state.active:
            await self._end()
        elif self._called is None or self._called.done():
            await self._returned(state)
        else:
            await self._consider(state)

    def _busy(self) -> bool:
        return bool(self._controls or self._tasks or self._moves)

    async def _returned(self, state: RunState) -> None:
        """The function has come to its end: on record, unless something it began is not known to have ended."""
        ended = self._outcome is not None and not self._open_ones(state)
        differs = self.recorder.divergence() if ended and not state.retold else None
        if ended and differs is None and self._outcome is not None:
            await self._submit(Return(outcome=self._outcome))
        await self._end(differs)

    @staticmethod
    def _open_ones(state: RunState) -> bool:
        return any(opened.phase != "settled" for opened in state.effects.values())

    async def _consider(self, state: RunState) -> None:
        """End what cannot go on: once nothing was asked for in a while, and nothing is in flight or falls due."""
        decided = any(is_waited_for(state.effects.get(effect)) for effect in self.recorder.waiting)
        later = due(state, self._cell.edge.clock.now_ms()).wake_at_ms is not None
        if later or not (decided or self.recorder.parked):
            self._calm()
        elif self._asks_seen != self.recorder.asks:
            self._asks_seen = self.recorder.asks
            self._calm()
            self._quiet = self._cell.edge.clock.call_later(QUIET_S if decided else DIVERGED_S, self._is_quiet)
        elif self._quiet is None:
            if state.retold and not decided:
                self.recorder.go_on()
            else:
                await self._end(None if decided else self.recorder.divergence())

    def _is_quiet(self) -> None:
        self._quiet = None
        self._wake.set()

    def _calm(self) -> None:
        if self._quiet is not None:
            self._quiet()
            self._quiet = None
        if self._over:
            self._asks_seen = -1

    def _resting(self) -> bool:
        if self._controls or self._tasks:
            return False
        return self._closing or self._over

    async def _take_up_again(self) -> bool:
        return False

    async def _let_go(self) -> None:
        if not self._over:
            await self._end()
        if self._flush is not None:
            self._flush()
        try:
            await self._cell.let_go()
        finally:
            await super()._let_go()


def _may_be_deferred(state: RunState, commands: Sequence[AnyCommand]) -> bool:
    """Whether a crash before an outcome is on record does no more than have it asked for again."""
    match commands:
        case (Settle(outcome=Succeeded(), set=None, unset=()) as settle,):
            opened = state.effects.get(settle.effect)
            return opened is not None and _is_repeated(opened) and not state.interrupting and not state.stopped
        case _:
            return False


def _is_repeated(opened: Open) -> bool:
    return isinstance(opened.effect, ModelCall) or opened.effect.recovery is Recovery.REPEAT
