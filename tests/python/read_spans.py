"""Reads requests of OTLP (one per line, in base64) on standard input with the
messages that OpenTelemetry publishes, and writes the spans as JSON."""

import base64
import json
import sys

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def facts(attributes):
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in attributes}


spans = []
for line in sys.stdin:
    body = base64.b64decode(line)
    request = ExportTraceServiceRequest.FromString(body)
    # What is not known is kept, but not in the same order.
    assert request.ByteSize() == len(body)
    request.DiscardUnknownFields()
    assert request.ByteSize() == len(body), "there are unknown fields"
    for of_resource in request.resource_spans:
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                spans.append({
                    "name": span.name,
                    "kind": span.kind,
                    "traceId": span.trace_id.hex(),
                    "spanId": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "begin": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "status": span.status.code,
                    "facts": facts(span.attributes),
                    "resource": facts(of_resource.resource.attributes),
                    "scope": of_scope.scope.name,
                })
json.dump(spans, sys.stdout)
