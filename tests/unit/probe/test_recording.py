"""A recording gives back what was put in, up to the last whole part."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.probe import layout, recording
from kvscope.probe.reader import RingError
from kvscope.probe.recorder import record
from kvscope.probe.recording import (
    EndPart,
    Frames,
    MarkPart,
    Part,
    ProcessPart,
    RecordingError,
    RecordsPart,
    TextsPart,
    Writer,
    parts,
    times,
)
from kvscope.probe.tap import Tap

from .conftest import Probe

RAW = random.Random(2).randbytes(layout.RECORD_BYTES * 20)
PARTS: list[Part] = [
    ProcessPart(0, {"engine": "p0", "process": 0}),
    TextsPart([(b"k" * 16, "a"), (b"l" * 16, ""), (b"m" * 16, "語" * 500)]),
    RecordsPart(0, 4, RAW),
    RecordsPart(0, 5, RAW[: layout.RECORD_BYTES]),
    MarkPart({"monotonic_ns": 7, "rings": {}}),
    EndPart({"events": 21}),
]


def written(wanted: list[Part]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file)
    for part in wanted:
        match part:
            case ProcessPart(process, info):
                writer.process(process, info)
            case RecordsPart(process, thread, raw):
                writer.records(process, thread, raw)
            case TextsPart(pairs):
                writer.texts(pairs)
            case MarkPart(info):
                writer.mark(info)
            case EndPart(info):
                writer.end(info)
    return file.getvalue()


class Slow(io.BytesIO):
    """A pipe that gives little at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 7, 7))


def test_what_goes_in_comes_out() -> None:
    found = parts(io.BytesIO(written(PARTS)))
    assert (list(found), found.bad, found.cut) == (PARTS, 0, False)


@given(st.binary(max_size=40).map(lambda raw: raw * layout.RECORD_BYTES))
def test_columns_are_the_same_bytes(raw: bytes) -> None:
    assert recording.from_columns(recording.to_columns(raw), len(raw) // layout.RECORD_BYTES) == raw


def test_nothing_to_keep_is_no_part() -> None:
    assert written([RecordsPart(0, 0, b""), TextsPart([])]) == written([])


def test_every_cut_gives_the_whole_parts_before_it() -> None:
    whole = written(PARTS)
    ends = [len(written(PARTS[:count])) for count in range(len(PARTS) + 1)]
    for size in range(recording.FILE_HEADER.size, len(whole) + 1):
        found = parts(io.BytesIO(whole[:size]))
        kept = sum(end <= size for end in ends) - 1
        assert list(found) == PARTS[:kept]
        assert (found.bad, found.cut) == (0, size not in ends)


def test_a_damaged_part_is_skipped_and_counted() -> None:
    whole = written(PARTS)
    for at in range(recording.FILE_HEADER.size, len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        found = parts(io.BytesIO(bytes(damaged)))
        kept = list(found)
        assert len(kept) == len(PARTS) - 1
        assert all(part in PARTS for part in kept)
        assert found.bad == 1


def test_it_reads_from_a_pipe_that_gives_little() -> None:
    assert list(parts(Slow(written(PARTS)))) == PARTS


@pytest.mark.parametrize("rubbish", range(30))
def test_what_follows_rubbish_is_found_wherever_a_read_ends(rubbish: int) -> None:
    whole = written(PARTS)
    at = len(written(PARTS[:1]))
    found = parts(Slow(whole[:at] + b"x" * rubbish + whole[at:]))
    assert (list(found), found.bad) == (PARTS, int(rubbish > 0))


def test_an_unknown_kind_is_passed_over_and_counted() -> None:
    whole = written(PARTS)
    at = len(written(PARTS[:1]))
    file = io.BytesIO()
    Writer(file)._part(77, b"from a later version")
    found = parts(io.BytesIO(whole[:at] + file.getvalue()[recording.FILE_HEADER.size :] + whole[at:]))
    assert (list(found), found.bad, found.cut) == (PARTS, 1, False)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("pid", "1"), ("lost", float("inf")), ("refused", None), ("started", [1]), ("boot_id", 7), ("process", "0")],
)
def test_a_process_of_which_something_impossible_is_said_is_passed_over_and_counted(name: str, wrong: object) -> None:
    file = io.BytesIO()
    writer = Writer(file)
    writer.process(0, {"pid": 1})
    writer._part(recording.PROCESS, json.dumps({"process": 1, "pid": 2, name: wrong}).encode())
    writer._part(recording.PROCESS, b"[]")
    found = parts(io.BytesIO(file.getvalue()))
    assert (list(found), found.bad) == ([ProcessPart(0, {"pid": 1, "process": 0})], 2)


