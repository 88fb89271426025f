"""A reader refuses what it cannot read, by name, and is never hurt by it."""

from __future__ import annotations

import os
import random
import resource
from pathlib import Path

import pytest

from kvscope.probe import control, layout
from kvscope.probe.reader import RingError, RingFile, list_rings
from kvscope.probe.recorder import describe, record

from .conftest import Probe


@pytest.fixture
def ring_bytes(probe: Probe) -> bytes:
    """A whole ring file, lapped, with texts."""
    for number in range(400):
        record(1, 1, f"request-{number}", 1, number)
    return probe.ring().path.read_bytes()


def saved(tmp_path: Path, raw: bytes) -> Path:
    path = tmp_path / "1-2-abc.ring"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda raw: raw[:100], "100 bytes is too short"),
        (lambda raw: b"GARBAGE!" + raw[8:], "not a ring file"),
        (lambda raw: raw[7::-1] + raw[8:], "other byte order"),
        (lambda raw: raw[:8] + bytes([99]) + raw[9:], f"layout version 99, this reader knows {layout.VERSION}"),
        (lambda raw: b"", "0 bytes is too short"),
    ],
)
def test_it_names_the_file_and_the_reason(tmp_path: Path, ring_bytes: bytes, change: object, reason: str) -> None:
    path = saved(tmp_path, change(ring_bytes))  # type: ignore[operator]
    with pytest.raises(RingError, match=reason) as caught:
        RingFile(path)
    assert str(path) in str(caught.value)


def test_a_file_cut_short_is_named(tmp_path: Path, ring_bytes: bytes) -> None:
    ring = RingFile(saved(tmp_path, ring_bytes[: layout.SEGMENTS_AT + 100]))
    with pytest.raises(RingError, match="cut short"):
        ring.segments()


def test_a_bad_file_does_not_hide_the_others(probe: Probe, ring_bytes: bytes) -> None:
    saved(probe.run_dir, b"x" * 50_000)
    faults: list[RingError] = []
    assert len(list_rings(probe.run_dir, faults)) == len(faults) == 1
    with pytest.raises(RingError):
        list_rings(probe.run_dir)


def test_garbage_raises_ring_errors_only(tmp_path: Path, ring_bytes: bytes) -> None:
    source, path = random.Random(1), tmp_path / "1-2-abc.ring"
    read, faults = 0, []
    for _ in range(300):
        raw = bytearray(ring_bytes)
        for _ in range(source.choice((1, 50, 5000))):
            raw[source.randrange(16, len(raw))] = source.randrange(256)
        path.write_bytes(raw)
        try:
            ring = RingFile(path)
            header, started, alive = ring.header, ring.started, ring.alive
            for segment in ring.segments():
                events, _, lost = segment.drain(0, final=True)
                segment.drain_texts(0, final=True)
                assert len(events) % layout.RECORD_BYTES == 0
                assert lost >= 0
            assert (header.pid >= 0, isinstance(started, dict), alive) == (True, True, False)
            read += 1
        except RingError as error:
            faults.append(str(error))
    assert read > 30
    assert all(str(path) in fault for fault in faults)


def test_what_is_named_like_a_ring_and_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1-2-pipe.ring")
    (tmp_path / "1-2-folder.ring").mkdir()
    (tmp_path / "1-2-lost.ring").symlink_to(tmp_path / "nowhere")
    faults: list[RingError] = []
    assert list_rings(tmp_path, faults) == []
    assert [str(fault) for fault in faults] == [
        f"{tmp_path}/1-2-{name}.ring: not a file" for name in ("folder", "pipe")
    ]


def test_no_directory_is_no_rings(tmp_path: Path) -> None:
    assert list_rings(tmp_path / "none") == []


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RingError, match="is not a directory"):
        list_rings(tmp_path / "file")


def test_a_directory_that_there_is_no_file_left_for_is_named(tmp_path: Path) -> None:
    """As it is in a process that has as many open as it may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(RingError, match=f"{tmp_path} cannot be read: too many open files"):
            list_rings(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_switching_reaches_the_engine_that_is_named(probe: Probe) -> None:
    describe({"engine": "p0"})
    record(1, 1, None, 1)
    assert control.switch(probe.run_dir, "d0", on=False) == []
    (changed,) = control.switch(probe.run_dir, "p0", on=False)
    record(1, 1, None, 1)
    assert (changed.engine, changed.was_on, probe.ring().segments()[0].events.head()) == ("p0", True, 1)
    control.switch(probe.run_dir, None, on=True)
    record(1, 1, None, 1)
    assert (probe.ring().header.on, probe.ring().segments()[0].events.head()) == (True, 2)


def test_the_living_are_not_cleared(probe: Probe) -> None:
    record(1, 1, None)
    assert control.remove_dead(probe.run_dir) == []


def test_the_dead_go_by_age(tmp_path: Path, probe: Probe) -> None:
    record(1, 1, None)
    path = saved(tmp_path, probe.ring().path.read_bytes())
    assert control.remove_dead(tmp_path, older_than_s=1000) == []
    assert control.remove_dead(tmp_path) == [path]
    assert not path.exists()
