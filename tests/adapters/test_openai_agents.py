"""The OpenAI Agents SDK's loop in a recorded function: performed once, known after a death, forked and compared."""

import asyncio
import json
import re
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra 'openai-agents' is not installed")

from agents import Agent, Model, ModelResponse, ModelSettings, OpenAIResponsesModel, RunConfig, Runner, function_tool
from agents import Usage as TheirUsage
from agents.retry import ModelRetrySettings
from pydantic import BaseModel
from tests.adapters.openai_agents_stage import (
    BILLING,
    World,
    asks,
    clerk,
    client_of,
    config,
    each_api,
    each_way,
    events_of_kind,
    killed_in,
    live,
    loop_of,
    run,
    shown,
    theirs,
    tools_of,
)

import forkpoint as fp
from forkpoint.adapters.openai_agents import ForkpointModel, ForkpointProvider, declared_tool, durable
from forkpoint.errors import ModelBadSettings, RunWaits
from forkpoint.errors.openai_agents import AgentsNotDurable
from forkpoint.messages import Message, Reasoning, Text, Usage
from forkpoint.testing.fakes import call
from forkpoint.testing.provider_server import Answer, Asked, Fault, ProviderServer, Told

# ── performed once ───────────────────────────────────────────────────────────────────────────────────────────────


@each_way
@each_api
@live
async def test_a_run_asks_and_performs_once_however_often_it_is_called_for(
    store: str, api: str, streamed: bool
) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        loop = loop_of(clerk(world), server, api, streamed=streamed)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            assert await runtime.record("r", loop, "17") == "paid"
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop) == "paid"
        assert [one.stream for one in server.requests] == [streamed] * 3
        assert server.requests[0].instructions == "Collect."
    assert world.done == {"search": 1, "charge": 1}


@each_way
@each_api
@live
async def test_the_next_process_repeats_nothing_that_is_on_record(store: str, api: str, streamed: bool) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        async with fp.connect(store, grace_s=0) as runtime:
            loop = loop_of(clerk(world), server, api, streamed=streamed)
            await killed_in(world, "charge", runtime.record("r", loop, "17"))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop_of(clerk(world), server, api, streamed=streamed), "17") == "paid"
        assert len(server.requests) == 3
    assert world.done == {"search": 1, "charge": 2}
    assert world.keys[1] == world.keys[2]
    assert world.keys[1]


@each_api
@live
async def test_what_the_sdk_gets_is_the_same_live_and_on_replay(store: str, api: str) -> None:
    """Same types, same content: items, usage, ids, as the code sees them."""
    seen: list[Any] = []
    again = [True]
    thought = Reasoning(content="hm", extra={"signature": "x" * 5000} if api == "responses" else None)
    said = Message(role="assistant", parts=(thought, Text(content="paid")))
    usage = Usage(input_tokens=1000, output_tokens=200, cached_tokens=400, reasoning_tokens=70)
    with ProviderServer([Answer(message=said, usage=usage)]) as server:
        agent = clerk(World())

        async def answer() -> str:
            result = await Runner.run(agent, "17", run_config=config(server, api))
            seen.append((result.raw_responses, result.to_input_list(), result.context_wrapper.usage))
            if again.pop():
                raise RuntimeError("once more")
            return "fine"

        again.append(False)
        again.reverse()
        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer)
            assert await runtime.record("r", answer) == "fine"
        live_, replayed = seen
        assert live_ == replayed
        assert [type(item) for item in live_[0][0].output] == [type(item) for item in replayed[0][0].output]
        assert live_[2].input_tokens == 1000
        assert live_[2].input_tokens_details.cached_tokens == 400
        assert len(server.requests) == 1


