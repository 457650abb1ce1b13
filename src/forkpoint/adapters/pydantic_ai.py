"""Pydantic AI agents whose runs are recorded: one capability on an agent, for functions that ``Runtime.record`` calls.

::

    agent = Agent("openai:gpt-5", tools=[search, charge, mail], capabilities=[
        Forkpoint(read_only={"search"}, idempotent={"charge"}, approval={"mail"}),
    ])

    async def answer(question: str) -> str:
        return (await agent.run(question)).output

    await runtime.record("q-1", answer, "…")

It is an engine on Pydantic AI's public ``pydantic_ai.durable_exec``: that package finds every request to a model, every
listing of tools, every operation of other capabilities, and hands it over; here each becomes an effect. Calls of tools
are taken one level up, around all toolsets, so that none is left out. Outside of a recorded function an agent is as it
is without. The extra ``pydantic-ai`` has what this needs.
"""

from collections.abc import Collection, Mapping
from contextvars import ContextVar
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from forkpoint.errors import AdapterMissing

try:
    from pydantic_ai import durable_exec
    from pydantic_ai.durable_exec import (
        BaseDurabilityCapability,
        DurabilityEngineSpec,
        durable_unit_scope,  # noqa: F401  # a release without it is too old
    )
    from pydantic_ai.exceptions import UserError
except ImportError as error:
    raise AdapterMissing(
        what="The Pydantic AI adapter",
        needs="the extra 'forkpoint[pydantic-ai]', with Pydantic AI 2.61 or later",
        command="pip install -U 'forkpoint[pydantic-ai]'",
    ) from error

from forkpoint.adapters.pydantic_ai_asking import Asking, told_live
from forkpoint.adapters.pydantic_ai_backend import Backend
from forkpoint.adapters.pydantic_ai_calls import RecordedToolset, is_performing, this_call
from forkpoint.adapters.pydantic_ai_declared import Tools, declared
from forkpoint.adapters.pydantic_ai_deferred import settled
from forkpoint.agents.tool import Approval, Probe
from forkpoint.runtime.recorder import Recorder, current

__all__ = ["Forkpoint", "this_call"]

_THE_GIVEN = "the model that was given to the run"
_GIVEN: ContextVar[Any] = ContextVar("forkpoint_pydantic_ai_given", default=None)

_KINDS = frozenset({"mcp", "dynamic"})
_LIFECYCLES = {"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"}


