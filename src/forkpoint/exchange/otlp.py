"""Spans as OTLP/JSON: one request that any collector takes, from a file or over HTTP. Pure.

Source: the OpenTelemetry protocol's JSON encoding of ``ExportTraceServiceRequest``: lowerCamelCase names, ids in hex,
64-bit integers and times in ns as strings, enums as numbers.
"""

import json
from collections.abc import Iterable
from typing import Any

from forkpoint import __version__
from forkpoint.timetravel.span_shapes import Attributes, Span, Value

_KINDS = {"internal": 1, "client": 3}
_ERROR = 2


def otlp_bytes(spans: Iterable[Span], *, service: str = "forkpoint") -> bytes:
    """``spans`` as one line of ASCII; ``service`` is what the resource is called.

    It is the body of a POST to a collector's ``/v1/traces`` with ``Content-Type: application/json``, and a line of the
    files that a collector's OTLP/JSON file receiver reads.
    """
    resource = {"attributes": _attributes({"service.name": service})}
    scope = {"name": "forkpoint", "version": __version__}
    scoped = {"scope": scope, "spans": [_span(span) for span in spans]}
    request = {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}
    return json.dumps(request, separators=(",", ":")).encode() + b"\n"


def _span(span: Span) -> dict[str, Any]:
    told: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_span_id is not None:
        told["parentSpanId"] = span.parent_span_id
    told |= {
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.events:
        told["events"] = [
            {"timeUnixNano": str(event.at_ns), "name": event.name, "attributes": _attributes(event.attributes)}
            for event in span.events
        ]
    if span.links:
        told["links"] = [
            {"traceId": link.trace_id, "spanId": link.span_id, "attributes": _attributes(link.attributes)}
            for link in span.links
        ]
    status: dict[str, Any] = {"code": _ERROR} if span.status == "error" else {}
    return told | {"status": status | ({"message": span.message} if status and span.message else {})}


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case tuple():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
