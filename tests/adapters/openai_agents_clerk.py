"""A process of a user's that can be killed: ``python openai_agents_clerk.py STORE WITNESS URL HANGS WAY``.

It records a run of the Agents SDK. What its tools really do is one line of the file WITNESS each; the tool HANGS says
so on standard output and never comes back.
"""

import asyncio
import os
import sys
from typing import Any

from agents import Agent, OpenAIProvider, RunConfig, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

import forkpoint as fp
from forkpoint.adapters.openai_agents import ForkpointProvider, durable, this_call
from forkpoint.errors import RunWaits


def agent_of(witness: str, hangs: str) -> Agent[Any]:
    """The clerk."""

    async def done(what: str) -> None:
        descriptor = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{what} {this_call().idempotency_key}\n".encode())
        os.close(descriptor)
        if what == hangs:
            print(what, flush=True)
            await asyncio.Event().wait()

    @function_tool
    async def search(number: str) -> dict[str, Any]:
        """Find an invoice."""
        await done("search")
        return {"number": number, "due": 500}

    @function_tool
    async def charge(number: str, cents: int) -> str:
        """Charge an invoice."""
        await done("charge")
        return f"charged {cents}"

    @function_tool
    async def mail(to: str) -> str:
        """Send a mail."""
        await done("mail")
        return f"sent to {to}"

    tools = durable([search, charge, mail], read_only={"search"}, idempotent={"charge"})
    back = Agent(name="back", model="gpt-4o", instructions="Work.", tools=tools)
    return Agent(name="front", model="gpt-4o", instructions="Greet.", handoffs=[back])


async def main(store: str, witness: str, url: str, hangs: str, way: str) -> str:
    """What the run comes to; how many decisions it waits for, if it does."""
    set_tracing_disabled(True)
    agent, client = agent_of(witness, hangs), AsyncOpenAI(base_url=url, api_key="none")
    session = SQLiteSession("s", store + ".session")
    config = RunConfig(model_provider=ForkpointProvider(OpenAIProvider(openai_client=client)))

    async def answer(question: str) -> str:
        given: dict[str, Any] = {"run_config": config, "session": durable(session)}
        if way == "whole":
            return str((await Runner.run(agent, question, **given)).final_output)
        result = Runner.run_streamed(agent, question, **given)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    try:
        async with fp.connect(store) as runtime:
            return str(await runtime.record("r", answer, "17"))
    except RunWaits as waits:
        return f"waits for {waits.count}"
    finally:
        session.close()
        await client.close()


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])), flush=True)
