"""A wrapped client's request to a model: how it goes on record, is performed, and comes back."""

import asyncio
import contextlib
import functools
import threading
import typing
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from forkpoint.adapters.plain_errors import cut_short, failure, said_before
from forkpoint.adapters.plain_requests import BETA, Dialect, Gatherer, Memory, given
from forkpoint.adapters.plain_sending import RAW, Reading, Sending, Spoken, headers_of, request_id_of
from forkpoint.adapters.plain_streams import Chunk, Relay
from forkpoint.errors.plain_clients import ClientUnrecorded, StreamLeftOff
from forkpoint.messages import CallPart, Message, Text
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse
from forkpoint.runtime.asks import Answer
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.recorder import Recorder

Report = Callable[[ModelProgress], None]
Perform = Callable[[ModelRequest, Report], Awaitable[ModelResponse]]

_memories: "WeakKeyDictionary[Recorder, Memory]" = WeakKeyDictionary()


class Asking(Sending):
    """A request to a model."""

    def __init__(self, dialect: Dialect, *given_: Any) -> None:
        super().__init__(*given_)
        self.name = dialect.name
        self.stream_cls = self._more.get("stream_cls") if self._more.get("stream") else None
        self._dialect = dialect
        self._plain = given(self._more.get("body"), None)
        headers = {name: value for name, value in headers_of(self._options).items() if _counts(name, value)}
        params = self._options.get("params")
        self._asks = given(self._plain, self._options.get("extra_json"))
        self._asks |= ({"extra_headers": headers} if headers else {}) | ({"extra_query": params} if params else {})
        self._request: ModelRequest | None = None

    def asked(self, recorder: Recorder, perform: Perform) -> Awaitable[Answer]:
        """Have it recorded."""
        memory = _memories.setdefault(recorder, Memory())
        self._request = self._dialect.request(self._asks, memory)
        repeats = self._options.get("max_retries", getattr(self._client, "max_retries", 2))
        return recorder.model(self._request, perform, agent=self.spoken.agent, attempts=int(repeats) + 1)

    def _to_send(self, changed: ModelRequest) -> dict[str, Any]:
        """What the client is given to send: the very request, or as a fork changes it."""
        options = {**self._options, "max_retries": 0}
        assert self._request is not None
        if changed is self._request:
            return {**self._more, "body": self._plain, "options": options}
        body = self._dialect.changed(self._asks, self._request, changed)
        options.pop("extra_json", None)
        headers = {name: value for name, value in headers_of(options).items() if not _counts(name, value)}
        options["headers"] = headers | body.pop("extra_headers", {})
        options["params"] = body.pop("extra_query", {})
        return {**self._more, "body": body, "options": options}

    # ── in one piece ──────────────────────────────────────────────────────────────────────────────────────────

    async def whole(self, changed: ModelRequest, _: Report) -> ModelResponse:
        """Perform it: the answer in one piece."""
        try:
            body = await self._body(self._to_send(changed))
        except Exception as error:
            raise self._told(error) from error
        return self._kept(self._dialect.response(body))

    def result(self, answer: Answer) -> Any:
        """What the client would have returned."""
        message, rest = self._recorded(answer)
        if "events" in rest:
            raise StreamLeftOff(effect=answer.effect)
        return self._object(self._dialect.body(message, rest or None, str(self._asks.get("model"))))

    def _recorded(self, answer: Answer) -> tuple[Message, dict[str, Any]]:
        outcome = answer.outcome
        if not isinstance(outcome, Succeeded) or outcome.message is None:
            raise failure(answer, self.spoken.library)
        rest = outcome.value or {}
        self.request_id = rest.get("request_id")
        return outcome.message, rest

    def _kept(self, response: ModelResponse, **more: Any) -> ModelResponse:
        return replace(response, rest={**response.rest, **more, "request_id": self.request_id})

    # ── streamed ──────────────────────────────────────────────────────────────────────────────────────────────

    def streamed(self, relay: Relay) -> Perform:
        """How to perform it so that ``relay`` is handed the answer as it comes."""

        async def perform(changed: ModelRequest, report: Report) -> ModelResponse:
            loop, gone, gather = asyncio.get_running_loop(), threading.Event(), self._dialect.gather()
            more = self._to_send(changed)

            def told(piece: ModelProgress) -> None:
                loop.call_soon_threadsafe(report, piece)

            if self._is_async:
                reading = asyncio.ensure_future(self._read(more, report, relay, gather))
            else:
                reading = asyncio.ensure_future(in_thread(lambda: self._read_here(more, told, relay, gather, gone)))

            def stop() -> None:
                with contextlib.suppress(RuntimeError):  # the event loop is gone, and with it whoever reads
                    loop.call_soon_threadsafe(reading.cancel)

            relay.stop = stop
            try:
                return await self._gathered(reading, relay, gather)
            finally:
                gone.set()

        return perform

    async def _read(self, more: dict[str, Any], report: Report, relay: Relay, gather: Gatherer) -> None:
        stream = await self._send(self._path, cast_to=self._cast_to, **more)
        self.request_id = request_id_of(stream.response)
        try:
            async for chunk in stream:
                _hand(chunk, report, relay, gather)
        finally:
            await stream.close()

    def _read_here(
        self, more: dict[str, Any], report: Report, relay: Relay, gather: Gatherer, gone: threading.Event
    ) -> None:
        stream = self._send(self._path, cast_to=self._cast_to, **more)
        self.request_id = request_id_of(stream.response)
        try:
            for chunk in stream:
                if gone.is_set():
                    return
                _hand(chunk, report, relay, gather)
        finally:
            stream.close()

    async def _gathered(self, reading: "asyncio.Future[None]", relay: Relay, gather: Gatherer) -> ModelResponse:
        """What was read, once it is all there, or once its reader has left."""
        try:
            await reading
            if not gather.whole:
                raise ConnectionError("the stream ended before the answer did")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not relay.left or (task is not None and task.cancelling()):
                raise
            return self._left(relay)
        except Exception as error:
            told = self._told(error)
            if relay.handed:
                told = cut_short(told, self._dialect.response(gather.body()).message)
            raise told from error
        return self._kept(self._dialect.response(gather.body()), pieces=gather.pieces)

    def _left(self, relay: Relay) -> ModelResponse:
        """What the reader took before it left: no finished answer, and with no calls in it."""
        gather = self._dialect.gather()
        for event in relay.taken:
            gather.add(event)
        response = self._dialect.response(gather.body())
        said = tuple([part for part in response.message.parts if not isinstance(part, CallPart)])
        message = Message(role="assistant", parts=said, finish_reason="error")
        rest = {"events": list(relay.taken), "request_id": self.request_id}
        return ModelResponse(message=message, usage=response.usage, rest=rest)

    def rest(self, answer: Answer, handed: bool) -> tuple[list[Chunk], Exception | None]:
        """What an answer still has for the reader of a stream that was ``handed`` something, and how it ends then."""
        outcome, error = answer.outcome, typing.cast("Exception | None", None)
        if isinstance(outcome, Succeeded) and outcome.message is not None:
            if handed:
                return [], None
            message, kept = self._recorded(answer)
            error = StreamLeftOff(effect=answer.effect) if "events" in kept else None
            events = kept.get("events") or self._events(message, kept)
            return [(event, self._chunk(event)) for event in events], error
        error = failure(answer, self.spoken.library)
        partial = said_before(outcome.text)[1] if isinstance(outcome, Failed) else ""
        if handed or not partial:
            return [], error
        said = Message(role="assistant", parts=(Text(content=partial),))
        events = self._dialect.begun(self._events(said, {}))
        return [(event, self._chunk(event)) for event in events], error

    def _events(self, message: Message, rest: dict[str, Any]) -> list[dict[str, Any]]:
        body = self._dialect.body(message, rest or None, str(self._asks.get("model")))
        return self._dialect.events(body, rest.get("pieces") or [], self._asks)

    def _chunk(self, event: dict[str, Any]) -> Any:
        return self.built(event, typing.get_args(self.stream_cls)[0])

    def stream(self, reader: type, feed: Any) -> Any:
        """The stream that the client would have returned, reading from ``feed``."""
        return _stream_class(reader, self.spoken.streams[self._is_async])(feed, self.request_id)


