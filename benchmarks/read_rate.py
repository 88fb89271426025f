"""Events a second out of live rings and out of a recording, and what an event takes on disk.

    python benchmarks/read_rate.py [--events 6000] [--threads 4] [--rounds 7]

A process records as an engine would: requests of fifteen events, times of a clock, ids of vLLM's length.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kvscope.sources.recorder import save
from kvscope.sources.recording import read_recordings
from kvscope.sources.rings import Rings, read_rings

WRITER = """
import random, sys, threading, time
from kvscope.probe import recorder
from kvscope.probe.vocabulary import MOMENT_CODE

together = threading.Barrier(int(sys.argv[2]))

def work(number, events):
    together.wait()
    recorder.set_role(("core", "input", "worker", "writer")[number % 4])
    chosen = random.Random(number)
    t = time.monotonic_ns()
    for index in range(events):
        t += chosen.randrange(2_000, 900_000)
        request = f"cmpl-{index // 60 * 4 + index % 4:032x}-0-{number:08x}"
        recorder.record(10 + index % 20, 1, request, t, chosen.randrange(4000), chosen.randrange(300), step=index // 40)
    together.wait()

threads = [threading.Thread(target=work, args=(n, int(sys.argv[1]))) for n in range(int(sys.argv[2]))]
[each.start() for each in threads]
[each.join() for each in threads]
print("done", flush=True)
sys.stdin.read()
"""


def main() -> None:
    """Print the rates: medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=6000, help="events in a thread's ring")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        run_dir, path = Path(folder) / "run", Path(folder) / "recording"
        environ = {**os.environ, "KVSCOPE_RUN_DIR": str(run_dir), "KVSCOPE_SHM_BYTES": str(64 << 20)}
        command = [sys.executable, "-c", WRITER, str(given.events), str(given.threads)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            measure(run_dir, path, given.rounds)
            writer.communicate()


def measure(run_dir: Path, path: Path, rounds: int) -> None:
    """Time each way of reading what the rings hold."""
    total = save(run_dir, path)
    print(
        f"{total.events:,} events, {total.lost:,} lost, {path.stat().st_size / total.events:.1f} bytes an event on disk"
    )
    idle = Rings(run_dir)
    idle.poll()
    for name, work in (
        ("rings to events", lambda: read_rings(run_dir)),
        ("recording to events", lambda: read_recordings([path])),
        ("two recordings, one set", lambda: read_recordings([path, path])),
        ("rings to recording", lambda: save(run_dir, path, force=True)),
    ):
        print(f"{name:<24} {total.events / seconds(work, rounds) / 1e6:6.2f} million events/s")
    print(f"{'a poll with nothing new':<24} {seconds(idle.poll, 50 * rounds) * 1e6:6.0f} us")


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The median time that `work` takes, of this process on a core: the machine may be shared."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main()
