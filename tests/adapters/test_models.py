"""Models by name: the providers' real clients against a provider on this machine."""

import asyncio
import base64
import itertools
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import forkpoint as fp
from forkpoint.adapters.provider_models import ProviderModel
from forkpoint.errors import AdapterMissing, ModelBadSettings, ModelNoProvider, ModelNotSetUp, ModelRefused
from forkpoint.events import EffectSettled
from forkpoint.messages import BlobPart, Message, Reasoning, Text, Usage, user
from forkpoint.outcomes import Cancelled, Failed
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse, ModelUnavailable
from forkpoint.runtime.progress import Progress
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock, call, calls
from forkpoint.testing.provider_server import API, Answer, Asked, Fault, ProviderServer, Told

pytest.importorskip("pydantic_ai", reason="the extra 'models' is not installed")

NAMES: dict[API, str] = {
    "chat": "openai-chat:gpt-4o",
    "responses": "openai:gpt-5",
    "messages": "anthropic:claude-sonnet-4-6",
}
KEY = "hunter2-very-secret-0123456789"
USAGE = Usage(input_tokens=1000, output_tokens=200, cached_tokens=400, reasoning_tokens=70)
each_api = pytest.mark.parametrize("api", list(NAMES))
each_way = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def model_at(server: ProviderServer, api: API, **options: Any) -> ProviderModel:
    return ProviderModel(NAMES[api], base_url=base_url(server, api), api_key=KEY, **options)


def base_url(server: ProviderServer, api: API) -> str:
    return server.url if api == "messages" else server.openai_url


def asked(model: ProviderModel, *messages: Message, **more: Any) -> list[Any]:
    """What ``model`` answers to one request, after the pieces that came before."""

    async def scenario() -> list[Any]:
        told: list[Any] = []
        try:
            request = ModelRequest(
                model=model.name, instructions=more.pop("instructions", ""), messages=messages or [user("hi")], **more
            )
            told.append(await model.respond(request, told.append))
        finally:
            await model.close()
        return told

    return asyncio.run(scenario())


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


@fp.tool(read_only=True)
def look(path: str) -> dict[str, str]:
    """Look at a file."""
    return {"of": path}


def looking(asked: Asked) -> Told:
    """Thinks, says something and looks twice at once; then says what it saw."""
    if asked.messages[-1].role == "tool":
        return Answer(message=_spoken(f"saw {asked.messages[-1].parts[0].response['of']}"), usage=USAGE)
    return Answer(message=LOOKS, usage=USAGE)


def _spoken(text: str) -> Message:
    return Message(role="assistant", parts=(Text(content=text),))


SIGNATURE = base64.b64encode(bytes(range(256)) * 20).decode()
"""Over 4 KiB, so that it is kept aside of its event."""

LOOKS = Message(
    role="assistant",
    parts=(
        Reasoning(content="I wonder,\n  <b>ünd</b> \u2028 so", extra={"signature": SIGNATURE}),
        Text(content="I shall look. "),
        call("look", id="c1", path="a b.txt"),
        call("look", id="c2", path='ü "quoted"'),
    ),
)


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────


@each_way
@each_api
def test_a_run_speaks_to_each_provider_and_runs_the_tools_it_asks_for(api: API, stream: bool) -> None:
    async def scenario() -> None:
        # Pydantic AI streams from Anthropic of its own accord where an answer may be long.
        settings = {"max_tokens": 1000}
        model = model_at(server, api, stream=stream)
        agent = fp.Agent("a", model=model, instructions="Be brief.", tools=[look], settings=settings)
        async with fp.connect(MemoryJournal(), agents=[agent]) as runtime:
            run = await runtime.start("a", "go")
            state = await run.wait()
        first, second = server.requests
        assert (state.status, state.output, state.step) == ("idle", 'saw ü "quoted"', 2)
        assert (state.spent.usage, state.spent.cost_unknown) == (USAGE.plus(USAGE), 0)
        assert state.spent.cost > 0
        assert [(one.api, one.stream, one.instructions) for one in (first, second)] == [(api, stream, "Be brief.")] * 2
        assert first.tools == ("look",)
        assert [one.role for one in second.messages] == ["user", "assistant", "tool", "tool"]
        assert [one.arguments for one in second.messages[1].calls] == [{"path": "a b.txt"}, {"path": 'ü "quoted"'}]
        assert [one.parts[0].response for one in second.messages[2:]] == [{"of": "a b.txt"}, {"of": 'ü "quoted"'}]
        assert state.messages[1].finish_reason == "tool_call"

    with ProviderServer(looking) as server:
        run(scenario)


