"""Errors of telling OpenTelemetry what runs do."""

from forkpoint.errors._base import ForkpointError


class OtelNoProvider(ForkpointError):
    """Spans were asked for, and there is no tracer provider of the OpenTelemetry SDK to take them."""

    code = "otel.no-provider"
    kind = "usage"
    says = "Spans were asked for, but {found} is no TracerProvider of the OpenTelemetry SDK; nothing was written"
    why = "A span's ids come from the journal, and only the SDK's own provider lets them be given."
    fix = "Call opentelemetry.trace.set_tracer_provider before connect, or give connect(otel=provider)."
    found: str
