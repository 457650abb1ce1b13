"""Tools of the OpenAI Agents SDK on record: waits, failures, results and limits, as the SDK shows them to a model."""

import asyncio
import dataclasses
import datetime
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra 'openai-agents' is not installed")

from agents import (
    Agent,
    AgentsException,
    FunctionTool,
    LocalShellTool,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    ToolOutputText,
    WebSearchTool,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.tool_context import ToolContext
from tests.adapters.openai_agents_stage import (
    World,
    asks,
    clerk,
    config,
    each_api,
    each_way,
    events_of_kind,
    in_turn,
    killed_in,
    live,
    loop_of,
    shown,
    tools_of,
)

import forkpoint as fp
from forkpoint.adapters.openai_agents import durable, this_call
from forkpoint.errors import RunWaits, ToolBadDefinition
from forkpoint.errors.openai_agents import AgentsUnfit
from forkpoint.messages import CallPart
from forkpoint.testing.fakes import call
from forkpoint.testing.provider_server import ProviderServer

MAILS = in_turn(asks(call("mail", to="ann")))


def agent_of(*tools: Any) -> Agent[Any]:
    return Agent(name="a", model="gpt-4o", tools=list(tools))


# ── waits ────────────────────────────────────────────────────────────────────────────────────────────────────────


@each_way
@each_api
@live
async def test_a_gated_call_waits_for_its_approval_from_any_process_and_then_runs_once(
    store: str, api: str, streamed: bool
) -> None:
    world = World()
    with ProviderServer(MAILS) as server:
        loop = loop_of(clerk(world, approval={"mail"}), server, api, streamed=streamed)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("r", loop, "17")
            assert world.done == {}
        async with fp.connect(store) as desk:
            await (await desk.open("r")).approve("call_mail", actor="ann")
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
        assert shown(server.requests[-1]) == ["sent to ann"]
    assert world.done == {"mail": 1}


@live
async def test_a_denial_reaches_the_model_with_its_reason_and_nothing_runs(store: str) -> None:
    world = World()
    with ProviderServer(MAILS) as server:
        loop = loop_of(clerk(world, approval={"mail"}), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("r", loop, "17")
            await (await runtime.open("r")).deny("call_mail", "not on a Sunday")
            assert await runtime.record("r", loop, "17") == "paid"
        assert "not on a Sunday" in str(shown(server.requests[-1]))
    assert world.done == {}


@live
async def test_a_predicate_on_the_arguments_says_who_is_asked(store: str) -> None:
    world = World()
    script = in_turn(
        asks(call("charge", id="c1", number="1", cents=5), call("charge", id="c2", number="2", cents=5000))
    )
    with ProviderServer(script) as server:
        gate = {"charge": lambda arguments: arguments["cents"] > 100}
        loop = loop_of(clerk(world, idempotent={"charge"}, approval=gate), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits) as waits:
                await runtime.record("r", loop, "17")
            assert waits.value.count == 1
            assert world.done == {"charge": 1}
            await (await runtime.open("r")).approve("c2")
            assert await runtime.record("r", loop, "17") == "paid"
    assert world.done == {"charge": 2}


@live
async def test_edited_arguments_are_what_the_tool_is_given(store: str) -> None:
    seen: list[Any] = []

    @function_tool
    def pay(ctx: ToolContext[Any], cents: int) -> str:
        """Pay."""
        seen.append((cents, ctx.tool_arguments))
        return f"paid {cents}"

    with ProviderServer(in_turn(asks(call("pay", cents=500)))) as server:
        loop = loop_of(agent_of(durable(pay, approval={"pay"})), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            await run.approve("call_pay", arguments={"cents": 5})
            assert await runtime.record("r", loop, "17") == "paid"
            (one,) = (await run.trajectory()).steps[0].calls
        assert shown(server.requests[-1]) == ["paid 5"]
    assert seen == [(5, '{"cents": 5}')]
    assert (one.arguments, one.performed_with) == ({"cents": 500}, {"cents": 5})


@live
async def test_three_gated_calls_at_once_are_three_waits_and_each_gets_its_own_answer(store: str) -> None:
    world = World()
    parts = [call("mail", id=f"c{n}", to=name) for n, name in enumerate(("ann", "bob", "eve"))]
    with ProviderServer(in_turn(asks(*parts))) as server:
        loop = loop_of(clerk(world, approval={"mail"}), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits) as waits:
                await runtime.record("r", loop, "17")
            assert waits.value.count == 3
            run = await runtime.open("r")
            await run.approve("c1")
            await run.deny("c2", "no")
            with pytest.raises(RunWaits):
                await runtime.record("r", loop, "17")
            await run.approve("c0")
            assert await runtime.record("r", loop, "17") == "paid"
        told = shown(server.requests[-1])
        assert told[:2] == ["sent to ann", "sent to bob"]
        assert "no" in str(told[2])
    assert world.done == {"mail": 2}


@live
async def test_an_external_tool_is_answered_from_outside_and_its_body_is_never_called(store: str) -> None:
    world = World()
    with ProviderServer(MAILS) as server:
        loop = loop_of(clerk(world, external={"mail"}), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            await run.answer((await run.waits())[0].effect, "sent by hand")
            assert await runtime.record("r", loop, "17") == "paid"
        assert shown(server.requests[-1]) == ["sent by hand"]
    assert world.done == {}


@live
async def test_a_probe_decides_about_a_lost_call(store: str) -> None:
    world = World()
    asked: list[Any] = []

    async def probe(ctx: fp.ToolContext, to: str) -> Any:
        asked.append((to, ctx.idempotency_key))
        return fp.Occurred("sent to ann, says the outbox")

    with ProviderServer(MAILS) as server:
        loop = loop_of(clerk(world, reconcile={"mail": probe}), server)
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "mail", runtime.record("r", loop, "17"))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
        assert shown(server.requests[-1]) == ["sent to ann, says the outbox"]
    assert world.done == {"mail": 1}
    assert asked == [("ann", world.keys[0])]


@live
async def test_a_held_call_that_may_have_happened_waits_while_a_safe_one_at_once_completes(store: str) -> None:
    world = World()

    @function_tool
    async def wire(to: str) -> str:
        """Wire money."""
        await world.do("wire")
        raise TimeoutError("no answer from the bank")

    script = in_turn(asks(call("wire", to="ann"), call("search", number="17")))
    with ProviderServer(script) as server:
        tools = durable([*tools_of(world), wire], read_only={"search"})
        loop = loop_of(agent_of(*tools), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits, match="wire"):
                await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            await run.resolve((await run.waits())[0].effect, "occurred", output="wired", actor="ann")
            assert await runtime.record("r", loop, "17") == "paid"
        assert "wired" in str(shown(server.requests[-1])[0])
    assert world.done == {"wire": 1, "search": 1}


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────


def told_of(error: Any) -> Any:
    return f"It went wrong: {type(error).__name__ in ('ValueError', 'OutOfOrder')}, {error}"


class OutOfOrder(Exception):
    pass


@each_api
@pytest.mark.parametrize("way", ["default", "own", "own async"])
@live
async def test_a_tools_error_reaches_the_model_the_way_the_sdk_shows_it(store: str, api: str, way: str) -> None:
    async def told_async(ctx: Any, error: Exception) -> str:
        await asyncio.sleep(0)
        return told_of(error)

    options: dict[str, Any] = {
        "default": {},
        "own": {"failure_error_function": lambda ctx, error: told_of(error)},
        "own async": {"failure_error_function": told_async},
    }[way]

    @function_tool(**options)
    def fails(n: int) -> str:
        """Fail."""
        raise ValueError(f"{n} is too much <at 0x7f>")

    script = in_turn(asks(call("fails", n=3)))
    with ProviderServer(script) as server:
        await loop_of(agent_of(fails), server, api)("17")
        loop = loop_of(agent_of(durable(fails)), server, api)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            settled = [
                one.outcome for one in events_of_kind(await (await runtime.open("r")).history(), "EffectSettled")
            ]
        assert (settled[1].error, settled[1].text) == ("ValueError", "3 is too much <at 0x7f>")
        assert shown(server.requests[-1]) == shown(server.requests[1])
        assert way == "default" or "True, 3 is too much" in str(shown(server.requests[-1]))


@live
async def test_an_error_that_the_sdk_lets_out_ends_the_function_with_the_tool_done_once(store: str) -> None:
    done: list[int] = []

    @function_tool(failure_error_function=None)
    def fails(n: int) -> str:
        """Fail."""
        done.append(n)
        raise ValueError("no")

    with ProviderServer(in_turn(asks(call("fails", n=3)))) as server:
        loop = loop_of(agent_of(durable(fails)), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(AgentsException, match="no"):
                await runtime.record("r", loop, "17")
            assert (await (await runtime.open("r")).state()).status == "failed"
        assert len(server.requests) == 1
    assert done == [3]


@live
async def test_arguments_that_do_not_fit_are_told_to_the_model_and_the_body_is_not_called(store: str) -> None:
    done: list[int] = []

    @function_tool
    def pay(cents: int) -> str:
        """Pay."""
        done.append(cents)
        return "paid"

    script = in_turn(asks(call("pay", id="c1", cents="abc"), CallPart(id="c2", name="pay", arguments='{"cents": ')))
    with ProviderServer(script) as server:
        await loop_of(agent_of(pay), server)("17")
        loop = loop_of(agent_of(durable(pay, idempotent={"pay"})), server)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            dispatched = [
                one.attempt for one in events_of_kind(await (await runtime.open("r")).history(), "EffectDispatched")
            ]
        assert shown(server.requests[-1]) == shown(server.requests[1])
        assert set(dispatched) == {1}
    assert done == []


@live
async def test_one_of_many_that_fails_discards_none_of_the_others(store: str) -> None:
    ready = asyncio.Event()

    @function_tool
    async def work(n: int) -> str:
        """Work."""
        if n == 1:
            ready.set()
            raise ValueError("not this one")
        await ready.wait()
        return f"done {n}"

    script = in_turn(asks(*(call("work", id=f"c{n}", n=n) for n in range(3))))
    with ProviderServer(script) as server:
        loop = loop_of(agent_of(durable(work, read_only={"work"})), server)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
        first, second, third = shown(server.requests[-1])
        assert (first, third) == ("done 0", "done 2")
        assert "error" in str(second)


@live
async def test_parallel_calls_may_end_in_any_order_and_are_each_performed_once(store: str) -> None:
    done: list[int] = []
    order = [[2, 0, 1], [0, 1, 2]]
    turn = [asyncio.Event() for _ in range(4)]
    fail = [True]

    @function_tool
    async def work(n: int) -> str:
        """Work."""
        place = order[0].index(n)
        if place:
            await turn[place].wait()
        done.append(n)
        turn[place + 1].set()
        return f"done {n}"

    script = in_turn(asks(*(call("work", id=f"c{n}", n=n) for n in range(3))))
    with ProviderServer(script) as server:
        agent = agent_of(durable(work))

        async def answer() -> str:
            result = await Runner.run(agent, "17", run_config=config(server))
            if fail.pop():
                fail.append(False)
                raise RuntimeError("after them all")
            return str(result.final_output)

        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer)
            assert await runtime.record("r", answer) == "paid"
        assert shown(server.requests[-1]) == ["done 0", "done 1", "done 2"]
    assert done == [2, 0, 1]


@live
async def test_a_tool_that_runs_out_of_time_is_told_as_the_sdk_tells_it(store: str) -> None:
    @function_tool(timeout=0.01)
    async def slow(n: int) -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    with ProviderServer(in_turn(asks(call("slow", n=1)))) as server:
        await loop_of(agent_of(slow), server)("17")
        bare = shown(server.requests[-1])
        await loop_of(agent_of(durable(slow)), server)("17")
        assert shown(server.requests[-1]) == bare
        loop = loop_of(agent_of(durable(slow, read_only={"slow"}, attempts={"slow": 1})), server)
        async with fp.connect(store, grace_s=0) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
        assert shown(server.requests[-1]) == bare
        held = loop_of(agent_of(durable(slow)), server)
        async with fp.connect(store, grace_s=0) as runtime:
            with pytest.raises(RunWaits, match="slow"):
                await runtime.record("held", held, "17")


@live
async def test_a_wait_for_a_person_does_not_count_against_a_tools_time(store: str) -> None:
    @function_tool(timeout=0.01)
    async def mail(to: str) -> str:
        """Mail."""
        return f"sent to {to}"

    with ProviderServer(MAILS) as server:
        loop = loop_of(agent_of(durable(mail, approval={"mail"})), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("r", loop, "17")
            await (await runtime.open("r")).approve("call_mail")
            assert await runtime.record("r", loop, "17") == "paid"
        assert shown(server.requests[-1]) == ["sent to ann"]


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Point:
    x: int


RESULTS: dict[str, Any] = {
    "text": "hello ünd",
    "object": {"a": [1, 2.5, None, True], "ü": "x"},
    "list": [1, "a"],
    "nothing": None,
    "number": 3,
    "tuple": (1, 2),
    "dataclass": Point(x=1),
    "time": datetime.datetime(2024, 5, 17, 12, 30, tzinfo=datetime.UTC),
    "text for the model": ToolOutputText(text="seen"),
    "image for the model": ToolOutputImage(image_url="data:image/png;base64,AAAA", detail="low"),
    "several for the model": [ToolOutputText(text="a"), ToolOutputText(text="b")],
    "as dicts": [{"type": "text", "text": "a"}],
    "with keys that are no texts": {1: "a"},
    "not finite": float("nan"),
}


@pytest.mark.parametrize("value", RESULTS.values(), ids=RESULTS)
@live
async def test_a_model_is_shown_the_words_that_the_sdk_would_make_of_a_result(store: str, value: Any) -> None:
    @function_tool
    def look() -> Any:
        """Look."""
        return value

    with ProviderServer(in_turn(asks(call("look")))) as server:
        await loop_of(agent_of(look), server)("17")
        loop = loop_of(agent_of(durable(look, read_only={"look"})), server)
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
        outputs = [
            item for one in server.requests for item in one.body["input"] if item.get("type") == "function_call_output"
        ]
        assert outputs[0] == outputs[1]


@live
async def test_a_structured_result_is_on_record_as_data_and_known_as_its_calls(store: str) -> None:
    world = World()
    with ProviderServer(in_turn(asks(call("search", number="17")))) as server:
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop_of(clerk(world), server), "17")
            (one,) = (await (await runtime.open("r")).trajectory()).steps[0].calls
    assert one.result == {"number": "17", "due": 500}
    assert (one.recovery, one.attempts) == ("repeat", 1)


@live
async def test_a_tools_own_guardrails_run_as_the_sdk_runs_them(store: str) -> None:
    @tool_input_guardrail
    def no_bob(data: Any) -> ToolGuardrailFunctionOutput:
        if "bob" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content("not to bob")
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def no_secret(data: Any) -> ToolGuardrailFunctionOutput:
        if "eve" in str(data.output):
            return ToolGuardrailFunctionOutput.reject_content("not for your eyes")
        return ToolGuardrailFunctionOutput.allow()

    done: list[str] = []

    @function_tool(tool_input_guardrails=[no_bob], tool_output_guardrails=[no_secret])
    def mail(to: str) -> str:
        """Mail."""
        done.append(to)
        return f"sent to {to}"

    script = in_turn(asks(*(call("mail", id=f"c{n}", to=to) for n, to in enumerate(("ann", "bob", "eve")))))
    with ProviderServer(script) as server:
        loop = loop_of(agent_of(durable(mail)), server)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
        assert shown(server.requests[-1]) == ["sent to ann", "not to bob", "not for your eyes"]
    assert done == ["ann", "eve"]


# ── which tools ──────────────────────────────────────────────────────────────────────────────────────────────────


@live
async def test_a_tool_with_an_invoker_of_its_own_is_on_record_too(store: str) -> None:
    done: list[str] = []

    async def invoke(context: Any, arguments: str) -> str:
        done.append(arguments)
        return f"got {arguments}"

    own = FunctionTool(
        name="own",
        description="Own.",
        params_json_schema={"type": "object", "properties": {}, "additionalProperties": True},
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
    with ProviderServer(in_turn(asks(call("own", a=1)))) as server:
        loop = loop_of(agent_of(durable(own)), server)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            assert await runtime.record("r", loop, "17") == "paid"
        assert shown(server.requests[-1]) == ['got {"a":1}']
    assert done == ['{"a":1}']


@live
async def test_tools_of_forkpoints_own_are_tools_of_the_sdks(store: str) -> None:
    keys: list[str] = []

    @fp.tool(idempotent=True)
    async def charge(ctx: fp.ToolContext, cents: int) -> dict[str, int]:
        """Charge."""
        keys.append(ctx.idempotency_key)
        return {"charged": cents}

    with ProviderServer(in_turn(asks(call("charge", id="c1", cents=5), call("charge", id="c2", cents="x")))) as server:
        agent = agent_of(*durable([charge]))
        loop = loop_of(agent, server)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            first, second = (await (await runtime.open("r")).trajectory()).steps[0].calls
        assert shown(server.requests[-1])[0] == {"charged": 5}
        assert "cents" in str(shown(server.requests[-1])[1])
        assert (first.recovery, first.result) == ("retry", {"charged": 5})
        assert second.status == "failed"
    assert len(keys) == 1
    assert keys[0]


@live
async def test_a_tools_body_may_tell_watchers_something_and_knows_its_attempt(store: str) -> None:
    seen: list[int] = []

    @function_tool
    def work() -> str:
        """Work."""
        this_call().progress("half way")
        seen.append(this_call().attempt)
        if len(seen) == 1:
            raise ConnectionError("not now")
        return "done"

    with ProviderServer(in_turn(asks(call("work")))) as server:
        loop = loop_of(agent_of(durable(work, idempotent={"work"})), server)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
    assert seen == [1, 2]
    assert this_call().idempotency_key == ""


def test_a_name_that_no_tool_has_is_refused() -> None:
    with pytest.raises(ToolBadDefinition, match="serch"):
        durable(tools_of(World()), read_only={"serch"})


def test_a_tool_cannot_be_two_things() -> None:
    with pytest.raises(ToolBadDefinition, match="read_only and idempotent"):
        durable(tools_of(World()), read_only={"search"}, idempotent={"search"})


def test_what_the_provider_runs_is_left_alone_and_what_works_here_otherwise_is_refused() -> None:
    search = WebSearchTool()
    assert durable([search])[0] is search
    with pytest.raises(ToolBadDefinition, match="the provider runs it"):
        durable([search], read_only={search.name})
    with pytest.raises(AgentsUnfit, match="LocalShellTool"):
        durable([LocalShellTool(executor=lambda request: "")])
