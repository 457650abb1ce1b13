"""Where Pydantic AI hands over its outside work, and what kind of effect each piece of it is.

| What Pydantic AI calls it | Effect |
| --- | --- |
| a request to a model, streamed or not; compaction by a model | model call |
| listing the tools or the instructions of a server or of a dynamic toolset | step, read only |
| an event for the user's own ``event_stream_handler`` | step, performed again if it was lost |
| calling off a response that a provider still works on | step, idempotent |
| an operation of another capability, of a workspace | step, as declared; ``HOLD`` by default |

Calls of tools do not come here: they are effects already when Pydantic AI hands them over.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai.durable_exec import (
    CapabilityOperationId,
    DurableOperationBackend,
    EventStreamHandlerId,
    ModelCancelSuspendedResponseId,
    ModelCompactMessagesId,
    ModelRequestId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
)
from pydantic_core import to_jsonable_python

from forkpoint.adapters.pydantic_ai_asking import answered
from forkpoint.adapters.pydantic_ai_calls import performing, step_of, stepped
from forkpoint.adapters.pydantic_ai_messages import MARK
from forkpoint.agents.function import Step
from forkpoint.agents.tool import ToolContext
from forkpoint.ports import ModelRequest, ModelResponse
from forkpoint.runtime.recorder import Recorder, current

LIST_TOOLS = step_of("list_tools", read_only=True)
INSTRUCTIONS = step_of("get_instructions", read_only=True)
EVENT = step_of("event", idempotent=True)
CALL_OFF = step_of("call_off_response", idempotent=True)


class Backend(DurableOperationBackend[Any]):  # type: ignore[misc]  # the framework is not read by mypy
    """Makes effects of an agent's operations. ``whose`` is the agent's ``Forkpoint``."""

    def __init__(self, whose: Any) -> None:
        self._whose = whose

    def bind(self, operation: Any) -> "Bound":
        """What Pydantic AI calls in place of the operation."""
        return Bound(self._whose, operation)

    def config_for_tool(self, operation: Any, *, tool: object | None, tool_name: str) -> Any:
        """Nothing: what there is to say of a tool stands around all toolsets."""
        return {}

    def registrations(self) -> Sequence[Callable[..., object]]:
        """Nothing is made known before it is used."""
        return ()


class Bound:
    """One operation of an agent's. Not recorded, it is what Pydantic AI would do."""

    def __init__(self, whose: Any, operation: Any) -> None:
        self._whose = whose
        self.operation = operation

    async def __call__(self, params: Any, *, config: object | None = None) -> Any:
        """The operation's recorded result."""
        recorder = current()
        if recorder is None:
            return await self.operation.handler(params)
        match self.operation.operation_id:
            case ModelRequestId(model_id=model_id, streaming=streams):
                said = {"model": self._whose.model_name(model_id), "agent": self._agent(params), "streams": streams}
                return await self._whose.asking(recorder).ask(recorder, params, self.operation.handler, **said)
            case ModelCompactMessagesId(model_id=model_id):
                return await self._compacted(recorder, params, self._whose.model_name(model_id))
            case _:
                return await self._step(recorder, params)

    def _agent(self, params: Any) -> str:
        agent = getattr(params.run_context, "agent", None)
        return str(getattr(agent, "name", None) or self._whose.name)

    async def _compacted(self, recorder: Recorder, params: Any, model: str) -> Any:
        """A summary that a model writes of a conversation."""
        asking = self._whose.asking(recorder)
        messages = asking.heard.messages(params.request_context.messages)
        settings = {MARK: {"compact": params.instructions or ""}}
        request = ModelRequest(model=model, instructions="", messages=messages, settings=settings)

        async def perform(changed: ModelRequest, progress: Any) -> ModelResponse:
            return answered(await self.operation.handler(params))

        return await asking.asked(recorder, request, perform, agent=self._agent(params))

    async def _step(self, recorder: Recorder, params: Any) -> Any:
        wanted, arguments = self._wanted(params)
        codec = self.operation.result_codec

        async def perform(call: ToolContext) -> Any:
            with performing(self._whose, call):
                return codec.dump(await self.operation.handler(params))

        return codec.load(await stepped(recorder, wanted, arguments, perform))

    def _wanted(self, params: Any) -> tuple[Step[..., Any], dict[str, Any]]:
        """What kind of step it is, and what it is known by."""
        match self.operation.operation_id:
            case ToolsetGetToolsId(toolset_id=toolset):
                return LIST_TOOLS, {"toolset": toolset}
            case ToolsetGetInstructionsId(toolset_id=toolset):
                return INSTRUCTIONS, {"toolset": toolset}
            case EventStreamHandlerId():
                return EVENT, {"event": params.event.event_kind, "call": _call_of(params.event)}
            case ModelCancelSuspendedResponseId():
                return CALL_OFF, {"response": params.response.provider_response_id}
            case CapabilityOperationId(capability_id=capability, operation=operation):
                name = f"{capability}.{operation}"
                return step_of(name, **self._options(name)), _asked(params)
            case other:
                return step_of(type(other).__name__), {"of": _plain(other), "arguments": _plain(_asked(params))}

    def _options(self, name: str) -> dict[str, Any]:
        known = ("read_only", "idempotent", "approval", "timeout_s", "attempts")
        return {key: value for key, value in self._whose.options(name).items() if key in known}


def _call_of(event: Any) -> str | None:
    part = getattr(event, "part", None) or getattr(event, "result", None)
    found = getattr(part, "tool_call_id", None) or getattr(event, "tool_call_id", None)
    return found if isinstance(found, str) else None


def _asked(params: Any) -> dict[str, Any]:
    given = {name: getattr(params, name, None) for name in ("arguments", "call", "name", "tool_args")}
    return {name: _plain(value) for name, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, fallback=lambda one: type(one).__name__)
