"""An MCP server as a process of its own, spoken to over its input and output."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from mcp import StdioServerParameters, stdio_client


@asynccontextmanager
async def stdio_streams(
    over: Callable[[], None], *, command: str, args: tuple[str, ...], env: Mapping[str, str] | None, cwd: Path | None
) -> AsyncIterator[Any]:
    """The two streams of messages; ``over`` is called when the process will say nothing more.

    What the process writes to its standard error goes where ours goes, and is not recorded.
    """
    server = StdioServerParameters(command=command, args=[*args], env=dict(env or {}), cwd=cwd)
    with _our_errors() as errors:
        async with stdio_client(server, errlog=errors) as (read, write):
            yield _Watched(read, over), write


def _our_errors() -> AbstractContextManager[TextIO]:
    # Not ``sys.stderr``: what stands in its place in a notebook or a test is often no file.
    return nullcontext(sys.__stderr__) if sys.__stderr__ else Path(os.devnull).open("w")


class _Watched:
    """A stream of messages that tells when it has come to its end.

    A call that is made after that was not sent, and that is knowledge; the MCP library says the same of it as of a
    call that was sent and lost.
    """

    def __init__(self, stream: Any, over: Callable[[], None]) -> None:
        self._stream = stream
        self._over = over

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except Exception:
            self._over()
            raise

    def __aiter__(self) -> "_Watched":
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except Exception:
            self._over()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> "_Watched":
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.__aexit__(kind, error, trace)
