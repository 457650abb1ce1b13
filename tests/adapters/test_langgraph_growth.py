"""How many bytes a thread's run grows by: what is new, whatever went before; beside what LangGraph's own saver adds."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="the extra 'langgraph' is not installed")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from tests.adapters.langgraph_stage import Talk, at, size_of

from forkpoint.adapters.langgraph import ForkpointSaver

NEW_BYTES = 4_000


def talking(saver: Any, steps: int) -> None:
    """One message of ``NEW_BYTES`` a step; each is another text."""

    def say(state: Talk) -> dict[str, Any]:
        number = len(state["messages"])
        words = f"{number:08d} " * (NEW_BYTES // 9)
        return {"messages": [AIMessage(words, id=f"lc_run-{number}")]}

    graph = StateGraph(Talk)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: "say" if len(state["messages"]) <= steps else END, ["say", END])
    config = {**at("t"), "recursion_limit": 2 * steps + 10}
    graph.compile(checkpointer=saver).invoke({"messages": [HumanMessage("go", id="h")]}, config, durability="sync")


def grown(folder: Path, steps: int) -> int:
    folder.mkdir()
    with ForkpointSaver(folder / "runs.db") as saver:
        talking(saver, steps)
    return size_of(folder)


@contextmanager
def theirs(folder: Path) -> Iterator[Any]:
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="needs langgraph-checkpoint-sqlite")
    folder.mkdir()
    with closing(sqlite3.connect(folder / "theirs.db", check_same_thread=False)) as connection:
        yield sqlite.SqliteSaver(connection)


def test_a_step_costs_what_is_new_in_it_however_many_went_before(tmp_path: Path) -> None:
    ten, hundred, thousand = (grown(tmp_path / str(steps), steps) for steps in (20, 120, 520))
    early, late = (hundred - ten) / 100, (thousand - hundred) / 400
    assert late <= early * 1.1
    assert late <= NEW_BYTES * 1.5


def test_a_step_costs_at_most_a_fifth_of_what_langgraphs_own_saver_adds(tmp_path: Path) -> None:
    ours = grown(tmp_path / "ours-50", 50) - grown(tmp_path / "ours-25", 25)
    sizes = []
    for steps in (25, 50):
        with theirs(tmp_path / f"theirs-{steps}") as saver:
            talking(saver, steps)
        sizes.append(size_of(tmp_path / f"theirs-{steps}"))
    assert ours <= (sizes[1] - sizes[0]) / 5


def test_a_new_process_goes_on_without_writing_again_what_is_there(tmp_path: Path) -> None:
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        talking(saver, 200)
    before = size_of(tmp_path)
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        talking(saver, 201)
    assert size_of(tmp_path) - before <= 60_000


def test_a_branch_costs_what_is_new_in_it(tmp_path: Path) -> None:
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        talking(saver, 100)
    before = size_of(tmp_path)
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        middle = [one.config for one in saver.list(at("t"))][50]
        graph = StateGraph(Talk)
        graph.add_node("say", lambda state: {"messages": [AIMessage("another end", id="end")]})
        graph.add_edge(START, "say")
        graph.compile(checkpointer=saver).invoke({"messages": [HumanMessage("and?", id="h2")]}, middle)
    assert size_of(tmp_path) - before <= 30_000


def test_a_mapping_that_grows_costs_what_it_grows_by(tmp_path: Path) -> None:
    from typing import Annotated, TypedDict

    class Files(TypedDict):
        files: Annotated[dict[str, Any], lambda old, new: {**old, **new}]

    def write(state: Files) -> dict[str, Any]:
        number = len(state["files"])
        return {"files": {f"file-{number}.py": {"content": [f"line {number:04d}.{n}" for n in range(100)]}}}

    def size_after(steps: int) -> int:
        folder = tmp_path / str(steps)
        folder.mkdir()
        graph = StateGraph(Files)
        graph.add_node("write", write)
        graph.add_edge(START, "write")
        graph.add_conditional_edges("write", lambda state: "write" if len(state["files"]) < steps else END)
        config = {**at("t"), "recursion_limit": 2 * steps + 10}
        with ForkpointSaver(folder / "runs.db") as saver:
            graph.compile(checkpointer=saver).invoke({"files": {}}, config)
        return size_of(folder)

    few, more, most = size_after(20), size_after(60), size_after(140)
    assert (most - more) / 80 <= (more - few) / 40 * 1.1
