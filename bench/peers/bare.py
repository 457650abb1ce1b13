"""The limit: the standard library's `sqlite3`, two inserts and two commits a step, and nothing else."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS, effect
from bench.peers import SYNCHRONOUS, Durability, Figure
from bench.script import Script, ScriptedStep, compact, script

_INSERT = "INSERT INTO messages (seq, kind, body) VALUES (?, ?, ?)"


class Bare:
    """Rows in one table; the loop around them is ours and does nothing that a row does not need."""

    durability_set_by = "PRAGMA synchronous on its one connection, WAL"

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {
            "first_step_ms": _first_step,
            "state_half_ms": _state_half,
            "history_ms": _history,
        }

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        work = script(steps)
        with closing(_connected(folder, durability)) as connection:
            with measured() as cost:
                _loop(connection, work)
            return cost

    def prepare(self, *, steps: int, folder: Path) -> None:
        self.run(steps=steps, durability="normal", folder=folder)

    def crash(self, *, folder: Path, witness: Path) -> None:
        with closing(_connected(folder, "full")) as connection:
            for step in script(CRASH_STEPS):
                _ask(connection, step)
                effect(step.number, witness)
                _answer(connection, step)

    def recover(self, *, folder: Path, witness: Path) -> str:
        with closing(_connected(folder, "full")) as connection:
            rows = connection.execute("SELECT count(*) FROM messages").fetchone()[0]
            for step in script(CRASH_STEPS)[rows // 2 :]:
                if rows % 2 == 0 or step.number > rows // 2 + 1:
                    _ask(connection, step)
                effect(step.number, witness)
                _answer(connection, step)
        return "nothing: an open call looks like one that never started, so the loop performed it again"


def _connected(folder: Path, durability: Durability) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS messages (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL)"
    )
    return connection


def _loop(connection: sqlite3.Connection, work: Script) -> None:
    for step in work:
        _ask(connection, step)
        _answer(connection, step)


def _ask(connection: sqlite3.Connection, step: ScriptedStep) -> None:
    connection.execute(_INSERT, (2 * step.number - 1, "assistant", compact(step.assistant())))


def _answer(connection: sqlite3.Connection, step: ScriptedStep) -> None:
    connection.execute(_INSERT, (2 * step.number, "tool", step.result))


def _first_step(folder: Path, steps: int) -> float:
    with measured() as cost, closing(_connected(folder, "normal")) as connection:
        messages = _messages(connection, 1 << 62)
        (step,) = script(1, first=len(messages) // 2 + 1)
        _ask(connection, step)
        _answer(connection, step)
    return cost.wall_ms


def _state_half(folder: Path, steps: int) -> float:
    with measured() as cost, closing(_connected(folder, "normal")) as connection:
        messages = _messages(connection, steps)
    assert len(messages) == steps
    return cost.wall_ms


def _history(folder: Path, steps: int) -> float:
    with measured() as cost, closing(_connected(folder, "normal")) as connection:
        rows = connection.execute("SELECT seq, kind, length(body) FROM messages ORDER BY seq").fetchall()
    assert len(rows) >= 2 * steps
    return cost.wall_ms


def _messages(connection: sqlite3.Connection, to: int) -> list[object]:
    rows = connection.execute("SELECT kind, body FROM messages WHERE seq <= ? ORDER BY seq", (to,))
    return [json.loads(body) if kind == "assistant" else body for kind, body in rows]


PEER = Bare()
