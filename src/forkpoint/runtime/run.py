"""A handle on one run: read it, ask things of it, perform it, fork it."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from forkpoint.commands import (
    Answer,
    AnyCommand,
    Decide,
    Interrupt,
    Pause,
    Resolve,
    Send,
    Stop,
    Unpause,
    Verdict,
)
from forkpoint.definition import Limits
from forkpoint.effects import ModelCall, ToolCall
from forkpoint.errors import AnswerUnfit, ApprovalNotAsked, EffectNotFound, RequestAltered
from forkpoint.events import EffectRequested, EffectsPolicy, Pending, RecordedEvent
from forkpoint.ids import AtStep, ForkPoint, Where
from forkpoint.json_check import check_json
from forkpoint.messages import Message, Part
from forkpoint.outcomes import Succeeded
from forkpoint.pieces import Open
from forkpoint.ports import ModelRequest, RunRow
from forkpoint.runtime.arguments import checked_limits, labels_of, one_of, unfit
from forkpoint.runtime.cell import Cell
from forkpoint.runtime.comparing import run_trajectory
from forkpoint.runtime.files import RunFiles, folder_for_fork, folder_of
from forkpoint.runtime.forking import fork
from forkpoint.runtime.keeping import is_performed
from forkpoint.runtime.places import effect_named, settled_step, stand
from forkpoint.runtime.progress import Inbox, Progress
from forkpoint.runtime.reading import Outline, Reader
from forkpoint.runtime.requests import Requests
from forkpoint.state import RunState
from forkpoint.status import Wait, status, waits, was_called_off
from forkpoint.timetravel.moments import missing_point, where_of
from forkpoint.timetravel.patches import Patch, parts_of
from forkpoint.timetravel.trajectory import Trajectory
from forkpoint.transcript import request_digest
from forkpoint.values import to_json

if TYPE_CHECKING:
    from forkpoint.runtime.runtime import Runtime

POLL_S = 0.1
"""How often a watcher or waiter looks for what another process wrote."""

_NOTHING: Any = object()


class Run:
    """One run of a store. Made by ``Runtime.start``, ``Runtime.open`` and ``Run.fork``; opening performs nothing.

    ``send``, ``approve``, ``deny``, ``answer``, ``resolve``, ``pause``, ``unpause``, ``interrupt`` and ``stop`` need no
    lease and work from any process. A handle that has performed the run (``start``, ``resume``) goes on performing
    it after such a command; any other only records it.
    """

    def __init__(self, runtime: "Runtime", cell: Cell, *, live: bool = False) -> None:
        self._runtime = runtime
        self._cell = cell
        self._edge = runtime.edge
        self._live = live

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def id(self) -> str:
        """The run's id."""
        return self._cell.run

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    async def state(
        self, at: Where | int | None = None, *, step: int | None = None, turn: int | None = None
    ) -> RunState:
        """The run's state, now or at a moment, with every message and large value in place.

        Raises ``fork.no-such-point`` for a moment that does not exist.
        """
        where = where_of(at, step=step, turn=turn)
        if where is None:
            await self._cell.refresh()
            state = await self._cell.warm()
        else:
            reader = await self._reader()
            state = await reader.thaw(await stand(reader, self.id, where))
        return await self._edge.reader.whole_transcript(state)

    async def brief(self) -> RunState:
        """The run's state now, without reading messages that are not in memory: for status, counts and waits."""
        return await self._cell.refresh()

    async def history(self, *, after: int = 0, upto: int | None = None) -> list[RecordedEvent]:
        """The run's events over ``after``, its shared past among them, checked by digest."""
        return await (await self._reader()).history(self.id, after=after, upto=upto)

    async def outline(self, *, after: int = 0, upto: int | None = None) -> list[Outline]:
        """The list of the run's events without their bodies."""
        return await (await self._reader()).outlines(self.id, after=after, upto=upto)

    async def trajectory(self, *, upto: int | None = None) -> Trajectory:
        """The run told as steps, up to event ``upto`` (its head if left out), with every large value in place."""
        return await run_trajectory(await self._reader(), self.id, upto=upto)

    async def waits(self) -> tuple[Wait, ...]:
        """The decisions that the run needs now."""
        return waits(await self._cell.refresh())

    async def row(self) -> RunRow:
        """The run as a list shows it, with who performs it."""
        return await (await self._reader()).row(self.id)

    async def _reader(self) -> Reader:
        """What reads the journal, which has all by then that this process has seen of the run."""
        await self._cell.on_record()
        return self._edge.reader

    async def request(self, step: int | None = None, *, check: bool = True) -> ModelRequest:
        """Exactly what the model was shown for ``step`` (from 1; the last one if left out).

        Inside a shared past, that is what the parent's model saw. The rebuilt request is checked against the
        digest on record. Raises ``fork.no-such-point`` or ``request.altered``.
        """
        seq = await self._request_seq(step)
        reader = self._edge.reader
        state = await reader.thaw(await reader.load(self.id, upto=seq))
        recorded = (await reader.history(self.id, after=seq - 1, upto=seq))[0].event
        assert isinstance(recorded, EffectRequested) and isinstance(recorded.effect, ModelCall)
        if check and request_digest(state, ()) != recorded.effect.digest:
            raise RequestAltered(run=self.id, step=step or state.step + 1)
        return await Requests(None, reader).request(state, recorded.effect)

    async def _request_seq(self, step: int | None) -> int:
        state = await self._cell.refresh()
        asking = next((key for key, one in state.effects.items() if isinstance(one.effect, ModelCall)), None)
        if step is None and asking is not None:
            return asking
        wanted = state.step if step is None else step
        if asking is not None and wanted == state.step + 1:
            return asking
        settled = await settled_step(self._edge.reader, self.id, wanted) if wanted else None
        if settled is None:
            raise missing_point(state, AtStep(wanted))
        recorded = (await self._edge.reader.history(self.id, after=settled - 1, upto=settled))[0]
        return int(recorded.event.effect)  # type: ignore[union-attr, arg-type]

    @property
    def workspace(self) -> RunFiles:
        """The run's files: as of any moment, and how to put them back."""
        return RunFiles(self._cell, self._runtime.workspaces, performing=self._runtime.performing)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────

    async def send(
        self, input: str | Part | Message | Sequence[Part], *, key: str | None = None, actor: str | None = None
    ) -> None:
        """Give the run its next input; it waits its turn if the run is busy.

        With ``key``, sending the same again changes nothing. Raises ``run.stopped`` or ``input.key-reused``.
        """
        await self._ask(Send(parts=parts_of(input), key=key, actor=actor))

    async def approve(
        self, effect: int | str, *, arguments: Any = _NOTHING, digest: str | None = None, actor: str | None = None
    ) -> None:
        """Allow a call that waits for approval, with other ``arguments`` if they are given.

        The call is named by its effect or by the provider's call id. ``digest`` (from its wait) binds the approval to
        the call as you saw it. Raises ``effect.not-found``, ``fork.ambiguous-call`` for an id that several such calls
        have, ``approval.not-asked``, ``approval.other-arguments``, ``approval.already-decided`` or ``answer.unfit``.
        """
        found = await self._effect_named(effect)
        if arguments is _NOTHING:
            await self._ask(await self._decide(found, "allowed", digest, actor))
            return
        edited = to_json(arguments)
        await self._fits(found, edited, "parameters")
        await self._ask(await self._decide(found, "edited", digest, actor, arguments=edited))

    async def deny(
        self, effect: int | str, reason: str = "", *, digest: str | None = None, actor: str | None = None
    ) -> None:
        """Forbid a call that waits for approval; the model is told ``reason``. Raises as ``approve`` does."""
        found = await self._effect_named(effect)
        await self._ask(await self._decide(found, "denied", digest, actor, reason=reason))

    async def _decide(self, effect: int, decision: Any, digest: str | None, actor: str | None, **more: Any) -> Decide:
        state = await self._known(effect)
        opened = state.effects.get(effect)
        if opened is None and effect not in state.decided:
            raise ApprovalNotAsked(run=self.id, effect=effect)
        bound = digest if digest is not None else opened.digest if opened else ""
        return Decide(effect=effect, decision=decision, digest=bound, actor=actor, **more)

    async def answer(self, effect: int | str, value: Any, *, actor: str | None = None) -> None:
        """Give the result of an external tool's call, named by its effect or by the provider's call id.

        Raises ``answer.unfit`` if it does not fit the tool's result schema, ``answer.not-awaited``, and as
        ``approve`` does for a call that is not there or not the only one of its id.
        """
        found = await self._effect_named(effect)
        given = to_json(value)
        await self._fits(found, given, "result")
        await self._ask(Answer(effect=found, value=given, actor=actor))

    async def resolve(
        self,
        effect: int | str,
        verdict: Verdict,
        *,
        output: Any = _NOTHING,
        note: str = "",
        actor: str | None = None,
    ) -> None:
        """Decide what became of an effect whose outcome is unknown; ``output`` is its verified result.

        The same decision again changes nothing. Raises ``effect.already-resolved``, ``effect.not-unknown``,
        ``effect.not-found``, or ``fork.ambiguous-call`` for a call id that several such effects have.
        """
        found = await self._effect_named(effect)
        outcome = None if output is _NOTHING else Succeeded(value=to_json(output))
        await self._ask(Resolve(effect=found, verdict=verdict, outcome=outcome, note=note, actor=actor))

    async def pause(self, reason: str = "", *, actor: str | None = None) -> None:
        """Do nothing more until ``unpause``; what is in flight ends and is recorded."""
        await self._ask(Pause(reason=reason, actor=actor))

    async def unpause(self, *, limits: Limits | None = None, actor: str | None = None) -> None:
        """Go on after a pause or a reached limit; a limit counts anew, or is replaced by ``limits``."""
        await self._ask(Unpause(limits=checked_limits(limits), actor=actor))

    async def interrupt(self, reason: str = "", *, actor: str | None = None) -> None:
        """Call the turn off: what is in flight is signalled, what was not tried is cancelled."""
        await self._ask(Interrupt(reason=reason, actor=actor))

    async def stop(self, reason: str = "", *, actor: str | None = None) -> None:
        """End the run for good. It can still be read, compared and forked."""
        await self._ask(Stop(reason=reason, actor=actor))

    async def _ask(self, command: AnyCommand) -> None:
        await self._cell.refresh()
        await self._cell.submit(command)
        if self._live:
            await self._runtime.perform(self._cell, accept_changes=False, quiet=True)

    async def _known(self, effect: int) -> RunState:
        """The state, if ``effect`` is an effect of this run. Raises ``effect.not-found``."""
        state = await self._cell.refresh()
        if effect in state.effects or effect in state.doubts or effect in state.decided:
            return state
        if not 0 < effect <= state.seq:
            raise EffectNotFound(run=self.id, effect=effect)
        recorded = (await self._edge.reader.history(self.id, after=effect - 1, upto=effect))[0]
        if not isinstance(recorded.event, EffectRequested):
            raise EffectNotFound(run=self.id, effect=effect)
        return state

    async def _effect_named(self, name: int | str) -> int:
        """The effect that a number, digits, or a provider's call id names. Raises as ``effect_named`` does."""
        effect = await effect_named(self._edge.reader, await self._cell.refresh(), name)
        await self._known(effect)
        return effect

    async def _fits(self, effect: int, value: Any, side: str) -> None:
        """Hold ``value`` against the recorded schema of the effect's tool. Raises ``answer.unfit``."""
        state = await self._known(effect)
        opened = state.effects.get(effect)
        if opened is None:
            return
        schema = await self._schema(state, opened, side)
        problem = check_json(value, schema) if schema is not None else None
        if problem is not None:
            raise AnswerUnfit(run=self.id, effect=effect, tool=opened.name, detail=problem)

    async def _schema(self, state: RunState, opened: Open, side: str) -> Any:
        """The recorded schema of a call's parameters or result: with the call itself, or with the agent's tools."""
        effect = await self._edge.reader.whole(opened.effect)
        if isinstance(effect, ToolCall) and effect.fits is not None:
            return effect.fits.get(side)
        agent = await self._edge.reader.whole(state.agent)
        tool = next((one for one in agent.tools if one.name == opened.name), None)
        return getattr(tool, side) if tool is not None else None

    # ── performing ───────────────────────────────────────────────────────────────────────────────────────────

    async def resume(self, *, accept_changes: bool = False) -> None:
        """Perform what is due, in the background of this process; a failed turn is tried again.

        Raises ``run.busy`` if another process performs it, ``agent.missing``, ``agent.differs`` unless
        ``accept_changes``, and ``agent.tool-gone``.
        """
        self._live = True
        state = await self._cell.refresh()
        if status(state) == "failed" or was_called_off(state):
            await self._cell.submit(Unpause())
        await self._runtime.perform(self._cell, accept_changes=accept_changes)

    async def wait(self) -> RunState:
        """The state once nothing is due or in flight: the run is idle, waiting, paused, failed or stopped.

        Also returns when the run is running and nobody performs it. Raises what stopped a performer here.
        """
        while True:
            performing = self._runtime.performing(self.id)
            if performing is not None:
                await asyncio.shield(performing)
            state = await self._cell.refresh()
            if status(state) != "running" or (self._runtime.performing(self.id) is None and not await self._owned()):
                return await self.state()
            if self._runtime.performing(self.id) is None:
                await self._pause()

    async def _owned(self) -> bool:
        return is_performed(self._edge, await self.row())

    async def _pause(self) -> None:
        done = asyncio.Event()
        self._edge.clock.call_later(POLL_S, done.set)
        await done.wait()

    # ── time travel ──────────────────────────────────────────────────────────────────────────────────────────

    async def fork(
        self,
        at: Where | int | None = None,
        *,
        step: int | None = None,
        turn: int | None = None,
        before: str | int | None = None,
        patch: Patch | None = None,
        run_id: str | None = None,
        effects: EffectsPolicy = "live",
        pending: Pending = "hold",
        workspace: str | os.PathLike[str] | None = None,
        labels: Mapping[str, str] | None = None,
        actor: str | None = None,
    ) -> "Run":
        """A new run that shares this one's past up to a moment (its head if none is given), changed by ``patch``.

        Performs nothing. ``effects`` says what its tools do: ``live``, ``recorded`` (a call equal to one that the
        parent made after the fork point takes its outcome) or ``ask`` (as recorded, and what is not read-only
        waits for a person). ``workspace`` is a new folder that gets the files as of the fork point; without it
        the child has no files of its own. ``pending`` says what becomes of calls the parent left open. Raises the
        ``fork.*`` and ``patch.*`` errors, and ``snapshot.not-found`` where no files were captured by then.
        """
        one_of("effects", effects, get_args(EffectsPolicy))
        one_of("pending", pending, get_args(Pending))
        if patch is not None and not isinstance(patch, Patch):
            raise unfit("patch", patch, "a Patch")
        patch = patch or Patch()
        loaded = await stand(await self._reader(), self.id, where_of(at, step=step, turn=turn, before=before))
        self._runtime.know(patch, loaded.state)
        folder = folder_of(workspace)
        async with folder_for_fork(self.workspace, folder, loaded.state.seq) as tree:
            name = await fork(
                self._edge,
                self.id,
                loaded,
                patch=patch,
                run_id=run_id,
                effects=effects,
                pending=pending,
                workspace=folder,
                labels=labels_of(labels),
                actor=actor,
            )
        child = await self._runtime.open(name)
        if tree is not None:
            await child.workspace.adopt(tree)
        return child

    async def lineage(self) -> tuple[ForkPoint, ...]:
        """The fork points this run descends from, nearest first."""
        points = []
        row = await self.row()
        while row.parent is not None:
            points.append(ForkPoint(row.parent, row.at))
            found = await self._edge.journal.row(row.parent)
            if found is None:
                break
            row = found
        return tuple(points)

    async def children(self) -> tuple[RunRow, ...]:
        """The forks of this run, oldest first."""
        return await self._edge.journal.children(self.id)

    # ── watching ─────────────────────────────────────────────────────────────────────────────────────────────

    async def watch(self, *, after: int | None = None, follow: bool = True) -> AsyncIterator[RecordedEvent | Progress]:
        """Recorded events in order, without gaps or doubles, from any process; and progress, where it is performed.

        Begins after event ``after`` (now, if left out). Without ``follow`` it ends once the run is not running.
        A watcher that does not keep up is dropped some progress, never an event, and slows nothing down.
        """
        wake = asyncio.Event()
        inbox = Inbox(wake.set)
        seen = after if after is not None else (await self.row()).head
        leave = self._edge.bulletin.join(self.id, inbox)
        try:
            while True:
                wake.clear()
                while inbox.notices:
                    yield inbox.notices.popleft()
                news = await self._edge.reader.history(self.id, after=seen, upto=seen + 256)
                for recorded in news:
                    seen = recorded.seq
                    yield recorded
                if news:
                    continue
                if not follow:
                    row = await self.row()
                    if row.head > seen:
                        continue  # it came to rest after we looked: what it recorded last comes first
                    if row.summary.status != "running":
                        return
                cancel = self._edge.clock.call_later(POLL_S, wake.set)
                await wake.wait()
                cancel()
        finally:
            leave()

    async def digest(self) -> str:
        """The digest of the run's last event: equal digests, equal histories."""
        await self._cell.refresh()
        return self._cell.digest.hex()
