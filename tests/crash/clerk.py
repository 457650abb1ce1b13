"""A clerk with one tool of each recovery class, the errands it is sent on, and the world that sees what it does.

``attend`` is what any process does about an errand: recover, start it (the same start is the same run), send, decide
what waits, until the run is idle. Every life runs the same code, so that any number of deaths may lie between.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import Struct

from forkpoint.agents.agent import Agent
from forkpoint.agents.tool import NotOccurred, Occurred, Tool, ToolContext, tool
from forkpoint.commands import Verdict
from forkpoint.effects import Recovery
from forkpoint.messages import Message
from forkpoint.ports import Clock, Journal, ModelRequest, ModelResponse
from forkpoint.runtime.run import Run
from forkpoint.runtime.runtime import Runtime
from forkpoint.state import RunState
from forkpoint.testing.crash import Life
from forkpoint.testing.fakes import Reply, ScriptedModel, call, calls
from forkpoint.wiring import connect

RECOVERY = {
    "look": Recovery.REPEAT,
    "charge": Recovery.RETRY,
    "book": Recovery.RECONCILE,
    "mail": Recovery.HOLD,
}
ALL = tuple(RECOVERY)
RUN = "r"
ATTEMPTS = 6
"""Enough for a first attempt that fails and a few deaths."""

Look: TypeAlias = Callable[[Runtime], Awaitable[None]]


class Errand(Struct, frozen=True, kw_only=True):
    """What the clerk is asked to do: tools that the model calls in one message, and what comes in between.

    ``gated``: each needs approval. ``paused``: a pause comes while the model is asked, so that the calls are
    requested and queue. ``faulty``: every first attempt loses its connection, after the effect took place if the
    tool is ``book``. ``more``: a second input is sent. ``asks``: an external call is among them. ``steps``: how
    often the model calls them all. ``hangs``: this tool does not come back from its first attempt by itself.
    """

    tools: tuple[str, ...]
    gated: bool = False
    paused: bool = False
    faulty: bool = False
    more: bool = False
    asks: bool = False
    steps: int = 1
    hangs: str = ""

    def __str__(self) -> str:
        said = [name for name in ("gated", "paused", "faulty", "more", "asks") if getattr(self, name)]
        return "-".join(["+".join(self.tools), *said])


class World:
    """What really happened, whoever asked for it, in order: (what, tool, idempotency key), what being that a call
    was ``tried``, that its effect took place (``did``), or that it was ``probed``.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[str, str, str]] = []

    @property
    def entries(self) -> list[tuple[str, str, str]]:
        """Everything so far."""
        return self._entries

    def note(self, what: str, name: str, key: str) -> None:
        """Let something have happened."""
        self._entries.append((what, name, key))

    async def hang(self, name: str) -> None:
        """What a tool that hangs waits for."""
        await asyncio.Event().wait()

    def times(self, what: str, key: str) -> int:
        """How often that happened under a key."""
        return sum(1 for did, _, under in self.entries if (did, under) == (what, key))

    def keys(self) -> set[str]:
        """The keys under which effects took place."""
        return {key for did, _, key in self.entries if did == "did"}


def tools(world: World, errand: Errand) -> list[Tool[..., Any]]:
    """The clerk's tools. Each takes a while, and another one for each, so that they overlap."""

    async def perform(name: str, ctx: ToolContext) -> str:
        world.note("tried", name, ctx.idempotency_key)
        first = world.times("tried", ctx.idempotency_key) == 1
        if first and errand.hangs == name:
            await world.hang(name)
        first = first and errand.faulty and errand.hangs != name
        if first and name != "book":
            raise ConnectionError("cut off")
        for _ in range(ALL.index(name)):
            await asyncio.sleep(0)
        world.note("did", name, ctx.idempotency_key)
        await asyncio.sleep(0)
        if first:
            raise ConnectionError("cut off")
        return f"{name} done"

    async def booked(ctx: ToolContext) -> Occurred | NotOccurred:
        world.note("probed", "book", ctx.idempotency_key)
        return Occurred("book done") if world.times("did", ctx.idempotency_key) else NotOccurred()

    @tool(read_only=True, attempts=ATTEMPTS, approval=errand.gated)
    async def look(ctx: ToolContext) -> str:
        return await perform("look", ctx)

    @tool(idempotent=True, attempts=ATTEMPTS, approval=errand.gated)
    async def charge(ctx: ToolContext) -> str:
        return await perform("charge", ctx)

    @tool(reconcile=booked, attempts=ATTEMPTS, approval=errand.gated)
    async def book(ctx: ToolContext) -> str:
        return await perform("book", ctx)

    @tool(approval=errand.gated)
    async def mail(ctx: ToolContext) -> str:
        return await perform("mail", ctx)

    @tool(external=True)
    def ask() -> str: ...

    return [look, charge, book, mail, ask]


