"""Providers that fail, asked by recorded functions: every attempt on record, one way to catch what is left."""

from typing import Any

import anthropic
import openai
import pytest
from tests.adapters.plain_stage import (
    KEY,
    Speaker,
    each_api,
    each_kind,
    function_of,
    quiet,
    run,
    wrapped_for,
)

import forkpoint as fp
from forkpoint.effects import StepCall
from forkpoint.events import EffectDispatched, EffectRequested, EffectSettled
from forkpoint.outcomes import Failed
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.provider_server import API, Fault, ProviderServer

LIBRARIES: dict[API, Any] = {"chat": openai, "responses": openai, "messages": anthropic}


def told(error: BaseException) -> tuple[Any, ...]:
    """Everything by which code may tell an error from another."""
    names = ("status_code", "message", "body", "code", "type", "param", "request_id", "error", "effect")
    return (type(error), str(error), *(getattr(error, name, None) for name in names))


def asking(api: API, client: Any, caught: list[Any], form: str = "whole") -> Any:
    """A body that asks once and goes on with what was said, or with what went wrong."""

    async def body(number: str) -> str:
        speaker = Speaker(api, client, form)
        speaker.told("hi")
        try:
            return (await speaker.ask()).text
        except Exception as error:
            caught.append(error)
            return f"could not: {error}"

    return body


async def twice(
    api: API, client: Any, *, is_async: bool, form: str = "whole", server: ProviderServer
) -> tuple[Any, Any]:
    """What the code caught live, and what it catches on replay; and the run's history."""
    caught: list[Any] = []
    function = function_of(asking(api, client, caught, form), is_async=is_async)
    async with fp.connect(MemoryJournal()) as runtime:
        first = await runtime.record("r", function, "17")
        handle = await runtime.open("r")
        history = await handle.history()
        last = max(one.seq for one in history if isinstance(one.event, EffectSettled))
        child = await handle.fork(at=last)
        with quiet(server):
            assert await runtime.record(child.id, function) == first
    live, again = caught
    assert told(live) == told(again)
    assert isinstance(live, fp.EffectFailed)
    return live, history


@pytest.mark.parametrize("form", ["whole", "streamed", "helper"])
@each_kind
@each_api
def test_a_final_refusal_is_the_clients_own_exception_live_and_on_replay(api: API, is_async: bool, form: str) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        live, history = await twice(api, client, is_async=is_async, form=form, server=server)
        assert isinstance(live, LIBRARIES[api].BadRequestError)
        assert (live.status_code, live.error) == (400, "BadRequestError")
        assert "the context is too long" in live.message
        assert live.body["message"] == "the context is too long"
        if api != "messages":
            assert (live.code, live.type) == ("context_length_exceeded", "context_length_exceeded")
        assert len(server.requests) == 1
        (outcome,) = [one.event.outcome for one in history if isinstance(one.event, EffectSettled)]
        assert outcome.error == "BadRequestError"

    fault = Fault(status=400, kind="context_length_exceeded", text="the context is too long")
    with ProviderServer([fault]) as server:
        run(scenario)


@each_kind
@each_api
def test_what_may_pass_is_tried_as_often_as_the_client_would_and_every_attempt_is_on_record(
    api: API, is_async: bool
) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async, max_retries=1)
        live, history = await twice(api, client, is_async=is_async, server=server)
        assert isinstance(live, LIBRARIES[api].RateLimitError)
        assert (live.status_code, live.body["message"]) == (429, "too many requests")
        assert len(server.requests) == 2
        assert sum(isinstance(one.event, EffectDispatched) for one in history) == 2
        settled = [one.event for one in history if isinstance(one.event, EffectSettled)]
        assert all(isinstance(one.outcome, Failed) and one.outcome.error == "RateLimitError" for one in settled)
        assert settled[0].then != "final"

    fault = Fault(status=429, kind="rate_limit_error", text="too many requests", retry_after=0.01)
    with ProviderServer(lambda asked: fault) as server:
        run(scenario)


