"""A process of a user's that can be killed: ``python clerk.py STORE WITNESS`` starts a run that posts a letter."""

import asyncio
import sys

import forkpoint as fp
from forkpoint.adapters.mcp import McpServer
from forkpoint.testing.fakes import Reply, ScriptedModel, call, calls

ASKS = calls(call("post", id="c1", text="hello"))


def spoken(request: object) -> Reply:
    said = [one for one in request.messages if one.role == "assistant"]  # type: ignore[attr-defined]
    return "done" if said else ASKS


async def main(store: str, office: str, witness: str) -> None:
    server = McpServer.stdio(sys.executable, office, "stdio", name="office", env={"WITNESS": witness})
    async with server:
        agent = fp.Agent("clerk", model=ScriptedModel(spoken), tools=server.tools)
        async with fp.connect(store, agents=[agent]) as runtime:
            await (await runtime.start("clerk", "post it", run_id="r")).wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
