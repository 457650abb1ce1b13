"""Every call of a tool as an effect: what stands around all toolsets of a Pydantic AI agent during a recorded function.

It stands outermost, so no toolset is left out: functions, MCP servers, dynamic ones, a class of one's own, and those
that are given to a single run.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import durable_exec
from pydantic_ai.toolsets import WrapperToolset
from pydantic_core import to_jsonable_python

from forkpoint._canon import canonical
from forkpoint.adapters.pydantic_ai_declared import Tools
from forkpoint.adapters.pydantic_ai_results import came_of, loaded, stored
from forkpoint.agents.function import Step, step
from forkpoint.agents.tool import ToolContext
from forkpoint.answers import edited
from forkpoint.runtime.recorder import Recorder, current

_CALL: ContextVar[ToolContext | None] = ContextVar("forkpoint_pydantic_ai_call", default=None)
_PERFORMING: ContextVar[Any] = ContextVar("forkpoint_pydantic_ai_performing", default=None)

Guard = Callable[[Any], Any]
"""Makes the run's own object for tools one in which nothing can be said to the loop that no record would repeat."""


def this_call() -> ToolContext | None:
    """What the running tool's call knows of itself: its ``idempotency_key``, ``attempt``, ``progress`` and the rest.

    ``None`` outside of a recorded function, and in a tool that is inline.
    """
    return _CALL.get()


def is_performing(whose: Any) -> bool:
    """Whether this code belongs to an effect that is performed for ``whose``."""
    return _PERFORMING.get() is whose


@contextmanager
def performing(whose: Any, call: ToolContext | None = None) -> Iterator[None]:
    """While an effect is performed for ``whose``."""
    tokens = _PERFORMING.set(whose), _CALL.set(call)
    try:
        with durable_exec.durable_unit_scope():
            yield
    finally:
        _PERFORMING.reset(tokens[0])
        _CALL.reset(tokens[1])


@dataclass
class RecordedToolset(WrapperToolset[Any]):  # type: ignore[misc]  # the framework is not read by mypy
    """All tools of an agent's run, each call an effect."""

    whose: Any
    tools: Tools
    guard: Guard

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        """The tools, with what checks their arguments as a step of its own where that is the user's code."""
        tools = await super().get_tools(ctx)
        if current() is None:
            return dict(tools)
        return {name: self._checked(name, tool) for name, tool in tools.items()}

    def _checked(self, name: str, tool: Any) -> Any:
        check = tool.args_validator_func
        if check is None:
            return tool

        async def checked(ctx: Any, **arguments: Any) -> None:
            recorder = current()
            if recorder is None:
                await _checked(check, ctx, arguments)
                return

            async def perform(call: ToolContext) -> Any:
                with performing(self.whose, call), self.guard(ctx) as guarded:
                    return await stored(_checked(check, guarded, arguments))

            asked = {"tool": name, "arguments": _plain(arguments)}
            loaded(await stepped(recorder, CHECK, asked, perform))

        return replace(tool, args_validator_func=checked)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """The recorded outcome of the call."""
        recorder = current()
        if recorder is None:
            return await super().call_tool(name, tool_args, ctx, tool)
        known = self.tools.of(name, tool.tool_def, _timeout_s(tool))
        wanted, arguments = known.tool, _plain(tool_args)
        if wanted is None:
            return await super().call_tool(name, tool_args, ctx, tool)

        async def perform(call: ToolContext, values: dict[str, Any]) -> Any:
            with performing(self.whose, call), self.guard(ctx) as guarded:
                if values == arguments:
                    return await stored(self._call(name, tool_args, guarded, tool))
                note = edited(name, canonical(values).decode(), None)
                return await stored(self._call_edited(name, values, guarded, tool), note)

        def asked() -> Awaitable[Any]:
            return recorder.tool(wanted, arguments, perform=perform, call=ctx.tool_call_id or "")

        answer = await recorder.waited(asked, name, is_async=True)
        return came_of(answer, timeout_s=known.timeout_s)

    async def _call(self, name: str, arguments: dict[str, Any], ctx: Any, tool: Any) -> Any:
        return await super().call_tool(name, arguments, ctx, _untimed(tool))

    async def _call_edited(self, name: str, arguments: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """The call with what a person wrote, which is held against the tool's own rules as a model's words are."""
        checked = tool.args_validator.validate_python(arguments)
        if tool.args_validator_func is not None:
            await _checked(tool.args_validator_func, ctx, checked)
        return await self._call(name, checked, ctx, tool)


def step_of(name: str, **options: Any) -> Step[..., Any]:
    """A step known by ``name`` whose work is given with each ask."""

    async def elsewhere() -> None:
        """The work is given with each ask."""

    return step(name=name, **options)(elsewhere)


CHECK = step_of("check_arguments", read_only=True)


async def stepped(
    recorder: Recorder, wanted: Step[..., Any], arguments: dict[str, Any], perform: Callable[[ToolContext], Any]
) -> Any:
    """The recorded result of a step. Raises what it raised."""

    def asked() -> Awaitable[Any]:
        return recorder.step(wanted, arguments, perform=perform)

    return (await recorder.waited(asked, wanted.name, is_async=True)).value


async def _checked(check: Callable[..., Any], ctx: Any, arguments: dict[str, Any]) -> None:
    found = check(ctx, **arguments)
    if inspect.isawaitable(found):
        await found


def _plain(arguments: dict[str, Any]) -> Any:
    """Checked arguments as JSON: what a call is known by."""
    return to_jsonable_python(arguments, fallback=lambda value: type(value).__name__)


def _timeout_s(tool: Any) -> float | None:
    own = tool.tool_def.timeout
    found = own if own is not None else getattr(tool.toolset, "timeout", None)
    return float(found) if isinstance(found, int | float) else None


def _untimed(tool: Any) -> Any:
    """The tool without Pydantic AI's own limit, which would tell a model to call again what may have been done."""
    if _timeout_s(tool) is None:
        return tool
    return replace(tool, tool_def=replace(tool.tool_def, timeout=math.inf))
