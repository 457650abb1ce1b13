"""Streams as a recorded function reads them: live while they come, from the record afterwards.

Whoever performs the request hands chunks over as they come, and whoever reads takes them. The end of a stream is told
only when its whole is on record. A reader that leaves before the end stops the reading; what it took is on record.
"""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from forkpoint.runtime.asks import Answer
from forkpoint.runtime.recorder import Recorder

Chunk = tuple[dict[str, Any], Any]
"""An event of a stream: as plain data, and as the client's own object."""

Rest = Callable[[Answer, bool], tuple[list[Chunk], Exception | None]]
"""What an answer still has for its reader (``True``: who has been handed chunks), and how the stream ends then."""


class Relay:
    """Between who performs a request and who reads its stream, which may be in another OS thread.

    ``handed`` says that the reader was given something; ``taken`` is what it took; ``left`` that it wants no more.
    """

    def __init__(self, put: Callable[[Chunk], None]) -> None:
        self._put = put
        self.handed = False
        self.left = False
        self.taken: list[dict[str, Any]] = []
        self.stop: Callable[[], None] = lambda: None

    def hand(self, event: dict[str, Any], chunk: Any) -> None:
        """Give the reader the next chunk."""
        self.handed = True
        self._put((event, chunk))

    def leave(self) -> None:
        """The reader wants no more."""
        self.left = True
        self.stop()


class Response:
    """What stands for the HTTP response of a recorded one: its request id, and nothing to wait for."""

    status_code = 200
    http_version = "HTTP/1.1"
    request = None
    stream = None

    def __init__(self, request_id: str | None, close: Callable[[], Any] = lambda: None) -> None:
        named = {} if request_id is None else {"x-request-id": request_id, "request-id": request_id}
        self.headers: dict[str, str] = named
        self._close = close

    @property
    def is_closed(self) -> bool:
        """Nothing is open here."""
        return True

    def close(self) -> None:
        """Read no more."""
        self._close()

    async def aclose(self) -> None:
        """Read no more."""
        await self._close()


class _Feed:
    """What a stream reads from."""

    def __init__(self, relay: Relay, rest: Rest) -> None:
        self.relay = relay
        self.over = False
        self._rest = rest
        self._ready: deque[Chunk] = deque()
        self._error: Exception | None = None

    def _finish(self, answer: Answer) -> None:
        self.over = True
        more, self._error = self._rest(answer, self.relay.handed)
        self._ready += more

    def _taken(self) -> Any:
        event, chunk = self._ready.popleft()
        self.relay.taken.append(event)
        return chunk

    def _check_failed(self) -> None:
        if self.over and self._error is not None and not self._ready:
            raise self._error


class AsyncFeed(_Feed):
    """A feed that is awaited."""

    def __init__(self, recorder: Recorder, ask: Callable[[Relay], Awaitable[Answer]], rest: Rest, name: str) -> None:
        loop, self._queue = asyncio.get_running_loop(), asyncio.Queue[Chunk | None]()

        def put(chunk: Chunk | None) -> None:
            with contextlib.suppress(RuntimeError):  # the reader's event loop is gone, and the reader with it
                loop.call_soon_threadsafe(self._queue.put_nowait, chunk)

        super().__init__(Relay(put), rest)
        asking = recorder.waited(lambda: ask(self.relay), name, is_async=True)
        self._answer: asyncio.Future[Answer] = asyncio.ensure_future(asking)
        self._answer.add_done_callback(lambda done: self._told(done, put))

    @staticmethod
    def _told(done: "asyncio.Future[Answer]", put: Callable[[None], None]) -> None:
        if not done.cancelled():
            done.exception()  # looked at, so that one that nobody reads any more does not warn
        put(None)

    async def begin(self) -> None:
        """Wait for the first chunk. Raises what the request came to, if it came to nothing."""
        await self._more()
        self._check_failed()

    async def next(self) -> Any:
        """The next chunk. Raises ``StopAsyncIteration`` at the end."""
        while not self._ready and not self.over:
            await self._more()
        if self._ready:
            return self._taken()
        self._check_failed()
        raise StopAsyncIteration

    async def _more(self) -> None:
        chunk = await self._queue.get()
        if chunk is None:
            self._finish(await self._answer)
        else:
            self._ready.append(chunk)

    async def close(self) -> None:
        """Read no more; returns when what was read is on record."""
        if not self.over:
            self.over = True
            self.relay.leave()
            await asyncio.wait([self._answer])
        self._ready.clear()


class SyncFeed(_Feed):
    """A feed that is waited for, in an OS thread where no event loop runs."""

    def __init__(self, recorder: Recorder, ask: Callable[[Relay], Awaitable[Answer]], rest: Rest, name: str) -> None:
        self._queue: queue.SimpleQueue[Chunk | Answer | BaseException] = queue.SimpleQueue()
        super().__init__(Relay(self._queue.put), rest)
        recorder.waited(_nothing, name, is_async=False)  # refused here if this would stop the event loop

        def asking() -> None:
            try:
                self._queue.put(recorder.waited(lambda: ask(self.relay), name, is_async=False))
            except BaseException as raised:  # whatever it is, the reader waits for it
                self._queue.put(raised)

        threading.Thread(target=asking, name="forkpoint-stream", daemon=True).start()

    def begin(self) -> None:
        """Wait for the first chunk. Raises what the request came to, if it came to nothing."""
        self._more()
        self._check_failed()

    def next(self) -> Any:
        """The next chunk. Raises ``StopIteration`` at the end."""
        while not self._ready and not self.over:
            self._more()
        if self._ready:
            return self._taken()
        self._check_failed()
        raise StopIteration

    def _more(self) -> None:
        found = self._queue.get()
        if isinstance(found, BaseException):
            self.over = True
            raise found
        if isinstance(found, Answer):
            self._finish(found)
        else:
            self._ready.append(found)

    def close(self) -> None:
        """Read no more; returns when what was read is on record."""
        if not self.over:
            self.over = True
            self.relay.leave()
            while isinstance(self._queue.get(), tuple):
                pass
        self._ready.clear()


async def _nothing() -> None:
    """What a thread waits for to see whether it may wait."""


class AsyncRead:
    """The client's stream, read from a feed. Mixed in before the client's own class."""

    def __init__(self, feed: AsyncFeed, request_id: str | None) -> None:
        self._feed = feed
        self.response = Response(request_id, feed.close)

    async def __anext__(self) -> Any:
        return await self._feed.next()

    def __aiter__(self) -> Any:
        return self

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Read no more."""
        await self._feed.close()

    def __del__(self) -> None:
        if not self._feed.over:
            self._feed.relay.leave()


class SyncRead:
    """The same for a client that is not async."""

    def __init__(self, feed: SyncFeed, request_id: str | None) -> None:
        self._feed = feed
        self.response = Response(request_id, feed.close)

    def __next__(self) -> Any:
        return self._feed.next()

    def __iter__(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no more."""
        self._feed.close()

    def __del__(self) -> None:
        if not self._feed.over:
            self._feed.relay.leave()
