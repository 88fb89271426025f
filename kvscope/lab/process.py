"""A process we started, with everything it started: its log, its last words, its end.

Each runs in a session of its own. So a Ctrl-C meant for us does not reach it, and whatever it leaves
behind is found by the session's number, which the kernel gives to nobody else while a member lives.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kvscope.lab.errors import LabError

GRACE_S = 20.0  # for a leader: an engine takes some seconds to put its pieces down
ORPHAN_S = 3.0  # for what a leader that has ended left behind
POLL_S = 0.05
TELLING = re.compile(r"\b\w*(Error|Exception)\b.*:|\b(ERROR|CRITICAL|error)\b")


@dataclass(frozen=True)
class Session:
    """A session that we started, named so that it can be found again by a later command."""

    name: str
    pid: int
    """Of its leader: the session's number too."""
    start_ticks: int
    """When the leader started (field 22 of /proc/PID/stat): tells it from a later process with its pid."""

    def members(self) -> list[int]:
        """Pids of it that still run; zombies are not counted."""
        leader = _stat(self.pid)
        if leader is not None and leader.start_ticks != self.start_ticks:
            return []
        return [pid for pid in _pids() if (stat := _stat(pid)) and stat.session == self.pid and stat.state != "Z"]


@dataclass(frozen=True)
class _Stat:
    state: str
    session: int
    start_ticks: int


def _stat(pid: int) -> _Stat | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Stat(fields[0], int(fields[3]), int(fields[19]))


def _pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


class Process:
    """One command. `start` it, `wait_for` its readiness, `stop` it with all that it started."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name, self.command, self.log = name, list(command), log
        self._env = dict(env) if env is not None else None
        self._child: subprocess.Popen[bytes] | None = None
        self.session: Session | None = None

    def start(self) -> None:
        """Start it, its output going to the log. LabError: it cannot be started."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.log.open("wb") as out:
                self._child = subprocess.Popen(
                    self.command,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise LabError(f"{self.name} cannot be started: {error}") from error
        stat = _stat(self._child.pid)
        self.session = Session(self.name, self._child.pid, stat.start_ticks if stat else 0)

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it was started."""
        return self._child.poll() if self._child else None

    def members(self) -> list[int]:
        """Pids of the command and all that it started."""
        return self.session.members() if self.session else []

    def lines(self) -> list[str]:
        """What it has printed so far."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def wait_for(self, ready: Callable[[], bool], timeout_s: float, poll_s: float = POLL_S) -> None:
        """Wait until `ready()`, asked every `poll_s`. LabError: it ended before, or took longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} was not ready after {timeout_s:.0f} s{last_words(self.lines(), self.log)}")
            time.sleep(poll_s)

    def check(self) -> None:
        """LabError with its last lines if it has ended."""
        if self.exit_code is not None:
            raise LabError(f"{self.name} {ended(self.exit_code)}{last_words(self.lines(), self.log)}")

    def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        assert self._child is not None
        return self._child.wait()

    def stop(self) -> None:
        """Stop it and all that it started. Safe to repeat, and before `start`."""
        stop_all([self])


def stop_all(processes: Iterable[Process]) -> None:
    """Stop several at once: they put their pieces down in parallel."""
    started = [process for process in processes if process.session is not None]
    stop_sessions([process.session for process in started if process.session], started)


def stop_sessions(sessions: Sequence[Session], children: Iterable[Process] = ()) -> None:
    """Ask the leaders to end, wait, kill what is left. LabError: something survived that too."""
    with uninterrupted():
        for leader in _leaders(sessions):
            _signal(leader, signal.SIGTERM)
        reaped = list(children)
        _wait_until_none(partial(_leaders, sessions), reaped, GRACE_S)
        for pid in _wait_until_none(partial(_members, sessions), reaped, ORPHAN_S):
            _signal(pid, signal.SIGKILL)
        if left := _wait_until_none(partial(_members, sessions), reaped, GRACE_S):
            raise LabError(f"could not stop the processes {' '.join(map(str, left))}")


def _leaders(sessions: Sequence[Session]) -> list[int]:
    return [session.pid for session in sessions if session.pid in session.members()]


def _members(sessions: Sequence[Session]) -> list[int]:
    return [pid for session in sessions for pid in session.members()]


def _wait_until_none(found: Callable[[], list[int]], children: Sequence[Process], seconds: float) -> list[int]:
    """What is found after `found` finds nothing, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        left = found()
        for child in children:
            _ = child.exit_code  # reaps it
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_S)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back meanwhile: a clean-up cut short leaves processes behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ended(code: int) -> str:
    """How a process ended, in words."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


def last_words(lines: Sequence[str], log: Path, most: int = 8) -> str:
    """The last lines that tell of an error (the last lines at all if none does), and where the rest is."""
    telling = list(dict.fromkeys(line for line in lines if TELLING.search(line)))
    shown = deque(telling or [line for line in lines if line.strip()], maxlen=most)
    return "".join(f"\n  {line.rstrip()[:300]}" for line in shown) + f"\n  (all of it: {log})"


def run_logged(name: str, command: Sequence[str], log: Path, heard: Callable[[str], None]) -> None:
    """Run a command to its end, telling its last line as it goes. LabError: it failed."""
    process = Process(name, command, log)
    try:
        process.start()
        while process.exit_code is None:
            if lines := process.lines():
                heard(lines[-1])
            time.sleep(0.2)
    finally:
        process.stop()
    if process.exit_code:
        raise LabError(f"{name} failed{last_words(process.lines(), log)}")