@each_way
@each_api
@live
async def test_outside_of_a_recorded_function_it_is_the_sdk_as_it_is(store: str, api: str, streamed: bool) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        assert await loop_of(clerk(world), server, api, streamed=streamed)("17") == "paid"
        agent = Agent(name="clerk", model="gpt-4o", instructions="Collect.", tools=tools_of(World()))
        bare = RunConfig(model_provider=theirs(server, api))
        if streamed:
            result: Any = Runner.run_streamed(agent, "17", run_config=bare)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, "17", run_config=bare)
        assert result.final_output == "paid"
        assert bodies(server)[:3] == bodies(server)[3:]
    assert world.done == {"search": 1, "charge": 1}
    assert world.keys == ["", ""]


def bodies(server: ProviderServer) -> list[Any]:
    """What was asked, without what the server numbers and the key that the SDK makes up for each run."""
    plain = [json.dumps({**one.body, "prompt_cache_key": None}, sort_keys=True) for one in server.requests]
    return [re.sub(r"\b(fc|msg|rs)_\d+_", "", one) for one in plain]


@live
async def test_what_a_model_is_asked_in_a_recorded_function_is_what_it_is_asked_without(store: str) -> None:
    with ProviderServer(BILLING) as server:
        loop = loop_of(clerk(World()), server)
        await loop("17")
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
        assert bodies(server)[:3] == bodies(server)[3:]


@live
async def test_a_model_given_as_an_object_is_on_record_too(store: str) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        agent = clerk(world)
        agent.model = ForkpointModel(OpenAIResponsesModel("gpt-4o", client_of(server)))

        async def answer() -> str:
            return str((await Runner.run(agent, "17")).final_output)

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer) == "paid"
            steps = (await (await runtime.open("r")).trajectory()).steps
            assert [(step.agent, step.model) for step in steps] == [("clerk", "gpt-4o")] * 3
            child = await (await runtime.open("r")).fork(step=2, patch=fp.Patch(model="gpt-5"))
            assert await runtime.record(child.id, answer) == "paid"
        assert [one.model for one in server.requests] == ["gpt-4o"] * 3 + ["gpt-5"]


def test_a_plain_function_may_use_the_blocking_runner(tmp_path: Any) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        agent = clerk(world)

        def answer() -> str:
            try:
                return str(Runner.run_sync(agent, "17", run_config=config(server)).final_output)
            finally:
                asyncio.get_event_loop_policy().get_event_loop().close()  # the SDK leaves it to the thread

        async def scenario() -> None:
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                assert await runtime.record("r", answer) == "paid"
                assert await runtime.record("r", answer) == "paid"

        run(scenario())
        assert len(server.requests) == 3
    assert world.done == {"search": 1, "charge": 1}


# ── structured output, streams ───────────────────────────────────────────────────────────────────────────────────


class Verdict(BaseModel):
    paid: bool
    cents: int


@each_way
@each_api
@live
async def test_a_structured_answer_comes_back_as_its_type(store: str, api: str, streamed: bool) -> None:
    seen: list[Any] = []
    with ProviderServer(['{"paid":true,"cents":500}']) as server:
        agent = Agent(name="judge", model="gpt-4o", output_type=Verdict)

        async def answer() -> dict[str, Any]:
            if streamed:
                result: Any = Runner.run_streamed(agent, "17", run_config=config(server, api))
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(agent, "17", run_config=config(server, api))
            seen.append(result.final_output)
            return dict(result.final_output)

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer) == {"paid": True, "cents": 500}
            run = await runtime.open("r")
            assert (await run.request(1)).settings["output_schema"]["title"] == "Verdict"
    assert seen == [Verdict(paid=True, cents=500)]


