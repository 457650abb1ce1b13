"""What a clause is given: a store, and additions to put into it."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from forkpoint.errors._base import ForkpointError
from forkpoint.ports import MARK_BYTES, Append, Commit, Journal, RunSummary

E = TypeVar("E", bound=ForkpointError)


@dataclass(frozen=True, kw_only=True)
class StoreUnderTest:
    """One empty store. ``open`` gives a handle as a process of its own would have; ``kill`` lets a handle go
    as a killed process does: what it leased stays leased, and its owners are known to be dead."""

    open: Callable[[], Journal]
    kill: Callable[[Any], Awaitable[None]]


Clause: TypeAlias = Callable[[StoreUnderTest], Awaitable[None]]


def name(clause: Clause) -> str:
    """What a clause promises, as its name says it."""
    return getattr(clause, "__name__", repr(clause))


def digest_of(run: str, seq: int) -> bytes:
    """A digest for event ``seq`` of ``run``, as good as any to a store."""
    return hashlib.sha256(f"{run}@{seq}".encode()).digest()


def summary_of(**values: Any) -> RunSummary:
    """A run's summary, of a running agent unless ``values`` says otherwise."""
    return RunSummary(**{"status": "running", "agent": "tester"} | values)


def addition(run: str, after: int, count: int = 1, **values: Any) -> Append:
    """``count`` events for ``run`` after event ``after``, with the digests that ``digest_of`` gives.

    ``body``, ``step``, ``turn``, ``at_ms`` and ``kind`` shape the commit; the rest goes to ``Append`` as it is.
    """
    marks = [digest_of(run, seq) for seq in range(after + 1, after + count + 1)]
    commit = Commit(
        first=after + 1,
        at_ms=values.pop("at_ms", 1_000 + after),
        kinds=bytes([values.pop("kind", 2)]) * count,
        marks=b"".join(mark[:MARK_BYTES] for mark in marks[:-1]) + marks[-1],
        body=values.pop("body", f"{run} after {after}".encode()),
        step=values.pop("step", 0),
        turn=values.pop("turn", 1),
    )
    values.setdefault("before", digest_of(run, after) if after else b"")
    values.setdefault("summary", summary_of())
    return Append(run=run, after=after, commit=commit, **values)


def birth(run: str, count: int = 1, **values: Any) -> Append:
    """The first ``count`` events of a run that has no parent."""
    return addition(run, 0, count, born=True, **values)


def fork(run: str, parent: str, at: int, **values: Any) -> Append:
    """The first own event of a fork of ``parent`` at ``at``."""
    return addition(run, at, born=True, parent=parent, before=digest_of(parent, at), **values)


@asynccontextmanager
async def handles(store: StoreUnderTest, count: int = 1) -> AsyncIterator[Sequence[Journal]]:
    """``count`` handles on the store, closed in the end."""
    opened = [store.open() for _ in range(count)]
    try:
        yield opened
    finally:
        for handle in opened:
            await handle.close()


async def expect(kind: type[E], asked: Awaitable[object]) -> E:
    """The error of ``kind`` that ``asked`` ends in."""
    try:
        await asked
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.code}, but it was done")


async def heads(journal: Journal, run: str) -> list[int]:
    """The last event of each of the run's commits."""
    return [commit.last for commit in await journal.commits(run)]


async def grown(journal: Journal, run: str, *counts: int) -> int:
    """A new run of commits with ``counts`` events; its head."""
    head = 0
    for count in counts:
        await journal.append(addition(run, head, count, born=head == 0))
        head += count
    return head
