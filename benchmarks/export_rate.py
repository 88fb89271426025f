"""How fast a recording becomes Parquet and JSON lines, what that takes of memory, and what an event takes on disk.

    python benchmarks/export_rate.py [--events 2000000] [--copies 30] [--rounds 5]

The recording is one of docs/pictures, laid over itself: see long_recording.py. Each round runs, as processes of their
own and one after the other: the events read alone, read and split into requests, and the command that a person types,
for each format. Time is of a core; ratios are taken within a round. The machine may be shared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import long_recording  # type: ignore[import-not-found] # a script beside this one

READ = """
import sys
from kvscope.export.passage import EVER, MOST
from kvscope.sources.past import open_past
past, at = open_past(sys.argv[1:2], lambda share: None), EVER
while at < past.end:
    until = past.reach(at, past.end, MOST)
    past.whole(at, until)
    at = until
"""
SPLIT = """
import sys
from kvscope.export.passage import passage
from kvscope.sources.past import open_past
for part in passage(open_past(sys.argv[1:2], lambda share: None)):
    pass
"""
COMMAND = (sys.executable, "-m", "kvscope", "export")


@dataclass(frozen=True)
class Ran:
    """What a process took."""

    seconds: float
    """of a core, imports included"""
    megabytes: float
    """at most, resident"""


def ran(*words: str) -> Ran:
    """Run it; it must end well."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode == 0, said.read().decode()
    return Ran(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main() -> None:
    """Make the recording, run the rounds, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--copies", type=int, default=30, help="at once: each has 164 events a second")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.kvs"
        events = long_recording.write(path, given.events, given.copies)
        print(f"{events:,} events, {path.stat().st_size / events:.1f} bytes each in the recording", flush=True)
        measure(path, events, given.rounds)
        sizes(Path(folder), events)
    for picture in sorted(long_recording.PICTURE.parent.glob("*.kvs")):
        with tempfile.TemporaryDirectory() as folder:
            ran(*COMMAND, str(picture), "--parquet", f"{folder}/tables", "--jsonl", f"{folder}/lines.jsonl")
            print(f"{picture.name}: ", end="")
            sizes(Path(folder), sum(len(rows) for rows in long_recording.read(picture).rings.values()))


def measure(path: Path, events: int, rounds: int) -> None:
    """Print rate, memory and ratio of each way."""
    folder = path.parent
    ways = {
        "read": (sys.executable, "-c", READ, str(path)),
        "read and split": (sys.executable, "-c", SPLIT, str(path)),
        "--parquet": (*COMMAND, str(path), "--parquet", str(folder / "tables"), "--force"),
        "--jsonl": (*COMMAND, str(path), "--jsonl", str(folder / "lines.jsonl"), "--force"),
    }
    found = [{name: ran(*words) for name, words in ways.items()} for _ in range(rounds)]
    print(f"{'':<16}{'events/s':>10}{'of rounds':>22}{'MB':>6}{'times reading':>15}")
    for name in ways:
        rates = sorted(events / each[name].seconds for each in found)
        ratio = statistics.median(each[name].seconds / each["read"].seconds for each in found)
        memory = max(each[name].megabytes for each in found)
        spread = f"{rates[0]:,.0f} to {rates[-1]:,.0f}"
        print(f"{name:<16}{statistics.median(rates):>10,.0f}{spread:>22}{memory:>6.0f}{ratio:>15.2f}", flush=True)


def sizes(folder: Path, events: int) -> None:
    """Print what an event takes in each table, and as a line."""
    tables = sorted((folder / "tables").glob("*.parquet"))
    told = [f"{table.stem} {table.stat().st_size / events:.1f}" for table in tables]
    lines = (folder / "lines.jsonl").stat().st_size / events
    print(f"bytes an event: {', '.join(told)}; as JSON lines {lines:.0f}")


if __name__ == "__main__":
    main()
