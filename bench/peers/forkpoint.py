"""Forkpoint itself, everything on: cancellable tools with a timeout, masking with a registered secret, checkpoints."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

import forkpoint as fp
from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS, effect
from bench.peers import Durability, Figure
from bench.script import PROMPT, TOOL, Script, script
from forkpoint.messages import CallPart, Usage, assistant
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse
from forkpoint.stores.sqlite.journal import SqliteJournal

RUN = "bench"
SECRETS = {"GATEWAY": "sk-bench-0123456789abcdef"}
AT_ONCE, STEPS_AT_ONCE = 64, 20
MANY_RUNS, PAGE = 10_000, 50
REPEATS = 5

# A figure "after the imports" must not pay for those that names of the package load when first used.
_LOADED = (fp.connect, fp.Agent, fp.Patch, fp.replay, fp.tool)


class Scripted:
    """Answers from the script, one message a call, by how many steps it is shown; then says that it is done."""

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


class Told:
    """Answers from the script by how often it has spoken in what it is shown, as a model does."""

    name = "scripted:bench"

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        spoken = sum(1 for message in request.messages if message.role == "assistant")
        if spoken >= CRASH_STEPS:
            return ModelResponse(message=assistant("done"))
        (step,) = script(1, first=spoken + 1)
        return ModelResponse(
            message=assistant(step.text, CallPart(id=step.call_id, name=TOOL, arguments=step.arguments))
        )


def agent(work: Script, *, name: str = "bench") -> fp.Agent:
    """The agent of the common work: a scripted model and one trivial tool."""
    results = {step.number: step.result for step in work}

    @fp.tool(name=TOOL, read_only=True, timeout_s=60.0)
    async def look_up(number: int) -> str:
        """Look a number up."""
        return results[number]

    return fp.Agent(name, model=Scripted(work), instructions="Look up.", tools=[look_up])


def payer(witness: Path) -> fp.Agent:
    """The agent of the crash: its tool has an effect outside, and says nothing about being safe to repeat."""

    @fp.tool(name=TOOL)
    async def look_up(number: int) -> str:
        """Have an effect."""
        effect(number, witness)
        return "done"

    return fp.Agent("payer", model=Told(), tools=[look_up])


class Forkpoint:
    """The library as a user has it: `connect`, `start`, `wait`."""

    durability_set_by = "connect(durability=...), which sets PRAGMA synchronous"

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {
            "first_step_ms": _timed(_first_step),
            "state_half_ms": _timed(_state_half),
            "history_ms": _timed(_history),
            "fork_ms": _timed(_fork),
            "fork_bytes": _fork_bytes,
            "fold_events_s": _fold_events_s,
            "appends_per_fsync": _appends_per_fsync,
            "runs_page_ms": _runs_page_ms,
            "import_ms": _import_ms,
            "cli_runs_ms": _cli_runs_ms,
        }

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        return asyncio.run(_run(script(steps), durability, folder))

    def prepare(self, *, steps: int, folder: Path) -> None:
        self.run(steps=steps, durability="normal", folder=folder)

    def crash(self, *, folder: Path, witness: Path) -> None:
        asyncio.run(_pay(folder, witness))

    def recover(self, *, folder: Path, witness: Path) -> str:
        return asyncio.run(_recover(folder, witness))


async def _run(work: Script, durability: Durability, folder: Path) -> Cost:
    async with fp.connect(folder / "runs.db", agents=[agent(work)], durability=durability, secrets=SECRETS) as runtime:
        with measured() as cost:
            run = await runtime.start("bench", PROMPT, run_id=RUN)
            await run.wait()
        return cost


async def _pay(folder: Path, witness: Path) -> None:
    async with fp.connect(folder / "runs.db", agents=[payer(witness)]) as runtime:
        await (await runtime.start("payer", PROMPT, run_id=RUN)).wait()


async def _recover(folder: Path, witness: Path) -> str:
    async with fp.connect(folder / "runs.db", agents=[payer(witness)]) as runtime:
        await runtime.recover()
        (wait,) = await runtime.waits()
        run = await runtime.open(wait.run)
        await run.resolve(wait.wait.effect, "occurred", output="done", note="the witness says so")
        await run.resume()
        state = await run.wait()
    return f"waits for a person: {wait.wait.name}, {wait.wait.says}; resolved as occurred, then {state.status}"


def _timed(body: Callable[[Path, int], Coroutine[Any, Any, None]]) -> Figure:
    """Wall time of `body` in ms, opening and closing the store included."""

    def figure(folder: Path, steps: int) -> float:
        async def timed() -> float:
            with measured() as cost:
                await body(folder, steps)
            return cost.wall_ms

        return asyncio.run(timed())

    return figure


async def _first_step(folder: Path, steps: int) -> None:
    work = script(1, first=steps + 1)
    async with fp.connect(folder / "runs.db", agents=[agent(work)], durability="normal", secrets=SECRETS) as runtime:
        run = await runtime.open(RUN)
        await run.send("and one more")
        await run.resume()
        await run.wait()


async def _state_half(folder: Path, steps: int) -> None:
    async with fp.connect(folder / "runs.db") as runtime:
        state = await (await runtime.open(RUN)).state(step=steps // 2)
    assert len(state.messages) == steps + 1


async def _history(folder: Path, steps: int) -> None:
    async with fp.connect(folder / "runs.db") as runtime:
        outline = await (await runtime.open(RUN)).outline()
    assert len(outline) >= 6 * steps


async def _fork(folder: Path, steps: int) -> None:
    call = script(1, first=steps - 1)[0].call_id
    async with fp.connect(folder / "runs.db", durability="normal") as runtime:
        run = await runtime.open(RUN)
        await run.fork(step=steps - 1, patch=fp.Patch(tool_results={call: "another result"}))


def _fork_bytes(folder: Path, steps: int) -> float:
    from bench.child import stored_bytes

    before = stored_bytes(folder)
    asyncio.run(_fork(folder, steps))
    return stored_bytes(folder) - before


def _fold_events_s(folder: Path, steps: int) -> float:
    async def events_s() -> float:
        async with fp.connect(folder / "runs.db") as runtime:
            run = await runtime.open(RUN)
            began = time.perf_counter()
            history = await run.history()
            fp.replay(history)
            return len(history) / (time.perf_counter() - began)

    return asyncio.run(events_s())


def _appends_per_fsync(folder: Path, steps: int) -> float:
    async def at_once() -> float:
        journal = SqliteJournal(folder / "at-once.db", synchronous="full")
        agents = [agent(script(STEPS_AT_ONCE), name=f"a{number}") for number in range(AT_ONCE)]
        async with fp.connect(journal, agents=agents) as runtime:
            runs = [await runtime.start(one, PROMPT, perform=False) for one in agents]
            before = journal.commits_made
            await asyncio.gather(*(run.resume() for run in runs))
            await asyncio.gather(*(run.wait() for run in runs))
            return AT_ONCE * 2 * STEPS_AT_ONCE / (journal.commits_made - before)

    return asyncio.run(at_once())


def _runs_page_ms(folder: Path, steps: int) -> float:
    async def page_ms() -> float:
        async with fp.connect(folder / "many.db", agents=[agent(script(1))], durability="normal") as runtime:
            if not (await runtime.runs()).rows:
                for number in range(MANY_RUNS):
                    await runtime.start("bench", PROMPT, run_id=f"run-{number}", perform=False)
            with measured() as cost:
                page = await runtime.runs(limit=PAGE)
            assert len(page.rows) == PAGE
            return cost.wall_ms

    return asyncio.run(page_ms())


def _import_ms(folder: Path, steps: int) -> float:
    return _above_bare("-c", "import forkpoint")


def _cli_runs_ms(folder: Path, steps: int) -> float:
    return _above_bare("-m", "forkpoint", "--store", str(folder / "runs.db"), "runs")


def _above_bare(*arguments: str) -> float:
    """Median wall time of a Python process above one that does nothing, in ms."""
    pairs = [(_process_ms(*arguments), _process_ms("-c", "pass")) for _ in range(REPEATS)]
    return median(ours - bare for ours, bare in pairs)


def _process_ms(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1e3


PEER = Forkpoint()
