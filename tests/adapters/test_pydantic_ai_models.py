"""What a Pydantic AI agent asks of models in a recorded function: streams, shapes of output, failures."""

import asyncio
import gc
import json
import weakref
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra 'pydantic-ai' is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRetry, NativeOutput, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from tests.adapters.pydantic_ai_stage import (
    KEY,
    World,
    asking,
    clerk,
    events_of,
    live,
    model_at,
    run,
    says,
)

import forkpoint as fp
from forkpoint.adapters.pydantic_ai import Forkpoint
from forkpoint.errors import ReplayDiverged
from forkpoint.events import EffectDispatched, EffectSettled
from forkpoint.messages import Usage, assistant
from forkpoint.runtime.progress import Progress
from forkpoint.runtime.recorder import current
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock, call, calls
from forkpoint.testing.provider_server import API, Answer, Fault, ProviderServer

each_api = pytest.mark.parametrize("api", ["chat", "responses", "messages"])
LONG = "one two three four five six seven eight nine ten"


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────


async def watched(runtime: fp.Runtime, recording: Any) -> tuple[Any, list[str]]:
    """What ``recording`` returns, and the words that came as progress meanwhile."""
    task, words = asyncio.ensure_future(recording), []
    while await runtime.edge.journal.row("r") is None:
        await asyncio.wait([task], timeout=0.001)
    async for one in (await runtime.open("r")).watch(after=0):
        if isinstance(one, Progress):
            words.append(one.text)
        elif type(one.event).__name__ == "FunctionReturned":
            break
    return await task, words


def by_run_stream(agent: Agent[Any, Any]) -> Any:
    async def answer(question: str) -> str:
        async with agent.run_stream(question) as stream:
            return "".join([text async for text in stream.stream_text(delta=True)])

    return answer


def by_iter(agent: Agent[Any, Any]) -> Any:
    async def answer(question: str) -> str:
        async with agent.iter(question) as steps:
            async for node in steps:
                if Agent.is_model_request_node(node):
                    async with node.stream(steps.ctx) as stream:
                        async for _ in stream:
                            pass
        return steps.result.output  # type: ignore[union-attr,no-any-return]

    return answer


def by_handler(agent: Agent[Any, Any]) -> Any:
    async def heard(ctx: Any, events: Any) -> None:
        async for _ in events:
            pass

    async def answer(question: str) -> str:
        return (await agent.run(question, event_stream_handler=heard)).output  # type: ignore[no-any-return]

    return answer


@each_api
@pytest.mark.parametrize("way", [by_run_stream, by_iter, by_handler])
def test_a_stream_is_told_live_and_its_recorded_answer_comes_back_on_replay(tmp_path: Any, api: API, way: Any) -> None:
    async def test() -> None:
        with ProviderServer(says(calls(call("search", id="c1", number="17")), LONG)) as server:
            answer = way(clerk(model_at(server, api), World(), read_only={"search"}))

            async def told_twice(question: str) -> str:
                found: str = await answer(question)
                assert tries.pop(), found
                return found

            tries = [True, False]
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                with pytest.raises(AssertionError, match=LONG):
                    await runtime.record("r", told_twice, "17")
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                assert await runtime.record("r", told_twice, "17") == LONG
            assert len(server.requests) == 2
            assert all(request.stream for request in server.requests)
        with ProviderServer(says(calls(call("search", id="c1", number="17")), LONG)) as server:
            answer = way(clerk(model_at(server, api), World(), read_only={"search"}))
            async with fp.connect(str(tmp_path / "watched.db")) as runtime:
                text, words = await watched(runtime, runtime.record("r", answer, "17"))
        assert text == "".join(words) == LONG
        assert len([one for one in words if one]) > 2

    run(test())