@each_api
@live
async def test_a_stream_is_told_to_watchers_as_it_comes_and_to_the_code_from_the_record(store: str, api: str) -> None:
    text = "a long answer of many words, in pieces"
    told: list[str] = []
    seen: list[list[Any]] = []
    again = [False, True]

    def hear(item: Any) -> None:
        if type(item).__name__ == "Progress" and item.text:
            told.append(item.text)

    with ProviderServer([text]) as server:
        agent = Agent(name="a", model="gpt-4o")

        async def answer() -> str:
            result = Runner.run_streamed(agent, "17", run_config=config(server, api))
            raw = [one.data async for one in result.stream_events() if one.type == "raw_response_event"]
            seen.append(raw)
            if again.pop():
                raise RuntimeError("once more")
            return str(result.final_output)

        async with fp.connect(store) as runtime:
            run = None

            async def watching() -> None:
                async for item in run.watch():  # type: ignore[union-attr]
                    hear(item)

            recording = asyncio.ensure_future(runtime.record("r", answer))
            while run is None:
                await asyncio.sleep(0)
                try:
                    run = await runtime.open("r")
                except fp.ForkpointError:
                    continue
            watcher = asyncio.ensure_future(watching())
            with pytest.raises(RuntimeError):
                await recording
            assert await runtime.record("r", answer) == text
            watcher.cancel()
            await asyncio.wait([watcher])
        assert len(server.requests) == 1
    first, second = seen
    assert [event.type for event in first][:1] == ["response.created"]
    assert first[-1].type == "response.completed"
    assert "".join(event.delta for event in first if event.type == "response.output_text.delta") == text
    assert first == second
    assert "".join(told) == text
    assert len(told) > 2


@live
async def test_an_answer_that_was_cut_short_ends_a_stream_as_the_sdk_ends_it(store: str) -> None:
    cut = Message(role="assistant", parts=(Text(content="and so"),), finish_reason="length")
    with ProviderServer([cut, cut]) as server:
        loop = loop_of(Agent(name="a", model="gpt-4o"), server, streamed=True)
        with pytest.raises(Exception) as without:
            await loop("17")
        async with fp.connect(store) as runtime:
            with pytest.raises(type(without.value)) as within:
                await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            assert (await run.state()).messages[-1].finish_reason == "length"
    assert str(within.value) == str(without.value)


# ── failures on the way to a model ───────────────────────────────────────────────────────────────────────────────

PASSING: dict[str, Told] = {
    "busy": Fault(status=429, kind="rate_limit_error", retry_after=0),
    "failed": Fault(status=500, kind="api_error"),
    "cut": Answer(
        message=Message(role="assistant", parts=(Text(content="a long answer of many words"),)), stops_after=4
    ),
}


@each_way
@each_api
@pytest.mark.parametrize("fault", PASSING)
@live
async def test_every_attempt_is_on_record_and_nobody_else_repeats_a_request(
    store: str, api: str, streamed: bool, fault: str
) -> None:
    with ProviderServer([PASSING[fault], "paid"]) as server:
        policy = ModelSettings(retry=ModelRetrySettings(max_retries=5, policy=lambda context: True))
        agent = Agent(name="a", model="gpt-4o", model_settings=policy)
        loop = loop_of(agent, server, api, streamed=streamed)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            history = await (await runtime.open("r")).history()
        assert [one.attempt for one in events_of_kind(history, "EffectDispatched")] == [1, 2]
        assert len(server.requests) == 2


@each_api
@pytest.mark.parametrize("events", [1, 4])
@live
async def test_a_stream_that_ends_before_its_answer_does_is_no_answer(store: str, api: str, events: int) -> None:
    """A proxy may end a stream politely in the middle; half an answer must not pass for a whole one."""
    half = Answer(message=PASSING["cut"].message, stops_after=events, then="end")  # type: ignore[union-attr]
    with ProviderServer([half, "paid"]) as server:
        loop = loop_of(Agent(name="a", model="gpt-4o"), server, api, streamed=True)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
        assert len(server.requests) == 2


@each_way
@live
async def test_spent_attempts_and_refusals_are_failures_that_nobody_repeats(store: str, streamed: bool) -> None:
    with ProviderServer([Fault(status=400, text="no such model", kind="invalid_request_error")] * 3) as server:
        policy = ModelSettings(retry=ModelRetrySettings(max_retries=5, policy=lambda context: True))
        agent = Agent(name="a", model="gpt-4o", model_settings=policy)
        async with fp.connect(store) as runtime:
            with pytest.raises(fp.EffectFailed, match="no such model"):
                await runtime.record("r", loop_of(agent, server, streamed=streamed), "17")
        assert len(server.requests) == 1


