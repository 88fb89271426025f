"""One run of py-spy on one process: reading that process's memory, never stopping it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe.ring import clock_pair
from kvscope.stacks.pinning import Anchor

NAME = "py-spy"
MISSING = "py-spy is not installed here; run: pip install 'kvscope[profile]'"
LOGGED = "py_spy=info"
PATIENCE_S = 10.0
"""How long it may take to write down what it found."""
SECOND = 1_000_000_000

_LINE = re.compile(r"\[(?P<day>\S+?)\.(?P<part>\d+)Z \w+ +py_spy::(?P<module>\w+)\] (?P<text>.*)")
_RUNTIME = re.compile(r"got symbol _PyRuntime \(0x([0-9a-f]+)\)")
_READS = re.compile(rb"syscr: (\d+)")
_BEFORE, _AFTER = "config ", "Got virtual memory maps"
_BEGUN = "Sampling process"


def found() -> str:
    """py-spy's path: beside this interpreter, or on PATH. InputError: there is none."""
    beside = Path(sys.executable).with_name(NAME)
    path = str(beside) if os.access(beside, os.X_OK) else shutil.which(NAME)
    if path is None:
        raise InputError(MISSING)
    return path


def version(path: str) -> str:
    """`py-spy 0.4.3`"""
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()


class Spy:
    """py-spy, at work on one process. It reads that process's memory and never stops it."""

    def __init__(self, path: str, pid: int, rate_hz: int, most_s: int) -> None:
        """`most_s`: it ends by itself then, whatever becomes of this process."""
        self._output = os.memfd_create("kvscope-stacks")
        self._spawned = clock_pair()
        self._process = subprocess.Popen(
            [
                *(path, "record", "--pid", str(pid), "--rate", str(rate_hz), "--duration", str(most_s)),
                *("--format", "chrometrace", "--threads", "--idle", "--nonblocking", "--full-filenames"),
                *("--output", f"/proc/self/fd/{self._output}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(self._output,),
            env=os.environ | {"RUST_LOG": LOGGED},
            # Ctrl-C is for whoever started this: it ends py-spy when it has ended the rest.
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._io = self._counters()
        self.counts: list[tuple[int, int, int]] = []
        """(when it was asked, how often it had read by then, threads of the process)"""
        self.begun = threading.Event()
        """It samples, or has ended."""
        self.runtime = 0
        """Address of the process's _PyRuntime; 0 until it is known."""
        self._begun_pair = self._spawned
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _counters(self) -> int | None:
        """A descriptor of what the kernel counts of it; none where it may not be looked at, as with capabilities of
        its own."""
        try:
            return os.open(f"/proc/{self._process.pid}/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._said.append(line.rstrip())
                if runtime := _RUNTIME.search(line):
                    self.runtime = int(runtime[1], 16)
                if _BEGUN in line:
                    self._begun_pair = clock_pair()
                    self.begun.set()
        self.begun.set()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def interrupt(self) -> None:
        """Have it end, and write down what it found."""
        if self.running:
            self._process.send_signal(signal.SIGINT)

    def result(self) -> bytes:
        """What it found, in Chrome's trace format, or nothing; waits for its end."""
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        try:
            return os.pread(self._output, os.fstat(self._output).st_size, 0)
        finally:
            os.close(self._output)
            if self._io is not None:
                os.close(self._io)

    def count(self, threads: int) -> None:
        """Ask how often it has read so far: `pinning` makes looks of it. `threads`: of the process."""
        if self._io is None:
            return
        try:
            t, found = time.monotonic_ns(), _READS.search(os.pread(self._io, 512, 0))
        except OSError:
            return
        if found:
            self.counts.append((t, int(found[1]), threads))

    @property
    def failed(self) -> str:
        """Why it could not begin; nothing if it did."""
        if self._begun_pair is not self._spawned:
            return ""
        told = [line for line in self._said if line and not _LINE.match(line)]
        return " ".join(" ".join(told).split()) or f"it ended with code {self._process.poll()}"

    def anchor(self) -> Anchor:
        """When its time began, roughly: its log says the time of day shortly before and after."""
        walls = [wall for wall in map(_wall, self._said) if wall]
        before = next((wall for wall, text in walls if text.startswith(_BEFORE)), None)
        after = next((wall for wall, text in walls if text.startswith(_AFTER)), None)
        first, last = self._spawned, self._begun_pair
        stepped = abs((last[1] - last[0]) - (first[1] - first[0]))
        if before is None or after is None or stepped > SECOND // 100:
            return Anchor(first[0], first[0] - first[2], last[0] + first[2])
        zero, error = before - first[1] + first[0], first[2] + stepped
        return Anchor(zero, zero - error, zero + after - before + error)


def _wall(line: str) -> tuple[int, str] | None:
    """(ns since 1970, text) of a line of py-spy's log."""
    found = _LINE.match(line)
    if not found:
        return None
    day = datetime.fromisoformat(found["day"]).replace(tzinfo=UTC)
    return round(day.timestamp()) * SECOND + int(found["part"].ljust(9, "0")), found["text"]
