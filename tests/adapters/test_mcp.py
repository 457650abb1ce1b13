"""MCP servers' tools as an agent's: the real client against servers in processes of their own, which are killed."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the extra 'mcp' is not installed")

from tests.adapters.mcp_servers.witness import HERE, OFFICE, PROXIED, Listening, Witness, crude, run, started
from tests.runtime.stage import call, calls, played, results, runtime_on

import forkpoint as fp
from forkpoint.adapters.mcp import McpServer
from forkpoint.adapters.mcp_tools import names_for
from forkpoint.errors import AdapterMissing, AgentDiffers, ArgumentUnfit, ToolBadDefinition
from forkpoint.errors.agents import AgentBadDefinition
from forkpoint.errors.mcp import McpBadAnswer, McpLost, McpNoSuchTool, McpRefused, McpUnreachable, McpUnread
from forkpoint.events import EffectDispatched, EffectSettled
from forkpoint.outcomes import Failed, Succeeded, Unknown
from forkpoint.runtime.progress import Progress
from forkpoint.testing.fakes import FakeClock, settle

SECRET = "hunter2-very-secret-0123456789"
PICTURE = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
MEMO = {"type": "resource", "resource": {"uri": "memo://1", "mimeType": "text/plain", "text": "a memo"}}


def clerk(server: McpServer, *asks: Any) -> fp.Agent:
    """An agent that makes each of ``asks`` in a step of its own, or several in one."""
    steps = [calls(*one) if isinstance(one, tuple) else calls(one) for one in asks]
    return fp.Agent("clerk", model=played(*steps), tools=server.tools)


async def outcomes(handle: fp.Run) -> list[Any]:
    """How each attempt at a tool ended, in order."""
    ended = [one.event.outcome for one in await handle.history() if isinstance(one.event, EffectSettled)]
    return [one for one in ended if not (isinstance(one, Succeeded) and one.message is not None)]


async def played_out(server: McpServer, *asks: Any) -> tuple[fp.RunState, list[Any]]:
    """A run of ``asks`` in memory: where it came to rest, and how each attempt at a tool ended."""
    async with runtime_on(None, clerk(server, *asks)) as runtime:
        handle = await runtime.start("clerk", "go")
        return await handle.wait(), await outcomes(handle)


@asynccontextmanager
async def at(way: str, witness: Witness, **options: Any) -> AsyncIterator[tuple[McpServer, Listening | None]]:
    """The office over stdio or HTTP; and its process, if it is one of the test's."""
    if way == "stdio":
        async with witness.stdio(**options) as office:
            yield office, None
        return
    more = ["json"] if way == "http with json" else []
    async with Listening(OFFICE, "http", *more, witness=witness) as listening, listening.server(**options) as office:
        yield office, listening


# ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["stdio", "http", "http with json"])
def test_a_servers_tools_are_an_agents_tools(way: str) -> None:
    async def scenario() -> None:
        async with Witness() as witness, at(way, witness) as (office, _):
            state, ended = await played_out(office, call("look", path="a.txt"), call("greet"))
        assert state.output == "done"
        assert results(state) == [{"of": "a.txt", "depth": 1, "said": "ok"}, "good day"]
        assert all(isinstance(one, Succeeded) for one in ended)

    run(scenario)


def test_a_model_is_shown_a_tool_as_the_server_describes_it() -> None:
    async def scenario() -> None:
        async with Witness() as witness, witness.stdio() as office:
            record = office.tools[0].record()
        assert (record.name, record.description) == ("look", "Look at a file.")
        assert record.parameters == {
            "type": "object",
            "title": "lookArguments",
            "properties": {
                "path": {"title": "Path", "type": "string"},
                "depth": {"title": "Depth", "type": "integer", "default": 1},
            },
            "required": ["path"],
        }
        assert record.result == {"type": "object", "title": "lookDictOutput", "additionalProperties": True}

    run(scenario)


def test_bad_arguments_go_back_to_the_model_and_the_server_is_not_asked() -> None:
    async def scenario() -> None:
        async with Witness() as witness, witness.stdio() as office:
            _, ended = await played_out(office, call("look", path=7))
            assert witness.heard == []
        assert "path" in ended[0].text

    run(scenario)


