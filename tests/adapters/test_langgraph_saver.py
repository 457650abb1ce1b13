"""``ForkpointSaver``: LangGraph's own conformance suite, and what a thread's run promises beyond it."""

import asyncio
import datetime
import decimal
import json
import subprocess
import sys
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("langgraph", reason="the extra 'langgraph' is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send
from tests.adapters.langgraph_stage import Notes, at, counting

import forkpoint as fp
from forkpoint.adapters.langgraph import ForkpointSaver
from forkpoint.errors import ForkNameTaken, RunBusy, RunIsPaused, RunIsStopped, RuntimeBlocksItself, RuntimeClosed
from forkpoint.errors.langgraph import (
    GraphBadConfig,
    GraphMoved,
    GraphRunTaken,
    GraphStoredBadly,
    GraphValueNotAllowed,
    GraphValueUnsafe,
)
from forkpoint.events import EffectRequested
from forkpoint.ports import RunFilter
from forkpoint.stores.choosing import open_store

ROOT = Path(__file__).parents[2]


# ── LangGraph's own suite ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("store", ["memory", "sqlite", "runtime"])
def test_it_passes_the_whole_conformance_suite_of_langgraph(store: str, tmp_path: Path) -> None:
    made = iter(range(100))

    @checkpointer_test(name=f"ForkpointSaver on {store}")
    async def saver() -> AsyncIterator[ForkpointSaver]:
        path = tmp_path / f"{next(made)}.db"
        if store == "runtime":
            async with fp.connect(path) as runtime, ForkpointSaver(runtime) as one:
                yield one
        else:
            async with ForkpointSaver("memory:" if store == "memory" else path) as one:
                yield one

    report = asyncio.run(validate(saver))
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert report.passed_all_base()
    assert report.passed_all()


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


VALUES = [
    None,
    True,
    2**64 - 1,
    -1.5,
    float("inf"),
    "ü \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    b"\x00\xff",
    [1, [2, {"$": 3, "$list": [0, 1]}]],
    {"$add": [1], 2: "two", (1, 2): 3},
    {"deep": {"er": [{"a": "x" * 3000}] * 3}},
    [f"item {number}" * 20 for number in range(40)],
    {f"key {number}": {"text": "t" * 200} for number in range(40)},
    {1, 2},
    deque([1]),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    decimal.Decimal("1.10"),
    uuid.UUID(int=7),
    HumanMessage("hi", id="h"),
    AIMessage([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b", "signature": "s=="}], id="a"),
    ToolMessage("r", tool_call_id="c", artifact={"rows": [1, 2], "raw": b"x"}),
    Send("node", {"messages": [HumanMessage("u", id="u")]}),
    Interrupt(value={"ask": "?"}, id="0" * 32),
    Command(update={"a": [1]}, resume="yes"),
]


def stored(value: Any) -> tuple[Any, Any]:
    """A checkpoint of a channel, and its parent's config."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = {"ch": value}, {"ch": 1}
    return checkpoint, {"source": "loop", "step": 1, "parents": {}}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_langgraphs_own_serializer_gives_it_back(value: Any, tmp_path: Path) -> None:
    checkpoint, metadata = stored(value)
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        expected = saver.serde.loads_typed(saver.serde.dumps_typed(value))
        config = saver.put(at("t", checkpoint_ns=""), checkpoint, metadata, {"ch": 1})
        saver.put_writes(config, [("ch", value), ("other", [value, value])], "task")
        with ForkpointSaver(tmp_path / "runs.db") as other:
            found = other.get_tuple(config)
    assert found is not None and found.pending_writes is not None
    assert found.checkpoint["channel_values"] == {"ch": expected}
    assert type(found.checkpoint["channel_values"]["ch"]) is type(expected)
    assert [(channel, one) for _, channel, one in found.pending_writes] == [("ch", expected), ("other", [expected] * 2)]
    assert found.checkpoint == {**checkpoint, "channel_values": {"ch": expected}}
    assert found.metadata == metadata


@pytest.mark.parametrize("value", [Point(1), [Colour.RED], {"a": object()}, 2**70, lambda: 1], ids=repr)
def test_a_value_without_a_safe_form_is_refused_by_name_and_nothing_is_written(value: Any) -> None:
    checkpoint, metadata = stored(value)
    with ForkpointSaver("memory:") as saver:
        with pytest.raises(GraphValueUnsafe, match="the channel 'ch' holds") as refused:
            saver.put(at("t", checkpoint_ns=""), checkpoint, metadata, {"ch": 1})
        assert refused.value.code == "langgraph.no-safe-form"
        assert list(saver.list(None)) == []


def test_a_class_that_is_allowed_by_name_is_made_again_and_only_where_it_is_allowed(tmp_path: Path) -> None:
    checkpoint, metadata = stored([Point(1), Colour.RED])
    with ForkpointSaver(tmp_path / "runs.db", allow=[Point, Colour]) as saver:
        config = saver.put(at("t", checkpoint_ns=""), checkpoint, metadata, {"ch": 1})
        found = saver.get_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"]["ch"] == [Point(1), Colour.RED]
    with ForkpointSaver(tmp_path / "runs.db") as strict, pytest.raises(GraphValueNotAllowed, match="Point"):
        strict.get_tuple(config)


HOSTILE = [
    {"$ext": [0, ["os", "system", "touch marker"]]},
    {"$ext": [1, ["importlib", "import_module", ["antigravity"]]]},
    {"$ext": [5, ["subprocess", "Popen", {"args": "touch marker", "shell": True}, "model_validate_json"]]},
    {"$ext": [3, ["os", "path", "touch", "join"]]},
    {"$typed": ["pickle", "Y29zCnN5c3RlbQooUyd0b3VjaCBtYXJrZXInCnRSLg=="]},
    {"$typed": ["json", "eyJsYyI6MSwidHlwZSI6ImNvbnN0cnVjdG9yIiwiaWQiOlsib3MiLCJzeXN0ZW0iXX0="]},
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: json.dumps(body)[:40])
def test_what_somebody_wrote_into_the_store_is_never_imported_or_called(
    body: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """As from a stolen file: the events are written as ForkpointSaver would, with a value that it never writes."""
    monkeypatch.chdir(tmp_path)
    checkpoint, metadata = stored(["x" * 100])
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        config = saver.put(at("t", checkpoint_ns=""), checkpoint, metadata, {"ch": 1})
        held = saver._desk._held["t"]
        held.strand.pieces.bodies[next(iter(held.strand.pieces.bodies))] = body
        with pytest.raises(GraphValueNotAllowed) as refused:
            saver.get_tuple(config)
    assert refused.value.code == "langgraph.not-allowed"
    assert not (tmp_path / "marker").exists()


def test_an_event_that_does_not_say_what_it_should_is_refused_by_its_number(tmp_path: Path) -> None:
    checkpoint, metadata = stored(["x"])
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        saver.put(at("t", checkpoint_ns=""), checkpoint, metadata, {"ch": 1})
        with pytest.raises(GraphStoredBadly, match="Event 99"):
            saver._desk._held["t"].strand.take(99, "checkpoint", ["no", "mapping"])


@pytest.mark.parametrize("given", [{"$ne": ""}, ["a"], b"a", None, "", 1.5, object()], ids=repr)
def test_a_name_that_is_no_text_is_refused(given: Any) -> None:
    with ForkpointSaver("memory:") as saver:
        for config in ({"configurable": {"thread_id": given}}, at("t", checkpoint_ns=given or 5)):
            with pytest.raises(GraphBadConfig):
                saver.get_tuple(config)
        with pytest.raises(GraphBadConfig):
            saver.delete_thread(given)


@pytest.mark.parametrize("given", ["../../x", "/abs", "a b ü", "x" * 300, "C:\\x", "a\x00b", "%", "*", ".hidden", "7"])
def test_any_text_names_a_thread_of_its_own_whose_run_has_a_plain_name(given: str, tmp_path: Path) -> None:
    world: Counter[str] = Counter()
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        counting(saver, world).invoke({"notes": []}, at(given))
        counting(saver, world, 1).invoke({"notes": []}, at("another"))
        assert len(list(saver.list(at(given)))) == 5
        assert {one.config["configurable"]["thread_id"] for one in saver.list(None)} == {given, "another"}
        assert next(iter(saver.list(at(given)))).config["configurable"]["thread_id"] == given
    assert {path.name for path in tmp_path.iterdir()} <= {"runs.db", "runs.db-wal", "runs.db-shm", "runs.db-owners"}


@pytest.mark.parametrize("key", ["x') OR 1=1 --", '"', "$.a", "%", "a\x00", "k" * 10_000])
def test_a_filter_is_data_and_matches_exactly(key: str) -> None:
    checkpoint, metadata = stored(1)
    with ForkpointSaver("memory:") as saver:
        saver.put(at("t", checkpoint_ns=""), checkpoint, metadata, {"ch": 1})
        other, _ = stored(2)
        saver.put(at("t", checkpoint_ns=""), other, {**metadata, key: 1}, {"ch": 1})
        assert [one.checkpoint["id"] for one in saver.list(at("t"), filter={key: 1})] == [other["id"]]
        assert list(saver.list(None, filter={key: 2})) == []


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thread_is_one_run_of_its_name_that_forkpoint_shows_at_rest(tmp_path: Path) -> None:
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        counting(saver, Counter()).invoke({"notes": []}, at("order-7"))

    async def look() -> None:
        async with fp.connect(tmp_path / "runs.db") as runtime:
            (row,) = (await runtime.runs()).rows
            assert (row.run, row.summary.status, row.summary.due, row.owner) == ("order-7", "idle", False, None)
            assert dict(row.summary.labels) == {"thread_id": "order-7"}
            assert (await runtime.recover()).failed == {}
            assert (await runtime.verify("order-7", fold=True)).sound
            events = [told.event for told in await (await runtime.open("order-7")).history()]
            said = [event.effect.arguments for event in events if isinstance(event, EffectRequested)]  # type: ignore[union-attr]
            writes = [one["wrote"][0] if "wrote" in one else one.get("writes", []) for one in said]
            assert [["notes", ["note 3"]] in each for each in writes].count(True) == 1

    asyncio.run(look())
    command = [sys.executable, "-m", "forkpoint", "--store", str(tmp_path / "runs.db"), "show", "order-7"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert 'checkpoint(step=3, source="loop", values={"last":3,"notes":["note 1",' in shown


def test_a_name_that_another_run_has_is_refused_and_a_prefix_helps() -> None:
    async def scenario() -> None:
        async def work(n: int) -> int:
            return n

        async with fp.connect("memory:") as runtime:
            await runtime.record("order-7", work, 1)
            async with ForkpointSaver(runtime) as saver:
                with pytest.raises(GraphRunTaken, match="the function") as refused:
                    await counting(saver, Counter()).ainvoke({"notes": []}, at("order-7"))
                assert refused.value.code == "langgraph.run-taken"
            async with ForkpointSaver(runtime, prefix="chat-") as saver:
                await counting(saver, Counter()).ainvoke({"notes": []}, at("order-7"))
                assert [one.config["configurable"]["thread_id"] async for one in saver.alist(None, limit=1)] == [
                    "order-7"
                ]
            assert {row.run for row in (await runtime.runs()).rows} == {"order-7", "chat-order-7"}

    asyncio.run(scenario())


def test_a_run_that_a_person_stopped_or_paused_takes_nothing_more() -> None:
    async def scenario() -> None:
        async with fp.connect("memory:") as runtime, ForkpointSaver(runtime) as saver:
            graph = counting(saver, Counter())
            await graph.ainvoke({"notes": []}, at("t"))
            run = await runtime.open("t")
            await run.pause("look first")
            with pytest.raises(RunIsPaused):
                await graph.ainvoke({"notes": []}, at("t"))
            await run.unpause()
            await graph.ainvoke({"notes": []}, at("t"))
            await run.stop()
            with pytest.raises(RunIsStopped):
                await graph.ainvoke({"notes": []}, at("t"))
            assert len((await graph.aget_state(at("t"))).values["notes"]) == 6

    asyncio.run(scenario())


def test_a_secret_of_the_runtime_stands_nowhere_in_the_store_and_comes_back(tmp_path: Path) -> None:
    secret = "hunter2-XYZ-123"

    async def scenario() -> None:
        async with fp.connect(tmp_path / "runs.db", secrets={"TOKEN": secret}) as runtime:
            async with ForkpointSaver(runtime) as saver:
                graph = counting(saver, Counter())
                await graph.ainvoke({"notes": [f"the token is {secret}", "x" * 9000 + secret]}, at("t"))
            async with ForkpointSaver(runtime) as saver:
                state = await counting(saver, Counter()).aget_state(at("t"))
                assert state.values["notes"][:2] == [f"the token is {secret}", "x" * 9000 + secret]

    asyncio.run(scenario())
    assert all(secret.encode() not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


def test_a_saver_may_be_used_from_any_thread_and_any_loop_and_refuses_what_would_wait_for_itself() -> None:
    async def elsewhere(graph: Any) -> Any:
        return await graph.ainvoke({"notes": []}, at("b"))

    async def on_the_runtimes_loop() -> None:
        async with fp.connect("memory:") as runtime, ForkpointSaver(runtime) as saver:
            graph = counting(saver, Counter())
            with pytest.raises(RuntimeBlocksItself):
                graph.invoke({"notes": []}, at("t"))
            assert (await asyncio.to_thread(graph.invoke, {"notes": []}, at("t")))["last"] == 3

    with ForkpointSaver("memory:") as saver:
        graph = counting(saver, Counter())
        assert graph.invoke({"notes": []}, at("a"))["last"] == 3
        assert asyncio.run(elsewhere(graph))["last"] == 3
        assert asyncio.run(elsewhere(graph))["notes"] == ["note 1", "note 2", "note 3"] * 2
    asyncio.run(on_the_runtimes_loop())


def test_a_saver_that_was_closed_says_so() -> None:
    saver = ForkpointSaver("memory:")
    saver.close()
    saver.close()
    with pytest.raises(RuntimeClosed):
        saver.get_tuple(at("t"))


# ── one writer ───────────────────────────────────────────────────────────────────────────────────────────────────────

WRITER = """
import sys, threading
from collections import Counter
from forkpoint.adapters.langgraph import ForkpointSaver
from tests.adapters.langgraph_stage import at
from langgraph.graph import StateGraph, START, END
from tests.adapters.langgraph_stage import Notes

def wait(state):
    print("here", flush=True)
    sys.stdin.readline()
    return {"notes": ["written by the other"]}

graph = StateGraph(Notes)
graph.add_node("wait", wait)
graph.add_edge(START, "wait")
saver = ForkpointSaver(sys.argv[1], idle_s=0.0)
try:
    graph.compile(checkpointer=saver).invoke({"notes": []}, at("t"), durability="sync")
    print("done", flush=True)
except Exception as error:
    print(getattr(error, "code", repr(error)), flush=True)
sys.stdin.readline()
"""


def other_process(store: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(store)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, cwd=ROOT, **pipes)  # type: ignore[call-overload]
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    made: subprocess.Popen[str] = process
    return made


def goes_on(process: "subprocess.Popen[str]") -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_while_a_graph_runs_another_process_is_told_who_has_the_thread_and_nothing_is_lost(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    with other_process(store) as process, ForkpointSaver(store, busy_s=0.0) as saver:
        with pytest.raises(RunBusy) as refused:
            counting(saver, Counter()).invoke({"notes": []}, at("t"))
        assert f"p{process.pid}-" in str(refused.value)
        assert len(list(saver.list(at("t")))) == 2
        assert goes_on(process) == "done"
        process.kill()
        assert saver.get_tuple(at("t")).checkpoint["channel_values"]["notes"] == ["written by the other"]  # type: ignore[union-attr]


def test_a_thread_whose_process_was_killed_is_taken_up_at_once(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    with other_process(store) as process:
        process.kill()
    with ForkpointSaver(store, busy_s=0.0) as saver:
        assert counting(saver, Counter()).invoke({"notes": []}, at("t"))["last"] == 3


def test_who_goes_on_from_what_another_process_left_behind_is_refused(tmp_path: Path) -> None:
    """D01: two processes extend the same ancestor; the one that comes second is told, and what was written stays."""
    store = tmp_path / "runs.db"
    with ForkpointSaver(store, idle_s=0.0) as mine, ForkpointSaver(store, idle_s=0.0, busy_s=5.0) as theirs:
        counting(mine, Counter()).invoke({"notes": []}, at("t"))
        found = mine.get_tuple(at("t"))
        assert found is not None
        counting(theirs, Counter()).invoke({"notes": []}, at("t"))
        theirs.close()
        checkpoint, metadata = stored(1)
        with pytest.raises(GraphMoved) as refused:
            mine.put(found.config, checkpoint, metadata, {"ch": 1})
        assert refused.value.code == "langgraph.moved"
        assert len(list(mine.list(at("t")))) == 10
        mine.put(found.config, checkpoint, metadata, {"ch": 1})


def test_processes_take_turns_on_a_thread_without_closing(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    with ForkpointSaver(store, busy_s=20.0) as one, ForkpointSaver(store, busy_s=20.0) as two:
        for saver in (one, two, one, two):
            counting(saver, Counter()).invoke({"notes": []}, at("t"))
        assert len(one.get_tuple(at("t")).checkpoint["channel_values"]["notes"]) == 12  # type: ignore[union-attr]


def test_a_thread_whose_tasks_were_sent_is_given_back_when_they_are_done(tmp_path: Path) -> None:
    graph = StateGraph(Notes)
    graph.add_node("send", lambda state: {})
    graph.add_node("note", lambda state: {"notes": [f"note {state['n']}"]})
    graph.add_edge(START, "send")
    graph.add_conditional_edges("send", lambda state: [Send("note", {"n": n}) for n in range(3)], ["note"])
    store = tmp_path / "runs.db"
    with ForkpointSaver(store, idle_s=0.0) as one, ForkpointSaver(store, idle_s=0.0, busy_s=20.0) as two:
        for saver in (one, two, one):
            graph.compile(checkpointer=saver).invoke({"notes": []}, at("t"))
        assert len(one.get_tuple(at("t")).checkpoint["channel_values"]["notes"]) == 9  # type: ignore[union-attr]


# ── whole threads ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_is_a_fork_that_stores_nothing_twice_and_leads_its_own_life(tmp_path: Path) -> None:
    from tests.adapters.langgraph_stage import size_of

    with ForkpointSaver(tmp_path / "runs.db") as saver:
        graph = counting(saver, Counter())
        graph.invoke({"notes": ["x" * 500_000]}, at("a"))
        before = [one.checkpoint for one in saver.list(at("a"))]
        small = size_of(tmp_path)
        saver.copy_thread("a", "b")
        graph.invoke({"notes": ["only in b"]}, at("b"))
        assert size_of(tmp_path) < small + 200_000
        assert [one.checkpoint for one in saver.list(at("a"))] == before
        assert [one.checkpoint for one in saver.list(at("b"))][5:] == before
        with pytest.raises(ForkNameTaken):
            saver.copy_thread("a", "b")
        saver.delete_thread("a")
        assert len(list(saver.list(at("b")))) == 10
        assert list(saver.list(at("a"))) == []
        graph.invoke({"notes": ["anew"]}, at("a"))
        assert saver.get_tuple(at("a")).checkpoint["channel_values"]["notes"][0] == "anew"  # type: ignore[union-attr]
        assert {one.config["configurable"]["thread_id"] for one in saver.list(None)} == {"a", "b"}


def test_what_is_pruned_is_not_listed_and_the_thread_goes_on_from_its_newest(tmp_path: Path) -> None:
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        graph = counting(saver, Counter())
        graph.invoke({"notes": []}, at("t"))
        saver.prune(["t"])
        assert len(list(saver.list(at("t")))) == 1
        assert graph.invoke({"notes": []}, at("t"))["notes"] == ["note 1", "note 2", "note 3"] * 2
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        assert len(list(saver.list(at("t")))) == 6


def test_threads_are_found_by_the_runs_filter() -> None:
    async def scenario() -> None:
        async with fp.connect("memory:") as runtime, ForkpointSaver(runtime) as saver:
            for name in ("a", "b"):
                await counting(saver, Counter()).ainvoke({"notes": []}, at(name))
            page = await runtime.runs(RunFilter(labels={"thread_id": "b"}))
            assert [row.run for row in page.rows] == ["b"]
            assert len((await runtime.runs(RunFilter(agent="langgraph"))).rows) == 2

    asyncio.run(scenario())


def test_a_journal_of_ones_own_may_be_given() -> None:
    with ForkpointSaver(open_store("memory:")) as saver:
        assert counting(saver, Counter()).invoke({"notes": []}, at("t"))["last"] == 3


def test_what_is_changed_in_place_is_seen_when_the_graph_rests_at_the_latest() -> None:
    """LangGraph asks that nothing is; in between, what is the same object is not written, or compared, again."""
    with ForkpointSaver("memory:") as saver:
        notes: list[Any] = [{"text": f"note {number}"} for number in range(40)]
        parent = at("t", checkpoint_ns="")

        def put(version: int, **more: Any) -> Any:
            checkpoint, metadata = stored(list(notes))
            checkpoint["channel_values"] |= more
            checkpoint["channel_versions"] = dict.fromkeys(checkpoint["channel_values"], version)
            config = saver.put(parent, checkpoint, metadata, {"ch": version})
            found = saver.get_tuple(config)
            assert found is not None
            return found.checkpoint["channel_values"]["ch"]

        put(1, **{"branch:to:n": None})
        notes[39]["text"] = "one of the last"
        assert put(2, **{"branch:to:n": None}) == notes
        notes[0]["text"] = "the first"
        notes.append({"text": "one more"})
        assert put(3, **{"branch:to:n": None})[1:] == notes[1:]
        assert put(4) == notes


def test_a_graph_whose_sent_tasks_have_run_rests_and_what_was_changed_in_place_is_seen() -> None:
    """An agent with tools sends its calls as tasks."""
    with ForkpointSaver("memory:") as saver:
        notes: list[Any] = [{"text": f"note {number}"} for number in range(40)]
        parent = at("t", checkpoint_ns="")

        def put(version: int, sent: list[Any]) -> Any:
            checkpoint, metadata = stored(list(notes))
            checkpoint["channel_values"] |= {"__pregel_tasks": sent}
            checkpoint["channel_versions"] = dict.fromkeys(checkpoint["channel_values"], version)
            found = saver.get_tuple(saver.put(parent, checkpoint, metadata, {"ch": version, "__pregel_tasks": version}))
            assert found is not None
            return found.checkpoint["channel_values"]["ch"]

        put(1, [Send("tools", "look")])
        notes[0]["text"] = "the first"
        assert put(2, [Send("tools", "look")])[1:] == notes[1:]
        assert put(3, []) == notes


class Watched(AIMessage):
    """A message that says when it is written."""

    written: ClassVar[list[str]] = []

    def model_dump(self, **options: Any) -> dict[str, Any]:
        self.written.append(str(self.id))
        return super().model_dump(**options)


def test_a_message_that_is_shown_again_is_not_written_again_unless_it_was_changed_in_place() -> None:
    written = Watched.written
    with ForkpointSaver("memory:", allow=[Watched]) as saver:
        parent, said = at("t", checkpoint_ns=""), [Watched(f"words, many words, {n}" * 9, id=str(n)) for n in range(20)]

        def put(version: int, *, rests: bool = False) -> list[str]:
            checkpoint, metadata = stored(list(said))
            checkpoint["channel_values"] |= {} if rests else {"branch:to:n": None}
            checkpoint["channel_versions"] = dict.fromkeys(checkpoint["channel_values"], version)
            written.clear()
            saver.put(parent, checkpoint, metadata, {"ch": version})
            return list(written)

        assert put(1) == [str(number) for number in range(20)]
        said.append(Watched("the next words, many words" * 9, id="20"))
        assert put(2) == ["20"]
        said[10].content = "other words, many words" * 9
        said[15].additional_kwargs["more"] = "words"
        said[18] = Watched("exchanged, with many words" * 9, id="18")
        assert put(3) == ["10", "15", "18"]
        assert put(4) == []
        said[16].additional_kwargs["n"] = 1
        assert put(5) == ["16"]
        said[16].additional_kwargs["n"] = True
        assert put(6) == ["16"]
        assert put(7) == []
        assert put(8, rests=True) == []
        said[0].content = "seen at rest, if not before" * 9
        assert put(9) == []
        assert put(10, rests=True) == ["0"]
