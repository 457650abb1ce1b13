"""A Pydantic AI agent in a recorded function: performed once, known after a death, decided by a person, forked."""

import asyncio
import json
from datetime import date
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra 'pydantic-ai' is not installed")

from pydantic_ai import Agent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from tests.adapters.pydantic_ai_stage import (
    PAYS,
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
from forkpoint.errors import ToolBadDefinition
from forkpoint.events import ApprovalDecided, EffectDispatched, EffectSettled
from forkpoint.runtime.recorder import current
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import API, ProviderServer

each_api = pytest.mark.parametrize("api", ["chat", "responses", "messages"])


# ── performed once ───────────────────────────────────────────────────────────────────────────────────────────


@each_api
def test_a_run_that_returned_is_never_asked_for_again(tmp_path: Any, api: API) -> None:
    async def test() -> None:
        world = World()
        with ProviderServer(says(*PAYS)) as server:
            answer = asking(clerk(model_at(server, api), world, read_only={"search"}))
            for _ in range(2):
                async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                    assert await runtime.record("r", answer, "17") == "paid"
            assert len(server.requests) == 3
        assert world.done == {"search": 1, "charge": 1}

    run(test())


@each_api
def test_the_next_process_repeats_no_answer_and_no_call_that_is_on_record(tmp_path: Any, api: API) -> None:
    """Its second model call was never answered: that one is asked again, and nothing else."""

    async def test() -> None:
        store, world, here = str(tmp_path / "runs.db"), World(), asyncio.Event()

        def script(asked: Any) -> Any:
            if asked.number == 2:
                loop.call_soon_threadsafe(here.set)
                server._released.wait()
            return says(*PAYS)(asked)

        loop = asyncio.get_running_loop()
        with ProviderServer(script) as server:
            answer = asking(clerk(model_at(server, api), world, read_only={"search"}))
            async with fp.connect(store, grace_s=0) as runtime:
                task = asyncio.ensure_future(runtime.record("r", answer, "17"))
                await here.wait()
                task.cancel()
                await asyncio.wait([task])
            server.release()
            async with fp.connect(store) as runtime:
                assert await runtime.record("r", answer, "17") == "paid"
            assert len(server.requests) == 4
            first, again = server.requests[1], server.requests[2]
            assert (first.instructions, first.messages) == (again.instructions, again.messages)
        assert world.done == {"search": 1, "charge": 1}

    run(test())


@live
async def test_what_the_agent_has_of_a_run_is_the_same_live_and_on_replay(store: str) -> None:
    seen: list[Any] = []
    with ProviderServer(says(*PAYS)) as server:
        agent = clerk(model_at(server, "responses"), World())

        async def answer(question: str) -> None:
            result = await agent.run(question)
            seen.append((json.loads(result.all_messages_json()), result.usage, result.output))
            raise RuntimeError("so that it is called again")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
        assert len(server.requests) == 3

    def lasting(messages: list[dict[str, Any]]) -> list[Any]:
        """Without the times at which Pydantic AI itself made something, which no provider is told."""
        return [one if one["kind"] == "response" else [_timeless(part) for part in one["parts"]] for one in messages]

    (live_messages, *live_rest), (again, *again_rest) = seen
    assert lasting(live_messages) == lasting(again)
    assert live_rest == again_rest
    assert again_rest[0].requests == 3
    assert again_rest[0].tool_calls == 2


def _timeless(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "timestamp"}


@live
async def test_outside_of_a_recorded_function_the_agent_is_as_it_is_without(store: str) -> None:
    world = World()
    with ProviderServer(says(*PAYS)) as server:
        agent = clerk(model_at(server), world, approval={"charge"})
        assert current() is None
        assert (await agent.run("17")).output == "paid"
        assert len(server.requests) == 3
    assert world.done == {"search": 1, "charge": 1}
    assert not world.keys


@live
async def test_usage_and_cost_of_every_answer_are_on_record(store: str) -> None:
    with ProviderServer(says(*PAYS)) as server:
        answer = asking(clerk(model_at(server), World()))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            state = await (await runtime.open("r")).state()
    assert (state.spent.usage.input_tokens, state.spent.usage.output_tokens) == (30, 15)
    assert state.spent.cost == pytest.approx(3 * (10 * 2.5e-6 + 5 * 10e-6))
    assert state.spent.cost_unknown == 0


@live
async def test_the_steps_of_a_run_tell_what_the_model_was_shown(store: str) -> None:
    with ProviderServer(says(*PAYS)) as server:
        answer = asking(clerk(model_at(server), World(), name="collector", read_only={"search"}))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            run = await runtime.open("r")
            steps = (await run.trajectory()).steps
            request = await run.request(2)
            agent = (await run.state()).agent
    assert [[(one.name, one.arguments) for one in step.calls] for step in steps] == [
        [("search", {"number": "17"})],
        [("charge", {"number": "17", "cents": 500})],
        [],
    ]
    assert request.instructions == "Collect."
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    assert told(request.messages[2]) == {"number": "17", "due": 500}
    assert (agent.name, agent.model) == ("collector", "openai:gpt-4o")
    assert {tool.name: tool.recovery.name for tool in agent.tools} == {"search": "REPEAT", "charge": "HOLD"}


@live
async def test_parallel_calls_may_end_in_any_order(store: str) -> None:
    order: list[str] = []
    gates: dict[str, asyncio.Event] = {}
    asks = calls(*(call("look", id=f"c_{name}", name=name) for name in "abc"))
    with ProviderServer(says(asks, "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint(read_only={"look"})])

        @agent.tool_plain
        async def look(name: str) -> str:
            gates[name] = asyncio.Event()
            if len(gates) == 3:
                gates["c"].set()
            await gates[name].wait()
            order.append(name)
            for following in {"c": "a", "a": "b"}.get(name, ""):
                gates[following].set()
            return name.upper()

        answer = asking(agent)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "go") == "done"
        assert [told(one) for one in server.requests[1].messages if one.role == "tool"] == ["A", "B", "C"]
    assert order == ["c", "a", "b"]


@live
async def test_finished_calls_of_a_batch_are_kept_when_one_of_it_is_lost(store: str) -> None:
    world = World()
    asks = calls(call("search", id="c1", number="17"), call("charge", id="c2", number="17", cents=5))
    with ProviderServer(says(asks, "done")) as server:
        answer = asking(clerk(model_at(server), world))
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "charge", runtime.record("r", answer, "17"))
        async with fp.connect(store) as runtime:
            (wait,) = await waits_for(runtime, answer, "17")
            await (await runtime.open("r")).resolve(wait.effect, "occurred", output="charged 5")
            assert await runtime.record("r", answer, "17") == "done"
    assert world.done == {"search": 1, "charge": 1}


# ── what nobody knows, and what a person decides ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdict", "more", "shown"),
    [
        ("occurred", {"output": "charged 500"}, "charged 500"),
        ("occurred", {}, "The call did take effect"),
        ("not_occurred", {}, "not_occurred"),
        ("abandoned_unknown", {}, "abandoned_unknown"),
    ],
)
def test_a_call_that_nobody_vouches_for_waits_when_it_was_lost_and_every_finding_leads_on(
    tmp_path: Any, verdict: Any, more: dict[str, Any], shown: str
) -> None:
    async def test() -> None:
        store, world = str(tmp_path / "runs.db"), World()
        with ProviderServer(says(*PAYS)) as server:
            answer = asking(clerk(model_at(server), world))
            async with fp.connect(store, grace_s=0) as runtime:
                await killed_in(world, "charge", runtime.record("r", answer, "17"))
            async with fp.connect(store) as runtime:
                (wait,) = await waits_for(runtime, answer, "17")
                assert (wait.kind, wait.name) == ("unknown", "charge")
            async with fp.connect(store) as desk:
                await (await desk.open("r")).resolve(wait.effect, verdict, actor="ann", **more)
            async with fp.connect(store) as runtime:
                assert await runtime.record("r", answer, "17") == "paid"
            assert shown in str(told(server.requests[-1].messages[-1]))
        assert world.done == {"search": 1, "charge": 1}

    run(test())