@live
async def test_a_key_that_the_sdk_makes_up_by_chance_is_no_part_of_what_is_asked(store: str) -> None:
    """It is another in every process; with it, no request on record would be known again."""

    class Caching(OpenAIResponsesModel):
        def _supports_default_prompt_cache_key(self) -> bool:
            return True

    again = [False, True]
    with ProviderServer(BILLING) as server:
        agent = clerk(World())
        agent.model = ForkpointModel(Caching("gpt-4o", client_of(server)))

        async def answer() -> str:
            found = str((await Runner.run(agent, "17")).final_output)
            if again.pop():
                raise RuntimeError("once more")
            return found

        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer)
            assert await runtime.record("r", answer) == "paid"
        assert len(server.requests) == 3
        assert await loop_of(agent, server)("17") == "paid"
        assert "prompt_cache_key" in server.requests[-1].body


@live
async def test_a_key_is_in_no_event(store: str) -> None:
    secret = Fault(status=401, text="Incorrect API key provided: sk-none-of-your-business", kind="invalid_api_key")
    with ProviderServer([secret]) as server:
        headers = ModelSettings(extra_headers={"Authorization": "Bearer sk-none-of-your-business"})
        loop = loop_of(Agent(name="a", model="gpt-4o", model_settings=headers), server)
        async with fp.connect(store) as runtime:
            with pytest.raises(fp.EffectFailed):
                await runtime.record("r", loop, "17")
            assert "none-of-your-business" not in str(await (await runtime.open("r")).history())


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def due(asked: Asked) -> Told:
    """Charges what is due, as the model was told of it."""
    answers = shown(asked)
    if not answers:
        return asks(call("search", number="17"))
    if len(answers) == 1 and "500" in str(answers[0]):
        return asks(call("charge", number="17", cents=500))
    return "paid" if len(answers) == 2 else "nothing due"


@each_way
@each_api
@live
async def test_a_fork_with_another_result_goes_on_through_the_sdks_own_loop(
    store: str, api: str, streamed: bool
) -> None:
    world = World()
    with ProviderServer(due) as server:
        loop = loop_of(clerk(world), server, api, streamed=streamed)
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", loop, "17") == "paid"
            run = await runtime.open("r")
            before = await run.digest()
            child = await run.fork(patch=fp.Patch(tool_results={"call_search": {"number": "17", "due": 0}}))
            assert await runtime.record(child.id, loop) == "nothing due"
            assert await run.digest() == before
            compared = await runtime.compare(run, child)
            assert compared.diverged_at == 1
            drift = [(one.a, one.b) for one in compared.drift if one.field == "results"]
            assert ({"number": "17", "due": 500}, {"number": "17", "due": 0}) in drift
        assert shown(server.requests[-1]) in ([{"number": "17", "due": 0}], ["{'number': '17', 'due': 0}"])
        assert len(server.requests) == 4
    assert world.done == {"search": 1, "charge": 1}


@each_api
@live
async def test_a_fork_asks_another_model_with_other_instructions_settings_and_tools(store: str, api: str) -> None:
    with ProviderServer(BILLING) as server:
        agent = clerk(World())
        loop = loop_of(agent, server, api)
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            tools = [declared_tool(one) for one in agent.tools if one.name != "mail"]
            patch = fp.Patch(model="gpt-4o-mini", instructions="Be kind.", settings={"temperature": 0.5}, tools=tools)
            child = await run.fork(step=2, patch=patch)
            assert await runtime.record(child.id, loop) == "paid"
            request = await child.request(3)
            assert (request.model, request.instructions) == ("gpt-4o-mini", "Be kind.")
        asked = server.requests[-1]
        assert (asked.model, asked.instructions, asked.tools) == ("gpt-4o-mini", "Be kind.", ("search", "charge"))
        assert asked.body["temperature"] == 0.5
        assert len(server.requests) == 4


