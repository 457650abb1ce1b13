"""The agent of `pydantic_ai_loop` with Forkpoint's capability, in a recorded function; everything on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forkpoint as fp
from bench.loops_clock import Clock
from bench.loops_listed import Loop, Perform
from bench.peers import Durability
from bench.peers.forkpoint import SECRETS
from bench.peers.pydantic_ai_loop import NO_LIMIT, Stage, agent_on
from bench.script import PROMPT, TOOL, Script
from forkpoint.adapters.pydantic_ai import Forkpoint


class Ours:
    """Requests to the model and calls of the tool are effects of the recorded function's run."""

    settings = "connect(durability=...): WAL and synchronous; by itself: WAL, FULL"

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        stage = Stage()
        agent = agent_on(stage, [Forkpoint(read_only={TOOL})])

        async def loop(prompt: str) -> str:
            return (await agent.run(prompt, usage_limits=NO_LIMIT)).output

        with asyncio.Runner() as runner:
            connected = fp.connect(folder / "runs.db", durability=durability, secrets=SECRETS)
            runtime = runner.run(connected.__aenter__())

            def perform(work: Script, run_id: str, clock: Clock) -> None:
                stage.play(work, clock)
                runner.run(runtime.record(run_id, loop, PROMPT))

            yield perform
            runner.run(connected.__aexit__(None, None, None))


LOOPS: dict[str, Loop] = {"pydantic-ai/forkpoint": Ours()}
