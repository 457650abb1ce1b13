"""One tool call while it runs: signalled when its time is up, given a grace period, abandoned after that."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from forkpoint.agents.tool import Finding, Tool, ToolContext
from forkpoint.ports import Clock

Why: TypeAlias = Literal["timeout", "cancelled"]


class Control:
    """The reins of a call in flight.

    ``signal`` asks it to end. If it has not within the grace period, ``abandoned`` is called once; the call
    may still end later, and then its result is a late one.
    """

    __slots__ = ("_cancelled", "_clock", "_grace_s", "_timers", "abandoned", "interruptible", "over", "task", "why")

    def __init__(self, clock: Clock, grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._timers: list[Callable[[], None]] = []
        self._cancelled = False
        self.why: Why | None = None
        self.over = False
        self.task: asyncio.Task[Any] | None = None
        self.interruptible = False
        self.abandoned: Callable[[], None] = lambda: None

    def expire_after(self, seconds: float | None) -> None:
        """Signal a timeout after ``seconds``."""
        if seconds is not None:
            self._timers.append(self._clock.call_later(seconds, lambda: self.signal("timeout")))

    def signal(self, why: Why) -> None:
        """Ask the call to end; the first reason stands."""
        if self.over or self.why is not None:
            return
        self.why = why
        if self.interruptible and self.task is not None:
            self._cancelled = self.task.cancel()
        self._timers.append(self._clock.call_later(self._grace_s, self._give_up))

    def _give_up(self) -> None:
        if not self.over:
            self.over = True
            self.abandoned()

    def finish(self) -> bool:
        """The call has ended: whether it did so before it was given up."""
        for cancel in self._timers:
            cancel()
        self._timers.clear()
        in_time = not self.over
        self.over = True
        if self._cancelled and self.task is not None:
            self.task.uncancel()  # it goes on to other calls, which nobody has called off
            self._cancelled = False
        return in_time

    @property
    def is_signalled(self) -> bool:
        """Whether the call should come to an end; may be asked from another OS thread."""
        return self.why is not None


async def run_tool(tool: Tool[..., Any], ctx: ToolContext, arguments: Mapping[str, Any], control: Control) -> Any:
    """What the tool returns. A function that is not async runs in an OS thread of its own, which never keeps
    the process from ending."""
    control.interruptible = tool.is_async
    try:
        return await called(tool, ctx, arguments)
    finally:
        control.interruptible = False


async def called(tool: Tool[..., Any], ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
    """What the tool's function returns, called in an OS thread of its own if it is not async."""
    if not tool.is_async:
        return await in_thread(lambda: tool.call(ctx, arguments))
    result = tool.call(ctx, arguments)
    return await result if isinstance(result, Awaitable) else result


async def run_probe(tool: Tool[..., Any], ctx: ToolContext, arguments: Mapping[str, Any]) -> Finding:
    """What the tool's probe finds, asked in an OS thread of its own if it is not async. Raises ``tool.bad-finding``."""
    if tool.probe_is_async:
        return await tool.find(ctx, arguments)
    return tool.check_finding(await in_thread(lambda: tool.ask_probe(ctx, arguments)))


async def in_thread(call: Callable[[], Any]) -> Any:
    """What ``call`` returns, run in a daemon thread with this task's context variables."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if isinstance(error, StopIteration):
            # A future does not take one; a coroutine that raises one raises this instead.
            done.set_exception(RuntimeError(f"StopIteration: {error}"))
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def body() -> None:
        result, error = None, None
        try:
            result = variables.run(call)
        except BaseException as raised:  # whatever the tool raised is its outcome, told on the event loop
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the event loop is gone, and with it whoever waited; recovery will find the call lost

    variables = contextvars.copy_context()
    threading.Thread(target=body, name="forkpoint-tool", daemon=True).start()
    return await done
