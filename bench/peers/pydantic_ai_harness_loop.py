"""The agent of `pydantic_ai_loop` with the step persistence of Pydantic AI's harness, on its SQLite store."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic_ai_harness import StepPersistence
from pydantic_ai_harness.step_persistence import SqliteStepStore

from bench.loops_clock import Clock
from bench.loops_listed import Loop, Perform
from bench.peers import SYNCHRONOUS, Durability
from bench.peers.pydantic_ai_loop import NO_LIMIT, Stage, agent_on
from bench.script import PROMPT, Script


class Harness:
    """Events, a ledger of tool effects, and a snapshot of the messages at every settled step."""

    settings = "WAL and synchronous set on the connection given to it; by itself: WAL, FULL, a connection a call"

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        database = folder / "harness.db"
        with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
            store, stage = SqliteStepStore(connection=connection), Stage()
            with asyncio.Runner() as runner:

                def perform(work: Script, run_id: str, clock: Clock) -> None:
                    agent = agent_on(stage, [StepPersistence(store=store, run_id=run_id)])
                    stage.play(work, clock)
                    runner.run(agent.run(PROMPT, usage_limits=NO_LIMIT))

                yield perform


LOOPS: dict[str, Loop] = {"pydantic-ai/harness": Harness()}
