"""pydantic-ai-durable: a third-party harness that commits every node of a Pydantic AI run to SQLite."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai_durable import Harness, SqliteStorage, durable_tool

from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS
from bench.peers import SYNCHRONOUS, Durability, Figure
from bench.peers._pydantic_ai import answers, scripted_model
from bench.script import PROMPT, TOOL, Script, script

# Its turns run with Pydantic AI's default limit of 50 model requests, which nothing in its interface
# changes. A longer run is therefore several turns, each of which ends with one more short response.
_STEPS_A_TURN = 49


class Durable:
    """A transcript of entries, and a record of each tool call with a replay policy."""

    durability_set_by = "PRAGMA synchronous on its open connection, after its own NORMAL, WAL"

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {
            "first_step_ms": _first_step,
            "state_half_ms": _state_half,
            "history_ms": _history,
        }

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        return asyncio.run(_measured_run(script(steps), durability, folder))

    def prepare(self, *, steps: int, folder: Path) -> None:
        self.run(steps=steps, durability="normal", folder=folder)

    def crash(self, *, folder: Path, witness: Path) -> None:
        asyncio.run(_turns(folder, "full", [_agent(script(CRASH_STEPS), witness)]))

    def recover(self, *, folder: Path, witness: Path) -> str:
        return asyncio.run(_recovered(folder, witness))


@asynccontextmanager
async def _opened(folder: Path, durability: Durability) -> AsyncIterator[Harness]:
    storage = SqliteStorage(folder / "durable.db")
    harness = await Harness.open(storage, conversation_id="run")
    connection = await storage.get_connection()
    await connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    try:
        yield harness
    finally:
        await harness.close()


def _agent(work: Script, witness: Path | None = None, most: int | None = None) -> Agent[None, str]:
    agent = Agent(scripted_model(work, most=most), name="bench")
    answer = answers(work, witness)

    # "unsafe" is its careful policy: a call that was started is not repeated by its recovery.
    @agent.tool_plain(name=TOOL)
    @durable_tool(replay="unsafe")
    async def look_up(number: int) -> str:
        return answer(number)

    return agent


async def _turns(folder: Path, durability: Durability, agents: list[Agent[None, str]]) -> Cost:
    async with _opened(folder, durability) as harness:
        root = await harness.root()
        with measured() as cost:
            for agent in agents:
                root.agent = agent
                await root.run(PROMPT)
    return cost


async def _measured_run(work: Script, durability: Durability, folder: Path) -> Cost:
    starts = range(0, len(work), _STEPS_A_TURN)
    agents = [_agent(work[start : start + _STEPS_A_TURN]) for start in starts]
    return await _turns(folder, durability, agents)


async def _recovered(folder: Path, witness: Path) -> str:
    async with _opened(folder, "full") as harness:
        harness.agent = _agent(script(CRASH_STEPS), witness)
        (found,) = await harness.resume()
        said = f"resume() says phase={found.reconciled_phase!r}, interrupted={found.unsafe_tools_interrupted}"
        root = await harness.root()
        try:
            result = await root.run("Go on.")
        except Exception as error:  # What it says is the finding, whatever its type.
            return f"{said}; the next turn fails: {type(error).__name__}: {error}"
    return f"{said}; the next turn ends with {result.output!r}"


def _first_step(folder: Path, steps: int) -> float:
    work = script(steps + 100)
    with measured() as cost:
        asyncio.run(_turns(folder, "normal", [_agent(work, most=1)]))
    return cost.wall_ms


def _state_half(folder: Path, steps: int) -> float:
    async def read() -> int:
        async with _opened(folder, "normal") as harness:
            return len(await harness.get_history())

    # It reads a conversation whole or up to an entry whose id one must know; whole is what can be asked cold.
    with measured() as cost:
        messages = asyncio.run(read())
    assert messages >= 2 * steps
    return cost.wall_ms


def _history(folder: Path, steps: int) -> float:
    async def read() -> int:
        async with _opened(folder, "normal") as harness:
            return len(await harness.get_transcript())

    with measured() as cost:
        entries = asyncio.run(read())
    assert entries >= 2 * steps
    return cost.wall_ms


PEER = Durable()
