"""What `kvscope top` takes while it shows a given rate of events, and how far behind them the screen is.

    python benchmarks/top_cost.py [--rates 1000 20000] [--seconds 30] [--view requests]

Two processes write events into real rings (`writing_engines.py`), the verb runs on a pseudo-terminal of 100 x 30 whose
output is read as a terminal would. CPU seconds are the kernel's count of the process, over the time after a warm-up;
`htop` (where it is installed) is measured beside it, in its own default. Behind: from the first moment of a request
whose id holds `mark` to the first time that its id is written to the terminal.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

WRITER = Path(__file__).with_name("writing_engines.py")
WARM_UP_S = 8.0
TICKS = os.sysconf("SC_CLK_TCK")
MARKED = re.compile(rb"mark(\d{8})")
SIZE = (30, 100)


@dataclass
class Screen:
    """A program on a pseudo-terminal."""

    process: subprocess.Popen[bytes]
    master: int
    seen: dict[int, int] = field(default_factory=dict)
    """number of a marked request -> ns when it was first written"""
    bytes_read: int = 0

    def read(self) -> None:
        """Until the program ends."""
        rest = b""
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            now = time.monotonic_ns()
            if not data:
                return
            self.bytes_read += len(data)
            rest = rest[-16:] + data
            for found in MARKED.finditer(rest):
                self.seen.setdefault(int(found[1]), now)

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mb(self) -> float:
        """Resident memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Print a line per rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[1000, 20000])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--views", nargs="+", default=["requests", "overview"])
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the begin")
    for rate in given.rates:
        for view in given.views:
            print(measured(rate, view, given.seconds), flush=True)
    return 0


def measured(rate: float, view: str, seconds: float) -> str:
    """One run."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as run_dir, writing(run_dir, rate, seconds + WARM_UP_S) as told:
        command = [sys.executable, "-m", "kvscope", "top", "--run-dir", run_dir, "--view", view, "--filter", "mark"]
        with on_screen(command) as top, on_screen(["htop"] if shutil.which("htop") else None) as htop:
            time.sleep(WARM_UP_S)
            begun, before = time.monotonic(), [screen.cpu_s() if screen else 0.0 for screen in (top, htop)]
            time.sleep(seconds - 2)
            span = time.monotonic() - begun
            after = [screen.cpu_s() if screen else 0.0 for screen in (top, htop)]
            assert top is not None
            shares = [100 * (late - early) / span for early, late in zip(before, after, strict=True)]
            memory = top.rss_mb()
    line = f"{rate:>7,.0f} events/s  {view:<9} top {shares[0]:5.1f} % of a core"
    line += f"  htop {shares[1]:.1f} %" if htop else "  (no htop here)"
    return f"{line}  {memory:.0f} MB  {behind(told, top.seen, begun)}"


def behind(told: dict[int, int], seen: dict[int, int], begun: float) -> str:
    """How far behind the screen was."""
    late = sorted(seen[key] - at for key, at in told.items() if key in seen and at > begun * 1e9)
    if not late:
        return "no marked request was shown"
    p50, p99 = (late[min(len(late) - 1, int(len(late) * share))] / 1e6 for share in (0.5, 0.99))
    missing = sum(key not in seen for key, at in told.items() if begun * 1e9 < at < max(told.values()) - 2e9)
    return f"behind p50 {p50:.0f} ms  p99 {p99:.0f} ms of {len(late)} marked ({missing} not shown)"


@contextmanager
def writing(run_dir: str, rate: float, seconds: float) -> Iterator[dict[int, int]]:
    """Writers at work; number of a marked request -> ns of its first moment."""
    words = [sys.executable, str(WRITER), run_dir, "--rate", str(rate), "--seconds", str(seconds)]
    told: dict[int, int] = {}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def listen() -> None:
        for line in process.stdout or ():
            found = re.match(r"cmpl-mark(\d{8})-0-aaaaaaaa (\d+)$", line)
            if found:
                told.setdefault(int(found[1]), int(found[2]))

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield told
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # its two engines as well
        process.wait()


@contextmanager
def on_screen(command: list[str] | None) -> Iterator[Screen | None]:
    """Run a program on a terminal of its own; None: none."""
    if command is None:
        yield None
        return
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    env = os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    screen = Screen(process, master)
    threading.Thread(target=screen.read, daemon=True).start()
    try:
        yield screen
    finally:
        process.terminate()
        process.wait()
        os.close(master)


if __name__ == "__main__":
    sys.exit(main())
