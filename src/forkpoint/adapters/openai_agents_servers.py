"""MCP servers of the Agents SDK whose tools are on record."""

import importlib
from typing import Any

from agents.mcp import MCPServer

from forkpoint.adapters.openai_agents_known import DURABLE_SERVERS
from forkpoint.adapters.openai_agents_marks import Marks, declared, performed_elsewhere
from forkpoint.adapters.openai_agents_results import text_of
from forkpoint.agents.calling import ToolContext
from forkpoint.agents.function import step as made_step
from forkpoint.agents.tool import Tool
from forkpoint.outcomes import Failed
from forkpoint.runtime.recorder import current


def durable_server(server: MCPServer, marks: Marks) -> Any:
    """An MCP server whose lists of tools and calls are on record in a recorded function.

    ``marks`` are by the names that the server gives its tools; what it hints itself is not trusted. A call that it
    answered with an error is a failure; one that broke off is lost, and its recovery class decides.
    """
    return server if isinstance(server, DurableServer) else DurableServer(server, marks)


_LIST = made_step(name="mcp.list_tools", read_only=True)(performed_elsewhere)
_ANSWERED = ("McpError", "MCPError")
"""Errors that a server itself answers with."""


class DurableServer(MCPServer):  # type: ignore[misc]
    """An MCP server of the SDK's with its calls on record. Made by ``durable``."""

    def __init__(self, server: MCPServer, marks: Marks) -> None:
        # What the base class would set up is the inner server's; see ``__getattr__``.
        self.inner = server
        self._marks = marks
        self._declared: dict[str, Tool[..., Any]] = {}
        DURABLE_SERVERS.update({server.name, getattr(server, "_error_name", server.name)})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)

    @property
    def name(self) -> str:
        """The name of the server."""
        return str(self.inner.name)

    @property
    def cached_tools(self) -> Any:
        """See the SDK's ``MCPServer``."""
        return self.inner.cached_tools

    async def connect(self) -> None:
        """See the SDK's ``MCPServer``."""
        await self.inner.connect()

    async def cleanup(self) -> None:
        """See the SDK's ``MCPServer``."""
        await self.inner.cleanup()

    async def list_prompts(self) -> Any:
        """See the SDK's ``MCPServer``."""
        return await self.inner.list_prompts()

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """See the SDK's ``MCPServer``."""
        return await self.inner.get_prompt(name, arguments)

    async def list_tools(self, asking: Any = None, agent: Any = None) -> list[Any]:
        """See the SDK's ``MCPServer``."""
        recorder = current()
        if recorder is None:
            return list(await self.inner.list_tools(asking, agent))

        async def perform(ctx: ToolContext) -> Any:
            return [_dumped(tool) for tool in await self.inner.list_tools(asking, agent)]

        async def result() -> Any:
            return (await recorder.step(_LIST, {"server": self.name}, perform=perform)).value

        kind = _their_types().Tool
        return [kind.model_validate(told) for told in await recorder.waited(result, _LIST.name, is_async=True)]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> Any:
        """See the SDK's ``MCPServer``."""
        recorder = current()
        more: dict[str, Any] = {} if meta is None else {"meta": meta}
        if recorder is None:
            return await self.inner.call_tool(tool_name, arguments, **more)

        async def perform(ctx: ToolContext, values: dict[str, Any]) -> Any:
            try:
                return _dumped(await self.inner.call_tool(tool_name, values, **more))
            except Exception as error:
                if any(kind.__name__ in _ANSWERED for kind in type(error).__mro__):
                    raise
                raise ConnectionError(f"{type(error).__name__}: {error}") from error

        tool = self._tool(tool_name)
        answer = await recorder.waited(
            lambda: recorder.tool(tool, arguments or {}, perform=perform), tool.name, is_async=True
        )
        if isinstance(answer.outcome, Failed):
            raise answer.failure
        return _result(answer)

    def _tool(self, name: str) -> Tool[..., Any]:
        if name not in self._declared:
            self._declared[name] = declared(name, self._marks, description="", parameters={})
        return self._declared[name]


def _their_types() -> Any:
    return importlib.import_module("mcp.types")


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _result(answer: Any) -> Any:
    """The server's result; for what a person decided, a result that tells it."""
    kind, value = _their_types().CallToolResult, answer.told
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        return kind.model_validate(value)
    return kind.model_validate({"content": [{"type": "text", "text": text_of(value)}]})
