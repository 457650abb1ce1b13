"""The agent of `pydantic_ai_loop` with Pydantic AI's own integration of DBOS, on SQLite."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from pydantic_ai.durable_exec.dbos import DBOSDurability

from bench.loops_clock import Clock
from bench.loops_listed import Loop, Perform
from bench.peers import Durability
from bench.peers._dbos import configure
from bench.peers.pydantic_ai_loop import NO_LIMIT, Stage, agent_on
from bench.script import PROMPT, Script


class Dbos:
    """Requests to the model and the tool are DBOS steps of a workflow."""

    settings = "WAL and synchronous set on its connections; by itself: a rollback journal, FULL"

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        configure(folder, durability)
        stage = Stage()
        agent = agent_on(stage, [DBOSDurability()], DBOS.step(name="tool"))

        @DBOS.workflow(name="loop")
        async def loop(prompt: str) -> str:
            return (await agent.run(prompt, usage_limits=NO_LIMIT)).output

        DBOS.launch()
        with asyncio.Runner() as runner:

            def perform(work: Script, run_id: str, clock: Clock) -> None:
                stage.play(work, clock)
                with SetWorkflowID(run_id):
                    runner.run(loop(PROMPT))

            yield perform
            DBOS.destroy()


LOOPS: dict[str, Loop] = {"pydantic-ai/dbos": Dbos()}
