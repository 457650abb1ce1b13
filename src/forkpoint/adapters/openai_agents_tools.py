"""``durable``: tools, MCP servers and memory of the Agents SDK, on record in a recorded function."""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar, overload

from agents import FunctionTool
from agents.mcp import MCPServer

from forkpoint.adapters.openai_agents_calls import DurableCall, OurCall, around
from forkpoint.adapters.openai_agents_known import declared_of, is_agent, is_durable, name_of, works_here
from forkpoint.adapters.openai_agents_marks import Marks, declared
from forkpoint.adapters.openai_agents_memory import durable_memory, is_memory
from forkpoint.adapters.openai_agents_servers import durable_server
from forkpoint.agents.tool import Approval, Probe, Tool
from forkpoint.errors import ToolBadDefinition
from forkpoint.errors.openai_agents import AgentsUnfit

OneTool = TypeVar("OneTool")


@overload
def durable(
    tools: Sequence[Any],
    *,
    read_only: Collection[str] = ...,
    idempotent: Collection[str] = ...,
    reconcile: Mapping[str, Probe] = ...,
    approval: Collection[str] | Mapping[str, Approval] = ...,
    external: Collection[str] = ...,
    attempts: Mapping[str, int] = ...,
) -> list[Any]: ...


@overload
def durable(
    tools: OneTool,
    *,
    read_only: Collection[str] = ...,
    idempotent: Collection[str] = ...,
    reconcile: Mapping[str, Probe] = ...,
    approval: Collection[str] | Mapping[str, Approval] = ...,
    external: Collection[str] = ...,
    attempts: Mapping[str, int] = ...,
) -> OneTool: ...


def durable(
    tools: Any,
    *,
    read_only: Collection[str] = (),
    idempotent: Collection[str] = (),
    reconcile: Mapping[str, Probe] | None = None,
    approval: Collection[str] | Mapping[str, Approval] = (),
    external: Collection[str] = (),
    attempts: Mapping[str, int] | None = None,
) -> Any:
    """Tools for an ``Agent``, with their calls on record in a recorded function: a list for a list, else one.

    Also an MCP server for ``Agent(mcp_servers=[…])``, and a ``SQLiteSession`` or its like for ``Runner.run``.

    Each set names tools. ``read_only``: performed again if lost. ``idempotent``: performed again under the same
    ``this_call().idempotency_key``. ``reconcile`` maps names to probes, ``probe(ctx, **arguments)``. A tool named in
    none of them is held: if a call of it is lost, a person is asked. ``approval``: a person is asked first, always, or
    as a predicate on the arguments says (a mapping). ``external``: the outcome comes by ``run.answer`` and the body is
    never called. ``attempts`` bounds how often one is tried. A tool's ``timeout_seconds`` bounds each attempt, without
    the time that it waits for a person.

    Function tools become durable; Forkpoint's own tools become function tools, with what they say of themselves.
    Agents as tools stay what they are, because what the inner agent asks for is on record. So do tools that the
    provider runs. Raises ``agents.unfit`` for other tools that work in this process, ``tool.bad-definition``.
    """
    marks = Marks(
        read_only=read_only,
        idempotent=idempotent,
        reconcile=reconcile or {},
        approval=approval,
        external=external,
        attempts=attempts or {},
    )
    many = list(tools) if isinstance(tools, Sequence) else [tools]
    unknown = sorted(marks.names() - {name_of(one) for one in many})
    if unknown and not any(isinstance(one, MCPServer) for one in many):
        raise ToolBadDefinition(tool=unknown[0], problem="something is said of it, and it is not among the tools")
    made = [_durable(one, marks) for one in many]
    return made if isinstance(tools, Sequence) else made[0]


def _durable(tool: Any, marks: Marks) -> Any:
    if isinstance(tool, Tool):
        return _of_ours(tool)
    if isinstance(tool, MCPServer):
        return durable_server(tool, marks)
    if is_memory(tool):
        return durable_memory(tool)
    if not isinstance(tool, FunctionTool):
        return _elsewhere(tool, marks)
    if is_durable(tool):
        return tool
    if is_agent(tool):
        _check_unmarked(tool, marks, "an agent as a tool is not one effect; mark the tools of the agent in it")
        return tool
    inner = getattr(tool.on_invoke_tool, "_invoke_tool_impl", None)
    call = DurableCall(tool, inner, _declared(tool, marks))
    made = copy.copy(tool)
    made.timeout_seconds = None
    if inner is None:
        made.on_invoke_tool = call
        return made
    call.__dict__.update(vars(inner))
    made.on_invoke_tool = around(tool.on_invoke_tool, call).__agents_bind_function_tool__(made)
    return made


def _declared(tool: FunctionTool, marks: Marks) -> Tool[..., Any]:
    return declared(
        name_of(tool),
        marks,
        description=tool.description,
        parameters=tool.params_json_schema,
        timeout_s=tool.timeout_seconds,
    )


def _elsewhere(tool: Any, marks: Marks) -> Any:
    """A tool that is no function, if the provider runs it."""
    if works_here(tool):
        problem = "its work is done in this process by something that is no function"
        raise AgentsUnfit(what=f"The tool {name_of(tool)} ({type(tool).__name__})", problem=problem)
    _check_unmarked(tool, marks, "the provider runs it")
    return tool


def _check_unmarked(tool: Any, marks: Marks, problem: str) -> None:
    if name_of(tool) in marks.names():
        raise ToolBadDefinition(tool=name_of(tool), problem=problem)


def _of_ours(tool: Tool[..., Any]) -> FunctionTool:
    """A tool of Forkpoint's as one of the SDK's."""
    record = tool.record()
    return FunctionTool(
        name=record.name,
        description=record.description,
        params_json_schema=dict(record.parameters or {"type": "object", "properties": {}}),
        on_invoke_tool=OurCall(tool),
        strict_json_schema=False,
    )


def declared_tool(tool: Any) -> Tool[..., Any]:
    """The tool of Forkpoint's that a durable function tool is on record as: for a fork's ``Patch(tools=[…])``.

    Raises ``agents.unfit`` for a tool that is not durable.
    """
    found = declared_of(tool)
    if found is None:
        raise AgentsUnfit(what=f"The tool {name_of(tool)}", problem="it was not made by durable")
    return found
