"""What `python -m bench` can be asked for."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from bench.peers import DURABILITIES, LISTED, Durability

DEFAULT_STEPS = (10, 100, 1_000, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command line, checked."""

    peers: tuple[str, ...]
    steps: tuple[int, ...]
    durabilities: tuple[Durability, ...]
    repeat: int
    json: bool
    crash: bool
    unlimited: bool


def parsed(arguments: Sequence[str]) -> Asked:
    """Read the command line.

    Raises:
        SystemExit: an argument is not understood; argparse has said so on standard error.
    """
    names = [peer.name for peer in LISTED]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--peers", type=_names, default=tuple(names), help=f"of {','.join(names)}")
    add_common(parser, steps=DEFAULT_STEPS, repeat=3)
    parser.add_argument("--crash", action="store_true", help="kill each peer after a tool's effect, then recover")
    parser.add_argument("--unlimited", action="store_true", help="measure also what takes minutes")
    given = parser.parse_args(arguments)
    return Asked(
        peers=given.peers,
        steps=given.steps,
        durabilities=given.durability,
        repeat=given.repeat,
        json=given.json,
        crash=given.crash,
        unlimited=given.unlimited,
    )


def add_common(parser: argparse.ArgumentParser, *, steps: tuple[int, ...], repeat: int) -> None:
    """Add what every benchmark can be asked for; ``steps`` and ``repeat`` are for who does not ask."""
    told = ",".join(map(str, steps))
    parser.add_argument("--steps", type=_counts, default=steps, help=f"lengths of run ({told})")
    parser.add_argument("--durability", type=_durabilities, default=DURABILITIES, help="normal,full")
    parser.add_argument("--repeat", type=_count, default=repeat, help=f"the median of so many is shown ({repeat})")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON and nothing else")


def _names(text: str) -> tuple[str, ...]:
    return each_of(text, tuple(peer.name for peer in LISTED))


def _durabilities(text: str) -> tuple[str, ...]:
    return each_of(text, DURABILITIES)


def each_of(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names with commas between them.

    Raises:
        ArgumentTypeError: one of them is not known.
    """
    given = tuple(part.strip() for part in text.split(","))
    unknown = [part for part in given if part not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
    return given


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
