"""Pydantic AI agents on the providers' real clients, the provider on this machine that they ask, a world to count."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models import Model

import forkpoint as fp
from forkpoint.adapters.pydantic_ai import Forkpoint, this_call
from forkpoint.errors import RunWaits
from forkpoint.messages import Message
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import API, Asked, ProviderServer, Told

KEY = "hunter2-very-secret-0123456789"


_MADE: list[Any] = []
"""The clients of the models that the running test made: theirs to close, as they are a user's."""


def model_at(server: ProviderServer, api: API = "chat", name: str | None = None) -> Model[Any]:
    """A model of Pydantic AI's, as a user makes it, that asks the provider on this machine."""
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    if api == "messages":
        speaks = AnthropicProvider(base_url=server.url, api_key=KEY)
        _MADE.append(speaks.client)
        return AnthropicModel(name or "claude-sonnet-4-6", provider=speaks)
    provider = OpenAIProvider(base_url=server.openai_url, api_key=KEY)
    _MADE.append(provider.client)
    if api == "chat":
        return OpenAIChatModel(name or "gpt-4o", provider=provider)
    return OpenAIResponsesModel(name or "gpt-5", provider=provider)


class World:
    """What really happened, outside of every run: how often, with what, under which keys."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: list[str] = []
        self.lost: set[str] = set()
        """What takes effect and then never comes back."""
        self.gone = asyncio.Event()

    async def do(self, name: str) -> None:
        self.done[name] += 1
        found = this_call()
        if found is not None:
            self.keys.append(found.idempotency_key)
        if name in self.lost:
            self.gone.set()
            await asyncio.Event().wait()


async def killed_in(world: World, name: str, recording: Coroutine[Any, Any, Any]) -> None:
    """Call ``recording`` off while ``name`` is in flight, as the end of its process would."""
    world.lost, world.gone = {name}, asyncio.Event()
    task = asyncio.ensure_future(recording)
    gone = asyncio.ensure_future(world.gone.wait())
    await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    world.lost = set()


def spoken(asked: Asked) -> int:
    """How often the model has spoken in what it is shown."""
    return sum(1 for message in asked.messages if message.role == "assistant")


def says(*replies: Told) -> Callable[[Asked], Told]:
    """A script that says ``replies`` in turn, by how often the model has spoken in what it is shown."""
    return lambda asked: replies[min(spoken(asked), len(replies) - 1)]


PAYS = (
    calls(call("search", id="c1", number="17")),
    calls(call("charge", id="c2", number="17", cents=500)),
    "paid",
)
"""A model that looks, charges, and is done."""


def clerk(model: Any, world: World, *, name: str | None = None, **declared: Any) -> Agent[Any, Any]:
    """An agent as a user writes it: two tools, one capability."""
    agent: Agent[Any, Any] = Agent(model, name=name, instructions="Collect.", capabilities=[Forkpoint(**declared)])

    @agent.tool_plain
    async def search(number: str) -> dict[str, Any]:
        """Look for an invoice."""
        await world.do("search")
        return {"number": number, "due": 500}

    @agent.tool_plain
    async def charge(number: str, cents: int) -> str:
        """Charge a card."""
        await world.do("charge")
        return f"charged {cents}"

    return agent


def asking(agent: Agent[Any, Any]) -> Callable[[str], Coroutine[Any, Any, Any]]:
    """The function that a user records."""

    async def answer(question: str) -> str:
        return (await agent.run(question)).output  # type: ignore[no-any-return]

    return answer


def told(message: Message) -> Any:
    """What a model was shown as the result of a call."""
    return message.parts[0].response  # type: ignore[union-attr]


async def waits_for(runtime: fp.Runtime, function: Callable[..., Any], *args: Any, run: str = "r") -> list[Any]:
    """Record ``function`` until somebody must decide: what it waits for."""
    with pytest.raises(RunWaits):
        await runtime.record(run, function, *args)
    return list(await (await runtime.open(run)).waits())


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run an async test on an event loop of its own, and close what it opened."""

    async def closing() -> None:
        try:
            await test
        finally:
            while _MADE:
                await _MADE.pop().close()

    asyncio.run(closing())


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test with a store's path on an event loop of its own."""

    def wrapped(tmp_path: Path) -> None:
        run(test(str(tmp_path / "runs.db")))

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


async def events_of(runtime: fp.Runtime, kind: type[Any], run_id: str = "r") -> list[Any]:
    """The run's events of one kind, in order."""
    return [one.event for one in await (await runtime.open(run_id)).history() if isinstance(one.event, kind)]
