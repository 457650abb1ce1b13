"""What a checkpoint or a set of writes is told as in an event: what is new in it, and references for the rest. Pure."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP

from forkpoint.adapters.langgraph_sheet import Sheet
from forkpoint.adapters.langgraph_strand import Kept, Write, differing

_OWN = ("id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels")
_RUN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,110}[A-Za-z0-9_-])?\Z")
_FIRST = ("step", "source", "ns", "values", "wrote")
"""What people look for, where a call is shown on one line."""

_NEXT = ("branch:to:", "__start__")
_SENT = "__pregel_tasks"


def run_named(prefix: str, given: str) -> str:
    """The run of the thread ``given``: its own name, if a run can have it, else one made of it."""
    whole = prefix + given
    if _RUN.match(whole):
        return whole
    words = re.sub(r"[^A-Za-z0-9]+", "-", whole).strip("-")[:60]
    return f"{words or 'thread'}-{sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def checkpoint_told(
    sheet: Sheet,
    checkpoint: Mapping[str, Any],
    metadata: Mapping[str, Any],
    new_versions: Mapping[str, Any],
    *,
    ns: str,
    parent: Kept | str | None,
    wrote: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The arguments of the effect that records a checkpoint, with what ``wrote`` tells of writes to its parent.

    Raises ``langgraph.no-safe-form``.
    """
    before = parent if isinstance(parent, Kept) else None
    trusts = is_going(ns, checkpoint)  # when the graph comes to rest, everything is looked at
    versions, given = dict(checkpoint["channel_versions"]), checkpoint["channel_values"]
    values: dict[str, Any] = {}
    for channel, value in given.items():
        old = before is not None and channel in before.values and channel not in new_versions
        if old and before is not None and before.versions.get(channel) == versions.get(channel):
            values[channel] = before.values[channel]
        else:
            values[channel] = sheet.told_of((ns, channel), value, trusts=trusts)
    fields = {
        name: sheet.told(item, f"the checkpoint's {name}") for name, item in checkpoint.items() if name not in _OWN
    }
    said = {name: sheet.told(item, f"the metadata {name!r}") for name, item in metadata.items()}
    stated = {key: said.pop(key) for key in ("source", "step") if _is_plain(metadata.get(key))}
    told: dict[str, Any] = {"id": checkpoint["id"], "ns": ns, "ts": checkpoint["ts"], **stated}
    if wrote is not None:
        told["wrote"] = [wrote["writes"], wrote["task"], wrote.get("path", "")]
    if parent is not None:
        told["parent"] = before.seq if before is not None else parent
    gone: dict[str, list[str]] = {}
    old_metadata = {key: item for key, item in (before.metadata if before else {}).items() if key not in stated}
    for name, now, earlier in (
        ("values", values, before.values if before else {}),
        ("versions", versions, before.versions if before else {}),
        ("fields", fields, before.fields if before else {}),
        ("metadata", said, old_metadata),
    ):
        told[name], gone[name] = differing(now, earlier)
    updated = checkpoint.get("updated_channels")
    if updated != updated_in(told["versions"], values):
        told["updated"] = sheet.told(updated, "the checkpoint's updated_channels")
    told["seen"], gone["seen"] = _seen_told(checkpoint["versions_seen"], before.seen if before else {})
    told["gone"] = {name: keys for name, keys in gone.items() if keys}
    return {key: told[key] for key in sorted(told, key=_rank) if told[key] not in ("", {})}


def _rank(key: str) -> int:
    return _FIRST.index(key) if key in _FIRST else len(_FIRST)


def updated_in(versions: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """The channels that a checkpoint updated, where LangGraph says no other: those with a new version and a value."""
    return sorted(name for name in versions if name in values)


def _seen_told(
    now: Mapping[str, Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    """What each node saw since; a node that forgot something is told whole."""
    told: dict[str, Any] = {}
    gone = [node for node in before if node not in now]
    for node, versions in now.items():
        changed, lost = differing(versions, before.get(node, {}))
        if lost:
            gone.append(node)
        if changed or lost or node not in before:
            told[node] = dict(versions) if lost else changed
    return told, gone


def writes_told(
    sheet: Sheet,
    writes: Sequence[tuple[str, Any]],
    there: Sequence[Write],
    *,
    task: str,
    path: str,
) -> dict[str, Any] | None:
    """What an effect says of writes; ``None`` where all of them are ``there``.

    A write that is there stays, as LangGraph's own savers have it, but for those of its special channels.
    """
    known = {write.index for write in there if write.task == task}
    told: list[list[Any]] = []
    for place, (channel, value) in enumerate(writes):
        index = WRITES_IDX_MAP.get(channel, place)
        if index >= 0 and index in known:
            continue
        one = [channel, sheet.told(value, f"a write to {channel!r}")]
        told.append(one if index < 0 or index == len(told) else [*one, index])
    if not told:
        return None
    return {**({"path": path} if path else {}), "writes": told, "task": task}


def is_going(ns: str, checkpoint: Mapping[str, Any]) -> bool:
    """Whether the graph is about to run more tasks after this checkpoint."""
    return bool(ns) or tasks_after(checkpoint) > 0


def is_stopping(writes: Sequence[tuple[str, Any]]) -> bool:
    """Whether these writes say that the graph stops: a task failed, or asks somebody."""
    return any(channel in ("__error__", "__interrupt__") for channel, _ in writes)


def is_special(channel: str) -> bool:
    """Whether LangGraph says something by a write to this channel, rather than a task to others."""
    return channel in WRITES_IDX_MAP or channel.startswith("__error")


def tasks_after(checkpoint: Mapping[str, Any]) -> int:
    """How many tasks run after this checkpoint, as far as its channels tell."""
    values = checkpoint["channel_values"]
    entered: int = sum(name.startswith(_NEXT) for name in values)
    return entered + len(values.get(_SENT) or ())


def _is_plain(value: Any) -> bool:
    return type(value) in (str, int)
