"""The graph of `langgraph_loop` in a recorded function: its model and tool are effects, by Forkpoint's middleware."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forkpoint as fp
from bench.loops_clock import Clock
from bench.loops_listed import Loop, Perform
from bench.peers import Durability
from bench.peers.forkpoint import SECRETS
from bench.peers.langgraph_loop import GIVEN, Stage, config_of, graph_on
from bench.script import TOOL, Script
from forkpoint.adapters.langgraph import ForkpointMiddleware


class Recorded:
    """No checkpointer: the record of what was asked is what a run goes on from. Everything on."""

    settings = "connect(durability=...): WAL and synchronous; by itself: WAL, FULL"

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        stage = Stage()
        graph = graph_on(stage, middleware=[ForkpointMiddleware(read_only={TOOL})])

        async def loop(run_id: str, steps: int) -> str:
            config = config_of(steps, run_id)
            return str((await graph.ainvoke(GIVEN, config))["messages"][-1].content)

        with asyncio.Runner() as runner:
            connected = fp.connect(folder / "runs.db", durability=durability, secrets=SECRETS)
            runtime = runner.run(connected.__aenter__())

            def perform(work: Script, run_id: str, clock: Clock) -> None:
                stage.play(work, clock)
                runner.run(runtime.record(run_id, loop, run_id, len(work)))

            yield perform
            runner.run(connected.__aexit__(None, None, None))


LOOPS: dict[str, Loop] = {"langgraph-async/recorded": Recorded()}