@live
async def test_a_handler_of_the_capability_hears_the_stream_as_it_comes_and_nothing_twice(store: str) -> None:
    heard: list[str] = []

    async def hear(ctx: Any, events: Any) -> None:
        async for event in events:
            is_piece = isinstance(event, PartStartEvent | PartDeltaEvent)
            heard.append("piece" if is_piece else event.event_kind)

    with ProviderServer(says(calls(call("search", id="c1", number="17")), LONG)) as server:
        agent = clerk(model_at(server), World(), read_only={"search"}, event_stream_handler=hear)

        async def answer(question: str) -> None:
            await agent.run(question)
            raise RuntimeError("so that it is called again")

        counts = []
        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
            counts.append(len(heard))
    assert heard.count("piece") > 5
    assert heard.count("function_tool_result") == 1
    assert counts[0] == counts[1]


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────


async def recorded_in_time(runtime: fp.Runtime, clock: FakeClock, answer: Any) -> Any:
    """What the recording returns, with all the time it needs between attempts."""
    task = asyncio.ensure_future(runtime.record("r", answer, "17"))
    while not task.done():
        await clock.advance(60)
        await asyncio.wait([task], timeout=0.001)
    return task.result()


@each_api
def test_every_attempt_at_a_busy_provider_is_on_record_and_the_clients_own_repeats_are_off(api: API) -> None:
    async def test() -> None:
        clock = FakeClock()
        with ProviderServer([Fault(status=429), Fault(status=500), "at last"]) as server:
            answer = asking(clerk(model_at(server, api), World()))
            async with fp.connect(MemoryJournal(), clock=clock) as runtime:
                assert await recorded_in_time(runtime, clock, answer) == "at last"
                dispatched = await events_of(runtime, EffectDispatched)
            assert len(server.requests) == len(dispatched) == 3

    run(test())


@pytest.mark.parametrize("then", ["cut", "end", "error"])
def test_a_stream_that_was_cut_is_asked_again_and_both_attempts_are_on_record(tmp_path: Any, then: Any) -> None:
    async def test() -> None:
        cut, clock = Answer(message=assistant(LONG), stops_after=3, then=then), FakeClock()
        with ProviderServer([cut, LONG]) as server:
            answer = by_run_stream(clerk(model_at(server), World()))
            async with fp.connect(MemoryJournal(), clock=clock) as runtime:
                assert await recorded_in_time(runtime, clock, answer) == LONG
                settled = await events_of(runtime, EffectSettled)
            assert [type(one.outcome).__name__ for one in settled] == ["Failed", "Succeeded"]
            assert len(server.requests) == 2

    run(test())


@live
async def test_a_refusal_reaches_the_function_as_pydantic_ais_error_live_and_on_replay_alike(store: str) -> None:
    seen: list[Any] = []
    with ProviderServer(lambda asked: Fault(status=400, text="no such thing")) as server:
        agent = clerk(model_at(server), World())

        async def answer(question: str) -> None:
            try:
                await agent.run(question)
            except ModelHTTPError as error:
                assert isinstance(error, fp.EffectFailed)
                seen.append((error.status_code, str(error)))
            await agent.run("and more")

        for _ in range(2):
            async with fp.connect(store) as runtime:
                with pytest.raises(ModelAPIError):
                    await runtime.record("r", answer, "17")
        assert len(server.requests) == 3
    assert seen[0] == seen[1]
    assert seen[0][0] == 400
    assert "no such thing" in seen[0][1]


@live
async def test_no_key_is_on_record_when_a_provider_repeats_it(store: str) -> None:
    with ProviderServer(lambda asked: Fault(status=401, text=f"wrong: {KEY}")) as server:
        async with fp.connect(store) as runtime:
            with pytest.raises(ModelAPIError):
                await runtime.record("r", asking(clerk(model_at(server), World())), "17")
            assert KEY not in repr(await (await runtime.open("r")).history())


# ── shapes of output ─────────────────────────────────────────────────────────────────────────────────────────


class Verdict(BaseModel):
    due: Decimal
    why: str


