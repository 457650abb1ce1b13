"""Time travel in a thread's run: LangGraph's own, Forkpoint's, and both after each other; interrupts and subgraphs."""

import asyncio
import json
import operator
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph", reason="the extra 'langgraph' is not installed")

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from tests.adapters.langgraph_stage import Notes, at, counting

import forkpoint as fp
from forkpoint.adapters.langgraph import ForkpointSaver

ROOT = Path(__file__).parents[2]


def digest_of(store: Path, run: str, upto: int | None = None) -> tuple[int, bytes]:
    """A run's head and the digest of its event ``upto``, or of its last."""

    async def look() -> tuple[int, bytes]:
        async with fp.connect(store) as runtime:
            row = await runtime.edge.reader.row(run)
            return row.head, await runtime.edge.reader.digest_at(run, upto or row.head)

    return asyncio.run(look())


# ── LangGraph's own ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_step_can_be_listed_and_read_as_it_was(tmp_path: Path) -> None:
    """A27: reading at step 3 of 9 gives exactly what steps 1 to 3 left."""
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        counting(saver, Counter(), 9).invoke({"notes": []}, at("t"))
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        graph = counting(saver, Counter(), 9)
        history = list(graph.get_state_history(at("t")))
        assert [state.metadata["step"] for state in history] == list(range(9, -2, -1))
        third = next(state for state in history if state.metadata["step"] == 3)
        again = graph.get_state(third.config)
        assert again.values == {"notes": ["note 1", "note 2", "note 3"], "last": 3}
        assert again.next == ("n4",)
        assert [state.config for state in graph.get_state_history(at("t"), before=third.config, limit=2)] == [
            state.config for state in history if state.metadata["step"] in (1, 2)
        ][:2]
        assert graph.get_state(at("t", checkpoint_id="no such")).values == {}


def test_going_on_from_an_earlier_checkpoint_branches_and_leaves_the_origin(tmp_path: Path) -> None:
    """A12: two branches from step 1, each with ids of its own; every event that was there is as it was."""
    store, world = tmp_path / "runs.db", Counter[str]()
    with ForkpointSaver(store) as saver:
        counting(saver, world).invoke({"notes": []}, at("t"))
    before = digest_of(store, "t")
    with ForkpointSaver(store) as saver:
        graph = counting(saver, world)
        first = next(state for state in graph.get_state_history(at("t")) if state.metadata["step"] == 1)
        leaf = graph.get_state(at("t")).config
        for _ in range(2):
            assert graph.invoke(None, first.config) == {"notes": ["note 1", "note 2", "note 3"], "last": 3}
        assert world == {"n1": 1, "n2": 3, "n3": 3}
        history = list(graph.get_state_history(at("t")))
        ids = [state.config["configurable"]["checkpoint_id"] for state in history]
        assert len(set(ids)) == len(ids) == 11
        parents = [state.parent_config["configurable"]["checkpoint_id"] for state in history if state.parent_config]
        assert len([one for one in ids if one not in parents]) == 3
        assert graph.get_state(leaf).values["notes"] == ["note 1", "note 2", "note 3"]
    assert digest_of(store, "t", before[0]) == (digest_of(store, "t")[0], before[1])


def test_an_update_of_an_earlier_state_replaces_and_removes_where_it_says_so(tmp_path: Path) -> None:
    """A14, A15: a message is replaced by its id, one is removed, and the blocks of another stay as they were."""

    class Talk(TypedDict):
        messages: Annotated[list[Any], add_messages]

    blocks: list[Any] = [
        {"type": "text", "text": "see", "annotations": [{"start": 1}]},
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
    ]
    graph = StateGraph(Talk)
    graph.add_node("say", lambda state: {"messages": [AIMessage(blocks, id="a")]})
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        app = graph.compile(checkpointer=saver)
        app.invoke({"messages": [HumanMessage("one", id="h1"), HumanMessage("two", id="h2")]}, at("t"))
        edited = app.update_state(at("t"), {"messages": [HumanMessage("2", id="h2"), RemoveMessage(id="h1")]})
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        app = graph.compile(checkpointer=saver)
        told = app.get_state(edited).values["messages"]
        assert told == [HumanMessage("2", id="h2"), AIMessage(blocks, id="a")]
        assert told[1].content == blocks
        before = next(state for state in app.get_state_history(at("t")) if state.metadata["source"] == "loop")
        assert [one.content for one in before.values["messages"]] == ["one", "two", blocks]


