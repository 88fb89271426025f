"""The scheduler's load as records: when it has changed, at most ten times a second."""

from __future__ import annotations

from collections import deque
from typing import Any

from kvscope.probe.recorder import record
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

LOAD = MOMENT_CODE["load"]
ENGINE = LEG_CODE["engine"]


class Load:
    """What was written of it last, and when."""

    def __init__(self) -> None:
        self._last: tuple[int, ...] = ()
        self._times: deque[int] = deque(maxlen=10)

    def note(self, scheduler: Any, now: int, step: int) -> None:
        """Write it if it has changed; once nothing is left, however often it has: no step may follow."""
        load = (
            len(scheduler.waiting),
            len(scheduler.running),
            len(scheduler.kv_holding_waiting),
            scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
        )
        times = self._times
        often = len(times) == 10 and now - times[0] < 1_000_000_000
        if load == self._last or (often and any(load[:3])):
            return
        self._last = load
        times.append(now)
        record(LOAD, ENGINE, None, now, *load, step=step)
