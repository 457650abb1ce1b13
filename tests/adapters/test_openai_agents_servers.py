"""MCP servers in an agent of the SDK's: their tools are on record."""

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra 'openai-agents' is not installed")
pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

from agents import Agent, Runner
from agents.mcp import MCPServer, MCPServerStdio
from mcp.types import CallToolResult, Tool
from tests.adapters.openai_agents_stage import (
    World,
    asks,
    config,
    each_api,
    events_of_kind,
    in_turn,
    killed_in,
    live,
    loop_of,
    shown,
)

import forkpoint as fp
from forkpoint.adapters.openai_agents import durable
from forkpoint.errors import RunWaits
from forkpoint.errors.openai_agents import AgentsNotDurable
from forkpoint.testing.fakes import call
from forkpoint.testing.provider_server import ProviderServer

LOOKS = in_turn(asks(call("look", path="a")), asks(call("post", path="b")))


class Desk(MCPServer):
    """A server as somebody may write one, without a process of its own."""

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(**options)
        self.world = world
        self.fails: Exception | None = None

    @property
    def name(self) -> str:
        return "desk"

    async def connect(self) -> None:
        await self.world.do("connect")

    async def cleanup(self) -> None:
        await self.world.do("cleanup")

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        await self.world.do("list")
        schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        return [Tool.model_validate({"name": name, "inputSchema": schema}) for name in ("look", "post")]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        await self.world.do(tool_name)
        if self.fails is not None:
            raise self.fails
        return CallToolResult.model_validate(
            {"content": [{"type": "text", "text": f"{tool_name}: {arguments['path']}"}]}
        )

    async def list_prompts(self) -> Any:
        return "prompts"

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        return name


def agent_of(server: Any) -> Agent[Any]:
    return Agent(name="a", model="gpt-4o", mcp_servers=[server])


@each_api
@live
async def test_a_servers_tools_are_listed_and_called_once(store: str, api: str) -> None:
    world = World()
    with ProviderServer(LOOKS) as server:
        async with fp.connect(store, grace_s=0) as runtime:
            agent = agent_of(durable(Desk(world), read_only={"look"}))
            await killed_in(world, "look", runtime.record("r", loop_of(agent, server, api), "17"))
        async with fp.connect(store) as runtime:
            agent = agent_of(durable(Desk(world), read_only={"look"}))
            assert await runtime.record("r", loop_of(agent, server, api), "17") == "paid"
            assert await runtime.record("r", loop_of(agent, server, api), "17") == "paid"
            history = await (await runtime.open("r")).history()
        called = [one.effect for one in events_of_kind(history, "EffectRequested") if hasattr(one.effect, "tool")]
        assert [(one.tool, one.recovery.value) for one in called] == [("look", "repeat"), ("post", "hold")]
        assert len(server.requests) == 3
    assert world.done == {"list": 3, "look": 2, "post": 1}


@live
async def test_a_servers_call_that_was_lost_waits_and_a_gated_one_asks(store: str) -> None:
    world = World()
    with ProviderServer(LOOKS) as server:
        desk = Desk(world)
        agent = agent_of(durable(desk, read_only={"look"}, approval={"post"}))
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits, match="post"):
                await runtime.record("r", loop_of(agent, server), "17")
            assert world.done["post"] == 0
            desk.fails = OSError("the pipe broke")
            run = await runtime.open("r")
            await run.approve((await run.waits())[0].effect)
            with pytest.raises(RunWaits, match="post"):
                await runtime.record("r", loop_of(agent, server), "17")
            await run.resolve((await run.waits())[0].effect, "not_occurred", actor="ann")
            assert await runtime.record("r", loop_of(agent, server), "17") == "paid"
        assert "not_occurred" in str(shown(server.requests[-1])[-1])
    assert world.done["post"] == 1


@live
async def test_a_server_that_is_not_durable_is_refused(store: str) -> None:
    world = World()

    class Other(Desk):
        @property
        def name(self) -> str:
            return "other"

    with ProviderServer(LOOKS) as server:
        async with fp.connect(store) as runtime:
            with pytest.raises(AgentsNotDurable, match="MCP server other is"):
                await runtime.record("r", loop_of(agent_of(Other(world)), server), "17")
        assert server.requests == []


@live
async def test_outside_of_a_recorded_function_a_server_is_what_it_is(store: str) -> None:
    world = World()
    with ProviderServer(LOOKS) as server:
        desk = durable(Desk(world, use_structured_content=True))
        await desk.connect()
        result = await Runner.run(agent_of(desk), "17", run_config=config(server))
        await desk.cleanup()
        assert result.final_output == "paid"
        assert (desk.use_structured_content, desk.cached_tools) == (True, None)
        assert (await desk.list_prompts(), await desk.get_prompt("x")) == ("prompts", "x")
    assert world.done["look"] == world.done["post"] == 1


SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("desk", log_level="CRITICAL")

@server.tool()
def look(path: str) -> str:
    "Look."
    with open(sys.argv[1], "a") as file:
        file.write("look\\n")
    return f"look: {path}"

@server.tool()
def post(path: str) -> str:
    "Post."
    raise ValueError("no stamp")

server.run("stdio")
"""


@live
async def test_a_real_server_over_stdio_is_on_record(store: str) -> None:
    script, witness = Path(store).with_name("desk.py"), Path(store).with_name("witness")
    script.write_text(SERVER)
    with ProviderServer(LOOKS) as server:
        async with MCPServerStdio({"command": sys.executable, "args": [str(script), str(witness)]}) as stdio:
            agent = agent_of(durable(stdio, read_only={"look"}))
            async with fp.connect(store) as runtime:
                assert await runtime.record("r", loop_of(agent, server), "17") == "paid"
                assert await runtime.record("r", loop_of(agent, server), "17") == "paid"
        assert "look: a" in str(shown(server.requests[1])[0])
        assert "Error executing tool post" in str(shown(server.requests[2])[1])
    assert witness.read_text() == "look\n"
