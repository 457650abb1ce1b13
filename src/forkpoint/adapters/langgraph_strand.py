"""What the events of a LangGraph thread's run say: its checkpoints, what waits on them, and their pieces. Pure.

Three effects, each requested and settled at once:

- ``checkpoint``: ``id``, ``ns``, ``parent``, ``step``, ``source``, ``ts``; what differs from the parent in ``values``,
  ``versions``, ``seen``, ``fields`` and ``metadata``; ``gone``: what the parent has and it has not; ``updated``: the
  channels it updated, if not those with a new version and a value; ``wrote``: what a task wrote to the parent
  and went on record with it: ``[writes, task, path]``, each as below.
- ``writes``: ``of`` (the checkpoint), ``ns``, ``task``, ``path``, ``writes``: ``[channel, value]`` or
  ``[channel, value, index]``.
- ``forget``: ``checkpoints`` that are not listed any more.

A checkpoint is named by the number of its event, or by its id where it is not on record. The result of each is the
list of the nodes that it adds (see ``langgraph_pieces``).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from langgraph.checkpoint.base import WRITES_IDX_MAP
from msgspec import Struct

from forkpoint.adapters.langgraph_pieces import Pieces, absolute
from forkpoint.effects import StepCall
from forkpoint.errors.langgraph import GraphStoredBadly
from forkpoint.events import EffectRequested, EffectSettled, RecordedEvent
from forkpoint.outcomes import Succeeded

CHECKPOINT, WRITES, FORGET = "checkpoint", "writes", "forget"

Name: TypeAlias = tuple[str, str]
"""A checkpoint's namespace and id."""

Seen: TypeAlias = Callable[[int], bool]
"""Which events are looked at."""


class Kept(Struct, frozen=True, kw_only=True, gc=False):
    """One checkpoint, whole; ``values``, ``fields`` and ``metadata`` as told in JSON."""

    seq: int
    id: str
    ns: str
    parent: str | None
    ts: str
    values: Mapping[str, Any]
    versions: Mapping[str, Any]
    seen: Mapping[str, Mapping[str, Any]]
    updated: Any
    fields: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @property
    def name(self) -> Name:
        """Its namespace and id."""
        return self.ns, self.id


class Write(Struct, frozen=True, kw_only=True, gc=False):
    """One write that waits on a checkpoint."""

    seq: int
    task: str
    index: int
    channel: str
    path: str
    body: Any


