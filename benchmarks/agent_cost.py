"""What `kvscope agent` costs on a host, beside what `kvscope record` costs there, and what its aggregator costs.

    python benchmarks/agent_cost.py [--seconds 20] [--rates 1000 5000]

Two processes record what a push pair does (`writing_engines.py`). An agent and a recorder read the same rings at the
same time, so that they have the same machine. Shown are CPU seconds a second, in percent of one core, from /proc,
without those of the first seconds; the ratio of the agent's to the recorder's; peak memory; bytes an event in the
aggregator's folder; and what was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

WRITING = Path(__file__).with_name("writing_engines.py")
SETTLE_S = 3.0
"""Start-up is no part of what it costs to go on."""


def main() -> None:
    """Print a line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 5000], metavar="EVENTS_PER_S")
    given = parser.parse_args()
    print("events/s  agent CPU  record CPU  ratio  aggregator CPU  agent MB  aggregator MB  bytes/event  lost  load")
    for rate in given.rates:
        measure(rate, given.seconds)


def measure(rate: int, seconds: float) -> None:
    """One line."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        rings, taken = folder / "rings", folder / "taken"
        rings.mkdir()
        take = ["serve", "--port", "0", "--take", str(taken), "--no-metrics"]
        server = stack.enter_context(kvscope(*take, stdout=subprocess.PIPE))
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        span = SETTLE_S + seconds + 2
        writing = [sys.executable, str(WRITING), str(rings), "--rate", str(rate), "--seconds", str(span)]
        stack.enter_context(running(writing))
        words = ["--to", url, "--spool", str(folder / "spool"), "--run-dir", str(rings)]
        agent = stack.enter_context(kvscope("agent", *words))
        recorder = stack.enter_context(kvscope("record", "-o", str(folder / "run.kvs"), "--run-dir", str(rings)))
        time.sleep(SETTLE_S)
        three = (agent, recorder, server)
        before = [cpu_seconds(each.pid) for each in three]
        begun = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begun
        used = [(cpu_seconds(each.pid) - then) / passed for each, then in zip(three, before, strict=True)]
        memory = [peak_mb(each.pid) for each in (agent, server)]
        with urllib.request.urlopen(f"{url}/healthz") as answer:
            told = json.load(answer)["agents"]
        size = sum(path.stat().st_size for path in taken.glob("*.kvs"))
        lost = told["missing_batches"] + told["duplicate_batches"]
        print(
            f"{rate:>8}  {used[0]:>9.2%}  {used[1]:>10.2%}  {used[0] / used[1]:>5.2f}  {used[2]:>14.2%}"
            f"  {memory[0]:>8.1f}  {memory[1]:>13.1f}  {size / max(told['events'], 1):>11.1f}  {lost:>4}"
            f"  {os.getloadavg()[0]:.1f}",
            flush=True,
        )


@contextmanager
def kvscope(*words: str, stdout: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """A verb, until it is told to end."""
    command = [sys.executable, "-m", "kvscope", *words]
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    """Whatever it is, until it is told to end."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def cpu_seconds(pid: int) -> float:
    """That a process used so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """The most memory that it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1000


if __name__ == "__main__":
    main()
