"""Numbers of the fields that are written in bulk, read off Perfetto's own description of its messages."""

from __future__ import annotations

from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

__all__ = ["messages"]


def _number(message: Any, field: str) -> int:  # noqa: ANN401 - generated classes have no type of their own
    return int(message.DESCRIPTOR.fields_by_name[field].number)


PACKET = _number(messages.Trace, "packet")

TIMESTAMP = _number(messages.TracePacket, "timestamp")
SEQUENCE = _number(messages.TracePacket, "trusted_packet_sequence_id")
SEQUENCE_FLAGS = _number(messages.TracePacket, "sequence_flags")
TRACK_EVENT = _number(messages.TracePacket, "track_event")

TYPE = _number(messages.TrackEvent, "type")
TRACK = _number(messages.TrackEvent, "track_uuid")
CATEGORY_IID = _number(messages.TrackEvent, "category_iids")
NAME_IID = _number(messages.TrackEvent, "name_iid")
NAME = _number(messages.TrackEvent, "name")
CORRELATION_IID = _number(messages.TrackEvent, "correlation_id_str_iid")
COUNTER_VALUE = _number(messages.TrackEvent, "counter_value")
FLOW_IDS = _number(messages.TrackEvent, "flow_ids")
ANNOTATION = _number(messages.TrackEvent, "debug_annotations")

ARG_NAME_IID = _number(messages.DebugAnnotation, "name_iid")
ARG_BOOL = _number(messages.DebugAnnotation, "bool_value")
ARG_INT = _number(messages.DebugAnnotation, "int_value")
ARG_TEXT_IID = _number(messages.DebugAnnotation, "string_value_iid")

BEGIN, END, INSTANT, COUNTER = (
    messages.TrackEvent.TYPE_SLICE_BEGIN,
    messages.TrackEvent.TYPE_SLICE_END,
    messages.TrackEvent.TYPE_INSTANT,
    messages.TrackEvent.TYPE_COUNTER,
)
CLEARED = messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
NEEDED = messages.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