def test_a_frame_says_where_its_payload_lies() -> None:
    whole = written(PARTS)
    frames = list(Frames(io.BytesIO(whole)))
    assert [whole[frame.at : frame.at + len(frame.payload)] for frame in frames] == [each.payload for each in frames]
    assert [frame.kind for frame in frames] == [1, 3, 2, 2, 5, 4]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=300))
def test_times_are_had_without_the_rest(wanted: list[int]) -> None:
    raw = b"".join(RAW[:8] + struct.pack("=q", t) + RAW[16 : layout.RECORD_BYTES] for t in wanted)
    frame = next(Frames(io.BytesIO(written([RecordsPart(9, 4, raw)]))))
    process, found = times(frame.payload)
    assert (process, memoryview(found).cast("q").tolist()) == (9, wanted)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not a kvscope recording"),
        (b"KVSC", "not a kvscope recording"),
        (b"{}" * 20, "not a kvscope recording"),
        (b"KVSCREC\n\x63\x00" + bytes(6), "recording of version 99, this reader knows 1"),
    ],
)
def test_other_files_are_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(RecordingError, match=reason):
        parts(io.BytesIO(raw))


def test_a_tap_takes_each_record_once(probe: Probe) -> None:
    file = io.BytesIO()
    tap = Tap(probe.run_dir, Writer(file))
    for lap in range(5):
        for number in range(100):
            record(1, 1, f"{lap}-{number}", 1, lap * 100 + number)
        assert tap.poll() == 100
    tap.end()
    kept = list(parts(io.BytesIO(file.getvalue())))
    raw = b"".join(part.raw for part in kept if isinstance(part, RecordsPart))
    assert [layout.BODY.unpack_from(raw, at + 8)[12] for at in range(0, len(raw), layout.RECORD_BYTES)] == list(
        range(500)
    )
    assert kept[-1] == EndPart({"processes": 1, "events": 500, "lost": 0})
    texts = [text for part in kept if isinstance(part, TextsPart) for _, text in part.pairs]
    assert len(texts) + tap.texts_lost == 500


def test_another_tap_goes_on_from_a_mark(probe: Probe) -> None:
    taken: list[int] = []
    since = None
    for lap in range(6):
        file = io.BytesIO()
        tap = Tap(probe.run_dir, Writer(file), since=since)
        for number in range(20):
            record(1, 1, f"{lap}-{number}", 1, lap * 20 + number)
        tap.poll()
        tap.mark()
        record(1, 1, "after it", 1, -1)
        *kept, mark = list(parts(io.BytesIO(file.getvalue())))
        assert isinstance(mark, MarkPart)
        since = mark.info["rings"]
        raw = b"".join(part.raw for part in kept if isinstance(part, RecordsPart))
        taken += [layout.BODY.unpack_from(raw, at + 8)[12] for at in range(0, len(raw), layout.RECORD_BYTES)]
        (info,) = [part.info for part in kept if isinstance(part, ProcessPart)]
        assert (info["lost"], info["earlier"]) == (0, 0)
    assert [number for number in taken if number >= 0] == list(range(120))
    assert taken.count(-1) == 5


def test_what_is_overwritten_between_a_mark_and_the_next_tap_is_lost_not_earlier(probe: Probe) -> None:
    file = io.BytesIO()
    tap = Tap(probe.run_dir, Writer(file))
    for number in range(10):
        record(1, 1, "a", 1, number)
    tap.poll()
    tap.mark()
    *_, mark = parts(io.BytesIO(file.getvalue()))
    assert isinstance(mark, MarkPart)
    capacity = probe.ring().segments()[0].events.capacity
    for number in range(3 * capacity):
        record(1, 1, "a", 1, number)
    later = Tap(probe.run_dir, Writer(io.BytesIO()), since=mark.info["rings"])
    drained = later.poll()
    assert (drained + later.lost, later.earlier) == (3 * capacity, 0)
    assert 0 < drained <= capacity


