"""When engines were switched off and on again: what they served meanwhile was never seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvscope.analysis.setup import label_of
from kvscope.model.events import Process


@dataclass(frozen=True)
class Gap:
    """A time in which an engine was off, as long as anybody looked."""

    engine: str
    begin: int
    end: int


class Gaps:
    """Watches the switches of engines; forgets gaps that ended long ago. Times are ns of the events' clock."""

    def __init__(self, keep_ns: int) -> None:
        self._keep_ns = keep_ns
        self._off: dict[str, int] = {}
        """engine -> since when"""
        self._over: list[Gap] = []

    def add(self, processes: Sequence[Process], now: int) -> None:
        """How the switches stand at `now`."""
        running = [process for process in processes if not process.ended]
        off = {label_of(process) for process in running if process.off}
        for engine in [engine for engine in self._off if engine not in off]:
            begin = self._off.pop(engine)
            if any(label_of(process) == engine for process in running):  # one that ended did not come back
                self._over.append(Gap(engine, begin, now))
        for engine in sorted(off):
            self._off.setdefault(engine, now)
        self._over = [gap for gap in self._over if gap.end > now - self._keep_ns]

    def since(self, begin: int) -> tuple[Gap, ...]:
        """Those that reach beyond `begin`, in the order in which they ended."""
        return tuple(gap for gap in self._over if gap.end > begin)
