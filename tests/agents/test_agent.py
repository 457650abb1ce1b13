"""Agents are values, checked once, and recorded the same in every process."""

import subprocess
import sys
from typing import Any

import pytest

from forkpoint import connect
from forkpoint.agents.agent import Agent
from forkpoint.agents.tool import tool
from forkpoint.definition import Compaction, Limits
from forkpoint.errors.agents import AgentBadDefinition


@tool(read_only=True)
async def read(path: str) -> str:
    """Read a file."""
    return path


@tool
def write(path: str, text: str) -> None:
    """Write a file."""


class Scripted:
    name = "test:scripted"

    async def respond(self, request: Any, progress: Any) -> Any: ...


def agent(**changes: Any) -> Agent:
    name = changes.pop("name", "coder")
    return Agent(name, **{"model": "openai:gpt-5", "tools": [read, write], **changes})


def test_an_agent_is_recorded_with_all_a_run_depends_on() -> None:
    record = agent(
        instructions="Be brief.", settings={"temperature": 0}, compaction=Compaction(after_tokens=9), attempts=2
    ).record()
    assert (record.name, record.model, record.instructions) == ("coder", "openai:gpt-5", "Be brief.")
    assert (record.settings, record.attempts, record.compaction) == ({"temperature": 0}, 2, Compaction(after_tokens=9))
    assert record.tools == (read.record(), write.record())
    assert agent().record() == agent().record()


def test_a_model_object_is_recorded_by_its_name() -> None:
    assert agent(model=Scripted()).record().model == "test:scripted"
    assert agent(model=Scripted()).model_name == "test:scripted"
    assert repr(agent(model=Scripted())) == "Agent('coder', model='test:scripted', tools=['read', 'write'])"


def test_tools_are_found_by_name() -> None:
    assert agent().tool("read") is read
    assert agent().tool("gone") is None


def test_an_agent_does_not_change_with_what_it_was_made_of() -> None:
    tools, settings = [read], {"stop": ["a"]}
    one = agent(tools=tools, settings=settings)
    tools.append(write)
    settings["stop"].append("b")
    assert one.tools == (read,) and one.settings == {"stop": ["a"]}
    with pytest.raises(TypeError):
        one.settings["stop"] = []  # type: ignore[index]
    with pytest.raises(AttributeError):
        one.model = "x"  # type: ignore[misc]


def test_limits_are_the_callers_and_not_part_of_what_the_agent_is() -> None:
    limited = agent(limits=Limits(steps=3))
    assert limited.limits == Limits(steps=3)
    assert limited.record() == agent().record()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": ""}, "1 to 128 letters"),
        ({"name": "a b"}, "1 to 128 letters"),
        ({"model": " "}, "model is an empty text"),
        ({"model": 5}, "model is a int"),
        ({"instructions": None}, "instructions are a NoneType"),
        ({"attempts": 0}, "attempts is 0"),
        ({"settings": []}, "settings are a list"),
        ({"settings": {"x": object()}}, "settings must be JSON: The value at $.x"),
        ({"tools": [read, read]}, "two tools are named 'read'"),
        ({"tools": [read.function]}, "'read' is no tool; decorate the function with @tool"),
        ({"tools": {read}}, "tools is not a sequence"),
        ({"limits": 5}, "limits are a int"),
        ({"limits": Limits(cost=0)}, "cost is 0, not above 0"),
        ({"compaction": 5}, "compaction is a int"),
        ({"compaction": Compaction(after_tokens=0)}, "after_tokens is 0, not above 0"),
    ],
)
def test_an_agent_that_cannot_work_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(AgentBadDefinition) as caught:
        agent(**changes)
    assert caught.value.code == "agent.bad-definition" and problem in caught.value.problem


def test_two_agents_of_one_name_are_refused_where_a_run_could_mean_either() -> None:
    one = agent()
    with pytest.raises(AgentBadDefinition) as caught:
        connect("memory:", agents=[one, agent()])
    assert (caught.value.agent, caught.value.problem) == (one.name, "another agent here has its name")
    connect("memory:", agents=[one, one])


def test_the_record_is_the_same_bytes_in_every_process() -> None:
    script = (
        "import enum, msgspec\n"
        "from typing import Literal\n"
        "from forkpoint.agents.agent import Agent\n"
        "from forkpoint.agents.tool import tool\n"
        "class Kind(enum.Enum):\n    A = 'a'\n    B = 'b'\n"
        "def f(a: set[str], b: Literal['x', 'y', 'z'], c: Kind, d: frozenset[str] = frozenset('qwerty')) -> dict: ...\n"
        "print(msgspec.json.encode(Agent('a', model='m', tools=[tool(f)]).record()).decode())\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
