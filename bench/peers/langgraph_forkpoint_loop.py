"""The graph of `langgraph_loop` with Forkpoint's checkpointer on a runtime; everything on."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import forkpoint as fp
from bench.peers import Durability
from bench.peers.forkpoint import SECRETS
from bench.peers.langgraph_loop import loops
from forkpoint.adapters.langgraph import ForkpointSaver

SETTINGS = 'connect(durability=...): WAL and synchronous; by itself: WAL, FULL; durability="sync"'


@contextmanager
def saver(*, folder: Path, durability: Durability, runner: asyncio.Runner) -> Iterator[ForkpointSaver]:
    """A ForkpointSaver on an event loop of its own in an OS thread, as one that is given a path has it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def done(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    with _connected(folder, durability, done) as made:
        yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextmanager
def saver_async(*, folder: Path, durability: Durability, runner: asyncio.Runner) -> Iterator[ForkpointSaver]:
    """The same on the runner's event loop."""
    with _connected(folder, durability, runner.run) as made:
        yield made


@contextmanager
def _connected(folder: Path, durability: Durability, done: Any) -> Iterator[ForkpointSaver]:
    # All of it on that event loop: a connection to SQLite belongs to the OS thread that opened it.
    kept = AsyncExitStack()

    async def opened() -> ForkpointSaver:
        connected = fp.connect(folder / "runs.db", durability=durability, secrets=SECRETS)
        return await kept.enter_async_context(ForkpointSaver(await kept.enter_async_context(connected)))

    yield done(opened())
    done(kept.aclose())


LOOPS = loops("forkpoint", SETTINGS, saver, saver_async)
