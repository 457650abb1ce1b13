"""The recorder: what a function's own code asks for becomes effects of its run, and its record answers it again.

    code asks ──▶ identity ──▶ on record? ──yes──▶ its outcome, once it has one
                                  │no
                                  ▼
                  records left that answered nothing? ──yes──▶ parked until they did; if nothing can, the run diverged
                                  │no
                                  ▼
                   requested, performed, recorded ──▶ its outcome, as recorded

An ask is known by what the code asked, before a fork puts anything in its place. Nothing is performed that is not on
record first, and the code sees an outcome as it is recorded: after that, or with the next ask (see ``deferring``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec.structs import replace

from forkpoint._canon import canonical, link, short
from forkpoint.agents.asking import ASKER
from forkpoint.agents.function import Step
from forkpoint.agents.tool import Tool, ToolContext
from forkpoint.commands import Ask
from forkpoint.effects import ATTEMPTS, StepCall, ToolCall
from forkpoint.errors import AskOutOfPlace, RecordingEnded, ReplayDiverged
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse
from forkpoint.runtime.asks import Answer, Body, Planned, Unwound, Wanted, where_it_is_quiet
from forkpoint.runtime.calls import called, in_thread
from forkpoint.runtime.conversations import Conversations
from forkpoint.runtime.edges import Equipment
from forkpoint.timetravel.asked import Asked, Record, says, says_model
from forkpoint.values import to_json

Request = Callable[[Wanted], Awaitable[int | None]]


class Recorder:
    """Answers what one function's code asks for, for as long as its run is performed here."""

    def __init__(
        self,
        *,
        run: str,
        record: Record,
        equipment: Equipment,
        overrides: Mapping[str, Any],
        whole: Callable[[Any], Awaitable[Any]],
        plan: "Callable[[Tool[..., Any] | Step[..., Any], str, Any, Any], Awaitable[Planned]]",
        request: Request,
        stirred: Callable[[], None],
        conversations: Conversations,
        tools: dict[str, Tool[..., Any]],
    ) -> None:
        self.run_id = run
        self.record = record
        self.overrides = overrides
        """What a fork put in the place of what the code asks of models: ``model``, ``instructions``, ``settings``,
        ``tools``, each if it was set."""
        self._equipment = equipment
        self._whole = whole
        self._plan = plan
        self._request = request
        self._stirred = stirred
        self._conversations = conversations
        self._tools = tools
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._parked: list[tuple[Wanted, asyncio.Future[None]]] = []
        self.bodies: dict[int, Body] = {}
        self.held = 0
        self.asks = 0
        self.ended = False

    # ── what adapters and the function's code ask ─────────────────────────────────────────────────────────────

    async def model(
        self,
        request: ModelRequest,
        perform: Callable[[ModelRequest, Callable[[ModelProgress], None]], Awaitable[ModelResponse]],
        *,
        agent: str | None = None,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
    ) -> Answer:
        """Ask a model. ``request`` is what the code asks; ``perform`` is given what it is to be asked instead.

        ``perform`` raises ``ModelUnavailable`` for what another attempt may mend. ``agent`` names who asks, if it has a
        name. What came of it is in the answer's ``message``, with the response's ``rest`` as its ``value``.
        """
        asked = self._conversations.asked(request)
        changed = self._conversations.changed(request, self.overrides)

        async def command() -> Ask:
            return self._conversations.command(changed, asked, agent=agent, attempts=attempts)

        def respond(progress: Callable[[ModelProgress], None]) -> Awaitable[ModelResponse]:
            return perform(changed, progress)

        body = Body(where=where_it_is_quiet(), respond=respond, timeout_s=timeout_s)
        says_it = says_model(request.model, request.messages)
        found, replayed = await self._ask(Wanted(identity=asked.identity, says=says_it, command=command, body=body))
        answer = await self._answer(found, replayed)
        said = answer.outcome.message if isinstance(answer.outcome, Succeeded) else None
        self._conversations.answered(asked, found.effect, said)
        return answer

    async def tool(
        self,
        tool: Tool[..., Any],
        arguments: Mapping[str, Any],
        *,
        perform: Callable[[ToolContext, dict[str, Any]], Awaitable[Any]] | None = None,
        call: str = "",
    ) -> Answer:
        """Ask for a tool. ``call`` is the id of the model's call, if the code knows it.

        ``perform`` does the work in place of the tool's function; it is given the arguments as they were given here,
        or as a person changed them.
        """
        self._tools[tool.name] = tool
        given = dict(arguments)
        plain = to_json(given)
        masked = self._equipment.mask(plain)

        async def command() -> Ask:
            message, place = self._conversations.place_of(tool.name, masked, call)
            linked = message and self._conversations.holds(message, place, masked)
            effect = ToolCall(
                tool=tool.name,
                message=message,
                call=place,
                recovery=tool.recovery,
                external=tool.external,
                attempts=tool.attempts,
                arguments=None if linked else plain,
                identity=identity,
                id="" if message else call,
            )
            return await self._planned(tool, identity, plain, effect, checks=perform is None)

        async def work(ctx: ToolContext, edited: Any) -> Any:
            values = edited if edited is not None else given
            if perform is not None:
                return await perform(ctx, values)
            return await called(tool, ctx, tool.convert(to_json(values)))

        identity = _identity("tool", tool.name, masked)
        body = Body(where=where_it_is_quiet(), work=work, check=tool.check_result, timeout_s=tool.timeout_s)
        wanted = Wanted(identity=identity, says=says(tool.name, masked), command=command, body=body)
        return await self._answer(*await self._ask(wanted))

    async def step(
        self,
        step: Step[..., Any],
        arguments: Mapping[str, Any],
        *,
        perform: Callable[[ToolContext], Awaitable[Any]] | None = None,
    ) -> Answer:
        """Ask for a step of the function's own code, known by its name and arguments.

        ``perform`` does the work in place of the step's function.
        """
        plain = to_json(dict(arguments))
        masked = self._equipment.mask(plain)
        identity = _identity("step", step.name, masked)

        async def command() -> Ask:
            effect = StepCall(
                name=step.name, arguments=plain, recovery=step.recovery, attempts=step.attempts, identity=identity
            )
            return await self._planned(step, identity, plain, effect)

        async def work(ctx: ToolContext, edited: Any) -> Any:
            if perform is not None:
                return await perform(ctx)
            values = arguments if edited is None else step.edited(edited)
            if step.is_async:
                return await step.call(ctx, values)
            return await in_thread(lambda: step.call(ctx, values))

        body = Body(where=where_it_is_quiet(), work=work, timeout_s=step.timeout_s)
        wanted = Wanted(identity=identity, says=says(step.name, masked), command=command, body=body)
        return await self._answer(*await self._ask(wanted))

    async def _planned(
        self,
        asked: Tool[..., Any] | Step[..., Any],
        identity: str,
        plain: Any,
        effect: ToolCall | StepCall,
        *,
        checks: bool = False,
    ) -> Ask:
        planned = await self._plan(asked, identity, plain, checks)
        gated = bool(planned.digest)
        if gated:
            effect = replace(effect, gated=True)
        if isinstance(asked, Tool) and isinstance(effect, ToolCall) and (gated or asked.external):
            effect = replace(effect, fits={"parameters": asked.parameters.schema, "result": asked.result})
        return Ask(
            effect=effect,
            gated=gated,
            digest=planned.digest,
            refused=planned.refused,
            recorded=planned.recorded,
        )

    # ── how it is answered ────────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, wanted: Wanted) -> tuple[Asked, bool]:
        """The record of what is wanted, and whether it was there before; asked for now if it was not."""
        self._check_open(wanted.says)
        self.asks += 1
        found = self.record.take(wanted.identity)
        if found is not None:
            self._let_go_on()
            self.bodies[found.effect] = wanted.body
            if not found.over:
                self._stirred()
            return found, True
        if self.record.unused:
            await self._park(wanted)
        effect = await self._requested(wanted)
        found = self.record.asked[effect]
        self.record.use(found)
        return found, False

    async def _requested(self, wanted: Wanted) -> int:
        while True:
            self._check_open(wanted.says)
            effect = await self._request(wanted)
            if effect is not None:
                return effect
            await self._hold()

    async def _hold(self) -> None:
        """Wait while nothing may be asked for: the run was paused, stopped or called off."""
        held: asyncio.Future[None] = self._loop.create_future()
        self._waiting[-1 - self.held] = held
        self.held += 1
        self._stirred()
        await held

    async def _park(self, wanted: Wanted) -> None:
        parked: asyncio.Future[None] = self._loop.create_future()
        self._parked.append((wanted, parked))
        self._stirred()
        await parked

    def _let_go_on(self) -> None:
        """Once every record has answered, what was parked is live."""
        if not self.record.unused:
            self.go_on()

    def go_on(self) -> None:
        """What was parked is live, whatever is left on record."""
        parked, self._parked = self._parked, []
        for _, future in parked:
            _wake(future)

    async def _answer(self, found: Asked, replayed: bool) -> Answer:
        while not found.over:
            ended: asyncio.Future[None] = self._loop.create_future()
            self._waiting[found.effect] = ended
            try:
                await ended
            finally:
                self._waiting.pop(found.effect, None)
        self.bodies.pop(found.effect, None)
        return Answer(
            effect=found.effect, outcome=await self._seen(found.outcome), finding=found.finding, replayed=replayed
        )

    async def _seen(self, outcome: Outcome | None) -> Succeeded | Failed | Cancelled | None:
        """A recorded outcome as the code sees it: whole, and with secrets in place of their names."""
        if outcome is None:
            return None
        assert not isinstance(outcome, Unknown)
        whole: Succeeded | Failed | Cancelled = await self._whole(outcome)
        return self._equipment.shown(whole)

    def tell(self) -> None:
        """What has ended by the record is told to whoever asked for it."""
        for effect, ended in tuple(self._waiting.items()):
            one = self.record.asked.get(effect)
            if one is not None and one.over:
                _wake(ended)
        if self.held:
            self.held = 0
            for effect in [key for key in self._waiting if key < 0]:
                _wake(self._waiting.pop(effect))

    # ── how it ends ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> list[int]:
        """The effects that the code waits for."""
        return [effect for effect in self._waiting if effect > 0]

    @property
    def is_waited_for(self) -> bool:
        """Whether some of the code waits for an outcome, or for leave to ask."""
        return bool(self._waiting or self._parked)

    @property
    def parked(self) -> bool:
        """Whether something was asked for that is not on record, while not all that is has been asked for."""
        return bool(self._parked)

    def divergence(self) -> ReplayDiverged | None:
        """What the code asked for against what it did not, if they differ."""
        left = [one.says for one in self.record.left()]
        if not left:
            return None
        asked = "; ".join(wanted.says for wanted, _ in self._parked[:3]) or "nothing more: the function came to its end"
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        return ReplayDiverged(run=self.run_id, asked=asked, recorded="; ".join(left[:3]) + more)

    def end(self) -> None:
        """Answer nothing more: whoever still waits is called off."""
        self.ended = True
        for ended in (*self._waiting.values(), *(future for _, future in self._parked)):
            ended.cancel()
        self._parked.clear()

    def _check_open(self, name: str) -> None:
        if self.ended:
            raise RecordingEnded(run=self.run_id, name=name)

    # ── being called by tools and steps ───────────────────────────────────────────────────────────────────────

    def tool_called(self, tool: Tool[..., Any], arguments: Mapping[str, Any]) -> Any:
        """See ``Asker``."""

        async def result() -> Any:
            return (await self.tool(tool, arguments)).value

        return self.waited(result, tool.name, is_async=tool.is_async)

    def step_called(self, step: Step[..., Any], arguments: Mapping[str, Any]) -> Any:
        """See ``Asker``."""

        async def result() -> Any:
            return step.result((await self.step(step, arguments)).value)

        return self.waited(result, step.name, is_async=step.is_async)

    def waited(self, result: Callable[[], Awaitable[Any]], name: str, *, is_async: bool) -> Any:
        """What to await for ``result``, or what it comes to where a plain function on an OS thread of its own asks.

        Raises ``function.blocks`` where waiting would stop the event loop.
        """
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            if is_async:
                return result()
            raise AskOutOfPlace(name=name)
        done = asyncio.run_coroutine_threadsafe(_awaited(result), self._loop)
        if here is not None and is_async:
            return asyncio.wrap_future(done)
        return _result(done)


def current() -> Recorder | None:
    """The recorder of the function that this code belongs to; ``None`` where nothing is recorded."""
    found = ASKER.get()
    return found if isinstance(found, Recorder) else None


def _identity(kind: str, name: str, plain: Any) -> str:
    return short(link(b"", canonical([kind, name, plain]))[:16])


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _awaited(result: Callable[[], Awaitable[Any]]) -> Any:
    return await result()


def _result(done: Any) -> Any:
    from concurrent.futures import CancelledError

    try:
        return done.result()
    except CancelledError:
        raise Unwound from None
