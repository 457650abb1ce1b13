"""Forks of functions that run Pydantic AI agents: what was different is told, and its own loop goes on from there."""

from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra 'pydantic-ai' is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent
from tests.adapters.pydantic_ai_stage import (
    World,
    asking,
    clerk,
    events_of,
    live,
    model_at,
    run,
    says,
    told,
)

import forkpoint as fp
from forkpoint.adapters.pydantic_ai import Forkpoint
from forkpoint.events import EffectRequested
from forkpoint.messages import Message, Reasoning, Text
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import API, Answer, ProviderServer

each_api = pytest.mark.parametrize("api", ["chat", "responses", "messages"])


def due(asked: Any) -> Any:
    """Looks; charges what is due, if anything is."""
    if not any(message.role == "tool" for message in asked.messages):
        return calls(call("search", id="c1", number="17"))
    if isinstance(told(asked.messages[-1]), dict):
        cents = told(asked.messages[-1])["due"]
        return calls(call("charge", id="c2", number="17", cents=cents)) if cents else "nothing is due"
    return "paid"


@each_api
def test_a_fork_with_another_result_goes_on_through_the_frameworks_own_loop(tmp_path: Any, api: API) -> None:
    async def test() -> None:
        world = World()
        with ProviderServer(due) as server:
            answer = asking(clerk(model_at(server, api), world, read_only={"search"}))
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                assert await runtime.record("r", answer, "17") == "paid"
                parent = await runtime.open("r")
                before = await parent.digest()
                patch = fp.Patch(tool_results={"c1": {"number": "17", "due": 0}})
                child = await parent.fork(step=1, patch=patch)
                assert await runtime.record(child.id, answer) == "nothing is due"
                found = await runtime.compare("r", child.id)
                assert await parent.digest() == before
            assert len(server.requests) == 4
        assert found.diverged_at == 1
        assert {one.field for one in found.drift} >= {"results", "text"}
        assert world.done == {"search": 1, "charge": 1}

    run(test())


@live
async def test_a_fork_with_an_error_in_place_of_a_result_shows_it_to_the_model(store: str) -> None:
    def script(asked: Any) -> Any:
        last = asked.messages[-1]
        return "I shall wait" if last.role == "tool" and "on fire" in str(told(last)) else due(asked)

    with ProviderServer(script) as server:
        answer = asking(clerk(model_at(server), World()))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            patch = fp.Patch(tool_results={"c1": fp.ToolError("the archive is on fire")})
            child = await (await runtime.open("r")).fork(patch=patch)
            assert await runtime.record(child.id, answer) == "I shall wait"


@live
async def test_a_fork_with_another_answer_of_the_model_goes_on_from_it(store: str) -> None:
    with ProviderServer(due) as server:
        answer = asking(clerk(model_at(server), World()))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            history = await (await runtime.open("r")).history()
            first = next(one.seq for one in history if isinstance(one.event, EffectRequested))
            child = await (await runtime.open("r")).fork(patch=fp.Patch(tool_results={first: "I would rather not"}))
            assert await runtime.record(child.id, answer) == "I would rather not"
        assert len(server.requests) == 3


@live
async def test_a_fork_with_another_model_other_instructions_and_settings_asks_exactly_that(store: str) -> None:
    with ProviderServer(due) as server:
        small = model_at(server, name="gpt-4o-mini")
        answer = asking(clerk(model_at(server), World(), models={"openai:gpt-4o-mini": small}))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            settings = {"temperature": 0.5, "max_tokens": 9}
            patch = fp.Patch(model="openai:gpt-4o-mini", instructions="Be kind.", settings=settings)
            child = await (await runtime.open("r")).fork(step=1, patch=patch)
            assert await runtime.record(child.id, answer) == "paid"
            shown = await child.request(2)
        assert [one.model for one in server.requests] == ["gpt-4o"] * 3 + ["gpt-4o-mini"] * 2
        asked = server.requests[3]
        assert (asked.instructions, server.requests[1].instructions) == ("Be kind.", "Collect.")
        assert (asked.body["temperature"], asked.body["max_completion_tokens"]) == (0.5, 9)
        assert asked.messages == server.requests[1].messages
    assert (shown.model, shown.instructions, shown.settings) == ("openai:gpt-4o-mini", "Be kind.", settings)


