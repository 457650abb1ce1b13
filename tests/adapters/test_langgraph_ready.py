"""A LangChain model made ready to be asked through the recorder."""

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="the extra 'langgraph' is not installed")

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from forkpoint.adapters import langgraph_ready
from forkpoint.adapters.langgraph_ready import Ready, said_of, says_the_same
from forkpoint.effects import Recovery


def look(at: int) -> str:
    """Look there."""
    return str(at)


def hold(name: str) -> Recovery:
    return Recovery.HOLD


def offered() -> list[Any]:
    """A tool as models are offered it: made anew each time."""
    return [convert_to_openai_tool(StructuredTool.from_function(look))]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tools that were put into our words, in order."""
    seen: list[Any] = []
    tool = langgraph_ready._tool

    def counted(one: Any, recovery: Any) -> Any:
        seen.append(one)
        return tool(one, recovery)

    monkeypatch.setattr(langgraph_ready, "_tool", counted)
    return seen


def model() -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(()))


def test_tools_that_are_offered_again_are_told_once(made: list[Any]) -> None:
    ready = Ready.of(model())
    first = ready.told(offered(), hold)
    assert ready.told(offered(), hold) is first
    assert len(made) == 1


def test_a_tool_that_was_changed_in_place_is_told_anew() -> None:
    ready, tools = Ready.of(model()), offered()
    ready.told(tools, hold)
    tools[0]["function"]["description"] = "Look here."
    assert [one.description for one in ready.told(tools, hold)] == ["Look here."]


def test_tools_that_are_no_data_are_told_each_time(made: list[Any]) -> None:
    ready, tool = Ready.of(model()), StructuredTool.from_function(look)
    assert ready.told([tool], hold) == ready.told([tool], hold) == ready.told(offered(), hold)
    assert len(made) == 3


def test_a_model_that_holds_something_else_does_not_say_the_same() -> None:
    one = model()
    said = said_of(one)
    assert says_the_same(one, said)
    one.messages = iter(())
    assert not says_the_same(one, said)
