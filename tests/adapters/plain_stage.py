"""The three APIs, through both clients of each and in every form, so that one loop can be all of them."""

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai
import pytest
from msgspec import Struct

import forkpoint as fp
from forkpoint.adapters.anthropic import message_tool, wrap_anthropic
from forkpoint.adapters.openai import chat_tool, responses_tool, wrap_openai
from forkpoint.testing.provider_server import API, ProviderServer

APIS: tuple[API, ...] = ("chat", "responses", "messages")
FORMS = ("whole", "streamed", "helper")
KEY = "hunter2-very-secret-0123456789"

each_api = pytest.mark.parametrize("api", APIS)
each_kind = pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
each_form = pytest.mark.parametrize("form", FORMS)

Loop = Callable[..., Any]


class Said(Struct, frozen=True):
    """What a model said: its text, its calls as (id, name, arguments), and the client's own object."""

    text: str
    calls: list[tuple[str, str, dict[str, Any]]]
    whole: Any


def client_for(api: API, server: ProviderServer, *, is_async: bool = True, **options: Any) -> Any:
    """The provider's own client."""
    if api == "messages":
        kind: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
        client = kind(base_url=server.url, api_key=KEY, **options)
    else:
        kind = openai.AsyncOpenAI if is_async else openai.OpenAI
        client = kind(base_url=server.openai_url, api_key=KEY, **options)
    _open.append(client)
    return client


_open: list[Any] = []
"""Clients whose connections are closed at the end of a scenario."""


def wrap(client: Any) -> Any:
    """The client as one that is recorded."""
    return wrap_anthropic(client) if hasattr(client, "messages") else wrap_openai(client)


def wrapped_for(api: API, server: ProviderServer, **options: Any) -> Any:
    """The same for a new client."""
    return wrap(client_for(api, server, **options))


async def maybe(value: Any) -> Any:
    """``value``, awaited if it is to be."""
    return await value if inspect.isawaitable(value) else value


def driven(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that never waits comes to, so that the loop of a plain function is the same code."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a plain function would have waited")


async def each(stream: Any) -> Any:
    """The elements of a stream of either kind."""
    if hasattr(stream, "__aiter__"):
        async for one in stream:
            yield one
    else:
        for one in stream:
            yield one


class Speaker:
    """One conversation with one API, in its own words."""

    def __init__(self, api: API, client: Any, form: str = "whole", **options: Any) -> None:
        self.api, self.client, self.form = api, client, form
        self.messages: list[Any] = []
        self.options: dict[str, Any] = {"model": "m-1", **options}
        if api == "messages":
            self.options.setdefault("max_tokens", 100)
        self.instructions: str | None = None

    def told(self, text: str) -> None:
        """A person says something."""
        self.messages.append({"role": "user", "content": text})

    def tools(self, *tools: fp.Tool[..., Any]) -> None:
        """The model may call these."""
        make = {"chat": chat_tool, "responses": responses_tool, "messages": message_tool}[self.api]
        self.options["tools"] = [make(tool) for tool in tools]
        if self.api == "chat" and self.form == "helper":
            for tool in self.options["tools"]:
                tool["function"]["strict"] = True  # older clients parse no others

    def request(self) -> dict[str, Any]:
        """What the client is asked with."""
        match self.api:
            case "chat":
                head = [{"role": "system", "content": self.instructions}] if self.instructions else []
                return {**self.options, "messages": [*head, *self.messages]}
            case "responses":
                more = {"instructions": self.instructions} if self.instructions else {}
                return {**self.options, **more, "input": self.messages}
            case _:
                more = {"system": self.instructions} if self.instructions else {}
                return {**self.options, **more, "messages": self.messages}

    async def ask(self) -> Said:
        """What the model says next; it stands in the conversation from then on."""
        said = self.read(await self._asked())
        match self.api:
            case "chat":
                self.messages.append(said.whole.choices[0].message)
            case "responses":
                self.messages += said.whole.output
            case _:
                self.messages.append({"role": "assistant", "content": said.whole.content})
        return said

    def resource(self) -> Any:
        """Where the client's methods are."""
        match self.api:
            case "chat":
                return self.client.chat.completions
            case "responses":
                return self.client.responses
            case _:
                return self.client.messages

    async def _asked(self) -> Any:
        if self.form == "whole":
            return await maybe(self.resource().create(**self.request()))
        if self.form == "helper":
            return await self._helped()
        events = [event async for event in each(await self.stream())]
        return gathered(self.api, events)

    async def stream(self) -> Any:
        """The stream of the next answer."""
        return await maybe(self.resource().create(**self.request(), stream=True))

    async def _helped(self) -> Any:
        manager = self.resource().stream(**self.request())
        final = {"chat": "get_final_completion", "responses": "get_final_response", "messages": "get_final_message"}
        if hasattr(manager, "__aenter__"):
            async with manager as stream:
                return await getattr(stream, final[self.api])()
        with manager as stream:
            return getattr(stream, final[self.api])()

    def read(self, whole: Any) -> Said:
        """The client's own object as what it says."""
        match self.api:
            case "chat":
                message = whole.choices[0].message
                calls = [
                    (one.id, one.function.name, json.loads(one.function.arguments)) for one in message.tool_calls or ()
                ]
                return Said(message.content or "", calls, whole)
            case "responses":
                asked = [one for one in whole.output if one.type == "function_call"]
                return Said(
                    whole.output_text, [(one.call_id, one.name, json.loads(one.arguments)) for one in asked], whole
                )
            case _:
                text = "".join(block.text for block in whole.content if block.type == "text")
                asked = [block for block in whole.content if block.type == "tool_use"]
                return Said(text, [(one.id, one.name, one.input) for one in asked], whole)

    def answer(self, results: list[tuple[str, Any]]) -> None:
        """The calls' results, by id."""
        match self.api:
            case "chat":
                made = [{"role": "tool", "tool_call_id": call, "content": json.dumps(value)} for call, value in results]
                self.messages += made
            case "responses":
                kind = "function_call_output"
                self.messages += [
                    {"type": kind, "call_id": call, "output": json.dumps(value)} for call, value in results
                ]
            case _:
                content = [
                    {"type": "tool_result", "tool_use_id": call, "content": json.dumps(value)}
                    for call, value in results
                ]
                self.messages.append({"role": "user", "content": content})


