"""What is recorded is read back: whole, in order, with exact losses."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kvscope.probe import layout, process, recorder, ring
from kvscope.probe.process import ERRORS_ALLOWED, fitted
from kvscope.probe.reader import list_rings
from kvscope.probe.recorder import record
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import THREAD_CODE, UNKNOWN

from .conftest import Probe

CAPACITY = 256
FIELDS = ("t", "request", "peer", "moment", "leg", "thread", "state", "rank", "peer_rank", "step", "reason", "flags")


def unpacked(raw: bytes) -> list[tuple[Any, ...]]:
    size = layout.RECORD_BYTES
    return [layout.BODY.unpack_from(raw, at + 8) for at in range(0, len(raw), size)]


def test_every_field_comes_back(probe: Probe) -> None:
    recorder.set_main_role("core")
    record(3, 2, "r", 7, 1, -2, 3, 4, 5, 6, peer="p", state=2, rank=8, peer_rank=9, step=10, reason=11, flags=12)
    raw, cursor, lost = probe.ring().segments()[0].drain(0)
    (body,) = unpacked(raw)
    expected = (7, encoded("r")[1], encoded("p")[1], 3, 2, THREAD_CODE["core"], 2, 8, 9, 10, 11, 12, 1, -2, 3, 4, 5, 6)
    assert (body, cursor, lost) == (expected, 1, 0)


@pytest.mark.parametrize("values", [(), (1,), (1, 2), (1, 2, 3), (1, 2, UNKNOWN, UNKNOWN, UNKNOWN, 6)])
def test_absent_values_are_unknown(probe: Probe, values: tuple[int, ...]) -> None:
    record(3, 2, None, 7, *values)
    (body,) = unpacked(probe.ring().segments()[0].drain(0)[0])
    assert body[len(FIELDS) :] == values + (UNKNOWN,) * (layout.VALUES - len(values))
    assert body[1] == body[2] == layout.NO_KEY


def test_no_time_means_now(probe: Probe) -> None:
    record(3, 2, None, 5)
    record(3, 2, None)
    first, second = unpacked(probe.ring().segments()[0].drain(0)[0])
    assert (first[0], second[0] > 10**6) == (5, True)


@pytest.mark.parametrize("written", [0, 1, CAPACITY - layout.GUARD, CAPACITY, CAPACITY + 1, 3 * CAPACITY + 17])
def test_losses_are_exact(probe: Probe, written: int) -> None:
    record(1, 1, None, 1)
    segment = probe.ring().segments()[0]
    _, cursor, _ = segment.drain(0)
    for number in range(written):
        record(1, 1, None, 1, number)
    raw, following, lost = segment.drain(cursor)
    numbers = [body[len(FIELDS)] for body in unpacked(raw)]
    assert numbers == list(range(lost, written))
    assert following == written + 1
    assert lost == max(0, written + 1 - CAPACITY + layout.GUARD - 1)
    assert segment.drain(following) == (b"", following, 0)


def test_what_the_writer_may_be_inside_of_is_left_out(probe: Probe) -> None:
    for _ in range(CAPACITY + 1):
        record(1, 1, None, 1)
    segment = probe.ring().segments()[0]
    head = segment.events.head()
    _, _, lost = segment.drain(0)
    assert (head, lost) == (CAPACITY + 1, 1 + layout.GUARD)


def test_a_gap_left_by_an_interrupted_record_waits_then_counts(probe: Probe) -> None:
    record(1, 1, None, 1)
    segment = probe.ring().segments()[0]
    recorder.here.state[1]()  # an index taken and never published
    record(1, 1, None, 1)
    assert segment.drain(0)[1:] == (1, 0), "it may yet be filled"
    assert segment.drain(0, final=True)[1:] == (3, 1)
    for _ in range(layout.GUARD):
        record(1, 1, None, 1)
    raw, cursor, lost = segment.drain(1)
    assert (len(raw) // layout.RECORD_BYTES, cursor, lost) == (layout.GUARD + 1, layout.GUARD + 3, 1)


def test_a_finalizer_that_records_inside_a_record_loses_nothing(probe: Probe) -> None:
    class Nosy:
        def __index__(self) -> int:
            record(2, 1, "inner", 1)
            return 5

    record(1, 1, None, 1, 0)
    record(1, 1, "outer", 1, Nosy())
    bodies = unpacked(probe.ring().segments()[0].drain(0)[0])
    assert [body[3] for body in bodies] == [1, 1, 2]


@pytest.mark.parametrize("length", [1, 79, 80, 81, 160, 500, 1000])
@pytest.mark.parametrize("letter", ["a", "é", "語", "😀"])
def test_texts_are_whole(probe: Probe, length: int, letter: str) -> None:
    wanted = letter * length
    record(1, 1, wanted, 1)
    (pair,), _, lost = probe.ring().segments()[0].drain_texts(0)
    if len(wanted.encode()) <= layout.TEXT_CHUNK * (CAPACITY // 4 - layout.GUARD):
        assert (pair, lost) == ((encoded(wanted)[1], wanted), 0)


def test_a_text_is_written_once(probe: Probe) -> None:
    for _ in range(50):
        record(1, 1, "a", 1, peer="b")
    pairs, _, _ = probe.ring().segments()[0].drain_texts(0)
    assert [text for _, text in pairs] == ["a", "b"]


def test_a_text_in_use_is_always_in_the_ring_and_the_cache_is_bounded(probe: Probe) -> None:
    for number in range(1000):
        record(1, 1, f"request-{number}", 1, peer="the engine")
        assert len(recorder.here.state[4]) <= CAPACITY // 8 + 1
    texts = {text for _, text in probe.ring().segments()[0].drain_texts(0)[0]}
    assert {"the engine", "request-999", "request-980"} <= texts


def test_a_text_too_long_for_the_ring_is_counted(probe: Probe) -> None:
    record(1, 1, "x" * 100_000, 1)
    ring = probe.ring()
    assert (ring.header.untold, ring.segments()[0].drain(0)[1]) == (1, 1)


def test_lone_surrogates_do_no_harm(probe: Probe) -> None:
    record(1, 1, "a\ud800b", 1)
    assert probe.ring().header.errors == 0


def test_text_gives_the_bits_of_key64(probe: Probe) -> None:
    for name in ("p0", "d0", "d1"):
        assert recorder.text(name) % 2**64 == recorder.key64(name)
    assert recorder.text(None) == UNKNOWN
    assert len(probe.ring().segments()[0].drain_texts(0)[0]) == 3


def test_off_records_nothing_and_on_goes_on(probe: Probe) -> None:
    record(1, 1, "a", 1)
    control = recorder._process.file.control  # type: ignore[union-attr]
    control[0] = 0
    record(1, 1, "b", 1)
    assert (recorder.text("c"), recorder.is_on()) == (UNKNOWN, False)
    control[0] = 1
    record(1, 1, "b", 1)
    segment = probe.ring().segments()[0]
    assert segment.drain(0)[1:] == (2, 0)
    assert [text for _, text in segment.drain_texts(0)[0]] == ["a", "b"]


def test_bad_values_are_void_records_and_enough_of_them_switch_it_off(
    probe: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    record(1, 1, "a", 1)
    for _ in range(ERRORS_ALLOWED + 20):
        record(1, 1, "a", 1, step=-1)
    record(1, 1, "a", 1)
    ring = probe.ring()
    moments = [body[3] for body in unpacked(ring.segments()[0].drain(0)[0])]
    assert moments == [1] + [0] * ERRORS_ALLOWED
    assert (ring.header.errors, ring.header.on) == (ERRORS_ALLOWED, False)
    assert ring.header.self_off.startswith(f"{ERRORS_ALLOWED} internal errors, the last one error: ")
    assert capsys.readouterr().err.count("\n") == 1


def test_threads_have_rings_of_their_own_and_leave_them_to_the_next(probe: Probe) -> None:
    def run(name: str) -> None:
        thread = threading.Thread(target=record, args=(1, 1, name, 1), name=name)
        thread.start()
        thread.join()

    for name in ("nixl-push-writer", "other", "vllm-nixl-handshake-initiator_0", "nixl_handshake_listener"):
        run(name)
    segments = probe.ring().segments()
    raw = b"".join(segment.drain(0)[0] for segment in segments)
    roles = {body[5] for body in unpacked(raw)}
    assert roles == {THREAD_CODE[name] for name in ("writer", "unknown", "handshake", "listener")}
    assert sum(segment.events.head() for segment in segments) == 4
    assert len(segments) < 4, "ended threads' rings are used again"


def test_set_role_changes_the_thread_that_asks(probe: Probe) -> None:
    record(1, 1, None, 1)
    recorder.set_role("worker")
    record(1, 1, None, 1)
    bodies = unpacked(probe.ring().segments()[0].drain(0)[0])
    assert bodies[1][5] == THREAD_CODE["worker"]
    assert probe.ring().segments()[0].thread == "worker"


def test_over_the_budget_events_are_counted(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVSCOPE_SHM_BYTES", "65536")
    record(1, 1, "a", 1)

    def more() -> None:
        for _ in range(7):
            record(1, 1, "b", 1)

    thread = threading.Thread(target=more)
    thread.start()
    thread.join()
    header = probe.ring().header
    assert (header.refused, header.segments) == (7, 1)
    assert "KVSCOPE_SHM_BYTES" in header.note
    assert capsys.readouterr().err.count("\n") == 1
    assert header.file_bytes <= header.stated_bytes == 65536


def test_what_was_missed_before_there_was_a_file_is_counted_once_there_is_one(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    probe.run_dir.write_text("in the way")

    def some() -> None:
        for number in range(7):
            record(1, 1, "a", 1, recorder.text("not counted"), number)

    some()
    thread = threading.Thread(target=some)
    thread.start()
    thread.join()
    probe.run_dir.unlink()
    some()
    assert not probe.run_dir.exists(), "it is not tried again at once"
    monkeypatch.setattr(process, "monotonic_ns", lambda: time.monotonic_ns() + process.RETRY_NS)
    some()
    ring = probe.ring()
    assert (ring.header.refused, ring.segments()[0].drain(0)[1]) == (21, 7)
    assert ring.header.note.startswith(f"recorded nothing at first: cannot record in {probe.run_dir}: ")
    assert capsys.readouterr().err.count("\n") == 1


def test_room_that_appears_is_taken(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    record(1, 1, "a", 1)
    room, later = [False], [0]
    segment = ring.ProcessFile.segment

    def scarce(file: ring.ProcessFile, role: str) -> ring.Segment:
        if not room[0]:
            raise ring.NoRoom("none")
        return segment(file, role)

    monkeypatch.setattr(ring.ProcessFile, "segment", scarce)
    monkeypatch.setattr(recorder, "monotonic_ns", lambda: time.monotonic_ns() + later[0])

    def more() -> None:
        for room[0], later[0] in ((False, 0), (True, 0), (True, process.RETRY_NS)):
            for _ in range(5):
                record(1, 1, "b", 1)

    thread = threading.Thread(target=more)
    thread.start()
    thread.join()
    found = probe.ring()
    assert (found.header.refused, found.segments()[1].drain(0)[1]) == (10, 5)


def test_before_a_thread_has_rings_the_check_sees_what_was_switched(probe: Probe) -> None:
    assert recorder.here.control[0] == 1
    record(1, 1, "a", 1)
    recorder._process.file.control[0] = 0  # type: ignore[union-attr]
    seen: list[int] = []

    def other() -> None:
        seen.append(recorder.here.control[0])
        record(1, 1, "b", 1)
        seen.append(recorder.here.control[0])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert (seen, recorder.here.control[0]) == ([1, 0], 0)


def test_a_bad_setting_is_named(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVSCOPE_SHM_BYTES", "8M")
    for _ in range(3):
        record(1, 1, "a", 1)
    assert "KVSCOPE_SHM_BYTES is not a whole number: 8M" in capsys.readouterr().err
    assert not list_rings(probe.run_dir)


def test_started_is_merged_and_opens_no_file(probe: Probe) -> None:
    recorder.describe({"engine": "p0", "vllm": "0.32.0"})
    assert not list_rings(probe.run_dir)
    record(1, 1, None, 1)
    assert probe.ring().started == {"engine": "p0", "vllm": "0.32.0"}
    recorder.describe({"engine": "p1", "block_size": 16})
    assert probe.ring().started == {"engine": "p1", "vllm": "0.32.0", "block_size": 16}


def test_started_that_is_too_long_says_what_it_dropped(probe: Probe) -> None:
    record(1, 1, None, 1)
    recorder.describe({"engine": "p0", "huge": "x" * 20_000, "big": "y" * 12_260, "small": 1})
    assert probe.ring().started == {"engine": "p0", "small": 1, "dropped": ["huge", "big"]}


def test_started_never_outgrows_its_room() -> None:
    for room in (2, 30, 40, 100):
        assert len(fitted({"a": "x" * 90, "b": 2}, room)) <= max(room, 2)


def test_a_note_is_listed(probe: Probe) -> None:
    recorder.note_uninstrumented("unknown scheduler.py of vLLM 9.9.9")
    assert probe.ring().header.note == "unknown scheduler.py of vLLM 9.9.9"
