"""Who holds a process's GIL, read from its memory without stopping it.

CPython 3.7 to 3.14 keep it in one struct that begins alike: the switch interval, the thread state that took it last,
and whether it is locked; then come the condition variable that others wait on and its mutex. It lies in _PyRuntime,
and is found there by what it holds: the thread state must know the number of a thread of the process.
"""

from __future__ import annotations

import os
from collections.abc import Collection

import numpy as np

SEARCHED = 1 << 20
"""Bytes of _PyRuntime that are searched; it has 60 kB to 700 kB."""
WIDTH = 512
"""Bytes from the struct's beginning in which a waiting thread's futex lies: two condition variables, two mutexes."""
THREAD_STATE = 512
"""Bytes of a thread state in which its thread's number is."""
USUAL_US = 5000
SHORTEST_US, LONGEST_US = 10, 10_000_000
PAGE = 4096


class Gil:
    """The GIL of one process. OSError: its memory may not be read."""

    def __init__(self, pid: int) -> None:
        self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self.at = 0
        """Address of the struct; 0 until it is found."""
        self._number_at = 0

    def close(self) -> None:
        """Let go of the process's memory."""
        os.close(self._memory)

    def locate(self, runtime: int, tids: Collection[int]) -> None:
        """Look for it in the _PyRuntime at that address. `tids`: the process's threads, as it numbers them."""
        words = np.array(memoryview(self._whole(runtime, SEARCHED)).cast("Q"), np.uint64)
        interval, state, locked = words[:-2], words[1:-1], words[2:]
        alike = (interval >= SHORTEST_US) & (interval <= LONGEST_US) & (locked < 2) & (state > PAGE)
        for place in sorted(np.flatnonzero(alike).tolist(), key=lambda place: bool(interval[place] != USUAL_US)):
            if at := self._number(int(state[place]), tids):
                self.at, self._number_at = runtime + 8 * place, at
                return

    def holder(self) -> int | None:
        """The thread that holds it, as the process numbers it; 0: none does. None: it cannot be told."""
        if not self.at:
            return None
        try:
            _, state, locked = memoryview(os.pread(self._memory, 24, self.at)).cast("Q")
            if not locked & 1:
                return 0
            return int.from_bytes(os.pread(self._memory, 8, state + self._number_at), "little")
        except (OSError, ValueError, OverflowError):
            return None

    def is_waited_on(self, futex: int) -> bool:
        """Whether a thread that sleeps on this address waits for it."""
        return self.at <= futex < self.at + WIDTH if self.at else False

    def _number(self, state: int, tids: Collection[int]) -> int:
        """Where in a thread state its thread's number is; 0 if that is no thread state."""
        try:
            words = memoryview(os.pread(self._memory, THREAD_STATE, state)).cast("Q")
        except (OSError, OverflowError, TypeError):
            return 0
        return next((8 * place for place, word in enumerate(words) if word in tids), 0)

    def _whole(self, at: int, size: int) -> bytes:
        """What can be read from there on, in whole words."""
        found = b""
        while len(found) < size:
            try:
                more = os.pread(self._memory, PAGE - (at + len(found)) % PAGE, at + len(found))
            except OSError:
                break
            if not more:  # it has ended: there is no memory to read, and no error either
                break
            found += more
        return found[: len(found) // 8 * 8]