def test_values_of_every_kind_are_kept() -> None:
    async def scenario() -> None:
        asks = [call(name) for name in ("gallery", "photo", "folder", "nothing", "count")]
        async with Witness() as witness, witness.stdio() as office:
            state, _ = await played_out(office, *asks)
        assert results(state) == [["two things", PICTURE], PICTURE, [{"files": 1}, MEMO], None, {"result": 2}]

    run(scenario)


def test_every_page_of_the_list_is_read_and_every_name_is_one_that_providers_take() -> None:
    async def scenario() -> None:
        async with crude("pages") as server:
            names = [one.name for one in server.tools]
        async with crude("pages", prefix="c_") as server:
            prefixed = [one.name for one in server.tools]
            said = [await one(fp.ToolContext()) for one in server.tools]
        # "a_b" has that name; the others would have it too, and are told apart by what they are.
        assert names == [
            "a_b_2e7336dc",
            "a_b_c14cddc0",
            "a_b",
            "longlonglonglonglonglonglonglonglonglonglonglonglonglon_cc8458d7",
            "_mlaut",
        ]
        assert said == [f"called {one}" for one in ("a.b", "a/b", "a_b", "long" * 30, "ümlaut")]
        assert all(len(name) <= 64 for name in prefixed)
        assert prefixed[2:3] == ["c_a_b"]

    run(scenario)


def test_a_tools_name_does_not_depend_on_the_order_in_which_a_server_tells_them() -> None:
    theirs = ["a.b", "a/b", "a_b", "x" * 70, "x" * 71, "", "plain"]
    made = names_for(theirs)
    assert made == names_for(reversed(theirs))
    assert len({*made.values()}) == len(theirs)
    assert (made["plain"], made["a_b"]) == ("plain", "a_b")


def test_two_servers_with_tools_of_one_name_need_a_prefix() -> None:
    async def scenario() -> None:
        async with crude("hints") as one, crude("hints", prefix="other_") as other:
            with pytest.raises(AgentBadDefinition, match="two tools are named 'look'"):
                fp.Agent("a", model=played(), tools=[*one.tools, *one.tools])
            agent = fp.Agent("a", model=played(), tools=[*one.tools, *other.tools])
            assert agent.tool("look") is not None
            assert agent.tool("other_look") is not None
            with pytest.raises(ToolBadDefinition):
                await crude("hints", prefix="no spaces ").__aenter__()

    run(scenario)


# ── what may be repeated ─────────────────────────────────────────────────────────────────────────────────────────


def recoveries(server: McpServer) -> dict[str, str]:
    return {one.name: one.recovery.value for one in server.tools}


def test_what_a_server_hints_counts_only_where_it_is_trusted() -> None:
    async def scenario() -> None:
        async with crude("hints") as server:
            assert recoveries(server) == {"look": "hold", "put": "hold", "post": "hold"}
        async with crude("hints", trust_hints=True) as server:
            assert recoveries(server) == {"look": "repeat", "put": "retry", "post": "hold"}

    run(scenario)


def test_what_the_user_says_of_a_tool_needs_no_trust_and_comes_before_the_hints() -> None:
    async def scenario() -> None:
        said = {
            "read_only": {"put"},
            "idempotent": ["look"],
            "reconcile": {"post": lambda ctx, /, **_: fp.NotOccurred()},
        }
        for trusted in (False, True):
            async with crude("hints", trust_hints=trusted, **said) as server:
                assert recoveries(server) == {"look": "retry", "put": "repeat", "post": "reconcile"}

    run(scenario)


@pytest.mark.parametrize("option", ["read_only", "idempotent", "reconcile", "approval"])
def test_a_tool_that_a_server_does_not_have_is_not_spoken_of_in_vain(option: str) -> None:
    async def scenario() -> None:
        said: Any = {"lok": lambda ctx, /, **_: fp.NotOccurred()} if option in ("reconcile", "approval") else {"lok"}
        with pytest.raises(McpNoSuchTool, match="no tool 'lok'; it has 'look', 'put'"):
            await crude("hints", **{option: said}).__aenter__()

    run(scenario)


def test_a_person_is_asked_about_the_tools_that_the_user_names() -> None:
    async def scenario() -> None:
        said = {"post": lambda arguments: arguments["text"] == "bomb", "put": True}
        async with Witness() as witness, witness.stdio(approval=said) as office:
            asks = (
                call("post", id="c1", text="bomb"),
                call("post", id="c2", text="rose"),
                call("put", id="c3", text="x"),
            )
            state, _ = await played_out(office, asks)
            assert [(wait.kind, wait.name) for wait in state.waits] == [("approval", "post"), ("approval", "put")]
            assert [said.tool for said in witness.heard] == ["post"]

    run(scenario)


