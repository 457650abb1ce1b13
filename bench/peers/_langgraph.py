"""What the LangGraph peers share: a saver with its durability set, and the agent loop as a graph."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from bench.cost import Cost, measured
from bench.effect import CRASH_STEPS, effect
from bench.peers import SYNCHRONOUS, Durability, Figure
from bench.script import PROMPT, Script, script

Graph = CompiledStateGraph[Any, Any, Any, Any]
Performed = Callable[[int], None]

DURABILITY_SET_BY = 'PRAGMA synchronous on the connection given to SqliteSaver (WAL); durability="sync"'
_HALF = "half.txt"


@contextmanager
def saver(folder: Path, durability: Durability) -> Iterator[SqliteSaver]:
    """A SqliteSaver on a connection of ours, which is how its documentation gives it settings."""
    with closing(sqlite3.connect(folder / "langgraph.db", check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        yield SqliteSaver(connection)


class GraphPeer:
    """A model node and a tool node in turn, over one list of messages kept in a channel."""

    durability_set_by = DURABILITY_SET_BY

    def __init__(self, state: type) -> None:
        self._state = state
        self.figures: dict[str, Figure] = {
            "first_step_ms": self._first_step,
            "state_half_ms": self._state_half,
            "history_ms": self._history,
        }

    def run(self, *, steps: int, durability: Durability, folder: Path) -> Cost:
        work = script(steps)
        with saver(folder, durability) as store:
            graph = _compiled(self._state, store, work)
            with measured() as cost:
                _invoke(graph, [_plain({"role": "user", "content": PROMPT})], steps)
        return cost

    def prepare(self, *, steps: int, folder: Path) -> None:
        self.run(steps=steps // 2, durability="normal", folder=folder)
        with saver(folder, "normal") as store:
            graph = _compiled(self._state, store, script(steps))
            half = graph.get_state(_config(steps)).config["configurable"]["checkpoint_id"]
            _invoke(graph, [], steps)
        # Someone who wants step 500 must know its checkpoint: the search for it is not charged.
        (folder / _HALF).write_text(half)

    def crash(self, *, folder: Path, witness: Path) -> None:
        with saver(folder, "full") as store:
            graph = _compiled(self._state, store, script(CRASH_STEPS), lambda number: effect(number, witness))
            _invoke(graph, [_plain({"role": "user", "content": PROMPT})], CRASH_STEPS)

    def recover(self, *, folder: Path, witness: Path) -> str:
        with saver(folder, "full") as store:
            graph = _compiled(self._state, store, script(CRASH_STEPS), lambda number: effect(number, witness))
            pending = graph.get_state(_config(CRASH_STEPS)).next
            graph.invoke(None, _config(CRASH_STEPS), durability="sync")
        return f"next={pending!r} before invoke(None), which ran that node again from its start"

    def _first_step(self, folder: Path, steps: int) -> float:
        work = script(steps + 100)
        with measured() as cost, saver(folder, "normal") as store:
            graph = _compiled(self._state, store, work, stop_after_one=True)
            _invoke(graph, [], steps)
        return cost.wall_ms

    def _state_half(self, folder: Path, steps: int) -> float:
        half = (folder / _HALF).read_text()
        config = _config(steps)
        config["configurable"]["checkpoint_id"] = half
        with measured() as cost, saver(folder, "normal") as store:
            messages = _compiled(self._state, store, ()).get_state(config).values["messages"]
        assert len(messages) == 1 + steps
        return cost.wall_ms

    def _history(self, folder: Path, steps: int) -> float:
        with measured() as cost, saver(folder, "normal") as store:
            states = list(_compiled(self._state, store, ()).get_state_history(_config(steps)))
        assert len(states) >= 2 * steps
        return cost.wall_ms


def _config(steps: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": "run"}, "recursion_limit": 2 * steps + 10}


def _plain(message: dict[str, object]) -> dict[str, object]:
    # A dictionary with a `role` would be turned into LangChain's message class in a delta channel, which costs
    # more CPU and bytes; this key of the same length keeps it as it is, in LangGraph's favour.
    return {"from": message["role"], **{key: value for key, value in message.items() if key != "role"}}


def _invoke(graph: Graph, messages: list[dict[str, object]], steps: int) -> None:
    graph.invoke({"messages": messages}, _config(steps), durability="sync")


def _compiled(
    state: type,
    store: SqliteSaver,
    work: Script,
    performed: Performed = lambda number: None,
    *,
    stop_after_one: bool = False,
) -> Graph:
    def model(state: dict[str, Any]) -> dict[str, Any]:
        step = work[(len(state["messages"]) - 1) // 2]
        return {"messages": [_plain(step.assistant())]}

    def tool(state: dict[str, Any]) -> dict[str, Any]:
        step = work[(len(state["messages"]) - 2) // 2]
        performed(step.number)
        answer = {"role": "tool", "tool_call_id": step.call_id, "content": step.result}
        return {"messages": [_plain(answer)]}

    def after_tool(state: dict[str, Any]) -> str:
        return END if stop_after_one or len(state["messages"]) > 2 * len(work) else "model"

    graph = StateGraph(state)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tool")
    graph.add_conditional_edges("tool", after_tool, ["model", END])
    return graph.compile(checkpointer=store)
