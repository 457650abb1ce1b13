"""``ForkpointMiddleware``: models and tools of ``langchain.agents.create_agent`` as effects of a recorded function."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphInterrupt
from langsmith.utils import tracing_is_enabled
from msgspec import Struct

from forkpoint._canon import value_digest
from forkpoint.adapters.langgraph_models import recorded_model
from forkpoint.adapters.langgraph_ready import said_of, same_objects, says_the_same
from forkpoint.adapters.langgraph_tools import INTERRUPT, Results, is_interrupt
from forkpoint.agents.tool import Approval, Probe, Tool, ToolContext, tool
from forkpoint.effects import Recovery
from forkpoint.errors import ToolBadDefinition
from forkpoint.outcomes import Succeeded
from forkpoint.runtime.asks import Answer
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.recorder import Recorder, current

FLAGS = ("read_only", "idempotent", "reconcile", "approval", "timeout_s", "attempts")
"""What a tool may say of itself, in its ``metadata["forkpoint"]``; with the meaning that it has for ``fp.tool``."""

Hook = Callable[[Any, Callable[[Any], Awaitable[Any]]], Coroutine[Any, Any, Any]]
"""What LangChain awaits in the place of a model or tool call."""

_performed: ContextVar[ToolContext | None] = ContextVar("forkpoint_langgraph_call", default=None)


def this_call() -> ToolContext | None:
    """The call that this tool's code performs, with its ``idempotency_key``; ``None`` where nothing is recorded."""
    return _performed.get()


class ForkpointMiddleware(AgentMiddleware[Any, Any, Any]):
    """Makes the model and tool calls of an agent effects, while ``runtime.record`` performs the function it runs in.

    ``create_agent(model, tools, middleware=[..., ForkpointMiddleware(read_only={"search"})])``; last in the list, so
    that what others change is what is recorded. Anywhere else the agent behaves as without it.

    What a restart may do about a tool's lost call is said by name: ``read_only`` (performed again), ``idempotent``
    (performed again under the same ``this_call().idempotency_key``), ``reconcile`` (name to probe: see ``fp.tool``);
    with none of them, a person is asked. ``approval`` names tools that a person must allow, or maps names to
    predicates on the arguments. A tool may say the same in its ``metadata``: ``{"forkpoint": {"read_only": True}}``.
    ``timeouts_s`` bounds an attempt. ``models`` finds the model that a fork put in the place of the agent's; ``allow``
    names classes that ``Command`` updates and artifacts of tools may hold.

    A call that is on record and not read-only is not performed again where the graph goes back to an earlier
    checkpoint within the same recorded function: its record answers. ``wrap_tool_call`` and ``awrap_tool_call`` may be
    given to a ``ToolNode`` as well. Raises ``tool.bad-definition`` for declarations that contradict each other.
    """

    def __init__(
        self,
        *,
        read_only: Collection[str] = (),
        idempotent: Collection[str] = (),
        reconcile: Mapping[str, Probe] | None = None,
        approval: Collection[str] | Mapping[str, Approval] = (),
        timeouts_s: Mapping[str, float] | None = None,
        agent: str | None = None,
        models: Callable[[str], BaseChatModel] | None = None,
        allow: Iterable[type | tuple[str, str]] = (),
    ) -> None:
        super().__init__()
        self.tools = []
        approvals = approval if isinstance(approval, Mapping) else dict.fromkeys(approval, True)
        self._said: Mapping[str, Mapping[str, Any]] = {
            "read_only": dict.fromkeys(read_only, True),
            "idempotent": dict.fromkeys(idempotent, True),
            "reconcile": reconcile or {},
            "approval": approvals,
            "timeout_s": timeouts_s or {},
        }
        self._agent = agent
        self._models = models
        self._results = Results(allow)
        self._declared: dict[str, tuple[Any, Tool[..., Any]]] = {}
        self._last: _Wrapped | None = None
        self._answered: WeakKeyDictionary[Recorder, dict[str, Answer]] = WeakKeyDictionary()

    # ── the model ─────────────────────────────────────────────────────────────────────────────────────────────

    def wrap_model_call(self, request: Any, perform: Callable[[Any], Any]) -> Any:
        """Ask the model through the recorder."""
        return perform(self._asked_through(request))

    @property
    def awrap_model_call(self) -> Hook:
        """Ask the model through the recorder."""
        return _light(self._asks_model)

    async def _asks_model(self, request: Any, perform: Callable[[Any], Awaitable[Any]]) -> Any:
        return await perform(self._asked_through(request))

    def _asked_through(self, request: Any) -> Any:
        if current() is None:
            return request
        last = self._last
        if last is None or not last.is_of(request.model, request.tools):
            last = self._last = self._wrapped(request.model, [*request.tools])
        return request.override(model=last.recorded)

    def _wrapped(self, model: Any, tools: list[Any]) -> "_Wrapped":
        offered = {one.name: one for one in tools if not isinstance(one, dict)}

        def recovery(name: str) -> Recovery:
            return self._tool(offered[name]).recovery if name in offered else Recovery.HOLD

        made = recorded_model(model, agent=self._agent, models=self._models, recovery=recovery)
        return _Wrapped(model, said_of(model), tools, made)

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────────────────

    def wrap_tool_call(self, request: Any, perform: Callable[[Any], Any]) -> Any:
        """Perform the call through the recorder."""
        recorder = current()
        if recorder is None or request.tool is None:
            return perform(request)

        async def answered() -> Answer:
            return await self._ask(recorder, request, lambda changed: in_thread(lambda: perform(changed)))

        found = recorder.waited(answered, request.tool_call["name"], is_async=False)
        return self._results.given(found, request.tool_call)

    @property
    def awrap_tool_call(self) -> Hook:
        """Perform the call through the recorder."""
        return _light(self._asks_tool)

    async def _asks_tool(self, request: Any, perform: Callable[[Any], Awaitable[Any]]) -> Any:
        recorder = current()
        if recorder is None or request.tool is None:
            return await perform(request)

        async def answered() -> Answer:
            return await self._ask(recorder, request, perform)

        found = await recorder.waited(answered, request.tool_call["name"], is_async=True)
        return self._results.given(found, request.tool_call)

    async def _ask(self, recorder: Recorder, request: Any, perform: Callable[[Any], Awaitable[Any]]) -> Answer:
        call, declared = request.tool_call, self._tool(request.tool)
        known = self._answered.setdefault(recorder, {})
        key = "" if declared.recovery is Recovery.REPEAT else _same_call(request)
        if key and key in known:
            return known[key]

        async def work(ctx: ToolContext, arguments: Any) -> Any:
            changed = request if arguments == call["args"] else request.override(tool_call={**call, "args": arguments})
            token = _performed.set(ctx)
            try:
                given = await perform(changed)
            except GraphInterrupt as asks:
                return {INTERRUPT: self._results.value_told(list(asks.args[0]), f"the question of {declared.name!r}")}
            finally:
                _performed.reset(token)
            return self._results.told(given, call)

        answer = await recorder.tool(declared, call["args"], perform=work, call=call.get("id") or "")
        if key and isinstance(answer.outcome, Succeeded) and not is_interrupt(answer):
            known[key] = answer
        return answer

    def _tool(self, theirs: Any) -> Tool[..., Any]:
        """A tool of LangChain's as Forkpoint knows it."""
        there = self._declared.get(theirs.name)
        if there is None or there[0] is not theirs:
            there = self._declared[theirs.name] = (theirs, self._made(theirs))
        return there[1]

    def _made(self, theirs: Any) -> Tool[..., Any]:
        said = (theirs.metadata or {}).get("forkpoint") or {}
        strange = sorted(set(said) - set(FLAGS))
        if strange:
            problem = f"its metadata says {', '.join(strange)}, which means nothing here"
            raise ToolBadDefinition(tool=theirs.name, problem=problem)
        flags = {**said, **{flag: names[theirs.name] for flag, names in self._said.items() if theirs.name in names}}
        told = convert_to_openai_tool(theirs)["function"]
        made: Any = tool(
            name=theirs.name,
            description=told.get("description", ""),
            parameters=told.get("parameters") or {"type": "object", "properties": {}},
            **flags,
        )
        declared: Tool[..., Any] = made(_no_body)
        return declared


