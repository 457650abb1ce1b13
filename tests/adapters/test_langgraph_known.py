"""Messages that a recorded model is shown again are not told again, unless they are others than they were."""

import asyncio
import copy
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="the extra 'langgraph' is not installed")

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

import forkpoint as fp
from forkpoint.adapters import langgraph_known, langgraph_middleware
from forkpoint.adapters.langchain_messages import to_ours
from forkpoint.adapters.langgraph import ForkpointMiddleware
from forkpoint.adapters.langgraph_known import LINES, Known
from forkpoint.adapters.langgraph_models import recorded_model

CALL: Any = {"name": "charge", "args": {"cents": 500}, "id": "c1", "type": "tool_call"}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[BaseMessage]:
    """Every message that was told, in order."""
    seen: list[BaseMessage] = []

    def tell(message: BaseMessage) -> Any:
        seen.append(message)
        return to_ours(message)

    monkeypatch.setattr(langgraph_known, "to_ours", tell)
    return seen


def conversation() -> list[BaseMessage]:
    blocks: Any = [{"type": "text", "text": "in blocks", "n": 1}]
    return [
        HumanMessage("hi"),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage("done", tool_call_id="c1"),
        AIMessage(blocks),
    ]


def test_of_a_conversation_that_goes_on_only_what_is_new_is_told(told: list[BaseMessage]) -> None:
    known, messages = Known(), conversation()
    for count in range(1, len(messages) + 1):
        assert known.told(messages[:count]) == [to_ours(message) for message in messages[:count]]
    assert told == messages


def test_conversations_side_by_side_are_each_told_once(told: list[BaseMessage]) -> None:
    known, several = Known(), [conversation() for _ in range(LINES)]
    for count in (2, 4):
        for messages in several:
            known.told(messages[:count])
    assert len(told) == 4 * LINES


def test_a_message_that_moved_within_a_conversation_is_not_told_again(told: list[BaseMessage]) -> None:
    known, messages = Known(), conversation()[:3]
    known.told(messages)
    known.told(messages[1:])
    assert told == messages


def content_set(messages: list[BaseMessage]) -> None:
    messages[0].content = "other words"


def calls_set(messages: list[Any]) -> None:
    messages[1].tool_calls = [{**CALL, "args": {"cents": 1}}]


def argument_changed(messages: list[Any]) -> None:
    messages[1].tool_calls[0]["args"]["cents"] = 1


def block_changed(messages: list[Any]) -> None:
    messages[3].content[0]["text"] = "other words"


def counted(messages: list[Any]) -> None:
    messages[3].content[0]["n"] = True


def exchanged(messages: list[BaseMessage]) -> None:
    messages[2] = ToolMessage("failed", tool_call_id="c1")


def cut(messages: list[BaseMessage]) -> None:
    del messages[1:3]


@pytest.mark.parametrize(
    "change",
    [content_set, calls_set, argument_changed, block_changed, counted, exchanged, cut],
    ids=lambda one: one.__name__,
)
def test_what_was_changed_in_place_is_told_as_it_is_now(change: Any) -> None:
    known, messages = Known(), copy.deepcopy(conversation())
    known.told(messages)
    change(messages)
    assert known.told([*messages, HumanMessage("and?")]) == [to_ours(one) for one in [*messages, HumanMessage("and?")]]


def test_a_call_that_was_changed_within_is_told_as_it_is_now_in_another_conversation_too() -> None:
    known, messages = Known(), copy.deepcopy(conversation())
    known.told(messages)
    argument_changed(messages)
    assert known.told(messages[1:]) == [to_ours(one) for one in messages[1:]]


def test_what_was_told_is_the_callers_own() -> None:
    known, messages = Known(), conversation()
    known.told(messages).clear()
    assert known.told(messages) == [to_ours(message) for message in messages]


class Warm(BaseChatModel):
    """It asks for a tool until its temperature was changed, and says what that is."""

    temperature: float = 0.1

    @property
    def _llm_type(self) -> str:
        return "warm"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        calls = [] if self.temperature > 0.3 else [{**CALL, "name": "heat", "args": {}, "id": f"c{len(messages)}"}]
        said = AIMessage(f"at {self.temperature}", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


def test_an_agents_model_is_made_a_recorded_one_once_and_again_when_it_was_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[float] = []

    def counted(model: Any, **more: Any) -> Any:
        made.append(model.temperature)
        return recorded_model(model, **more)

    monkeypatch.setattr(langgraph_middleware, "recorded_model", counted)
    model, steps = Warm(), iter(range(4))

    @tool
    def heat() -> str:
        """Turn it up, in the end."""
        if next(steps) == 2:
            model.temperature = 0.5
        return "warmer"

    agent = create_agent(model, [heat], middleware=[ForkpointMiddleware(read_only={"heat"})])

    async def warmed() -> str:
        return str((await agent.ainvoke({"messages": [("user", "go")]}))["messages"][-1].content)

    async def main() -> None:
        async with fp.connect("memory:") as runtime:
            assert await runtime.record("r", warmed) == "at 0.5"
            assert made == [0.1, 0.5]

    asyncio.run(main())