@live
async def test_an_idempotent_tool_that_was_lost_is_performed_again_under_its_key(store: str) -> None:
    world = World()
    with ProviderServer(says(*PAYS)) as server:
        answer = asking(clerk(model_at(server), world, read_only={"search"}, idempotent={"charge"}))
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "charge", runtime.record("r", answer, "17"))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "paid"
    assert world.done == {"search": 1, "charge": 2}
    assert world.keys[1] == world.keys[2] != world.keys[0]


@live
async def test_a_probe_finds_out_what_became_of_a_lost_call(store: str) -> None:
    world = World()

    async def probe(ctx: fp.ToolContext, /, **arguments: Any) -> fp.Occurred:
        return fp.Occurred(f"found {arguments['cents']}")

    with ProviderServer(says(*PAYS)) as server:
        answer = asking(clerk(model_at(server), world, reconcile={"charge": probe}))
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "charge", runtime.record("r", answer, "17"))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "paid"
        assert told(server.requests[-1].messages[-1]) == "found 500"
    assert world.done == {"search": 1, "charge": 1}


@live
async def test_an_approval_given_in_another_process_lets_the_call_run_once(store: str) -> None:
    world = World()
    with ProviderServer(says(*PAYS)) as server:
        answer = asking(clerk(model_at(server), world, approval={"charge"}))
        async with fp.connect(store) as runtime:
            (wait,) = await waits_for(runtime, answer, "17")
            assert (wait.kind, wait.name) == ("approval", "charge")
        assert world.done == {"search": 1}
        async with fp.connect(store) as desk:
            await (await desk.open("r")).approve("c2", actor="ann")
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "paid"
        assert len(server.requests) == 3
    assert world.done == {"search": 1, "charge": 1}


