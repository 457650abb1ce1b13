"""Which writes are one effect with the checkpoint that follows them, and that none is lost or kept waiting for it."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph", reason="the extra 'langgraph' is not installed")

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import END, START, StateGraph
from tests.adapters.langgraph_stage import at

import forkpoint as fp
from forkpoint.adapters import langgraph_joining
from forkpoint.adapters.langgraph import ForkpointSaver
from forkpoint.effects import StepCall
from forkpoint.errors.langgraph import GraphValueUnsafe
from forkpoint.events import EffectRequested

ENTERED = "~__pregel_pull, say"
CALLED_WITHIN = "~__pregel_push, ~__pregel_pull, say, 0000000000, of-a-task, 0000000001"
GO_ON = "branch:to:say"
_ids = itertools.count(1)  # as LangGraph's: a later one is greater


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits would wait for longer than any test lasts."""
    monkeypatch.setattr(langgraph_joining, "JOIN_S", 600.0)


def checkpoint(*channels: str, deltas: Sequence[str] = (), source: str = "loop", **values: Any) -> tuple[Any, Any, Any]:
    """A checkpoint after which the tasks of these channels run."""
    made: Any = {**empty_checkpoint(), "id": f"{next(_ids):032d}"}
    made["channel_values"] = {**dict.fromkeys(channels), **values}
    made["channel_versions"] = dict.fromkeys(made["channel_values"], 1)
    metadata: dict[str, Any] = {"source": source, "step": 1, "parents": {}}
    if deltas:
        metadata["counters_since_delta_snapshot"] = dict.fromkeys(deltas, (1, 1))
    return made, metadata, dict(made["channel_versions"])


class Stage:
    """A thread whose first checkpoint is on record."""

    def __init__(self, runtime: fp.Runtime, saver: ForkpointSaver, config: Any) -> None:
        self.saver, self.config = saver, config
        self._runtime = runtime

    def save(self, *writes: tuple[str, Any], task: str = "task", path: str = ENTERED) -> "asyncio.Task[None]":
        """Save what a task wrote to the first checkpoint, in the background as LangGraph does."""
        return asyncio.create_task(self.saver.aput_writes(self.config, writes or [("seen", ["a"])], task, path))

    async def effects(self) -> list[str]:
        """What is on record after the first checkpoint."""
        events = [told.event for told in await (await self._runtime.open("t")).history()]
        named = [event.effect for event in events if isinstance(event, EffectRequested)]
        return [effect.name for effect in named if isinstance(effect, StepCall)][1:]

    async def pending(self) -> Any:
        """The writes to the first checkpoint, as LangGraph reads them."""
        found = await self.saver.aget_tuple(self.config)
        assert found is not None
        return found.pending_writes


@asynccontextmanager
async def staged(store: Any, *channels: str, **more: Any) -> AsyncIterator[Stage]:
    async with fp.connect(store) as runtime, ForkpointSaver(runtime) as saver:
        config = await saver.aput(at("t", checkpoint_ns=""), *checkpoint(*(channels or (GO_ON,)), **more))
        yield Stage(runtime, saver, config)


def test_what_the_last_task_wrote_is_one_effect_with_its_checkpoint_and_reads_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path / "runs.db") as stage:
            saving = stage.save()
            await asyncio.sleep(0)
            assert await stage.effects() == []
            await stage.saver.aput(stage.config, *checkpoint(seen=["a"]))
            await saving
            assert await stage.effects() == ["checkpoint"]
            assert await stage.pending() == [("task", "seen", ["a"])]
        with ForkpointSaver(tmp_path / "runs.db") as again:
            found = again.get_tuple(stage.config)
            assert found is not None
            assert found.pending_writes == [("task", "seen", ["a"])]

    asyncio.run(main())


def test_of_tasks_side_by_side_only_the_last_waits() -> None:
    async def main() -> None:
        async with staged("memory:", "branch:to:a", __pregel_tasks=[1, 2]) as stage:
            await stage.save(task="one")
            await stage.save(task="two")
            assert await stage.effects() == ["writes", "writes"]
            saving = stage.save(task="three")
            await asyncio.sleep(0)
            await stage.saver.aput(stage.config, *checkpoint())
            await saving
            assert await stage.effects() == ["writes", "writes", "checkpoint"]
            assert [task for task, *_ in await stage.pending()] == ["one", "three", "two"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("first", "saved"),
    [
        ({}, {"writes": [("__error__", "it broke")]}),
        ({}, {"writes": [("__error_source_node__", "say")]}),
        ({}, {"writes": [("__interrupt__", ("well?",))]}),
        ({}, {"writes": [("__resume__", "yes")]}),
        ({"deltas": ["seen"]}, {}),
        ({"seen": _DeltaSnapshot([])}, {}),
        ({"source": "update"}, {}),
        ({}, {"path": ""}),
        ({}, {"path": CALLED_WITHIN}),
    ],
    ids=[
        "error",
        "whose error",
        "interrupt",
        "resume",
        "of a delta",
        "of a snapshot",
        "of an update",
        "from outside",
        "within a task",
    ],
)
def test_what_is_waited_for_or_has_no_checkpoint_to_follow_does_not_wait(first: Any, saved: Any) -> None:
    async def main() -> None:
        async with staged("memory:", **first) as stage:
            await stage.save(*saved.get("writes", ()), path=saved.get("path", ENTERED))
            assert await stage.effects() == ["writes"]

    asyncio.run(main())


