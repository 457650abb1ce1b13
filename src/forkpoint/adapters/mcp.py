"""The tools of MCP servers as tools of an agent: ``McpServer``.

The extra ``mcp`` has what this needs; it is imported when a server is first reached.
"""

import asyncio
import importlib.util
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack
from urllib.parse import urlsplit

from forkpoint.adapters.mcp_making import McpOptions, chosen, made_tools
from forkpoint.adapters.mcp_tools import Mask, error_text, progress_text, value_of
from forkpoint.agents.tool import Tool, ToolContext
from forkpoint.errors import AdapterMissing, ForkpointError
from forkpoint.errors.mcp import McpBadAnswer, McpLost, McpRefused, McpUnreachable, McpUnread
from forkpoint.runtime.arguments import unfit

if TYPE_CHECKING:
    from forkpoint.adapters.mcp_connection import Connection

__all__ = ["IDEMPOTENCY_KEY", "McpOptions", "McpServer"]

IDEMPOTENCY_KEY = "forkpoint/idempotency_key"
"""Under which a request's ``_meta`` has the key of the call: the same in every attempt, different in every fork."""

_Reach: TypeAlias = Callable[[Callable[[], None]], AbstractAsyncContextManager[Any]]
"""Opens the two streams of messages; given what to call once the server can say nothing more."""


