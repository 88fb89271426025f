"""Hand-written requests as spans, for tests that look at these."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from kvscope.core.critical_path import split
from kvscope.core.hosts import ALONE
from kvscope.export.otlp.batch import Gathered
from kvscope.export.otlp.contexts import Contexts
from kvscope.export.otlp.trees import Trees
from kvscope.model.wallclock import WallClock
from kvscope.sources.jsonl import parse_jsonl

WALL = 1_800_000_000_000_000_000
Items = list[dict[str, Any]]


def grown(items: Items, wall: int | None = WALL) -> tuple[list[tuple[str, Span]], Trees]:
    """Spans with their service, of moments whose arrivals tell the time of day."""
    for item in items:
        if item["moment"] == "arrived" and wall is not None:
            item.setdefault("wall_ns", item["t"] + wall)
    events = parse_jsonl(map(json.dumps, items)).events
    clock, contexts = WallClock(), Contexts()
    clock.take(events)
    contexts.take(events)
    trees, gathered = Trees(clock, contexts), Gathered()
    trees.grow(split(events, hosts=ALONE), gathered)
    groups = gathered.taken().resource_spans
    names = [
        {each.key: each.value.string_value for each in group.resource.attributes}["service.name"] for group in groups
    ]
    found = [(name, span) for name, group in zip(names, groups, strict=True) for span in group.scope_spans[0].spans]
    return found, trees


def told(span: Span) -> dict[str, Any]:
    """Its attributes."""
    values = ((each.key, each.value, str(each.value.WhichOneof("value"))) for each in span.attributes)
    return {
        key: [each.string_value for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
        for key, value, kind in values
    }


def roots(spans: list[tuple[str, Span]]) -> list[Span]:
    return [span for _, span in spans if span.kind == Span.SPAN_KIND_SERVER]


def only(spans: list[tuple[str, Span]]) -> Span:
    (root,) = roots(spans)
    return root


def root_of(span: Span, spans: list[tuple[str, Span]]) -> Span:
    by_id = {each.span_id: each for _, each in spans}
    while span.parent_span_id:
        span = by_id[span.parent_span_id]
    return span
