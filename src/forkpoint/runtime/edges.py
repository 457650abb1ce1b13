"""The edge to tools and models: what they are given has secrets in it, what comes back has none."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from forkpoint._word import Holder
from forkpoint.agents.agent import Agent
from forkpoint.agents.function import Function
from forkpoint.agents.tool import Tool
from forkpoint.definition import AgentRecord
from forkpoint.errors import AgentBadDefinition, AgentDiffers, AgentMissing, FunctionMissing, FunctionUnfit
from forkpoint.ports import Model
from forkpoint.redefinition import differences
from forkpoint.secrets import Secrets
from forkpoint.state import RunState

S = TypeVar("S", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode

MARK = b"{{secret:"
"""How a secret's name begins where it is written."""


def may_name_secrets(data: bytes) -> bool:
    """Whether a secret's name may stand in the value whose JSON is ``data``."""
    return data.find(MARK) >= 0  # `in` takes the mark for a number first, and raises within


class Equipment:
    """The model and tools that this process has for one run, and the secrets they may see."""

    def __init__(
        self, *, model: Callable[[], Model], tools: Mapping[str, Tool[..., Any]], secrets: Secrets | None
    ) -> None:
        self._model = model
        self._tools = tools
        self._secrets = secrets
        self._found: Model | None = None
        self._ready: dict[int, tuple[Holder, dict[str, Any]]] = {}

    @property
    def model(self) -> Model:
        """The run's model; looked up when it is first asked."""
        if self._found is None:
            self._found = self._model()
        return self._found

    def tool(self, name: str) -> Tool[..., Any] | None:
        """The tool of that name, if there is one here."""
        return self._tools.get(name)

    def reveal(self, value: Any) -> Any:
        """``value``, a JSON tree, with secrets in place of their names. Raises ``secret.missing``."""
        if not may_name_secrets(_encode(value)):
            return value
        return (self._secrets or Secrets()).reveal(value)

    def shown(self, word: S) -> S:
        """``word`` with secrets in place of their names. Raises ``secret.missing``."""
        if not may_name_secrets(_encode(word)):
            return word
        return msgspec.convert(self.reveal(msgspec.to_builtins(word)), type(word))

    def arguments(self, tool: Tool[..., Any], holder: Holder) -> dict[str, Any]:
        """The arguments that ``holder`` has, as ``tool``'s function takes them; those made ready for it are used once.

        Raises ``secret.missing`` and ``tool.bad-arguments``.
        """
        ready = self._ready.pop(id(holder), None)
        if ready is not None and ready[0] is holder:
            return ready[1]
        return tool.convert(self.reveal(holder.arguments))  # type: ignore[attr-defined]

    def make_ready(self, holder: Holder, arguments: dict[str, Any]) -> None:
        """Keep converted arguments for when the call is performed."""
        self._ready[id(holder)] = (holder, arguments)

    def mask(self, value: Any) -> Any:
        """``value`` with names in place of secrets."""
        if self._secrets is None or not self._secrets.occurs_in(_encode(value)):
            return value
        return self._secrets.mask(value)

    def mask_text(self, text: str) -> str:
        """A text without secrets."""
        return str(self.mask(text))

    @property
    def secrets(self) -> Secrets | None:
        """The secrets, if any are registered."""
        return self._secrets


class Registry:
    """The agents, extra tools and models that a process offers to its runs."""

    def __init__(
        self,
        *,
        agents: tuple[Agent, ...],
        functions: tuple[Function[..., Any], ...] = (),
        models: Callable[[str], Model],
        secrets: Secrets | None,
    ) -> None:
        self.agents = {agent.name: agent for agent in agents}
        for agent in agents:
            if self.agents[agent.name] is not agent:
                raise AgentBadDefinition(agent=agent.name, problem="another agent here has its name")
        self.functions = {function.name: function for function in functions}
        for function in functions:
            if self.functions[function.name] is not function:
                raise FunctionUnfit(function=function.name, problem="another function here has its name")
        self.extra: dict[str, Tool[..., Any]] = {}
        self.patched: dict[str, Model] = {}
        self._models = models
        self._asked: dict[int, Model] = {}
        self._secrets = secrets

    def agent(self, name: str) -> Agent:
        """The agent of that name. Raises ``agent.missing``."""
        if name not in self.agents:
            raise AgentMissing(agent=name, known=", ".join(sorted(self.agents)) or "none")
        return self.agents[name]

    def function(self, name: str, run: str) -> Function[..., Any]:
        """The function of that name. Raises ``function.missing``."""
        if name not in self.functions:
            raise FunctionMissing(run=run, function=name, known=", ".join(sorted(self.functions)) or "none")
        return self.functions[name]

    def equip_function(self, tools: Mapping[str, Tool[..., Any]]) -> Equipment:
        """What a function's run needs here: its code brings models and tools along; ``tools`` is filled as it asks."""
        return Equipment(model=lambda: self._models(""), tools=tools, secrets=self._secrets)

    def equip(self, state: RunState) -> Equipment:
        """What the run needs to be performed here. Raises ``agent.missing`` or ``agent.differs``."""
        agent = self.agent(state.agent.name)
        found = self.differences(state)
        if found:
            raise AgentDiffers(run=state.run, differences="; ".join(found))
        tools = {tool.name: tool for tool in agent.tools} | self._extra(state)
        return Equipment(model=lambda: self._model(agent, state), tools=tools, secrets=self._secrets)

    def differences(self, state: RunState) -> tuple[str, ...]:
        """How the agent here differs from the run's recorded one, leaving out what a fork's patch set."""
        expected = self.agent(state.agent.name).record()
        return differences(state.agent, self._written(overridden(expected, state, self.extra)))

    def record(self, name: str) -> AgentRecord:
        """The definition of that name as a run records it: its secrets by name. Raises ``agent.missing``."""
        return self._written(self.agent(name).record())

    def _written(self, record: AgentRecord) -> AgentRecord:
        if self._secrets is None or not self._secrets.occurs_in(_encode(record)):
            return record
        return msgspec.convert(self._secrets.mask_written(msgspec.to_builtins(record)), AgentRecord)

    def _extra(self, state: RunState) -> dict[str, Tool[..., Any]]:
        names = {record.name for record in state.agent.tools}
        return {name: tool for name, tool in self.extra.items() if name in names}

    async def close(self) -> None:
        """Have the models that were asked let go of what they keep open, where they have an async ``close``."""
        for model in self._asked.values():
            close = getattr(model, "close", None)
            if inspect.iscoroutinefunction(close):
                await close()

    def _model(self, agent: Agent, state: RunState) -> Model:
        model = self._find(agent, state)
        self._asked[id(model)] = model
        return model

    def _find(self, agent: Agent, state: RunState) -> Model:
        name = state.agent.model
        if "model" in state.overridden and name in self.patched:
            return self.patched[name]
        if not isinstance(agent.model, str) and agent.model.name == name:
            return agent.model
        return self._models(name)


def overridden(expected: AgentRecord, state: RunState, extra: Mapping[str, Tool[..., Any]]) -> AgentRecord:
    """The definition expected of the run: this process's, with what a patch set taken from the record."""
    kept = {name: getattr(state.agent, name) for name in state.overridden if name != "tools"}
    if "tools" in state.overridden:
        here = {record.name: record for record in expected.tools} | {
            name: tool.record() for name, tool in extra.items()
        }
        kept["tools"] = tuple(here[record.name] for record in state.agent.tools if record.name in here)
    return replace(expected, **kept)