class _Wrapped(Struct, frozen=True):
    """A recorded model, what it was made of, and what that held."""

    model: Any
    held: dict[str, Any]
    tools: list[Any]
    recorded: Any

    def is_of(self, model: Any, tools: list[Any]) -> bool:
        """Whether it would be made of these again as it is."""
        return self.model is model and same_objects(self.tools, tools) and says_the_same(model, self.held)


def _light(hook: Hook) -> Hook:
    """``hook`` for an agent that is made now."""

    def plain(request: Any, perform: Callable[[Any], Awaitable[Any]]) -> Coroutine[Any, Any, Any]:
        return hook(request, perform)

    # LangChain has an ``async def`` told to LangSmith by two turns on other OS threads, even where nobody traces.
    return hook if tracing_is_enabled() else plain


def _no_body(**arguments: Any) -> None:
    """The tool is performed by LangChain."""


def _same_call(request: Any) -> str:
    """What makes an execution one of the same call: the thread, the model's message, its call and the arguments."""
    call = request.tool_call
    config = getattr(request.runtime, "config", None) or {}
    messages = request.state.get("messages", ()) if isinstance(request.state, dict) else ()
    asking = next((one.id for one in reversed(messages) if _asks(one, call.get("id"))), None)
    where = config.get("configurable", {}).get("thread_id")
    return value_digest([str(where), str(asking), call.get("id"), call["name"], repr(call["args"])])


def _asks(message: Any, call: Any) -> bool:
    return any(one.get("id") == call for one in getattr(message, "tool_calls", ()))