class Strand:
    """One thread's checkpoints and writes, as of event ``seq``."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.seq = 0
        self.effects_upto = 0
        """The last event by which a performer wrote something."""
        self.pieces = Pieces()
        self.aside: dict[int, Succeeded] = {}
        """Results that lie in blobs, by effect, until they are needed."""
        self._checkpoints: dict[Name, list[Kept]] = {}
        self._by_seq: dict[int, Kept] = {}
        self._writes: dict[Name, list[Write]] = {}
        self._forgotten: dict[int, int] = {}
        self._open: dict[int, StepCall] = {}

    # ── taking events ─────────────────────────────────────────────────────────────────────────────────────────

    def note(self, recorded: RecordedEvent) -> None:
        """Take one event, whose effect's arguments are in place. Raises ``langgraph.unreadable``."""
        self.seq, event = recorded.seq, recorded.event
        match event:
            case EffectRequested(effect=StepCall() as effect):
                self._open[recorded.seq] = effect
                self.effects_upto = recorded.seq
            case EffectSettled(outcome=Succeeded() as outcome) if event.effect in self._open:
                effect = self._open.pop(event.effect)
                if outcome.aside:
                    self.aside[event.effect] = outcome
                else:
                    self.pieces.hold(event.effect, outcome.value or [])
                self.take(event.effect, effect.name, effect.arguments)
            case _:
                pass

    def take(self, seq: int, name: str, arguments: Any) -> None:
        """Take one effect that is on record. Raises ``langgraph.unreadable``."""
        try:
            if name == CHECKPOINT:
                self._take_checkpoint(seq, arguments)
            elif name == WRITES:
                self._take_writes(seq, arguments)
            elif name == FORGET:
                self._forgotten |= dict.fromkeys(arguments["checkpoints"], seq)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GraphStoredBadly(run=self.run, seq=seq, detail=f"{type(error).__name__}: {error}") from error

    def _take_checkpoint(self, seq: int, told: Mapping[str, Any]) -> None:
        before = self._by_seq.get(told["parent"]) if isinstance(told.get("parent"), int) else None
        gone = told.get("gone", {})

        def whole(name: str, old: Mapping[str, Any]) -> Mapping[str, Any]:
            if name not in gone and name not in told:
                return old
            kept = {key: item for key, item in old.items() if key not in gone.get(name, ())}
            return {**kept, **told.get(name, {})}

        seen = {node: old for node, old in (before.seen if before else {}).items() if node not in gone.get("seen", ())}
        for node, versions in told.get("seen", {}).items():
            seen[node] = {**seen.get(node, {}), **versions}
        if "wrote" in told:
            writes, task, path = told["wrote"]
            where = {"of": told["parent"], "ns": told.get("ns", "")}
            self._take_writes(seq, {"writes": writes, "task": task, "path": path, **where})
        stated = {key: told[key] for key in ("source", "step") if key in told}
        told = {**told, "values": absolute(told.get("values", {}), seq)}
        values = whole("values", before.values if before else {})
        derived = sorted(name for name in told.get("versions", ()) if name in values)
        kept = Kept(
            seq=seq,
            id=told["id"],
            ns=told.get("ns", ""),
            parent=before.id if before else told.get("parent"),
            ts=told["ts"],
            values=values,
            versions=whole("versions", before.versions if before else {}),
            seen=seen,
            updated=told.get("updated", derived),
            fields=whole("fields", before.fields if before else {}),
            metadata={**whole("metadata", before.metadata if before else {}), **stated},
        )
        self._by_seq[seq] = kept
        self._checkpoints.setdefault(kept.name, []).append(kept)

    def _take_writes(self, seq: int, told: Mapping[str, Any]) -> None:
        of = told["of"]
        name = self._by_seq[of].name if isinstance(of, int) else (told.get("ns", ""), of)
        there = self._writes.setdefault(name, [])
        for place, (channel, body, *index) in enumerate(absolute(told["writes"], seq)):
            there.append(
                Write(
                    seq=seq,
                    task=told["task"],
                    index=index[0] if index else WRITES_IDX_MAP.get(channel, place),
                    channel=channel,
                    path=told.get("path", ""),
                    body=body,
                )
            )

    # ── looking ───────────────────────────────────────────────────────────────────────────────────────────────

    def at(self, seq: int) -> Kept | None:
        """The checkpoint of event ``seq``."""
        return self._by_seq.get(seq)

    def checkpoint(self, name: Name, seen: Seen) -> Kept | None:
        """The checkpoint of that name, as it was put last."""
        found = [kept for kept in self._checkpoints.get(name, ()) if self._is_there(kept, seen)]
        return found[-1] if found else None

    def any_checkpoint(self, name: Name) -> Kept | None:
        """The same, also if it was forgotten: what others were told to build on."""
        found = self._checkpoints.get(name)
        return found[-1] if found else None

    def latest(self, ns: str, seen: Seen) -> Kept | None:
        """The newest checkpoint of a namespace: ids only grow."""
        return max(self.checkpoints(ns, seen), key=lambda kept: kept.id, default=None)

    def checkpoints(self, ns: str | None, seen: Seen) -> list[Kept]:
        """The checkpoints of a namespace, or of all."""
        names = [name for name in self._checkpoints if ns is None or name[0] == ns]
        found = (self.checkpoint(name, seen) for name in names)
        return [kept for kept in found if kept is not None]

    def writes(self, name: Name, seen: Seen) -> list[Write]:
        """The writes that wait on a checkpoint, in the order in which LangGraph applies them."""
        found: dict[tuple[str, int], Write] = {}
        for write in self._writes.get(name, ()):
            if seen(write.seq):
                found[write.task, write.index] = write
        return sorted(found.values(), key=lambda one: (one.path, one.task, one.index))

    def _is_there(self, kept: Kept, seen: Seen) -> bool:
        forgotten = self._forgotten.get(kept.seq)
        return seen(kept.seq) and (forgotten is None or not seen(forgotten))


def everything(seq: int) -> bool:
    """Looks at every event."""
    return True


def differing(now: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What ``now`` has that ``before`` has not, or not so, and what only ``before`` has."""
    changed = {key: item for key, item in now.items() if key not in before or not _same(before[key], item)}
    return changed, [key for key in before if key not in now]


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)