# ── a server that is lost in the middle of a call ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("way", "verdict"),
    [("stdio", "occurred"), ("stdio", "not_occurred"), ("stdio", "abandoned_unknown"), ("http", "not_occurred")],
)
def test_a_server_killed_in_the_middle_of_a_call_leaves_it_unknown(way: str, verdict: Any) -> None:
    async def scenario() -> None:
        async with Witness("post") as witness, at(way, witness) as (office, listening):
            agent = clerk(office, call("post", id="c1", text="hello"), call("greet"))
            async with runtime_on(None, agent) as runtime:
                handle = await runtime.start("clerk", "go")
                (await witness.hears()).kill()
                state = await handle.wait()
                assert [(wait.kind, wait.name) for wait in state.waits] == [("unknown", "post")]
                (lost,) = await outcomes(handle)
                assert isinstance(lost, Unknown)
                assert lost.because == "connection"
                assert lost.text.startswith("McpLost: The MCP server office was lost during post: ")
                if listening is not None:
                    listening.kill()
                    await listening.start()
                # The process goes on: the next call connects again, and starts the server if it is a process.
                await handle.resolve("c1", verdict)
                state = await handle.wait()
        assert (state.status, state.output) == ("idle", "done")
        assert results(state)[-1] == "good day"
        assert witness.count("post") == 1

    run(scenario)


def test_an_idempotent_call_is_made_again_under_the_same_key_by_a_server_that_is_started_again() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        async with Witness("put") as witness, witness.stdio(trust_hints=True) as office:
            agent = clerk(office, call("put", text="x"))
            async with runtime_on(None, agent, clock=clock) as runtime:
                handle = await runtime.start("clerk", "go")
                first = await witness.hears()
                first.kill()
                await retrying(handle)
                await clock.advance(60)
                second = await witness.hears()
                second.answer("twice")
                state = await handle.wait()
                ended = await outcomes(handle)
        assert results(state) == [{"result": "put x twice"}]
        assert first.key == second.key
        assert first.key
        assert first.pid != second.pid
        assert [type(one) for one in ended] == [Unknown, Succeeded]

    run(scenario)


async def dispatched(handle: fp.Run, times: int) -> None:
    """Wait until so many effects were begun, models and tools."""
    async for one in handle.watch(after=0):
        times -= isinstance(getattr(one, "event", None), EffectDispatched)
        if not times:
            await settle()
            return


async def retrying(handle: fp.Run) -> None:
    """Wait until an attempt has failed and another one is to follow."""
    async for one in handle.watch(after=0):
        event = getattr(one, "event", None)
        if isinstance(event, EffectSettled) and event.then == "retry":
            await settle()
            return


def test_a_read_only_call_that_is_lost_fails_and_the_next_one_works() -> None:
    async def scenario() -> None:
        async with Witness("look") as witness, witness.stdio(read_only={"look"}) as office:
            agent = clerk(office, call("look", path="a"), call("greet"))
            async with runtime_on(None, agent) as runtime:
                handle = await runtime.start("clerk", "go")
                (await witness.hears()).kill()
                state = await handle.wait()
                ended = await outcomes(handle)
        assert [type(one) for one in ended] == [Failed, Succeeded]
        assert ended[0].error == "McpLost"
        assert results(state)[1] == "good day"

    run(scenario)


@pytest.mark.parametrize("done", [True, False])
def test_a_probe_finds_out_what_became_of_a_lost_call(done: bool) -> None:
    async def scenario() -> None:
        async def probe(ctx: fp.ToolContext, /, **arguments: Any) -> Any:
            found = await office.call("find_post", **arguments)
            return fp.Occurred(f"posted {arguments['text']}, says {found['result']}") if done else fp.NotOccurred()

        async with Witness("post") as witness:
            office = witness.stdio(reconcile={"post": probe})
            async with office, runtime_on(None, clerk(office, call("post", text="hello"))) as runtime:
                handle = await runtime.start("clerk", "go")
                (await witness.hears()).kill()
                if not done:
                    (await witness.hears()).answer("now")
                state = await handle.wait()
        assert witness.count("find_post") == 1
        assert witness.count("post") == (1 if done else 2)
        assert results(state) == ["posted hello, says ok" if done else {"result": "posted hello now"}]

    run(scenario)


