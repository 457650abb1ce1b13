"""A process of a user's that can be killed: ``python -m tests.adapters.pydantic_ai_clerk STORE URL WITNESS CLASS …``.

It records a Pydantic AI agent that looks and charges, notes each effect in the witness's file, and tells on its output
how the recording ended. With a fifth word the tool of that name never comes back from what it did.
"""

import asyncio
import os
import sys
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import forkpoint as fp
from forkpoint.adapters.pydantic_ai import Forkpoint, this_call
from forkpoint.errors import RunWaits


def agent_of(url: str, witness: str, said: str, stop: str) -> Agent[Any, Any]:
    declared: Any = {"read_only": {"search"}}
    if said != "hold":
        declared[said] = {*declared.get(said, ()), "charge"}
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent: Agent[Any, Any] = Agent(model, instructions="Collect.", capabilities=[Forkpoint(**declared)])

    async def note(what: str) -> None:
        call = this_call()
        assert call is not None
        file = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{what} {call.idempotency_key}\n".encode())
        os.close(file)
        if what == stop:
            print("here", flush=True)
            await asyncio.Event().wait()

    @agent.tool_plain
    async def search(number: str) -> dict[str, Any]:
        await note("search")
        return {"number": number, "due": 500}

    @agent.tool_plain
    async def charge(number: str, cents: int) -> str:
        await note("charge")
        return f"charged {cents}"

    return agent


async def main(store: str, url: str, witness: str, said: str, stop: str = "") -> None:
    agent = agent_of(url, witness, said, stop)

    async def answer(question: str) -> str:
        return (await agent.run(question)).output  # type: ignore[no-any-return]

    async with fp.connect(store) as runtime:
        try:
            print(await runtime.record("r", answer, "17"), flush=True)
        except RunWaits as waits:
            print(waits.code, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
