"""What the sources named leave out, in sentences: told beside the numbers, and no loss."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from kvscope.model.counting import count
from kvscope.model.events import Gap, Process

SECOND = 1_000_000_000
CUT = "requests cut there are incomplete"
FEW = 3
"""Stretches that are told one by one."""


def absent(processes: Sequence[Process]) -> Iterator[str]:
    """A sentence for each stretch of time of which records are in none of the sources, and for what came before."""
    found = [(gap, process) for process in processes for gap in process.gaps]
    stretches = list(_stretches(found))
    if len(stretches) > FEW:
        stretches, many = [found], f" in {len(stretches)} stretches"
    else:
        many = ""
    for each in stretches:
        events = sum(gap.events for gap, _ in each)
        begin, end = min(_when(*one)[0] for one in each), max(_when(*one)[1] for one in each)
        told = all(process.wall_ns is not None for _, process in each)
        between = f"{_clock(begin)} and {_clock(end)} UTC" if told else f"them, for {(end - begin) / SECOND:.1f} s"
        yield f"not in these recordings: {count(events, 'event')}{many} between {between}; {CUT}"
    if before := sum(process.before for process in processes):
        yield f"not in these recordings: {count(before, 'event')} of parts before them, removed or not named"


def _stretches(found: list[tuple[Gap, Process]]) -> Iterator[list[tuple[Gap, Process]]]:
    """Gaps that overlap are one stretch."""
    stretch: list[tuple[Gap, Process]] = []
    until = 0
    for each in sorted(found, key=lambda one: _when(*one)):
        begin, end = _when(*each)
        if stretch and begin > until:
            yield stretch
            stretch = []
        until = end if not stretch else max(until, end)
        stretch.append(each)
    if stretch:
        yield stretch


def _when(gap: Gap, process: Process) -> tuple[int, int]:
    wall = process.wall_ns or 0
    return gap.begin + wall, gap.end + wall


def _clock(t: int) -> str:
    """ns since 1970 -> the time of day"""
    return time.strftime("%H:%M:%S", time.gmtime(t // SECOND))