def test_writes_whose_checkpoint_does_not_come_are_on_record_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with staged("memory:") as stage:
            await stage.save()
            assert await stage.effects() == ["writes"]

    monkeypatch.setattr(langgraph_joining, "JOIN_S", 0.0)
    asyncio.run(main())


def test_writes_whose_checkpoint_is_refused_are_on_record_by_themselves() -> None:
    async def main() -> None:
        async with staged("memory:") as stage:
            saving = stage.save()
            await asyncio.sleep(0)
            with pytest.raises(GraphValueUnsafe):
                await stage.saver.aput(stage.config, *checkpoint(seen=object()))
            await saving
            assert await stage.effects() == ["writes"]
            assert await stage.pending() == [("task", "seen", ["a"])]

    asyncio.run(main())


def test_writes_whose_saving_is_cancelled_are_on_record_all_the_same() -> None:
    async def main() -> None:
        async with staged("memory:") as stage:
            saving = stage.save()
            await asyncio.sleep(0)
            saving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saving
            await stage.saver.aput(stage.config, *checkpoint(seen=["a"]))
            assert await stage.pending() == [("task", "seen", ["a"])]
            assert await stage.effects() == ["writes", "checkpoint"]

    asyncio.run(main())


def test_writes_to_a_checkpoint_that_is_still_being_recorded_wait_for_the_one_after_it() -> None:
    async def main() -> None:
        async with staged("memory:") as stage:
            made = checkpoint(GO_ON)
            second = at("t", checkpoint_ns="", checkpoint_id=made[0]["id"])
            putting = asyncio.create_task(stage.saver.aput(stage.config, *made))
            saving = asyncio.create_task(stage.saver.aput_writes(second, [("seen", ["a"])], "task", ENTERED))
            await putting
            assert await stage.effects() == ["checkpoint"]
            await stage.saver.aput(second, *checkpoint(seen=["a"]))
            await saving
            assert await stage.effects() == ["checkpoint", "checkpoint"]

    asyncio.run(main())


def test_writes_wait_no_longer_once_the_checkpoint_that_they_are_of_is_put_again() -> None:
    async def main() -> None:
        async with staged("memory:") as stage:
            first = checkpoint(GO_ON)
            config = await stage.saver.aput(at("t", checkpoint_ns=""), *first)
            saving = asyncio.create_task(stage.saver.aput_writes(config, [("seen", ["a"])], "task", ENTERED))
            await asyncio.sleep(0)
            await stage.saver.aput(at("t", checkpoint_ns=""), *first)
            await saving
            found = await stage.saver.aget_tuple(config)
            assert found is not None
            assert found.pending_writes == [("task", "seen", ["a"])]

    asyncio.run(main())


def test_what_is_watched_is_bounded_and_what_is_let_go_is_on_record_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with staged("memory:") as stage:
            saving = stage.save()
            await asyncio.sleep(0)
            await stage.saver.aput(at("other", checkpoint_ns=""), *checkpoint(GO_ON))
            await saving
            assert await stage.effects() == ["writes"]

    monkeypatch.setattr(langgraph_joining, "_WATCHED", 1)
    asyncio.run(main())


def test_two_os_threads_save_writes_and_their_checkpoint_as_one() -> None:
    with ForkpointSaver("memory:") as saver:
        config = saver.put(at("t", checkpoint_ns=""), *checkpoint(GO_ON))
        saving = threading.Thread(target=saver.put_writes, args=(config, [("seen", ["a"])], "task", ENTERED))
        saving.start()
        while not saver._joining.waits("t"):
            pass
        saver.put(config, *checkpoint(seen=["a"]))
        saving.join()
        found, newest = saver.get_tuple(config), saver.fork_point(at("t", checkpoint_ns=""))
        assert found is not None
        assert found.pending_writes == [("task", "seen", ["a"])]
        first = saver.fork_point(config)
        assert first is not None
        assert newest is not None
        assert newest.seq == first.seq + 2


class Noted(TypedDict):
    seen: Annotated[list[str], lambda old, new: [*old, *new]]


def test_a_super_step_of_a_graph_is_one_commit(tmp_path: Path) -> None:
    graph = StateGraph(Noted)
    graph.add_node("say", lambda state: {"seen": [str(len(state["seen"]))]})
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: "say" if len(state["seen"]) < 20 else END, ["say", END])

    async def main() -> None:
        async with fp.connect(tmp_path / "runs.db") as runtime, ForkpointSaver(runtime) as saver:
            app = graph.compile(checkpointer=saver)
            await app.ainvoke({"seen": []}, at("t"), durability="sync")
            # The run is born, its input is a checkpoint, and what was made of that is another; then the steps.
            assert runtime.edge.journal.commits_made == 1 + 2 + 20  # type: ignore[attr-defined]

    asyncio.run(main())
