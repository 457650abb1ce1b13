"""Clients of providers whose requests become effects of the recorded function that makes them.

A wrapped client is one of its own class, with its own connections and options. All its methods send through ``post``;
in a recorded function that is where a request goes on record, and where an answer comes from the record. Anything else
that it does, and everything outside of a recorded function, is as it was.
"""

import copy
import functools
import inspect
from typing import Any, TypeVar

from forkpoint.adapters.plain_calls import call_of
from forkpoint.adapters.plain_sending import Reading, Spoken
from forkpoint.adapters.plain_streams import AsyncFeed, AsyncRead, SyncFeed, SyncRead
from forkpoint.runtime.recorder import current

Client = TypeVar("Client")


def wrapped(client: Client, spoken: Spoken) -> Client:
    """``client`` again, as one that is recorded."""
    kind: Any = type(client)
    if hasattr(kind, "_forkpoint"):
        return client
    post = _async_post(kind) if inspect.iscoroutinefunction(kind.post) else _post(kind)
    own = {"post": post, "_forkpoint": spoken, "__module__": kind.__module__, "__doc__": kind.__doc__}
    made: Any = copy.copy(client)
    made.__class__ = type(kind.__name__, (kind,), own)
    for name in [*vars(made)]:
        # What was made of it before sends through the client that made it.
        if isinstance(inspect.getattr_static(kind, name, None), functools.cached_property):
            del vars(made)[name]
    found: Client = made
    return found


def _async_post(kind: Any) -> Any:
    async def post(self: Any, path: str, *, cast_to: Any, **more: Any) -> Any:
        """Send a request, or have it recorded."""
        send = functools.partial(kind.post, self)
        recorder = current()
        call = None if recorder is None else call_of(self, send, path, cast_to, more)
        if recorder is None or call is None:
            return await send(path, cast_to=cast_to, **more)
        if isinstance(call, Reading):
            return call.result(await recorder.waited(lambda: call.asked(recorder), call.name, is_async=True))
        if call.stream_cls is None:
            asking = recorder.waited(lambda: call.asked(recorder, call.whole), call.name, is_async=True)
            return call.result(await asking)
        feed = AsyncFeed(recorder, lambda relay: call.asked(recorder, call.streamed(relay)), call.rest, call.name)
        await feed.begin()
        return call.stream(AsyncRead, feed)

    return post


def _post(kind: Any) -> Any:
    def post(self: Any, path: str, *, cast_to: Any, **more: Any) -> Any:
        """Send a request, or have it recorded."""
        send = functools.partial(kind.post, self)
        recorder = current()
        call = None if recorder is None else call_of(self, send, path, cast_to, more)
        if recorder is None or call is None:
            return send(path, cast_to=cast_to, **more)
        if isinstance(call, Reading):
            return call.result(recorder.waited(lambda: call.asked(recorder), call.name, is_async=False))
        if call.stream_cls is None:
            return call.result(recorder.waited(lambda: call.asked(recorder, call.whole), call.name, is_async=False))
        feed = SyncFeed(recorder, lambda relay: call.asked(recorder, call.streamed(relay)), call.rest, call.name)
        feed.begin()
        return call.stream(SyncRead, feed)

    return post
