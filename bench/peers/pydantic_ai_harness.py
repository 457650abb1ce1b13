"""Pydantic AI's harness: the StepPersistence capability on its SqliteStepStore."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai_harness import StepPersistence
from pydantic_ai_harness.step_persistence import SqliteStepStore, continue_run

from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS
from bench.peers import SYNCHRONOUS, Durability, Figure
from bench.peers._pydantic_ai import NO_LIMIT, answers, scripted_model
from bench.script import PROMPT, TOOL, Script, script

_RUN_ID = "run"


class Harness:
    """Events, a ledger of tool effects, and a snapshot of the messages at every settled step."""

    durability_set_by = "PRAGMA synchronous on the connection given to SqliteStepStore, WAL"

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
        with _store(folder, "full") as store:
            agent = _agent(store, script(CRASH_STEPS), _RUN_ID, witness)
            asyncio.run(agent.run(PROMPT))

    def recover(self, *, folder: Path, witness: Path) -> str:
        with _store(folder, "full") as store:
            return asyncio.run(_recovered(store, witness))


@contextmanager
def _store(folder: Path, durability: Durability) -> Iterator[SqliteStepStore]:
    database = folder / "harness.db"
    # The store works in OS threads, one call at a time. Given a path instead, it would open a connection
    # for each call, and there would be no place to set the durability.
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        yield SqliteStepStore(connection=connection)


def _agent(store: SqliteStepStore, work: Script, run_id: str | None, witness: Path | None = None) -> Agent[None, str]:
    agent = Agent(scripted_model(work), name="bench", capabilities=[StepPersistence(store=store, run_id=run_id)])
    answer = answers(work, witness)

    @agent.tool_plain(name=TOOL)
    async def look_up(number: int) -> str:
        return answer(number)

    return agent


async def _measured_run(work: Script, durability: Durability, folder: Path) -> Cost:
    with _store(folder, durability) as store:
        agent = _agent(store, work, _RUN_ID)
        with measured() as cost:
            await agent.run(PROMPT, usage_limits=NO_LIMIT)
    return cost


async def _recovered(store: SqliteStepStore, witness: Path) -> str:
    unresolved = await store.list_unresolved_tool_effects(run_id=_RUN_ID)
    messages = await continue_run(store, run_id=_RUN_ID)
    done = len(messages) // 2
    agent = _agent(store, script(CRASH_STEPS - done, first=done + 1), None, witness)
    await agent.run(message_history=messages)
    return (
        f"its ledger lists {len(unresolved)} call as started and leaves the decision to the caller; "
        "continue_run goes on from before that call, so it was performed again"
    )


def _first_step(folder: Path, steps: int) -> float:
    async def one_more() -> None:
        with _store(folder, "normal") as store:
            messages: list[ModelMessage] = await continue_run(store, run_id=_RUN_ID)
            await _agent(store, work, None).run(PROMPT, message_history=messages, usage_limits=NO_LIMIT)

    work = script(1, first=steps + 1)
    with measured() as cost:
        asyncio.run(one_more())
    return cost.wall_ms


def _state_half(folder: Path, steps: int) -> float:
    async def read() -> int:
        with _store(folder, "normal") as store:
            # Its store finds no snapshot by step: all of a run are read, then one is chosen.
            snapshots = await store.list_snapshots(run_id=_RUN_ID)
        return len(snapshots[steps // 2 - 1].messages)

    with measured() as cost:
        messages = asyncio.run(read())
    assert messages == 1 + steps, messages
    return cost.wall_ms


def _history(folder: Path, steps: int) -> float:
    async def read() -> int:
        with _store(folder, "normal") as store:
            return len(await store.list_events(run_id=_RUN_ID))

    with measured() as cost:
        events = asyncio.run(read())
    assert events >= 2 * steps
    return cost.wall_ms


PEER = Harness()