def test_a_process_killed_in_the_middle_of_a_call_finds_it_unknown_when_it_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = str(tmp_path / "runs.db")
        async with Witness("post") as witness:
            command = [sys.executable, str(HERE / "clerk.py"), store, OFFICE, str(witness.port)]
            child = started(command)
            said = await witness.hears()
            child.kill()
            child.communicate()
            async with witness.stdio() as office:
                agent = clerk(office, call("post", id="c1", text="hello"))
                async with fp.connect(store, agents=[agent]) as runtime:
                    await runtime.recover()
                    handle = await runtime.open("r")
                    state = await handle.wait()
                    assert [(wait.kind, wait.name) for wait in state.waits] == [("unknown", "post")]
                    await handle.resolve("c1", "occurred", output="it is in the box")
                    await runtime.recover()
                    state = await handle.wait()
            said.answer()
        assert (state.output, results(state), witness.count("post")) == ("done", ["it is in the box"], 1)

    run(scenario)


def test_calls_go_on_in_parallel_and_one_that_is_lost_or_refused_hurts_no_other() -> None:
    async def scenario() -> None:
        async with Listening(PROXIED) as listening, listening.server() as server:
            asks = tuple(call("send", id=how, how=how) for how in ("fine", "cut", "401", "cut in json", "well"))
            state, _ = await played_out(server, asks)
            assert [wait.name for wait in state.waits] == ["send", "send"]
        assert answered(state)["fine"] == "sent fine"
        assert answered(state)["well"] == "sent well"

    run(scenario)


def answered(state: fp.RunState) -> dict[str, Any]:
    return {part.id: part.response for one in state.messages if one.role == "tool" for part in one.parts}


def test_several_calls_are_in_one_connection_at_once() -> None:
    async def scenario() -> None:
        async with Witness("post") as witness, witness.stdio() as office:
            asks = tuple(call("post", id=text, text=text) for text in ("a", "b", "c"))
            async with runtime_on(None, clerk(office, asks)) as runtime:
                handle = await runtime.start("clerk", "go")
                held = [await witness.hears() for _ in asks]
                for number, said in enumerate(reversed(held)):
                    said.answer(str(number))
                state = await handle.wait()
        assert len({said.pid for said in held}) == 1
        assert sorted(one["result"][:8] for one in results(state)) == ["posted a", "posted b", "posted c"]

    run(scenario)


# ── how a request over HTTP can end ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["cut", "cut in json", "cut in stream", "502", "202", "page", "broken"])
def test_a_request_that_was_sent_and_not_answered_is_unknown(how: str) -> None:
    async def scenario() -> None:
        async with Listening(PROXIED) as listening, listening.server() as server:
            state, ended = await played_out(server, call("send", how=how))
            assert [wait.kind for wait in state.waits] == ["unknown"]
            assert [type(one) for one in ended] == [Unknown]
            assert await listening.done() == [how]
            assert (await server.call("send", how="fine"))[:4] == "sent"

    run(scenario)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("400", "we do not serve this"),
        ("401", "HTTP 401 Unauthorized"),
        ("403", "you may not"),
        ("500", "it broke"),
    ],
)
def test_a_request_that_the_server_says_it_refused_has_failed(how: str, text: str) -> None:
    async def scenario() -> None:
        async with Listening(PROXIED) as listening, listening.server() as server:
            _, ended = await played_out(server, call("send", how=how))
        assert isinstance(ended[0], Failed)
        assert ended[0].text.startswith(f"office answered: {text}")

    run(scenario)


@pytest.mark.parametrize("how", ["forget", "forget quietly"])
def test_a_server_that_has_forgotten_the_connection_did_nothing_and_is_asked_again(how: str) -> None:
    """What a server does that was started again: it says that it does not know the caller, in one of two ways."""

    async def scenario() -> None:
        async with Listening(PROXIED) as listening, listening.server() as server:
            state, ended = await played_out(server, call("send", how=how))
            assert results(state) == [f"sent {how}"]
            assert [type(one) for one in ended] == [Succeeded]

    run(scenario)


