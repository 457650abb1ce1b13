"""Streams of the providers' own clients in recorded functions: live as they come, never half an answer on record."""

import asyncio
import threading
from typing import Any

import pytest
from tests.adapters.plain_stage import (
    Speaker,
    driven,
    each,
    each_api,
    each_kind,
    function_of,
    maybe,
    quiet,
    run,
    text_of,
    wrapped_for,
)

import forkpoint as fp
from forkpoint.errors.plain_clients import StreamLeftOff
from forkpoint.events import EffectDispatched, EffectSettled
from forkpoint.messages import assistant
from forkpoint.outcomes import Cancelled, Failed, Succeeded
from forkpoint.runtime.progress import Progress
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import API, Answer, Asked, Fault, ProviderServer

TEXT = "One two three four five six seven eight nine ten."


def speaker_for(api: API, client: Any) -> Speaker:
    speaker = Speaker(api, client)
    speaker.told("count")
    return speaker


async def outcomes(runtime: fp.Runtime, run_id: str) -> list[Any]:
    history = await (await runtime.open(run_id)).history()
    return [one.event.outcome for one in history if isinstance(one.event, EffectSettled)]


async def before_the_end(runtime: fp.Runtime, run_id: str) -> fp.Run:
    """A fork in which everything is on record but that the function returned, so that it is called again."""
    handle = await runtime.open(run_id)
    last = max(one.seq for one in await handle.history() if isinstance(one.event, EffectSettled))
    return await handle.fork(at=last)


@each_kind
@each_api
def test_chunks_reach_the_code_while_the_provider_still_speaks(api: API, is_async: bool) -> None:
    """The provider holds back the rest until the code has seen the beginning."""

    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)

        async def body(number: str) -> str:
            text = ""
            async for event in each(await speaker_for(api, client).stream()):
                text += text_of(api, event)
                if text:
                    server.release()
            return text

        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", function_of(body, is_async=is_async), "17") == TEXT
            (outcome,) = await outcomes(runtime, "r")
            assert (outcome.message.text, outcome.message.finish_reason) == (TEXT, "stop")

    stalls = Answer(message=assistant(TEXT), stops_after=6, then="stall")
    with ProviderServer([stalls]) as server:
        run(scenario)


