"""One process while it is sampled: one py-spy after another, the looks beside them, and what they come to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from kvscope.stacks import chrometrace, spy, watch
from kvscope.stacks.gil import Gil
from kvscope.stacks.pinning import Counted, pinned, unchanged
from kvscope.stacks.targets import Target, clock_ahead
from kvscope.stacks.writing import StacksFile

Stacks: TypeAlias = Mapping[chrometrace.Thread, chrometrace.Stack]

BEGIN_S = 10.0
"""How long a py-spy may take to begin."""
MOST_STRETCHES = 3
"""A py-spy ends by itself after so many stretches, whatever becomes of this process."""


class Course:
    """Samples one process from its making on. OSError: it may not be looked at."""

    def __init__(self, target: Target, tool: str, rate_hz: int, stretch_s: float, file: StacksFile) -> None:
        self.target, self._tool, self._rate, self._stretch_s, self._file = target, tool, rate_hz, stretch_s, file
        self._watch = watch.Watch(target.pid, Gil(target.pid))
        self._spy = self._make()
        self._ahead = clock_ahead(target.pid)
        """Of the process's clock, by which its moments are."""
        self._roles: dict[int, tuple[str, str]] = {}
        self._sought = False
        """Whether the GIL was looked for since the threads were."""
        self._done = 0
        self.over = False
        """Nothing more comes of it."""
        self.follow()

    def _make(self) -> spy.Spy:
        return spy.Spy(self._tool, self.target.pid, self._rate, int(MOST_STRETCHES * self._stretch_s) + 1)

    def await_begun(self, timeout_s: float) -> str:
        """Wait until py-spy samples; why it does not, if so."""
        self._spy.begun.wait(timeout_s)
        return self._spy.failed

    @property
    def ended(self) -> bool:
        """Whether py-spy has stopped by itself: the process has ended."""
        return self._spy.begun.is_set() and not self._spy.running

    def follow(self) -> None:
        """Ask which threads record by now."""
        self._sought = False
        self._roles |= self.target.roles()
        self._watch.follow(set(self._roles))

    def look(self) -> None:
        """Ask the kernel what threads do, and what py-spy did."""
        if self._spy.runtime and not self._sought:
            self._sought = True
            self._watch.find(self._spy.runtime)
        self._watch.look()
        self._spy.count(self._watch.threads)

    def renew(self) -> None:
        """Have another py-spy take over, and write down what the former one saw. ValueError: that is no trace."""
        following = self._make()
        following.begun.wait(BEGIN_S)
        former, self._spy = self._spy, following
        former.interrupt()
        self._harvest(former)

    def interrupt(self) -> None:
        """Have py-spy end."""
        self._spy.interrupt()

    def finish(self) -> None:
        """Wait for py-spy's end, and write down what it saw. ValueError: that is no trace."""
        try:
            self._harvest(self._spy)
        finally:
            self._watch.close()

    def _harvest(self, ended: spy.Spy) -> None:
        changed = chrometrace.looks(ended.result())
        counted = Counted.of(ended.counts)
        anchor = pinned(ended.anchor(), counted, np.array([look.us for look in changed[:-1]], np.int64))
        first = 0
        for t, stacks in instants(changed, anchor.zero_ns, counted):
            if t > self._done:
                first, self._done = first or t, t
                self._write(t, stacks)
        self._watch.forget(self._done)
        if first:
            begin, end = first + self._ahead, self._done + self._ahead
            self._file.clock(self.target.pid, begin, end, anchor.error_ns)

    def _write(self, t: int, stacks: Stacks) -> None:
        """One look: every thread that records, and who else holds the GIL."""
        seen = self._watch.at(t, 1e9 / self._rate)
        for (tid, name), frames in stacks.items():
            holds = None if seen.holder is None else seen.holder == tid
            if tid in self._roles or holds:
                role, _ = self._roles.get(tid, ("unknown", ""))
                thread = self._file.thread(self.target.pid, tid, name, self.target.engine, role)
                state = seen.threads.get(tid, watch.UNKNOWN)
                idle = None if state == watch.UNKNOWN else state == watch.SLEEPS
                stack = self._file.stack(frames)
                self._file.sample(t + self._ahead, thread, stack, holds, idle, state == watch.AWAITS_GIL)


def instants(changed: list[chrometrace.Look], zero: int, counted: Counted) -> Iterator[tuple[int, Stacks]]:
    """(when, stacks) of each look of py-spy, in order: those in its trace, and those that found nothing changed."""
    times = [zero + look.us * 1000 for look in changed]
    also = deque(unchanged(counted, np.array(times, np.int64)))
    for look, begin, end in zip(changed, times, times[1:], strict=False):
        yield begin, look.stacks
        while also and also[0] < end:
            if (t := also.popleft()) > begin:
                yield t, look.stacks
