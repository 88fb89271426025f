"""What is encoded in bulk is what protobuf itself reads, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.export.perfetto import fields
from kvscope.export.perfetto.fields import messages
from kvscope.export.perfetto.wire import bytes_field, constant, decimal, fixed_field, joined, number_field, one_of

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20)
COUNTS = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20)
TEXTS = st.lists(st.text(max_size=30), min_size=1, max_size=20)


def parsed(data: bytes) -> list[messages.TracePacket]:
    trace = messages.Trace()
    trace.ParseFromString(data)
    return list(trace.packet)


@given(NUMBERS)
def test_numbers(values: list[int]) -> None:
    told = number_field(fields.COUNTER_VALUE, np.array(values, np.int64))
    found = parsed(bytes_field(fields.PACKET, bytes_field(fields.TRACK_EVENT, told)).written())
    assert [packet.track_event.counter_value for packet in found] == values


@given(COUNTS, st.data())
def test_what_is_not_there_takes_no_byte(values: list[int], data: st.DataObject) -> None:
    there = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    told = fixed_field(fields.FLOW_IDS, np.array(values, np.uint64)).where(np.array(there, bool))
    found = parsed(bytes_field(fields.PACKET, bytes_field(fields.TRACK_EVENT, told)).written())
    expected = [[value] if some else [] for value, some in zip(values, there, strict=True)]
    assert [list(packet.track_event.flow_ids) for packet in found] == expected
    by_protobuf = messages.Trace()
    for each in expected:
        by_protobuf.packet.add().track_event.flow_ids.extend(each)
    assert len(bytes_field(fields.PACKET, bytes_field(fields.TRACK_EVENT, told)).written()) == by_protobuf.ByteSize()


@given(TEXTS)
def test_texts_of_different_lengths_side_by_side(texts: list[str]) -> None:
    told = bytes_field(fields.NAME, one_of([text.encode() for text in texts], np.arange(len(texts))))
    found = parsed(bytes_field(fields.PACKET, bytes_field(fields.TRACK_EVENT, told)).written())
    assert [packet.track_event.name for packet in found] == texts


@given(COUNTS)
def test_decimal(values: list[int]) -> None:
    told = bytes_field(fields.NAME, constant(b"step ", len(values)) + decimal(np.array(values, np.int64)))
    found = parsed(bytes_field(fields.PACKET, bytes_field(fields.TRACK_EVENT, told)).written())
    assert [packet.track_event.name for packet in found] == [f"step {value}" for value in values]


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_messages_longer_than_a_length_of_one_byte(rows: int) -> None:
    parts = [bytes_field(fields.ANNOTATION, number_field(fields.ARG_INT, np.full(rows, 2**40))) for _ in range(30)]
    found = parsed(bytes_field(fields.PACKET, bytes_field(fields.TRACK_EVENT, joined(parts, rows))).written())
    assert [len(packet.track_event.debug_annotations) for packet in found] == [30] * rows


def test_numbers_of_fields_are_perfettos() -> None:
    """As they have been since these fields exist: a wrong one would be read as something else."""
    assert (fields.TIMESTAMP, fields.TRACK_EVENT, fields.TRACK, fields.FLOW_IDS) == (8, 11, 11, 47)
