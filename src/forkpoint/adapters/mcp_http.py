"""HTTP to an MCP server, such that it is known of every request whether it was sent, and what became of it.

The MCP library makes one error of a connection that was refused, one that was cut, and a proxy's page; and some of
them end the connection for every other call. Here each is told apart where it happens, and told to the one request
that it befell, as an answer that names its fate.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

import httpx2
import msgspec
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR, REQUEST_TIMEOUT

Fate: TypeAlias = Literal["unsent", "lost", "stale", "refused"]
"""What became of a request that has no result: it was never sent; it was sent and nobody knows; the server has
forgotten this connection and did nothing; the server would not."""

FATE = "forkpoint/fate"
"""Under which an error's data names the fate."""

DOUBTFUL = frozenset({CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT})
"""Codes that the MCP library gives to requests whose answer did not arrive, or not whole."""

CONNECT_S = 30.0
SILENCE_S = 300.0
"""How long a server may be silent in the middle of an answer, where the tool has no limit of its own."""

_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.LocalProtocolError,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


@asynccontextmanager
async def http_streams(
    url: str, *, headers: Mapping[str, str] | None, auth: Any, silence_s: float | None
) -> AsyncIterator[Any]:
    """The two streams of messages of a connection over HTTP."""
    timeout = httpx2.Timeout(CONNECT_S, read=silence_s)
    async with (
        _Client(headers=dict(headers or {}), auth=auth, timeout=timeout) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


class _Client(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The answer to ``request``. To one that asks something, there is always an answer."""
        if request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
            if not _streams(response):
                # Here and not later: a body that is cut is the trouble of this request alone.
                await response.aread()
        except _UNSENT as error:
            return _told(request, "unsent", _text(error))
        except httpx2.TransportError as error:
            return _told(request, "lost", _text(error))
        return _judged(request, response)


def _judged(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    status = response.status_code
    if status >= 400:
        return _judged_error(request, response)
    is_result = _streams(response) or (status == 200 and _kind(response).startswith("application/json"))
    if is_result or status >= 300 or not _asks(request):
        return response
    return _told(request, "lost", f"it answered {_status(status)} without a result")


def _judged_error(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    status = response.status_code
    code, text = _error_in(response)
    if MCP_SESSION_ID in request.headers and (status == 404 or (status == 400 and code == CONNECTION_CLOSED)):
        return _told(request, "stale", text or _status(status))
    if code is None:
        return _told(request, "lost" if status >= 500 else "refused", _status(status))
    if status < 500 and code in DOUBTFUL:
        return _told(request, "refused", text)
    return response


def _told(request: httpx2.Request, fate: Fate, text: str) -> httpx2.Response:
    """An answer that names a fate, in the form in which the MCP library passes errors on to whoever asked."""
    error = {"code": INTERNAL_ERROR, "message": text, "data": {FATE: fate}}
    return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


def _error_in(response: httpx2.Response) -> tuple[int | None, str]:
    try:
        error = msgspec.json.decode(response.content)["error"]
        return int(error["code"]), str(error["message"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None, ""


def _asks(request: httpx2.Request) -> bool:
    """Whether it is to have an answer; notices and answers of ours are not."""
    message = msgspec.json.decode(request.content)
    return "id" in message and "method" in message


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).lower()


def _streams(response: httpx2.Response) -> bool:
    return response.status_code < 300 and _kind(response).startswith("text/event-stream")


def _status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
