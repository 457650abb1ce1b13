"""Processes are killed by the kernel, at every boundary of every recovery class and at random moments.

The store is an SQLite file at durability ``normal``: what a process handed to the kernel outlives it either way, and
only a loss of power, which no signal can stand for, tells ``normal`` from ``full``.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from forkpoint.effects import Recovery

from .killing import ONCE, VERDICTS, grid, play, play_at_random
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
        try:
            kills.update(play(nursery, case, folder, VERDICTS[number % len(VERDICTS)]))
        except AssertionError as error:
            error.add_note(str(case))
            raise
    for boundary in ONCE:
        for recovery in Recovery:
            assert kills[boundary, recovery] >= LEAST, f"{kills[boundary, recovery]} kills {boundary} of {recovery}"
    assert sum(kills.values()) >= 200


def test_killed_at_random_moments_nothing_is_lost_doubled_or_guessed(nursery: Nursery, tmp_path: Path) -> None:
    play_at_random(nursery, tmp_path, random.Random(20), 40)
