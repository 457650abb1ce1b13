"""The graph of `langgraph_loop` with the least that a middleware can record: a row for each answer and each result.

It could not recover a run; no middleware that records both costs less.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware

from bench.loops_clock import Clock
from bench.loops_listed import Loop, Perform
from bench.peers import Durability
from bench.peers._rows import Keep, kept_rows
from bench.peers.langgraph_floor_loop import content_of
from bench.peers.langgraph_loop import GIVEN, Stage, config_of, graph_on
from bench.script import Script


class Middleware(AgentMiddleware[Any, Any, Any]):
    """Performs what it is given, and keeps what came of it."""

    def __init__(self, keep: Keep) -> None:
        super().__init__()
        self._keep = keep

    async def awrap_model_call(self, request: Any, perform: Callable[[Any], Awaitable[Any]]) -> Any:
        """A row for what the model said."""
        given = await perform(request)
        self._keep(content_of(given.result))
        return given

    async def awrap_tool_call(self, request: Any, perform: Callable[[Any], Awaitable[Any]]) -> Any:
        """A row for what the tool gave."""
        given = await perform(request)
        self._keep(content_of([given]))
        return given


class Floor:
    """No checkpointer, and a middleware with nothing behind it but rows."""

    settings = "no record to go on from: one row and one commit for each call; WAL and synchronous"

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        stage = Stage()
        with kept_rows(folder, durability) as keep, asyncio.Runner() as runner:
            graph = graph_on(stage, middleware=[Middleware(keep)])

            def perform(work: Script, run_id: str, clock: Clock) -> None:
                stage.play(work, clock)
                runner.run(graph.ainvoke(GIVEN, config_of(len(work), run_id)))

            yield perform


LOOPS: dict[str, Loop] = {"langgraph-async/floor-recorded": Floor()}
