"""One connection to an MCP server, which many tasks may use at once.

1. It is opened and closed in one task of its own: what the MCP library opens must be closed where it was opened.
2. Calls are made from the tasks that make them, so that calling one off tells the server, and nobody else.
3. Once it is over it stays over. Whoever calls next opens another one.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Any

from mcp import Client, MCPError
from mcp_types import Implementation
from pydantic import ValidationError

from forkpoint import __version__
from forkpoint.adapters.mcp_http import DOUBTFUL, FATE, Fate

SHOWN = 300
"""How many characters of what a server or a library said are kept."""

Streams = Callable[[Callable[[], None]], AbstractAsyncContextManager[Any]]
"""Opens the two streams of messages; given what to call once the server can say nothing more."""

Told = Callable[[float, float | None, str | None], None]
"""Is given the server's notices: how far it is, of how much, in words."""


class Ended(Exception):
    """How a request ended that has no result."""

    def __init__(self, fate: Fate, text: str) -> None:
        super().__init__(fate, text)
        self.fate: Fate = fate
        self.text = text


class Unusable(Exception):
    """The server answered, and the answer is not what it had declared."""


class Connection:
    """A connection, from its opening on. ``after`` is one that has to be closed first."""

    def __init__(self, streams: Streams, *, connect_s: float, after: "Connection | None" = None) -> None:
        loop = asyncio.get_running_loop()
        self.tools: tuple[Any, ...] = ()
        self._over = asyncio.Event()
        self._spent = False
        self._users = 0
        self._begun: asyncio.Future[None] = loop.create_future()
        self._opened: asyncio.Future[Client] = loop.create_future()
        self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        self._task = loop.create_task(self._hold(streams, connect_s, after))

    @property
    def is_over(self) -> bool:
        """Whether another one is needed for the next call."""
        return self._spent or self._over.is_set()

    @property
    def is_open(self) -> bool:
        """Whether a call can be made now."""
        return self._opened.done() and not self.is_over

    async def opened(self) -> None:
        """Wait until calls can be made. Raises ``Ended`` with the fate ``unsent``."""
        await asyncio.shield(self._opened)

    async def call(self, name: str, arguments: dict[str, Any], *, meta: Mapping[str, Any], told: Told) -> Any:
        """The result of a tool, which may be an error. Raises ``Ended`` or ``Unusable``."""
        if self._over.is_set():
            raise Ended("unsent", "the connection was closed")
        client = self._opened.result()
        self._users += 1
        try:
            return await client.call_tool(name, arguments, progress_callback=_notices(told), meta=_meta(meta))
        except MCPError as error:
            ended = _ended(error)
            self._spent = self._spent or ended.fate != "refused"
            raise ended from error
        except (RuntimeError, ValidationError) as error:
            raise Unusable(shown(error)) from error
        finally:
            self._users -= 1
            if self._spent and not self._users:
                self._over.set()

    async def close(self) -> None:
        """End it, and return when the server has been let go; calls in flight are lost."""
        self._over.set()
        await asyncio.wait([self._begun, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            self._task.cancel()
        await self.gone()

    async def gone(self) -> None:
        """Wait until it is closed. Never raises what went wrong with it."""
        await asyncio.wait([self._task])

    async def _hold(self, streams: Streams, connect_s: float, after: "Connection | None") -> None:
        try:
            if after is not None:
                await after.gone()
            async with AsyncExitStack() as stack:
                opened = await stack.enter_async_context(streams(self._over.set))
                # From here on it may be called off; before, a process could be left that nobody knows of.
                self._begun.set_result(None)
                client = await self._greeted(stack, opened, connect_s)
                if client is not None:
                    self._opened.set_result(client)
                    await self._over.wait()
        except Exception as error:  # whatever a transport fails with, whoever waits for it is told
            self._fail(shown(error))
        finally:
            self._over.set()
            self._fail("the connection was closed")

    async def _greeted(self, stack: AsyncExitStack, streams: Any, connect_s: float) -> Client | None:
        """The client, once the server has told its tools; ``None`` if it did not in time."""
        try:
            async with asyncio.timeout(connect_s):
                client = await stack.enter_async_context(Client(nullcontext(streams), client_info=_INFO))
                self.tools = await _listed(client)
                return client
        except TimeoutError:
            self._fail(f"it did not answer within {connect_s:g} s")
            return None

    def _fail(self, problem: str) -> None:
        if not self._opened.done():
            self._opened.set_exception(Ended("unsent", problem))


_INFO = Implementation(name="forkpoint", version=__version__)


def _meta(meta: Mapping[str, Any]) -> Any:
    return dict(meta) or None


def _notices(told: Told) -> Any:
    async def notice(progress: float, total: float | None, message: str | None) -> None:
        told(progress, total, message)

    return notice


async def _listed(client: Client) -> tuple[Any, ...]:
    """Every tool of the server, page by page."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)


def _ended(error: MCPError) -> Ended:
    data = error.data
    if isinstance(data, dict) and data.get(FATE) in ("unsent", "lost", "stale", "refused"):
        return Ended(data[FATE], shown(error))
    if error.code in DOUBTFUL:
        return Ended("lost", shown(error))
    more = "" if data in (None, "") else f": {data}"
    return Ended("refused", f"{error.message} (code {error.code}){more}")


def shown(error: BaseException) -> str:
    """What went wrong at the bottom of it, on one line, cut."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
