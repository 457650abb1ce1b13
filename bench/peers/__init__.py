"""The peers that can be measured, each in one file of this folder.

A peer's file holds `PEER`, an object of the protocol `Peer`. It imports its packages at the top: only
the child process that measures it ever imports it. What must be known without importing it (its name,
which distributions it needs, how large a run it can do) stands in `LISTED`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Protocol, get_args

from bench.cost import Cost

Durability = Literal["normal", "full"]
DURABILITIES: tuple[Durability, ...] = get_args(Durability)
SYNCHRONOUS: dict[Durability, int] = {"normal": 1, "full": 2}

Figure = Callable[[Path, int], float]


class Peer(Protocol):
    """One way of making an agent loop durable.

    `durability_set_by` says how `PRAGMA synchronous` was given to it. `figures` holds the further figures it can
    give, by key (`bench.rows.FIGURE_AT`): each is called in a new process with a folder in which `prepare` left a
    run and that run's steps, measures from after the imports, and returns the figure in the unit its key names.
    """

    durability_set_by: str
    figures: dict[str, Figure]

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        """Do `steps` steps in a new database in `folder`; the cost is that of the loop alone."""

    def prepare(self, *, steps: int, folder: Path) -> None:
        """Leave a run of `steps` steps in `folder`, at NORMAL, that a later process can carry on."""

    def crash(self, *, folder: Path, witness: Path) -> None:
        """Run an agent whose tool call dies with the process after its effect (`bench.effect.effect`)."""

    def recover(self, *, folder: Path, witness: Path) -> str:
        """Carry the crashed run on by the peer's own means; what it says about the lost call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A peer's name, its file, the distributions it needs, and the largest run worth waiting for."""

    name: str
    module: str
    needs: tuple[str, ...] = ()
    largest: int = 10_000
    why_largest: str = ""

    def missing(self) -> str | None:
        """What is not installed, in words; None when the peer can be measured."""
        absent = [name for name in self.needs if _installed(name) is None]
        return f"{', '.join(absent)} not installed" if absent else None

    def versions(self) -> str:
        """The installed versions of what the peer needs, for the table's notes."""
        return ", ".join(f"{name} {_installed(name)}" for name in self.needs)

    def load(self) -> Peer:
        """Import the peer's file; meant for a child process."""
        peer: Peer = importlib.import_module(self.module).PEER
        return peer


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


OURS = "forkpoint"
BASELINE = "sqlite3"

_LANGGRAPH = ("langgraph", "langgraph-checkpoint-sqlite")

LISTED: tuple[Listed, ...] = (
    Listed(name=BASELINE, module="bench.peers.bare"),
    Listed(name=OURS, module="bench.peers.forkpoint", needs=("forkpoint",)),
    Listed(
        name="langgraph-snapshots",
        module="bench.peers.langgraph_snapshots",
        needs=_LANGGRAPH,
        largest=1_000,
        why_largest="every checkpoint holds all messages, so bytes and CPU grow with the square of the steps",
    ),
    Listed(name="langgraph-delta", module="bench.peers.langgraph_delta", needs=_LANGGRAPH),
    Listed(
        name="langgraph-functional",
        module="bench.peers.langgraph_functional",
        needs=_LANGGRAPH,
        largest=1_000,
        why_largest="all its recorded tasks hang on one checkpoint: 7 ms a step at 10,000, over a minute",
    ),
    Listed(name="dbos", module="bench.peers.dbos_steps", needs=("dbos",)),
    Listed(
        name="pydantic-ai-dbos",
        module="bench.peers.pydantic_ai_dbos",
        needs=("pydantic-ai-slim", "dbos"),
        largest=100,
        why_largest="Pydantic AI's own loop costs more at every step: 18 ms at 1,000, and 22 s to recover there",
    ),
    Listed(
        name="pydantic-ai-durable",
        module="bench.peers.pydantic_ai_durable",
        needs=("pydantic-ai-durable",),
        largest=100,
        why_largest="it reads the whole history again at every turn, and a turn holds at most 49 steps: 19 ms at 1,000",
    ),
    Listed(
        name="pydantic-ai-harness",
        module="bench.peers.pydantic_ai_harness",
        needs=("pydantic-ai-harness",),
        largest=100,
        why_largest="a snapshot a step grows with the run: 190 ms a step at 1,000, over three minutes",
    ),
)


def listed(name: str) -> Listed:
    """The listed peer of that name.

    Raises:
        KeyError: no peer is listed under `name`.
    """
    return {peer.name: peer for peer in LISTED}[name]
