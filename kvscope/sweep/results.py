"""All that a sweep's pages say, put together once: the cells that are done, and what they say of each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from kvscope.analysis.bands import CLASSES
from kvscope.lab.sweeping.cell import Cell
from kvscope.lab.sweeping.folder import Capacity, Kept
from kvscope.lab.sweeping.plan import SweepOptions, cells
from kvscope.model.counting import count
from kvscope.model.stages import Class
from kvscope.sweep.contrasts import Contrast, contrasts
from kvscope.sweep.measured import Measured, read

SAID = {
    "lower": "lower",
    "higher": "higher",
    "no more than chance": "apart by no more than chance",
    "too few": "of too few requests",
}


@dataclass(frozen=True)
class Results:
    """A sweep, as far as it is done."""

    options: SweepOptions
    capacity: dict[int, Capacity]
    cells: tuple[Measured, ...]
    """In the order of lengths and rates, within these of modes."""
    left: tuple[Cell, ...]
    """Not measured yet."""

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """Mode against mode."""
        return contrasts(self.cells)

    @property
    def conditions(self) -> list[list[Measured]]:
        """Cells that were sent the same, together."""
        return [list(group) for _, group in itertools.groupby(self.cells, lambda each: each.cell.condition)]

    @property
    def span(self) -> str:
        """When it was measured."""
        times = sorted(str(each.told.get("begun", "")) for each in self.cells)
        ends = list(dict.fromkeys((_minute(times[0]), _minute(times[-1])))) if times else []
        return f"{' to '.join(ends)} UTC" if ends else "nothing is measured yet"

    @property
    def headlines(self) -> list[str]:
        """What came of it, in sentences that hold over all cells."""
        groups = itertools.groupby(self.contrasts, lambda each: each.words)
        told = [_headline(words, list(group)) for words, group in groups]
        return [*told, *self._troubles()]

    def _troubles(self) -> Iterator[str]:
        sent = sum(len(each.records) for each in self.cells)
        if failed := sum(each.failed for each in self.cells):
            where = sum(each.failed > 0 for each in self.cells)
            told = f"{failed:,} of {count(sent, 'request')} failed, in {count(where, 'cell')}"
            yield f"{told}; they are in no percentile."
        if lost := sum(each.lost or 0 for each in self.cells):
            yield f"{count(lost, 'event')} lost: requests that they were of are in no percentile."
        if outside := sum(each.inside is None for each in self.cells):
            yield f"{count(outside, 'cell')} of {len(self.cells)} without a recording: client-side figures only."
        if self.left:
            whole = len(self.cells) + len(self.left)
            yield f"{len(self.left)} of {count(whole, 'cell')} not measured yet: the same command goes on."


def _headline(words: str, found: Sequence[Contrast]) -> str:
    whole, parts = count(len(found), "cell"), list[str]()
    for verdict in ("lower", "higher", "no more than chance", "too few"):
        if its := [each for each in found if each.verdict == verdict]:
            place = f"in {len(its)}" + ("" if parts else f" of {whole}")
            parts.append(f"{SAID[verdict]} {place}{_by(its) if verdict in ('lower', 'higher') else ''}")
    return f"{words}: TTFT {', '.join(parts)}."


def _by(found: Sequence[Contrast]) -> str:
    means = [f"{each / 1e6:,.0f}" for each in sorted(abs(each.ttft.value) for each in found if each.ttft)]
    pairs = [f"{each:,}" for each in sorted(each.pairs for each in found)]
    cls = _largest(found)
    most = f", more than half of it {cls}" if cls else ""
    return f" (by {_range(means)} ms, n {_range(pairs)}{most})"


def _range(values: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys((values[0], values[-1])))


def _largest(found: Sequence[Contrast]) -> Class | None:
    """The class that more than half of the difference lies in, whatever the undetermined time was."""
    sums = {cls: sum(dict(each.classes).get(cls, 0.0) for each in found) for cls in CLASSES}
    whole = sum(sums.values())
    open_ns = sums.pop(Class.UNDETERMINED) * (1 if whole > 0 else -1)
    for cls, ns in sums.items():
        shared = min(0.0, open_ns) if cls in (Class.COORDINATION, Class.TRANSFER) else 0.0
        if ns * (1 if whole > 0 else -1) + shared > abs(whole) / 2:
            return cls
    return None


def gather(kept: Kept, known: dict[str, Measured]) -> Results:
    """What is done. known: cells that were read before, by name; it takes up those that were not."""
    planned = cells(kept.options)
    done = [cell for cell in planned if kept.done(cell)]
    for cell in done:
        if cell.name not in known:
            known[cell.name] = read(kept.place(cell))
    order = {at: number for number, at in enumerate(dict.fromkeys(cell.condition for cell in planned))}
    done.sort(key=lambda cell: order[cell.condition])
    left = tuple(cell for cell in planned if not kept.done(cell))
    return Results(kept.options, dict(kept.capacity), tuple(known[cell.name] for cell in done), left)


def _minute(iso: str) -> str:
    try:
        return datetime.fromisoformat(iso).astimezone(UTC).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return "?"
