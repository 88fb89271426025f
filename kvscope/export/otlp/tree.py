"""One request as spans: a root, under it its legs, under these the stages, those behind the path marked so.

A stage lies under the leg that it ended on if it began there too, else under the root: it leads from leg to leg.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Protocol

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from kvscope.export.otlp.identity import SAMPLED, Context, root_of, span_id, trace_of
from kvscope.export.otlp.resources import keyed, utf8
from kvscope.export.otlp.table import Request
from kvscope.export.pieces import DECODE, PREFILL
from kvscope.model.events import Process
from kvscope.model.graph import ALL_NODES, NODE, NODES
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import LEGS, UNKNOWN

LOCAL, REMOTE = 0x100, 0x300
"""Of a span's flags: that its parent is of the same process, of another."""

ON_ROOT = ("received", "prefill_sent", "prefill_returned", "decode_sent", "first_token", "first_byte")
ON_LEG = {PREFILL: ("P.failed",), DECODE: ("D.held", "D.preempted", "failed")}
"""Moments that are told as events of a span."""
_INTERNAL, _SERVER = Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_SERVER
_OWN = struct.Struct("<2s16s2s8s2s8scQcQ").pack
"""What each span has for itself, serialized: trace_id, span_id, parent_span_id, start and end, each after its tag.

They have one width each, and Protobuf takes a message in pieces. Set one by one, they take several times as long."""


class Batch(Protocol):
    """Where spans go."""

    def spans(self, process: Process) -> RepeatedCompositeFieldContainer[Span]:
        """The spans of an engine, to add to."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """The traces that somebody told."""

    parent: Context | None
    """The span of somebody else's that the root lies under."""
    legs: dict[int, Context]
    """Leg -> the span that its engine was told, where that is another."""


@dataclass(slots=True)
class _Leg:
    """Where the spans of a leg go, and when it was."""

    spans: RepeatedCompositeFieldContainer[Span]
    offset: int
    """What to add to its moments to get ns since 1970."""
    first: int
    last: int
    span: bytes
    """Id of its own span; the root's, where it has none."""


class Tree:
    """Adds the spans of one request to a batch."""

    def __init__(self, request: Request, told: Told, offsets: dict[int, int], batch: Batch) -> None:
        """`offsets`: for each leg what to add to its moments to get ns since 1970."""
        self._request, self._told = request, told
        self._root = root_of(request.text, request.peer, min(first for first, _ in request.reach.values()))
        self._top = span_id(self._root, 0)
        self._trace = told.parent.trace if told.parent else trace_of(request.text)
        self._legs = {
            leg: _Leg(batch.spans(engine), offsets[leg], *request.reach[leg], self._top)
            for leg, engine in request.engines.items()
        }
        self._main = self._legs[request.main]

    def grow(self, shared: dict[tuple[int, int], Context]) -> None:
        """Add them. `shared`: the spans of prefill legs that several requests have, of which the first one tells."""
        root = self._add_root()
        for leg in self._legs:
            owner = self._request.shared if leg == PREFILL else None
            if owner is not None and owner in shared:
                _link(root, shared[owner], "shared prefill leg")
                continue
            self._add_leg(leg)
            if owner is not None:
                shared[owner] = Context(self._trace, self._legs[leg].span, SAMPLED)
        self._add_stages()

    def _add_root(self) -> Span:
        request, legs = self._request, self._legs.values()
        begin = min(leg.first + leg.offset for leg in legs)
        begin = request.origin + self._main.offset if request.origin != UNKNOWN else begin
        seen = request.ended != UNKNOWN
        end = request.ended + self._main.offset if seen else max(leg.last + leg.offset for leg in legs)
        parent = self._told.parent
        span = self._main.spans.add(
            trace_id=self._trace,
            span_id=self._top,
            parent_span_id=parent.span if parent else b"",
            flags=REMOTE | parent.flags if parent else LOCAL | SAMPLED,
            name=_name(request.attributes),
            kind=_SERVER,
            start_time_unix_nano=begin,
            end_time_unix_nano=max(begin, end),
            attributes=[*request.attributes, keyed("kvscope.ended", seen)],
        )
        if request.failed:
            span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=utf8(request.failure)))
        if not request.unaligned:  # else nobody can tell where the router's moments lie
            self._add_events(span, self._main.offset, ON_ROOT)
        return span

    def _add_leg(self, leg: int) -> None:
        request, place = self._request, self._legs[leg]
        place.span = span_id(self._root, leg)
        told = {"kvscope.leg": LEGS[leg], "kvscope.request": request.text if leg == request.main else request.peer}
        span = place.spans.add(
            trace_id=self._trace,
            span_id=place.span,
            parent_span_id=self._top,
            flags=LOCAL | SAMPLED,
            name=LEGS[leg],
            kind=_INTERNAL,
            start_time_unix_nano=place.first + place.offset,
            end_time_unix_nano=place.last + place.offset,
            attributes=[keyed(name, value) for name, value in told.items()],
        )
        if leg in self._told.legs:
            _link(span, self._told.legs[leg], "what the engine was told")
        self._add_events(span, place.offset, ON_LEG[leg])

    def _add_events(self, span: Span, offset: int, nodes: tuple[str, ...]) -> None:
        for name in nodes:
            t = self._request.times[NODE[name]]
            if t == UNKNOWN:
                continue
            event = span.events.add(time_unix_nano=t + offset, name=ALL_NODES[NODE[name]].moment)
            if event.name == "failed":
                event.attributes.append(keyed("kvscope.reason", self._request.failure))

    def _add_stages(self) -> None:
        trace, root, top, legs, main = self._trace, self._root, self._top, self._legs, self._main
        for number, (walk, stage, node, leg, step, begin, end) in enumerate(self._request.pieces, len(LEGS)):
            place = legs.get(leg, main)
            parent = place.span if place.first <= begin and end <= place.last and leg in legs else top
            begun, ended = begin + place.offset, end + place.offset
            own = _OWN(b"\n\x10", trace, b"\x12\x08", span_id(root, number), b'"\x08', parent, b"9", begun, b"A", ended)
            place.spans.add().MergeFromString(own + _of_stage(stage, node, walk > 0) + _at_step(step))


@cache
def _of_stage(stage: int, node: int, hidden: bool) -> bytes:
    """What spans of one stage have in common, serialized."""
    told = {"kvscope.class": STAGES[stage].cls.value, "kvscope.ended_by": NODES[node].name, "kvscope.hidden": hidden}
    attributes = [keyed(name, value) for name, value in told.items()]
    common = Span(name=STAGES[stage].name, kind=_INTERNAL, flags=LOCAL | SAMPLED, attributes=attributes)
    return common.SerializeToString()


@lru_cache(1024)
def _at_step(step: int) -> bytes:
    """That a step was running, serialized."""
    return Span(attributes=[keyed("kvscope.step", step)]).SerializeToString() if step else b""


def _link(span: Span, other: Context, why: str) -> None:
    span.links.add(trace_id=other.trace, span_id=other.span, attributes=[keyed("kvscope.link", why)])


def _name(attributes: list[KeyValue]) -> str:
    """As the conventions have it: operation and model."""
    told = {each.key: each.value.string_value for each in attributes[:3]}
    words = (told.get("gen_ai.operation.name", ""), told.get("gen_ai.request.model", ""))
    return " ".join(filter(None, words)) or "request"