def test_a_question_is_asked_again_where_the_graph_goes_back_before_it(tmp_path: Path) -> None:
    """A09: the old answer is not inherited; C10: each question has its own answer."""

    def ask(state: Notes) -> dict[str, Any]:
        return {"notes": [interrupt("sure?"), interrupt("really?")]}

    graph = StateGraph(Notes)
    graph.add_node("before", lambda state: {"notes": ["began"]})
    graph.add_node("ask", ask)
    graph.add_edge(START, "before")
    graph.add_edge("before", "ask")
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        app = graph.compile(checkpointer=saver)
        assert app.invoke({"notes": []}, at("t"))["__interrupt__"][0].value == "sure?"
        assert app.invoke(Command(resume="yes"), at("t"))["__interrupt__"][0].value == "really?"
        assert app.invoke(Command(resume="yes!"), at("t"))["notes"] == ["began", "yes", "yes!"]
        early = [state for state in app.get_state_history(at("t")) if state.next == ("ask",)][-1]
        assert app.invoke(None, early.config)["__interrupt__"][0].value == "sure?"
        assert app.invoke(Command(resume="no"), at("t"))["__interrupt__"][0].value == "really?"
        assert app.invoke(Command(resume="no!"), at("t"))["notes"] == ["began", "no", "no!"]


def test_a_subgraph_is_as_it_was_where_its_parent_goes_back(tmp_path: Path) -> None:
    """A11: a child with a memory of its own, called twice; before the first call it has none, between them one note."""

    class Child(TypedDict):
        seen: Annotated[list[str], operator.add]

    child = StateGraph(Child)
    child.add_node("remember", lambda state: {"seen": [f"call {len(state['seen']) + 1}"]})
    child.add_edge(START, "remember")
    inner = child.compile(checkpointer=True)

    class Parent(TypedDict):
        told: list[int]

    def node(state: Parent) -> dict[str, Any]:
        return {"told": [*state["told"], len(inner.invoke({"seen": []})["seen"])]}

    graph = StateGraph(Parent)
    graph.add_node("calls", node)
    graph.add_node("between", lambda state: {})
    graph.add_edge(START, "calls")
    graph.add_conditional_edges("calls", lambda state: "between" if len(state["told"]) < 2 else END, ["between", END])
    graph.add_edge("between", "calls")
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        app = graph.compile(checkpointer=saver)
        assert app.invoke({"told": []}, at("t"))["told"] == [1, 2]
        first, second = [one for one in list(app.get_state_history(at("t")))[::-1] if one.next == ("calls",)]
        assert app.invoke(None, first.config)["told"] == [1, 2]
        assert app.invoke(None, second.config)["told"] == [1, 2]


