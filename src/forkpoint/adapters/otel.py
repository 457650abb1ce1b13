"""Runs as OpenTelemetry spans while they are performed: ``connect(..., otel=True)``.

1. What this process recorded is told once, by this process; what others recorded is read and not told again.
2. A span is told when it ends, whole, by whoever records its end: where it began in a process that died, its beginning
   comes from the journal. Replaying and reading tell nothing.
3. Ids are those of ``forkpoint export --format otel``.
4. Nothing here disturbs a run. What an exporter raises is logged once, and how often that was when the runtime closes.

The extra ``otel`` has what this needs; it is imported when it is used.
"""

import asyncio
import importlib.util
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from forkpoint.errors import AdapterMissing
from forkpoint.events import RecordedEvent
from forkpoint.runtime.reading import Reader
from forkpoint.timetravel.span_shapes import Span
from forkpoint.timetravel.spans import SpanFold

KEEP = 64
"""How many runs are kept ready to be told on. One that is not is read again when more of it is recorded."""

_log = logging.getLogger("forkpoint.otel")


def provider_for(given: Any) -> Any:
    """The tracer provider that is meant: ``given``, which must be the SDK's, or the global one for ``True``.

    Raises ``adapter.missing`` without the extra ``otel``, and ``otel.no-provider``.
    """
    if importlib.util.find_spec("opentelemetry") is None or importlib.util.find_spec("opentelemetry.sdk") is None:
        needs = "forkpoint[otel]"
        raise AdapterMissing(what="connect(otel=…)", needs=f"the extra '{needs}'", command=f"pip install '{needs}'")
    from forkpoint.adapters.otel_sdk import provider_of

    return provider_of(given)


class _Line(Struct):
    """One run: its spans so far, and what is to be told of it once what comes before has been read."""

    fold: SpanFold
    waiting: deque[RecordedEvent] = field(default_factory=deque)
    reading: asyncio.Task[None] | None = None


class LiveSpans:
    """Tells OpenTelemetry what this process records of the runs of one store.

    ``provider`` is a ``TracerProvider`` of the OpenTelemetry SDK, or ``True`` for the global one. ``content`` also
    tells what people, models and tools said. Raises ``adapter.missing`` without the extra ``otel``, and
    ``otel.no-provider`` where there is no such provider.
    """

    def __init__(self, reader: Reader, provider: Any = True, *, content: bool = False) -> None:
        sdk_provider = provider_for(provider)
        from forkpoint.adapters.otel_sdk import SpanSink

        self._reader = reader
        self._content = content
        self._sink = SpanSink(sdk_provider)
        self._lines: dict[str, _Line] = {}
        self._lost = 0

    def recorded(self, run: str, events: Sequence[RecordedEvent]) -> None:
        """Take in what this process has just recorded of ``run``, in order. Never raises, never waits.

        Call it on the event loop, once for each commit, after the commit has returned.
        """
        try:
            # The newest stands last, so that the one that nothing was heard of for longest is let go of first.
            line = self._lines.pop(run, None) or _Line(SpanFold(run, content=self._content))
            self._lines[run] = line
            line.waiting += events
            if line.reading is None and line.waiting:
                self._go_on(line)
        except Exception as error:  # whatever it is, the run goes on
            self._give_up(run, error)
        self._let_go()

    async def close(self) -> None:
        """Tell what is still to be told. The provider stays as it is: it is its owner's to flush and shut down."""
        while reading := [line.reading for line in self._lines.values() if line.reading is not None]:
            await asyncio.wait(reading)
        if self._lost > 1:
            _log.warning("%d times in all, spans could not be told", self._lost)
            self._lost = 0

    def _go_on(self, line: _Line) -> None:
        """Tell what waits: at once where nothing has to be read for it."""
        if self._content or line.waiting[0].seq > line.fold.seq + 1:
            line.reading = asyncio.get_running_loop().create_task(self._read_and_tell(line))
        while line.reading is None and line.waiting:
            self._tell(line, line.waiting.popleft())

    async def _read_and_tell(self, line: _Line) -> None:
        fold = line.fold
        try:
            while line.waiting:
                first = line.waiting[0].seq
                if first > fold.seq + 1:
                    for before in await self._reader.history(fold.run, after=fold.seq, upto=first - 1):
                        fold.feed(await self._whole(before))
                self._tell(line, await self._whole(line.waiting.popleft()))
        except Exception as error:  # a store that cannot be read, say: the run will hear of that by itself
            self._give_up(fold.run, error)
        finally:
            line.reading = None

    async def _whole(self, recorded: RecordedEvent) -> RecordedEvent:
        """The event with its large values in place, which only content needs."""
        if not self._content:
            return recorded
        return replace(recorded, event=await self._reader.whole(recorded.event))

    def _tell(self, line: _Line, recorded: RecordedEvent) -> None:
        if recorded.seq <= line.fold.seq:
            return
        for span in line.fold.feed(recorded):
            self._hand_over(span)

    def _hand_over(self, span: Span) -> None:
        try:
            self._sink.take(span)
        except Exception as error:  # a processor's or an exporter's, which must not reach the run
            self._lose(error)

    def _give_up(self, run: str, error: Exception) -> None:
        """Forget what is known of a run; the next that is recorded of it is told from the journal."""
        self._lines.pop(run, None)
        self._lose(error)

    def _lose(self, error: Exception) -> None:
        if not self._lost:
            _log.warning("Spans could not be told; runs go on without them", exc_info=error)
        self._lost += 1

    def _let_go(self) -> None:
        for run in list(self._lines)[: max(0, len(self._lines) - KEEP)]:
            if self._lines[run].reading is None:
                del self._lines[run]
