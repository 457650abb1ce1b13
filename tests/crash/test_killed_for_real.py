"""Processes are killed by the kernel, at every boundary of every recovery class and at random moments.

The store is an SQLite file at durability ``normal``: what a process handed to the kernel outlives it either way, and
only a loss of power, which no signal can stand for, tells ``normal`` from ``full``.
"""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from forkpoint.effects import Recovery

from .clerk import ALL, Errand
from .killing import ONCE, VERDICTS, Scene, grid, play, play_at_random
from .processes import Nursery

LEAST = 6
"""How many kills each boundary of each class gets, at the least."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def test_killed_at_every_boundary_nothing_is_lost_doubled_or_guessed(nursery: Nursery, tmp_path: Path) -> None:
    kills: Counter[tuple[str, Recovery]] = Counter()
    for number, case in enumerate(grid()):
        folder = tmp_path / str(number)
        folder.mkdir()
        kills.update(play(nursery, case, folder, VERDICTS[number % len(VERDICTS)]))
    for boundary in ONCE:
        for recovery in Recovery:
            assert kills[boundary, recovery] >= LEAST, f"{kills[boundary, recovery]} kills {boundary} of {recovery}"
    assert sum(kills.values()) >= 200


def test_killed_at_random_moments_nothing_is_lost_doubled_or_guessed(nursery: Nursery, tmp_path: Path) -> None:
    play_at_random(nursery, tmp_path, random.Random(20), 40)


@pytest.mark.parametrize("name", ALL)
def test_control_c_leaves_a_run_that_recovers(nursery: Nursery, tmp_path: Path, name: str) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=ALL, hangs=name))
    process = scene.process()
    assert process.hear() == {"at": "hanging", "of": name}
    process.signal(signal.SIGINT)
    assert process.hear() == {"interrupted": True}
    assert process.end() == 0
    scene.finish("not_occurred")
