"""Whose loops `python -m bench.loops` measures: a framework alone, with its own durable options, and with ours.

The file of each holds `LOOPS`, objects of the protocol `Loop` by name. It imports its packages at the top: only the
child process that measures one of its loops ever imports it.
"""

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol

from bench.loops_clock import Clock
from bench.peers import Durability
from bench.script import Script

Role = Literal["alone", "floor", "theirs", "ours"]
"""A floor is what the framework's own way of being durable costs, with nothing behind it but rows in bare SQLite."""

Counted = Callable[[], int]
Perform = Callable[[Script, str, Clock], Counted | None]
"""Performs the agent's run of that name to its end; the tool tells the clock of every step.

A loop that keeps nothing gives what counts the bytes of the run's messages, as the framework itself would write them.
"""


class Loop(Protocol):
    """One framework with one way of being durable, or with none.

    `settings` says what is set in the database, in words. `opened` makes everything ready in `folder`, of which
    nothing is measured, and gives what performs a run.
    """

    settings: str

    def opened(self, *, durability: Durability, folder: Path) -> AbstractContextManager[Perform]:
        """The agent with its store open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A loop's name, its file, what it needs, and the longest run worth waiting for more than once."""

    family: str
    name: str
    role: Role
    module: str
    needs: tuple[str, ...] = ()
    adapter: str = ""
    once_from: int = 10_000
    why_once: str = ""

    def missing(self) -> str | None:
        """What is not there, in words; None when the loop can be measured."""
        absent = [name for name in self.needs if _installed(name) is None]
        if absent:
            return f"{', '.join(absent)} not installed"
        return f"{self.adapter} is not there" if self.adapter and find_spec(self.adapter) is None else None

    @property
    def label(self) -> str:
        """The family and the name as one word."""
        return f"{self.family}/{self.name}"

    def versions(self) -> str:
        """The installed versions of what the loop needs."""
        return ", ".join(f"{name} {_installed(name)}" for name in self.needs)

    def load(self) -> Loop:
        """Import the loop's file; meant for a child process."""
        loop: Loop = importlib.import_module(self.module).LOOPS[self.label]
        return loop


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


PYDANTIC_AI = "pydantic-ai"
LANGGRAPH = "langgraph"
LANGGRAPH_ASYNC = "langgraph-async"
LANGGRAPH_DELTA = "langgraph-delta"
FAMILIES = (PYDANTIC_AI, LANGGRAPH, LANGGRAPH_ASYNC, LANGGRAPH_DELTA)

_GRAPH = ("langgraph", "langchain")
_PEERS = "bench.peers"


def _pydantic_ai() -> tuple[Variant, ...]:
    slim = "pydantic-ai-slim"
    ours = "forkpoint.adapters.pydantic_ai"
    return (
        Variant(family=PYDANTIC_AI, name="alone", role="alone", module=f"{_PEERS}.pydantic_ai_loop", needs=(slim,)),
        Variant(
            family=PYDANTIC_AI, name="floor", role="floor", module=f"{_PEERS}.pydantic_ai_floor_loop", needs=(slim,)
        ),
        Variant(
            family=PYDANTIC_AI,
            name="dbos",
            role="theirs",
            module=f"{_PEERS}.pydantic_ai_dbos_loop",
            needs=(slim, "dbos"),
        ),
        Variant(
            family=PYDANTIC_AI,
            name="harness",
            role="theirs",
            module=f"{_PEERS}.pydantic_ai_harness_loop",
            needs=(slim, "pydantic-ai-harness"),
            once_from=1_000,
            why_once="its snapshots grow with the run: minutes",
        ),
        Variant(
            family=PYDANTIC_AI,
            name="forkpoint",
            role="ours",
            module=f"{_PEERS}.pydantic_ai_forkpoint_loop",
            needs=(slim, "forkpoint"),
            adapter=ours,
        ),
    )


def _langgraph(family: str) -> tuple[Variant, ...]:
    module = f"{_PEERS}.langgraph_loop"
    saver = (*_GRAPH, "langgraph-checkpoint-sqlite")
    return (
        Variant(family=family, name="alone", role="alone", module=module, needs=_GRAPH),
        Variant(family=family, name="floor", role="floor", module=f"{_PEERS}.langgraph_floor_loop", needs=_GRAPH),
        Variant(family=family, name="sqlite", role="theirs", module=f"{_PEERS}.langgraph_sqlite_loop", needs=saver),
        _langgraph_ours(family, "forkpoint", "langgraph_forkpoint_loop", "langgraph_saver"),
    )


def _langgraph_ours(family: str, name: str, file: str, adapter: str) -> Variant:
    return Variant(
        family=family,
        name=name,
        role="ours",
        module=f"{_PEERS}.{file}",
        needs=(*_GRAPH, "forkpoint"),
        adapter=f"forkpoint.adapters.{adapter}",
    )


VARIANTS: tuple[Variant, ...] = (
    *_pydantic_ai(),
    *(variant for family in FAMILIES[1:] for variant in _langgraph(family)),
    Variant(
        family=LANGGRAPH_ASYNC,
        name="floor-recorded",
        role="floor",
        module=f"{_PEERS}.langgraph_recorded_floor_loop",
        needs=_GRAPH,
    ),
    _langgraph_ours(LANGGRAPH_ASYNC, "recorded", "langgraph_recorded_loop", "langgraph_middleware"),
)


def variant_of(family: str, name: str) -> Variant:
    """The variant of that family and name.

    Raises:
        KeyError: there is none.
    """
    return {(one.family, one.name): one for one in VARIANTS}[family, name]
