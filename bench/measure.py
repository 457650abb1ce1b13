"""Measure what was asked, each measurement in a fresh child process, and gather rows and notes."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.arguments import Asked
from bench.peers import Durability, Listed, listed
from bench.rows import FIGURE_AT, READING_KEYS, Row, middle
from bench.script import PAYLOAD_BYTES_STEP

ROOT = Path(__file__).parent.parent

_LONG_S = 8.0  # A run that takes longer is not repeated: its own length evens it out.
_LIMIT_S = 900.0

Tell = Callable[[str], None]


class ChildFailedError(Exception):
    """A child process ended without its answer; the text is the last line it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All rows, and notes on what was left out, capped or failed, and how durability was set."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def measure(asked: Asked, tell: Tell) -> Measured:
    """Measure every asked peer that is installed; `tell` is given a line before each measurement."""
    rows: list[Row] = []
    notes: list[str] = []
    for peer in (listed(name) for name in asked.peers):
        if missing := peer.missing():
            notes.append(f"{peer.name}: left out, {missing}")
            continue
        try:
            rows += _peer_rows(peer, asked, tell, notes)
        except ChildFailedError as error:
            notes.append(f"{peer.name}: failed, {error}")
    return Measured(rows=tuple(rows), notes=tuple(notes))


def _peer_rows(peer: Listed, asked: Asked, tell: Tell, notes: list[str]) -> list[Row]:
    rows: list[Row] = []
    capped = [steps for steps in asked.steps if steps > peer.largest and not asked.unlimited]
    if capped:
        notes.append(f"{peer.name}: not run at {', '.join(map(str, capped))} steps: {peer.why_largest}")
    for durability in asked.durabilities:
        for steps in asked.steps:
            if steps not in capped:
                tell(f"{peer.name}, {durability}, {steps} steps")
                row, set_by = _loop_row(peer, durability, steps, asked.repeat)
                rows.append(row)
    notes.extend([f"{peer.name}: {peer.versions() or 'standard library'}; {set_by}"] if rows else [])
    return _with_figures(rows, peer, asked, tell)


def _loop_row(peer: Listed, durability: Durability, steps: int, repeat: int) -> tuple[Row, str]:
    answers: list[dict[str, Any]] = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="forkpoint-bench-") as folder:
            answers.append(ask(peer, "run", folder, steps=steps, durability=durability))
        if answers[-1]["wall_us_step"] * steps > _LONG_S * 1e6:
            break
    row = Row(
        peer=peer.name,
        durability=durability,
        steps=steps,
        cpu_us_step=middle(answer["cpu_us_step"] for answer in answers),
        wall_us_step=middle(answer["wall_us_step"] for answer in answers),
        payload_bytes=PAYLOAD_BYTES_STEP * steps,
        db_bytes=answers[0]["db_bytes"],
    )
    return row, answers[0]["durability_set_by"]


def _with_figures(rows: list[Row], peer: Listed, asked: Asked, tell: Tell) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="forkpoint-bench-") as folder:
        had = ask(peer, "figures", folder)["figures"]
    return [_with_row_figures(row, peer, had, asked.repeat, tell) for row in rows]


def _with_row_figures(row: Row, peer: Listed, had: list[str], repeat: int, tell: Tell) -> Row:
    keys = [key for key, at in FIGURE_AT.items() if key in had and (row.durability, row.steps) in at]
    if not keys:
        return row
    tell(f"{peer.name}, {', '.join(keys)} on a run of {row.steps} steps")
    with tempfile.TemporaryDirectory(prefix="forkpoint-bench-") as folder:
        ask(peer, "prepare", folder, steps=row.steps)
        keys.sort(key=lambda key: key not in READING_KEYS)
        return replace(row, extra={key: _figure(peer, key, folder, row.steps, repeat) for key in keys})


def _figure(peer: Listed, key: str, folder: str, steps: int, repeat: int) -> float:
    values: list[float] = []
    for _ in range(repeat):
        started = time.monotonic()
        values.append(ask(peer, "figure", folder, key=key, steps=steps)["value"])
        if time.monotonic() - started > _LONG_S:
            break
    return middle(values)


def ask(peer: Listed, verb: str, folder: str, *, killed: bool = False, **more: object) -> dict[str, Any]:
    """Have a fresh process do one thing for `peer`, and return its answer.

    With `killed`, the process is meant to die by SIGKILL, and the answer is empty.

    Raises:
        ChildFailedError: the process ended otherwise than it should, or took longer than 15 minutes.
    """
    request = {"verb": verb, "peer": peer.name, "folder": folder, **more}
    with tempfile.TemporaryDirectory(prefix="forkpoint-bench-") as aside:
        answer = Path(aside) / "answer.json"
        command = [sys.executable, "-m", "bench.child", str(answer), json.dumps(request)]
        try:
            child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise ChildFailedError(f"{verb} took longer than {_LIMIT_S:.0f} s") from None
        if killed and child.returncode == -signal.SIGKILL:
            return {}
        if killed or child.returncode != 0:
            raise ChildFailedError(f"{verb} ended with {child.returncode}: {_last_line(child.stderr)}")
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
