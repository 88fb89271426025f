"""What others had of this machine's CPU while something was measured on it: whether a figure may be held tight.

Others are all that this process did not start: engines, router and client are its descendants or itself. What a
hypervisor took away (steal) counts as others' too; what the kernel did for somebody is that somebody's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Of all cores. The system's own services have 1 %; it took a third to move figures on two cores beyond the tight ones.
QUIET = 0.1


@dataclass(frozen=True)
class Bystanders:
    """CPU time of a stretch."""

    seconds: float
    cores: int
    all_s: float
    """That all processes ran, and that was stolen, on all cores."""
    own_s: float
    """Of it, our own processes'."""

    @property
    def share(self) -> float:
        """What others had, of all there was: 1 is every core, all the time."""
        return max(0.0, self.all_s - self.own_s) / (self.seconds * self.cores)

    @property
    def quiet(self) -> bool:
        """Whether what was measured says something of what was run, not of the machine."""
        return self.share <= QUIET

    def choose(self, quiet: float, busy: float) -> float:
        """The figure to hold a measurement against."""
        return quiet if self.quiet else busy

    def __str__(self) -> str:
        figures = "the tight figures apply" if self.quiet else "others were at work, the loose figures apply"
        return f"others had {self.share:.1%} of {self.cores} cores for {self.seconds:.0f} s: {figures}"


@dataclass
class Watch:
    """Filled when what was watched is over."""

    seen: Bystanders | None = None

    @property
    def bystanders(self) -> Bystanders:
        assert self.seen is not None, "not over yet"
        return self.seen


@contextmanager
def watching(pid: int | None = None, root: Path = PROC) -> Iterator[Watch]:
    """Watch others while the block runs; `pid` (this process) and its descendants are not others."""
    watch, began = Watch(), monotonic()
    machine, own = _machine(root), _family(pid or os.getpid(), root)
    yield watch
    ended, after, own_after = monotonic(), _machine(root), _family(pid or os.getpid(), root)
    spent = [(now - before) / TICKS_PER_S for now, before in ((after[0], machine[0]), (own_after, own))]
    watch.seen = Bystanders(ended - began, after[1], *spent)


def _machine(root: Path) -> tuple[int, int]:
    """Ticks during which some core was not idle, and how many cores there are."""
    lines = [line.split() for line in (root / "stat").read_text().splitlines() if line.startswith("cpu")]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, lines[0][1:9])
    return user + nice + system + irq + softirq + steal, len(lines) - 1


@dataclass(frozen=True)
class _Spent:
    parent: int
    ticks: int
    """Its own, and of children that it has seen end: nothing is lost when one ends."""


def _family(pid: int, root: Path) -> int:
    """Ticks spent by a process and all its descendants."""
    found = {int(entry.name): spent for entry in root.iterdir() if entry.name.isdigit() if (spent := _spent(entry))}
    generation, family = {pid}, set[int]()
    while generation:
        family |= generation
        generation = {child for child, spent in found.items() if spent.parent in generation}
    return sum(found[member].ticks for member in family if member in found)


def _spent(folder: Path) -> _Spent | None:
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Spent(int(fields[1]), sum(map(int, fields[11:15])))
