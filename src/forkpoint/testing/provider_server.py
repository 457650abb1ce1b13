"""A provider on this machine: real clients ask it over HTTP, and a script answers. No network, no key, no cost.

It speaks OpenAI Chat Completions (``/v1/chat/completions``), OpenAI Responses (``/v1/responses``) and Anthropic
Messages (``/v1/messages``), streamed or not, as far as text, reasoning, tools, images and usage go::

    def script(asked: Asked) -> Told:
        if asked.messages[-1].role == "tool":
            return f"It says {asked.messages[-1].parts[0].response}."
        return calls(call("look", path="a.txt"))

    with ProviderServer(script) as server:
        model = ProviderModel("openai:gpt-5", base_url=server.openai_url, api_key="none")

``Fault`` and ``Answer`` fail as providers do: 429 with ``Retry-After``, 500, a stream that is cut, silence, and bodies
that are no JSON.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from forkpoint.testing.provider.anthropic import Messages
from forkpoint.testing.provider.chat import Chat
from forkpoint.testing.provider.responses import Responses
from forkpoint.testing.provider.wire import API, Answer, Asked, Dialect, Fault, Told, as_answer

__all__ = ["API", "Answer", "Asked", "Fault", "ProviderServer", "Told"]

_DIALECTS: dict[str, tuple[API, Dialect]] = {
    "/v1/chat/completions": ("chat", Chat()),
    "/v1/responses": ("responses", Responses()),
    "/v1/messages": ("messages", Messages()),
}


class ProviderServer:
    """A provider whose answers are what ``script`` makes of each request; it keeps every request in ``requests``.

    ``script`` is a function from ``Asked`` to what is told, called in the server's own threads, or a list of replies
    used one a request. It listens on 127.0.0.1, on a port of its own, from ``with`` (or ``open``) to its end.
    """

    def __init__(self, script: Callable[[Asked], Told] | Sequence[Told]) -> None:
        self.requests: list[Asked] = []
        self._script = script if callable(script) else _in_turn(script)
        self._guard = threading.Lock()
        self._released = threading.Event()
        self._server: _Server | None = None
        self._serving: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens; the base URL that an Anthropic client wants."""
        assert self._server is not None, "the server is not open"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """The base URL that an OpenAI client wants."""
        return f"{self.url}/v1"

    def __enter__(self) -> "ProviderServer":
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def open(self) -> None:
        """Begin to listen."""
        self._server = _Server(("127.0.0.1", 0), self._answer, self._released)
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._serving.start()

    def close(self) -> None:
        """Stop listening; connections that are open are cut."""
        self.release()
        if self._server is not None and self._serving is not None:
            self._server.shutdown()
            self._server.cut()
            self._server.server_close()
            self._serving.join()

    def release(self) -> None:
        """Let every answer that is held back go on, now and from here on."""
        self._released.set()

    def _answer(self, api: API, dialect: Dialect, body: dict[str, Any], headers: dict[str, str]) -> "_Reply":
        instructions, messages = dialect.read(body)
        with self._guard:
            asked = Asked(
                number=len(self.requests) + 1,
                api=api,
                model=body.get("model", ""),
                stream=bool(body.get("stream")),
                instructions=instructions,
                messages=messages,
                tools=tuple(_name(tool) for tool in body.get("tools") or ()),
                body=body,
                headers=headers,
            )
            self.requests.append(asked)
            try:
                return asked, as_answer(self._script(asked))
            except Exception as error:  # told to whoever asked, where a test that fails will show it
                return asked, Fault(status=400, kind="script_error", text=f"{type(error).__name__}: {error}")


_Reply = tuple[Asked, Answer | Fault]


def _in_turn(replies: Sequence[Told]) -> Callable[[Asked], Told]:
    def next_reply(asked: Asked) -> Told:
        if asked.number > len(replies):
            return Fault(
                status=400,
                kind="script_error",
                text=f"the script has {len(replies)} replies; this is request {asked.number}",
            )
        return replies[asked.number - 1]

    return next_reply


def _name(tool: dict[str, Any]) -> str:
    return str((tool.get("function") or tool).get("name", tool.get("type", "")))


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, address: tuple[str, int], answer: Callable[..., _Reply], released: threading.Event) -> None:
        super().__init__(address, _Connection)
        self.answer = answer
        self.released = released
        self.open: set[socket.socket] = set()

    def cut(self) -> None:
        """End every connection, so that nobody waits for what a client may still ask."""
        for connection in tuple(self.open):
            _shut(connection)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the client was first
        connection.shutdown(socket.SHUT_RDWR)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        super().finish()

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True  # the client left in the middle, as it may

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed; what was asked is in ``requests``."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        found = _DIALECTS.get(self.path.partition("?")[0])
        if found is None:
            return self._send(404, json.dumps({"error": {"message": f"no such path: {self.path}"}}))
        api, dialect = found
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked, reply = self.server.answer(api, dialect, json.loads(content), headers)
        if isinstance(reply, Fault):
            return self._fail(dialect, reply)
        if asked.stream:
            return self._stream(dialect, asked, reply)
        return self._whole(dialect, asked, reply)

    def _fail(self, dialect: Dialect, fault: Fault) -> None:
        if fault.stall:
            self.server.released.wait()
        body = json.dumps(dialect.error(fault)) if fault.body is None else fault.body
        more = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        self._send(fault.status, body, more)

    def _whole(self, dialect: Dialect, asked: Asked, answer: Answer) -> None:
        if answer.stops_after is None:
            return self._send(200, json.dumps(dialect.whole(asked, answer)))
        if answer.then == "stall":
            self.server.released.wait()
        if answer.then == "error":
            return self._send(500, json.dumps(dialect.error(Fault())))
        body = json.dumps(dialect.whole(asked, answer))
        half = body[: len(body) // 2]
        self._send(200, half, {"Content-Length": str(len(half) if answer.then == "end" else len(body))})
        return self._cut()

    def _send(self, status: int, body: str, more: dict[str, str] | None = None) -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content))}.items():
            self.send_header(name, (more or {}).get(name, value))
        for name, value in (more or {}).items():
            if name != "Content-Length":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, dialect: Dialect, asked: Asked, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (name, data) in enumerate(dialect.events(asked, answer)):
            if number == answer.stops_after:
                if answer.then == "cut":
                    return self._cut()
                if answer.then == "stall":
                    self.server.released.wait()
                elif answer.then == "error":
                    self._event("error", dialect.error(Fault()))
                    break
                else:
                    break
            self._event(name, data)
        self._chunk(b"")
        return None

    def _event(self, name: str | None, data: dict[str, Any] | str) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        self._chunk(f"{f'event: {name}{chr(10)}' if name else ''}data: {text}\n\n".encode())

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def _cut(self) -> None:
        self.close_connection = True
        _shut(self.connection)
