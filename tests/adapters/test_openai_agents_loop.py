"""What else the SDK's loop does when it is recorded: handoffs, agents as tools, interruptions, guardrails, sessions."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra 'openai-agents' is not installed")

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from agents.memory import OpenAIConversationsSession
from tests.adapters.openai_agents_stage import (
    World,
    asks,
    client_of,
    config,
    each_api,
    each_way,
    in_turn,
    killed_in,
    live,
    loop_of,
    shown,
    tools_of,
)

import forkpoint as fp
from forkpoint.adapters.openai_agents import durable
from forkpoint.errors import RunWaits
from forkpoint.errors.openai_agents import AgentsUnfit
from forkpoint.testing.fakes import call
from forkpoint.testing.provider_server import Asked, ProviderServer, Told

# ── handoffs and agents as tools ─────────────────────────────────────────────────────────────────────────────────


def triage_of(world: World) -> Agent[Any]:
    billing = Agent(
        name="billing",
        model="gpt-4o-mini",
        instructions="You collect.",
        tools=durable(tools_of(world), read_only={"search"}),
    )
    return Agent(name="triage", model="gpt-4o", instructions="You triage.", handoffs=[handoff(billing)])


def handing(asked: Asked) -> Told:
    if asked.instructions == "You triage.":
        return asks(call("transfer_to_billing"))
    return asks(call("search", number="17")) if len(shown(asked)) < 2 else "paid"


@each_way
@each_api
@live
async def test_each_call_of_a_handoff_is_on_record_under_its_own_agent(store: str, api: str, streamed: bool) -> None:
    world = World()
    with ProviderServer(handing) as server:
        loop = loop_of(triage_of(world), server, api, streamed=streamed)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            run = await runtime.open("r")
            steps = (await run.trajectory()).steps
            assert [(step.agent, step.model) for step in steps] == [
                ("triage", "gpt-4o"),
                ("billing", "gpt-4o-mini"),
                ("billing", "gpt-4o-mini"),
            ]
            assert [one.name for one in steps[0].calls] == ["transfer_to_billing"]
            assert (await run.request(1)).tools[-1].name == "transfer_to_billing"
            child = await run.fork(step=2, patch=fp.Patch(tool_results={"call_search": {"due": 0}}))
            assert await runtime.record(child.id, loop) == "paid"
            told = str(await runtime.compare(run, child))
            assert "billing" in told or "search" in told
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
        assert len(server.requests) == 4
    assert world.done == {"search": 1}


@each_api
@live
async def test_a_handoff_goes_on_after_a_death_without_asking_again(store: str, api: str) -> None:
    world = World()
    with ProviderServer(handing) as server:
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "search", runtime.record("r", loop_of(triage_of(world), server, api), "17"))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop_of(triage_of(world), server, api), "17") == "paid"
        assert len(server.requests) == 3
    assert world.done == {"search": 2}


def orchestra(world: World, **marks: Any) -> Agent[Any]:
    clerk = Agent(name="clerk", model="gpt-4o", instructions="You work.", tools=durable(tools_of(world), **marks))
    helper = clerk.as_tool(tool_name="clerk", tool_description="Ask the clerk.")
    return Agent(name="boss", model="gpt-4o", instructions="You lead.", tools=durable([helper]))


def leading(asked: Asked) -> Told:
    if asked.instructions == "You lead.":
        answers = shown(asked)
        return (
            "thanks" if len(answers) == 2 else asks(call("clerk", id=f"b{len(answers)}", input=f"job {len(answers)}"))
        )
    return asks(call("mail", to="ann")) if not shown(asked) else "mailed"


@each_api
@live
async def test_what_an_agent_used_as_a_tool_asks_for_is_on_record_under_its_name(store: str, api: str) -> None:
    world = World()
    with ProviderServer(leading) as server:
        loop = loop_of(orchestra(world), server, api)
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "mail", runtime.record("r", loop, "17"))
        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits, match="mail"):
                await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            await run.resolve((await run.waits())[0].effect, "occurred", output="sent", actor="ann")
            assert await runtime.record("r", loop, "17") == "thanks"
            agents = [step.agent for step in (await run.trajectory()).steps]
        assert agents == ["boss", "clerk", "clerk", "boss", "clerk", "clerk", "boss"]
        assert len(server.requests) == 7
    assert world.done == {"mail": 2}


@live
async def test_a_gated_tool_of_an_inner_agent_waits_and_goes_on_with_objects_made_anew(store: str) -> None:
    """Also the second and the third time; nothing before is repeated."""
    world = World()
    with ProviderServer(leading) as server:
        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RunWaits, match="mail"):
                    await runtime.record("r", loop_of(orchestra(world, approval={"mail"}), server), "17")
                run = await runtime.open("r")
                await run.approve((await run.waits())[0].effect)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop_of(orchestra(world, approval={"mail"}), server), "17") == "thanks"
        assert len(server.requests) == 7
    assert world.done == {"mail": 2}


# ── the SDK's own approvals ──────────────────────────────────────────────────────────────────────────────────────


def gated(world: World) -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def mail(to: str) -> str:
        """Send a mail."""
        await world.do("mail")
        return f"sent to {to}"

    return Agent(name="clerk", model="gpt-4o", tools=durable([mail]))


MAILS = in_turn(asks(call("mail", to="ann")))


@each_way
@each_api
@live
async def test_an_interruption_of_the_sdks_own_is_decided_through_its_run_state(
    store: str, api: str, streamed: bool
) -> None:
    """One recorded function ends with the state, the next goes on from it."""
    world = World()
    with ProviderServer(MAILS) as server:

        async def run(given: Any) -> Any:
            if not streamed:
                return await Runner.run(gated(world), given, run_config=config(server, api))
            result = Runner.run_streamed(gated(world), given, run_config=config(server, api))
            async for _ in result.stream_events():
                pass
            return result

        async def ask(question: str) -> str:
            result = await run(question)
            assert [one.tool_name for one in result.interruptions] == ["mail"]
            return str(result.to_state().to_string())

        async def go_on(told: str, yes: bool) -> str:
            state = await RunState.from_string(gated(world), told)
            for one in state.get_interruptions():
                if yes:
                    state.approve(one)
                else:
                    state.reject(one)
            return str((await run(state)).final_output)

        async with fp.connect(store) as runtime:
            told = await runtime.record("ask", ask, "17")
            assert await runtime.record("ask", ask, "17") == told
            assert world.done == {}
            assert await runtime.record("yes", go_on, told, True) == "paid"
            assert await runtime.record("yes", go_on, told, True) == "paid"
            assert world.done == {"mail": 1}
            assert shown(server.requests[-1]) == ["sent to ann"]
            assert await runtime.record("no", go_on, told, False) == "paid"
        assert "not approved" in str(shown(server.requests[-1]))
        assert len(server.requests) == 3
    assert world.done == {"mail": 1}


@live
async def test_an_interruption_may_wait_for_a_person_inside_of_one_run(store: str) -> None:
    world = World()

    @fp.tool(external=True)
    async def decide(tool: str, arguments: str) -> bool: ...  # type: ignore[empty-body]

    with ProviderServer(MAILS) as server:

        async def answer(question: str) -> str:
            agent = gated(world)
            result = await Runner.run(agent, question, run_config=config(server))
            while result.interruptions:
                state = result.to_state()
                for one in result.interruptions:
                    if await decide(one.tool_name, one.arguments):
                        state.approve(one)
                    else:
                        state.reject(one)
                result = await Runner.run(agent, state, run_config=config(server))
            return str(result.final_output)

        async with fp.connect(store) as runtime:
            with pytest.raises(RunWaits, match="decide"):
                await runtime.record("r", answer, "17")
        async with fp.connect(store) as runtime:
            run = await runtime.open("r")
            await run.answer((await run.waits())[0].effect, True)
            assert await runtime.record("r", answer, "17") == "paid"
        assert len(server.requests) == 2
    assert world.done == {"mail": 1}


# ── guardrails ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("parallel", [True, False], ids=["beside", "before"])
@each_way
@live
async def test_an_input_guardrail_trips_as_in_the_sdk_also_when_tried_again(
    store: str, parallel: bool, streamed: bool
) -> None:
    @input_guardrail(run_in_parallel=parallel)
    async def no_spam(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info="spam", tripwire_triggered="spam" in str(given))

    with ProviderServer(in_turn()) as server:
        agent = Agent(name="a", model="gpt-4o", input_guardrails=[no_spam])
        loop = loop_of(agent, server, streamed=streamed)
        async with fp.connect(store) as runtime:
            assert await runtime.record("fine", loop, "17") == "paid"
            for _ in range(2):
                with pytest.raises(InputGuardrailTripwireTriggered):
                    await runtime.record("r", loop, "spam")
        assert parallel or len(server.requests) == 1


@each_way
@live
async def test_an_output_guardrail_trips_as_in_the_sdk_and_the_model_is_not_asked_again(
    store: str, streamed: bool
) -> None:
    @output_guardrail
    async def no_paid(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=output == "paid")

    with ProviderServer(in_turn()) as server:
        agent = Agent(name="a", model="gpt-4o", output_guardrails=[no_paid])
        async with fp.connect(store) as runtime:
            for _ in range(2):
                with pytest.raises(OutputGuardrailTripwireTriggered):
                    await runtime.record("r", loop_of(agent, server, streamed=streamed), "17")
        assert len(server.requests) == 1


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────


SEARCHES = in_turn(asks(call("search", number="17")), "found", asks(call("mail", to="ann")), "mailed")


def talk(world: World, server: ProviderServer, path: str, *, bare: bool = False, streamed: bool = False) -> Any:
    tools = tools_of(world)
    made = tools if bare else durable(tools, read_only={"search"})
    agent = Agent(name="clerk", model="gpt-4o", tools=made)

    async def answer(question: str) -> str:
        session = SQLiteSession("s", path)
        try:
            given: Any = {"run_config": config(server), "session": session if bare else durable(session)}
            if not streamed:
                return str((await Runner.run(agent, question, **given)).final_output)
            result = Runner.run_streamed(agent, question, **given)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)
        finally:
            session.close()

    return answer


async def kept(path: str) -> list[Any]:
    session = SQLiteSession("s", path)
    try:
        return list(await session.get_items())
    finally:
        session.close()


def without_ids(items: list[Any]) -> list[Any]:
    return [{name: value for name, value in item.items() if name != "id"} for item in items]


@each_way
@live
async def test_a_session_holds_what_the_sdk_would_write_and_holds_it_once(store: str, streamed: bool) -> None:
    world = World()
    with ProviderServer(SEARCHES) as server:
        bare = talk(World(), server, store + ".bare", bare=True, streamed=streamed)
        await bare("17")
        await bare("and now?")
        wrapped = talk(world, server, store + ".s", streamed=streamed)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r1", wrapped, "17") == "found"
            assert await runtime.record("r1", wrapped, "17") == "found"
            assert await runtime.record("r2", wrapped, "and now?") == "mailed"
            assert await runtime.record("r1", wrapped) == "found"
        assert without_ids(await kept(store + ".s")) == without_ids(await kept(store + ".bare"))
        assert len(server.requests) == 8
    assert world.done == {"search": 1, "mail": 1}


@each_way
@live
async def test_a_session_is_written_once_however_the_process_ends(store: str, streamed: bool) -> None:
    world = World()
    with ProviderServer(SEARCHES) as server:
        bare = talk(World(), server, store + ".bare", bare=True, streamed=streamed)
        await bare("17")
        path = store + ".s"
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "search", runtime.record("r", talk(world, server, path, streamed=streamed), "17"))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", talk(world, server, path, streamed=streamed), "17") == "found"
        assert without_ids(await kept(path)) == without_ids(await kept(store + ".bare"))
        assert len(server.requests) == 4


class Lossy:
    """A session whose writing takes effect, or not, and never comes back."""

    def __init__(self, world: World, inner: SQLiteSession, *, writes: bool) -> None:
        self.world, self.inner, self.writes = world, inner, writes
        self.session_id, self.session_settings = inner.session_id, None

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(await self.inner.get_items(limit))

    async def add_items(self, items: list[Any]) -> None:
        if self.writes or self.world.lost != "write":
            await self.inner.add_items(items)
        await self.world.do("write")

    async def pop_item(self) -> Any:
        return await self.inner.pop_item()

    async def clear_session(self) -> None:
        await self.inner.clear_session()


@pytest.mark.parametrize("writes", [True, False], ids=["after it was written", "before it was written"])
@live
async def test_a_write_that_was_lost_in_flight_is_looked_for_before_it_is_made_again(store: str, writes: bool) -> None:
    world = World()
    with ProviderServer(in_turn()) as server:
        inner = SQLiteSession("s", store + ".s")
        agent = Agent(name="a", model="gpt-4o")

        async def answer(question: str) -> str:
            session = durable(Lossy(world, inner, writes=writes))
            return str((await Runner.run(agent, question, run_config=config(server), session=session)).final_output)

        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "write", runtime.record("r", answer, "17"))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "paid"
        items = await inner.get_items()
        inner.close()
        assert [item.get("role") for item in items] == ["user", "assistant"]


@live
async def test_a_session_may_be_corrected_on_record(store: str) -> None:
    inner = SQLiteSession("s", store + ".s")
    await inner.add_items([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])

    async def correct() -> list[Any]:
        session = durable(inner)
        popped = [await session.pop_item(), await session.pop_item(), await session.pop_item()]
        await session.add_items([{"role": "user", "content": "c"}])
        read = await session.get_items()
        await session.clear_session()
        return [popped, read]

    async with fp.connect(store) as runtime:
        popped, read = await runtime.record("r", correct)
    assert [item and item["content"] for item in popped] == ["b", "a", None]
    assert [item["content"] for item in read] == ["c"]
    assert await inner.get_items() == []
    session = durable(inner)
    await session.add_items([{"role": "user", "content": "d"}])
    assert await session.pop_item() == {"role": "user", "content": "d"}
    await session.clear_session()
    assert durable(session) is session
    inner.close()


@live
async def test_a_session_that_the_provider_keeps_is_refused(store: str) -> None:
    with ProviderServer([]) as server, pytest.raises(AgentsUnfit, match="OpenAIConversationsSession"):
        durable(OpenAIConversationsSession(conversation_id="c", openai_client=client_of(server)))


# ── what else the run goes through ───────────────────────────────────────────────────────────────────────────────


@live
async def test_a_long_run_writes_each_message_once(store: str) -> None:
    """Growth is linear in what is new: a step never writes the messages of the steps before it again."""
    steps = 30
    world = World()
    script = in_turn(*(asks(call("search", id=f"c{n}", number="x" * 200)) for n in range(steps)))
    with ProviderServer(script) as server:
        agent = Agent(name="a", model="gpt-4o", tools=durable(tools_of(world), read_only={"search"}))

        async def answer() -> str:
            result = await Runner.run(agent, "17", run_config=config(server), max_turns=steps + 2)
            return str(result.final_output)

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer) == "paid"
            history = await (await runtime.open("r")).history()
        asked = [one.event.effect for one in history if type(one.event).__name__ == "EffectRequested"]
        adds = [len(one.add) for one in asked if type(one).__name__ == "ModelCall"]
        assert set(adds) == {1}
        assert all(isinstance(one.add[0], int) for one in asked[1:] if type(one).__name__ == "ModelCall")


@live
async def test_hooks_see_each_event_of_the_loop(store: str) -> None:
    from agents import RunHooks

    seen: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            seen.append(f"{tool.name}: {result}")

    with ProviderServer(in_turn(asks(call("mail", to="ann")))) as server:
        agent = Agent(name="a", model="gpt-4o", tools=durable(tools_of(World())))

        async def answer() -> str:
            return str((await Runner.run(agent, "17", hooks=Hooks(), run_config=config(server))).final_output)

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer) == "paid"
    assert seen == ["mail: sent to ann"]


@each_way
@live
async def test_a_conversation_that_the_provider_keeps_goes_on_after_a_death(store: str, streamed: bool) -> None:
    """The ids of answers are on record, so the request that follows builds on the same answer."""
    world = World()

    def script(asked: Asked) -> Told:
        return asks(call("mail", to="ann")) if asked.body.get("previous_response_id") is None else "mailed"

    with ProviderServer(script) as server:
        agent = Agent(name="a", model="gpt-4o", tools=durable(tools_of(world), idempotent={"mail"}))

        async def answer() -> str:
            given: Any = {"run_config": config(server), "auto_previous_response_id": True}
            if not streamed:
                return str((await Runner.run(agent, "17", **given)).final_output)
            result = Runner.run_streamed(agent, "17", **given)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "mail", runtime.record("r", answer))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer) == "mailed"
        assert [one.body.get("previous_response_id") for one in server.requests] == [None, "resp_1"]
    assert world.done == {"mail": 2}


@live
async def test_an_interrupted_run_goes_on_from_its_record(store: str) -> None:
    world = World()
    with ProviderServer(in_turn(asks(call("search", number="17")))) as server:
        agent = Agent(name="a", model="gpt-4o", tools=durable(tools_of(world), read_only={"search"}))
        loop = loop_of(agent, server)
        async with fp.connect(store, grace_s=0) as runtime:
            world.lost = "search"
            recording = asyncio.ensure_future(runtime.record("r", loop, "17"))
            await world.gone.wait()
            await (await runtime.open("r")).interrupt("enough")
            with pytest.raises(fp.ForkpointError):
                await recording
            world.lost = ""
            assert await runtime.record("r", loop, "17") == "paid"
        assert len(server.requests) == 2