@each_api
def test_a_stream_tells_text_and_reasoning_as_they_come(api: API) -> None:
    with ProviderServer(looking) as server:
        *pieces, response = asked(model_at(server, api))
    assert "".join(one.text for one in pieces) == "I shall look. "
    assert "".join(one.reasoning for one in pieces) == LOOKS.parts[0].content
    assert len(pieces) > 4
    assert response.message.text == "I shall look. "


@each_way
@each_api
def test_a_tools_schema_reaches_the_provider(api: API, stream: bool) -> None:
    with ProviderServer(["fine"]) as server:
        asked(model_at(server, api, stream=stream), tools=(look.record(),))
        tool = server.requests[0].body["tools"][0]
    told = tool.get("function", tool)
    schema = told.get("parameters") or told["input_schema"]
    assert (told["name"], told["description"]) == ("look", "Look at a file.")
    assert schema["properties"]["path"]["type"] == "string"
    assert schema["required"] == ["path"]


@each_way
@each_api
def test_reasoning_and_its_signature_come_back_byte_for_byte_through_journal_and_fork(
    api: API, stream: bool, tmp_path: Path
) -> None:
    """A provider refuses a signature of which one byte is another; and it is the provider's to read, not ours."""

    async def scenario() -> None:
        def agent() -> fp.Agent:
            return fp.Agent("a", model=model_at(server, api, stream=stream), tools=[look])

        async with fp.connect(tmp_path / "runs.db", agents=[agent()]) as runtime:
            await (await runtime.start("a", "go", run_id="r")).wait()
        async with fp.connect(tmp_path / "runs.db", agents=[agent()]) as runtime:
            child = await (await runtime.open("r")).fork(step=1, patch=fp.Patch(input="and then?"))
            await child.resume()
            assert (await child.wait()).status == "idle"
            again = await child.request(1)
        _, second, *later = server.requests
        assert later
        for one in later:
            assert one.messages[1] == second.messages[1]
            assert spoken(one)[:shared] == spoken(second)[:shared]
        thought = second.messages[1].parts[0]
        assert isinstance(thought, Reasoning)
        assert thought.content == LOOKS.parts[0].content
        if api != "chat":  # Chat Completions has no signatures
            assert thought.extra == {"signature": SIGNATURE}
        assert again.messages[0] == user("go")

    shared = {"chat": 4, "responses": 5, "messages": 2}[api]  # up to where the fork's input stands in a message of two

    def spoken(asked: Asked) -> list[Any]:
        return list(asked.body.get("input") or asked.body["messages"])

    with ProviderServer(looking) as server:
        run(scenario)


