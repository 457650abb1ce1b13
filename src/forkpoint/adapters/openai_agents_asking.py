"""Asking a model of the Agents SDK, whole or streamed: what it answered, as it is put on record."""

import contextlib
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from agents import OpenAIChatCompletionsModel

from forkpoint.adapters.openai_agents_answers import of_stream, of_whole
from forkpoint.adapters.openai_agents_requests import Wanted
from forkpoint.errors import ModelRefused
from forkpoint.ports import ModelProgress, ModelResponse, ModelUnavailable

Tell: TypeAlias = Callable[[ModelProgress], None]
Ask: TypeAlias = Callable[[Any, Wanted, Tell], Awaitable[ModelResponse]]
"""Asks a model for what is wanted, telling what comes before the answer."""

_WORDS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_ENDINGS = ("response.completed", "response.incomplete")
_CUT = "the stream ended before the answer did"
_PASSING = frozenset({"server_error", "rate_limit_exceeded", "rate_limit_error", "api_error", "overloaded_error"})
"""What a provider calls a failure that may pass, where it tells of it inside a stream."""


async def whole(model: Any, wanted: Wanted, tell: Tell) -> ModelResponse:
    """What an answer in one piece comes to."""
    response = of_whole(await model.get_response(**wanted.given()))
    if response.message.text:
        tell(ModelProgress(text=response.message.text))
    return response


async def streamed(model: Any, wanted: Wanted, tell: Tell) -> ModelResponse:
    """What a stream comes to. Raises ``ModelUnavailable`` for one that ends before its answer does."""
    items: list[Any] = []
    async with closing(_watched(model).stream_response(**wanted.given())) as events:
        async for event in events:
            kind = getattr(event, "type", "")
            if kind in _WORDS:
                tell(ModelProgress(**{_WORDS[kind]: event.delta or ""}))
            elif kind == "response.output_item.done":
                items.append(event.item)
            elif kind in _ENDINGS:
                return of_stream(event, items)
            elif kind in ("response.failed", "error", "response.error"):
                raise _failure(event)
    raise ModelUnavailable(_CUT)


def _watched(model: Any) -> Any:
    """The model, with a stream of chunks that was cut short known as such.

    The SDK takes it for a whole answer where the client is not OpenAI's own, for those who never say why they end.
    """
    if not isinstance(model, OpenAIChatCompletionsModel):
        return model
    fetch = model._fetch_response

    async def fetching(*arguments: Any, **named: Any) -> Any:
        response, chunks = await fetch(*arguments, **named)
        return response, _Chunks(chunks)

    watched = copy.copy(model)
    watched._fetch_response = fetching
    return watched


class _Chunks:
    """Chunks as they come. Raises ``ModelUnavailable`` at their end if none has said why it is the last."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chunks, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        ended = False
        async for chunk in self._chunks:
            ended = ended or any(choice.finish_reason for choice in chunk.choices or ())
            yield chunk
        if not ended:
            raise ModelUnavailable(_CUT)


def _failure(event: Any) -> Exception:
    told = getattr(getattr(event, "response", None), "error", None) or event
    code, text = str(getattr(told, "code", None) or "an error"), str(getattr(told, "message", None) or "")
    if code in _PASSING:
        return ModelUnavailable(f"{code}: {text}")
    return ModelRefused(model="the model", answered=code, detail=text)


@contextlib.asynccontextmanager
async def closing(events: Any) -> AsyncIterator[Any]:
    """A stream of events that is closed at the end."""
    try:
        yield events
    finally:
        if hasattr(events, "aclose"):
            await events.aclose()
