"""An MCP server over HTTP as it looks through bad networks and proxies, and after a restart: ``python proxied.py``.

Its first line of output is its port. It has one tool, ``send(how)``, and ``how`` says what becomes of the request. What
was done by then is told under ``/done``. It is of the generation that remembers its callers by an id.
"""

import json
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KNOWN: set[str] = set()
DONE: list[str] = []
HINTS = {"idempotentHint": True}
SCHEMA = {"type": "object", "properties": {"how": {"type": "string"}}}
TOOLS = [{"name": "send", "inputSchema": SCHEMA}, {"name": "resend", "inputSchema": SCHEMA, "annotations": HINTS}]


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/done":
            self._send(200, json.dumps(DONE))
        else:
            self._send(405, "")

    def do_DELETE(self) -> None:
        self._send(200, "")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match asked:
            case {"method": "initialize"}:
                KNOWN.add(known := f"caller-{len(KNOWN)}")
                said = {"name": "proxied", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": said}
                self._result(asked, result, known)
            case {"method": "tools/list"}:
                self._result(asked, {"tools": TOOLS})
            case {"method": "tools/call", "params": {"arguments": {"how": how}}}:
                self._call(asked, how)
            case {"id": _}:
                self._error(asked, 400, -32601, "no such method")
            case _:
                self._send(202, "")

    def _call(self, asked: dict[str, Any], how: str) -> None:
        if how == "always" or self.headers.get("mcp-session-id") not in KNOWN:
            return self._error(asked, 404, -32001, "Session not found")
        if how.startswith("forget") and how not in DONE:
            DONE.append(how)
            KNOWN.clear()
            if how == "forget quietly":
                return self._error(asked, 400, -32000, "Bad Request: No valid session ID provided")
            return self._error(asked, 404, -32001, "Session not found")
        if how not in ("400", "401", "403"):
            DONE.append(how)
        match how:
            case "cut":
                return self._cut(b"")
            case "cut in json":
                return self._cut(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            case "cut in stream":
                head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100\r\n\r\n"
                return self._cut(head + b": hm\n\n")
            case "cut once" if DONE.count(how) == 1:
                return self._cut(b"")
            case "400":
                return self._error(asked, 400, -32000, "we do not serve this")
            case "403":
                return self._error(asked, 403, -32001, "you may not")
            case "500":
                return self._error(asked, 500, -32603, "it broke")
            case "401" | "502":
                return self._send(int(how), "<html>a proxy's page</html>", "text/html")
            case "202":
                return self._send(202, "")
            case "page":
                return self._send(200, "<html>please log in</html>", "text/html")
            case "broken":
                return self._send(200, '{"jsonrpc": "2.0", ')
        return self._result(asked, {"content": [{"type": "text", "text": f"sent {how}"}]})

    def _result(self, asked: dict[str, Any], result: dict[str, Any], known: str | None = None) -> None:
        self._send(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), known=known)

    def _error(self, asked: dict[str, Any], status: int, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        self._send(status, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}))

    def _send(self, status: int, body: str, kind: str = "application/json", known: str | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        if known:
            self.send_header("mcp-session-id", known)
        self.end_headers()
        self.wfile.write(body.encode())

    def _cut(self, sent: bytes) -> None:
        self.wfile.write(sent)
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    print(server.server_address[1], flush=True)
    server.serve_forever()
