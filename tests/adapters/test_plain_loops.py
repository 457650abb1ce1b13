"""Hand-written loops over the providers' own clients: asked exactly, recorded, replayed, forked, compared."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pydantic
import pytest
from tests.adapters.plain_stage import (
    FORMS,
    Speaker,
    client_for,
    each_api,
    each_form,
    each_kind,
    function_of,
    loop,
    maybe,
    quiet,
    run,
    wrap,
    wrapped_for,
)

import forkpoint as fp
from forkpoint.effects import ModelCall, ToolCall
from forkpoint.errors import AdapterMissing, ForkpointError, ReplayDiverged, RunWaits
from forkpoint.errors.plain_clients import ClientUnrecorded
from forkpoint.events import EffectRequested, EffectSettled
from forkpoint.messages import Message, Reasoning, Text, Usage
from forkpoint.outcomes import Succeeded
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import call
from forkpoint.testing.provider_server import API, Answer, Asked, ProviderServer, Told

USAGE = Usage(input_tokens=1000, output_tokens=200, cached_tokens=400, reasoning_tokens=70)
LOOKS = Message(
    role="assistant",
    parts=(
        Reasoning(content="I wonder,\n  <b>ünd</b> \u2028 so", extra={"signature": "c2lnbmVk" * 900}),
        Text(content="I shall look at both. "),
        call("look", id="c1", path="a b.txt"),
        call("look", id="c2", path='ü "quoted"'),
    ),
)


def looking(asked: Asked) -> Told:
    """Thinks, says something and looks twice at once; then says what it saw."""
    if asked.messages[-1].role == "tool":
        said = Message(role="assistant", parts=(Text(content=f"saw {asked.messages[-1].parts[0].response['of']}"),))
        return Answer(message=said, usage=USAGE)
    return Answer(message=LOOKS, usage=USAGE)


class Looks:
    """A tool of either kind that counts what it did."""

    def __init__(self, *, is_async: bool) -> None:
        self.done: list[str] = []
        done = self.done

        if is_async:

            async def look(path: str) -> dict[str, str]:
                """Look at a file."""
                done.append(path)
                return {"of": path}
        else:

            def look(path: str) -> dict[str, str]:  # type: ignore[misc]
                """Look at a file."""
                done.append(path)
                return {"of": path}

        self.tool = fp.tool(read_only=True)(look)


def looker(api: API, client: Any, form: str, tool: Any, objects: list[Any] | None = None, **options: Any) -> Any:
    """A function's body: the loop, with the tool; the client's objects are kept in ``objects``."""

    async def body(number: str) -> str:
        speaker = Speaker(api, client, form, **options)
        speaker.instructions = "Be brief."
        speaker.tools(tool)
        speaker.told(f"Look at {number}")
        read = speaker.read

        def kept(whole: Any) -> Any:
            if objects is not None:
                objects.append(whole)
            return read(whole)

        speaker.read = kept  # type: ignore[method-assign]
        return await loop(speaker, {"look": tool})

    return body


@each_form
@each_kind
@each_api
def test_a_loop_asks_exactly_what_the_plain_client_asks_and_gets_the_clients_own_objects(
    api: API, is_async: bool, form: str
) -> None:
    async def scenario() -> None:
        looks, plain, live, again = Looks(is_async=is_async), [], [], []
        await maybe(_called(api, client_for(api, server, is_async=is_async), form, looks.tool, plain, is_async))
        there = len(server.requests)
        client = wrapped_for(api, server, is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            function = function_of(looker(api, client, form, looks.tool, live), is_async=is_async)
            assert await runtime.record("r", function, "17") == 'saw ü "quoted"'
            ours, theirs = server.requests[there:], server.requests[:there]
            assert without_ids([one.body for one in ours]) == without_ids([one.body for one in theirs])
            child = await before_the_end(runtime, "r")
            function = function_of(looker(api, client, form, looks.tool, again), is_async=is_async)
            await runtime.record(child.id, function)
        assert len(server.requests) == 2 * there
        for one, recorded, replayed in zip(plain, live, again, strict=True):
            assert type(recorded) is type(one) is type(replayed)
            assert replayed.to_dict(mode="json", warnings=False) == recorded.to_dict(mode="json", warnings=False)
            assert without_ids(recorded.to_dict(mode="json", warnings=False)) == without_ids(
                one.to_dict(mode="json", warnings=False)
            )

    with ProviderServer(looking) as server:
        run(scenario)


def _called(api: API, client: Any, form: str, tool: Any, objects: list[Any], is_async: bool) -> Any:
    return function_of(looker(api, client, form, tool, objects), is_async=is_async)("17")


async def before_the_end(runtime: fp.Runtime, run_id: str) -> fp.Run:
    """A fork in which everything is on record but that the function returned, so that it is called again."""
    handle = await runtime.open(run_id)
    last = max(one.seq for one in await handle.history() if isinstance(one.event, EffectSettled))
    return await handle.fork(at=last)


def without_ids(told: Any) -> Any:
    """Plain data without the ids that the scripted provider makes of the number of a request."""
    return json.loads(re.sub(r'"(chatcmpl-|resp_|msg_|rs_|fc_)[0-9_]*"', '"id"', json.dumps(told)))


@each_kind
@each_api
def test_outside_of_a_recorded_function_a_wrapped_client_is_the_plain_client(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        plain = client_for(api, server, is_async=is_async)
        client = wrap(plain)
        assert isinstance(client, type(plain))
        assert (type(client).__name__, client.max_retries) == (type(plain).__name__, plain.max_retries)
        for one in (plain, client):
            speaker = Speaker(api, one)
            speaker.told("hi")
            assert (await speaker.ask()).text == "hello"
        first, second = server.requests
        assert first.body == second.body
        assert first.headers == second.headers

    with ProviderServer(["hello", "hello"]) as server:
        run(scenario)


@each_kind
@each_api
def test_a_finished_run_is_given_from_the_record_with_the_provider_gone(
    api: API, is_async: bool, tmp_path: Any
) -> None:
    async def scenario() -> None:
        looks = Looks(is_async=is_async)
        with ProviderServer(looking) as server:
            client = wrapped_for(api, server, is_async=is_async)
            function = function_of(looker(api, client, "whole", looks.tool), is_async=is_async)
            async with fp.connect(tmp_path / "runs.db") as runtime:
                first = await runtime.record("r", function, "17")
        async with fp.connect(tmp_path / "runs.db") as runtime:
            assert await runtime.record("r", function, "17") == first
        assert len(looks.done) == 2

    run(scenario)


@each_api
def test_usage_reasoning_and_what_was_asked_are_on_record(api: API) -> None:
    async def scenario() -> None:
        looks = Looks(is_async=True)
        client = wrapped_for(api, server)
        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", looker(api, client, "whole", looks.tool, service_tier="auto"), "17")
            handle = await runtime.open("r")
            state, request = await handle.state(), await handle.request(2)
        assert state.spent.usage == USAGE.plus(USAGE)
        assert (request.model, request.instructions) == ("m-1", "Be brief.")
        assert request.settings["service_tier"] == "auto"
        assert [tool.name for tool in request.tools] == ["look"]
        assert request.tools[0].description == "Look at a file."
        assert [message.role for message in request.messages] == ["user", "assistant", "tool", "tool"]
        thought = request.messages[1].parts[0]
        assert isinstance(thought, Reasoning)
        assert thought.content == LOOKS.parts[0].content
        if api != "chat":  # Chat Completions has no signatures
            assert LOOKS.parts[0].extra["signature"] in json.dumps(thought.extra)

    with ProviderServer(looking) as server:
        run(scenario)


@each_form
@each_api
def test_a_step_adds_to_the_record_only_what_is_new(api: API, form: str) -> None:
    """Twenty steps: each request is told by the answers before it, which are on record, and no message twice."""

    async def scenario() -> None:
        looks = Looks(is_async=True)
        client = wrapped_for(api, server)
        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", looker(api, client, form, looks.tool), "17")
            history = await (await runtime.open("r")).history()
        asked = [one.event.effect for one in history if isinstance(one.event, EffectRequested)]
        calls = [one for one in asked if isinstance(one, ModelCall)]
        assert len(calls) == 21
        assert all(one.since is not None and one.keep is None for one in calls[1:])
        assert all(len(one.add) == 1 and isinstance(one.add[0], int) for one in calls[1:])
        assert all(one.message and one.arguments is None for one in asked if isinstance(one, ToolCall))

    def script(asked: Asked) -> Told:
        turn = sum(1 for one in asked.messages if one.role == "assistant")
        return (
            Message(role="assistant", parts=(call("look", id=f"c{turn}", path=f"{turn}.txt"),)) if turn < 20 else "done"
        )

    with ProviderServer(script) as server:
        run(scenario)


@each_api
def test_a_message_that_is_changed_in_place_is_another_request(api: API) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)

        async def ask(number: str) -> list[str]:
            speaker = Speaker(api, client)
            message = {"role": "user", "content": "one"}
            speaker.messages = [message]
            first = (await speaker.ask()).text
            message["content"] = "two"
            return [first, (await speaker.ask()).text]

        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", ask, "17") == ["one", "two"]
            handle = await runtime.open("r")
            assert [(await handle.request(step)).messages[0].text for step in (1, 2)] == ["one", "two"]

    with ProviderServer(lambda asked: asked.messages[0].text) as server:
        run(scenario)


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────


@each_api
def test_a_fork_with_another_result_goes_on_from_there_and_is_compared(api: API) -> None:
    async def scenario() -> None:
        looks = Looks(is_async=True)
        client = wrapped_for(api, server)
        function = looker(api, client, "whole", looks.tool)
        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", function, "17")
            parent = await runtime.open("r")
            child = await parent.fork(step=1, patch=fp.Patch(tool_results={"c2": {"of": "nothing"}}))
            before = len(server.requests)
            assert await runtime.record(child.id, function) == "saw nothing"
            assert len(server.requests) == before + 1
            assert len(looks.done) == 2
            assert [one.parts[0].response for one in server.requests[-1].messages[-2:]] == [
                {"of": "a b.txt"},
                {"of": "nothing"},
            ]
            comparison = await runtime.compare(parent, child)
        assert comparison.diverged_at == 1
        assert any(entry.field == "result" or "result" in str(entry) for entry in comparison.drift)

    with ProviderServer(looking) as server:
        run(scenario)


@fp.tool(read_only=True)
def peek(path: str) -> dict[str, str]:
    """Peek at a file."""
    return {"of": path}


@each_form
@each_api
def test_a_fork_asks_another_model_under_other_instructions_settings_and_tools(api: API, form: str) -> None:
    async def scenario() -> None:
        looks = Looks(is_async=True)
        client = wrapped_for(api, server)
        function = looker(api, client, form, looks.tool, service_tier="auto", extra_body={"odd": 1})
        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", function, "17")
            patch = fp.Patch(
                model="m-2", instructions="Be long.", settings={"service_tier": "flex", **more}, tools=[peek]
            )
            child = await (await runtime.open("r")).fork(step=1, patch=patch)
            await runtime.record(child.id, function)
            request = await child.request(2)
        before, after = server.requests[1], server.requests[-1]
        assert (after.model, after.instructions, after.tools) == ("m-2", "Be long.", ("peek",))
        assert (before.body["service_tier"], before.body["odd"]) == ("auto", 1)
        assert after.body["service_tier"] == "flex"
        assert "odd" not in after.body
        assert after.messages == before.messages
        assert after.stream == before.stream == (form != "whole")
        assert (request.model, request.instructions) == ("m-2", "Be long.")

    more = {"max_tokens": 7} if api == "messages" else {}
    with ProviderServer(looking) as server:
        run(scenario)


@each_api
def test_a_fork_that_changes_one_thing_leaves_every_other_option_as_it_was(api: API) -> None:
    async def scenario() -> None:
        looks = Looks(is_async=True)
        client = wrapped_for(api, server)
        odd = {"extra_body": {"never_heard_of": {"b": [1.0, None], "a": "ü"}}}
        function = looker(api, client, "whole", looks.tool, service_tier="auto", **odd)
        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", function, "17")
            child = await (await runtime.open("r")).fork(step=1, patch=fp.Patch(model="m-2"))
            await runtime.record(child.id, function)
            request = await child.request(2)
        before, after = server.requests[1], server.requests[-1]
        assert after.body == {**before.body, "model": "m-2"}
        assert request.settings["never_heard_of"] == {"b": [1.0, None], "a": "ü"}

    with ProviderServer(looking) as server:
        run(scenario)


@each_form
@each_api
def test_headers_that_change_what_a_provider_does_are_asked_with_and_others_are_not_on_record(
    api: API, form: str
) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)
        headers = {"openai-beta": "new=1", "anthropic-beta": "new-1", "x-private": "opens-sesame"}

        async def ask(number: str) -> str:
            speaker = Speaker(api, client, form, extra_headers=headers, extra_query={"q": "1"})
            speaker.told(number)
            return (await speaker.ask()).text

        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", ask, "17")
            handle = await runtime.open("r")
            settings = dict((await handle.request(1)).settings)
            assert settings["extra_query"] == {"q": "1"}
            assert settings["extra_headers"] == {"openai-beta": "new=1", "anthropic-beta": "new-1"}
            assert "opens-sesame" not in repr(await handle.history())
            settings |= {"extra_headers": {"anthropic-beta": "new-2"}}
            child = await handle.fork(step=0, patch=fp.Patch(settings=settings))
            await runtime.record(child.id, ask)
        first, second = server.requests
        told = [{name: one.headers.get(name) for name in headers} for one in (first, second)]
        assert told[0] == headers
        assert told[1] == {"openai-beta": None, "anthropic-beta": "new-2", "x-private": "opens-sesame"}
        assert first.body == second.body

    with ProviderServer(lambda asked: "ok") as server:
        run(scenario)


@each_form
def test_the_request_id_is_on_record(form: str) -> None:
    async def scenario() -> None:
        async def named(response: Any) -> None:
            response.headers["x-request-id"] = "req_9"

        http_client = openai.DefaultAsyncHttpxClient(event_hooks={"response": [named]})
        plain = openai.AsyncOpenAI(base_url=server.openai_url, api_key="k", http_client=http_client)
        client, found = wrap(plain), []

        async def ask(number: str) -> None:
            speaker = Speaker("chat", client, form)
            speaker.told(number)
            if form == "whole":
                found.append((await speaker.ask()).whole._request_id)
            else:
                async with await speaker.stream() as stream:
                    found.append(stream.response.headers.get("x-request-id"))
                    async for _ in stream:
                        pass

        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", ask, "17")
            child = await before_the_end(runtime, "r")
            with quiet(server):
                await runtime.record(child.id, ask)
        assert found == ["req_9", "req_9"]
        await plain.close()

    with ProviderServer(["ok"]) as server:
        run(scenario)


@each_api
def test_a_models_name_in_a_fork_may_name_its_provider(api: API) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)

        async def ask(number: str) -> str:
            speaker = Speaker(api, client)
            speaker.told(number)
            return (await speaker.ask()).text

        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", ask, "17")
            provider = "anthropic" if api == "messages" else "openai"
            child = await (await runtime.open("r")).fork(step=0, patch=fp.Patch(model=f"{provider}:m-2"))
            await runtime.record(child.id, ask)
        assert [one.model for one in server.requests] == ["m-1", "m-2"]

    with ProviderServer(lambda asked: "ok") as server:
        run(scenario)


@each_api
def test_a_fork_calls_the_function_with_other_arguments(api: API) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)

        async def ask(number: str) -> str:
            speaker = Speaker(api, client)
            speaker.told(f"Look at {number}")
            return (await speaker.ask()).text

        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", ask, "17") == "Look at 17"
            child = await (await runtime.open("r")).fork(step=0, patch=fp.Patch(arguments=["18"]))
            assert await runtime.record(child.id, ask) == "Look at 18"

    with ProviderServer(lambda asked: asked.messages[0].text) as server:
        run(scenario)


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("decision", ["approve", "deny"])
@each_kind
@each_api
def test_a_call_that_needs_approval_waits_and_the_loop_goes_on_with_what_was_decided(
    api: API, is_async: bool, decision: str
) -> None:
    async def scenario() -> None:
        done: list[str] = []
        if is_async:

            async def mail(to: str) -> str:
                """Send a mail."""
                done.append(to)
                return "sent"
        else:

            def mail(to: str) -> str:  # type: ignore[misc]
                """Send a mail."""
                done.append(to)
                return "sent"

        tool = fp.tool(approval=True)(mail)
        client = wrapped_for(api, server, is_async=is_async)

        async def body(number: str) -> str:
            speaker = Speaker(api, client)
            speaker.tools(tool)
            speaker.told(number)
            ((call_id, _, given),) = (await speaker.ask()).calls
            try:
                result = await maybe(tool(**given))
            except fp.EffectFailed as failed:
                result = {"error": str(failed)}
            speaker.answer([(call_id, result)])
            return (await speaker.ask()).text

        function = function_of(body, is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            with pytest.raises(RunWaits):
                await runtime.record("r", function, "17")
            assert not done
            handle = await runtime.open("r")
            (wait,) = (await handle.state()).waits
            if decision == "approve":
                await handle.approve(wait.effect)
            else:
                await handle.deny(wait.effect, reason="not on a Sunday")
            with quiet_after(server, 1):
                said = await runtime.record("r", function, "17")
        assert done == (["bo"] if decision == "approve" else [])
        assert ("sent" if decision == "approve" else "not on a Sunday") in said

    def script(asked: Asked) -> Told:
        last = asked.messages[-1]
        if last.role == "tool":
            return json.dumps(last.parts[0].response)
        return Message(role="assistant", parts=(call("mail", id="c1", to="bo"),))

    with ProviderServer(script) as server:
        run(scenario)


@contextmanager
def quiet_after(server: ProviderServer, asks: int) -> Iterator[None]:
    """The provider is asked just so often in here."""
    before = len(server.requests)
    yield
    assert len(server.requests) == before + asks


# ── divergence ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["whole", "streamed"])
@each_api
def test_edited_code_is_told_apart_with_both_sides_and_nothing_is_performed(api: API, form: str) -> None:
    async def scenario() -> None:
        looks = Looks(is_async=True)
        client = wrapped_for(api, server)

        def body(words: str) -> Any:
            async def collect(number: str) -> str:
                speaker = Speaker(api, client, form)
                speaker.told(f"{words} {number}")
                first = await speaker.ask()
                await looks.tool(path=first.text)
                speaker.told("and then?")
                text: str = (await speaker.ask()).text
                if words == "Look at" and len(server.requests) == 2:
                    raise KeyError("the code has a fault")
                return text

            return collect

        async with fp.connect(MemoryJournal()) as runtime:
            with pytest.raises(KeyError):
                await runtime.record("r", body("Look at"), "17")
            with quiet(server, looks.done), pytest.raises(ReplayDiverged) as raised:
                await runtime.record("r", body("Stare at"), "17")
            assert "Stare at 17" in raised.value.asked
            assert "look(" in raised.value.recorded
            assert await runtime.record("r", body("Stare at"), "17", on_divergence="fork") == "said 2"
            assert [row.run for row in (await runtime.runs()).rows] == ["r.fork-1", "r"]

    with ProviderServer(lambda asked: f"said {sum(1 for one in asked.messages if one.role == 'user')}") as server:
        run(scenario)


class Invoice(pydantic.BaseModel):
    """What an answer is to be."""

    number: int
    paid: bool


@each_kind
@each_api
def test_an_answer_that_is_parsed_is_parsed_live_and_on_replay(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=is_async)
        found: list[Any] = []

        async def body(number: str) -> int:
            speaker = Speaker(api, client)
            speaker.told(number)
            wanted = {"chat": "response_format", "responses": "text_format", "messages": "output_format"}[api]
            whole = await maybe(speaker.resource().parse(**speaker.request(), **{wanted: Invoice}))
            parsed = {
                "chat": lambda: whole.choices[0].message.parsed,
                "responses": lambda: whole.output_parsed,
                "messages": lambda: whole.parsed_output,
            }[api]()
            found.append(parsed)
            return int(parsed.number)

        function = function_of(body, is_async=is_async)
        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", function, "17") == 17
            child = await before_the_end(runtime, "r")
            with quiet(server):
                assert await runtime.record(child.id, function) == 17
        assert found == [Invoice(number=17, paid=True)] * 2

    with ProviderServer(['{"number": 17, "paid": true}']) as server:
        run(scenario)


@each_api
def test_a_secret_reaches_the_provider_and_never_the_record(api: API, tmp_path: Any) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)

        async def body(number: str) -> str:
            speaker = Speaker(api, client, "streamed")
            speaker.instructions = "The word is hunter2-swordfish."
            speaker.told("Is it hunter2-swordfish?")
            first = await speaker.ask()
            speaker.told("And now?")
            return first.text + (await speaker.ask()).text

        async with fp.connect(tmp_path / "runs.db", secrets={"word": "hunter2-swordfish"}) as runtime:
            await runtime.record("r", body, "17")
            assert "hunter2-swordfish" not in repr(await (await runtime.open("r")).history())
        assert b"swordfish" not in b"".join(one.read_bytes() for one in tmp_path.glob("runs.db*") if one.is_file())
        assert server.requests[1].messages[1].text == "Yes, hunter2-swordfish it is."
        assert json.dumps(server.requests[1].body).count("hunter2-swordfish") == 3

    with ProviderServer(lambda asked: "Yes, hunter2-swordfish it is.") as server:
        run(scenario)


# ── the client ───────────────────────────────────────────────────────────────────────────────────────────────────


@each_kind
@each_api
def test_copies_of_a_wrapped_client_are_recorded_as_well(api: API, is_async: bool) -> None:
    async def scenario() -> None:
        plain = client_for(api, server, is_async=is_async)
        Speaker(api, plain).resource()  # made before the client is wrapped
        client = wrap(wrap(plain)).with_options(timeout=30)

        async def body(number: str) -> str:
            speaker = Speaker(api, client)
            speaker.told(number)
            return (await speaker.ask()).text

        async with fp.connect(MemoryJournal()) as runtime:
            await runtime.record("r", function_of(body, is_async=is_async), "17")
            assert (await (await runtime.open("r")).state()).step == 1

    with ProviderServer(lambda asked: "ok") as server:
        run(scenario)


def test_a_client_of_azure_is_recorded_under_its_own_paths() -> None:
    async def scenario() -> None:
        async def at_home(request: Any) -> None:
            paths.append(request.url.path)
            request.url = request.url.copy_with(path="/v1/chat/completions")

        paths: list[str] = []
        http_client = openai.DefaultAsyncHttpxClient(event_hooks={"request": [at_home]})
        plain = openai.AsyncAzureOpenAI(
            base_url=server.openai_url, api_key="k", api_version="2026-01-01", http_client=http_client
        )
        client = wrap(plain)
        assert isinstance(client, openai.AsyncAzureOpenAI)

        async def ask() -> str:
            said = await client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "hi"}])
            return str(said.choices[0].message.content)

        async with fp.connect(MemoryJournal()) as runtime:
            assert await runtime.record("r", ask) == "ok"
            assert (await (await runtime.open("r")).state()).step == 1
        assert paths == ["/v1/deployments/m-1/chat/completions"]
        await plain.close()

    with ProviderServer(["ok"]) as server:
        run(scenario)


@pytest.mark.parametrize("way", ["with_raw_response", "with_streaming_response"])
@each_api
def test_a_raw_response_is_refused_where_it_would_not_be_recorded(api: API, way: str) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server)
        speaker = Speaker(api, client)
        speaker.told("hi")

        async def ask() -> None:
            asking = getattr(speaker.resource(), way).create(**speaker.request())
            if hasattr(asking, "__aenter__"):
                async with asking:
                    pass
            else:
                await asking

        async with fp.connect(MemoryJournal()) as runtime:
            with pytest.raises(ClientUnrecorded) as raised:
                await runtime.record("r", ask)
        assert raised.value.code == "client.unrecorded"
        assert not server.requests
        await ask()
        assert len(server.requests) == 1

    with ProviderServer(["ok"]) as server:
        run(scenario)


@each_api
def test_a_plain_client_on_the_event_loop_of_an_async_function_is_refused(api: API) -> None:
    async def scenario() -> None:
        client = wrapped_for(api, server, is_async=False)

        async def ask(form: str) -> None:
            speaker = Speaker(api, client, form)
            speaker.told("hi")
            await speaker.ask()

        async with fp.connect(MemoryJournal()) as runtime:
            for form in FORMS:
                with pytest.raises(ForkpointError) as raised:
                    await runtime.record(form, ask, form)
                assert raised.value.code == "function.blocks"
        assert not server.requests

    with ProviderServer(["ok"]) as server:
        run(scenario)


def test_what_is_no_client_of_theirs_is_refused() -> None:
    from forkpoint.adapters.anthropic import wrap_anthropic
    from forkpoint.adapters.openai import wrap_openai

    for wrapper in (wrap_anthropic, wrap_openai):
        with pytest.raises(ForkpointError):
            wrapper(object())


@pytest.mark.parametrize(("module", "name"), [("openai", "wrap_openai"), ("anthropic", "wrap_anthropic")])
def test_a_missing_library_is_named_with_what_to_install(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib
    import sys

    adapter = importlib.import_module(f"forkpoint.adapters.{module}")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(AdapterMissing) as raised:
        getattr(adapter, name)(object())
    assert f"pip install 'forkpoint[{module}]'" in str(raised.value)


@each_api
def test_several_conversations_at_once_are_each_told_apart(api: API) -> None:
    import asyncio

    async def scenario() -> None:
        client = wrapped_for(api, server)

        async def one(number: str) -> str:
            speaker = Speaker(api, client)
            speaker.told(number)
            await speaker.ask()
            speaker.told("again")
            return (await speaker.ask()).text

        async def several(numbers: list[str]) -> list[str]:
            return list(await asyncio.gather(*(one(number) for number in numbers)))

        async with fp.connect(MemoryJournal()) as runtime:
            numbers = [str(number) for number in range(6)]
            assert await runtime.record("r", several, numbers) == [f"{number} again" for number in numbers]
            history = await (await runtime.open("r")).history()
        settled = [one.event.outcome for one in history if isinstance(one.event, EffectSettled)]
        assert len(settled) == 12
        assert all(isinstance(one, Succeeded) for one in settled)

    with ProviderServer(lambda asked: " ".join(one.text for one in asked.messages if one.role == "user")) as server:
        run(scenario)
