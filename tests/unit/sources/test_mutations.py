"""Damaged recordings: no reader ends in anything but a sentence; what is whole is read, what is not is counted."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.heading import heading
from kvscope.probe.recording import PROCESS, RECORDS, RECORDS_PREFIX, Frames, RecordingError, Writer, unpacked
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE
from kvscope.sources.gathering import Gathering
from kvscope.sources.indexed import Index, Indexed
from kvscope.sources.recording import read_into
from kvscope.sources.records import RECORD, low64

from .mutations import damaged, miswritten, sound_parts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

RAW, MISWRITTEN, INDEXED = 70_000, 20_000, 10_000
"""Mutations: 100,000 in all."""


def recording(parts: int, seed: int) -> bytes:
    """A small one with parts of every kind."""
    draw, file = random.Random(seed), io.BytesIO()
    writer = Writer(file)
    writer.head(heading("f" * 16))
    for process in range(2):
        told = {"engine": f"e{process}", "engine_id": f"e{process}-1", "vllm": "0.33.0"}
        clocks = {"realtime_ns": 1_764_000_000 * 10**9, "monotonic_ns": 10**12, "boot_id": "b"}
        writer.process(process, {"pid": process, "start_ticks": 3, "segments": 2, "lost": 0, "started": told} | clocks)
    written = 0
    for part in range(parts):
        name = f"cmpl-{part}-{'x' * draw.randint(0, 60)}"
        key, rows = encoded(name)[1], np.zeros(draw.randint(1, 12), RECORD)
        rows["sequence"], rows["t"] = np.arange(len(rows)) + 1, 10**12 + 1000 * part + np.arange(len(rows))
        rows["request"], rows["values"] = low64(key), draw.randrange(1000)
        rows["moment"] = [draw.randrange(1, len(MOMENT_CODE)) for _ in rows]
        rows["leg"] = [draw.randrange(1, len(LEG_CODE)) for _ in rows]
        written += len(rows)
        writer.texts([(key, name)])
        writer.records(part % 2, 3, rows.tobytes())
        if part % 4 == 3:
            writer.mark({"monotonic_ns": 10**12, "rings": {}})
    writer.end({"events": written})
    return file.getvalue()


WHOLE = [recording(parts, parts) for parts in (1, 3, 6)]


def gathered(raw: bytes) -> tuple[Events, int]:
    """(what the reader of whole recordings makes of it, how many things it found wrong)"""
    gathering = Gathering()
    notes = read_into(gathering, io.BytesIO(raw), "it")
    assert all("\n" not in note for note in notes)
    return gathering.events(), len(notes)


def expected(raw: bytes) -> int:
    """Records of the parts that are whole and whose process is known by then."""
    known, count = set[int](), 0
    for piece in sound_parts(raw):
        if piece.kind == PROCESS:
            known.add(unpacked(PROCESS, piece.payload).process)  # type: ignore[union-attr]
        elif piece.kind == RECORDS and RECORDS_PREFIX.unpack_from(piece.payload)[0] in known:
            count += RECORDS_PREFIX.unpack_from(piece.payload)[2]
    return count


def test_what_is_whole_is_read_and_what_is_not_is_counted() -> None:
    draw, events, refused = random.Random(11), 0, 0
    for number in range(RAW):
        whole = WHOLE[number % len(WHOLE)]
        raw = damaged(whole, draw)
        try:
            found, wrong = gathered(raw)
        except InputError:
            refused += 1
            assert raw[:16] != whole[:16]
            continue
        assert len(found) == expected(raw)
        assert wrong or set(sound_parts(raw)) >= set(sound_parts(whole))
        events += len(found)
    assert events > RAW
    assert refused < RAW / 5


def test_what_a_faulty_writer_wrote_is_read_as_far_as_it_makes_sense() -> None:
    draw, read = random.Random(12), 0
    for number in range(MISWRITTEN):
        raw = miswritten(WHOLE[number % len(WHOLE)], draw)
        found, _ = gathered(raw)
        read += len(found) > 0
        if number % 25 == 0:
            split(found)
    assert read > MISWRITTEN / 2


@contextmanager
def indexed(raw: bytes) -> Iterator[Index]:
    """A file gone through by time, as a replay does."""
    fd = os.memfd_create("mutation")
    with os.fdopen(fd, "w+b") as file:
        file.write(raw)
        file.seek(0)
        index = Index()
        index.add(file, "it", lambda read: None)
        yield index


def test_going_through_by_time_finds_the_same() -> None:
    draw, same = random.Random(13), 0
    for number in range(INDEXED):
        whole = WHOLE[number % len(WHOLE)]
        raw = (damaged if number % 2 else miswritten)(whole, draw)
        with suppress(InputError), indexed(raw) as index:
            past = Indexed(index)
            found = past.between(past.begin - 1, past.end)
            past.next_after(past.begin)
            rows = gathered(raw)[0].rows
            possible = rows[(rows["t"] != 0) & (np.abs(rows["t"].astype(float)) < 2.0**62)]
            assert len(found) == len(possible)
            same += 1
    assert same > INDEXED / 2


def test_a_stream_that_gives_little_at_a_time_is_read_alike() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 7, 7))

    draw = random.Random(14)
    for number in range(300):
        raw = damaged(WHOLE[number % len(WHOLE)], draw)
        with suppress(RecordingError):
            one, other = Frames(io.BytesIO(raw)), Frames(Slow(raw))
            assert [(each.at, each.kind) for each in one] == [(each.at, each.kind) for each in other]
            assert (one.bad, one.cut) == (other.bad, other.cut)