@each_kind
@each_api
def test_whoever_watches_is_told_the_pieces_as_they_come(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        loop, begun = asyncio.get_running_loop(), asyncio.Event()
        seen: list[str] = []

        async def body(number: str) -> int:
            loop.call_soon_threadsafe(begun.set)
            return len([event async for event in each(await speaker_for(api, client).stream())])

        async def watch(handle: fp.Run) -> None:
            async for notice in handle.watch(after=0):
                if isinstance(notice, Progress):
                    seen.append(notice.text)
                    server.release()
                elif isinstance(notice.event, EffectSettled):
                    return

        async with fp.connect(MemoryJournal()) as runtime:
            recording = asyncio.create_task(runtime.record("r", function_of(body, is_async=is_async), "17"))
            await begun.wait()
            await asyncio.gather(watch(await runtime.open("r")), recording)
        assert "".join(seen) == TEXT
        assert len(seen) > 3

    stalls = Answer(message=assistant(TEXT), stops_after=6, then="stall")
    with ProviderServer([stalls]) as server:
        run(scenario)


@each_kind
@each_api
def test_on_replay_a_stream_has_the_same_words_in_the_same_pieces(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        seen: list[list[str]] = []

        async def body(number: str) -> None:
            events = [event async for event in each(await speaker_for(api, client).stream())]
            seen.append([text for text in (text_of(api, event) for event in events) if text])

        async with fp.connect(MemoryJournal()) as runtime:
            function = function_of(body, is_async=is_async)
            await runtime.record("r", function, "17")
            child = await before_the_end(runtime, "r")
            with quiet(server):
                await runtime.record(child.id, function)
        live, again = seen
        assert live == again
        assert "".join(live) == TEXT

    with ProviderServer([TEXT]) as server:
        run(scenario)


@each_api
def test_what_was_asked_as_a_stream_answers_code_that_asks_in_one_piece_and_the_other_way_round(api: API) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)
        forms = iter(["streamed", "whole", "whole", "streamed"])

        async def body(number: str) -> str:
            speaker = Speaker(api, client, next(forms))
            speaker.told("count")
            said = await speaker.ask()
            return said.text + str(said.calls)

        async with fp.connect(MemoryJournal()) as runtime:
            for run_id in ("a", "b"):
                first = await runtime.record(run_id, body, "17")
                child = await before_the_end(runtime, run_id)
                with quiet(server):
                    assert await runtime.record(child.id, body) == first

    with ProviderServer(lambda asked: calls(call("look", id="c1", path='a "b"'), text="Let me.")) as server:
        run(scenario)


# ── left before the end ──────────────────────────────────────────────────────────────────────────────────────────


def first_words(api: API, client: Any, after: int, *, closes: bool, reads_on: bool = False) -> Any:
    """A body that stops reading after ``after`` pieces of text."""

    async def body(number: str) -> str:
        stream = await speaker_for(api, client).stream()
        text, pieces = "", 0
        while pieces < after:
            event = await maybe(stream.__anext__() if hasattr(stream, "__anext__") else next(stream))
            text += text_of(api, event)
            pieces += bool(text_of(api, event))
        if reads_on:
            return text + "".join([text_of(api, event) async for event in each(stream)])
        if closes:
            await maybe(stream.close())
        return text

    return body


@each_kind
@each_api
def test_a_stream_that_the_code_leaves_is_on_record_as_far_as_it_was_read_and_as_no_finished_answer(
    api: API, is_async: bool
) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        function = function_of(first_words(api, client, 2, closes=True), is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", function, "17") == TEXT[:16]
            (outcome,) = await outcomes(runtime, "r")
            assert (outcome.message.text, outcome.message.finish_reason) == (TEXT[:16], "error")
            child = await before_the_end(runtime, "r")
            with quiet(server):
                assert await runtime.record(child.id, function) == TEXT[:16]

    stalls = Answer(message=assistant(TEXT), stops_after=8, then="stall")
    with ProviderServer([stalls]) as server:
        run(scenario)


@each_kind
@each_api
def test_code_that_reads_on_where_the_record_of_a_stream_ends_is_told_so(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        function = function_of(first_words(api, client, 2, closes=True), is_async=is_async)
        reads_on = function_of(first_words(api, client, 2, closes=True, reads_on=True), is_async=is_async)

        async def whole(number: str) -> str:
            return (await speaker_for(api, client).ask()).text

        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", function, "17")
            for other in (reads_on, function_of(whole, is_async=is_async)):
                child = await before_the_end(runtime, "r")
                with quiet(server), pytest.raises(StreamLeftOff):
                    await runtime.record(child.id, other)

    stalls = Answer(message=assistant(TEXT), stops_after=8, then="stall")
    with ProviderServer([stalls]) as server:
        run(scenario)


@each_kind
@each_api
def test_code_that_stops_reading_without_closing_gets_the_same_words_again(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        function = function_of(first_words(api, client, 2, closes=False), is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            first = await runtime.record("r", function, "17")
            child = await before_the_end(runtime, "r")
            with quiet(server):
                assert await runtime.record(child.id, function) == first == TEXT[:16]

    with ProviderServer([TEXT]) as server:
        run(scenario)


# ── cut off ──────────────────────────────────────────────────────────────────────────────────────────────────────


def counting(api: API, client: Any, tell: list[Any], *, catches: bool) -> Any:
    """A body that reads to the end, and may go on with what it has where that does not come."""

    async def body(number: str) -> str:
        text = ""
        try:
            async for event in each(await speaker_for(api, client).stream()):
                text += text_of(api, event)
        except Exception as error:
            tell.append((type(error).__mro__[1:], str(error)))
            if not catches:
                raise
        return text

    return body


@each_kind
@each_api
@pytest.mark.parametrize("then", ["cut", "end", "error"])
def test_a_stream_that_is_cut_after_the_code_has_seen_some_is_not_asked_for_again_behind_its_back(
    api: API, is_async: bool, then: Any
) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        told: list[Any] = []
        function = function_of(counting(api, client, told, catches=True), is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            text = await runtime.record("r", function, "17")
            assert TEXT.startswith(text)
            assert len(text) == 16
            assert len(server.requests) == 1
            (outcome,) = await outcomes(runtime, "r")
            assert isinstance(outcome, Failed)
            assert outcome.text.endswith(f"\nUntil then it had said: {text}")
            child = await before_the_end(runtime, "r")
            with quiet(server):
                assert await runtime.record(child.id, function) == text
        assert told[0] == told[1]
        assert fp.EffectFailed in told[0][0]
        assert client_error(api) in told[0][0]
        assert text not in told[0][1]

    at = {"chat": 3, "responses": 5, "messages": 4}[api]
    with ProviderServer([Answer(message=assistant(TEXT), stops_after=at, then=then)]) as server:
        run(scenario)


def client_error(api: API) -> type[Exception]:
    import anthropic
    import openai

    return anthropic.APIError if api == "messages" else openai.APIError


@each_api
def test_of_a_long_stream_that_is_cut_the_record_of_the_failure_has_the_beginning(api: API) -> None:
    long = "0123456789" * 500

    async def scenario() -> None:
        client = wrapped_for(api, server)
        function = counting(api, client, [], catches=True)
        async with fp.connect(MemoryJournal()) as runtime:
            live = await runtime.record("r", function, "17")
            assert len(live) > 4000
            child = await before_the_end(runtime, "r")
            with quiet(server):
                assert await runtime.record(child.id, function) == long[:3000]
            (outcome,) = await outcomes(runtime, "r")
            assert f"(the first 3000 of {len(live)} characters)" in outcome.text

    with ProviderServer([Answer(message=assistant(long), stops_after=600)]) as server:
        run(scenario)


@each_kind
@each_api
def test_a_function_that_a_cut_stream_ended_asks_again_when_it_is_called_again(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        told: list[Any] = []
        function = function_of(counting(api, client, told, catches=False), is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            with pytest.raises(client_error(api)):
                await runtime.record("r", function, "17")
            assert await runtime.record("r", function, "17") == TEXT
        assert len(server.requests) == 2

    at = {"chat": 3, "responses": 5, "messages": 4}[api]
    with ProviderServer([Answer(message=assistant(TEXT), stops_after=at), TEXT]) as server:
        run(scenario)


@each_kind
@each_api
def test_a_stream_that_fails_before_anything_came_is_tried_again_on_record(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        function = function_of(counting(api, client, [], catches=False), is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", function, "17") == TEXT
            history = await (await runtime.open("r")).history()
        assert len(server.requests) == 3
        assert sum(isinstance(one.event, EffectDispatched) for one in history) == 3

    refused = Fault(status=503, retry_after=0.01)
    with ProviderServer([refused, Answer(message=assistant(TEXT), stops_after=0), TEXT]) as server:
        run(scenario)


@each_kind
@each_api
def test_what_was_streamed_before_an_interrupt_is_on_record_and_no_answer(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        loop, came = asyncio.get_running_loop(), asyncio.Event()

        async def body(number: str) -> str:
            text = ""
            async for event in each(await speaker_for(api, client).stream()):
                text += text_of(api, event)
                if len(text) >= 16:
                    loop.call_soon_threadsafe(came.set)
            return text

        function = function_of(body, is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            recording = asyncio.create_task(runtime.record("r", function, "17"))
            await came.wait()
            handle = await runtime.open("r")
            await handle.interrupt()
            with pytest.raises(fp.ForkpointError):
                await recording
            (outcome,) = await outcomes(runtime, "r")
            assert isinstance(outcome, Cancelled)
            assert outcome.partial is not None
            assert TEXT.startswith(outcome.partial.text)
            assert len(outcome.partial.text) >= 16
            assert outcome.partial.finish_reason == "error"
            server.release()
            assert await runtime.record("r", function, "17") == TEXT
        assert len(server.requests) == 2

    stalls = Answer(message=assistant(TEXT), stops_after=8, then="stall")
    with ProviderServer([stalls, TEXT]) as server:
        run(scenario)


@each_api
def test_a_stream_of_a_plain_client_is_read_in_an_os_thread_that_copied_the_context(api: API) -> None:
    """As ``asyncio.to_thread`` in an async function does."""

    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=False)

        def read() -> str:
            assert threading.current_thread() is not threading.main_thread()

            async def body() -> str:
                return (await Speaker_asking()).text

            async def Speaker_asking() -> Any:  # noqa: N802
                speaker = Speaker(api, client, "streamed")
                speaker.told("count")
                return await speaker.ask()

            return str(driven(body()))

        async def function(number: str) -> str:
            return await asyncio.to_thread(read)

        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", function, "17") == TEXT
            (outcome,) = await outcomes(runtime, "r")
            assert isinstance(outcome, Succeeded)

    with ProviderServer([TEXT]) as server:
        run(scenario)


@each_api
def test_a_fork_of_a_stream_goes_on_with_another_answer_of_the_model(api: API) -> None:
    """A record answers the code however it is patched: here the model's own message is another one."""

    async def scenario() -> None:
        client = wrapped_for(api, server)

        async def body(number: str) -> str:
            speaker = Speaker(api, client, "streamed")
            speaker.told("count")
            first = await speaker.ask()
            speaker.told("on")
            return f"{first.text} / {(await speaker.ask()).text}"

        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", body, "17") == "said 1 / said 2"
            child = await (await runtime.open("r")).fork(step=1)
            assert await runtime.record(child.id, body) == "said 1 / said 2"

    def script(asked: Asked) -> str:
        return f"said {sum(1 for one in asked.messages if one.role == 'user')}"

    with ProviderServer(script) as server:
        run(scenario)
