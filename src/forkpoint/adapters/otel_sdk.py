"""Spans into the OpenTelemetry SDK, under the ids that they have in the journal.

They go the way of any other span: the provider's sampler, its limits, ``on_start`` and ``on_end`` of its processors.
Only their ids are given, by an ``IdGenerator`` of the one tracer that Forkpoint uses. Their times have passed when they
are told, and no span that happens to be open here becomes their parent.
"""

from contextvars import ContextVar
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from forkpoint import __version__
from forkpoint.errors.otel import OtelNoProvider
from forkpoint.timetravel.span_shapes import Span, SpanLink

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_SAMPLED, _NOT_SAMPLED = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)

_given: ContextVar[tuple[int, int] | None] = ContextVar("forkpoint_span_ids", default=None)


class _Ids(IdGenerator):
    """The ids that are given; for a span that nobody gave any, those it would have had."""

    def __init__(self, others: IdGenerator) -> None:
        self._others = others

    def generate_trace_id(self) -> int:
        given = _given.get()
        return self._others.generate_trace_id() if given is None else given[0]

    def generate_span_id(self) -> int:
        given = _given.get()
        return self._others.generate_span_id() if given is None else given[1]


def provider_of(given: Any) -> TracerProvider:
    """The provider that is meant: ``given``, or the global one for ``True``. Raises ``otel.no-provider``."""
    found = trace.get_tracer_provider() if given is True else given
    if not isinstance(found, TracerProvider):
        whose = "the global tracer provider" if given is True else "what was given"
        raise OtelNoProvider(found=f"{whose} ({type(found).__name__})")
    return found


class SpanSink:
    """Takes spans, one by one, into a provider. What a processor of it raises is the caller's."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("forkpoint", __version__)
        tracer = self._tracer
        if isinstance(tracer, Tracer) and not isinstance(tracer.id_generator, _Ids):
            tracer.id_generator = _Ids(tracer.id_generator)

    def take(self, told: Span) -> None:
        """Have a span that has ended exported."""
        links = [Link(_place(link), link.attributes) for link in told.links]
        token = _given.set((int(told.trace_id, 16), int(told.span_id, 16)))
        try:
            span = self._tracer.start_span(
                told.name,
                context=self._above(told, links),
                kind=_KINDS[told.kind],
                attributes=told.attributes,
                links=links,
                start_time=told.start_ns,
            )
        finally:
            _given.reset(token)
        for event in told.events:
            span.add_event(event.name, event.attributes, timestamp=event.at_ns)
        if told.status == "error":
            span.set_status(Status(StatusCode.ERROR, told.message or None))
        span.end(end_time=told.end_ns)

    def _above(self, told: Span, links: list[Link]) -> Context:
        """The parent as the SDK wants it; sampled as the trace's first span would be, which is told after it."""
        if told.parent_span_id is None or not isinstance(self._tracer, Tracer):
            return Context()
        found = self._tracer.sampler.should_sample(
            Context(), int(told.trace_id, 16), told.name, _KINDS[told.kind], told.attributes, links
        )
        flags = _SAMPLED if found.decision is Decision.RECORD_AND_SAMPLE else _NOT_SAMPLED
        parent = _place(SpanLink(trace_id=told.trace_id, span_id=told.parent_span_id), flags)
        return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def _place(span: SpanLink, flags: TraceFlags = _SAMPLED) -> SpanContext:
    return SpanContext(int(span.trace_id, 16), int(span.span_id, 16), is_remote=False, trace_flags=flags)
