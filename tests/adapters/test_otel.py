"""Spans told live through the real OpenTelemetry SDK: each once, whole, the same as an export's, disturbing no run.

``Telling`` stands where a runtime tells of its commits, so that what is told is what real runs recorded.
"""

import asyncio
import inspect
import logging
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import pytest

import forkpoint as fp
from forkpoint.adapters import otel
from forkpoint.adapters.otel import LiveSpans
from forkpoint.errors import AdapterMissing
from forkpoint.errors.otel import OtelNoProvider
from forkpoint.events import RecordedEvent
from forkpoint.ports import Append
from forkpoint.runtime.reading import Reader, decode_commit
from forkpoint.runtime.writing import Writer
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.crash import Killed, Life
from forkpoint.testing.fakes import FakeClock, ScriptedModel, call, calls, settle
from forkpoint.timetravel.span_shapes import Span
from forkpoint.timetravel.spans import spans

pytest.importorskip("opentelemetry.sdk", reason="the extra 'otel' is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a fresh event loop; pytest sees its parameters."""

    def wrapped(**given: Any) -> None:
        asyncio.run(test(**given))

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    wrapped.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return wrapped


class Sink:
    """A tracer provider, and what was exported by it."""

    def __init__(self, *processors: SpanProcessor, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        for processor in (*processors, SimpleSpanProcessor(self.exporter)):
            self.provider.add_span_processor(processor)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    @property
    def told(self) -> list[tuple[Any, ...]]:
        return [shown(span) for span in self.spans]


class Telling:
    """A journal that tells of what this process commits, once it is there, as a runtime does."""

    def __init__(self, journal: Any, sink: Sink, **options: Any) -> None:
        self._journal = journal
        self.live = LiveSpans(Reader(journal, Writer()), sink.provider, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, append: Append) -> None:
        await self._journal.append(append)
        self.live.recorded(append.run, decode_commit(append.commit, append.run, append.before))

    async def close(self) -> None:
        await self.live.close()
        await self._journal.close()


def shown(span: ReadableSpan) -> tuple[Any, ...]:
    """All that an exporter sees of a span."""
    assert span.context is not None
    return (
        span.name,
        span.kind.name.lower(),
        trace.format_trace_id(span.context.trace_id),
        trace.format_span_id(span.context.span_id),
        trace.format_span_id(span.parent.span_id) if span.parent else None,
        span.start_time,
        span.end_time,
        dict(span.attributes or {}),
        (span.status.status_code.name.lower(), span.status.description or ""),
        [
            (
                trace.format_trace_id(one.context.trace_id),
                trace.format_span_id(one.context.span_id),
                dict(one.attributes or {}),
            )
            for one in span.links
        ],
        [(event.name, event.timestamp, dict(event.attributes or {})) for event in span.events],
    )


def wanted(span: Span) -> tuple[Any, ...]:
    """The same of a span out of the journal."""
    return (
        span.name,
        span.kind,
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_ns,
        span.end_ns,
        span.attributes,
        (span.status, span.message),
        [(link.trace_id, link.span_id, link.attributes) for link in span.links],
        [(event.name, event.at_ns, event.attributes) for event in span.events],
    )


def ended(history: Sequence[RecordedEvent], *, after: int = 0, **options: Any) -> list[tuple[Any, ...]]:
    """What an export has of spans that ended over event ``after``."""
    found = [span for span in spans(history, **options) if span.attributes.get("forkpoint.outcome") != "open"]
    return [wanted(span) for span in found if int(str(span.attributes["forkpoint.fork_point"]).split("@")[1]) > after]


@fp.tool(read_only=True)
def look(n: int) -> dict[str, Any]:
    """Look."""
    if n > 1:
        raise KeyError("ada@example.org")
    return {"n": n, "text": "x" * 6000}


@fp.tool(approval=True)
def mail(to: str) -> str:
    """Mail."""
    return "sent"


def clerk(*replies: Any, tools: Sequence[Any] = (look, mail)) -> fp.Agent:
    """An agent whose model gives ``replies`` in turn, chosen by how often it has spoken since the last input."""

    def script(request: Any) -> Any:
        roles = [message.role for message in request.messages]
        since = len(roles) - roles[::-1].index("user")
        spoken = roles[since:].count("assistant")
        return replies[spoken] if spoken < len(replies) else "done"

    return fp.Agent("clerk", model=ScriptedModel(script), instructions="Look. " * 2000, tools=list(tools))


STEPS = (calls(call("look", n=1)), calls(call("look", "c2", n=2), call("mail", "c3", to="ada")))


# ── the same as an export ────────────────────────────────────────────────────────────────────────────────────


@live
async def test_what_is_told_live_is_what_an_export_has_each_once_in_the_order_of_the_ends() -> None:
    sink = Sink()
    async with fp.connect(Telling(MemoryJournal(), sink), agents=[clerk(*STEPS)]) as runtime:  # type: ignore[arg-type]
        run = await runtime.start("clerk", "go", run_id="r")
        (wait,) = (await run.wait()).waits
        assert [span.name for span in sink.spans][-1] == "execute_tool look"
        await run.approve(wait.effect, actor="ann")
        await run.wait()
        await run.send("more")
        await run.wait()
        history = await run.history()
    assert sink.told == ended(history)
    assert len(sink.told) > 10
    assert len({span[3] for span in sink.told}) == len(sink.told)


@live
async def test_a_forks_spans_are_told_with_their_link_and_nothing_of_the_past() -> None:
    sink = Sink()
    async with fp.connect(Telling(MemoryJournal(), sink), agents=[clerk(STEPS[0])]) as runtime:  # type: ignore[arg-type]
        run = await runtime.start("clerk", "go", run_id="r")
        await run.wait()
        child = await run.fork(step=1, run_id="kid", patch=fp.Patch(input="again"))
        await child.resume()
        await child.wait()
        parents, kids = await run.history(), await child.history()
    assert sink.told == ended(parents) + ended(kids)
    assert ended(kids)[-1][9]


@live
async def test_content_is_told_only_if_it_is_asked_for_and_then_whole() -> None:
    plain, full = Sink(), Sink()
    for sink, content in ((plain, False), (full, True)):
        store = Telling(MemoryJournal(), sink, content=content)
        async with fp.connect(store, agents=[clerk(STEPS[0])], clock=FakeClock()) as runtime:  # type: ignore[arg-type]
            run = await runtime.start("clerk", "hello ada@example.org", run_id="r")
            await run.wait()
            whole = [await runtime.edge.reader.whole(event.event) for event in await run.history()]
            history = [
                RecordedEvent(event.run, event.seq, event.at_ms, event.digest, one)
                for event, one in zip(await run.history(), whole, strict=True)
            ]
    assert "ada@" not in repr(plain.told) and "xxx" not in repr(plain.told)
    assert full.told == ended(history, content=True)
    assert "x" * 6000 in repr(full.told) and "Look. " * 2000 in repr(full.told)
    assert [span[3] for span in plain.told] == [span[3] for span in full.told]


# ── one process after another, and side by side ──────────────────────────────────────────────────────────────


@live
async def test_a_span_that_began_in_a_process_that_died_is_told_whole_by_the_one_that_records_its_end() -> None:
    clock, store, sink = FakeClock(), MemoryJournal(), Sink()
    bell, life = asyncio.Event(), Life()

    @fp.tool(idempotent=True)
    async def charge() -> str:
        if not bell.is_set():
            bell.set()
            await asyncio.Event().wait()
        return "charged"

    async def until_in_flight() -> None:
        agents = [clerk(STEPS[0], calls(call("charge")), tools=[look, life.tool(charge)])]
        runtime = fp.connect(life.journal(store.beside()), agents=agents, clock=clock)
        await runtime.start("clerk", "go", run_id="r")
        await bell.wait()
        life.over = True
        await asyncio.Event().wait()

    with suppress(Killed):
        await life.live(until_in_flight(), clock)
    agents = [clerk(STEPS[0], calls(call("charge")), tools=[look, charge])]
    async with fp.connect(Telling(store.beside(), sink), agents=agents, clock=clock) as runtime:  # type: ignore[arg-type]
        run = await runtime.open("r")
        before = (await run.brief()).seq
        await clock.advance(30)
        await run.resume()
        waiting = asyncio.ensure_future(run.wait())
        for _ in range(50):
            await clock.advance(0.1)
        await waiting
        history = await run.history()
    names = [span[0] for span in sink.told]
    assert names == ["execute_tool charge", "execute_tool charge", "chat model", "invoke_agent clerk"]
    assert sink.told == ended(history, after=before)
    lost, turn = sink.told[0], sink.told[-1]
    assert lost[5] // 10**6 < lost[6] // 10**6 - 29_000, "the attempt began before its process died"
    assert turn[5] == min(span.start_ns for span in spans(history))


@live
async def test_two_processes_tell_each_event_once_between_them() -> None:
    store, performing, deciding = MemoryJournal(), Sink(), Sink()
    async with fp.connect(Telling(store.beside(), performing), agents=[clerk(*STEPS)]) as worker:  # type: ignore[arg-type]
        run = await worker.start("clerk", "go", run_id="r")
        (wait,) = (await run.wait()).waits
        async with fp.connect(Telling(store.beside(), deciding)) as desk:  # type: ignore[arg-type]
            await (await desk.open("r")).deny(wait.effect, reason="no")
        await run.resume()
        await run.wait()
        history = await run.history()
    assert [span[0] for span in deciding.told] == ["execute_tool mail"]
    both = sorted(performing.told + deciding.told, key=lambda span: span[6])
    assert both == sorted(ended(history), key=lambda span: span[6])


@live
async def test_reading_replaying_and_comparing_tell_nothing() -> None:
    store, sink = MemoryJournal(), Sink()
    async with fp.connect(store.beside(), agents=[clerk(*STEPS)]) as runtime:
        await (await runtime.start("clerk", "go", run_id="r")).wait()
        await (await runtime.start("clerk", "go", run_id="other")).wait()
    async with fp.connect(Telling(store.beside(), sink), agents=[clerk(*STEPS)]) as runtime:  # type: ignore[arg-type]
        run = await runtime.open("r")
        fp.replay(await run.history())
        fp.state_at(await run.history(), step=1)
        await run.state()
        await run.trajectory()
        await runtime.compare("r", "other")
        await runtime.verify()
        await settle()
    assert sink.told == []


class Counted(MemoryJournal):
    """Counts how often events are read."""

    reads = 0

    async def commits(self, *args: Any, **options: Any) -> Any:
        self.reads += 1
        return await super().commits(*args, **options)

    def beside(self) -> "Counted":
        other = Counted()
        other._shelf = self._shelf
        return other


async def two_turns_each(sink: Sink, store: Counted) -> list[tuple[Any, ...]]:
    """Every span of three runs that took turns; ``store`` counts what telling of them has read."""
    telling = Telling(store, sink)
    # The runtime reads on for reasons of its own.
    telling.live = LiveSpans(Reader(counted := store.beside(), Writer()), sink.provider)
    async with fp.connect(telling, agents=[clerk(STEPS[0])]) as runtime:  # type: ignore[arg-type]
        runs = [await runtime.start("clerk", "go", run_id=f"r{number}") for number in range(3)]
        for run in runs:
            await run.wait()
        for run in runs:
            await run.send("more")
            await run.wait()
        histories = [await run.history() for run in runs]
    store.reads = counted.reads
    return sorted((span for history in histories for span in ended(history)), key=repr)


@live
async def test_a_run_that_is_told_from_its_first_event_is_never_read_again() -> None:
    sink, store = Sink(), Counted()
    wanted_spans = await two_turns_each(sink, store)
    assert sorted(sink.told, key=repr) == wanted_spans
    assert store.reads == 0


@live
async def test_runs_that_were_let_go_of_are_told_on_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "KEEP", 1)
    sink, store = Sink(), Counted()
    wanted_spans = await two_turns_each(sink, store)
    assert sorted(sink.told, key=repr) == wanted_spans
    assert store.reads > 0


# ── what the SDK is for ──────────────────────────────────────────────────────────────────────────────────────


class Heard(SpanProcessor):
    """Keeps what a processor is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.heard.append(("start", span.get_span_context().span_id))

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        self.heard.append(("end", span.context.span_id))


async def performed(sink: Sink, *, run_id: str = "r") -> list[RecordedEvent]:
    """The history of a run that was told into ``sink``."""
    async with fp.connect(Telling(MemoryJournal(), sink), agents=[clerk(STEPS[0])]) as runtime:  # type: ignore[arg-type]
        run = await runtime.start("clerk", "go", run_id=run_id)
        assert (await run.wait()).status == "idle"
        return await run.history()


@live
async def test_processors_hear_of_each_span_twice_as_of_any_other() -> None:
    heard = Heard()
    sink = Sink(heard)
    await performed(sink)
    ids = [int(span[3], 16) for span in sink.told]
    assert heard.heard == [(what, one) for one in ids for what in ("start", "end")]


@live
async def test_a_span_that_is_open_here_becomes_no_parent() -> None:
    sink = Sink()
    with sink.provider.get_tracer("mine").start_as_current_span("request"):
        history = await performed(sink)
    assert [shown for shown in sink.told if shown[0] != "request"] == ended(history)


@live
async def test_other_spans_keep_ids_of_their_own() -> None:
    history, sink = await performed(Sink()), Sink()
    LiveSpans(Reader(MemoryJournal(), Writer()), sink.provider).recorded("r", history)
    assert sink.told == ended(history)
    for name in ("forkpoint", "mine"):
        sink.provider.get_tracer(name, fp.__version__).start_span(name).end()
    *ours, ones, others = sink.told
    assert len({span[2] for span in (ours[0], ones, others)}) == 3
    assert len({span[3] for span in sink.told}) == len(sink.told)


@live
async def test_a_sampler_takes_a_run_whole_or_not_at_all() -> None:
    taken = []
    for number in range(12):
        sink = Sink(sampler=ParentBased(TraceIdRatioBased(0.5)))
        history = await performed(sink, run_id=f"r{number}")
        assert sink.told in ([], ended(history))
        taken.append(bool(sink.told))
    assert {True, False} == set(taken)
    off = Sink(sampler=ALWAYS_OFF)
    await performed(off)
    assert off.told == []


@live
async def test_a_provider_that_is_switched_off_is_told_nothing_and_runs_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    sink = Sink()
    await performed(sink)
    assert sink.told == []


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────


class Failing(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise ConnectionError("the collector is gone")


@live
async def test_an_exporter_that_fails_disturbs_no_run_and_is_logged_once_with_how_much_was_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "forkpoint.otel")
    history = await performed(Sink(Failing()))
    first, last = caplog.records
    assert first.exc_info is not None and "the collector is gone" in str(first.exc_info[1])
    assert last.getMessage() == f"{len(ended(history))} times in all, spans could not be told"


class Unreadable(MemoryJournal):
    async def commits(self, *args: Any, **options: Any) -> Any:
        raise OSError("the disk is gone")


@live
async def test_a_journal_that_cannot_be_read_is_logged_and_the_run_is_told_on_when_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "forkpoint.otel")
    store, sink = MemoryJournal(), Sink()
    async with fp.connect(store, agents=[clerk(STEPS[0])]) as runtime:
        run = await runtime.start("clerk", "go", run_id="r")
        await run.wait()
        history = await run.history()
        telling = LiveSpans(Reader(Unreadable(), Writer()), sink.provider)
        telling.recorded("r", history[-1:])
        await telling.close()
        assert "could not be told" in caplog.text
        assert sink.told == []
        telling = LiveSpans(Reader(store, Writer()), sink.provider)
        caplog.clear()
        telling.recorded("r", history[-1:])
        telling.recorded("r", history[-1:])
        await telling.close()
        assert sink.told == ended(history, after=history[-2].seq)
        assert caplog.records == []


@live
async def test_telling_never_raises_even_of_what_cannot_be(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "forkpoint.otel")
    telling = LiveSpans(Reader(MemoryJournal(), Writer()), Sink().provider)
    telling.recorded("r", [RecordedEvent("r", 1, 0, b"", object())])  # type: ignore[arg-type]
    assert len(caplog.records) == 1


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(AdapterMissing, match=r"pip install 'forkpoint\[otel\]'"):
        LiveSpans(Reader(MemoryJournal(), Writer()))


def test_without_the_sdk_the_api_alone_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(AdapterMissing):
        LiveSpans(Reader(MemoryJournal(), Writer()))


@pytest.mark.parametrize("given", [True, trace.NoOpTracerProvider(), "provider"])
def test_what_is_no_provider_of_the_sdk_is_refused(given: Any) -> None:
    with pytest.raises(OtelNoProvider, match="TracerProvider"):
        LiveSpans(Reader(MemoryJournal(), Writer()), given)


def test_true_means_the_global_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", sink.provider)
    LiveSpans(Reader(MemoryJournal(), Writer()), True)


def test_the_sdk_is_imported_only_when_spans_are_told_live() -> None:
    script = (
        "import sys, forkpoint, forkpoint.adapters.otel, forkpoint.exchange.exporting\n"
        "forkpoint.connect('memory:')\n"
        "sys.exit(str(sorted(name for name in sys.modules if name.startswith('opentelemetry'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


# ── connect(otel=…) ──────────────────────────────────────────────────────────────────────────────────────────


@live
async def test_connect_tells_a_providers_processors_what_its_runs_record() -> None:
    sink = Sink()
    async with fp.connect("memory:", agents=[clerk(*STEPS)], otel=sink.provider) as runtime:  # type: ignore[call-arg]
        run = await runtime.start("clerk", "go", run_id="r")
        (wait,) = (await run.wait()).waits
        await run.approve(wait.effect)
        await run.wait()
        child = await run.fork(step=1, run_id="kid")
        await child.resume()
        await child.wait()
        histories = [await run.history(), await child.history()]
    assert sink.told == [span for history in histories for span in ended(history)]


@live
async def test_connect_with_true_takes_the_global_provider_and_content_only_if_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for content in (False, True):
        sink = Sink()
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", sink.provider)
        more = {"otel": True, "otel_content": content}
        async with fp.connect("memory:", agents=[clerk(STEPS[0])], **more) as runtime:
            await (await runtime.start("clerk", "hello ada", run_id="r")).wait()
        assert ("hello ada" in repr(sink.told)) == content
        assert len(sink.told) == 4


@live
async def test_a_decision_of_a_process_that_only_decides_is_told_before_it_closes() -> None:
    store, sink = MemoryJournal(), Sink()
    async with fp.connect(store.beside(), agents=[clerk(*STEPS)]) as worker:
        (wait,) = (await (await worker.start("clerk", "go", run_id="r")).wait()).waits
    async with fp.connect(store.beside(), otel=sink.provider) as desk:  # type: ignore[call-arg]
        await (await desk.open("r")).deny(wait.effect, reason="no")
    assert [span[0] for span in sink.told] == ["execute_tool mail"]


def test_connect_refuses_what_is_no_provider() -> None:
    with pytest.raises(OtelNoProvider):
        fp.connect("memory:", otel="yes")  # type: ignore[call-arg]
