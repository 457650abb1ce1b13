"""What the Agents SDK calls in place of a tool: an effect of the run, in a recorded function; else, the tool."""

import copy
import json
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from agents import AgentsException, FunctionTool
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext as TheirContext

from forkpoint.adapters.openai_agents_results import note, recordable, shown, text_of
from forkpoint.adapters.openai_pieces import arguments_heard
from forkpoint.agents.tool import Tool, ToolContext
from forkpoint.errors.openai_agents import AgentsNotDurable
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.recorder import current
from forkpoint.values import to_json

RAW = "input"
"""The name of the argument that holds what a model said where that is no JSON object."""

_CALL: ContextVar[ToolContext | None] = ContextVar("forkpoint_agents_call", default=None)


def this_call() -> ToolContext:
    """What the call that this code performs knows of itself: its ``idempotency_key``, ``attempt``, ``progress``.

    For the body of a durable tool. Where nothing is recorded it is one without a run.
    """
    return _CALL.get() or ToolContext()


def around(invoker: Any, call: "DurableCall") -> Any:
    """The SDK's own invoker of a tool, around ``call``: it shows errors to the model as the tool was told to."""
    kind: Any = type(invoker)

    class Around(kind):  # type: ignore[misc]
        def __agents_bind_function_tool__(self, tool: Any) -> Any:
            made = copy.copy(self)
            made._function_tool = tool
            return made

        async def __call__(self, ctx: TheirContext[Any], input: str) -> Any:
            # Here, because what is raised within is shown to the model, and this is for the one who runs it.
            check_model(ctx)
            return await super().__call__(ctx, input)

    made = Around.__new__(Around)
    made.__dict__.update(vars(invoker))
    made._invoke_tool_impl = call
    return made


class DurableCall:
    """What the SDK calls in place of a tool: in a recorded function, an effect of the run; else, the tool."""

    def __init__(self, tool: FunctionTool, inner: Callable[..., Any] | None, declared: Tool[..., Any]) -> None:
        self.tool = tool
        self.declared = declared
        self.inner = inner
        self.untimed = copy.copy(tool)
        self.untimed.timeout_seconds = None

    async def __call__(self, context: TheirContext[Any], input: str) -> Any:
        recorder = current()
        if recorder is None:
            return await self._as_it_was(context, input)
        check_model(context)
        heard = arguments_heard(input or "{}")[0]
        arguments = heard if isinstance(heard, dict) else {RAW: input}

        async def perform(ctx: ToolContext, values: dict[str, Any]) -> Any:
            _CALL.set(ctx)
            if values == arguments:
                return recordable(self.tool, await self._raw(context, input))
            text = values[RAW] if set(values) == {RAW} == set(arguments) else json.dumps(values, ensure_ascii=False)
            return recordable(self.tool, await self._raw(_with_arguments(context, text), text))

        call = str(context.tool_call_id or "")
        answer = await recorder.waited(
            lambda: recorder.tool(self.declared, arguments, perform=perform, call=call),
            self.declared.name,
            is_async=True,
        )
        result = await shown(self.tool, context, answer)
        note(recorder, call, answer.told)
        return result

    async def _as_it_was(self, context: Any, input: str) -> Any:
        # The copy that the SDK calls has no time limit, so that a wait for a person is none; the tool itself does.
        if self.tool.timeout_seconds is None:
            return await self._raw(context, input)
        return await invoke_function_tool(function_tool=self.tool, context=context, arguments=input)

    async def _raw(self, context: Any, input: str) -> Any:
        """What the tool returns or raises, before the SDK makes a text for the model of what it raised."""
        if self.inner is not None:
            return await self.inner(context, input)
        return await invoke_function_tool(function_tool=self.untimed, context=context, arguments=input)


def _with_arguments(context: Any, text: str) -> Any:
    made = copy.copy(context)
    made.tool_arguments = text
    made._function_tool_arguments = None
    return made


class OurCall:
    """What the SDK calls for a tool of Forkpoint's."""

    def __init__(self, tool: Tool[..., Any]) -> None:
        self.declared = tool

    async def __call__(self, context: TheirContext[Any], input: str) -> Any:
        tool, recorder = self.declared, current()
        heard = arguments_heard(input or "{}")[0]
        if recorder is None:
            arguments, ctx = tool.convert(heard), ToolContext()
            work = tool.call(ctx, arguments) if tool.is_async else in_thread(lambda: tool.call(ctx, arguments))
            return text_of(to_json(await work))
        check_model(context)
        arguments = heard if isinstance(heard, dict) else {RAW: input}
        call = str(context.tool_call_id or "")
        answer = await recorder.waited(lambda: recorder.tool(tool, arguments, call=call), tool.name, is_async=True)
        note(recorder, call, answer.told)
        return text_of(answer.told)


def check_model(context: Any) -> None:
    """Raises ``agents.not-durable`` if the model that asked for a call is one of the SDK's own, bare."""
    recorder = current()
    if recorder is None:
        return
    config, agent = getattr(context, "run_config", None), getattr(context, "agent", None)
    for model in (getattr(config, "model", None), getattr(agent, "model", None)):
        if isinstance(model, str):
            break
        if model is not None:
            _check_ours(model, "The model of the agent", "ForkpointModel(…)", recorder.run_id)
            return
    if config is not None:
        _check_ours(config.model_provider, "The run's model provider", "ForkpointProvider(…)", recorder.run_id)


def _check_ours(found: Any, what: str, remedy: str, run: str) -> None:
    if type(found).__module__.startswith("agents."):
        raise _Unrecorded(what=f"{what} ({type(found).__name__})", run=run, remedy=remedy)


class _Unrecorded(AgentsNotDurable, AgentsException, abstract=True):  # type: ignore[misc]
    """The same as an error of the SDK's, which its loop lets through as it is."""

    what: str
    run: str
    remedy: str