def script(errand: Errand) -> Callable[[ModelRequest], Reply]:
    """The model: it calls the errand's tools, and is done once they are answered."""

    def reply(request: ModelRequest) -> Message | str:
        step = sum(1 for message in request.messages if message.role == "assistant")
        if step >= errand.steps:
            return "done"
        asked = [*errand.tools, *(["ask"] if errand.asks else [])]
        return calls(*(call(name, id=f"call_{name}_{step}") for name in asked))

    return reply


class PausedWhileAsked:
    """A model during whose first answer somebody pauses the run, from a process of their own."""

    def __init__(self, model: ScriptedModel, pause: Callable[[], Awaitable[None]]) -> None:
        self.name = model.name
        self._model, self._pause = model, pause

    async def respond(self, request: ModelRequest, progress: Callable[..., None]) -> ModelResponse:
        if not any(message.role == "assistant" for message in request.messages):
            await self._pause()
        return await self._model.respond(request, progress)


class Office:
    """Where an errand's processes live: one journal (``open`` gives a handle of one more process), one clock."""

    def __init__(self, errand: Errand, open: Callable[[], Any], clock: Any, world: World | None = None) -> None:
        self.errand = errand
        self.world = world or World()
        self.clock = clock
        self.lease_s = 30.0
        self.grace_s = 1.0
        self._open = open
        self._tools = tools(self.world, errand)

    def process(self, life: Life) -> Runtime:
        """One more process, for as long as ``life`` lasts."""
        model: Any = ScriptedModel(script(self.errand))
        if self.errand.paused:
            model = PausedWhileAsked(model, self._pause)
        mortal = [life.tool(each) for each in self._tools]
        return self._connect(life.journal(self._open()), life.model(model), mortal, life.clock(self.clock))

    def onlooker(self) -> Runtime:
        """A process that is never killed."""
        model = ScriptedModel(script(self.errand))
        return self._connect(self._open(), model, self._tools, self.clock)

    def _connect(self, journal: Journal, model: Any, having: list[Tool[..., Any]], clock: Clock) -> Runtime:
        agent = Agent("clerk", model=model, tools=having, attempts=ATTEMPTS)
        return connect(journal, agents=[agent], clock=clock, lease_s=self.lease_s, grace_s=self.grace_s)

    async def _pause(self) -> None:
        async with self.onlooker() as runtime:
            await (await runtime.open(RUN)).pause("wait for me")

    async def attend(self, life: Life, *, verdict: Verdict = "abandoned_unknown", look: Look | None = None) -> RunState:
        """Do all there is to do about the errand, as one process; the run's state in the end."""
        async with self.process(life) as runtime:
            recovered = await runtime.recover()
            assert not recovered.failed
            if look is not None:
                await look(runtime)
            run = await runtime.start("clerk", "go", run_id=RUN)
            if self.errand.more:
                await run.send("one thing more", key="more")
            state = await run.wait()
            while state.status in ("waiting", "paused"):
                await decide(run, state, verdict)
                await run.resume()
                state = await run.wait()
            return state


async def decide(run: Run, state: RunState, verdict: Verdict) -> None:
    """Decide everything that the run waits for."""
    if state.status == "paused":
        await run.unpause()
    for wait in state.waits:
        match wait.kind:
            case "approval":
                await run.approve(wait.effect, digest=wait.digest, actor="ann")
            case "question":
                await run.answer(wait.effect, "42", actor="ann")
            case _:
                more = {"output": "mail done"} if verdict == "occurred" else {}
                await run.resolve(wait.effect, verdict, actor="ann", **more)
