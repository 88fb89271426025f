"""What it costs `kvscope serve` to keep the last minutes and to hold requests to triggers, beside not doing so.

    python benchmarks/keep_cost.py [--rates 1000 20000] [--blocks 6] [--block-seconds 5]

Two processes record what a pair of engines does (`writing_engines.py`). Two servers read the same rings at the same
time: one as it comes, one with `--save-to` and two triggers that nothing sets off. Shown are their CPU seconds a
second, in percent of one core, from /proc; their ratio, as the median over blocks, and from the least to the largest;
resident memory; what the kept events take.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

WRITER = Path(__file__).with_name("writing_engines.py")
WARM_UP_S = 6.0
TRIGGERS = ("--trigger", "dispatch>10s", "--trigger", "p95(ttft)>10s/30s")


@dataclass
class Server:
    """`kvscope serve` and where it listens."""

    process: subprocess.Popen[str]
    url: str

    @property
    def cpu_s(self) -> float:
        """User and system time so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mb(self) -> float:
        """Resident."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def holds(self) -> dict[str, float]:
        """What it keeps."""
        with urllib.request.urlopen(f"{self.url}/healthz", timeout=10) as answer:
            told: dict[str, float] = json.loads(answer.read())["flight"]["holds"]
        return told


def main() -> None:
    """A line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[1000, 20000], metavar="EVENTS_PER_S")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--block-seconds", type=float, default=5)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the begin")
    for rate in given.rates:
        print(measured(rate, given.blocks, given.block_seconds), flush=True)


def measured(rate: float, blocks: int, seconds: float) -> str:
    """One run."""
    with ExitStack() as stack:
        run_dir = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(writing(run_dir, rate, WARM_UP_S + blocks * seconds + 10))
        plain = stack.enter_context(serving(run_dir))
        keeping = stack.enter_context(serving(run_dir, "--save-to", folder, *TRIGGERS))
        time.sleep(WARM_UP_S)
        shares = [spent((plain, keeping), seconds) for _ in range(blocks)]
        memory, holds = (plain.memory_mb, keeping.memory_mb), keeping.holds
    ratios = sorted(two / one for one, two in shares)
    one, two = (statistics.fmean(share[which] for share in shares) for which in (0, 1))
    each = holds["size"] / max(holds["events"], 1)
    held = f"{holds['events']:,} events in {holds['size'] / 1e6:.1f} MB, {each:.1f} B each"
    return (
        f"{rate:>7,.0f} events/s  serve {one:5.1%}  with incidents {two:5.1%}  ratio {statistics.median(ratios):.2f}"
        f" ({ratios[0]:.2f} to {ratios[-1]:.2f})  memory {memory[0]:.0f} and {memory[1]:.0f} MB  kept {held}"
    )


def spent(servers: tuple[Server, Server], seconds: float) -> tuple[float, float]:
    """CPU seconds a second of each, over a block."""
    begun, before = time.monotonic(), [server.cpu_s for server in servers]
    time.sleep(seconds)
    span = time.monotonic() - begun
    one, two = ((server.cpu_s - then) / span for server, then in zip(servers, before, strict=True))
    return one, two


@contextmanager
def writing(run_dir: str, rate: float, seconds: float) -> Iterator[None]:
    """The engines at work."""
    words = [sys.executable, str(WRITER), run_dir, "--rate", str(rate), "--seconds", str(seconds)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def serving(run_dir: str, *words: str) -> Iterator[Server]:
    """A server."""
    command = [sys.executable, "-m", "kvscope", "serve", "--port", "0", "--run-dir", run_dir, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(process, process.stdout.readline().strip())
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
