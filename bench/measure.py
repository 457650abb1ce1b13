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

_LONG_S = 6.0  # What takes longer is not repeated, and not run at FULL: its own length evens it out.
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
        measuring = _Measuring(peer, asked, tell, notes)
        rows += measuring.rows()
    return Measured(rows=tuple(rows), notes=tuple(notes))


class _Measuring:
    """The measurements of one peer: what fails or is left out becomes a note, and the rest goes on."""

    def __init__(self, peer: Listed, asked: Asked, tell: Tell, notes: list[str]) -> None:
        self._peer = peer
        self._asked = asked
        self._tell = tell
        self._notes = notes
        self._long: set[int] = set()

    def rows(self) -> list[Row]:
        """Every asked row of the peer that could be measured, with its further figures."""
        wanted = [(durability, steps) for durability in self._asked.durabilities for steps in self._asked.steps]
        found = [self._loop(durability, steps) for durability, steps in wanted if self._worth(durability, steps)]
        return [self._with_figures(row) for row in found if row is not None]

    def _worth(self, durability: Durability, steps: int) -> bool:
        if self._asked.unlimited:
            return True
        if steps > self._peer.largest:
            self._note(f"not run at {steps:,} steps without --unlimited: {self._peer.why_largest}")
            return False
        if durability == "full" and steps in self._long:
            self._note(f"not run at {steps:,} steps at FULL without --unlimited: NORMAL took over {_LONG_S:.0f} s")
            return False
        return True

    def _loop(self, durability: Durability, steps: int) -> Row | None:
        self._tell(f"{self._peer.name}, {durability}, {steps} steps")
        answers: list[dict[str, Any]] = []
        try:
            while not answers or (len(answers) < self._asked.repeat and steps not in self._long):
                with _folder() as folder:
                    answers.append(ask(self._peer, "run", folder, steps=steps, durability=durability))
                if answers[-1]["wall_us_step"] * steps > _LONG_S * 1e6:
                    self._long.add(steps)
        except ChildFailedError as error:
            self._note(f"{durability}, {steps:,} steps: {error}")
            return None
        self._note(f"{self._peer.versions() or 'standard library'}; {answers[0]['durability_set_by']}")
        return Row(
            peer=self._peer.name,
            durability=durability,
            steps=steps,
            cpu_us_step=middle(answer["cpu_us_step"] for answer in answers),
            wall_us_step=middle(answer["wall_us_step"] for answer in answers),
            payload_bytes=PAYLOAD_BYTES_STEP * steps,
            db_bytes=answers[0]["db_bytes"],
        )

    def _with_figures(self, row: Row) -> Row:
        keys = [key for key, at in FIGURE_AT.items() if (row.durability, row.steps) in at]
        if not keys:
            return row
        try:
            with _folder() as folder:
                had = ask(self._peer, "figures", folder)["figures"]
                return self._measured_figures(row, [key for key in keys if key in had], folder)
        except ChildFailedError as error:
            self._note(f"no figures of a run of {row.steps:,} steps: {error}")
            return row

    def _measured_figures(self, row: Row, keys: list[str], folder: str) -> Row:
        if not keys:
            return row
        self._tell(f"{self._peer.name}, {', '.join(keys)} on a run of {row.steps} steps")
        ask(self._peer, "prepare", folder, steps=row.steps)
        keys.sort(key=lambda key: key not in READING_KEYS)
        values = {key: self._figure(key, folder, row.steps) for key in keys}
        return replace(row, extra={key: value for key, value in values.items() if value is not None})

    def _figure(self, key: str, folder: str, steps: int) -> float | None:
        values: list[float] = []
        started = time.monotonic()
        try:
            while len(values) < self._asked.repeat and time.monotonic() - started < _LONG_S:
                values.append(ask(self._peer, "figure", folder, key=key, steps=steps)["value"])
        except ChildFailedError as error:
            self._note(f"{key} at {steps:,} steps: {error}")
            return None
        return middle(values)

    def _note(self, text: str) -> None:
        note = f"{self._peer.name}: {text}"
        if note not in self._notes:
            self._notes.append(note)


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="forkpoint-bench-")


def ask(peer: Listed, verb: str, folder: str, *, killed: bool = False, **more: object) -> dict[str, Any]:
    """Have a fresh process do one thing for `peer`, and return its answer.

    With `killed`, the process is meant to die by SIGKILL, and the answer is empty.

    Raises:
        ChildFailedError: the process ended otherwise than it should, or took longer than 15 minutes.
    """
    request = {"verb": verb, "peer": peer.name, "folder": folder, **more}
    with _folder() as aside:
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