@each_api
def test_parts_that_a_patch_leaves_alone_are_what_they_were(api: API) -> None:
    """Editing one message must not erase what structured blocks of others hold."""

    async def scenario() -> None:
        agent = fp.Agent("a", model=model_at(server, api), tools=[look])
        picture = BlobPart(mime_type="image/png", content=base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\xff").decode())
        async with fp.connect(MemoryJournal(), agents=[agent]) as runtime:
            run = await runtime.start("a", [Text(content="What is this?"), picture])
            parent = await run.wait()
            child = await run.fork(step=1, patch=fp.Patch(tool_results={"c1": {"of": "another"}}))
            await child.resume()
            forked = await child.wait()
        assert forked.messages[:2] == parent.messages[:2]
        assert server.requests[-1].messages[:2] == server.requests[1].messages[:2]
        assert server.requests[-1].messages[0].parts == (Text(content="What is this?"), picture)
        assert server.requests[-1].messages[2].parts[0].response == {"of": "another"}

    with ProviderServer(looking) as server:
        run(scenario)


@each_api
def test_an_image_arrives_with_the_bytes_it_has(api: API) -> None:
    picture = BlobPart(mime_type="image/jpeg", content=base64.b64encode(bytes(range(256))).decode())
    with ProviderServer(["a picture"]) as server:
        asked(model_at(server, api), Message(role="user", parts=(Text(content="see"), picture)))
        assert server.requests[0].messages[0].parts == (Text(content="see"), picture)


@each_way
@each_api
def test_why_an_answer_ended_is_kept(api: API, stream: bool) -> None:
    cut_short = Message(role="assistant", parts=(Text(content="and so"),), finish_reason="length")
    with ProviderServer([cut_short, "done"]) as server:
        first = asked(model_at(server, api, stream=stream))[-1]
        second = asked(model_at(server, api, stream=stream))[-1]
    assert (first.message.finish_reason, second.message.finish_reason) == ("length", "stop")


def test_what_a_model_without_a_price_costs_is_unknown() -> None:
    with ProviderServer(["hello"]) as server:
        model = ProviderModel("openai-chat:home-grown-7b", base_url=server.openai_url, api_key=KEY)
        response = asked(model)[-1]
    assert response.cost is None
    assert response.usage == Usage(input_tokens=10, output_tokens=5)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────


@each_api
def test_settings_reach_the_provider(api: API) -> None:
    settings = {"max_tokens": 77, "extra_body": {"metadata": {"user_id": "u1"}}}
    settings |= {"temperature": 0.25} if api == "chat" else {}
    settings |= {"openai_reasoning_effort": "low"} if api == "responses" else {}
    settings |= {"anthropic_effort": "low"} if api == "messages" else {}
    with ProviderServer(["fine"]) as server:
        asked(model_at(server, api), settings=settings)
        body = server.requests[0].body
    assert 77 in (body.get("max_tokens"), body.get("max_completion_tokens"), body.get("max_output_tokens"))
    assert body["metadata"] == {"user_id": "u1"}
    assert api != "chat" or body["temperature"] == 0.25
    assert api != "responses" or body["reasoning"]["effort"] == "low"
    assert api != "messages" or body["output_config"]["effort"] == "low"


@each_api
def test_a_schema_for_the_answer_reaches_the_provider(api: API) -> None:
    schema = {
        "type": "object",
        "title": "Verdict",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    with ProviderServer(['{"ok":true}']) as server:
        response = asked(model_at(server, api), settings={"output_schema": schema})[-1]
        sent = msgspec.json.encode(server.requests[0].body).decode()
    assert response.message.text == '{"ok":true}'
    assert '"json_schema"' in sent
    assert '"ok":{"type":"boolean"}' in sent


@each_api
@pytest.mark.parametrize("name", ["temprature", "max_retries", "openai_resoning_effort"])
def test_a_setting_that_nobody_would_heed_is_refused_before_anything_is_sent(api: API, name: str) -> None:
    with ProviderServer([]) as server:
        with pytest.raises(ModelBadSettings, match=name):
            asked(model_at(server, api), settings={name: 1})
        assert server.requests == []


# ── failures that pass ───────────────────────────────────────────────────────────────────────────────────────────

PASSING: dict[str, Told] = {
    "busy": Fault(status=429, kind="rate_limit_error", retry_after=7),
    "failed": Fault(status=500, kind="api_error"),
    "proxy": Fault(status=503, body="<html><h1>Service Unavailable</h1></html>"),
    "overloaded": Fault(status=529, kind="overloaded_error"),
    "cut": Answer(message=LOOKS, stops_after=6, then="cut"),
    "error in the middle": Answer(message=LOOKS, stops_after=6, then="error"),
}


@each_way
@each_api
@pytest.mark.parametrize("fault", PASSING)
def test_a_failure_that_may_pass_asks_for_another_attempt(api: API, stream: bool, fault: str) -> None:
    with ProviderServer([PASSING[fault]]) as server:
        with pytest.raises(ModelUnavailable, match=NAMES[api]) as caught:
            asked(model_at(server, api, stream=stream))
        assert len(server.requests) == 1, "the client repeated it, off the record"
        assert "x-stainless-retry-count" not in server.requests[0].headers or (
            server.requests[0].headers["x-stainless-retry-count"] == "0"
        )
    assert caught.value.retry_after_s == (7 if fault == "busy" else None)


@each_api
@pytest.mark.parametrize("events", [0, 1, 5])
def test_a_stream_that_ends_before_its_answer_does_is_no_answer(api: API, events: int) -> None:
    """A proxy may end a stream politely in the middle; half an answer must not pass for a whole one."""
    half = Answer(message=_spoken("a long answer of many words"), stops_after=events, then="end")
    with (
        ProviderServer([half]) as server,
        pytest.raises(ModelUnavailable, match="whole answer"),
    ):
        asked(model_at(server, api))


@each_api
def test_a_body_that_is_no_json_is_no_answer(api: API) -> None:
    with (
        ProviderServer([Fault(status=200, body='{"id": "x", "choices": [')]) as server,
        pytest.raises(ModelUnavailable, match="whole answer"),
    ):
        asked(model_at(server, api, stream=False))


@each_way
@each_api
def test_silence_is_not_waited_out(api: API, stream: bool) -> None:
    with (
        ProviderServer([Answer(message=LOOKS, stops_after=4, then="stall")]) as server,
        pytest.raises(ModelUnavailable, match=NAMES[api]),
    ):
        asked(model_at(server, api, stream=stream, timeout_s=0.1))


@each_api
def test_a_provider_that_is_not_there_may_be_there_later(api: API) -> None:
    with ProviderServer([]) as server:
        model = model_at(server, api)
    with pytest.raises(ModelUnavailable, match="whole answer"):
        asked(model)


@each_api
def test_every_attempt_is_on_record_with_its_cost(api: API) -> None:
    """Asking again is the run's part: it waits as long as the provider asks, and counts what it cannot know."""

    async def scenario() -> None:
        clock = FakeClock()
        agent = fp.Agent("a", model=model_at(server, api))
        async with fp.connect(MemoryJournal(), agents=[agent], clock=clock) as runtime:
            run = await runtime.start("a", "go")
            async for one in run.watch(after=0):
                event = getattr(one, "event", None)
                if isinstance(event, EffectSettled):
                    settled.append((one.at_ms, event))
                    if event.then == "final":
                        break
                    await clock.advance(60)
            state = await run.wait()
        assert state.output == "at last"
        assert (state.spent.usage, state.spent.cost_unknown) == (USAGE, 2)
        assert state.spent.cost > 0

    settled: list[tuple[int, EffectSettled]] = []
    cut = Answer(message=_spoken("half of an answer"), stops_after=3, then="cut")
    with ProviderServer([PASSING["busy"], cut, Answer(message=_spoken("at last"), usage=USAGE)]) as server:
        run(scenario)
        assert len(server.requests) == 3
        assert server.requests[0].body == server.requests[2].body
    assert [event.then for _, event in settled] == ["retry", "retry", "final"]
    assert [event.attempt for _, event in settled] == [1, 2, 3]
    time_ms, busy = settled[0]
    assert busy.retry_at_ms is not None
    assert busy.retry_at_ms - time_ms >= 7000
    assert isinstance(busy.outcome, Failed)
    assert "429" in busy.outcome.text


def test_what_was_said_before_an_interrupt_is_kept_and_is_no_answer() -> None:
    async def scenario() -> None:
        agent = fp.Agent("a", model=model_at(server, "messages"))
        async with fp.connect(MemoryJournal(), agents=[agent]) as runtime:
            run = await runtime.start("a", "go")
            said = ""
            async for one in run.watch(after=0):
                said += one.text if isinstance(one, Progress) else ""
                if len(said) >= 16:
                    break
            await run.interrupt("enough")
            state = await run.wait()
            outcomes = [one.event.outcome for one in await run.history() if isinstance(one.event, EffectSettled)]
            await run.send("go on")
            later = await run.wait()
        assert isinstance(outcomes[0], Cancelled)
        assert outcomes[0].partial is not None
        assert outcomes[0].partial.text == "one two three fo"
        assert state.output == ""
        assert later.output == "as you wish"

    text = "one two three four five six"
    with ProviderServer([Answer(message=_spoken(text), stops_after=4, then="stall"), "as you wish"]) as server:
        run(scenario)


# ── failures that stay ───────────────────────────────────────────────────────────────────────────────────────────


@each_way
@each_api
@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (404, "not_found_error"), (429, "insufficient_quota")]
)
def test_a_refusal_says_who_answered_what(api: API, stream: bool, status: int, kind: str) -> None:
    with (
        ProviderServer([Fault(status=status, kind=kind, text="that will not do")]) as server,
        pytest.raises(ModelRefused) as caught,
    ):
        asked(model_at(server, api, stream=stream))
    assert str(caught.value) == f"{NAMES[api]} answered {status}: that will not do"