@pytest.mark.skipif(
    [int(part) for part in version("langgraph").split(".")[:3]] < [1, 2, 16],
    reason="LangGraph's own saving of delta channels may wait for itself for ever before 1.2.16",
)
def test_a_delta_channel_is_made_again_from_its_writes_also_after_pruning(tmp_path: Path) -> None:
    def extended(before: list[str], writes: Any) -> list[str]:
        return [*before, *(item for write in writes for item in write)]

    class Deltas(TypedDict):
        notes: Annotated[list[str], DeltaChannel(extended, snapshot_frequency=4)]

    graph = StateGraph(Deltas)
    graph.add_node("add", lambda state: {"notes": [f"note {len(state['notes'])}"]})
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: "add" if len(state["notes"]) < 11 else END, ["add", END])
    expected = [f"note {number}" for number in range(11)]
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        assert graph.compile(checkpointer=saver).invoke({"notes": []}, at("t"))["notes"] == expected
    for prunes in (False, True):
        with ForkpointSaver(tmp_path / "runs.db") as saver:
            app = graph.compile(checkpointer=saver)
            assert app.get_state(at("t")).values["notes"] == expected
            if prunes:
                saver.prune(["t"])
                assert app.get_state(at("t")).values["notes"] == expected
            lengths = [len(state.values["notes"]) for state in app.get_state_history(at("t"))]
            assert lengths == ([11] if prunes else [*range(11, -1, -1), 0])


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_of_langgraph_leaves_the_same_state(durability: Any, tmp_path: Path) -> None:
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        counting(saver, Counter()).invoke({"notes": ["a"]}, at("t"), durability=durability)
        asyncio.run(counting(saver, Counter()).ainvoke({"notes": ["b"]}, at("t"), durability=durability))
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        state = counting(saver, Counter()).get_state(at("t"))
        assert state.values["notes"] == ["a", "note 1", "note 2", "note 3", "b", "note 1", "note 2", "note 3"]
        assert state.next == ()


def test_what_a_task_did_before_another_failed_is_not_done_again(tmp_path: Path) -> None:
    """B01: of parallel tasks, the writes of those that ended are kept; only the one that failed runs again."""
    world, fails = Counter[str](), [True]

    def good(state: Notes) -> dict[str, Any]:
        world["good"] += 1
        return {"notes": ["good"]}

    def bad(state: Notes) -> dict[str, Any]:
        world["bad"] += 1
        if fails:
            raise ValueError(fails.pop())
        return {"notes": ["bad"]}

    graph = StateGraph(Notes)
    graph.add_node("good", good)
    graph.add_node("bad", bad)
    graph.add_edge(START, "good")
    graph.add_edge(START, "bad")
    with ForkpointSaver(tmp_path / "runs.db") as saver, pytest.raises(ValueError, match="True"):
        graph.compile(checkpointer=saver).invoke({"notes": []}, at("t"), durability="sync")
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        assert sorted(graph.compile(checkpointer=saver).invoke(None, at("t"))["notes"]) == ["bad", "good"]
    assert world == {"good": 1, "bad": 2}


def test_the_functional_api_goes_on_where_its_tasks_ended(tmp_path: Path) -> None:
    world: Counter[str] = Counter()

    @task
    def slow(n: int) -> int:
        world["slow"] += 1
        return n + 1

    def flow(saver: Any) -> Any:
        @entrypoint(checkpointer=saver)
        def whole(n: int, *, previous: Any = None) -> Any:
            made = slow(n).result()
            return entrypoint.final(value=[made, interrupt("go on?"), previous], save=made)

        return whole

    with ForkpointSaver(tmp_path / "runs.db") as saver:
        flow(saver).invoke(1, at("t"))
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        assert flow(saver).invoke(Command(resume="yes"), at("t")) == [2, "yes", None]
        flow(saver).invoke(5, at("t"))
        assert flow(saver).invoke(Command(resume="ok"), at("t")) == [6, "ok", 2]
    assert world == {"slow": 2}


# ── in another process ───────────────────────────────────────────────────────────────────────────────────────────────

NESTED = """
import json, sys
from typing import Annotated, Any
from langgraph.graph import StateGraph, START, END
from langgraph.types import Command, interrupt
from forkpoint.adapters.langgraph import ForkpointSaver
from tests.adapters.langgraph_stage import Notes, at

def note(what):
    with open(sys.argv[2], "a") as witness:
        witness.write(what + "\\n")

def work(state):
    note("work")
    return {"notes": ["worked"]}

def ask(state):
    return {"notes": [interrupt({"sure": state["notes"]})]}

inner = StateGraph(Notes)
inner.add_node("work", work)
inner.add_node("ask", ask)
inner.add_edge(START, "work")
inner.add_edge("work", "ask")
outer = StateGraph(Notes)
outer.add_node("child", inner.compile())
outer.add_node("after", lambda state: {"notes": ["after"]})
outer.add_edge(START, "child")
outer.add_edge("child", "after")
with ForkpointSaver(sys.argv[1]) as saver:
    app = outer.compile(checkpointer=saver)
    given = Command(resume=sys.argv[3]) if len(sys.argv) > 3 else {"notes": ["start"]}
    found = app.invoke(given, at("t"))
    asks = [one.value for one in found.get("__interrupt__", ())]
    states = app.get_state(at("t"), subgraphs=True)
    inner_next = [list(one.state.next) for one in states.tasks if one.state]
    print(json.dumps({"notes": found["notes"], "asks": asks, "next": list(states.next), "inner": inner_next}))
"""


