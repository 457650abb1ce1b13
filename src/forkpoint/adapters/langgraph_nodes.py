"""``recorded_node``: a node of a graph that is no agent, as a step of a recorded function."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from langgraph.errors import GraphInterrupt

from forkpoint._canon import value_digest
from forkpoint.adapters.langgraph_tools import INTERRUPT, NoSafeForm, Results
from forkpoint.agents.function import Step, name_of, step
from forkpoint.errors.langgraph import GraphValueUnsafe
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.recorder import Recorder, current


def recorded_node(
    node: Callable[..., Any],
    *,
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    approval: bool = False,
    timeout_s: float | None = None,
    attempts: int | None = None,
    allow: Iterable[type | tuple[str, str]] = (),
) -> Any:
    """``node`` as one step, performed once for one state: ``graph.add_node("charge", recorded_node(charge))``.

    It is known by its name and a digest of the state that it is given; what it returns is recorded, and is what the
    graph goes on with, live and on replay. ``read_only`` and ``idempotent`` say what a restart may do about one that
    was lost; without them a person is asked. ``allow`` names the classes that state and result may hold. Outside of a
    recorded function it is the node itself. A node that asks somebody (``interrupt``) runs again once that is answered.

    Raises ``langgraph.no-safe-form`` for a state that cannot be told, and ``EffectFailed`` where the node raised.
    """
    declared = step(
        name=name or name_of(node),
        read_only=read_only,
        idempotent=idempotent,
        approval=approval,
        timeout_s=timeout_s,
        attempts=attempts,
    )
    known = _Node(declared(node), Results(allow))
    return known.awaited() if inspect.iscoroutinefunction(node) else known.plain()


class _Node:
    """A node and how it is asked for."""

    def __init__(self, known: Step[..., Any], results: Results) -> None:
        self._step = known
        self._node: Any = known.function
        self._results = results

    def plain(self) -> Any:
        """The node for graphs that are called without ``await``."""

        @functools.wraps(self._node)
        def node(state: Any, *args: Any, **named: Any) -> Any:
            recorder = current()
            if recorder is None:
                return self._node(state, *args, **named)

            def perform() -> Awaitable[Any]:
                return in_thread(lambda: self._node(state, *args, **named))

            return recorder.waited(lambda: self._ask(recorder, state, perform), self._step.name, is_async=False)

        return node

    def awaited(self) -> Any:
        """The node for graphs that are awaited."""

        @functools.wraps(self._node)
        async def node(state: Any, *args: Any, **named: Any) -> Any:
            recorder = current()
            if recorder is None:
                return await self._node(state, *args, **named)

            def perform() -> Awaitable[Any]:
                found: Awaitable[Any] = self._node(state, *args, **named)
                return found

            return await recorder.waited(lambda: self._ask(recorder, state, perform), self._step.name, is_async=True)

        return node

    async def _ask(self, recorder: Recorder, state: Any, perform: Callable[[], Awaitable[Any]]) -> Any:
        name, results = self._step.name, self._results
        told = results.value_told(state, f"the state that {name!r} is given")

        async def work(_: Any) -> Any:
            try:
                given = await perform()
            except GraphInterrupt as asks:
                return {INTERRUPT: results.value_told(list(asks.args[0]), f"the question of {name!r}")}
            try:
                return {"$value": results.value_told(given, f"the result of {name!r}")}
            except GraphValueUnsafe:
                return NoSafeForm()

        value = (await recorder.step(self._step, {"state": value_digest(told)}, perform=work)).value
        if isinstance(value, dict) and INTERRUPT in value:
            raise GraphInterrupt(results.value_of(value[INTERRUPT]))
        return results.value_of(value["$value"]) if isinstance(value, dict) and "$value" in value else value
