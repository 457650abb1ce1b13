"""The agent of `pydantic_ai_loop` with the least that can make it durable by Pydantic AI's own means.

Pydantic AI's `durable_exec` takes every request and every call of a tool through an engine; this one performs each and
keeps nothing but its content: one row, one commit, in bare SQLite. It could not recover a run; no engine costs less.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import durable_exec
from pydantic_ai.durable_exec import BaseDurabilityCapability, DurabilityEngineSpec, DurableOperationBackend
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_core import to_jsonable_python

from bench.loops_clock import Clock
from bench.loops_listed import Loop, Perform
from bench.peers import Durability
from bench.peers._rows import Keep, kept_rows
from bench.peers.pydantic_ai_loop import NO_LIMIT, Stage, agent_on
from bench.script import PROMPT, Script, compact


class Engine(BaseDurabilityCapability[Any]):
    """An engine that performs what it is given."""

    engine_spec = DurabilityEngineSpec(
        engine_name="Floor",
        durable_unit_noun="row",
        durable_container_noun="run",
        codec=durable_exec.JSON_CODEC,
        wrapped_toolset_kinds=frozenset({"function"}),
        toolset_lifecycles={"function": "enter-always"},
        unsupported_runtime_toolset_kinds=frozenset(),
    )

    def __init__(self, keep: Keep) -> None:
        super().__init__(name="floor")
        self.keep = keep

    @property
    def in_durable_context(self) -> bool:
        """Always."""
        return True

    def get_durable_operation_backend(self) -> Any:
        """What the framework hands its operations to."""
        return Backend(self)


class Backend(DurableOperationBackend[Any]):
    """Performs operations and keeps what they gave."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def bind(self, operation: Any) -> Callable[..., Any]:
        """The operation, and a row for what it gave."""

        async def perform(params: Any, *, config: object | None = None) -> Any:
            with durable_exec.durable_unit_scope():
                given = await operation.handler(params)
            self._engine.keep(_content(given))
            return given

        return perform

    def config_for_tool(self, operation: Any, *, tool: object | None, tool_name: str) -> Any:
        """None."""
        return {}

    def registrations(self) -> Sequence[Callable[..., object]]:
        """None."""
        return ()


def _content(given: Any) -> bytes:
    """The words and the calls of a response; the result of a tool."""
    if not isinstance(given, ModelResponse):
        return compact(to_jsonable_python(given)).encode()
    return compact([one.args if isinstance(one, ToolCallPart) else one.content for one in given.parts]).encode()  # type: ignore[union-attr]


class Floor:
    """The framework's own way of being durable, with nothing behind it but rows."""

    settings = "no record to go on from: one row and one commit for each operation; WAL and synchronous"

    @contextmanager
    def opened(self, *, durability: Durability, folder: Path) -> Iterator[Perform]:
        stage = Stage()
        with kept_rows(folder, durability) as keep, asyncio.Runner() as runner:
            agent = agent_on(stage, [Engine(keep)])

            def perform(work: Script, run_id: str, clock: Clock) -> None:
                stage.play(work, clock)
                runner.run(agent.run(PROMPT, usage_limits=NO_LIMIT))

            yield perform


LOOPS: dict[str, Loop] = {"pydantic-ai/floor": Floor()}
