"""The graph of `langgraph_loop` with the least that a checkpointer can be: a row for what each super-step wrote.

It could not give a checkpoint back; no saver that keeps the messages costs less.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from bench.peers import Durability
from bench.peers._rows import Keep, kept_rows
from bench.peers.langgraph_loop import loops
from bench.script import compact


class Saver(BaseCheckpointSaver[int]):
    """Keeps rows that nobody reads."""

    def __init__(self, keep: Keep) -> None:
        super().__init__()
        self._keep = keep
        self._open: list[Any] = []

    def get_tuple(self, config: Any) -> None:
        """Nothing is there to go on from."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """One row of what was written since the last."""
        self._keep(content_of(self._open))
        self._open = []
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"], "checkpoint_ns": ""}}

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Goes with the next checkpoint."""
        self._open += [message for channel, value in writes if channel == "messages" for message in value]

    async def aget_tuple(self, config: Any) -> None:
        """Nothing is there to go on from."""

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """See `put`."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """See `put_writes`."""
        self.put_writes(config, writes, task_id, task_path)

    def get_next_version(self, current: int | None, channel: None) -> int:
        """Counts."""
        return (current or 0) + 1


def content_of(messages: Sequence[Any]) -> bytes:
    """The words and the calls of messages, of which the first is a mapping as it was given."""
    told = [
        [one.content, getattr(one, "tool_calls", None)] if isinstance(one, BaseMessage) else one for one in messages
    ]
    return compact(told).encode()


@contextmanager
def saver(*, folder: Path, durability: Durability, runner: asyncio.Runner) -> Iterator[Saver]:
    """A saver on rows."""
    with kept_rows(folder, durability) as keep:
        yield Saver(keep)


SETTINGS = (
    'no checkpoint to give back: one row and one commit for each super-step; WAL and synchronous; durability="sync"'
)
LOOPS = loops("floor", SETTINGS, saver, saver)
