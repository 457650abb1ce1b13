"""How a wrapped client's request is sent, and how its own object is made of an answer; and requests that only read."""

import functools
import inspect
from collections.abc import Awaitable, Mapping
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from forkpoint.adapters.plain_errors import as_recorded, failure
from forkpoint.adapters.plain_requests import Dialect, encoded, given, is_unset
from forkpoint.adapters.plain_streams import Response
from forkpoint.agents.function import Step, step
from forkpoint.errors import ForkpointError
from forkpoint.outcomes import Succeeded
from forkpoint.ports import ModelUnavailable
from forkpoint.runtime.asks import Answer
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.recorder import Recorder

RAW = "X-Stainless-Raw-Response"
"""The header by which the clients' own ``with_raw_response`` asks for what came besides the answer."""


class Spoken(Struct, frozen=True, kw_only=True):
    """What a wrapped client knows: its library, and what is a model call and what only reads, by the end of the path.

    ``agent`` is who asks, if it has a name. ``streams`` are the library's streams, by whether they are async.
    """

    library: ModuleType
    dialects: Mapping[str, Dialect]
    reads: frozenset[str]
    streams: Mapping[bool, Any]
    agent: str | None = None


class Sending:
    """What both kinds of requests have in common: ``send`` is how the client itself would send them."""

    def __init__(
        self, client: Any, send: functools.partial[Any], path: str, cast_to: Any, more: dict[str, Any]
    ) -> None:
        self.spoken: Spoken = client._forkpoint
        self.request_id: str | None = None
        self._client = client
        self._send = send
        self._path = path
        self._cast_to = cast_to
        self._more = more
        self._options: dict[str, Any] = dict(more.get("options") or {})
        self._is_async = inspect.iscoroutinefunction(send.func)

    async def _sent(self, **more: Any) -> Any:
        """What the client gets for its request."""
        if self._is_async:
            return await self._send(self._path, cast_to=self._cast_to, **more)
        return await in_thread(lambda: self._send(self._path, cast_to=self._cast_to, **more))

    async def _body(self, more: dict[str, Any]) -> dict[str, Any]:
        """The JSON object that the provider answers with."""
        options = more["options"]
        found = await self._sent(**{**more, "options": {**options, "headers": {**headers_of(options), RAW: "raw"}}})
        body = found.http_response.json()
        if not isinstance(body, dict):
            raise ModelUnavailable("the answer is no JSON object")
        self.request_id = request_id_of(found.http_response)
        return body

    def built(self, data: Any, kind: Any) -> Any:
        """``data`` as the client itself makes an object of it."""
        return self._client._process_response_data(data=data, cast_to=kind, response=Response(self.request_id))

    def _object(self, body: dict[str, Any]) -> Any:
        """The client's own object for an answer's body."""
        made = self.built(body, self._cast_to)
        parse = self._options.get("post_parser")
        if parse is not None and not is_unset(parse):
            made = parse(made)
        if hasattr(made, "model_dump"):
            made._request_id = self.request_id
        return made

    def _told(self, error: Exception) -> Exception:
        if isinstance(error, ForkpointError | ModelUnavailable):
            return error
        keys = [getattr(self._client, name, None) for name in ("api_key", "auth_token")]
        return as_recorded(error, self.spoken.library, [key for key in keys if isinstance(key, str) and key])


class Reading(Sending):
    """A request that only reads, such as embeddings: a step."""

    @property
    def name(self) -> str:
        """How it is called on record."""
        return f"{self.spoken.library.__name__} {self._path.partition('?')[0]}"

    def asked(self, recorder: Recorder) -> Awaitable[Answer]:
        """Have it recorded."""
        body = msgspec.json.decode(encoded(given(self._more.get("body"), self._options.get("extra_json"))))
        return recorder.step(_read_only(self.name), {"body": body}, perform=self._perform)

    async def _perform(self, _: Any) -> dict[str, Any]:
        try:
            body = await self._body({**self._more, "options": self._options})
        except Exception as error:
            raise self._told(error) from error
        return {"body": body, "request_id": self.request_id}

    def result(self, answer: Answer) -> Any:
        """What the client would have returned."""
        if not isinstance(answer.outcome, Succeeded):
            raise failure(answer, self.spoken.library)
        self.request_id = answer.value["request_id"]
        return self._object(answer.value["body"])


def headers_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The headers that a request adds."""
    headers = options.get("headers")
    return {} if headers is None or is_unset(headers) else dict(headers)


def request_id_of(response: Any) -> str | None:
    """What the provider calls the request."""
    found = response.headers.get("x-request-id") or response.headers.get("request-id")
    return found if isinstance(found, str) else None


@functools.cache
def _read_only(name: str) -> Step[..., Any]:
    def read(body: Any) -> Any:
        raise NotImplementedError(name)

    return step(name=name, read_only=True)(read)
