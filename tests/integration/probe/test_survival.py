"""Killed at any instant, or read at full speed: nothing published is lost, nothing torn is accepted."""

from __future__ import annotations

import mmap
import os
import random
import signal
from pathlib import Path

import pytest

from kvscope.probe import layout, reader

from .conftest import Start

KILLS = 200

# Forks a child for each line it reads. The child records for ever, and says after each record how far it is.
ZYGOTE = """
import mmap, os
progress = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8)).cast("Q")
for _ in sys.stdin:
    pid = os.fork()
    if pid == 0:
        number = 0
        while True:
            record(1 + number % 30, 2, f"request-{number // 20}", number + 1, number, number * 7, step=number)
            number += 1
            progress[0] = number
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("dead", flush=True)
"""


def checked(raw: bytes, first: int) -> int:
    """Check that these are the records [first, ...) as ZYGOTE makes them; returns the index after the last."""
    for number, at in enumerate(range(0, len(raw), layout.RECORD_BYTES), first):
        (sequence,) = memoryview(raw)[at : at + 8].cast("Q")
        t, _, _, moment, leg, _, _, _, _, step, _, _, *values = layout.BODY.unpack_from(raw, at + 8)
        assert (sequence, t, moment, leg, step) == (number + 1, number + 1, 1 + number % 30, 2, number)
        assert values[:2] == [number, number * 7]
    return first + len(raw) // layout.RECORD_BYTES


@pytest.mark.slow
def test_killed_at_random_instants(start: Start, run_dir: Path, tmp_path: Path, small_ring: int) -> None:
    source = random.Random(7)
    shared = tmp_path / "progress"
    shared.write_bytes(bytes(8))
    fd = os.open(shared, os.O_RDWR)
    progress = memoryview(mmap.mmap(fd, 8)).cast("Q")
    os.close(fd)
    zygote = start(ZYGOTE, str(shared))
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    found = 0
    for _ in range(KILLS):
        progress[0] = 0
        target = source.choice((0, 1, source.randrange(small_ring), source.randrange(6 * small_ring)))
        zygote.stdin.write("\n")
        zygote.stdin.flush()
        pid = int(zygote.stdout.readline())
        while progress[0] < target:
            reader.list_rings(run_dir)
        os.kill(pid, signal.SIGKILL)
        assert zygote.stdout.readline() == "dead\n"
        told = progress[0]
        for ring in reader.list_rings(run_dir):
            assert not ring.alive
            found += 1
            for segment in ring.segments():
                raw, cursor, lost = segment.drain(0, final=True)
                assert checked(raw, lost) == cursor
                assert told <= cursor <= told + 1
                assert len(raw) // layout.RECORD_BYTES >= min(cursor, small_ring - layout.GUARD)
                segment.drain_texts(0, final=True)
            ring.path.unlink()
    assert found > KILLS * 0.6
    assert {path.suffix for path in run_dir.iterdir()} <= {".new"}


HASTY = """
sys.stdin.readline()
for number in range(int(sys.argv[1])):
    record(1 + number % 30, 2, f"request-{number // 20}", number + 1, number, number * 7, step=number)
"""


@pytest.mark.slow
def test_read_at_full_speed_while_written_at_full_speed(start: Start, run_dir: Path, small_ring: int) -> None:
    total = 200_000
    writer = start(HASTY, str(total))
    assert writer.stdin is not None
    writer.stdin.write("\n")
    writer.stdin.flush()
    cursor = texts_cursor = kept = lost = drains = 0
    texts: set[str] = set()
    ended = False
    while not ended:
        ended = writer.poll() is not None
        for ring in reader.list_rings(run_dir):
            for segment in ring.segments():
                raw, following, missed = segment.drain(cursor, final=ended)
                assert checked(raw, cursor + missed) == following
                kept, lost, cursor = kept + len(raw) // layout.RECORD_BYTES, lost + missed, following
                pairs, texts_cursor, _ = segment.drain_texts(texts_cursor, final=ended)
                texts.update(text for _, text in pairs)
                drains += bool(raw)
    assert writer.returncode == 0
    assert (kept + lost, cursor) == (total, total)
    assert drains > 10
    assert kept > small_ring
    assert texts <= {f"request-{number}" for number in range(total // 20)}
