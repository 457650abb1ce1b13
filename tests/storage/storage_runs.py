"""Real runs in a file, for tests of what is kept of them."""

import asyncio
import hashlib
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import forkpoint as fp
from forkpoint.ports import ModelRequest
from forkpoint.runtime.verifying import Verified
from forkpoint.testing.fakes import FakeClock, Reply, ScriptedModel, call, calls

T = TypeVar("T")

DAY_S = 24 * 3600
LARGE = 5_000
"""More bytes than an event holds itself."""


@fp.tool(read_only=True)
def look(number: int) -> str:
    """Look up a number; an odd one is a long story."""
    return "x" * LARGE if number % 2 else f"it is {number}"


def agent(steps: int = 3) -> fp.Agent:
    """An agent that looks ``steps`` times an input, then answers."""

    def script(request: ModelRequest) -> Reply:
        since = 0
        for message in request.messages:
            since = 0 if message.role == "user" else since + (message.role == "assistant")
        return calls(call("look", id=f"c{since}", number=since)) if since < steps else "done"

    return fp.Agent("looker", model=ScriptedModel(script), tools=[look], instructions="Look well.")


def on_store(path: Path, work: Callable[[fp.Runtime], Awaitable[T]], **options: Any) -> T:
    """What ``work`` gives, done with a runtime on the store at ``path``."""
    options = {"agents": [agent()], "durability": "normal", "clock": FakeClock()} | options

    async def whole() -> T:
        async with fp.connect(path, **options) as runtime:
            return await work(runtime)

    return asyncio.run(whole())


def lived(path: Path, *runs: str, steps: int = 3, **options: Any) -> None:
    """Runs of one turn each."""

    async def work(runtime: fp.Runtime) -> None:
        for name in runs:
            await (await runtime.start("looker", f"Look, {name}", run_id=name, labels={"name": name})).wait()

    on_store(path, work, agents=[agent(steps)], **options)


def forked(path: Path, run: str, child: str, at: int) -> None:
    async def work(runtime: fp.Runtime) -> None:
        await (await runtime.open(run)).fork(at, run_id=child, patch=fp.Patch(input="And now?"))

    on_store(path, work)


def verified(path: Path, run: str | None = None, *, fold: bool = False, **options: Any) -> Verified:
    return on_store(path, lambda runtime: runtime.verify(run, fold=fold), **options)


def told(verdict: Verified) -> list[tuple[str, int, str]]:
    """The findings, short."""
    return [(one.run, one.seq, one.code) for one in verdict.findings]


def change(path: Path, statement: str, *values: Any) -> None:
    """Do to the store's tables what no writer of ours would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement, values).rowcount != 0


def ask(path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def file_hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}