@pytest.mark.parametrize(
    ("shape", "name"),
    [(Verdict, "final_result"), (ToolOutput(Verdict, name="verdict"), "verdict"), (NativeOutput(Verdict), "")],
)
def test_structured_output_is_checked_live_and_on_replay_and_asked_for_again_where_it_is_wrong(
    tmp_path: Any, shape: Any, name: str
) -> None:
    def reply(id: str, due: str) -> Any:
        said = {"due": due, "why": "it says so"}
        return calls(call(name, id=id, **said)) if name else json.dumps(said)

    async def test() -> None:
        with ProviderServer(says(reply("c1", "lots"), reply("c2", "12.50"))) as server:
            agent: Agent[Any, Any] = Agent(model_at(server), output_type=shape, retries=2, capabilities=[Forkpoint()])
            tries = [RuntimeError("so that it is called again"), None]

            async def answer(question: str) -> Verdict:
                found = (await agent.run(question)).output
                assert isinstance(found, Verdict)
                error = tries.pop(0)
                if error is not None:
                    raise error
                return found

            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                with pytest.raises(RuntimeError):
                    await runtime.record("r", answer, "17")
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                found = await runtime.record("r", answer, "17")
                assert found == Verdict(due=Decimal("12.50"), why="it says so")
                settled = await events_of(runtime, EffectSettled)
            assert {type(one.outcome).__name__ for one in settled} == {"Succeeded"}
            assert len(server.requests) == len(settled) == 2
            assert "decimal" in repr(server.requests[1].messages[-1])

    run(test())


@live
async def test_an_agent_with_another_shape_of_output_asks_something_else(store: str) -> None:
    """The code was changed while the run lay still: what it asks now is not what is on record."""

    class Other(BaseModel):
        due: Decimal
        until: str

    shapes: list[Any] = [NativeOutput(Verdict, name="it"), NativeOutput(Other, name="it")]
    with ProviderServer(says(json.dumps({"due": "1", "why": "so"}))) as server:
        model = model_at(server)

        async def answer(question: str) -> None:
            agent: Agent[Any, Any] = Agent(model, output_type=shapes.pop(0), capabilities=[Forkpoint()])
            await agent.run(question)
            raise RuntimeError("so that it is called again")

        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer, "17")
            with pytest.raises(ReplayDiverged):
                await runtime.record("r", answer, "17")
        assert len(server.requests) == 1


@live
async def test_an_output_that_a_validator_sends_back_is_no_failure(store: str) -> None:
    with ProviderServer(says("short", "long enough")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), retries=2, capabilities=[Forkpoint()])

        @agent.output_validator
        def long(output: str) -> str:
            if len(output) < 6:
                raise ModelRetry("longer, please")
            return output

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", asking(agent), "17") == "long enough"
            settled = await events_of(runtime, EffectSettled)
        assert {type(one.outcome).__name__ for one in settled} == {"Succeeded"}
        assert "longer, please" in server.requests[1].messages[-1].text
        assert len(server.requests) == 2


@live
async def test_an_agent_that_gives_up_says_so_in_pydantic_ais_words(store: str) -> None:
    with ProviderServer(lambda asked: calls(call("search", id=f"c{asked.number}", number=1))) as server:
        answer = asking(clerk(model_at(server), World()))
        async with fp.connect(store) as runtime:
            with pytest.raises(UnexpectedModelBehavior):
                await runtime.record("r", answer, "17")


# ── which model, with what ───────────────────────────────────────────────────────────────────────────────────


def saying(text: str) -> TestModel:
    return TestModel(call_tools=[], custom_output_text=text)


@live
async def test_a_model_that_is_given_to_one_run_is_asked_like_any_other(store: str) -> None:
    tries = [RuntimeError("so that it is called again"), None]
    with ProviderServer(says("from afar")) as server:
        agent = clerk(model_at(server), World())

        async def answer(question: str) -> list[str]:
            said = [(await agent.run(question, model=saying(text))).output for text in "ab"]
            with agent.override(model=saying("c")):
                said.append((await agent.run(question)).output)
            said.append((await agent.run(question)).output)
            error = tries.pop(0)
            if error is not None:
                raise error
            return said

        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer, "17")
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == ["a", "b", "c", "from afar"]
        assert len(server.requests) == 1