def call_of(
    client: Any, send: functools.partial[Any], path: str, cast_to: Any, more: dict[str, Any]
) -> Asking | Reading | None:
    """What a client's request is in a recorded function; ``None`` where it is nothing that is recorded.

    Raises ``client.unrecorded`` for a model call that is asked for as a raw response.
    """
    spoken: Spoken = client._forkpoint
    ends = path.partition("?")[0]
    dialect = next((one for end, one in spoken.dialects.items() if ends.endswith(end)), None)
    is_read = any(ends.endswith(end) for end in spoken.reads)
    if dialect is None and not is_read:
        return None
    if headers_of(more.get("options") or {}).get(RAW):
        raise ClientUnrecorded(what=ends)
    if dialect is None:
        return Reading(client, send, path, cast_to, more)
    return Asking(dialect, client, send, path, cast_to, more)


def _hand(chunk: Any, report: Report, relay: Relay, gather: Gatherer) -> None:
    """Tell of a chunk: to who watches, and to who reads."""
    event = chunk.to_dict(mode="json", warnings=False)
    piece = gather.add(event)
    if piece is not None:
        report(piece)
    relay.hand(event, chunk)


def _counts(name: str, value: Any) -> bool:
    """Whether a header changes what the provider does, and is not what lets it in."""
    return name.lower().endswith(BETA) and isinstance(value, str)


@functools.cache
def _stream_class(reader: type, kind: type) -> Any:
    return type(kind.__name__, (reader, kind), {"__module__": kind.__module__})