def gathered(api: API, events: list[Any]) -> Any:
    """The object that would have come in one piece, as the client's own helpers put it together."""
    match api:
        case "chat":
            from openai.lib.streaming.chat import ChatCompletionStreamState

            state = ChatCompletionStreamState()
            for event in events:
                state.handle_chunk(event)
            return state.get_final_completion()
        case "responses":
            return events[-1].response
        case _:
            from forkpoint.adapters.plain_messages import MessageStream

            gather = MessageStream()
            for event in events:
                gather.add(event.to_dict(mode="json"))
            return anthropic.types.Message.construct(**gather.body())


async def loop(speaker: Speaker, tools: dict[str, Any]) -> str:
    """The loop of everybody's first agent: ask, call what is asked for, until there is an answer."""
    while True:
        said = await speaker.ask()
        if not said.calls:
            return said.text
        speaker.answer([(call, await maybe(tools[name](**given))) for call, name, given in said.calls])


def text_of(api: API, event: Any) -> str:
    """The words that an event of a stream brings."""
    match api:
        case "chat":
            return "".join(choice.delta.content or "" for choice in event.choices)
        case "responses":
            return event.delta if event.type == "response.output_text.delta" else ""
        case _:
            is_text = event.type == "content_block_delta" and event.delta.type == "text_delta"
            return event.delta.text if is_text else ""


def function_of(make: Callable[[str], Coroutine[Any, Any, Any]], *, is_async: bool, name: str = "collect") -> Any:
    """A recorded function of either kind whose body is ``make``."""
    if is_async:

        async def collect(number: str) -> Any:
            return await make(number)
    else:

        def collect(number: str) -> Any:  # type: ignore[misc]
            return driven(make(number))

    return fp.record(collect, name=name) if name != "collect" else collect


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an async scenario on a fresh event loop, and close the clients that it made."""

    async def whole() -> None:
        try:
            await scenario()
        finally:
            while _open:
                await maybe(_open.pop().close())

    asyncio.run(whole())


@contextmanager
def quiet(server: ProviderServer, tools: list[Any] | None = None) -> Iterator[None]:
    """Nothing is asked of the provider in here, and no tool does anything."""
    before = len(server.requests), len(tools or ())
    yield
    assert (len(server.requests), len(tools or ())) == before
