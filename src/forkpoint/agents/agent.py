"""Agents: which model, told what, with which tools, and how far it may go."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from forkpoint.agents.tool import Tool
from forkpoint.definition import AgentRecord, Compaction, Limits
from forkpoint.effects import ATTEMPTS
from forkpoint.errors import ValueNotJson
from forkpoint.errors.agents import AgentBadDefinition
from forkpoint.ports import Model
from forkpoint.values import to_json

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?\Z")


@dataclass(frozen=True, eq=False)
class Agent:
    """What an agent is, as a value. It holds no state: the same one serves any number of runs.

    ``model`` is a name, ``provider:model``, or a ``Model``. ``settings`` go to the provider with every request
    and must be JSON. ``attempts`` is how often a model call is tried. Raises ``agent.bad-definition``, also
    for two tools of one name.
    """

    name: str
    _: KW_ONLY
    model: str | Model
    instructions: str = ""
    tools: Sequence[Tool[..., Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    compaction: Compaction | None = None
    attempts: int = ATTEMPTS
    _record: AgentRecord = field(init=False, repr=False)
    _by_name: Mapping[str, Tool[..., Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise AgentBadDefinition(agent=str(self.name)[:128], problem=problem)
        tools = tuple(self.tools)
        self._set("tools", tools)
        self._set("settings", MappingProxyType(to_json(dict(self.settings))))
        self._set("_by_name", {tool.name: tool for tool in tools})
        self._set("_record", _record(self))

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, model={self.model_name!r}, tools={list(self._by_name)})"

    @property
    def model_name(self) -> str:
        """The model's name, as a run records it."""
        return self.model if isinstance(self.model, str) else self.model.name

    def tool(self, name: str) -> Tool[..., Any] | None:
        """The tool of that name, if the agent has one."""
        return self._by_name.get(name)

    def record(self) -> AgentRecord:
        """The agent as a run records it: equal for equal declarations, in any process."""
        return self._record

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _record(agent: Agent) -> AgentRecord:
    return AgentRecord(
        name=agent.name,
        model=agent.model_name,
        instructions=agent.instructions,
        settings=dict(agent.settings) or None,
        tools=tuple(tool.record() for tool in agent.tools),
        attempts=agent.attempts,
        compaction=agent.compaction,
    )


def _problem(agent: Agent) -> str | None:
    if not isinstance(agent.name, str) or not _NAME.match(agent.name):
        return "a name has 1 to 128 letters, digits, '.', '_' or '-', and starts with a letter or digit"
    if not isinstance(agent.instructions, str):
        return f"instructions are a {type(agent.instructions).__name__}, not text"
    if not isinstance(agent.attempts, int) or agent.attempts < 1:
        return f"attempts is {agent.attempts!r}, not 1 or more"
    return (
        _model_problem(agent.model)
        or _settings_problem(agent.settings)
        or _tools_problem(agent.tools)
        or _limits_problem(agent.limits, agent.compaction)
    )


def _model_problem(model: object) -> str | None:
    if isinstance(model, str):
        return None if model.strip() else "model is an empty text"
    if isinstance(getattr(model, "name", None), str) and callable(getattr(model, "respond", None)):
        return None
    return f"model is a {type(model).__name__}; it is a name like 'openai:gpt-5', or has 'name' and 'respond'"


def _settings_problem(settings: object) -> str | None:
    if not isinstance(settings, Mapping):
        return f"settings are a {type(settings).__name__}, not a mapping"
    try:
        to_json(dict(settings))
    except ValueNotJson as error:
        return f"settings must be JSON: {error}"
    return None


def _tools_problem(tools: object) -> str | None:
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        return "tools is not a sequence of tools"
    names: set[str] = set()
    for tool in tools:
        if not isinstance(tool, Tool):
            return f"{getattr(tool, '__name__', tool)!r} is no tool; decorate the function with @tool"
        if tool.name in names:
            return f"two tools are named {tool.name!r}"
        names.add(tool.name)
    return None


def _limits_problem(limits: object, compaction: object) -> str | None:
    if limits is not None and not isinstance(limits, Limits):
        return f"limits are a {type(limits).__name__}, not Limits"
    if compaction is not None and not isinstance(compaction, Compaction):
        return f"compaction is a {type(compaction).__name__}, not Compaction"
    bounds = {} if limits is None else msgspec.structs.asdict(limits)
    if compaction is not None:
        bounds |= {"after_tokens": compaction.after_tokens, "keep_steps": compaction.keep_steps}
    return next((f"{name} is {bound}, not above 0" for name, bound in bounds.items() if _is_unfit(bound)), None)


def _is_unfit(bound: float | None) -> bool:
    return bound is not None and not bound > 0