@each_api
def test_no_key_is_ever_recorded(api: API) -> None:
    """Providers quote the key that they refuse, whole or in part."""

    async def scenario() -> None:
        agent = fp.Agent("a", model=model_at(server, api))
        async with fp.connect(MemoryJournal(), agents=[agent]) as runtime:
            run = await runtime.start("a", "go")
            state = await run.wait()
            written = repr([one.event for one in await run.history()])
        assert state.failure is not None
        assert state.failure.text == f"{NAMES[api]} answered 401: Incorrect API key provided: [key] and [key]."
        assert KEY not in written
        assert "sk-other" not in written

    with ProviderServer(
        [Fault(status=401, text=f"Incorrect API key provided: {KEY} and sk-other*****wxyz.")]
    ) as server:
        run(scenario)


def test_a_long_refusal_is_cut() -> None:
    with ProviderServer([Fault(status=400, text="no " * 500)]) as server, pytest.raises(ModelRefused) as caught:
        asked(model_at(server, "chat"))
    assert len(str(caught.value)) < 400


# ── finding models ───────────────────────────────────────────────────────────────────────────────────────────────


@each_api
def test_connect_finds_models_by_name(api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with fp.connect(MemoryJournal(), agents=[fp.Agent("a", model=NAMES[api])]) as runtime:
            assert (await (await runtime.start("a", "go")).wait()).output == "found"

    with ProviderServer(["found"]) as server:
        provider = "ANTHROPIC" if api == "messages" else "OPENAI"
        monkeypatch.setenv(f"{provider}_BASE_URL", base_url(server, api))
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)
        run(scenario)


