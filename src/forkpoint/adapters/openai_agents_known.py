"""Which tools of the Agents SDK are on record, and as what a model's request has them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from agents import FunctionTool

from forkpoint.adapters.openai_agents_calls import DurableCall, OurCall
from forkpoint.agents.tool import Tool
from forkpoint.definition import ToolRecord
from forkpoint.effects import Recovery
from forkpoint.errors import ValueNotJson
from forkpoint.errors.openai_agents import AgentsNotDurable
from forkpoint.values import to_json

DURABLE_SERVERS: set[str] = set()
"""The names of MCP servers whose calls are on record."""

_SECRET = frozenset({"authorization", "headers"})
_HERE = ("ComputerTool", "LocalShellTool", "ApplyPatchTool", "CustomTool")
"""Tools that are not functions and whose work is done in this process."""


def name_of(tool: Any) -> str:
    """The name that a tool is called by."""
    return str(getattr(tool, "qualified_name", None) or getattr(tool, "name", type(tool).__name__))


def works_here(tool: Any) -> bool:
    """Whether a tool that is no function does its work in this process."""
    return type(tool).__name__ in _HERE or getattr(tool, "executor", None) is not None


def is_agent(tool: Any) -> bool:
    """Whether a tool is an agent of the SDK's."""
    return bool(getattr(tool, "_is_agent_tool", False))


def declared_of(tool: Any) -> Tool[..., Any] | None:
    """What was said of a durable tool; ``None`` for any other."""
    invoker = getattr(tool, "on_invoke_tool", None)
    call = getattr(invoker, "_invoke_tool_impl", invoker)
    return call.declared if isinstance(call, DurableCall | OurCall) else None


def is_durable(tool: Any) -> bool:
    """Whether calls of a tool are on record."""
    return declared_of(tool) is not None


def check_durable(tools: Sequence[Any], run: str) -> None:
    """Raises ``agents.not-durable`` if a tool would work in this process and leave nothing on record."""
    for tool in tools:
        if isinstance(tool, FunctionTool):
            server = getattr(getattr(tool, "_tool_origin", None), "mcp_server_name", None)
            if is_durable(tool) or is_agent(tool) or (server is not None and server in DURABLE_SERVERS):
                continue
            what = f"The tool {name_of(tool)}" if server is None else f"The MCP server {server}"
            raise AgentsNotDurable(what=what, run=run, remedy="durable(…)")
        if works_here(tool):
            raise AgentsNotDurable(what=f"The tool {name_of(tool)}", run=run, remedy="a function tool in its place")


def record_of(tool: Any) -> ToolRecord:
    """A tool as a model is told of it, and as a restart must treat it."""
    if not isinstance(tool, FunctionTool):
        return ToolRecord(name=name_of(tool), parameters=_configuration(tool), recovery=Recovery.REPEAT)
    declared = declared_of(tool)
    told = {"name": tool.name, "description": tool.description, "parameters": to_json(tool.params_json_schema)}
    if declared is None:
        return ToolRecord(**told)
    own = declared.record()
    return ToolRecord(
        **told, recovery=own.recovery, approval=own.approval, external=own.external, attempts=own.attempts
    )


def _configuration(tool: Any) -> dict[str, Any] | None:
    """How a tool that the provider runs is set up, as far as that is data and no key."""
    given = getattr(tool, "tool_config", None)
    if not isinstance(given, Mapping):
        fields = dataclasses.fields(tool) if dataclasses.is_dataclass(tool) else ()
        given = {field.name: getattr(tool, field.name) for field in fields if not field.name.startswith("_")}
    told: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or name in _SECRET or callable(value):
            continue
        try:
            told[name] = to_json(value)
        except ValueNotJson:
            continue
    return told or None
