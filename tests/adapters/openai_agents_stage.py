"""An agent of the OpenAI Agents SDK as a user would write one, asked over HTTP from a provider on this machine."""

import asyncio
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from forkpoint.adapters.openai_agents import ForkpointProvider, durable, this_call
from forkpoint.messages import CallPart
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import Asked, ProviderServer, Told

set_tracing_disabled(True)

_CLIENTS: list[AsyncOpenAI] = []

Script = Callable[[Asked], Told]
each_api = pytest.mark.parametrize("api", ["responses", "chat"])
each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


class World:
    """What really happened, outside of every run: how often each thing was done, and under which keys."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: list[str] = []
        self.lost = ""
        """What takes effect and then never comes back."""
        self.gone = asyncio.Event()

    async def do(self, name: str) -> None:
        self.done[name] += 1
        self.keys.append(this_call().idempotency_key)
        if name == self.lost:
            self.gone.set()
            await asyncio.Event().wait()


async def killed_in(world: World, name: str, recording: Coroutine[Any, Any, Any]) -> None:
    """Call ``recording`` off while ``name`` is in flight, as the end of its process would."""
    world.lost = name
    task = asyncio.ensure_future(recording)
    gone = asyncio.ensure_future(world.gone.wait())
    await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), task.exception()
    world.lost = ""


def tools_of(world: World) -> list[Any]:
    """What a clerk can do: search (changes nothing), charge and mail."""

    @function_tool
    async def search(number: str) -> dict[str, Any]:
        """Find an invoice."""
        await world.do("search")
        return {"number": number, "due": 500}

    @function_tool
    async def charge(number: str, cents: int) -> str:
        """Charge an invoice."""
        await world.do("charge")
        return f"charged {cents}"

    @function_tool
    async def mail(to: str) -> str:
        """Send a mail."""
        await world.do("mail")
        return f"sent to {to}"

    return [search, charge, mail]


def in_turn(*replies: Told, last: str = "paid") -> Script:
    """A script that says ``replies`` in turn, by how often the model has spoken in what it is shown; then ``last``."""

    def script(asked: Asked) -> Told:
        spoken = sum(message.role == "assistant" for message in asked.messages)
        return replies[spoken] if spoken < len(replies) else last

    return script


def asks(*parts: CallPart) -> Told:
    return calls(*parts)


BILLING = in_turn(asks(call("search", number="17")), asks(call("charge", number="17", cents=500)))


def theirs(server: ProviderServer, api: str = "responses") -> OpenAIProvider:
    """The SDK's own provider, with its real client."""
    return OpenAIProvider(openai_client=client_of(server), use_responses=api == "responses")


def client_of(server: ProviderServer) -> AsyncOpenAI:
    """A real client, closed when the test's event loop ends."""
    _CLIENTS.append(AsyncOpenAI(base_url=server.openai_url, api_key="sk-none-of-your-business"))
    return _CLIENTS[-1]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a test on an event loop of its own, and close what it opened."""

    async def running() -> None:
        try:
            await scenario
        finally:
            while _CLIENTS:
                await _CLIENTS.pop().close()

    asyncio.run(running())


def config(server: ProviderServer, api: str = "responses", **more: Any) -> RunConfig:
    return RunConfig(model_provider=ForkpointProvider(theirs(server, api)), **more)


def clerk(world: World, **marks: Any) -> Agent[Any]:
    marks = marks or {"read_only": {"search"}, "idempotent": {"charge"}}
    return Agent(name="clerk", model="gpt-4o", instructions="Collect.", tools=durable(tools_of(world), **marks))


def loop_of(agent: Agent[Any], server: ProviderServer, api: str = "responses", *, streamed: bool = False) -> Any:
    """What a user records: one question to an agent."""

    async def answer(question: str = "17") -> str:
        given = {"run_config": config(server, api)}
        if not streamed:
            return str((await Runner.run(agent, question, **given)).final_output)
        result = Runner.run_streamed(agent, question, **given)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return answer


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test with a store's path on an event loop of its own."""

    @functools.wraps(test)
    def wrapped(tmp_path: Path, **given: Any) -> None:
        run(test(str(tmp_path / "runs.db"), **given))

    old = inspect.signature(test)
    own = [one for name, one in old.parameters.items() if name != "store"]
    first = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wrapped.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]
    return wrapped


def shown(asked: Asked) -> list[Any]:
    """What the model was told of its calls, in order."""
    return [message.parts[0].response for message in asked.messages if message.role == "tool"]  # type: ignore[union-attr]


def events_of_kind(history: Any, kind: str) -> Iterator[Any]:
    return (one.event for one in history if type(one.event).__name__ == kind)
