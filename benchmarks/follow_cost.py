"""What it costs to serve the rings of this host to views elsewhere, by rate and number of clients.

    python benchmarks/follow_cost.py [--seconds 10] [--rates 0 1000 20000] [--clients 0 1 2]

Four processes record on three threads each, evenly; `kvscope serve` is a process of its own. Shown are its CPU seconds
a second, in percent of one core, from /proc, and those of a view that reads what comes and does nothing with it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

ENGINES, THREADS = 4, 3

WRITER = """
import sys, threading, time
from kvscope.probe import recorder

rate, threads, name = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
recorder.describe({"engine": name, "engine_id": name + "-1"})

def work(number):
    recorder.set_role(("core", "worker", "writer", "input")[number % 4])
    begun, done = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - begun) * rate / threads)
        for index in range(done, due):
            request = f"cmpl-{index // 15:032x}-0-{number:08x}"
            recorder.record(10 + index % 20, 1, request, v0=index % 4000, v1=index % 300, step=index // 40)
        done = due
        time.sleep(0.005)

recorder.record(46, 4, None)
for number in range(threads):
    threading.Thread(target=work, args=(number,), daemon=True).start()
print("going", flush=True)
sys.stdin.read()
"""

VIEW = """
import sys, threading, time
from kvscope.live.remote import Remote

remote, events, begun = Remote(sys.argv[1]), 0, None
while True:
    batch = remote.poll()
    events += len(batch.events)
    if begun is None and batch.now:
        begun = time.monotonic()
        print("going", flush=True)
    lost = sum(process.lost for process in batch.events.processes)
    print(events, lost, flush=True)
    time.sleep(0.25)
"""


def main() -> None:
    """Print a line for each rate and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rates", type=int, nargs="+", default=[0, 1000, 20000], metavar="EVENTS_PER_S")
    parser.add_argument("--clients", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    print("events/s  clients  server CPU  a view's reading  lost")
    for rate in given.rates:
        for clients in given.clients:
            measure(rate, clients, given.seconds)


def measure(rate: int, clients: int, seconds: float) -> None:
    """One line."""
    with ExitStack() as stack:
        run_dir = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        for number in range(ENGINES):
            words = [str(rate / ENGINES), str(THREADS), f"e{number}"]
            stack.enter_context(started(WRITER, words, run_dir))
        server, url = stack.enter_context(serving(run_dir))
        views = [stack.enter_context(started(VIEW, [url], run_dir)) for _ in range(clients)]
        time.sleep(1)  # what the rings held is through
        before = [cpu_seconds(each.pid) for each in (server, *views)]
        time.sleep(seconds)
        used = [cpu_seconds(each.pid) - then for each, then in zip((server, *views), before, strict=True)]
        view = f"{max(used[1:]) / seconds:.1%}" if clients else "-"
        lost = [last_line(each).split()[1] for each in views]
        print(f"{rate:>8}  {clients:>7}  {used[0] / seconds:>10.1%}  {view:>16}  {' '.join(lost) or '-'}")


@contextmanager
def started(code: str, words: list[str], run_dir: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `code`, once it says that it goes."""
    command = [sys.executable, "-c", code, *words]
    environ = {**os.environ, "KVSCOPE_RUN_DIR": run_dir}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "going":
            pass
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(run_dir: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and its address."""
    command = [sys.executable, "-m", "kvscope", "serve", "--port", "0", "--run-dir", run_dir]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()


def last_line(process: subprocess.Popen[str]) -> str:
    """The latest that it said."""
    assert process.stdout is not None
    process.kill()
    return process.stdout.read().splitlines()[-2]


def cpu_seconds(pid: int) -> float:
    """That a process used so far."""
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
