"""The graph of `langgraph_loop` with LangGraph's own savers on SQLite."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from bench.peers import SYNCHRONOUS, Durability
from bench.peers.langgraph_loop import loops

SETTINGS = 'WAL and synchronous set on the connection given to it; by itself: WAL, FULL; durability="sync"'


@contextmanager
def saver(*, folder: Path, durability: Durability, runner: asyncio.Runner) -> Iterator[SqliteSaver]:
    """A SqliteSaver on a connection of ours, which is how its documentation gives it settings."""
    with closing(sqlite3.connect(folder / "langgraph.db", check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        yield SqliteSaver(connection)


@contextmanager
def saver_async(*, folder: Path, durability: Durability, runner: asyncio.Runner) -> Iterator[AsyncSqliteSaver]:
    """The same on aiosqlite, on the runner's event loop."""

    async def opened() -> tuple[aiosqlite.Connection, AsyncSqliteSaver]:
        connection = await aiosqlite.connect(folder / "langgraph.db")
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        return connection, AsyncSqliteSaver(connection)

    connection, made = runner.run(opened())
    yield made
    runner.run(connection.close())


LOOPS = loops("sqlite", SETTINGS, saver, saver_async)
