"""``ForkpointSaver``: a LangGraph checkpointer whose threads are runs of a Forkpoint store."""

import asyncio
import os
import secrets as chance
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from forkpoint.adapters.langgraph_desk import Desk
from forkpoint.adapters.langgraph_home import Home
from forkpoint.adapters.langgraph_joining import Joining
from forkpoint.adapters.langgraph_pins import Pins
from forkpoint.adapters.langgraph_strand import Name, Seen, everything
from forkpoint.adapters.langgraph_tuples import (
    checkpoint_of,
    config_of,
    delta_history,
    given_in,
    listed,
    made,
    namespace_of,
    point_of,
    text_of,
    tuple_of,
)
from forkpoint.adapters.langgraph_values import Values
from forkpoint.errors.langgraph import GraphBadConfig
from forkpoint.ids import ForkPoint
from forkpoint.ports import Journal
from forkpoint.runtime.cell import Edge
from forkpoint.runtime.clock import SystemClock
from forkpoint.runtime.progress import Bulletin
from forkpoint.runtime.reading import Reader
from forkpoint.runtime.runtime import Runtime
from forkpoint.runtime.writing import Writer
from forkpoint.stores.choosing import open_store

T = TypeVar("T")
Store: TypeAlias = str | Path | Journal | Runtime