@pytest.mark.parametrize("name", ["openai:gpt-5", "nobody:knows"])
def test_a_provider_that_is_not_set_up_is_told_and_nothing_is_sent(name: str) -> None:
    with pytest.raises(ModelNotSetUp, match=r"OPENAI_API_KEY|nobody"):
        asked(ProviderModel(name))


def test_a_name_without_a_provider_is_no_way_to_a_model() -> None:
    async def scenario() -> None:
        async with fp.connect(MemoryJournal(), agents=[fp.Agent("a", model="gpt-5")]) as runtime:
            with pytest.raises(ModelNoProvider):
                await (await runtime.start("a", "go")).wait()

    run(scenario)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with fp.connect(MemoryJournal(), agents=[fp.Agent("a", model="openai:gpt-5")]) as runtime:
            with pytest.raises(AdapterMissing, match=r"pip install 'forkpoint\[models\]'"):
                await (await runtime.start("a", "go")).wait()

    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    run(scenario)
    with pytest.raises(AdapterMissing):
        ProviderModel("openai:gpt-5")


def test_a_provider_whose_client_is_not_installed_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "groq", None)
    with pytest.raises(AdapterMissing, match=r"pip install 'pydantic-ai-slim\[groq\]'"):
        asked(ProviderModel("groq:llama", api_key=KEY))


