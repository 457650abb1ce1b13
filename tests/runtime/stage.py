"""A small stage for tests of the live loop: one process's runtime over a journal that others may share."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import forkpoint as fp
from forkpoint.ports import Journal, ModelRequest
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock, Reply, ScriptedModel, call, calls

__all__ = ["ScriptedModel", "answers_in", "call", "calls", "live", "played", "results", "runtime_on", "said"]


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a fresh event loop, as pytest wants it."""

    def wrapped() -> None:
        asyncio.run(test())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def played(*messages: Reply, last: str = "done") -> ScriptedModel:
    """A model that says ``messages`` in turn, chosen by how often it has spoken in what it is shown; then ``last``."""

    def script(request: ModelRequest) -> Reply:
        spoken = sum(1 for message in request.messages if message.role == "assistant")
        return messages[spoken] if spoken < len(messages) else last

    return ScriptedModel(script)


def runtime_on(
    journal: Journal | None = None, *agents: fp.Agent, clock: FakeClock | None = None, **options: Any
) -> fp.Runtime:
    """A runtime with ``agents`` over ``journal`` (a new one in memory if left out)."""
    return fp.connect(journal or MemoryJournal(), agents=agents, clock=clock, **options)


def results(state: fp.RunState) -> list[Any]:
    """Every answer to a tool call in a run's transcript, in order."""
    return [part.response for message in state.messages if message.role == "tool" for part in message.parts]


def said(state: fp.RunState) -> list[str]:
    """The texts of a run's transcript, in order."""
    return [message.text for message in state.messages if message.text]


def answers_in(request: ModelRequest) -> list[Any]:
    """Every answer to a tool call that a model was shown, in order."""
    return [part.response for message in request.messages if message.role == "tool" for part in message.parts]
