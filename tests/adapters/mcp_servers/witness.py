"""The test's side of the servers beside: who did what, told by the tools themselves; processes to start and kill."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from forkpoint.adapters.mcp import McpServer

HERE = Path(__file__).parent
OFFICE = str(HERE / "office.py")
CRUDE = str(HERE / "crude.py")
PROXIED = str(HERE / "proxied.py")
PATIENCE_S = 60.0
"""How long anything may take before the test gives up; never a measure of anything."""


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an async test, for as long as patience lasts."""
    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def started(command: list[str], env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A process."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True)


class Said:
    """What a tool told, which waits for an answer."""

    def __init__(self, told: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.tool: str = told["tool"]
        self.pid: int = told["pid"]
        self.key: str | None = told["key"]
        self._writer = writer

    def answer(self, text: str = "ok") -> None:
        """Let the tool go on."""
        self._writer.write(text.encode() + b"\n")

    def kill(self) -> None:
        """Kill the process of the server that the tool runs in. It is the server itself that told its id."""
        os.kill(self.pid, signal.SIGKILL)


class Witness:
    """Hears every tool. Those in ``holds`` wait until the test answers; the others are answered at once."""

    def __init__(self, *holds: str) -> None:
        self.holds = {*holds}
        self.heard: list[Said] = []
        self._held: asyncio.Queue[Said] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._hear, "127.0.0.1")
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        line = await reader.readline()
        if not line:
            return
        said = Said(json.loads(line), writer)
        self.heard.append(said)
        if said.tool in self.holds:
            self._held.put_nowait(said)
        else:
            said.answer()

    async def hears(self) -> Said:
        """The next tool that waits."""
        return await self._held.get()

    def count(self, tool: str) -> int:
        """How often a tool did its work."""
        return sum(1 for said in self.heard if said.tool == tool)

    def stdio(self, *arguments: str, env: dict[str, str] | None = None, **options: Any) -> McpServer:
        """The office as a process of its own."""
        env = {"WITNESS": str(self.port), **(env or {})}
        return McpServer.stdio(sys.executable, OFFICE, "stdio", *arguments, env=env, **{"name": "office", **options})


def crude(*kind: str, **options: Any) -> McpServer:
    """A badly behaved server."""
    return McpServer.stdio(sys.executable, CRUDE, *kind, **{"name": "crude", **options})


class Listening:
    """A server over HTTP in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, script: str, *arguments: str, witness: Witness | None = None) -> None:
        self._command = [sys.executable, "-W", "ignore", script, *arguments]
        self._env = {**os.environ, "WITNESS": str(witness.port if witness else 0)}
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    async def start(self) -> None:
        """Start it, again at the address that it had; return once it listens."""
        again = [f"port={self.port}"] if self.port else []
        self._process = started([*self._command, *again], self._env)
        assert self._process.stdout is not None
        self.port = int(await asyncio.to_thread(self._process.stdout.readline))

    def kill(self) -> None:
        """Kill it, and return once it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def server(self, **options: Any) -> McpServer:
        """The way to it."""
        return McpServer.http(self.url, **{"name": "office", **options})

    async def done(self) -> list[str]:
        """What was done there, as ``proxied`` tells it."""

        def ask() -> list[str]:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/done") as answer:
                told: list[str] = json.load(answer)
                return told

        return await asyncio.to_thread(ask)
