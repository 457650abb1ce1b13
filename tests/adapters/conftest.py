"""Nothing that an adapter's test does leaves this machine."""

import os
import socket
from typing import Any

import pytest

_THEIRS = ("OPENAI_", "ANTHROPIC_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_")


@pytest.fixture(autouse=True)
def _only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leaves loopback, whatever a client, a tracer, a price list or a tokenizer would like to fetch."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), address
        connect(self, address)

    def looked_up(host: Any, *args: Any, **more: Any) -> Any:
        assert host in ("127.0.0.1", "::1", "localhost", None), host
        return look_up(host, *args, **more)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name.startswith(_THEIRS):
            monkeypatch.delenv(name)
