"""A store to import into, and short ways to write chat messages."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import forkpoint as fp
from forkpoint.exchange.importing import ImportReport, import_file
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock

FILES = Path(__file__).parent / "files"
REAL = Path(__file__).parents[3] / "shared" / "data" / "tau-bench-airline-8-tasks.json"


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a fresh event loop; pytest sees its parameters."""

    def wrapped(**given: Any) -> None:
        asyncio.run(test(**given))

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    wrapped.__signature__ = __import__("inspect").signature(test)  # type: ignore[attr-defined]
    return wrapped


def shelf(*agents: fp.Agent) -> fp.Runtime:
    """A runtime over a new journal in memory."""
    return fp.connect(MemoryJournal(), agents=agents, clock=FakeClock())


def says(role: str, content: Any = "", **more: Any) -> dict[str, Any]:
    """One chat message."""
    return {"role": role, "content": content, **more}


def asks(*calls: tuple[Any, ...], content: Any = None) -> dict[str, Any]:
    """An assistant's message with calls: (id, name, arguments)."""
    told = [
        {"id": call[0], "type": "function", "function": {"name": call[1], "arguments": call[2] if call[2:] else "{}"}}
        for call in calls
    ]
    return {"role": "assistant", "content": content, "tool_calls": told}


def gives(call: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    """A tool's message."""
    return {"role": "tool", "tool_call_id": call, "content": content, **more}


async def brought(runtime: fp.Runtime, *messages: dict[str, Any], **options: Any) -> tuple[fp.Run, list[str]]:
    """The one run that ``messages`` become, and the repairs in words."""
    data = json.dumps(list(messages)).encode()
    report: ImportReport = await import_file(runtime.edge, data, **options)
    (one,) = report.runs
    return await runtime.open(one.run), [str(repair) for repair in one.repairs]