def test_a_graph_with_a_subgraph_that_asks_goes_on_in_another_process(tmp_path: Path) -> None:
    def process(*words: str) -> Any:
        given = [str(tmp_path / "runs.db"), str(tmp_path / "witness"), *words]
        command = [sys.executable, "-W", "error", "-c", NESTED, *given]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)

    first = process()
    assert first["asks"] == [{"sure": ["start", "worked"]}]
    assert (first["next"], first["inner"]) == (["child"], [["ask"]])
    assert process("yes")["notes"] == ["start", "start", "worked", "yes", "after"]
    assert (tmp_path / "witness").read_text() == "work\n"


# ── Forkpoint's ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_of_a_threads_run_is_a_thread_with_the_past_up_to_the_fork_point(tmp_path: Path) -> None:
    """A16, A22: forks of forks, each with its own life; inherited checkpoints are checkpoints like any other."""

    async def scenario() -> None:
        async with fp.connect(tmp_path / "runs.db") as runtime, ForkpointSaver(runtime) as saver:
            graph, world = counting(saver, Counter()), Counter[str]()
            await graph.ainvoke({"notes": []}, at("t"), durability="sync")
            run = await runtime.open("t")
            states = [one async for one in graph.aget_state_history(at("t"))]
            point = await saver.afork_point(next(one.config for one in states if (one.metadata or {})["step"] == 2))
            assert point is not None and point.run == "t"
            at_two = point.seq
            assert await saver.afork_point(at("no such")) is None
            child = await run.fork(at_two)
            state = await graph.aget_state(at(child.id))
            assert (state.values["notes"], state.next) == (["note 1", "note 2"], ("n3",))
            assert state.config["configurable"]["thread_id"] == child.id == "t.fork-1"
            again = counting(saver, world)
            assert (await again.ainvoke(None, at(child.id)))["notes"] == ["note 1", "note 2", "note 3"]
            assert world == {"n3": 1}
            await again.ainvoke({"notes": ["more"]}, at(child.id))
            grandchild = await (await runtime.open(child.id)).fork(run_id="g")
            early = [one async for one in again.aget_state_history(at("g"))][-3]
            assert (early.metadata or {})["step"] == 1
            assert (await again.ainvoke(None, early.config))["notes"] == ["note 1", "note 2", "note 3"]
            assert [str(point) for point in await grandchild.lineage()][1] == f"t@{at_two}"
            assert len([one async for one in graph.aget_state_history(at("t"))]) == 5
            compared = await runtime.compare("t", child.id)
            assert compared.shared is not None
            assert (await runtime.verify(fold=True)).sound

    asyncio.run(scenario())


def test_a_fork_at_any_event_is_a_thread_that_goes_on(tmp_path: Path) -> None:
    """A18: also in the middle of a commit."""

    async def scenario() -> None:
        async with fp.connect("memory:") as runtime, ForkpointSaver(runtime) as saver:
            graph = counting(saver, Counter())
            await graph.ainvoke({"notes": []}, at("t"))
            run = await runtime.open("t")
            head = (await run.row()).head
            for seq in range(3, head + 1):
                child = await run.fork(seq)
                assert (await child.row()).summary.status == "idle"
                assert (await graph.ainvoke({"notes": ["x"]}, at(child.id)))["last"] == 3

    asyncio.run(scenario())