class McpServer:
    """An MCP server, whose tools an agent can have: made by ``stdio`` or ``http``.

    ``async with server:`` reads its tools and holds a connection until the end; where that breaks, the next call
    connects again, and starts the server again if it is a process. A call that was sent and not answered raises
    ``mcp.lost``, a ``ConnectionError``: the tool's recovery class decides, and that is HOLD unless you say otherwise
    or trust the server's hints. One that could not be sent raises ``mcp.unreachable``: it was not tried. What the
    server itself says is wrong raises ``mcp.refused``.
    """

    def __init__(
        self, kind: str, reach: _Reach, *, in_turn: bool, given: Mapping[str, str] | None, options: McpOptions
    ) -> None:
        self.name = options.get("name", kind)
        self._reach = reach
        self._in_turn = in_turn
        self._mask = Mask(given)
        self._choices = chosen(options)
        self._tools: tuple[Tool[..., Any], ...] | None = None
        self._held: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._closed = False

    @classmethod
    def stdio(
        cls,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """A server that is started as a process: ``McpServer.stdio("python", "server.py", env={"TOKEN": token})``.

        It is given ``env`` beside the few variables that are safe to pass on, such as ``PATH`` and ``HOME``.
        ``McpOptions`` says what else there is. Raises ``adapter.missing`` where the extra is not installed.
        """
        _check_installed()
        given, folder = _texts("env", env), None if cwd is None else Path(cwd)

        def reach(over: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
            from forkpoint.adapters.mcp_stdio import stdio_streams

            return stdio_streams(over, command=command, args=args, env=given, cwd=folder)

        # Two processes of one server could be in each other's way, so the old one ends before a new one starts.
        return cls(Path(command).name, reach, in_turn=True, given=given, options=options)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """A server that is reached over streamable HTTP: ``McpServer.http("http://127.0.0.1:8000/mcp")``.

        ``headers`` go with every request. ``auth`` is an ``httpx2.Auth``, such as the MCP library's for OAuth.
        ``McpOptions`` says what else there is. Raises ``adapter.missing`` where the extra is not installed.
        """
        _check_installed()
        given = _texts("headers", headers)

        def reach(over: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
            from forkpoint.adapters.mcp_http import SILENCE_S, http_streams

            silence_s = SILENCE_S if options.get("timeout_s") is None else None
            return http_streams(url, headers=given, auth=auth, silence_s=silence_s)

        host = urlsplit(url).netloc.rpartition("@")[2]
        return cls(host, reach, in_turn=False, given=given, options=options)

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"

    async def __aenter__(self) -> Self:
        """Connect, and read the tools. Raises ``mcp.unreachable``, ``mcp.no-such-tool``, ``tool.bad-definition``."""
        self._closed = False
        try:
            await self._read()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let the server go; one that is a process is ended. A call in flight is lost, a later one is not sent."""
        self._closed = True
        await self._let_go()

    def load(self) -> Self:
        """Read the tools now, and let the server go until one is called: for modules that ``--app`` names.

        Waits for the server, in an event loop of its own. What a call connects to stays until its event loop ends.
        Raises what entering raises.
        """

        async def once() -> None:
            try:
                await self._read()
            finally:
                await self._let_go()

        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(asyncio.run, once()).result()
        return self

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """The server's tools, as read once, on entering or by ``load``. Raises ``mcp.unread`` before that."""
        if self._tools is None:
            raise McpUnread(server=self.name)
        return self._tools

    @property
    def connected(self) -> bool:
        """Whether a call on the running event loop would find a connection open."""
        held = self._held.get(asyncio.get_running_loop())
        return held is not None and held.is_open

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """What the server's tool returns, by the server's name for it. Not recorded: for probes and your own tests.

        Raises ``mcp.lost``, ``mcp.unreachable``, ``mcp.refused`` and ``mcp.bad-answer``.
        """
        return await self._perform(ToolContext(), tool, arguments)

    async def _read(self) -> None:
        connection = await self._connection()
        self._tools = made_tools(self.name, connection.tools, self._choices, self._perform)

    async def _let_go(self) -> None:
        held = self._held.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held.close()

    async def _connection(self) -> "Connection":
        """An open connection for this event loop, which it belongs to. Raises ``mcp.unreachable``."""
        from forkpoint.adapters.mcp_connection import Connection, Ended

        if self._closed:
            raise self._unreachable("it was closed here")
        loop = asyncio.get_running_loop()
        for other in [one for one in self._held if one.is_closed()]:
            del self._held[other]
        held = self._held.get(loop)
        if held is None or held.is_over:
            after = held if self._in_turn else None
            held = self._held[loop] = Connection(self._reach, connect_s=self._choices.connect_s, after=after)
        try:
            await held.opened()
        except Ended as ended:
            raise self._unreachable(ended.text) from None
        return held

    async def _reached(self, ctx: ToolContext) -> "Connection":
        try:
            return await self._connection()
        except asyncio.CancelledError:
            if not ctx.cancelled:
                raise
            raise self._unreachable("the call was called off before that") from None

    async def _perform(self, ctx: ToolContext, tool: str, arguments: dict[str, Any]) -> Any:
        from forkpoint.adapters.mcp_connection import Ended, Unusable

        def told(progress: float, total: float | None, message: str | None) -> None:
            ctx.progress(progress_text(progress, total, message))

        meta = {IDEMPOTENCY_KEY: ctx.idempotency_key} if ctx.idempotency_key else {}
        for again in (True, False):
            connection = await self._reached(ctx)
            try:
                result = await connection.call(tool, arguments, meta=meta, told=told)
                break
            except Ended as ended:
                # A server that has forgotten the connection did nothing: the call is made once more, on a new one.
                if not (again and ended.fate == "stale"):
                    raise self._no_result(tool, ended.fate, ended.text) from None
            except Unusable as error:
                raise McpBadAnswer(server=self.name, problem=self._mask(str(error))) from None
        if result.is_error:
            raise McpRefused(server=self.name, detail=self._mask(error_text(result)))
        return value_of(result)

    def _no_result(self, tool: str, fate: str, text: str) -> ForkpointError:
        match fate:
            case "lost":
                return McpLost(server=self.name, tool=tool, problem=self._mask(text))
            case "unsent":
                return self._unreachable(text)
            case _:
                return McpRefused(server=self.name, detail=self._mask(text))

    def _unreachable(self, problem: str) -> McpUnreachable:
        return McpUnreachable(server=self.name, problem=self._mask(problem))


def _check_installed() -> None:
    # ``mcp_types`` came with the second major version, which this speaks to.
    if any(importlib.util.find_spec(needed) is None for needed in ("mcp", "mcp_types")):
        extra = "forkpoint[mcp]"
        raise AdapterMissing(what="An MCP server", needs=f"the extra '{extra}'", command=f"pip install '{extra}'")


def _texts(argument: str, given: Mapping[str, str] | None) -> dict[str, str] | None:
    """A copy of what a server is given. Raises ``argument.unfit``, without a value: some are secret."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise unfit(argument, type(given).__name__, "a mapping of texts to texts")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise unfit(argument, {name: type(value).__name__}, "texts by name")
    return dict(given)