@live
async def test_a_model_is_found_by_its_name_as_pydantic_ai_finds_it(store: str) -> None:
    with ProviderServer(says("hi")) as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENAI_BASE_URL", server.openai_url)
        patched.setenv("OPENAI_API_KEY", KEY)
        answer = asking(clerk("openai-chat:gpt-4o", World()))
        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer, "17") == "hi"
            child = await (await runtime.open("r")).fork(step=0, patch=fp.Patch(model="openai:gpt-5"))
            assert await runtime.record(child.id, answer) == "hi"
            assert (await (await runtime.open("r")).request(1)).model == "openai-chat:gpt-4o"
        assert [(one.api, one.model) for one in server.requests] == [("chat", "gpt-4o"), ("responses", "gpt-5")]


@live
async def test_a_response_that_the_provider_still_works_on_is_asked_for_piece_by_piece(store: str) -> None:
    """Each piece is an answer of its own, and a restart goes on from the last."""
    asked: list[int] = []

    def speak(messages: list[Any], info: Any) -> ModelResponse:
        asked.append(len(messages))
        state: Any = "suspended" if len(asked) < 3 else "complete"
        return ModelResponse(parts=[TextPart(f"part {len(asked)}")], state=state, provider_name="openai")

    agent = clerk(FunctionModel(speak), World())

    async def answer(question: str) -> None:
        output = (await agent.run(question)).output
        raise RuntimeError(output)

    said = []
    for _ in range(2):
        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError) as raised:
                await runtime.record("r", answer, "17")
            said.append(str(raised.value))
    assert len(asked) == 3
    assert said[0] == said[1]
    assert "part 3" in said[0]


@live
async def test_a_summary_that_a_model_writes_is_asked_for_once(store: str) -> None:
    written: list[str] = []

    class Summing(FunctionModel):
        async def compact_messages(self, request_context: Any, *, instructions: str | None = None) -> ModelResponse:
            written.append(instructions or "")
            return ModelResponse(parts=[TextPart("in short")])

    class Compacting(AbstractCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            summary = await request_context.model.compact_messages(request_context, instructions="Be short.")
            said.append(summary.text)
            return request_context

    said: list[str] = []
    model = Summing(lambda messages, info: ModelResponse(parts=[TextPart("done")]))
    agent: Agent[Any, Any] = Agent(model, capabilities=[Compacting(), Forkpoint()])

    async def answer(question: str) -> None:
        await agent.run(question)
        raise RuntimeError("so that it is called again")

    for _ in range(2):
        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer, "17")
            assert len(await events_of(runtime, EffectSettled)) == 2
    assert written == ["Be short."]
    assert said == ["in short"] * 2


@pytest.mark.parametrize(("more", "attempts"), [(0, 1), (1, 2), (None, 3)])
def test_a_setting_says_how_often_a_busy_provider_is_asked(tmp_path: Any, more: int | None, attempts: int) -> None:
    async def test() -> None:
        settings: Any = {} if more is None else {"max_retries": more}
        clock = FakeClock()
        with ProviderServer(lambda asked: Fault(status=503)) as server:
            agent: Agent[Any, Any] = Agent(model_at(server), model_settings=settings, capabilities=[Forkpoint()])
            async with fp.connect(MemoryJournal(), clock=clock) as runtime:
                with pytest.raises(ModelHTTPError):
                    await recorded_in_time(runtime, clock, asking(agent))
            assert len(server.requests) == attempts

    run(test())


@live
async def test_what_is_known_of_a_recorded_run_goes_with_it(store: str) -> None:
    agent = clerk(saying("hi"), World())
    seen: list[Any] = []

    async def answer(question: str) -> str:
        found = current()
        assert found is not None
        seen.append(weakref.ref(found))
        return (await agent.run(question)).output  # type: ignore[no-any-return]

    async with fp.connect(store) as runtime:
        await runtime.record("r", answer, "17")
    del runtime
    gc.collect()
    assert seen[0]() is None