OTHER = {"type": "object", "title": "Other", "properties": {"paid": {"type": "boolean"}, "cents": {"type": "integer"}}}


@pytest.mark.parametrize("kept", ["the same", "another", "none"])
@each_api
@live
async def test_a_fork_with_other_settings_says_what_form_the_answer_has(store: str, api: str, kept: str) -> None:
    told = '{"paid":true,"cents":500}'
    with ProviderServer([told, told]) as server:
        loop = loop_of(Agent(name="judge", model="gpt-4o", output_type=Verdict), server, api)
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            schema = (await run.request(1)).settings["output_schema"]
            more = {"the same": {"output_schema": schema}, "another": {"output_schema": OTHER}, "none": {}}[kept]
            child = await run.fork(step=0, patch=fp.Patch(settings={"temperature": 0.5, **more}))
            await runtime.record(child.id, loop)
        first, second = (json.dumps(one.body) for one in server.requests)
        assert '"title": "Verdict"' in first
        assert ('"title": "Verdict"' in second, '"title": "Other"' in second) == (kept == "the same", kept == "another")
        assert '"temperature": 0.5' in second


@each_api
@live
async def test_a_fork_may_tell_the_model_otherwise_of_a_tool_and_of_tools_that_the_code_does_not_have(
    store: str, api: str
) -> None:
    @fp.tool
    def search(number: str, year: int) -> str:
        """Find an invoice of a year."""
        return ""

    @fp.tool
    def pray(to: str) -> str:
        """Hope."""
        return ""

    with ProviderServer(BILLING) as server:
        loop = loop_of(clerk(World()), server, api)
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
            child = await (await runtime.open("r")).fork(step=2, patch=fp.Patch(tools=[search, pray]))
            assert await runtime.record(child.id, loop) == "paid"
        told = server.requests[-1].body["tools"]
        plain = [one.get("function", one) for one in told]
        assert [(one["name"], one["description"]) for one in plain] == [
            ("search", "Find an invoice of a year."),
            ("pray", "Hope."),
        ]
        assert "year" in plain[0]["parameters"]["properties"]


@live
async def test_a_model_that_asks_one_model_only_says_so_when_a_fork_wants_another(store: str) -> None:
    class One(Model):
        async def get_response(self, *given: Any, **named: Any) -> Any:
            return ModelResponse(output=[], usage=TheirUsage(), response_id=None)

        def stream_response(self, *given: Any, **named: Any) -> Any:
            raise NotImplementedError

    agent = Agent(name="a", model=ForkpointModel(One(), name="one"))

    async def answer() -> str:
        return str((await Runner.run(agent, "17", max_turns=1)).final_output)

    async with fp.connect(store) as runtime:
        await runtime.record("r", answer)
        child = await (await runtime.open("r")).fork(step=0, patch=fp.Patch(model="two"))
        with pytest.raises(fp.EffectFailed, match="ForkpointProvider"):
            await runtime.record(child.id, answer)


@live
async def test_a_fork_takes_another_answer_of_the_model(store: str) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        loop = loop_of(clerk(world), server)
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
            run = await runtime.open("r")
            first = next(events_of_kind(await run.history(), "EffectSettled")).effect
            child = await run.fork(patch=fp.Patch(tool_results={first: "I would rather not."}))
            assert await runtime.record(child.id, loop) == "I would rather not."
        assert len(server.requests) == 3


@live
async def test_a_setting_that_the_sdk_does_not_have_is_refused_before_anything_is_sent(store: str) -> None:
    with ProviderServer(BILLING) as server:
        loop = loop_of(clerk(World()), server)
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
            child = await (await runtime.open("r")).fork(step=2, patch=fp.Patch(settings={"temprature": 1}))
            with pytest.raises(fp.EffectFailed, match="temprature"):
                await runtime.record(child.id, loop)
        assert len(server.requests) == 3
    assert ModelBadSettings.code == "model.bad-settings"