def test_a_server_that_forgets_at_once_is_not_asked_for_ever() -> None:
    async def scenario() -> None:
        async with Listening(PROXIED) as listening, listening.server() as server:
            _, ended = await played_out(server, call("send", how="always"))
            assert isinstance(ended[0], Failed)
            assert ended[0].text == "office answered: Session not found"
            assert await listening.done() == []

    run(scenario)


# ── a server that is not there ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (McpServer.stdio("no-such-command-here", name="x"), "No such file"),
        (McpServer.http("http://127.0.0.1:9/mcp", name="x"), "connection"),
        (McpServer.http("nonsense", name="x"), "protocol"),
        (crude("gone", name="x"), "Connection closed"),
        (crude("silent", name="x", connect_s=0.2), "it did not answer within 0.2 s"),
    ],
    ids=["no command", "nobody listens", "no address", "ends at once", "silent"],
)
def test_a_server_that_cannot_be_reached_says_so_on_entering(server: McpServer, problem: str) -> None:
    async def scenario() -> None:
        with pytest.raises(
            McpUnreachable, match=f"(?i)The MCP server x cannot be reached: .*{problem}.*nothing was sent"
        ):
            await server.__aenter__()
        with pytest.raises(McpUnread):
            _ = server.tools

    run(scenario)


def test_a_call_that_cannot_be_sent_has_failed_and_is_never_unknown() -> None:
    async def scenario() -> None:
        async with Witness() as witness, at("http", witness) as (office, listening):
            assert listening is not None
            listening.kill()
            state, ended = await played_out(office, call("post", text="one"), call("post", text="two"))
            assert [type(one) for one in ended] == [Failed, Failed]
            assert ended[0].error == "McpUnreachable"
            assert ended[0].text.endswith("; nothing was sent")
            assert state.status == "idle"
            await listening.start()
            state, _ = await played_out(office, call("post", text="three"))
            assert results(state) == [{"result": "posted three ok"}]
        assert witness.count("post") == 1

    run(scenario)


def test_a_server_that_died_between_two_calls_is_started_again_for_the_next() -> None:
    """Nothing was in flight, so that nothing is in doubt."""

    async def scenario() -> None:
        async with Witness() as witness, witness.stdio() as office:
            await office.call("post", text="one")
            witness.heard[0].kill()
            while office.connected:
                await settle(1)
            state, ended = await played_out(office, call("post", text="two"))
        assert results(state) == [{"result": "posted two ok"}]
        assert [type(one) for one in ended] == [Succeeded]
        assert witness.heard[0].pid != witness.heard[1].pid

    run(scenario)


def test_a_server_that_is_started_again_never_meets_the_one_before(tmp_path: Path) -> None:
    """Two processes of one server could be in each other's way, even where the first has only fallen silent."""

    async def scenario() -> None:
        async with crude("heir", str(tmp_path / "life")) as server:
            with pytest.raises(McpLost):
                await server.call("mute")
            assert await server.call("will") == "started ended "

    run(scenario)


def test_an_idempotent_call_waits_for_a_server_that_comes_back() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        async with Witness() as witness, at("http", witness, idempotent={"put"}) as (office, listening):
            assert listening is not None
            listening.kill()
            async with runtime_on(None, clerk(office, call("put", text="x")), clock=clock) as runtime:
                handle = await runtime.start("clerk", "go")
                await retrying(handle)
                await listening.start()
                await clock.advance(60)
                state = await handle.wait()
        assert results(state) == [{"result": "put x ok"}]

    run(scenario)


