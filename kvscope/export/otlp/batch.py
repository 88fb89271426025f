"""Spans gathered by engine, to be sent or written together."""

from __future__ import annotations

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from kvscope.export.otlp.resources import resource_of, scope
from kvscope.model.events import Process

Spans = RepeatedCompositeFieldContainer[Span]


class Gathered:
    """What is to go out next."""

    def __init__(self) -> None:
        self._message = ExportTraceServiceRequest()
        self._spans: dict[tuple[str, str, str], Spans] = {}

    def __len__(self) -> int:
        return sum(map(len, self._spans.values()))

    def spans(self, process: Process) -> Spans:
        """Those of an engine, to add to."""
        key = (process.engine, process.engine_id, process.host)
        if key not in self._spans:
            of_engine = self._message.resource_spans.add(resource=resource_of(process))
            self._spans[key] = of_engine.scope_spans.add(scope=scope()).spans
        return self._spans[key]

    def taken(self) -> ExportTraceServiceRequest:
        """All of it; there is nothing left."""
        message, self._message = self._message, ExportTraceServiceRequest()
        self._spans.clear()
        return message