def test_the_core_imports_no_client() -> None:
    script = (
        "import sys, forkpoint\n"
        "from forkpoint.adapters.provider_models import ProviderModel\n"
        "forkpoint.connect('memory:', agents=[forkpoint.Agent('a', model='openai:gpt-5')])\n"
        "ProviderModel('openai:gpt-5')\n"
        "sys.exit(str(sorted({'pydantic_ai', 'openai', 'anthropic', 'httpx', 'httpx2'} & set(sys.modules))))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def test_a_model_can_be_asked_again_after_it_was_closed_and_on_another_event_loop() -> None:
    with ProviderServer(["one", "two", "three"]) as server:
        model = model_at(server, "chat")

        async def twice() -> list[str]:
            request = ModelRequest(model=model.name, instructions="", messages=[user("hi")])
            answers = [await model.respond(request, _nothing)]
            await model.close()
            answers.append(await model.respond(request, _nothing))
            await model.close()
            return [one.message.text for one in answers]

        assert asyncio.run(twice()) == ["one", "two"]
        assert asked(model)[-1].message.text == "three"


def test_closing_a_model_cuts_nobody_off() -> None:
    async def scenario() -> None:
        model = model_at(server, "chat")
        request = ModelRequest(model=model.name, instructions="", messages=[user("hi")])
        came = asyncio.Event()
        asking = asyncio.get_running_loop().create_task(model.respond(request, lambda _: came.set()))
        await came.wait()
        await model.close()
        server.release()
        assert (await asking).message.text == "one two three four"

    with ProviderServer([Answer(message=_spoken("one two three four"), stops_after=2, then="stall")]) as server:
        run(scenario)


def test_a_model_of_ones_own_making_is_asked_without_repeats_of_its_own() -> None:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    with ProviderServer([Fault(status=500), "fine"]) as server:
        own = OpenAIChatModel("local", provider=OpenAIProvider(base_url=server.openai_url, api_key=KEY))
        model = ProviderModel("home:local", model=own)
        with pytest.raises(ModelUnavailable, match="home:local answered 500"):
            asked(model)
        assert asked(model)[-1].message.text == "fine"


def _nothing(piece: ModelProgress) -> None:
    """A watcher that does not look."""


# ── the server itself ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_script_that_fails_is_told_to_whoever_asked() -> None:
    def script(asked: Asked) -> Told:
        raise LookupError("nothing for request 1")

    with ProviderServer(script) as server, pytest.raises(ModelRefused, match="LookupError: nothing for request 1"):
        asked(model_at(server, "chat"))


def test_a_list_of_replies_that_is_used_up_says_so() -> None:
    with ProviderServer(["one"]) as server:
        asked(model_at(server, "responses"))
        with pytest.raises(ModelRefused, match="the script has 1 replies; this is request 2"):
            asked(model_at(server, "responses"))


def test_a_whole_response_may_be_scripted() -> None:
    told = ModelResponse(message=calls(call("look", path="x")), usage=USAGE)
    with ProviderServer([told]) as server:
        response = asked(model_at(server, "messages"))[-1]
    assert [one.arguments for one in response.message.calls] == [{"path": "x"}]
    assert response.usage == USAGE


def test_requests_are_kept_in_order_with_their_numbers() -> None:
    counted: Iterator[int] = itertools.count(1)
    with ProviderServer(lambda asked: f"{asked.number}") as server:
        for number in itertools.islice(counted, 3):
            assert asked(model_at(server, "chat"))[-1].message.text == str(number)
        assert [one.number for one in server.requests] == [1, 2, 3]
