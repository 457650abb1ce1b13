"""What is kept and what goes: whole runs are removed, only on command, and never what a fork still shares.

1. Removing a run takes its row, its events, its checkpoints and its place in lists. If it has forks, its events up
   to the last fork point stay, unlisted, and its id stays taken, until the last of those forks is removed too.
2. Blobs and room in the file are given back by ``collect``, which ``prune`` does in the end.
3. Never removed by age: a run that somebody performs, and one with an effect of which nobody knows whether it
   happened. What was done to the outside world is known from nowhere else.
"""

from collections.abc import Sequence

from msgspec import Struct

from forkpoint.aside import refs
from forkpoint.codec import decode_event
from forkpoint.errors import EventUnknown, EventUnreadable, ForkpointError, PruneNoChoice, PruneNotConfirmed, RunBusy
from forkpoint.ports import Commit, RunFilter, RunRow
from forkpoint.runtime.cell import Edge
from forkpoint.state import RunState

_NAMED = 5
"""How many runs an error names."""


class Removed(Struct, frozen=True, kw_only=True):
    """A run that was removed, or would be: how many of its own events go, and the bytes they are stored in.

    ``kept_upto`` is its last event that stays because forks share it, 0 if none do. ``blob_bytes`` is the size of
    the blobs that these events refer to; those that other runs hold as well stay. ``ancestors`` are the runs that it
    was a fork of, nearest first: one that was kept only for this one goes with it.
    """

    run: str
    events: int
    bytes: int
    blob_bytes: int
    kept_upto: int = 0
    ancestors: tuple[str, ...] = ()


class Kept(Struct, frozen=True, kw_only=True):
    """A run that is old enough and stays all the same, and why."""

    run: str
    why: str


class Pruned(Struct, frozen=True, kw_only=True):
    """What pruning removed, or would remove if this was a dry run. ``freed_bytes`` is what the store shrank by."""

    removed: tuple[Removed, ...] = ()
    kept: tuple[Kept, ...] = ()
    freed_bytes: int = 0
    dry_run: bool = False


async def remove(edge: Edge, run: str) -> Removed:
    """Remove one run. Raises ``run.not-found``, or ``run.busy`` while somebody performs it."""
    row = await edge.reader.row(run)
    check_free(edge, row)
    removed = await _weigh(edge, row)
    await edge.journal.delete(run)
    return removed


async def prune(
    edge: Edge, *, older_than_s: float | None, runs: Sequence[str] | None, dry_run: bool, confirm: bool
) -> Pruned:
    """See ``Runtime.prune``."""
    if older_than_s is None and runs is None:
        raise PruneNoChoice()
    rows, kept = await _chosen(edge, older_than_s, runs or ())
    if dry_run:
        return Pruned(removed=tuple([await _weigh(edge, row) for row in rows]), kept=kept, dry_run=True)
    if rows and not confirm:
        names = ", ".join(row.run for row in rows[:_NAMED]) + (", …" if len(rows) > _NAMED else "")
        raise PruneNotConfirmed(count=len(rows), names=names)
    removed = []
    for row in rows:
        removed.append(await _weigh(edge, row))
        await edge.journal.delete(row.run)
    return Pruned(removed=tuple(removed), kept=kept, freed_bytes=await edge.journal.collect())


async def _chosen(
    edge: Edge, older_than_s: float | None, named: Sequence[str]
) -> tuple[list[RunRow], tuple[Kept, ...]]:
    """The runs to remove, newest first so that forks go before what they share, and those that stay."""
    chosen = {name: await edge.reader.row(name) for name in named}
    for row in chosen.values():
        check_free(edge, row)
    kept: list[Kept] = []
    if older_than_s is not None:
        before_ms = edge.clock.now_ms() - int(older_than_s * 1000)
        async for row in edge.reader.rows(RunFilter()):
            if row.updated_at_ms <= before_ms and row.run not in chosen:
                why = await _reason_to_stay(edge, row)
                if why is None:
                    chosen[row.run] = row
                else:
                    kept.append(Kept(run=row.run, why=why))
    return sorted(chosen.values(), key=lambda row: (-row.started_at_ms, row.run)), tuple(kept)


async def _reason_to_stay(edge: Edge, row: RunRow) -> str | None:
    if is_performed(edge, row):
        return f"{row.owner} is performing it"
    try:
        state = (await edge.reader.load(row.run)).state
    except ForkpointError as error:
        return f"it cannot be read ({error.code}), so that nobody knows what it left open"
    effect = _unknown(state)
    return None if effect is None else f"nobody knows what came of its effect {effect}"


def _unknown(state: RunState) -> int | None:
    """An effect of which nobody knows whether it happened: told so, lost in flight, or found to be both."""
    for key, opened in state.effects.items():
        if opened.phase in ("unknown", "dispatched", "probe"):
            return key
    return next((key for key, doubt in state.doubts.items() if doubt.contradiction is not None), None)


async def _weigh(edge: Edge, row: RunRow) -> Removed:
    """What removing the run takes away, as it stands now."""
    children = await edge.journal.children(row.run)
    point = max((child.at for child in children), default=0)
    kept_upto = row.at if point <= row.at else 0
    events = size = 0
    blobs: dict[str, int] = {}
    async for page in edge.reader.pages(row.run, after=row.at, upto=row.head):
        for commit in page:
            if commit.first <= point:
                kept_upto = commit.last
                continue
            events += len(commit.kinds)
            size += len(commit.body) + len(commit.kinds) + len(commit.marks)
            blobs |= _blob_sizes(edge, row.run, commit)
    kept = kept_upto if children else 0
    return Removed(
        run=row.run,
        events=events,
        bytes=size,
        blob_bytes=sum(blobs.values()),
        kept_upto=kept,
        ancestors=await _ancestors(edge, row),
    )


async def _ancestors(edge: Edge, row: RunRow) -> tuple[str, ...]:
    found: list[str] = []
    parent = row.parent
    while parent is not None and parent not in found:
        found.append(parent)
        above = await edge.journal.row(parent)
        parent = above.parent if above is not None else None
    return tuple(found)


def _blob_sizes(edge: Edge, run: str, commit: Commit) -> dict[str, int]:
    """The blobs that a commit's events refer to; those of an event that cannot be read are not known."""
    found: dict[str, int] = {}
    try:
        for seq, line in enumerate(edge.reader.lines(commit, run), commit.first):
            event = decode_event(line, run=run, seq=seq)
            found.update({digest: ref.size for digest, ref in refs(event).items()})
    except (EventUnknown, EventUnreadable):
        return found
    return found


def is_performed(edge: Edge, row: RunRow) -> bool:
    """Whether somebody who may be alive holds the run's lease."""
    if row.owner is None or row.owner_alive is False:
        return False
    return row.owner_alive is True or row.lease_until_ms > edge.clock.now_ms()


def check_free(edge: Edge, row: RunRow) -> None:
    """Raises ``run.busy`` while somebody performs the run."""
    if is_performed(edge, row):
        raise RunBusy(run=row.run, owner=row.owner or "")
