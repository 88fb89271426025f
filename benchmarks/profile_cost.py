"""What sampling costs the processes that are sampled, and this host.

    python benchmarks/profile_cost.py [--rounds 8] [--seconds 6] [--rates 20 50 100]

Four processes record, each with a core, a writer and a waiting thread, and stacks some thirty frames deep. One of them
computes all the time, the others a twentieth of it. A round is two blocks, sampled and not, in an order drawn anew.
Held against each other is the CPU time that a turn of the busy one took: a wall clock tells how many cores are free.
CPU is of one core: py-spy's own, and that of `kvscope profile`, which asks the kernel and writes samples down.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvscope.analysis.ratio import Block, compared
from kvscope.stacks.sampler import Sampler
from kvscope.stacks.targets import recording_in

PROCESSES = 4

WORKER = """
import mmap, sys, threading, time
from kvscope.probe import recorder

name, share, path = sys.argv[1], float(sys.argv[2]), sys.argv[3]
with open(path, "r+b") as file:
    turns = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
recorder.describe({"engine": name, "engine_id": name + "-1"})
recorder.set_main_role("core")

def deep(levels, work):
    return work() if not levels else deep(levels - 1, work)

def turn():
    total = 0
    for number in range(2000):
        total += number % 7
    return total

def core():
    while True:
        begun = time.monotonic()
        for _ in range(20):
            turn()
        turns[0] += 1
        if share < 1:
            time.sleep((time.monotonic() - begun) * (1 / share - 1))

def thread(role, every):
    recorder.set_role(role)
    recorder.record(46, 4, None)
    while True:
        time.sleep(every)
        deep(10, turn)

recorder.record(46, 4, None)
for role, every in (("writer", 0.005), ("input", 1.0)):
    threading.Thread(target=deep, args=(10, lambda role=role, every=every: thread(role, every)), daemon=True).start()
print("going", flush=True)
deep(20, core)
"""


@dataclass(frozen=True)
class Busy:
    """A process that works."""

    pid: int
    turns: memoryview
    """How often its core came round."""

    def ran_s(self) -> float:
        """CPU time of its core."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) / 1e9


def main() -> None:
    """A line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=6, help="of a block")
    parser.add_argument("--rates", type=int, nargs="+", default=[20, 50, 100], metavar="HZ")
    given = parser.parse_args()
    print(f"{PROCESSES} processes on {os.cpu_count()} cores; {given.rounds} rounds of {given.seconds:g} s each way")
    print("  Hz  CPU per turn, sampled : not (95 % interval)   py-spy, of a core  kvscope  stacks of a thread")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        busy, *_ = [stack.enter_context(working(folder, number)) for number in range(PROCESSES)]
        for rate in given.rates:
            print(measured(folder, busy, rate, given.rounds, given.seconds), flush=True)


def measured(folder: Path, busy: Busy, rate: int, rounds: int, seconds: float) -> str:
    """One rate."""
    pairs, spied, own, stacks = [], 0.0, 0.0, 0
    for number in range(rounds):
        tested, reference = 0.0, 0.0
        for sampled in random.Random(number).sample([True, False], 2):
            if not sampled:
                reference = per_turn(busy, seconds)
                continue
            before = usage()
            path = folder / f"{rate}-{number}.jsonl"
            with Sampler(recording_in(folder), path, rate) as sampler:
                tested = per_turn(busy, seconds)
            used = usage()
            spied, own, stacks = spied + used[0] - before[0], own + used[1] - before[1], stacks + sampler.samples
            path.unlink()
        pairs.append((Block(tested), Block(reference)))
    ratio, whole = compared(pairs), rounds * seconds
    of_thread = stacks / whole / PROCESSES / 3
    return (
        f"{rate:>4}  {ratio.value:>9.4f} ({ratio.low:.4f} to {ratio.high:.4f}){'':>22}"
        f"{spied / whole:>7.1%}  {own / whole:>7.1%}  {of_thread:>10.1f} a second"
    )


def per_turn(busy: Busy, seconds: float) -> float:
    """CPU seconds that a turn took on average."""
    begun, before = busy.ran_s(), busy.turns[0]
    time.sleep(seconds)
    return (busy.ran_s() - begun) / (busy.turns[0] - before)


def usage() -> tuple[float, float]:
    """CPU seconds of children that have ended, and of this process."""
    found = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    children, own = (each.ru_utime + each.ru_stime for each in found)
    return children, own


@contextmanager
def working(folder: Path, number: int) -> Iterator[Busy]:
    """A process that works."""
    path = folder / f"turns-{number}"
    path.write_bytes(bytes(8))
    with open(path, "r+b") as file:
        turns = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
    command = [sys.executable, "-c", WORKER, f"e{number}", "1" if number == 0 else "0.05", str(path)]
    environ = {**os.environ, "KVSCOPE_RUN_DIR": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield Busy(process.pid, turns)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
