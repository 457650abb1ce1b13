"""One process with tools of the test's own making, on a clock that moves only where it is moved."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from forkpoint.agents.agent import Agent
from forkpoint.agents.tool import Tool
from forkpoint.runtime.runtime import Runtime
from forkpoint.testing.fakes import FakeClock, ScriptedModel, call, calls, settle
from forkpoint.wiring import connect


class Bell:
    """Rung by a tool once it is in flight; what it then waits for is up to the test."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.go = asyncio.Event()

    async def wait(self) -> None:
        self.rung.set()
        await self.go.wait()


def process(store: Any, clock: FakeClock, *having: Tool[..., Any]) -> Runtime:
    """A runtime whose model calls every tool once for each input."""
    asked = calls(*(call(each.name) for each in having))
    model = ScriptedModel(lambda request: asked if request.messages[-1].text in ("go", "again") else "done")
    return connect(store, agents=[Agent("a", model=model, tools=list(having))], clock=clock, grace_s=2)


async def carried(work: Awaitable[Any], clock: FakeClock, seconds: float = 5) -> Any:
    """What ``work`` gives, if it does so in ``seconds`` of the clock."""
    task = asyncio.ensure_future(work)
    await settle()
    for _ in range(int(seconds * 10)):
        if task.done():
            break
        await clock.advance(0.1)
    assert task.done(), f"not done after {seconds} s"
    return await task


def in_time(test: Callable[[FakeClock], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test(FakeClock()))  # type: ignore[arg-type]

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
