"""``recorded_node`` and ``recorded_model``: graphs that are no agents; and what is there without the extra."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="the extra 'langgraph' is not installed")

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from tests.adapters.langgraph_stage import Notes, Talk, at, model_at, pays

import forkpoint as fp
from forkpoint.adapters.langgraph import ForkpointMiddleware, ForkpointSaver, recorded_model, recorded_node
from forkpoint.errors import RunWaits
from forkpoint.errors.langgraph import GraphValueUnsafe
from forkpoint.events import EffectRequested
from forkpoint.testing.provider_server import ProviderServer


def in_a_row(saver: Any = None, **nodes: Any) -> Any:
    graph = StateGraph(Notes)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for one, other in zip([START, *nodes], [*nodes, END], strict=True):
        graph.add_edge(one, other)
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_a_recorded_node_is_performed_once_and_gives_what_was_recorded(sync: bool) -> None:
    async def scenario() -> None:
        world: Counter[str] = Counter()

        def charge(state: Notes, config: RunnableConfig) -> dict[str, Any]:
            """Charge."""
            world[f"charge for {config['configurable']['customer']}"] += 1
            return {"notes": [f"charged after {len(state['notes'])}"], "last": (1, 2)}

        async def acharge(state: Notes, config: RunnableConfig) -> dict[str, Any]:
            """Charge."""
            return charge(state, config)

        node = recorded_node(charge if sync else acharge, name="charge")
        graph = in_a_row(charge=node, again=recorded_node(charge, name="charge") if sync else node)
        config = at("t", customer="ann")
        seen: list[Any] = []

        def plain(note: str) -> None:
            seen.append(graph.invoke({"notes": [note]}, config))
            raise ValueError("again")

        async def awaited(note: str) -> None:
            seen.append(await graph.ainvoke({"notes": [note]}, config))
            raise ValueError("again")

        async with fp.connect("memory:") as runtime:
            for _ in range(2):
                with pytest.raises(ValueError, match="again"):
                    await runtime.record("r", plain if sync else awaited, "begun")
        assert world == {"charge for ann": 2}
        assert seen == [{"notes": ["begun", "charged after 1", "charged after 2"], "last": [1, 2]}] * 2
        outside = await graph.ainvoke({"notes": []}, config) if not sync else graph.invoke({"notes": []}, config)
        assert outside["last"] == (1, 2)
        assert node.__name__ == ("charge" if sync else "acharge")

    asyncio.run(scenario())


def test_a_node_that_was_lost_waits_for_a_person_whose_finding_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        hangs, world = asyncio.Event(), Counter[str]()

        async def charge(state: Notes) -> dict[str, Any]:
            world["charge"] += 1
            hangs.set()
            await asyncio.Event().wait()
            return {}

        async def work(note: str) -> list[str]:
            return list((await in_a_row(charge=recorded_node(charge)).ainvoke({"notes": [note]}))["notes"])

        first = fp.connect(tmp_path / "runs.db", grace_s=0.0)
        cut = asyncio.create_task(first.record("r", work, "begun"))
        await hangs.wait()
        await first.edge.journal.abandon()  # type: ignore[attr-defined]
        cut.cancel()
        await asyncio.gather(cut, return_exceptions=True)
        async with fp.connect(tmp_path / "runs.db") as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("r", work, "begun")
            run = await runtime.open("r")
            (wait,) = await run.waits()
            await run.resolve(wait.effect, "occurred", output={"notes": ["it was charged"]})
            assert await runtime.record("r", work, "begun") == ["begun", "it was charged"]
        assert world == {"charge": 1}

    asyncio.run(scenario())


def test_a_node_that_asks_somebody_is_no_failure_and_its_state_costs_no_more_as_it_grows() -> None:
    async def scenario() -> None:
        world: Counter[str] = Counter()

        def ask(state: Notes) -> dict[str, Any]:
            world["asked"] += 1
            return {"notes": [interrupt("sure?")]}

        async with fp.connect("memory:") as runtime, ForkpointSaver(runtime) as saver:
            graph = in_a_row(saver, ask=recorded_node(ask))

            async def begin(note: str) -> str:
                return str((await graph.ainvoke({"notes": [note * 100_000]}, at("t")))["__interrupt__"][0].value)

            async def go_on(answer: str) -> str:
                return str((await graph.ainvoke(Command(resume=answer), at("t")))["notes"][-1])

            assert await runtime.record("r1", begin, "x") == "sure?"
            assert await runtime.record("r2", go_on, "yes") == "yes"
            events = await (await runtime.open("r1")).history()
            (asked,) = [one for one in events if isinstance(one.event, EffectRequested) and "ask" in str(one.event)]
            assert len(str(asked.event)) < 1000
        assert world == {"asked": 2}

    asyncio.run(scenario())


def test_a_state_without_a_safe_form_is_refused_before_anything_is_performed() -> None:
    async def scenario() -> None:
        def work(state: Any) -> dict[str, Any]:
            raise AssertionError("it is not performed")

        async def whole(note: str) -> None:
            await asyncio.to_thread(in_a_row(work=recorded_node(work)).invoke, {"notes": [object()]})

        async with fp.connect("memory:") as runtime:
            with pytest.raises(GraphValueUnsafe, match="the state that 'work' is given holds"):
                await runtime.record("r", whole, "x")

    asyncio.run(scenario())


def test_a_graph_of_ones_own_with_a_recorded_model_and_a_tool_node() -> None:
    async def scenario() -> None:
        world: Counter[str] = Counter()

        def search(q: str) -> str:
            """Search."""
            world["search"] += 1
            return f"found {q}"

        def mail(to: str) -> str:
            """Mail."""
            world["mail"] += 1
            return f"mailed {to}"

        with ProviderServer(pays) as server:
            model = recorded_model(model_at(server, temperature=0.2), agent="clerk").bind_tools([search, mail])
            through = ForkpointMiddleware(read_only={"search"})

            async def say(state: Talk) -> dict[str, Any]:
                return {"messages": [await model.ainvoke(state["messages"])]}

            graph = StateGraph(Talk)
            graph.add_node("say", say)
            tools = ToolNode(
                [search, mail], wrap_tool_call=through.wrap_tool_call, awrap_tool_call=through.awrap_tool_call
            )
            graph.add_node("tools", tools)
            graph.add_edge(START, "say")
            graph.add_conditional_edges(
                "say", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
            )
            graph.add_edge("tools", "say")
            app = graph.compile()

            async def answer(question: str) -> str:
                found = await app.ainvoke({"messages": [HumanMessage(question)]})
                assert [type(one) for one in found["messages"][2:4]] == [ToolMessage, ToolMessage]
                return str(found["messages"][-1].text)

            async with fp.connect("memory:") as runtime:
                for _ in range(2):
                    assert await runtime.record("r", answer, "17") == "done: found 17; mailed bob"
                state = await (await runtime.open("r")).state()
                assert (state.agent.name, state.agent.model) == ("clerk", "openai:gpt-4o")
                assert state.agent.settings == {"temperature": 0.2}
                assert state.spent.usage.input_tokens > 0
            assert len(server.requests) == 2
        assert world == {"search": 1, "mail": 1}

    asyncio.run(scenario())


def test_a_graph_without_recording_costs_the_core_nothing_and_a_missing_extra_is_said() -> None:
    code = """
import sys
import forkpoint
assert not [name for name in sys.modules if name.startswith(("langgraph", "langchain"))]
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
from forkpoint.errors import AdapterMissing
try:
    from forkpoint.adapters import langgraph
    langgraph.ForkpointSaver
    langgraph.ForkpointMiddleware
except AdapterMissing as error:
    print(error.code, error)
"""
    for names, what in (("langgraph", "The LangGraph adapter"), ("langchain", "ForkpointMiddleware")):
        command = [sys.executable, "-W", "error", "-c", code, names]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said.startswith(f"adapter.missing {what} needs the extra 'langgraph'")
