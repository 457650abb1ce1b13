"""The LangGraph graph that `bench.loops` measures, LangChain's own agent, and it alone: nothing is kept of it."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain.agents import AgentState, create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import StructuredTool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import _messages_delta_reducer
from langgraph.graph.state import CompiledStateGraph

from bench.loops_clock import Clock
from bench.loops_listed import LANGGRAPH, LANGGRAPH_ASYNC, LANGGRAPH_DELTA, Counted, Loop, Perform
from bench.peers import Durability
from bench.script import PROMPT, TOOL, Script

GIVEN = {"messages": [{"role": "user", "content": PROMPT}]}

Graph = CompiledStateGraph[Any, Any, Any, Any]
Saver = Callable[..., AbstractContextManager[Any]]
"""Opens a checkpointer: given `folder`, `durability`, and the `runner` whose event loop an async graph runs on."""


class Scripted(GenericFakeChatModel):
    """LangChain's own fake model, which does not mind being told of tools."""

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> "Scripted":
        """The model itself: its words are given."""
        return self


class Deltas(AgentState[Any]):
    """The agent's state with its messages in LangGraph's delta channel (beta)."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class Stage:
    """What the model says and the tool answers in the run that is performed now."""

    def __init__(self) -> None:
        self.model = Scripted(messages=iter(()))
        self._work: Script = ()
        self._clock = Clock()

    def play(self, work: Script, clock: Clock) -> None:
        """A run of `work` begins; `clock` is told of each step."""
        self._work, self._clock = work, clock
        self.model.messages = iter([*map(_said, work), AIMessage(content="done", id="said-last")])

    def answer(self, number: int) -> str:
        """Look a number up."""
        self._clock.mark()
        return self._work[number - 1].result

    async def answer_async(self, number: int) -> str:
        """Look a number up."""
        return self.answer(number)


def _said(step: Any) -> AIMessage:
    call = {"name": TOOL, "args": step.arguments, "id": step.call_id}
    return AIMessage(content=step.text, tool_calls=[call], id=f"said-{step.call_id}")


class GraphLoop:
    """The agent as a graph with a checkpointer, or with none."""

    def __init__(self, family: str, settings: str, saver: Saver | None = None) -> None:
        self.settings = settings
        self._family = family
        self._saver = saver

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        with asyncio.Runner() as runner:
            if self._saver is None:
                yield self._performing(runner, None)
                return
            with self._saver(folder=folder, durability=durability, runner=runner) as saver:
                yield self._performing(runner, saver)

    def _performing(self, runner: asyncio.Runner, saver: Any) -> Perform:
        stage = Stage()
        state = Deltas if self._family == LANGGRAPH_DELTA else AgentState
        graph = graph_on(stage, state_schema=state, checkpointer=saver)
        how = {} if saver is None else {"durability": "sync"}

        def perform(work: Script, run_id: str, clock: Clock) -> Counted | None:
            stage.play(work, clock)
            config = config_of(len(work), run_id)
            if self._family == LANGGRAPH_ASYNC:
                came = runner.run(graph.ainvoke(GIVEN, config, **how))
            else:
                came = graph.invoke(GIVEN, config, **how)
            return None if saver else lambda: len(JsonPlusSerializer().dumps_typed(came["messages"])[1])

        return perform


def graph_on(stage: Stage, **more: Any) -> Graph:
    """The agent whose model and tool are on `stage`; `more` is for `create_agent`."""
    tool = StructuredTool.from_function(stage.answer, stage.answer_async, name=TOOL)
    return create_agent(stage.model, [tool], system_prompt="Look up.", **more)


def config_of(steps: int, run_id: str) -> dict[str, Any]:
    """What a run of the graph is configured with."""
    return {"configurable": {"thread_id": run_id}, "recursion_limit": 2 * steps + 10}


def loops(name: str, settings: str, saver: Saver | None, saver_async: Saver | None) -> dict[str, Loop]:
    """The graph of each family with these checkpointers, by the names that `bench.loops_listed` gives them."""
    return {
        f"{family}/{name}": GraphLoop(family, settings, saver_async if family == LANGGRAPH_ASYNC else saver)
        for family in (LANGGRAPH, LANGGRAPH_ASYNC, LANGGRAPH_DELTA)
    }


LOOPS = loops("alone", "keeps nothing", None, None)
