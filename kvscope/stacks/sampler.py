"""Sampling the processes of engines, into stacks.jsonl, for as long as a `with` block lasts.

py-spy looks at the stacks, one of it per process. It keeps what it saw until it ends, so another one takes over from
it every few seconds: that bounds its memory, what a crash costs, and how old the file is. Beside it, the kernel is
asked what the threads were doing; `watch` says how.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from kvscope.model.errors import InputError
from kvscope.probe.ring import boot_id
from kvscope.stacks import RATE_HZ, spy
from kvscope.stacks.course import BEGIN_S, Course
from kvscope.stacks.reading import remaining
from kvscope.stacks.rights import why_denied
from kvscope.stacks.targets import UNSEEN, Target
from kvscope.stacks.writing import StacksFile

STRETCH_S = 5.0
"""How long one py-spy samples before another takes over."""
LOOKS = 6
"""Looks at the threads for each stack."""
FOLLOW_S = 0.5
"""Between two lists of a process's recording threads."""
ELSEWHERE = (
    "it runs in a pid namespace that is not seen from here: run kvscope on its host, or share the namespace"
    " (Kubernetes: shareProcessNamespace: true; Docker: --pid)"
)
NOTICE_S = 0.2
"""How late the end of a process may be noticed."""


class Sampler:
    """Samples `targets` while it is entered. InputError: none of them can be sampled, or the file cannot be written."""

    def __init__(
        self, targets: Sequence[Target], path: Path, rate_hz: int = RATE_HZ, stretch_s: float = STRETCH_S
    ) -> None:
        self._targets, self._path, self._rate, self._stretch = targets, path, rate_hz, stretch_s
        self._tool = spy.found()
        self._courses: list[Course] = []
        self._stop = threading.Event()
        self._failed: OSError | None = None
        """Why the file could not be written."""
        self._turn = threading.Lock()
        """Whoever touches the courses has it: looks are short, a harvest is long and touches nothing of a look's."""
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._look, self._take_over)]
        self._refused: dict[str, list[str]] = {}
        """why -> which processes"""

    @property
    def faults(self) -> list[str]:
        """A sentence for each reason why something was not sampled."""
        return [f"{' and '.join(who)} cannot be sampled: {why}" for why, who in self._refused.items()]

    @property
    def samples(self) -> int:
        """How many were written."""
        return self._file.samples

    @property
    def living(self) -> int:
        """Processes that are sampled now."""
        return sum(not course.over for course in self._courses)

    def __enter__(self) -> Sampler:
        header = {"period_ns": round(1e9 / self._rate), "boot_id": boot_id(), "tool": spy.version(self._tool)}
        try:
            self._file = StacksFile(self._path, header)
        except FileExistsError:
            raise InputError(f"{self._path} is there already; name another folder") from None
        except OSError as error:
            raise InputError(_unwritten(self._path, error)) from None
        self._courses = [course for target in self._targets if (course := self._begin(target))]
        for thread in self._threads:
            thread.start()
        until = time.monotonic() + BEGIN_S
        for course in self._courses:
            if why := course.await_begun(max(until - time.monotonic(), 0)):
                self._refuse(course.target, why)
                self._finish(course)
        if not self.living:
            self.__exit__(None, None, None)
            self._path.unlink(missing_ok=True)
            raise InputError("; ".join(self.faults) or "no process to sample was named")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        going_on = [course for course in self._courses if not course.over]
        for course in going_on:
            course.interrupt()
        for course in going_on:
            self._finish(course)
        try:
            self._file.close()
        except OSError as failed:
            self._failed = self._failed or failed
        if self._failed and error is None:
            raise InputError(f"{_unwritten(self._path, self._failed)}; {remaining(self._path)}")

    def _begin(self, target: Target) -> Course | None:
        if target.pid == UNSEEN:
            self._refuse(target, ELSEWHERE)
            return None
        try:
            return Course(target, self._tool, self._rate, self._stretch, self._file)
        except OSError:
            self._refuse(target, why_denied(target.pid))
            return None

    def _look(self) -> None:
        """Look at the threads, until stopped."""
        every, follow_at = 1 / (LOOKS * self._rate), 0.0
        while not self._stop.wait(every):
            follows = time.monotonic() >= follow_at
            follow_at = time.monotonic() + FOLLOW_S if follows else follow_at
            for course in self._courses:
                with self._turn:
                    if follows and not course.over:
                        course.follow()
                    if not course.over:
                        course.look()

    def _take_over(self) -> None:
        """Have another py-spy take over from each, every stretch; notice which processes ended."""
        turn = time.monotonic() + self._stretch
        while not self._stop.wait(NOTICE_S):
            due = time.monotonic() >= turn
            turn = time.monotonic() + self._stretch if due else turn
            for course in self._courses:
                if not course.over and course.ended:
                    self._finish(course)
                elif due and not course.over:
                    self._guarded(course, course.renew)

    def _finish(self, course: Course) -> None:
        with self._turn:
            if course.over:
                return
            course.over = True
        self._guarded(course, course.finish)

    def _guarded(self, course: Course, work: Callable[[], None]) -> None:
        try:
            work()
            self._file.flush()
        except OSError as error:
            self._failed = self._failed or error
        except ValueError:
            self._refuse(course.target, "py-spy wrote no whole trace")

    def _refuse(self, target: Target, why: str) -> None:
        self._refused.setdefault(why, []).append(target.who)
        self._file.note(f"{target.who}: {why}")


def _unwritten(path: Path, error: OSError) -> str:
    return f"cannot write {path}: {(error.strerror or str(error)).lower()}"