@each_kind
@each_api
def test_a_provider_that_recovers_is_asked_again_and_answers(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        caught: list[Any] = []
        function = function_of(asking(api, client, caught), is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", function, "17") == "hello"
        assert not caught
        assert len(server.requests) == 3

    broken = Fault(status=200, body='{"id": "half', retry_after=0.01)
    with ProviderServer([Fault(status=500, retry_after=0.01), broken, "hello"]) as server:
        run(scenario)


@each_kind
@each_api
def test_a_provider_that_nobody_reaches_is_a_connection_error_of_the_client(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        with ProviderServer([]) as server:
            client = wrapped_for(api, server, is_async=is_async, max_retries=0)
        live, _ = await twice(api, client, is_async=is_async, server=server)
        assert isinstance(live, LIBRARIES[api].APIConnectionError)
        assert not hasattr(live, "status_code")

    run(scenario)


@each_kind
@each_api
def test_a_provider_that_is_silent_too_long_is_a_timeout_of_the_client(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async, max_retries=0, timeout=0.05)
        live, _ = await twice(api, client, is_async=is_async, server=server)
        assert isinstance(live, LIBRARIES[api].APITimeoutError)

    with ProviderServer(lambda asked: Fault(stall=True)) as server:
        run(scenario)


@each_api
def test_no_key_is_on_record_where_a_provider_repeats_it(api: API) -> None:
    async def scenario() -> None:
        live, history = await twice(api, wrapped_for(api, server), is_async=True, server=server)
        assert isinstance(live, LIBRARIES[api].AuthenticationError)
        assert "[key]" in live.message
        assert KEY not in repr(history) + str(live)

    with ProviderServer(
        [Fault(status=401, kind="invalid_api_key", text=f"Incorrect API key provided: {KEY}")]
    ) as server:
        run(scenario)


@each_api
def test_a_fault_of_the_callers_own_comes_through_as_it_is(api: API) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)

        async def wrong(number: str) -> None:
            await Speaker(api, client).resource().create(nonsense=True)

        async with fp.connect(MemoryJournal()) as runtime:
            with pytest.raises(TypeError):
                await runtime.record("r", wrong, "17")
        assert not server.requests

    with ProviderServer([]) as server:
        run(scenario)


# ── what is no model call ────────────────────────────────────────────────────────────────────────────────────────


@each_kind
def test_embeddings_are_steps_that_only_read(is_async: bool) -> None:
    import http.server
    import json
    import threading

    from tests.adapters.plain_stage import maybe, wrap

    asked: list[Any] = []

    class Embeds(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            held = {"object": "embedding", "index": 0, "embedding": [0.25, -1.0]}
            told = {"object": "list", "data": [held], "model": "e-1", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Request-Id", "req_1")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Embeds)
    serving = threading.Thread(target=server.serve_forever, args=(0.02,))
    serving.start()

    async def scenario() -> None:
        kind: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
        plain = kind(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", api_key="k")
        client, found = wrap(plain), []

        async def body(number: str) -> list[float]:
            made = await maybe(client.embeddings.create(model="e-1", input=number))
            found.append((type(made), made.to_dict(), made._request_id))
            return list(made.data[0].embedding)

        function = function_of(body, is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", function, "17") == [0.25, -1.0]
            handle = await runtime.open("r")
            history = await handle.history()
            child = await handle.fork(at=max(one.seq for one in history if isinstance(one.event, EffectSettled)))
            assert await runtime.record(child.id, function) == [0.25, -1.0]
        (effect,) = [one.event.effect for one in history if isinstance(one.event, EffectRequested)]
        assert isinstance(effect, StepCall)
        assert (effect.name, effect.recovery) == ("openai /embeddings", fp.Recovery.REPEAT)
        assert found[0] == found[1]
        assert found[0][2] == "req_1"
        assert len(asked) == 1
        await maybe(plain.close())

    try:
        run(scenario)
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
