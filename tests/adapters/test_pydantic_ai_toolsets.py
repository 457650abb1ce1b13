"""Every toolset of a Pydantic AI agent: MCP servers, dynamic ones, one's own; deferred calls; agents in tools."""

import asyncio
import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra 'pydantic-ai' is not installed")

from pydantic_ai import Agent, BinaryContent, FunctionToolset, RunContext
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls, durable_operation
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, ExternalToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema
from tests.adapters.pydantic_ai_stage import (
    World,
    asking,
    clerk,
    killed_in,
    live,
    model_at,
    run,
    says,
    told,
    waits_for,
)

import forkpoint as fp
from forkpoint.adapters.pydantic_ai import Forkpoint, this_call
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import ProviderServer

ARCHIVE = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("archive", log_level="CRITICAL")
witness = sys.argv[1]


def note(what):
    with open(witness, "a") as file:
        file.write(what + "\\n")


@server.tool()
def file_away(number: str) -> dict:
    """File an invoice."""
    note("file_away")
    return {"filed": number}


note("started")
server.run("stdio")
'''


# ── MCP servers ──────────────────────────────────────────────────────────────────────────────────────────────


def archive(tmp_path: Path) -> tuple[Any, Path]:
    """A stdio server of the framework's own toolset, and the file that counts what it did."""
    mcp = pytest.importorskip("pydantic_ai.mcp", reason="pydantic-ai-slim[mcp] is not installed")
    from fastmcp.client.transports import StdioTransport

    script, witness = tmp_path / "archive.py", tmp_path / "witness"
    script.write_text(ARCHIVE)
    witness.touch()
    transport = StdioTransport(sys.executable, [str(script), str(witness)], keep_alive=False)
    return mcp.MCPToolset(transport, id="archive"), witness


def counted(witness: Path) -> Counter[str]:
    return Counter(witness.read_text().split())


def test_listing_the_tools_of_a_server_is_a_step_and_its_calls_are_effects(tmp_path: Path) -> None:
    async def test() -> None:
        store = str(tmp_path / "runs.db")
        toolset, witness = archive(tmp_path)
        tries = [RuntimeError("so that it is called again"), None]
        with ProviderServer(says(calls(call("file_away", id="c1", number="17")), "done")) as server:
            agent: Agent[Any, Any] = Agent(model_at(server), toolsets=[toolset], capabilities=[Forkpoint()])

            async def answer(question: str) -> str:
                found: str = (await agent.run(question)).output
                error = tries.pop(0)
                if error is not None:
                    raise error
                return found

            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
                trajectory = await (await runtime.open("r")).trajectory()
            async with fp.connect(store) as runtime:
                assert await runtime.record("r", answer, "17") == "done"
            assert told(server.requests[1].messages[-1]) == {"filed": "17"}
        assert [(one.name, one.recovery) for one in trajectory.own] == [("list_tools", "repeat")]
        assert [one.recovery for one in trajectory.steps[0].calls] == ["hold"]
        assert counted(witness) == {"started": 1, "file_away": 1}

    run(test())


def test_a_replay_does_not_start_the_server_before_something_of_it_is_needed(tmp_path: Path) -> None:
    async def test() -> None:
        store = str(tmp_path / "runs.db")
        toolset, witness = archive(tmp_path)
        with ProviderServer(says(calls(call("file_away", id="c1", number="17")), "done")) as server:
            said = Forkpoint(approval={"file_away"})
            agent: Agent[Any, Any] = Agent(model_at(server), toolsets=[toolset], capabilities=[said])
            answer = asking(agent)
            async with fp.connect(store) as runtime:
                await waits_for(runtime, answer, "17")
            async with fp.connect(store) as runtime:
                await waits_for(runtime, answer, "17")
                assert counted(witness) == {"started": 1}
                await (await runtime.open("r")).approve("c1")
                assert await runtime.record("r", answer, "17") == "done"
        assert counted(witness) == {"started": 2, "file_away": 1}

    run(test())


def test_a_server_that_is_made_for_each_run_is_the_one_that_is_called(tmp_path: Path) -> None:
    """As one whose key comes from the run: the session that listed its tools is the one that calls them."""

    async def test() -> None:
        toolset, witness = archive(tmp_path)
        of_run, _ = archive(tmp_path)

        async def for_run(ctx: Any) -> Any:
            return of_run

        toolset.for_run = for_run
        with ProviderServer(says(calls(call("file_away", id="c1", number="17")), "done")) as server:
            agent: Agent[Any, Any] = Agent(model_at(server), toolsets=[toolset], capabilities=[Forkpoint()])
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                assert await runtime.record("r", asking(agent), "17") == "done"
        assert counted(witness) == {"started": 1, "file_away": 1}

    run(test())


# ── toolsets of every other kind ─────────────────────────────────────────────────────────────────────────────


class Own(AbstractToolset[Any]):
    """A toolset that somebody wrote from nothing."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def id(self) -> str | None:
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        validator = SchemaValidator(core_schema.dict_schema())
        definition = ToolDefinition(name="charge", parameters_json_schema={"type": "object", "properties": {}})
        return {"charge": ToolsetTool(toolset=self, tool_def=definition, max_retries=1, args_validator=validator)}

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        await self._world.do("charge")
        return f"charged {tool_args['cents']}"


def functions(world: World) -> FunctionToolset[Any]:
    made: FunctionToolset[Any] = FunctionToolset()

    @made.tool_plain
    async def charge(cents: int) -> str:
        await world.do("charge")
        return f"charged {cents}"

    return made


def kinds(world: World) -> dict[str, Any]:
    return {
        "own": Own(world),
        "functions": functions(world),
        "renamed": functions(world).renamed({"pay": "charge"}),
        "prefixed": functions(world).prefixed("till"),
        "dynamic": DynamicToolset(lambda ctx: functions(world), id="dynamic"),
    }


@pytest.mark.parametrize("per_run", [False, True], ids=["for the agent", "for one run"])
@pytest.mark.parametrize("kind", ["own", "functions", "renamed", "prefixed", "dynamic"])
def test_no_toolset_is_left_out(tmp_path: Path, kind: str, per_run: bool) -> None:
    """A call that was lost waits, and is known by the name that the model knows, whatever runs it."""
    name = {"renamed": "pay", "prefixed": "till_charge"}.get(kind, "charge")

    async def test() -> None:
        store, world = str(tmp_path / "runs.db"), World()
        with ProviderServer(says(calls(call(name, id="c1", cents=5)), "done")) as server:
            toolset = kinds(world)[kind]
            given = {} if per_run else {"toolsets": [toolset]}
            agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()], **given)

            async def answer(question: str) -> str:
                return (await agent.run(question, toolsets=[toolset] if per_run else None)).output  # type: ignore[no-any-return]

            async with fp.connect(store, grace_s=0) as runtime:
                await killed_in(world, "charge", runtime.record("r", answer, "17"))
            async with fp.connect(store) as runtime:
                (wait,) = await waits_for(runtime, answer, "17")
                assert (wait.kind, wait.name) == ("unknown", name)
                await (await runtime.open("r")).resolve(wait.effect, "occurred", output="charged 5")
                assert await runtime.record("r", answer, "17") == "done"
            assert told(server.requests[-1].messages[-1]) == "charged 5"
        assert world.done == {"charge": 1}

    run(test())


@live
async def test_the_frameworks_own_limit_of_time_is_off_where_forkpoints_holds(store: str) -> None:
    """Pydantic AI's would tell the model to call again what may have been done."""
    limits: list[Any] = []

    class Limited(Own):
        async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
            (tool,) = (await super().get_tools(ctx)).values()
            return {"charge": replace(tool, tool_def=replace(tool.tool_def, timeout=30.0))}

        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            limits.append(tool.tool_def.timeout)
            return ""

    with ProviderServer(says(calls(call("charge", id="c1", cents=5)), "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), toolsets=[Limited(World())], capabilities=[Forkpoint()])
        await agent.run("17")
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", asking(agent), "17") == "done"
    assert limits == [30.0, math.inf]


@live
async def test_the_users_own_check_of_arguments_is_made_once(store: str) -> None:
    checked: list[int] = []

    def check(ctx: RunContext[Any], cents: int) -> None:
        checked.append(cents)
        if cents > 100:
            from pydantic_ai import ModelRetry

            raise ModelRetry("not so much")

    asks = [calls(call("charge", id=f"c{cents}", cents=cents)) for cents in (500, 5)]
    with ProviderServer(says(*asks, "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), retries=2, capabilities=[Forkpoint()])

        @agent.tool_plain(args_validator=check)
        async def charge(cents: int) -> str:
            return "ok"

        async def answer(question: str) -> None:
            await agent.run(question)
            raise RuntimeError("so that it is called again")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
        assert "not so much" in str(told(server.requests[1].messages[-1]))
        assert len(server.requests) == 3
    assert checked == [500, 5]


# ── deferred calls ───────────────────────────────────────────────────────────────────────────────────────────


def mailer(model: Any, sent: list[str], *capabilities: Any, output: Any = str) -> Agent[Any, Any]:
    agent: Agent[Any, Any] = Agent(model, output_type=output, capabilities=[*capabilities])

    @agent.tool_plain(requires_approval=True)
    async def mail(to: str) -> str:
        sent.append(to)
        return f"sent to {to}"

    return agent


@live
async def test_the_frameworks_own_approvals_go_on_in_another_process_with_what_a_person_said(store: str) -> None:
    """Its deferred requests are the output; the function's own code asks a person by a tool without a body."""
    sent: list[str] = []

    @fp.tool(external=True)
    async def may(question: str) -> str: ...  # type: ignore[empty-body]

    asks = calls(call("mail", id="c1", to="ann"), call("mail", id="c2", to="bob"))
    with ProviderServer(says(asks, "done")) as server:
        agent = mailer(model_at(server), sent, Forkpoint(), output=[str, DeferredToolRequests])

        async def answer(question: str) -> str:
            result = await agent.run(question)
            while isinstance(result.output, DeferredToolRequests):
                decided = DeferredToolResults()
                for one in result.output.approvals:
                    decided.approvals[one.tool_call_id] = await may(f"mail {one.args_as_dict()['to']}?") == "yes"
                result = await agent.run(message_history=result.all_messages(), deferred_tool_results=decided)
            return result.output  # type: ignore[no-any-return]

        for said in ("yes", "no"):
            async with fp.connect(store) as runtime:
                (wait,) = await waits_for(runtime, answer, "17")
            async with fp.connect(store) as desk:
                await (await desk.open("r")).answer(wait.effect, said)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "done"
        results = [told(one) for one in server.requests[-1].messages if one.role == "tool"]
        assert len(server.requests) == 2
    assert results[0] == "sent to ann"
    assert "denied" in results[1]
    assert sent == ["ann"]


@live
async def test_a_tool_that_needs_approval_is_forkpoints_to_ask_about_where_that_is_declared(store: str) -> None:
    sent: list[str] = []
    with ProviderServer(says(calls(call("mail", id="c1", to="ann")), "done")) as server:
        answer = asking(mailer(model_at(server), sent, Forkpoint(approval={"mail"})))
        async with fp.connect(store) as runtime:
            (wait,) = await waits_for(runtime, answer, "17")
            assert (wait.kind, wait.name) == ("approval", "mail")
        assert not sent
        async with fp.connect(store) as desk:
            await (await desk.open("r")).approve("c1", arguments={"to": "eve"})
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "done"
    assert sent == ["eve"]


@live
async def test_a_tool_that_asks_for_approval_itself_ran_once_and_is_no_failure(store: str) -> None:
    bodies: list[bool] = []
    with ProviderServer(says(calls(call("charge", id="c1", cents=500)), "done")) as server:
        handle = HandleDeferredToolCalls(
            handler=lambda ctx, requests: requests.build_results(
                approvals={one.tool_call_id: True for one in requests.approvals}
            )
        )
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[handle, Forkpoint(idempotent={"charge"})])

        @agent.tool
        async def charge(ctx: RunContext[Any], cents: int) -> str:
            bodies.append(ctx.tool_call_approved)
            if cents > 100 and not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"why": "much"})
            return "ok"

        async def answer(question: str) -> None:
            await agent.run(question)
            raise RuntimeError("so that it is called again")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
        assert told(server.requests[-1].messages[-1]) == "ok"
    assert bodies == [False, True]


@live
async def test_a_deferred_call_keeps_what_the_tool_said_of_it(store: str) -> None:
    seen: list[Any] = []
    with ProviderServer(says(calls(call("charge", id="c1")))) as server:
        agent: Agent[Any, Any] = Agent(
            model_at(server), output_type=[str, DeferredToolRequests], capabilities=[Forkpoint()]
        )

        @agent.tool_plain
        async def charge() -> str:
            raise CallDeferred(metadata={"ticket": 7})

        async def answer(question: str) -> None:
            output = (await agent.run(question)).output
            seen.append((output.calls[0].tool_name, output.metadata))
            raise RuntimeError("so that it is called again")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
    assert seen == [("charge", {"c1": {"ticket": 7}})] * 2


@live
async def test_an_external_tool_is_answered_from_outside_where_that_is_declared(store: str) -> None:
    weigh = ToolDefinition(name="weigh", parameters_json_schema={"type": "object", "properties": {}})
    with ProviderServer(
        says(calls(call("weigh", id="c1", what="a"), call("weigh", id="c2", what="b")), "done")
    ) as server:
        toolsets = [ExternalToolset([weigh], id="scales")]
        agent: Agent[Any, Any] = Agent(
            model_at(server), toolsets=toolsets, capabilities=[Forkpoint(external={"weigh"})]
        )
        answer = asking(agent)
        async with fp.connect(store) as runtime:
            assert len(await waits_for(runtime, answer, "17")) == 2
        async with fp.connect(store) as desk:
            run = await desk.open("r")
            await run.answer("c2", {"grams": 2})
            await run.answer("c1", {"grams": 1})
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "done"
        assert [told(one) for one in server.requests[1].messages[-2:]] == [{"grams": 1}, {"grams": 2}]


# ── agents in tools ──────────────────────────────────────────────────────────────────────────────────────────


def delegating(server: ProviderServer, world: World, **declared: Any) -> Agent[Any, Any]:
    """An agent that has another one do the work, in a tool."""
    worker = clerk(model_at(server, name="worker"), world, name="worker", approval={"charge"})
    boss: Agent[Any, Any] = Agent(model_at(server, name="boss"), capabilities=[Forkpoint(**declared)])

    @boss.tool
    async def delegate(ctx: RunContext[Any], task: str) -> str:
        await world.do("delegate")
        return (await worker.run(task, usage=ctx.usage)).output  # type: ignore[no-any-return]

    return boss


def two(asked: Any) -> Any:
    if asked.model == "boss":
        return says(calls(call("delegate", id="c1", task="17")), "all done")(asked)
    charges = [calls(call("charge", id=f"c{cents}", number="17", cents=cents)) for cents in (1, 2, 3)]
    return says(*charges, "charged thrice")(asked)


@live
async def test_what_an_agent_in_an_inline_tool_asks_for_is_recorded_and_waits_as_often_as_it_must(store: str) -> None:
    world = World()
    with ProviderServer(two) as server:
        answer = asking(delegating(server, world, inline={"delegate"}))
        for cents in (1, 2, 3):
            async with fp.connect(store) as runtime:
                (wait,) = await waits_for(runtime, answer, "go")
                assert wait.name == "charge"
            async with fp.connect(store) as desk:
                await (await desk.open("r")).approve(f"c{cents}" if cents > 1 else wait.effect)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "go") == "all done"
        assert Counter(one.model for one in server.requests) == {"boss": 2, "worker": 4}
        assert told(server.requests[-1].messages[-1]) == "charged thrice"
    assert world.done["charge"] == 3


@live
async def test_an_agent_in_a_tool_that_is_an_effect_is_part_of_that_effect(store: str) -> None:
    world = World()
    with ProviderServer(two) as server:
        answer = asking(delegating(server, world))
        for _ in range(2):
            async with fp.connect(store) as runtime:
                assert await runtime.record("r", answer, "go") == "all done"
        async with fp.connect(store) as runtime:
            steps = (await (await runtime.open("r")).trajectory()).steps
        assert len(server.requests) == 6
    assert [len(step.calls) for step in steps] == [1, 0]
    assert world.done == {"delegate": 1, "charge": 3}


# ── other capabilities ───────────────────────────────────────────────────────────────────────────────────────


@live
async def test_a_hook_runs_again_on_replay_and_a_step_in_it_does_not(store: str) -> None:
    ran: Counter[str] = Counter()

    @fp.step(idempotent=True)
    async def count(call_id: str) -> None:
        ran["step"] += 1

    class Counting(AbstractCapability[Any]):
        async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
            ran["hook"] += 1
            await count(call.tool_call_id)
            return result

    with ProviderServer(says(calls(call("look", id="c1"), call("look", id="c2")), "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Counting(), Forkpoint()])

        @agent.tool_plain
        async def look() -> str:
            assert this_call() is not None
            return "there"

        async def answer(question: str) -> None:
            await agent.run(question)
            raise RuntimeError("so that it is called again")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
    assert ran == {"hook": 4, "step": 2}


class Audit(AbstractCapability[Any]):
    """A capability with an operation of its own."""

    id = "audit"

    def __init__(self, world: World) -> None:
        self._world = world

    @durable_operation(name="note")
    async def note(self, ctx: RunContext[Any], message: str) -> dict[str, str]:
        await self._world.do("note")
        return {"noted": message}

    async def before_run(self, ctx: RunContext[Any]) -> None:
        assert await self.note(ctx, "begun") == {"noted": "begun"}


@pytest.mark.parametrize(("declared", "times"), [({}, 1), ({"idempotent": {"audit.note"}}, 2)])
def test_an_operation_of_another_capability_is_a_step_as_declared(
    tmp_path: Path, declared: dict[str, Any], times: int
) -> None:
    async def test() -> None:
        store, world = str(tmp_path / "runs.db"), World()
        with ProviderServer(says("done")) as server:
            agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Audit(world), Forkpoint(**declared)])
            answer = asking(agent)
            async with fp.connect(store, grace_s=0) as runtime:
                await killed_in(world, "note", runtime.record("r", answer, "17"))
            async with fp.connect(store) as runtime:
                if not declared:
                    (wait,) = await waits_for(runtime, answer, "17")
                    assert (wait.kind, wait.name) == ("unknown", "audit.note")
                    noted = {"value": {"noted": "begun"}, "usage_delta": {}}
                    await (await runtime.open("r")).resolve(wait.effect, "occurred", output=noted)
                assert await runtime.record("r", answer, "17") == "done"
        assert world.done == {"note": times}

    run(test())


@live
async def test_files_in_a_result_are_files_again(store: str) -> None:
    seen: list[Any] = []
    with ProviderServer(says(calls(call("draw", id="c1")), "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()])

        @agent.tool_plain
        async def draw() -> Any:
            return ["look", BinaryContent(b"\x89PNG", media_type="image/png")]

        async def answer(question: str) -> None:
            seen.append((await agent.run(question)).all_messages()[2].parts[0].content)
            raise RuntimeError("so that it is called again")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
        assert len(server.requests) == 2
    assert [content[1].data for content in seen] == [b"\x89PNG"] * 2


@live
async def test_agents_side_by_side_in_one_function_keep_to_their_own(store: str) -> None:
    def script(asked: Any) -> Any:
        name = asked.messages[0].text
        return says(calls(call("search", id="c1", number=name)), f"done with {name}")(asked)

    world = World()
    tries = [RuntimeError("so that it is called again"), None]
    with ProviderServer(script) as server:
        agent = clerk(model_at(server), world)

        async def answer(names: list[str]) -> list[str]:
            results = await asyncio.gather(*(agent.run(name) for name in names))
            error = tries.pop(0)
            if error is not None:
                names.reverse()
                raise error
            return [one.output for one in results]

        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer, ["a", "b", "c"])
            assert await runtime.record("r", answer) == [f"done with {name}" for name in "abc"]
        assert len(server.requests) == 6
    assert world.done == {"search": 3}