def kinds(file: io.BytesIO) -> list[type[Part]]:
    return [type(part) for part in parts(io.BytesIO(file.getvalue())) if not isinstance(part, ProcessPart)]


def test_a_tap_holds_what_it_drains_until_the_end_and_then_writes_it_as_one(probe: Probe) -> None:
    file = io.BytesIO()
    tap = Tap(probe.run_dir, Writer(file), hold_s=1e9)
    for lap in range(5):
        record(1, 1, f"{lap}", 1)
        tap.poll()
        assert (tap.events, kinds(file)) == (1, [TextsPart, RecordsPart]), "the first is written at once"
    tap.end()
    assert (tap.events, kinds(file)) == (5, [TextsPart, RecordsPart] * 2 + [EndPart])


def test_what_a_tap_holds_is_bounded_in_time_and_number(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    for hold_s, most in ((0, 1000), (1e9, 2)):
        monkeypatch.setattr("kvscope.probe.tap.HOLD_RECORDS", most)
        tap = Tap(probe.run_dir, Writer(io.BytesIO()), hold_s)
        for _ in range(5):
            record(1, 1, "a", 1)
            record(1, 1, "a", 1)
            drained = tap.poll()
            assert drained >= 2
        assert tap.events == head(probe)


def head(probe: Probe) -> int:
    return sum(segment.events.head() for segment in probe.ring().segments())


def test_what_a_tap_holds_is_kept_when_the_directory_can_no_longer_be_read(probe: Probe) -> None:
    tap = Tap(probe.run_dir, Writer(io.BytesIO()), hold_s=1e9)
    tap.poll()
    record(1, 1, "a", 1)
    tap.poll()
    assert tap.events == 0
    probe.run_dir.rename(probe.run_dir.with_name("moved"))
    probe.run_dir.write_text("in the way")
    with pytest.raises(RingError):
        tap.poll()
    assert tap.events == 1


ODD = {
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "no text": b"\xff\xfe",
    "nothing": b"",
    "too large a number": json.dumps({"process": 0, "lost": 10**30}).encode(),
    "no number": json.dumps({"process": "first"}).encode(),
}


@pytest.mark.parametrize("payload", ODD.values(), ids=ODD.keys())
def test_what_makes_no_sense_is_passed_over_and_counted(payload: bytes) -> None:
    header = recording.PART_HEADER.pack(recording.PART_MAGIC, recording.PROCESS, len(payload), zlib.crc32(payload))
    odd = header + recording.HEADER_CRC.pack(zlib.crc32(header)) + payload
    file = written(PARTS)
    head, rest = file[: recording.FILE_HEADER.size], file[recording.FILE_HEADER.size :]
    found = parts(io.BytesIO(head + odd + rest))
    assert (list(found), found.bad, found.cut) == (PARTS, 1, False)


def test_what_lies_within_a_damaged_part_is_found() -> None:
    file = bytearray(written(PARTS))
    with io.BytesIO(file) as source:
        first = next(iter(Frames(source)))
    del file[first.at : first.at + 5]  # its length now reaches into the next part
    found = parts(io.BytesIO(file))
    assert (list(found), found.bad, found.cut) == (PARTS[1:], 1, False)


def test_a_part_that_lacks_a_stretch_hides_none_of_those_before_the_end() -> None:
    large = RecordsPart(0, 4, RAW * 50)
    file = bytearray(written([PARTS[0], large, *PARTS[1:]]))
    with io.BytesIO(file) as source:
        second = list(Frames(source))[1]
    del file[second.at + 100 : second.at + len(second.payload) - 100]
    found = parts(io.BytesIO(file))
    assert (list(found), found.bad, found.cut) == (PARTS, 1, False)