@live
async def test_a_denial_reaches_the_model_with_its_reason_and_nothing_runs(store: str) -> None:
    world = World()
    with ProviderServer(says(*PAYS)) as server:
        answer = asking(clerk(model_at(server), world, approval={"charge": lambda given: given["cents"] > 100}))
        async with fp.connect(store) as runtime:
            await waits_for(runtime, answer, "17")
            await (await runtime.open("r")).deny("c2", "too much")
            assert await runtime.record("r", answer, "17") == "paid"
        assert "too much" in str(told(server.requests[-1].messages[-1]))
    assert world.done == {"search": 1}


@live
async def test_edited_arguments_are_checked_performed_and_told_to_the_model(store: str) -> None:
    seen: list[Any] = []
    asks = calls(call("charge", id="c1", day="2026-11-30", cents=500))
    with ProviderServer(says(asks, "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint(approval={"charge"})])

        @agent.tool_plain
        async def charge(day: date, cents: int) -> str:
            seen.append((day, cents))
            return f"charged {cents}"

        answer = asking(agent)
        async with fp.connect(store) as runtime:
            await waits_for(runtime, answer, "17")
            run = await runtime.open("r")
            with pytest.raises(fp.ForkpointError):
                await run.approve("c1", arguments={"day": "2026-12-01", "cents": "much"})
            await run.approve("c1", arguments={"day": "2026-12-01", "cents": 5})
            assert await runtime.record("r", answer, "17") == "done"
            (asked,) = (await run.trajectory()).steps[0].calls
            (decided,) = [one.event for one in await run.history() if isinstance(one.event, ApprovalDecided)]
        shown = server.requests[-1].messages
    assert seen == [(date(2026, 12, 1), 5)]
    assert (asked.arguments["cents"], decided.arguments["cents"]) == (500, 5)
    assert told(shown[-2]) == "charged 5"
    assert "changed the arguments of charge" in shown[-1].text


@live
async def test_a_batch_with_an_open_question_keeps_what_is_done_and_goes_on_when_all_is_decided(store: str) -> None:
    world = World()
    asks = calls(
        call("search", id="c1", number="17"),
        call("charge", id="c2", number="17", cents=5),
        call("charge", id="c3", number="18", cents=6),
    )
    with ProviderServer(says(asks, "done")) as server:
        answer = asking(clerk(model_at(server), world, approval={"charge"}))
        async with fp.connect(store) as runtime:
            assert len(await waits_for(runtime, answer, "17")) == 2
            run = await runtime.open("r")
            await run.approve("c3")
            await waits_for(runtime, answer, "17")
            await run.deny("c2", "not that one")
            assert await runtime.record("r", answer, "17") == "done"
        results = [told(one) for one in server.requests[-1].messages if one.role == "tool"]
        assert len(server.requests) == 2
    assert results[0] == {"number": "17", "due": 500}
    assert "not that one" in str(results[1])
    assert results[2] == "charged 6"
    assert world.done == {"search": 1, "charge": 1}


# ── what a tool says to the loop ─────────────────────────────────────────────────────────────────────────────


async def attempts_of(runtime: fp.Runtime, tool: str) -> list[int]:
    run = await runtime.open("r")
    found = [one.effect for one in (await run.trajectory()).own if one.name == tool]
    events = [one.event for one in await run.history()]
    return [
        sum(1 for event in events if isinstance(event, EffectDispatched) and event.effect == effect) for effect in found
    ]


@live
async def test_asking_the_model_again_is_no_failure_of_the_call(store: str) -> None:
    """One attempt, whatever the tool's class; on replay the model's next answer is not asked for again."""
    done: list[int] = []
    asks = [calls(call("charge", id=f"c{cents}", cents=cents)) for cents in (1, 2)]
    with ProviderServer(says(*asks, "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), retries=3, capabilities=[Forkpoint(idempotent={"charge"})])

        @agent.tool_plain
        async def charge(cents: int) -> str:
            done.append(cents)
            if cents == 1:
                raise ModelRetry("not so little")
            return "ok"

        answer = asking(agent)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "done"
            outcomes = [
                one.event.outcome
                for one in await (await runtime.open("r")).history()
                if isinstance(one.event, EffectSettled)
            ]
        assert "not so little" in str(told(server.requests[1].messages[-1]))
    assert done == [1, 2]
    assert {type(outcome).__name__ for outcome in outcomes} == {"Succeeded"}
    assert sum(1 for outcome in outcomes if outcome.message is None) == 2


@live
async def test_bad_arguments_are_shown_to_the_model_and_the_tool_never_runs(store: str) -> None:
    world = World()
    asks = (calls(call("charge", id="c1", number="17", cents="lots")), "sorry")
    with ProviderServer(says(*asks)) as server:
        answer = asking(clerk(model_at(server), world))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "sorry"
        assert "valid integer" in str(told(server.requests[1].messages[-1]))
    assert not world.done


@live
async def test_a_tool_that_reports_its_failure_is_heard_by_the_model(store: str) -> None:
    with ProviderServer(says(calls(call("look", id="c1")), "oh")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()])

        @agent.tool_plain
        async def look() -> str:
            raise ToolFailed("there is nothing")

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", asking(agent), "17") == "oh"
        assert "there is nothing" in str(told(server.requests[1].messages[-1]))


@live
async def test_a_tools_exception_comes_out_as_pydantic_ai_lets_it_out_and_the_next_recording_tries_again(
    store: str,
) -> None:
    tried: list[int] = []
    with ProviderServer(says(calls(call("look", id="c1")), "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()])

        @agent.tool_plain
        async def look() -> str:
            tried.append(1)
            if len(tried) == 1:
                raise LookupError("no such thing at 0x7f")
            return "there"

        answer = asking(agent)
        async with fp.connect(store) as runtime:
            with pytest.raises(LookupError, match="no such thing at 0x7f"):
                await runtime.record("r", answer, "17")
            assert await runtime.record("r", answer, "17") == "done"
        assert len(server.requests) == 2
    assert len(tried) == 2


@live
async def test_a_tool_that_runs_out_of_time_is_unknown_and_no_invitation_to_call_again(store: str) -> None:
    with ProviderServer(says(calls(call("charge", id="c1")), "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()])

        @agent.tool_plain(timeout=0.01)
        async def charge() -> str:
            await asyncio.Event().wait()
            return "never"

        answer = asking(agent)
        async with fp.connect(store) as runtime:
            (wait,) = await waits_for(runtime, answer, "17")
            assert wait.kind == "unknown"
            await (await runtime.open("r")).resolve(wait.effect, "not_occurred")
            assert await runtime.record("r", answer, "17") == "done"


@live
async def test_a_person_who_writes_what_the_tools_own_rules_refuse_has_the_model_told_and_nothing_runs(
    store: str,
) -> None:
    """The schema cannot say everything; what it lets by is held against the rest before anything runs."""
    world = World()
    asks = calls(call("charge", id="c1", day="2026-11-30"))
    with ProviderServer(says(asks, "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint(approval={"charge"})])

        @agent.tool_plain
        async def charge(day: date) -> str:
            await world.do("charge")
            return ""

        answer = asking(agent)
        async with fp.connect(store) as runtime:
            await waits_for(runtime, answer, "17")
            await (await runtime.open("r")).approve("c1", arguments={"day": "some day"})
            assert await runtime.record("r", answer, "17") == "done"
        assert "valid date" in str(told(server.requests[1].messages[-1]))
    assert not world.done


@live
async def test_what_a_result_has_beside_its_value_survives(store: str) -> None:
    seen: list[Any] = []
    with ProviderServer(says(calls(call("chart", id="c1")), "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()])

        @agent.tool_plain
        async def chart() -> ToolReturn[Any]:
            return ToolReturn({"ok": True}, content="look at it", metadata={"kind": "chart", "data": [1, 2]})

        async def answer(question: str) -> None:
            messages = (await agent.run(question)).all_messages()
            seen.append(messages[2].parts[0])
            raise RuntimeError("so that it is called again")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
        assert server.requests[1].messages[-1].text == "look at it"
    assert [one.metadata for one in seen] == [{"kind": "chart", "data": [1, 2]}] * 2
    assert [one.content for one in seen] == [{"ok": True}] * 2


# ── what is declared ─────────────────────────────────────────────────────────────────────────────────────────


@live
async def test_a_tool_may_say_of_itself_what_it_is(store: str) -> None:
    with ProviderServer(says("hi")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()])

        @agent.tool_plain(metadata={"forkpoint": {"idempotent": True, "attempts": 7}})
        async def charge() -> str:
            return ""

        async with fp.connect(store) as runtime:
            await runtime.record("r", asking(agent), "17")
            (tool,) = (await (await runtime.open("r")).state()).agent.tools
    assert (tool.recovery.name, tool.attempts) == ("RETRY", 7)


@pytest.mark.parametrize(
    "said",
    [
        {"read_only": {"a"}, "idempotent": {"a"}},
        {"read_only": "search"},
        {"external": {"a"}, "approval": {"a"}},
        {"inline": {"a"}, "read_only": {"a"}},
    ],
)
def test_declarations_that_contradict_each_other_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ToolBadDefinition):
        Forkpoint(**said)


@live
async def test_a_tools_own_object_says_nothing_to_the_loop_that_no_record_would_repeat(store: str) -> None:
    with ProviderServer(says(calls(call("look", id="c1")), "done")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), capabilities=[Forkpoint()])

        @agent.tool
        async def look(ctx: RunContext[Any]) -> str:
            assert this_call() is not None
            ctx.enqueue("by the way")
            return ""

        async with fp.connect(store) as runtime:
            with pytest.raises(Exception, match="enqueue"):
                await runtime.record("r", asking(agent), "17")
