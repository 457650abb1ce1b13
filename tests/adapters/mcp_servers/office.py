"""An MCP server whose tools tell a witness what they do: ``python office.py stdio|http [option…]``.

The witness is a port of the test's. Over HTTP the server's first line of output is its own port. Options: ``more``
has a tool that the server did not have before; ``port=N`` takes the port of one that is gone.
"""

import asyncio
import json
import os
import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents, ToolAnnotations

server = MCPServer("office", log_level="CRITICAL")
READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=True, open_world_hint=True)
IDEMPOTENT = ToolAnnotations(idempotent_hint=True)


async def witnessed(tool: str, ctx: Context[Any, Any], **said: Any) -> str:
    """Tell the witness; what it answers, once it does. It is told of a cancellation too."""
    try:
        return await _told(tool=tool, key=(ctx.request_context.meta or {}).get("forkpoint/idempotency_key"), **said)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await _told(tool="cancelled", key=tool)
        raise


async def _told(**said: Any) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["WITNESS"]))
    try:
        writer.write(json.dumps({"pid": os.getpid(), **said}).encode() + b"\n")
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


@server.tool(annotations=READ_ONLY)
async def look(path: str, ctx: Context[Any, Any], depth: int = 1) -> dict[str, Any]:
    """Look at a file."""
    return {"of": path, "depth": depth, "said": await witnessed("look", ctx)}


@server.tool(annotations=IDEMPOTENT)
async def put(text: str, ctx: Context[Any, Any]) -> str:
    """Put a text in the tray."""
    return f"put {text} {await witnessed('put', ctx)}"


@server.tool()
async def post(text: str, ctx: Context[Any, Any]) -> str:
    """Post a letter."""
    return f"posted {text} {await witnessed('post', ctx, text=text)}"


@server.tool()
async def find_post(text: str, ctx: Context[Any, Any]) -> str:
    """What became of a letter."""
    return await witnessed("find_post", ctx)


@server.tool()
def spoil(text: str) -> str:
    """Fail."""
    raise ToolError(f"no stamp for {text}; the token is {os.environ.get('OFFICE_TOKEN')}")


@server.tool(structured_output=False)
def gallery() -> list[Any]:
    """A text and a picture."""
    return ["two things", Image(data=b"\x89PNG", format="png")]


@server.tool(structured_output=False)
def photo() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool(structured_output=False)
def greet() -> str:
    """A text."""
    return "good day"


@server.tool()
def folder() -> CallToolResult:
    """Structured content, with a resource."""
    resource = TextResourceContents(uri="memo://1", text="a memo", mime_type="text/plain")
    parts = [TextContent(text="1 file"), EmbeddedResource(resource=resource)]
    return CallToolResult(content=parts, structured_content={"files": 1})


@server.tool()
def nothing() -> CallToolResult:
    """No content at all."""
    return CallToolResult(content=[])


@server.tool()
async def count(ctx: Context[Any, Any]) -> int:
    """Count to two, and say so."""
    await ctx.report_progress(1, 2, "one")
    await ctx.report_progress(2, 2)
    return 2


@server.tool(name="tray.list/all")
def tray() -> str:
    """A name that no provider takes."""
    return "empty"


@server.tool()
def environment() -> dict[str, str | None]:
    """What the server was given."""
    return {name: os.environ.get(name) for name in ("OFFICE_TOKEN", "OFFICE_OTHER")}


@server.tool()
def headers(ctx: Context[Any, Any]) -> str:
    """The header that the server was given."""
    return (ctx.headers or {}).get("authorization", "")


def main(kind: str, *options: str) -> None:
    if "more" in options:
        server.tool(name="shred")(greet)
    if kind == "stdio":
        server.run("stdio")
        return
    given = dict(option.split("=") for option in options if "=" in option)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(given.get("port", 0))))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    app = server.streamable_http_app(json_response="json" in options)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listening]))


if __name__ == "__main__":
    main(*sys.argv[1:])
