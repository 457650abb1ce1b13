"""A process that can be killed: ``python -m tests.adapters.langgraph_clerk STORE URL WITNESS CLASS KEPT …``.

It records an agent of LangChain's that looks and charges, notes each effect in the witness's file, and tells on its
output how the recording ended. ``KEPT`` is where its thread is kept: ``store``, or ``nowhere``. With a sixth word the
tool of that name never comes back from what it did.
"""

import asyncio
import os
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from tests.adapters.langgraph_stage import HttpModel, at

import forkpoint as fp
from forkpoint.adapters.langgraph import ForkpointMiddleware, ForkpointSaver, this_call
from forkpoint.errors import RunWaits


def agent_of(url: str, witness: str, said: str, stop: str, saver: Any) -> Any:
    declared: Any = {"read_only": {"search"}}
    if said != "hold":
        declared[said] = {*declared.get(said, ()), "charge"}

    async def note(what: str) -> None:
        call = this_call()
        assert call is not None
        file = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{what} {call.idempotency_key}\n".encode())
        os.close(file)
        if what == stop:
            print("here", flush=True)
            await asyncio.Event().wait()

    @tool
    async def search(number: str) -> dict[str, Any]:
        """Look an invoice up."""
        await note("search")
        return {"number": number, "due": 500}

    @tool
    async def charge(number: str, cents: int) -> str:
        """Charge it."""
        await note("charge")
        return f"charged {cents}"

    middleware = [ForkpointMiddleware(**declared)]
    return create_agent(HttpModel(base_url=url), [search, charge], middleware=middleware, checkpointer=saver)


async def main(store: str, url: str, witness: str, said: str, kept: str, stop: str = "") -> None:
    async with fp.connect(store) as runtime:
        agent = agent_of(url, witness, said, stop, ForkpointSaver(runtime) if kept == "store" else None)

        async def answer(question: str) -> str:
            found = await agent.ainvoke({"messages": [("user", question)]}, at("thread-1"))
            return f"{found['messages'][-1].text} after {len(found['messages'])}"

        try:
            print(await runtime.record("r", answer, "17"), flush=True)
        except RunWaits as waits:
            print(waits.code, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
