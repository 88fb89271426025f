"""How fast a long recording is gone through and played, and the memory that takes.

    python benchmarks/replay_rate.py [--minutes 60] [--copies 6] [--speed 100] [--computed]

The recording is one of docs/pictures, laid over itself `copies` times and repeated: 164 events a second each, with ids
of their own. It is played by a process of its own at a speed that no wall clock bounds; with --computed, through
everything that a live view computes but its drawing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from long_recording import shift  # type: ignore[import-not-found] # a script beside this one

from kvscope.core.stream import SECOND
from kvscope.probe.recording import ProcessPart, RecordsPart, TextsPart, Writer, parts
from kvscope.sources.records import RECORD, Rows

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "push-early.kvs"

PLAYER = """
import resource, sys, time
from kvscope.live.collector import Collector
from kvscope.live.feed import Flow
from kvscope.live.replay import Replay

wall = [0.0]
replay = Replay([sys.argv[1]], lambda: wall[0])
replay.set_speed(float(sys.argv[2]))
replay.wait()
print(f"gone through in {time.process_time():.2f} s of CPU, imports included")
step = Collector(replay).step if sys.argv[3] == "True" else replay.poll
begun, polls = time.process_time(), 0
while step().flow is not Flow.ENDED:
    polls += 1
    wall[0] += 0.25
took = time.process_time() - begun
print(f"played in {polls} polls, {took:.2f} s of CPU: {replay.place.length_s / took:.0f} times as fast as it was")
begun = time.process_time()
replay.seek(replay.place.length_s / 2)
step()
print(f"a jump takes {time.process_time() - begun:.2f} s of CPU")
print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
"""


def main() -> None:
    """Make the recording, play it, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--copies", type=int, default=6)
    parser.add_argument("--speed", type=float, default=100)
    parser.add_argument("--computed", action="store_true", help="not only read, but split and summed up")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.kvs"
        begun = time.process_time()
        events = write(path, given.minutes * 60, given.copies)
        size = path.stat().st_size
        print(f"{events:,} events, {size / 1e6:.0f} MB, made in {time.process_time() - begun:.0f} s", flush=True)
        subprocess.run([sys.executable, "-c", PLAYER, str(path), *map(str, (given.speed, given.computed))], check=True)


def write(path: Path, seconds: float, copies: int) -> int:
    """A recording of at least so many seconds; returns its events."""
    infos, records, texts = _picture()
    span = max(int(rows["t"].max()) for rows in records.values()) - min(
        int(rows["t"].min()) for rows in records.values()
    )
    total = 0
    with open(path, "wb") as file:
        writer = Writer(file)
        for process, info in infos.items():
            writer.process(process, info)
        for lap in range(int(seconds * SECOND / span) + 1):
            salts = [np.uint64(lap * copies + copy) for copy in range(copies)]
            for salt in salts:
                writer.texts([(_salted(key, salt), f"{text}-{salt}") for key, text in texts])
            laid = {key: _laid(rows, lap * span, span, salts) for key, rows in records.items()}
            for (process, thread), rows in _by_second(laid):
                writer.records(process, thread, rows.tobytes())
                total += len(rows)
        writer.end({})
    return total


def _picture() -> tuple[dict[int, dict[str, Any]], dict[tuple[int, int], Rows], list[tuple[bytes, str]]]:
    infos: dict[int, dict[str, Any]] = {}
    raw: dict[tuple[int, int], bytes] = {}
    texts: list[tuple[bytes, str]] = []
    with open(PICTURE, "rb") as file:
        for part in parts(file):
            match part:
                case ProcessPart(process, info):
                    infos[process] = info
                case RecordsPart(process, thread, found):
                    raw[process, thread] = raw.get((process, thread), b"") + found
                case TextsPart(pairs):
                    texts += pairs
    return infos, {key: np.frombuffer(found, RECORD) for key, found in raw.items()}, texts


def _salted(key: bytes, salt: np.uint64) -> bytes:
    return (int.from_bytes(key[:8], "little") ^ int(salt) << 20).to_bytes(8, "little") + key[8:]


def _laid(rows: Rows, begin: int, span: int, salts: list[np.uint64]) -> Rows:
    copies = []
    for place, salt in enumerate(salts):
        copy = rows.copy()
        shift(copy, begin + place * span // (7 * len(salts)))
        for name in ("request", "peer"):
            copy[name] ^= np.where(copy[name] != 0, salt << np.uint64(20), np.uint64(0))
        copies.append(copy)
    laid = np.concatenate(copies)
    return laid[np.argsort(laid["t"], kind="stable")]


def _by_second(laid: dict[tuple[int, int], Rows]) -> Iterator[tuple[tuple[int, int], Rows]]:
    pieces = {key: dict(_seconds(rows)) for key, rows in laid.items()}
    for second in sorted({second for each in pieces.values() for second in each}):
        yield from ((key, each[second]) for key, each in pieces.items() if second in each)


def _seconds(rows: Rows) -> Iterator[tuple[int, Rows]]:
    seconds = rows["t"] // SECOND
    begins = np.flatnonzero(np.diff(seconds, prepend=-1))
    yield from zip(seconds[begins].tolist(), np.split(rows, begins[1:]), strict=True)


if __name__ == "__main__":
    main()
