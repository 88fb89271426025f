"""Keeping engines out of each other's way on a machine with few cores.

Two things spoil every timing on two cores. On CPU the connector pins each worker's main thread to the
last core of its NUMA node, so prefill and decode share one; and NIXL's progress thread, a native thread
of each worker, spins for ever. So each engine gets cores of its own, and the spinner the lowest say, from
soon after it began: engines that are still starting would have to share their cores with it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

NICENESS = 15
WANTING, RUNNING = 0.5, 0.02
TIRELESS_S = 0.5


def shares(cores: Sequence[int], engines: int) -> list[frozenset[int]]:
    """Cores for each engine: blocks of equal size when there are enough, else one each, in turn.

    Cores that the division leaves over belong to no engine: router and load find room there.
    """
    each = len(cores) // engines
    if each == 0:
        return [frozenset({cores[engine % len(cores)]}) for engine in range(engines)]
    return [frozenset(cores[engine * each : (engine + 1) * each]) for engine in range(engines)]


def threads(pids: Iterable[int]) -> list[tuple[int, int]]:
    """(pid, thread id) of all their threads."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found += [(pid, int(thread)) for thread in os.listdir(f"/proc/{pid}/task")]
    return found


def pin(pids: Iterable[int], cores: frozenset[int]) -> None:
    """Let all their threads, and those that these will start, run on `cores` only."""
    for _, thread in threads(pids):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)


def spinning(pids: Sequence[int], seconds: float = 1.0) -> list[int]:
    """Threads, main ones excepted, that spun during the next `seconds` although nothing was asked of them."""
    before = {thread: _use(pid, thread) for pid, thread in threads(pids) if thread != pid}
    time.sleep(seconds)
    after = {thread: _use(pid, thread) for pid, thread in threads(pids) if thread in before}
    spent = {thread: (ran - before[thread][0], waited - before[thread][1]) for thread, (ran, waited) in after.items()}
    return [thread for thread, (ran, waited) in spent.items() if spins(ran / seconds, waited / seconds)]


def spins(ran: float, waited: float) -> bool:
    """Whether a thread does that ran, and waited to run, for these shares of a time.

    Waiting for a core counts as much as having it: on a busy machine a spinner gets little. But a thread that wakes
    up only to look waits there as long and hardly runs: Python's do, every 5 ms, while another holds their lock.
    """
    return ran + waited > WANTING and ran > RUNNING


def tireless(pids: Iterable[int]) -> list[int]:
    """Threads, main ones excepted, that ran for `TIRELESS_S` and never once let go of their core by themselves.

    They spin, however much there is to do elsewhere: what works waits now and then, be it for a lock.
    """
    found = [(pid, thread) for pid, thread in threads(pids) if thread != pid and not _rested(pid, thread)]
    return [thread for pid, thread in found if _use(pid, thread)[0] >= TIRELESS_S]


def _rested(pid: int, thread: int) -> bool:
    """Whether a thread has waited for something, or ended."""
    try:
        status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
    except OSError:
        return True
    return "\nvoluntary_ctxt_switches:\t0\n" not in status


def _use(pid: int, thread: int) -> tuple[float, float]:
    """Seconds that a thread ran, and waited to run, since it began."""
    try:
        ran, waited, _ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
    except OSError:
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def calm(found: Iterable[int]) -> None:
    """Lower the priority of threads."""
    for thread in found:
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
