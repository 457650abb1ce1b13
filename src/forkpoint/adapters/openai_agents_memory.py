"""What the Agents SDK keeps of a conversation (``SQLiteSession`` and its like), read and written once."""

from typing import Any
from weakref import WeakKeyDictionary

from agents.memory.openai_conversations_session import OpenAIConversationsSession

from forkpoint.adapters.openai_agents_marks import performed_elsewhere
from forkpoint.adapters.openai_pieces import plain
from forkpoint.agents.calling import OutcomeUnknown, ToolContext
from forkpoint.agents.function import Step
from forkpoint.agents.function import step as made_step
from forkpoint.errors.openai_agents import AgentsUnfit
from forkpoint.runtime.recorder import Recorder, current


def is_memory(value: Any) -> bool:
    """Whether the SDK can keep a conversation in ``value``."""
    return all(callable(getattr(value, name, None)) for name in ("get_items", "add_items", "pop_item"))


def durable_memory(memory: Any) -> "DurableMemory":
    """A memory whose reads and writes are on record in a recorded function.

    What is stored is what the SDK would store, in the same place. On replay the items that were read come from the
    record, and nothing is written again. A write that was lost in flight is looked for first: there are as many items
    as before, or as many as after it; if neither, a person is asked. That rests on the run being the only one to write
    there meanwhile. Raises ``agents.unfit`` for one that the provider keeps.
    """
    if isinstance(memory, DurableMemory):
        return memory
    if isinstance(memory, OpenAIConversationsSession) or hasattr(memory, "run_compaction"):
        problem = "the provider keeps or rewrites its items, which the SDK knows by its type"
        raise AgentsUnfit(what=f"The {type(memory).__name__}", problem=problem)
    return DurableMemory(memory)


def _step(name: str, **options: Any) -> Step[..., Any]:
    return made_step(name=f"memory.{name}", **options)(performed_elsewhere)


_READ = _step("get_items", read_only=True)
_COUNT = _step("count", read_only=True)
_ADD = _step("add_items", idempotent=True)
_POP = _step("pop_item", idempotent=True)
_CLEAR = _step("clear", idempotent=True)


class DurableMemory:
    """What the SDK reads and writes, on record. Made by ``durable``."""

    def __init__(self, memory: Any) -> None:
        self.inner = memory
        self._counts: WeakKeyDictionary[Recorder, int] = WeakKeyDictionary()

    @property
    def session_id(self) -> str:
        """The name that the items are kept under."""
        return str(self.inner.session_id)

    @property
    def session_settings(self) -> Any:
        """How the SDK is to read it."""
        return getattr(self.inner, "session_settings", None)

    @session_settings.setter
    def session_settings(self, settings: Any) -> None:
        self.inner.session_settings = settings

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """See the SDK's protocol."""
        recorder = current()
        if recorder is None:
            return list(await self.inner.get_items(limit))

        async def perform(ctx: ToolContext) -> Any:
            return [plain(item) for item in await self.inner.get_items(limit)]

        items: list[Any] = await self._done(recorder, _READ, {"limit": limit}, perform)
        return items

    async def add_items(self, items: list[Any]) -> None:
        """See the SDK's protocol."""
        recorder = current()
        if recorder is None:
            await self.inner.add_items(items)
            return
        before = await self._count(recorder)

        async def perform(ctx: ToolContext) -> None:
            if ctx.attempt == 1 or not await self._is_done(before, before + len(items)):
                await self.inner.add_items(items)

        asked = {"after": before, "items": [plain(item) for item in items]}
        await self._done(recorder, _ADD, asked, perform)
        self._counts[recorder] = before + len(items)

    async def pop_item(self) -> Any:
        """See the SDK's protocol."""
        recorder = current()
        if recorder is None:
            return await self.inner.pop_item()
        before = await self._count(recorder)
        last = await self.get_items(1)

        async def perform(ctx: ToolContext) -> None:
            if before and (ctx.attempt == 1 or not await self._is_done(before, before - 1)):
                await self.inner.pop_item()

        await self._done(recorder, _POP, {"before": before}, perform)
        self._counts[recorder] = max(before - 1, 0)
        return last[-1] if last else None

    async def clear_session(self) -> None:
        """See the SDK's protocol."""
        recorder = current()
        if recorder is None:
            await self.inner.clear_session()
            return

        async def perform(ctx: ToolContext) -> None:
            await self.inner.clear_session()

        await self._done(recorder, _CLEAR, {}, perform)
        self._counts[recorder] = 0

    async def _count(self, recorder: Recorder) -> int:
        """How many items there are, as far as the run knows: counted once, on record."""

        async def perform(ctx: ToolContext) -> int:
            return len(await self.inner.get_items())

        if recorder not in self._counts:
            self._counts[recorder] = await self._done(recorder, _COUNT, {}, perform)
        return self._counts[recorder]

    async def _is_done(self, before: int, after: int) -> bool:
        """Whether a write of which nobody knows has happened. Raises ``OutcomeUnknown`` where that cannot be seen."""
        there = len(await self.inner.get_items())
        if there not in (before, after):
            raise OutcomeUnknown(f"there are {there} items; there were {before}, and would be {after}")
        return there == after

    async def _done(self, recorder: Recorder, step: Step[..., Any], arguments: dict[str, Any], perform: Any) -> Any:
        asked = {"of": self.session_id, **arguments}

        async def result() -> Any:
            return (await recorder.step(step, asked, perform=perform)).value

        return await recorder.waited(result, step.name, is_async=True)
