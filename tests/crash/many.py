"""Thousands of real kills: ``python -m tests.crash.many --kills 5000``.

Every boundary of every recovery class in turn, and random moments after each round, until there were that many. It
stops at the first thing that does not hold, says which case it was, and leaves its store for you to look at.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from .killing import VERDICTS, grid, play, play_at_random
from .processes import Nursery

AT_RANDOM = 100
"""How many kills at random moments follow each round of the boundaries."""


def main() -> int:
    """Kill as often as was asked for; 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.many", description="Kill processes, many times.")
    parser.add_argument("--kills", type=int, default=5000, help="how many kills at the least (default: 5000)")
    parser.add_argument("--seed", type=int, default=None, help="what the order and the random moments come from")
    asked = parser.parse_args()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    folder = Path(tempfile.mkdtemp(prefix="forkpoint-kills-"))
    print(f"seed {seed}, stores in {folder}")
    nursery = Nursery()
    try:
        kills = kill_until(nursery, folder, asked.kills, random.Random(seed))
    except AssertionError as error:
        print(f"\n{error}\n{' '.join(getattr(error, '__notes__', ()))}\nthe store is in {folder}", file=sys.stderr)
        return 1
    finally:
        nursery.close()
    shutil.rmtree(folder)
    for (at, recovery), count in sorted(kills.items()):
        print(f"{count:6} {at}, {recovery}")
    print(f"{sum(kills.values()):6} kills; nothing was lost, doubled or guessed")
    return 0


def kill_until(nursery: Nursery, folder: Path, wanted: int, chance: random.Random) -> Counter[tuple[str, str]]:
    """Play every case, in a new order each round, until ``wanted`` kills were made; how often each was made."""
    kills: Counter[tuple[str, str]] = Counter()
    cases = grid()
    while sum(kills.values()) < wanted:
        chance.shuffle(cases)
        for case in cases:
            place = Path(tempfile.mkdtemp(dir=folder))
            kills.update(play(nursery, case, place, chance.choice(VERDICTS)))
            shutil.rmtree(place)
            _tell(kills, wanted)
        place = Path(tempfile.mkdtemp(dir=folder))
        play_at_random(nursery, place, chance, AT_RANDOM)
        kills["at random", "any"] += AT_RANDOM
        shutil.rmtree(place)
    return kills


def _tell(kills: Counter[tuple[str, str]], wanted: int) -> None:
    if sys.stdout.isatty():
        print(f"\r{sum(kills.values())} of {wanted}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