def test_a_call_interrupted_while_its_server_starts_was_not_tried(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with crude("once", str(tmp_path / "started")) as server:
            with pytest.raises(McpLost):
                await server.call("deaf")
            async with runtime_on(None, clerk(server, call("err"))) as runtime:
                handle = await runtime.start("clerk", "go")
                await dispatched(handle, 2)
                await handle.interrupt("enough")
                await handle.wait()
                (ended,) = await outcomes(handle)
        assert isinstance(ended, Failed)
        assert "called off" in ended.text

    run(scenario)


def test_a_server_that_was_left_is_ended_and_gets_no_more_calls() -> None:
    async def scenario() -> None:
        async with Witness() as witness:
            async with witness.stdio() as office:
                await office.call("post", text="one")
            with pytest.raises(ProcessLookupError):
                os.kill(witness.heard[0].pid, 0)
            with pytest.raises(McpUnreachable, match="it was closed here"):
                await office.call("post", text="two")
            async with office:
                await office.call("post", text="three")
        assert witness.count("post") == 2

    run(scenario)


# ── what the server says ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_that_the_server_reports_is_a_failure_that_the_model_sees() -> None:
    async def scenario() -> None:
        async with Witness() as witness, witness.stdio() as office:
            state, ended = await played_out(office, call("spoil", text="ann"))
        assert isinstance(ended[0], Failed)
        assert ended[0].error == "McpRefused"
        assert "no stamp for ann" in ended[0].text
        assert "no stamp for ann" in str(results(state)[0])

    run(scenario)


def test_an_error_of_the_protocol_is_a_failure_and_one_that_says_the_line_is_bad_is_not() -> None:
    async def scenario() -> None:
        async with crude("liar") as server:
            _, refused = await played_out(server, call("err"))
            state, doubtful = await played_out(server, call("doubt"))
            with pytest.raises(McpRefused, match=r"Invalid params \(code -32602\): {'field': 'x'}"):
                await server.call("err")
        assert [type(one) for one in (*refused, *doubtful)] == [Failed, Unknown]
        assert [wait.kind for wait in state.waits] == ["unknown"]

    run(scenario)


def test_an_answer_that_is_not_what_was_declared_happened_and_cannot_be_used() -> None:
    async def scenario() -> None:
        async with crude("liar", idempotent={"lie"}) as server:
            _, ended = await played_out(server, call("lie"))
            with pytest.raises(McpBadAnswer):
                await server.call("lie")
        (failed,) = ended
        assert isinstance(failed, Failed)
        assert failed.happened
        assert "cannot be used" in failed.text

    run(scenario)


def test_progress_of_the_server_reaches_whoever_watches() -> None:
    async def scenario() -> None:
        async with Witness() as witness, witness.stdio() as office:
            agent = clerk(office, call("count"))
            async with runtime_on(None, agent) as runtime:
                handle = await runtime.start("clerk", "go")
                told = ""
                async for one in handle.watch(after=0):
                    told += one.text if isinstance(one, Progress) and one.tool == "count" else ""
                    if "2/2" in told:
                        break
        assert told == "1/2 one\n2/2\n"

    run(scenario)


# ── calling off ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("why", ["timeout", "interrupt"])
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_a_call_that_is_called_off_is_unknown_and_the_server_is_told_to_stop(way: str, why: str) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        async with Witness("post", "cancelled") as witness, at(way, witness, timeout_s=30) as (office, _):
            async with runtime_on(None, clerk(office, call("post", text="x")), clock=clock) as runtime:
                handle = await runtime.start("clerk", "go")
                await witness.hears()
                await (clock.advance(31) if why == "timeout" else handle.interrupt("enough"))
                told = await witness.hears()
                state = await handle.wait()
                ended = await outcomes(handle)
                told.answer()
            assert told.tool == "cancelled"
            assert [type(one) for one in ended] == [Unknown]
            assert ended[0].because == ("timeout" if why == "timeout" else "cancelled")
            assert [wait.kind for wait in state.waits] == ["unknown"]
            # The connection is as good as before.
            assert await office.call("greet") == "good day"
        assert witness.count("post") == 1

    run(scenario)


# ── definitions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_whose_tools_changed_since_a_run_began_is_another_agent(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = str(tmp_path / "runs.db")
        async with Witness("post") as witness:
            async with witness.stdio() as office, fp.connect(journal, agents=[clerk(office, call("greet"))]) as runtime:
                handle = await runtime.start("clerk", "go", run_id="r")
                await handle.wait()
            async with (
                witness.stdio("more") as office,
                fp.connect(journal, agents=[clerk(office, call("greet"))]) as runtime,
            ):
                handle = await runtime.open("r")
                await handle.send("once more")
                with pytest.raises(AgentDiffers, match="shred"):
                    await handle.resume()
                await handle.resume(accept_changes=True)
                assert (await handle.wait()).output == "done"

    run(scenario)


# ── what is kept secret, and what is passed on ───────────────────────────────────────────────────────────────────


def test_environment_and_headers_show_in_no_error_no_journal_and_no_repr(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Witness() as witness, witness.stdio(env={"OFFICE_TOKEN": SECRET}) as office:
            state, ended = await played_out(office, call("spoil", text="ann"))
            assert SECRET not in f"{state!r} {ended!r} {office!r} {office.tools!r}"
            assert "the token is [OFFICE_TOKEN]" in ended[0].text
        for given in ({"TOKEN": 7, "OTHER": SECRET}, [SECRET]):
            with pytest.raises(ArgumentUnfit) as unfit:
                McpServer.stdio("python", env=given)  # type: ignore[arg-type]
            assert SECRET not in str(unfit.value)
        address = McpServer.http(f"https://ann:{SECRET}@127.0.0.1:9/?key={SECRET}")
        assert repr(address) == "McpServer('127.0.0.1:9')"

    run(scenario)


def test_a_header_that_cannot_be_sent_is_not_quoted() -> None:
    async def scenario() -> None:
        async with Listening(PROXIED) as listening:
            with pytest.raises(McpUnreachable) as caught:
                await listening.server(headers={"x-key": f"Bearer {SECRET}\n"}).__aenter__()
        assert "[x-key]" in str(caught.value)
        assert SECRET not in str(caught.value)

    run(scenario)


def test_a_server_gets_its_environment_and_its_headers_and_nothing_else_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with Witness() as witness, Listening(OFFICE, "http", witness=witness) as listening:
            async with witness.stdio(env={"OFFICE_TOKEN": "t-1"}) as office:
                assert await office.call("environment") == {"OFFICE_TOKEN": "t-1", "OFFICE_OTHER": None}
            async with listening.server(headers={"authorization": "Bearer t-2"}) as office:
                assert await office.call("headers") == {"result": "Bearer t-2"}

    monkeypatch.setenv("OFFICE_OTHER", "ours")
    run(scenario)


def test_the_key_of_a_call_is_passed_on() -> None:
    async def scenario() -> None:
        async with Witness() as witness, witness.stdio() as office:
            (tool,) = (one for one in office.tools if one.name == "post")
            await tool(fp.ToolContext(idempotency_key="k-1"), text="x")
            await office.call("post", text="x")
        assert [said.key for said in witness.heard] == ["k-1", None]

    run(scenario)


# ── ways to have one ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_a_module_can_read_the_tools_without_an_event_loop_and_every_loop_connects_for_itself(way: str) -> None:
    async def reading() -> None:
        async with Listening(OFFICE, "http") as listening:
            server = (crude("hints") if way == "stdio" else listening.server()).load()
            agent = clerk(server, call("look" if way == "stdio" else "greet"))
            for _ in range(2):
                state = await asyncio.to_thread(lambda: asyncio.run(playing(agent)))
                assert results(state) == ["called look" if way == "stdio" else "good day"]

    async def playing(agent: fp.Agent) -> fp.RunState:
        async with runtime_on(None, agent) as runtime:
            return await (await runtime.start("clerk", "go")).wait()

    run(reading)


def test_an_option_that_there_is_not_or_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentUnfit, match="trust_hint'"):
        McpServer.stdio("python", trust_hint=True)  # type: ignore[call-arg]
    with pytest.raises(ArgumentUnfit, match="read_only"):
        McpServer.stdio("python", read_only="look")
    with pytest.raises(ArgumentUnfit, match="connect_s"):
        McpServer.stdio("python", connect_s=0)
    with pytest.raises(ArgumentUnfit, match="reconcile"):
        McpServer.stdio("python", reconcile=["look"])  # type: ignore[arg-type]


@pytest.mark.parametrize("absent", ["mcp", "mcp_types"])
def test_without_the_extra_the_error_says_what_to_install(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``mcp_types`` is absent where an ``mcp`` is installed that is too old."""
    monkeypatch.setitem(sys.modules, absent, None)
    for make in (lambda: McpServer.stdio("python"), lambda: McpServer.http("http://127.0.0.1:9/mcp")):
        with pytest.raises(AdapterMissing, match=r"pip install 'forkpoint\[mcp\]'"):
            make()


def test_the_library_is_imported_when_a_server_is_reached() -> None:
    script = (
        "import sys, forkpoint\n"
        "from forkpoint.adapters.mcp import McpServer\n"
        "McpServer.stdio('python', trust_hints=True)\n"
        "sys.exit(str(sorted({'mcp', 'mcp_types', 'httpx2', 'anyio', 'pydantic'} & set(sys.modules))))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"