@live
async def test_a_model_without_ids_of_its_own_replays_all_the_same(store: str) -> None:
    """Pydantic AI makes ids up for such calls; what was made up is what is recorded."""
    asked: list[int] = []

    def speak(messages: list[Any], info: Any) -> ModelResponse:
        asked.append(len(messages))
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("search", {"number": one}) for one in ("17", "18")])
        return ModelResponse(parts=[TextPart("done")])

    agent = clerk(FunctionModel(speak), World())

    async def answer(question: str) -> None:
        await agent.run(question)
        raise RuntimeError("so that it is called again")

    for _ in range(3):
        async with fp.connect(store) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.record("r", answer, "17")
    assert asked == [1, 3]


@live
async def test_settings_that_say_how_to_reach_a_provider_are_used_and_not_recorded(store: str) -> None:
    settings: Any = {"temperature": 0.25, "extra_headers": {"X-Token": "tok-123"}, "timeout": 30}
    with ProviderServer(says("hi")) as server:
        agent: Agent[Any, Any] = Agent(model_at(server), model_settings=settings, capabilities=[Forkpoint()])
        async with fp.connect(store) as runtime:
            await runtime.record("r", asking(agent), "17")
            found = await runtime.open("r")
            assert "tok-123" not in repr(await found.history())
            assert (await found.request(1)).settings == {"temperature": 0.25}
        assert server.requests[0].headers["x-token"] == "tok-123"


@live
async def test_what_a_person_shows_is_on_record_as_it_was_shown(store: str) -> None:
    with ProviderServer(says("nice")) as server:
        agent = clerk(model_at(server), World())

        async def answer() -> str:
            shown = ["see", BinaryContent(b"\x89PNG", media_type="image/png"), ImageUrl("http://127.0.0.1/a.png")]
            return (await agent.run(shown)).output  # type: ignore[no-any-return]

        async with fp.connect(store) as runtime:
            assert await runtime.record("r", answer) == "nice"
            (message,) = (await (await runtime.open("r")).request(1)).messages
        assert [type(part).__name__ for part in message.parts] == ["Text", "BlobPart", "UriPart"]
        assert len(server.requests[0].messages[0].parts) == 3


@live
async def test_an_answer_that_says_what_it_used_is_on_record_with_it(store: str) -> None:
    usage = Usage(input_tokens=1000, output_tokens=200, cached_tokens=400, reasoning_tokens=70)
    with ProviderServer(says(Answer(message=assistant("hi"), usage=usage))) as server:
        async with fp.connect(store) as runtime:
            await runtime.record("r", asking(clerk(model_at(server, "responses"), World())), "17")
            (settled,) = await events_of(runtime, EffectSettled)
    assert settled.usage == usage
    assert settled.cost > 0


def test_an_agent_in_a_plain_function_is_recorded_from_its_own_thread(tmp_path: Any) -> None:
    async def test() -> None:
        world = World()
        agent = clerk(FunctionModel(_plainly), world, read_only={"search"})

        def answer(question: str) -> str:
            try:
                return agent.run_sync(question).output  # type: ignore[no-any-return]
            finally:
                asyncio.get_event_loop().close()  # Pydantic AI leaves the one that it makes for a thread open

        for _ in range(2):
            async with fp.connect(str(tmp_path / "runs.db")) as runtime:
                assert await runtime.record("r", answer, "17") == "done"
                assert len(await events_of(runtime, EffectSettled)) == 3
        assert world.done == {"search": 1}

    run(test())


def _plainly(messages: list[Any], info: Any) -> ModelResponse:
    asks = ToolCallPart("search", {"number": "17"})
    return ModelResponse(parts=[asks if len(messages) == 1 else TextPart("done")])
