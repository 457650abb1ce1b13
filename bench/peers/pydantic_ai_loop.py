"""The Pydantic AI agent that `bench.loops` measures, and that agent alone: nothing is kept of it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from bench.loops_clock import Clock
from bench.loops_listed import Counted, Loop, Perform
from bench.peers import Durability
from bench.script import PROMPT, TOOL, Script

NO_LIMIT = UsageLimits(request_limit=None)

# Given with each response: without it a FunctionModel counts the words of all messages at every request.
_USAGE = RequestUsage(input_tokens=100, output_tokens=80)


class Stage:
    """What the model says and the tool answers in the run that is performed now."""

    def __init__(self) -> None:
        self._work: Script = ()
        self._next = 0
        self._clock = Clock()

    def play(self, work: Script, clock: Clock) -> None:
        """A run of `work` begins; `clock` is told of each step."""
        self._work, self._next, self._clock = work, 0, clock

    async def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """The next step of the script, then that it is done."""
        if self._next == len(self._work):
            return ModelResponse(parts=[TextPart("done")], usage=_USAGE)
        step = self._work[self._next]
        self._next += 1
        call = ToolCallPart(TOOL, step.arguments, tool_call_id=step.call_id)
        return ModelResponse(parts=[TextPart(step.text), call], usage=_USAGE)

    def answer(self, number: int) -> str:
        """What the tool gives for the step of that number."""
        self._clock.mark()
        return self._work[number - 1].result


def agent_on(stage: Stage, capabilities: list[Any], tool_step: Callable[[Any], Any] = lambda body: body) -> Agent:
    """The agent, with what makes it durable; `tool_step` is put around the tool's body where that needs it."""
    agent = Agent(
        FunctionModel(stage.respond, model_name="scripted"),
        name="bench",
        instructions="Look up.",
        capabilities=capabilities,
    )

    @agent.tool_plain(name=TOOL)
    @tool_step
    async def look_up(number: int) -> str:
        """Look a number up."""
        return stage.answer(number)

    return agent


class Alone:
    """The agent as it comes."""

    settings = "keeps nothing"

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        stage = Stage()
        agent = agent_on(stage, [])
        with asyncio.Runner() as runner:

            def perform(work: Script, run_id: str, clock: Clock) -> Counted:
                stage.play(work, clock)
                result = runner.run(agent.run(PROMPT, usage_limits=NO_LIMIT))
                return lambda: len(ModelMessagesTypeAdapter.dump_json(result.new_messages()))

            yield perform


LOOPS: dict[str, Loop] = {"pydantic-ai/alone": Alone()}