@live
async def test_a_fork_may_take_the_parents_outcomes(store: str) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        loop = loop_of(clerk(world), server)
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, "17")
            child = await (await runtime.open("r")).fork(step=0, effects="recorded")
            assert await runtime.record(child.id, loop) == "paid"
    assert world.done == {"search": 1, "charge": 1}


# ── what would not be on record is refused ───────────────────────────────────────────────────────────────────────


@live
async def test_a_tool_that_is_not_durable_is_refused_before_the_model_is_asked(store: str) -> None:
    with ProviderServer(BILLING) as server:
        agent = Agent(name="a", model="gpt-4o", tools=tools_of(World()))
        async with fp.connect(store) as runtime:
            with pytest.raises(AgentsNotDurable, match="search"):
                await runtime.record("r", loop_of(agent, server), "17")
        assert server.requests == []


@live
async def test_a_model_that_is_asked_past_the_record_is_refused_before_a_tool_runs(store: str) -> None:
    world = World()
    with ProviderServer(BILLING) as server:
        agent = clerk(world)

        async def past() -> str:
            bare = RunConfig(model_provider=theirs(server))
            return str((await Runner.run(agent, "17", run_config=bare)).final_output)

        async def past_with_an_object() -> str:
            agent.model = OpenAIResponsesModel("gpt-4o", client_of(server))
            return str((await Runner.run(agent, "17", run_config=config(server))).final_output)

        async with fp.connect(store) as runtime:
            with pytest.raises(AgentsNotDurable, match="ForkpointProvider"):
                await runtime.record("r", past)
            with pytest.raises(AgentsNotDurable, match="ForkpointModel"):
                await runtime.record("s", past_with_an_object)
    assert world.done == {}


@live
async def test_a_run_waits_for_what_was_lost_and_every_finding_reaches_the_model(store: str) -> None:
    for number, (finding, more, told) in enumerate(
        (
            ("occurred", {"output": "charged 500"}, "charged 500"),
            ("not_occurred", {}, "not_occurred"),
            ("abandoned_unknown", {}, "abandoned_unknown"),
        )
    ):
        world, run_id = World(), f"r{number}"
        with ProviderServer(BILLING) as server:
            loop = loop_of(clerk(world, read_only={"search"}), server)
            async with fp.connect(store, grace_s=0) as runtime:
                await killed_in(world, "charge", runtime.record(run_id, loop, "17"))
            async with fp.connect(store) as runtime:
                with pytest.raises(RunWaits, match="charge"):
                    await runtime.record(run_id, loop, "17")
                run = await runtime.open(run_id)
                await run.resolve((await run.waits())[0].effect, finding, actor="ann", **more)
                assert await runtime.record(run_id, loop, "17") == "paid"
            assert told in str(shown(server.requests[-1])[-1])
            assert len(server.requests) == 3
        assert world.done == {"search": 1, "charge": 1}


def test_a_provider_closes_what_it_opened(tmp_path: Any) -> None:
    class Closing(ForkpointProvider):
        pass

    async def scenario() -> None:
        closed: list[str] = []

        class Inner:
            def get_model(self, name: str | None) -> Any:
                return None

            async def aclose(self) -> None:
                closed.append("inner")

        await Closing(Inner()).aclose()  # type: ignore[arg-type]
        await ForkpointProvider().aclose()
        assert closed == ["inner"]

    run(scenario())


def test_a_function_tool_may_be_made_durable_alone() -> None:
    @function_tool
    def look(path: str) -> str:
        """Look."""
        return path

    made = durable(look, read_only={"look"})
    assert (made.name, made.description, made.params_json_schema) == ("look", "Look.", look.params_json_schema)
    assert durable(made) is made
