"""A LangGraph thread's checkpoints as LangGraph knows them: looked up, listed, walked along their parents."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

from forkpoint.adapters.langgraph_desk import Desk
from forkpoint.adapters.langgraph_holding import Held
from forkpoint.adapters.langgraph_strand import Kept, Seen, everything
from forkpoint.adapters.langgraph_valued import value_of
from forkpoint.adapters.langgraph_values import Values
from forkpoint.errors.langgraph import GraphBadConfig, GraphStoredBadly
from forkpoint.ids import ForkPoint


async def tuple_of(desk: Desk, values: Values, config: RunnableConfig, seen: Seen) -> CheckpointTuple | None:
    """The checkpoint that ``config`` names, the newest of its namespace if it names none."""
    found = await desk.checkpoint(given_in(config), namespace_of(config), checkpoint_of(config), seen)
    return None if found is None else await made(desk, values, *found, seen)


async def made(desk: Desk, values: Values, held: Held, kept: Kept, seen: Seen) -> CheckpointTuple:
    """A checkpoint with all that it holds."""
    pieces = held.strand.pieces
    writes = await desk.writes(held, kept.name, seen)
    await desk.need(held, [kept.values, kept.fields, kept.metadata, kept.updated])

    def valued(bodies: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {name: value_of(body, pieces, values) for name, body in bodies.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GraphStoredBadly(run=held.run, seq=kept.seq, detail=f"{type(error).__name__}: {error}") from error

    checkpoint: Any = {
        **valued(kept.fields),
        "id": kept.id,
        "ts": kept.ts,
        "channel_values": valued(kept.values),
        "channel_versions": dict(kept.versions),
        "versions_seen": {node: dict(versions) for node, versions in kept.seen.items()},
        "updated_channels": value_of(kept.updated, pieces, values),
    }
    metadata: Any = valued(kept.metadata)
    return CheckpointTuple(
        config=config_of(held.given, kept.ns, kept.id),
        checkpoint=checkpoint,
        metadata=metadata,
        parent_config=None if kept.parent is None else config_of(held.given, kept.ns, kept.parent),
        pending_writes=[(one.task, one.channel, value_of(one.body, pieces, values)) for one in writes],
    )


async def point_of(desk: Desk, config: RunnableConfig) -> ForkPoint | None:
    """Where in its thread's run the checkpoint that ``config`` names stands, the newest if it names none."""
    found = await desk.checkpoint(given_in(config), namespace_of(config), checkpoint_of(config), everything)
    # It is settled by the event after the one that requests it.
    return None if found is None else ForkPoint(found[0].run, found[1].seq + 1)


async def listed(
    desk: Desk,
    values: Values,
    config: RunnableConfig | None,
    *,
    filter: Mapping[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
    seen: Seen,
) -> list[tuple[Held, Kept]]:
    """The checkpoints that a list has, newest first."""
    given = None if config is None else given_in(config)
    ns = None if config is None or "checkpoint_ns" not in config["configurable"] else namespace_of(config)
    only = None if config is None else checkpoint_of(config)
    older = None if before is None else checkpoint_of(before)
    chosen: list[tuple[Held, Kept]] = []
    for held, kept in sorted(await desk.checkpoints(given, ns, seen), key=lambda one: one[1].id, reverse=True):
        if limit is not None and len(chosen) >= limit:
            break
        if (only is not None and kept.id != only) or (older is not None and kept.id >= older):
            continue
        if not filter or await _fits(desk, values, held, kept, filter):
            chosen.append((held, kept))
    return chosen


async def _fits(desk: Desk, values: Values, held: Held, kept: Kept, filter: Mapping[str, Any]) -> bool:
    await desk.need(held, [kept.metadata])
    said = {key: value_of(kept.metadata.get(key), held.strand.pieces, values) for key in filter}
    return all(said[key] == wanted for key, wanted in filter.items())


async def delta_history(
    desk: Desk, values: Values, config: RunnableConfig, channels: Sequence[str], seen: Seen
) -> Mapping[str, DeltaChannelHistory]:
    """What each delta channel was written on the way to a checkpoint, since its last snapshot, and that snapshot.

    The way is also told where it leads over checkpoints that are not listed any more.
    """
    told: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
    found = await desk.checkpoint(given_in(config), namespace_of(config), checkpoint_of(config), seen)
    if found is None:
        return told
    held, kept = found
    strand, wanted, walked = held.strand, set(channels), {kept.id}
    while wanted and kept.parent is not None and kept.parent not in walked:
        above = strand.any_checkpoint((kept.ns, kept.parent))
        if above is None:
            break
        kept = above
        walked.add(kept.id)
        writes = [one for one in strand.writes(kept.name, seen) if one.channel in wanted]
        ending = {channel: kept.values[channel] for channel in wanted & kept.values.keys()}
        await desk.need(held, [*(one.body for one in writes), *ending.values()])
        for one in reversed(writes):
            told[one.channel]["writes"].append((one.task, one.channel, value_of(one.body, strand.pieces, values)))
        for channel, body in ending.items():
            told[channel]["seed"] = value_of(body, strand.pieces, values)
            wanted.discard(channel)
    for history in told.values():
        history["writes"].reverse()
    return told


# ── configs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def config_of(given: str, ns: str, id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {"configurable": {"thread_id": given, "checkpoint_ns": ns, "checkpoint_id": id}}


def given_in(config: RunnableConfig) -> str:
    """The thread that a config names. Raises ``langgraph.bad-config``."""
    given = config.get("configurable", {}).get("thread_id")
    return text_of("thread_id", str(given) if type(given) in (int, UUID) else given)


def namespace_of(config: RunnableConfig) -> str:
    """The namespace that a config names. Raises ``langgraph.bad-config``."""
    return text_of("checkpoint_ns", config["configurable"].get("checkpoint_ns", ""), empty=True)


def checkpoint_of(config: RunnableConfig) -> str | None:
    """The checkpoint that a config names, if it names one. Raises ``langgraph.bad-config``."""
    given = config["configurable"].get("checkpoint_id")
    return None if given is None or given == "" else text_of("checkpoint_id", given)


def text_of(name: str, given: Any, *, empty: bool = False) -> str:
    """``given``, if it is a text. Raises ``langgraph.bad-config``."""
    if isinstance(given, str) and (given or empty) and given.encode("utf-8", "ignore").decode() == given:
        return given
    raise GraphBadConfig(name=name, given=repr(given)[:80])
