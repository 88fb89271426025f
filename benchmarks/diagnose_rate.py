"""What `kvscope diagnose RECORDING` takes, from the file to the page, and whether that is linear in events.

    python benchmarks/diagnose_rate.py [--events 2500000 5000000 10000000] [--copies 30] [--rounds 1]

The recordings are one of docs/pictures, laid over itself: see long_recording.py. Each size runs, as processes of their
own and one after the other: the recording unpacked and nothing else, and the command that a person types. The machine
may be shared, and slow: the first of these is what the other is to be measured by.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import long_recording  # type: ignore[import-not-found] # a script beside this one
from export_rate import READ  # type: ignore[import-not-found] # a script beside this one

COMMAND = (sys.executable, "-m", "kvscope", "diagnose", "--json")


@dataclass(frozen=True)
class Ran:
    """What a process took."""

    wall: float
    cpu: float
    """s, of all its threads, imports included"""
    megabytes: float
    """at most, resident"""


def ran(*words: str) -> Ran:
    """Run it; it must end well."""
    begun = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return Ran(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measured(events: int, copies: int, rounds: int) -> str:
    """A line for a size: medians; the ratio is of the same round."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.kvs"
        million = long_recording.write(path, events, copies) / 1e6
        pairs = [(ran(sys.executable, "-c", READ, str(path)), ran(*COMMAND, str(path))) for _ in range(rounds)]
    read, whole = (statistics.median(pair[at].cpu for pair in pairs) for at in (0, 1))
    wall = statistics.median(pair[1].wall for pair in pairs)
    ratio = statistics.median(pair[1].cpu / pair[0].cpu for pair in pairs)
    memory = max(pair[1].megabytes for pair in pairs)
    return (
        f"{million:8.2f}{wall:8.1f}{whole:8.1f}{whole / million:14.2f}{memory:8,.0f}{memory / million:12.0f}"
        f"{read:12.1f}{ratio:8.2f}"
    )


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[2_500_000, 5_000_000, 10_000_000])
    parser.add_argument("--copies", type=int, default=30, help="at once: each has 164 events a second")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    print("million  wall s   CPU s  CPU s/million      MB  MB/million  unpacked s   times")
    for events in given.events:
        print(measured(events, given.copies, given.rounds), flush=True)


if __name__ == "__main__":
    main()