@live
async def test_a_fork_with_no_instructions_and_no_settings_asks_without_any(store: str) -> None:
    with ProviderServer(due) as server:
        answer = asking(clerk(model_at(server), World()))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            child = await (await runtime.open("r")).fork(step=1, patch=fp.Patch(instructions=""))
            await runtime.record(child.id, answer)
        assert server.requests[3].instructions == ""


@live
async def test_a_fork_with_other_tools_shows_the_model_those(store: str) -> None:
    @fp.tool
    def search(number: str) -> str:
        """Look again, harder."""
        return ""

    with ProviderServer(due) as server:
        answer = asking(clerk(model_at(server), World()))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            child = await (await runtime.open("r")).fork(step=1, patch=fp.Patch(tools=[search]))
            await runtime.record(child.id, answer)
        assert [one.tools for one in server.requests[2:4]] == [("search", "charge"), ("search",)]
        assert server.requests[3].body["tools"][0]["function"]["description"] == "Look again, harder."


@live
async def test_a_fork_with_other_instructions_keeps_the_shape_of_the_output(store: str) -> None:
    class Sum(BaseModel):
        cents: int

    with ProviderServer(lambda asked: calls(call("final_result", id="c1", cents=asked.number))) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), output_type=Sum, capabilities=[Forkpoint()])

        async def answer(question: str) -> Sum:
            return (await agent.run(question)).output  # type: ignore[no-any-return]

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == Sum(cents=1)
            child = await (await runtime.open("r")).fork(step=0, patch=fp.Patch(settings={"temperature": 1.0}))
            assert await runtime.record(child.id, answer) == Sum(cents=2)
        assert server.requests[0].tools == server.requests[1].tools == ("final_result",)


@pytest.mark.parametrize("api", ["messages", "responses"])
def test_what_a_model_said_goes_out_again_byte_for_byte(tmp_path: Any, api: API) -> None:
    """Reasoning with its signature, ids, and what else a provider attached go out as they came in."""
    signature = "c2lnbmF0dXJl" * 500
    parts = (
        Reasoning(content="hm, ünd \u2028", extra={"signature": signature}),
        Text(content="wait"),
        call("search", id="c1", number='ü "17"'),
    )
    first = Message(role="assistant", parts=parts, finish_reason="tool_call")

    async def test() -> None:
        with ProviderServer(says(Answer(message=first), "done")) as server:
            agent = clerk(model_at(server, api), World(), read_only={"search"})
            answer = asking(agent)
            await agent.run("17")
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                await runtime.record("r", answer, "17")
                child = await (await runtime.open("r")).fork(step=1)
                assert await runtime.record(child.id, answer) == "done"
            without, live, forked = server.requests[1].body, server.requests[3].body, server.requests[4].body
        assert signature in repr(live)
        # Ids that the server makes up count its requests.
        assert _numberless(without) == _numberless(live)
        assert live == forked

    run(test())


def _numberless(body: Any) -> str:
    return repr(body).replace("resp_3", "resp_1").replace("_3", "_1")


@live
async def test_what_a_fork_asks_again_costs_anew_and_its_past_does_not(store: str) -> None:
    with ProviderServer(due) as server:
        answer = asking(clerk(model_at(server), World()))
        async with fp.connect(store) as runtime:
            await runtime.record("r", answer, "17")
            child = await (await runtime.open("r")).fork(step=1)
            await runtime.record(child.id, answer)
            asked = await events_of(runtime, EffectRequested, child.id)
            spent = (await child.state()).spent
        assert len(server.requests) == 5
    assert asked
    assert spent.usage.input_tokens == 30
