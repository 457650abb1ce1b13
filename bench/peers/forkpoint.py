"""Forkpoint itself, everything on: cancellable tools with a timeout, masking with a registered secret, checkpoints."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import forkpoint as fp
from bench.cost import Cost, measured
from bench.peers import Durability, Figure
from bench.script import PROMPT, TOOL, Script, script
from forkpoint.messages import CallPart, Usage, assistant
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse

RUN = "bench"
SECRETS = {"GATEWAY": "sk-bench-0123456789abcdef"}


class Scripted:
    """Answers from the script, one message a call; says that it is done when the script is over."""

    name = "scripted:bench"

    def __init__(self, work: Script) -> None:
        self._work = {step.number: step for step in work}
        self._next = min(self._work, default=1)

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        step = self._work.get(self._next)
        if step is None:
            return ModelResponse(message=assistant("done"), usage=Usage(input_tokens=1, output_tokens=1))
        self._next += 1
        call = CallPart(id=step.call_id, name=TOOL, arguments=dict(step.arguments))
        return ModelResponse(message=assistant(step.text, call), usage=Usage(input_tokens=100, output_tokens=80))


def agent(work: Script) -> fp.Agent:
    """The agent of the common work: a scripted model and one trivial tool."""
    results = {step.number: step.result for step in work}

    @fp.tool(name=TOOL, read_only=True, timeout_s=60.0)
    async def look_up(number: int) -> str:
        """Look a number up."""
        return results[number]

    return fp.Agent("bench", model=Scripted(work), instructions="Look up.", tools=[look_up])


class Forkpoint:
    """The library as a user has it: `connect`, `start`, `wait`."""

    durability_set_by = "connect(durability=...), which sets PRAGMA synchronous"

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        return asyncio.run(_run(script(steps), durability, folder))

    def prepare(self, *, steps: int, folder: Path) -> None:
        self.run(steps=steps, durability="normal", folder=folder)

    def crash(self, *, folder: Path, witness: Path) -> None:
        raise NotImplementedError

    def recover(self, *, folder: Path, witness: Path) -> str:
        raise NotImplementedError


async def _run(work: Script, durability: Durability, folder: Path) -> Cost:
    async with fp.connect(folder / "runs.db", agents=[agent(work)], durability=durability, secrets=SECRETS) as runtime:
        with measured() as cost:
            run = await runtime.start("bench", PROMPT, run_id=RUN)
            await run.wait()
        return cost


PEER = Forkpoint()
