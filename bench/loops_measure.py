"""Measure what was asked of `bench.loops`: every run in a process of its own, all loops of a family in turn."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.loops_clock import Stretch
from bench.loops_listed import Variant
from bench.loops_rows import LoopRow, Round
from bench.measure import ROOT, ChildFailedError
from bench.peers import Durability

_LIMIT_S = 1_800.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be measured."""

    variants: Sequence[Variant]
    steps: Sequence[int]
    durabilities: Sequence[Durability]
    rounds: int


@dataclass(slots=True)
class Found:
    """All rows, and notes on what was left out or failed, and what is set where."""

    rows: list[LoopRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note(self, variant: Variant, text: str) -> None:
        """Say something of a loop, once."""
        said = f"{variant.label}: {text}"
        if said not in self.notes:
            self.notes.append(said)


def measure(wanted: Wanted, tell: Tell) -> Found:
    """Measure every loop that is there; `tell` is given a line before each run."""
    found = Found()
    for variant in wanted.variants:
        if missing := variant.missing():
            found.note(variant, f"left out, {missing}")
    there = [variant for variant in wanted.variants if variant.missing() is None]
    for family in dict.fromkeys(variant.family for variant in there):
        beside = [variant for variant in there if variant.family == family]
        for durability in wanted.durabilities:
            for steps in wanted.steps:
                _in_turn(beside, durability, steps, wanted.rounds, found, tell)
    return found


def _in_turn(
    variants: Sequence[Variant], durability: Durability, steps: int, rounds: int, found: Found, tell: Tell
) -> None:
    """All rounds of one family's loops; every other round in the other order, so that a drift counts for both sides."""
    answers: dict[str, list[dict[str, Any]]] = {variant.label: [] for variant in variants}
    for number in range(rounds):
        for variant in variants if number % 2 == 0 else reversed(variants):
            if number > 0 and (steps >= variant.once_from or not answers[variant.label]):
                continue
            tell(f"{variant.label}, {durability}, {steps} steps, round {number + 1} of {rounds}")
            try:
                answers[variant.label].append(ask(variant, durability=durability, steps=steps))
            except ChildFailedError as error:
                found.note(variant, f"{durability}, {steps:,} steps: {error}")
    for variant in variants:
        if answers[variant.label]:
            found.rows.append(_row(variant, durability, steps, answers[variant.label]))
            found.note(variant, f"{variant.versions()}; {answers[variant.label][-1]['settings']}")
            if steps >= variant.once_from and rounds > 1:
                found.note(variant, f"one round at {steps:,} steps: {variant.why_once}")


def _row(variant: Variant, durability: Durability, steps: int, answers: Sequence[dict[str, Any]]) -> LoopRow:
    parts = ("whole", "first", "last")
    return LoopRow(
        family=variant.family,
        name=variant.name,
        role=variant.role,
        durability=durability,
        steps=steps,
        rounds=tuple(Round(**{part: Stretch(**answer[part]) for part in parts}) for answer in answers),
        stored=answers[-1]["bytes"],
    )


def ask(variant: Variant, *, durability: Durability, steps: int) -> dict[str, Any]:
    """Have a fresh process perform one run, and return what it cost.

    Raises:
        ChildFailedError: the process ended otherwise than it should, or took longer than half an hour.
    """
    with tempfile.TemporaryDirectory(prefix="forkpoint-bench-") as place:
        folder, answer = Path(place) / "store", Path(place) / "answer.json"
        folder.mkdir()
        request = {"family": variant.family, "name": variant.name, "durability": durability, "steps": steps}
        told = json.dumps(request | {"folder": str(folder)})
        command = [sys.executable, "-m", "bench.loops_child", str(answer), told]
        try:
            child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise ChildFailedError(f"it took longer than {_LIMIT_S:.0f} s") from None
        if child.returncode != 0:
            lines = child.stderr.strip().splitlines()
            raise ChildFailedError(f"it ended with {child.returncode}: {lines[-1] if lines else 'it said nothing'}")
        found: dict[str, Any] = json.loads(answer.read_text())
        return found