class ForkpointSaver(BaseCheckpointSaver[int]):
    """A LangGraph checkpointer whose threads are runs of a Forkpoint store: ``ForkpointSaver("runs.db")``.

    ``store`` is a path, ``memory:``, a ``Journal`` that nothing else uses, or a ``Runtime`` (on whose event loop the
    saver is made), whose secrets, ``redact`` and ``codec`` then hold here too. A thread is the run of its
    ``thread_id``, with ``prefix`` before it. ``allow`` names the classes of your own that a state may hold: only they,
    LangGraph's own and LangChain's messages are ever made from what was stored; nothing is pickled.

    Sync and async methods may be used from any OS thread and event loop. One process writes a thread at a time:
    another is told ``run.busy`` after ``busy_s``, or ``langgraph.moved`` if it goes on from what is no longer the
    newest. The right to write is given back ``idle_s`` after the graph came to rest, or after ``lease_s`` of silence.
    Close it, or use it in ``with`` or ``async with``.

    Raises ``langgraph.no-safe-form``, ``langgraph.not-allowed``, ``langgraph.run-taken``, ``langgraph.bad-config``,
    ``run.stopped``, ``run.paused``, ``runtime.closed``, ``runtime.blocks-itself`` and the ``store.*`` errors.
    """

    def __init__(
        self,
        store: Store,
        *,
        allow: Iterable[type | tuple[str, str]] = (),
        serde: SerializerProtocol | None = None,
        prefix: str = "",
        idle_s: float = 0.25,
        busy_s: float = 0.75,
        lease_s: float = 30.0,
    ) -> None:
        named = tuple(allow)
        super().__init__(
            serde=serde or JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=named or None)
        )
        options: Mapping[str, Any] = {"prefix": prefix, "idle_s": idle_s, "busy_s": busy_s}
        self._shared = isinstance(store, Runtime)
        self._home = Home(asyncio.get_running_loop() if self._shared else None)
        try:
            self._desk = (
                Desk(store.edge, **options) if isinstance(store, Runtime) else self._opened(store, lease_s, options)
            )
        except BaseException:
            self._home.stop()
            raise
        self._joining = Joining()
        self._pins = Pins(lambda given: self._home.run(lambda: self._desk.head(given)))

    def _opened(self, store: str | Path | Journal, lease_s: float, options: Mapping[str, Any]) -> Desk:
        async def desk() -> Desk:
            return Desk(_edge(store, lease_s), **options)

        return self._home.wait(desk)

    @property
    def _values(self) -> Values:
        # A graph may have a copy of this saver whose serializer allows more.
        return Values(self.serde)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, the newest of its namespace if it names none."""
        seen = self._pins.seen(given_in(config))
        return self._home.wait(lambda: tuple_of(self._desk, self._values, config, seen))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See ``get_tuple``."""
        seen = await self._pins.aseen(given_in(config))
        return await self._home.run(lambda: tuple_of(self._desk, self._values, config, seen))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first: of a thread and namespace, or of all where ``config`` names none.

        ``filter`` keeps those whose metadata has equal values, ``before`` those that are older.
        """
        seen = everything if config is None else self._pins.seen(given_in(config))
        chosen = {"filter": filter, "before": before, "limit": limit, "seen": seen}
        for found in self._home.wait(lambda: listed(self._desk, self._values, config, **chosen)):  # type: ignore[arg-type]
            yield self._home.wait(self._making(found, seen))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See ``list``."""
        seen = everything if config is None else await self._pins.aseen(given_in(config))
        chosen = {"filter": filter, "before": before, "limit": limit, "seen": seen}
        for found in await self._home.run(lambda: listed(self._desk, self._values, config, **chosen)):  # type: ignore[arg-type]
            yield await self._home.run(self._making(found, seen))

    def _making(self, found: tuple[Any, Any], seen: Seen) -> Callable[[], Awaitable[CheckpointTuple]]:
        return lambda: made(self._desk, self._values, *found, seen)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What delta channels were written since their last snapshot, walked in one go."""
        seen = self._pins.seen(given_in(config))
        return self._home.wait(lambda: delta_history(self._desk, self._values, config, channels, seen))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See ``get_delta_channel_history``."""
        seen = await self._pins.aseen(given_in(config))
        return await self._home.run(lambda: delta_history(self._desk, self._values, config, channels, seen))

    def fork_point(self, config: RunnableConfig) -> ForkPoint | None:
        """Where in the thread's run the checkpoint that ``config`` names stands: ``run.fork(point.seq)`` is a thread
        with the past up to it. ``None`` if there is no such checkpoint."""
        return self._home.wait(lambda: point_of(self._desk, config))

    async def afork_point(self, config: RunnableConfig) -> ForkPoint | None:
        """See ``fork_point``."""
        return await self._home.run(lambda: point_of(self._desk, config))

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, whose parent is the one that ``config`` names; durable when it returns."""
        self._joining.begin(given_in(config), namespace_of(config), checkpoint, metadata)
        return self._home.wait(lambda: self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See ``put``."""
        self._joining.begin(given_in(config), namespace_of(config), checkpoint, metadata)
        return await self._home.run(lambda: self._put(config, checkpoint, metadata, new_versions))

    async def _put(self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any) -> RunnableConfig:
        given, ns = given_in(config), namespace_of(config)
        said = get_checkpoint_metadata(config, metadata)
        parent = checkpoint_of(config)
        wrote, went = self._joining.taken(given, ns, parent), False
        try:
            await self._desk.put(given, ns, parent, checkpoint, said, new_versions, self._values, wrote)
            went = True
        finally:
            if wrote is not None:
                wrote.tell(went)
            if not went:
                self._joining.end(given, ns, checkpoint["id"])
        return config_of(given, ns, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes that wait on the checkpoint that ``config`` names; durable when it returns."""
        given, of = given_in(config), _written_to(config)
        seen = self._pins.seen(given)
        if not self._joining.wait(given, of, writes, task_id, task_path, seen):
            self._home.wait(lambda: self._put_writes(given, of, writes, task_id, task_path, seen))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See ``put_writes``."""
        given, of = given_in(config), _written_to(config)
        seen = await self._pins.aseen(given)

        async def alone() -> None:
            await self._home.run(lambda: self._put_writes(given, of, writes, task_id, task_path, seen))

        try:
            joined = await self._joining.awaited(given, of, writes, task_id, task_path, seen)
        except asyncio.CancelledError:
            await alone()  # being cancelled does not call it off
            raise
        if not joined:
            await alone()

    async def _put_writes(self, given: str, of: Name, writes: Any, task: str, path: str, seen: Seen) -> None:
        await self._desk.put_writes(given, of, writes, task, path, self._values, seen)

    # ── whole threads ─────────────────────────────────────────────────────────────────────────────────────────

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread's run. What forks share of it stays until they go, under a name that is not listed."""
        self._home.wait(lambda: self._desk.delete(text_of("thread_id", thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """See ``delete_thread``."""
        await self._home.run(lambda: self._desk.delete(text_of("thread_id", thread_id)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Make the target a fork of the source as it stands now: what it is made of is shared, not copied.

        Raises ``fork.name-taken`` where the target is there.
        """
        self._home.wait(lambda: self._copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See ``copy_thread``."""
        await self._home.run(lambda: self._copy(source_thread_id, target_thread_id))

    async def _copy(self, source: str, target: str) -> None:
        await self._desk.copy(text_of("thread_id", source), text_of("thread_id", target))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """List the checkpoints that LangGraph's runs ``run_ids`` made no more; they stay on record."""
        self._home.wait(lambda: self._desk.forget_runs(frozenset(run_ids), self._values))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See ``delete_for_runs``."""
        await self._home.run(lambda: self._desk.forget_runs(frozenset(run_ids), self._values))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """List only the newest checkpoint of each namespace (``keep_latest``), or remove the threads (``delete``).

        What is not listed any more stays on record, so that delta channels can be made again from it.
        """
        self._home.wait(lambda: self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See ``prune``."""
        await self._home.run(lambda: self._prune(thread_ids, strategy))

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise GraphBadConfig(name="strategy", given=repr(strategy)[:80])
        for given in thread_ids:
            name = text_of("thread_id", given)
            await (self._desk.delete(name) if strategy == "delete" else self._desk.forget_older(name))

    # ── its own end ───────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Give every thread back and let the store go; a runtime's store stays open. Closing twice is closing once."""
        if self._home.is_open:
            self._home.wait(self._let_go)
            self._home.stop()

    async def aclose(self) -> None:
        """See ``close``."""
        if self._home.is_open:
            await self._home.run(self._let_go)
            self._home.stop()

    async def _let_go(self) -> None:
        await self._desk.close()
        if not self._shared:
            await self._desk.edge.journal.close()

    def __enter__(self) -> "ForkpointSaver":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> "ForkpointSaver":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


def _written_to(config: RunnableConfig) -> Name:
    of = checkpoint_of(config)
    if of is None:
        raise GraphBadConfig(name="checkpoint_id", given="None")
    return namespace_of(config), of


def _edge(store: str | Path | Journal, lease_s: float) -> Edge:
    """What a saver with a store of its own has: the store, and a way to it."""
    journal = open_store(store) if isinstance(store, str | Path) else store
    writer = Writer()
    return Edge(
        journal=journal,
        reader=Reader(journal, writer),
        writer=writer,
        clock=SystemClock(),
        bulletin=Bulletin(),
        owner=getattr(journal, "owner", None) or f"p{os.getpid()}-{chance.token_hex(3)}",
        lease_ms=int(lease_s * 1000),
    )