class Forkpoint(BaseDurabilityCapability[Any]):  # type: ignore[misc]  # the framework is not read by mypy
    """Makes an agent's model and tool calls effects of the recorded function that runs it.

    A tool is named as the model knows it. ``read_only`` and ``idempotent`` tools are performed again after a crash,
    those of ``reconcile`` ask their probe; without either a person is asked (``HOLD``). ``approval`` asks a person
    first: names, or names with ``True`` or a predicate on the arguments. ``external`` tools are never performed:
    ``run.answer`` gives their result. ``inline`` tools are no effect: their body runs again on replay, and what it
    asks for, such as another agent, is recorded. A tool can say the same of itself: ``metadata={"forkpoint":
    {"read_only": True}}``. Operations of other capabilities are declared as ``"<capability id>.<operation>"``.

    ``models`` are further models by name, for ``agent.run(model=…)`` and for forks that set one. ``name`` is what the
    agent is called on record if it has no name. ``event_stream_handler`` is told of a model's stream while it comes
    in, and of each call once; not again on replay.

    Raises ``tool.bad-definition`` for declarations that contradict each other, ``adapter.missing`` at import.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Forkpoint",
        durable_unit_noun="effect",
        durable_container_noun="recorded function",
        codec=durable_exec.JSON_CODEC,
        wrapped_toolset_kinds=_KINDS,
        toolset_lifecycles=_LIFECYCLES,
        unsupported_runtime_toolset_kinds=frozenset(),
    )

    def __init__(
        self,
        *,
        read_only: Collection[str] = (),
        idempotent: Collection[str] = (),
        reconcile: Mapping[str, Probe] | None = None,
        approval: Collection[str] | Mapping[str, Approval] = (),
        external: Collection[str] = (),
        inline: Collection[str] = (),
        models: Mapping[str, Any] | None = None,
        event_stream_handler: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._said = declared(
            read_only=read_only,
            idempotent=idempotent,
            reconcile=reconcile or {},
            approval=approval,
            external=external,
            inline=inline,
        )
        self._tools = Tools(self._said)
        self._askings: WeakKeyDictionary[Recorder, Asking] = WeakKeyDictionary()
        self._runs: WeakKeyDictionary[Recorder, int] = WeakKeyDictionary()
        self._operations: dict[tuple[tuple[str, Any], ...], Any] = {}

    def for_agent(self, agent: Any) -> Any:
        """The capability as the agent uses it: a copy of its own."""
        named = copy(self)
        # Pydantic AI wants a name for what it stores by name; an effect is known by what it asks.
        named.name = self.name or agent.name or "agent"
        named._askings, named._runs, named._tools = WeakKeyDictionary(), WeakKeyDictionary(), Tools(self._said)
        named._operations = {}
        return super(Forkpoint, named).for_agent(agent)

    @property
    def in_durable_context(self) -> bool:
        """Whether this code belongs to a recorded function, or to an effect that is performed for this agent."""
        return current() is not None or is_performing(self)

    def get_durable_operation_backend(self) -> Any:
        """Where Pydantic AI hands over what is to be recorded."""
        return Backend(self)

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """All tools of a run, each call an effect while a function is recorded."""
        inner = super().get_wrapper_toolset(toolset)
        guard = self._tool_run_context_scope
        return RecordedToolset(toolset if inner is None else inner, whose=self, tools=self._tools, guard=guard)

    async def handle_deferred_tool_calls(self, ctx: Any, *, requests: Any) -> Any:
        """What becomes of calls that Pydantic AI defers, where a declaration says that Forkpoint is to ask."""
        recorder = current()
        return None if recorder is None else await settled(recorder, self._said, ctx, requests)

    def get_default_run_id(self) -> str | None:
        """An id for an agent's run that a replay gives again."""
        recorder = current()
        if recorder is None:
            return None
        self._runs[recorder] = count = self._runs.get(recorder, 0) + 1
        return f"{recorder.run_id}.{count}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """The conversation that an agent's run belongs to: the recorded run."""
        recorder = current()
        return None if recorder is None else recorder.run_id

    # ── what the backend asks of it ───────────────────────────────────────────────────────────────────────────

    def asking(self, recorder: Recorder) -> Asking:
        """How this agent's models are asked in the function of ``recorder``."""
        found = self._askings.get(recorder)
        if found is None:
            found = self._askings[recorder] = Asking(self._said)
        return found

    def options(self, name: str) -> dict[str, Any]:
        """What was declared of an operation."""
        return self._said.options(name)

    def model_name(self, model_id: str | None) -> str:
        """The model that ``model_id`` is, by the name that goes on record."""
        found = _GIVEN.get() if model_id == _THE_GIVEN else self._models_by_id.get(model_id or "default")
        return model_id or self.default_model_id or "model" if found is None else str(found.model_id)

    # ── what Pydantic AI leaves to an engine ──────────────────────────────────────────────────────────────────

    def _find_model_id(self, model: Any) -> str | None:
        """The name of a model for its request. Requests stay in this process, so one of a caller's own is fine too."""
        try:
            found: str | None = super()._find_model_id(model)
        except UserError:
            _GIVEN.set(model)
            found = _THE_GIVEN
        return found

    def _bind_model_operations(self, backend: Any, **of: Any) -> Any:
        """The operations of a model, bound once for all requests: what one asks comes with each call of them."""
        # Not part of what the package says it keeps: where it is not called, each request binds them.
        model = tuple(of.items())
        found = self._operations.get(model)
        if found is None:
            found = self._operations[model] = super()._bind_model_operations(backend, **of)
        return found

    async def resolve_model_id(self, ctx: Any, *, model_id: str) -> Any:
        """The model of that name, if it is one of ``models`` or the one that the asking code was given."""
        if model_id == _THE_GIVEN:
            return _GIVEN.get()
        return await super().resolve_model_id(ctx, model_id=model_id)

    def _model_stream_event_handler(self) -> Any:
        """What is told of a model's stream while it comes in: progress, then the user's own."""
        own = super()._model_stream_event_handler()

        async def handle(ctx: Any, events: Any) -> None:
            live = told_live(events)
            if own is not None:
                await own(ctx, live)
            async for _ in live:
                pass

        return handle
