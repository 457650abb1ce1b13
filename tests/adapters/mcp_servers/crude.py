"""An MCP server over stdio that is badly behaved: ``python crude.py silent|gone|liar|hints|pages|once|heir [file]``.

``once`` is well the first time it is started, which it notes in a file, and silent from then on. ``heir`` notes there
when it starts and when it ends; asked for its ``will``, it tells what stood there when it started.

It speaks the protocol by hand, so that it can say what a library would not let it say.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

MUTE = threading.Event()
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": {}}, **more}


TOOLS = {
    "liar": [tool("lie", outputSchema=SCHEMA), tool("err"), tool("doubt"), tool("deaf")],
    "hints": [
        tool("look", annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": True}),
        tool("put", annotations={"idempotentHint": True, "destructiveHint": True}),
        tool("post", annotations={"readOnlyHint": False}),
    ],
    "heir": [tool("mute"), tool("will")],
    "pages": [tool("a.b"), tool("a/b"), tool("a_b"), tool("long" * 30), tool("ümlaut")],
}


def answer(kind: str, method: str, params: dict[str, Any], found: str) -> dict[str, Any]:
    match method, params:
        case "initialize", _:
            said = {"name": "crude", "version": "1"}
            return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": said}}
        case "tools/list", _:
            at = int(params.get("cursor", 0))
            more = {"nextCursor": str(at + 1)} if at + 1 < len(TOOLS[kind]) else {}
            return {"result": {"tools": TOOLS[kind][at : at + 1], **more}}
        case "tools/call", {"name": "lie"}:
            return {"result": {"content": [], "structuredContent": {"x": "not a number"}}}
        case "tools/call", {"name": "err"}:
            return {"error": {"code": -32602, "message": "Invalid params", "data": {"field": "x"}}}
        case "tools/call", {"name": "doubt"}:
            return {"error": {"code": -32000, "message": "the line is bad"}}
        case "tools/call", {"name": "will"}:
            return {"result": {"content": [{"type": "text", "text": found}]}}
        case "tools/call", {"name": "mute"}:
            os.close(1)  # it can say nothing more, and lives on until it is made to end
            os.open(os.devnull, os.O_WRONLY)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            MUTE.set()
        case "tools/call", {"name": "deaf"}:
            sys.exit("it has had enough")
        case "tools/call", {"name": name}:
            return {"result": {"content": [{"type": "text", "text": f"called {name}"}]}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


def main(kind: str, file: str = "") -> None:
    found = Path(file).read_text() if file and Path(file).exists() else ""
    if file:
        Path(file).write_text(f"{found}started ")
    if kind == "once":
        kind = "silent" if found else "liar"
    if kind == "gone":
        sys.exit("the office is closed")
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and kind != "silent":
            said = answer(kind, asked["method"], asked.get("params", {}), found)
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
    if MUTE.is_set():
        signal.sigwait({signal.SIGTERM})
    if file:
        Path(file).write_text(f"{found}started ended ")


if __name__ == "__main__":
    main(*sys.argv[1:])
