"""Figures of a sweep as people read them: never without the number of requests that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from kvscope.analysis.bands import CLASSES
from kvscope.analysis.render.amounts import Milliseconds
from kvscope.lab.sweeping.cell import MIXED, PRODUCTION
from kvscope.lab.sweeping.folder import Capacity
from kvscope.model.controls import on_one_line
from kvscope.model.counting import count
from kvscope.model.stages import Class
from kvscope.sweep.contrasts import Contrast
from kvscope.sweep.estimates import Estimate
from kvscope.sweep.measured import Measured
from kvscope.sweep.results import Results

OPEN = "+"
"""Behind an interval's upper end that may lie higher."""
NAME_SHOWN = 80
HOW = (
    "TTFT: from a request's first moment to its first token, seen inside the engines; where no recording was made,"
    " from the client's sending to its first piece.",
    "In brackets: the 95 % interval, by drawing stretches of neighbouring requests anew; n: the requests that a figure"
    f" is of. {OPEN}: of so few requests the true value may lie above the largest that was seen. Too few: no figure is"
    " told.",
    "The split is the mean over all requests with a TTFT, and adds up to their mean TTFT. Hidden: coordination that ran"
    " behind it, and cost no TTFT. In undetermined time nobody looked whether bytes still moved, so transfer and"
    " coordination have two bounds.",
    "Mode against mode: each request minus the same request under the other mode, the mean and its interval; all these"
    " intervals hold together, so that of sweeps of like with like one in twenty has any line marked *. Modes of"
    " different connectors ran on engines that were started apart: what differs between two starts is in them, too.",
)


class Words:
    """How this sweep's times are written."""

    def __init__(self, results: Results) -> None:
        means = [each.inside.timed.ttft.mean() for each in results.cells if each.inside]
        seen = [value for each in results.cells for value in each.client_ttft.values()]
        self.scale = Milliseconds(max([*means, *seen, 1e6]))

    def figure(self, found: Estimate | None, have: int) -> str:
        """`512.3 (480.1 to 560.9) n 58`. have: requests, where they are too few"""
        if found is None:
            return f"too few (n {have:,})"
        high = self.scale.of(found.high) + (OPEN if found.open else "")
        return f"{self.scale.of(found.value)} ({self.scale.of(found.low)} to {high}) n {found.requests:,}"

    def change(self, found: Estimate | None, have: int) -> str:
        """`-12.0 (-20.1 to -4.0) n 58 *`."""
        if found is None:
            return f"too few (n {have:,})"
        sign = " *" if found.sure else ""
        value, low, high = (self.signed(ns) for ns in (found.value, found.low, found.high))
        return f"{value} ({low} to {high}) n {found.requests:,}{sign}"

    def signed(self, ns: float) -> str:
        """`+8.0`, `-0.3`."""
        return ("-" if ns < 0 else "+") + self.scale.of(abs(ns))

    def parts(self, means: Sequence[float]) -> list[str]:
        """Means of classes; what is written adds up."""
        return [self.scale.text(part) for part in self.scale.split(means)]

    def split(self, cell: Measured) -> str:
        """`mean 307.1 = front 2.0 + wait 40.1 + ..`, n 58."""
        inside = cell.inside
        if inside is None:
            return "no recording"
        means = [inside.classes[cls] for cls in CLASSES]
        terms = [f"{cls.short} {part}" for cls, part in zip(CLASSES, self.parts(means), strict=True)]
        whole = self.scale.text(sum(self.scale.split(means)))
        return f"{whole} = {' + '.join(terms)}, n {len(inside.timed):,}"

    def bounds(self, cell: Measured, cls: Class) -> str:
        """`8.0..11.0 n 58`."""
        if cell.inside is None:
            return "-"
        return f"{self.scale.between(*cell.inside.bounds(cls))} n {len(cell.inside.timed):,}"

    def hidden(self, cell: Measured) -> str:
        """Coordination behind the path."""
        return "-" if cell.inside is None else f"{self.scale.of(cell.inside.hidden)} n {len(cell.inside.timed):,}"

    def classes(self, found: Contrast) -> str:
        """`coord -12.0, wait +3.1`: of the same requests as the difference of TTFT."""
        told = [f"{cls.short} {self.signed(ns)}" for cls, ns in found.classes if abs(ns) >= self.scale.quantum / 2]
        return ", ".join(told) or "-"


def trust(cell: Measured) -> str:
    """What a cell's figures can be trusted for, in one line."""
    whole = f"{cell.answered:,} of {cell.planned:,} answered"
    told = [whole, f"{cell.failed:,} failed"]
    if unsent := cell.planned - len(cell.records):
        told.append(f"{unsent:,} never sent")
    if cell.inside is None:
        return ", ".join([*told, "no recording: unfinished, lost and clocks not known"])
    told += [f"{cell.unfinished or 0:,} unfinished", f"{cell.lost or 0:,} events lost", cell.inside.clock]
    shapes = cell.inside.condition.shapes
    kinds = [f"{name.replace('_', ' ')} {n:,}" for name, n in shapes] if len(shapes) > 1 else []
    return ", ".join([*told, *kinds])


def heading(cells: Sequence[Measured]) -> str:
    """Of cells that were sent the same: `300 tokens at 2.28/s (50% of capacity)`."""
    first = cells[0]
    share = f" ({first.cell.load})" if first.cell.shared else ""
    return f"{first.cell.length} at {first.rate:.3g}/s{share}"


def title(results: Results) -> str:
    """What was swept."""
    whole = len(results.cells) + len(results.left)
    return f"kvscope sweep: {results.options.shape}, {len(results.cells)} of {count(whole, 'cell')}"


def asked(results: Results) -> list[str]:
    """What was sent, and by what it was scaled."""
    options = results.options
    caching = "prefix caching on, mixed lengths, bursts, conversations, two decode engines"
    told = [
        f"{options.requests} requests a cell, answers of {options.output_tokens} tokens, seed {options.seed};"
        + (f" {caching}" if options.shape == PRODUCTION else " one length a cell, Poisson arrivals")
        + (", prefix caching off" if options.shape != PRODUCTION and not options.target else "")
    ]
    told += [_capacity(tokens, each) for tokens, each in results.capacity.items() if each.requests]
    if options.target:
        runs = dict.fromkeys(shown(each.as_it_runs) for each in results.cells)
        told.append(f"target {shown(options.target)}: {', '.join(runs)}")
    return told


def _capacity(tokens: int, found: Capacity) -> str:
    what = "mixed lengths" if tokens == MIXED else f"{tokens:,} tokens"
    return f"capacity for {what}: {found.rate:.3g}/s, by a burst of {found.requests} requests to {found.mode}"


def served(results: Results) -> list[str]:
    """Versions and settings, as engines told them: those of all cells once, those that differ with who has them."""
    facts: dict[str, dict[str, dict[str, None]]] = {}
    for each in results.cells:
        for name, fact in each.inside.setup.facts.items() if each.inside else ():
            for value, _ in fact.values:
                facts.setdefault(name, {}).setdefault(value, {})[each.cell.mode] = None
    return [f"{name.replace('_', ' ')} {_values(values)}" for name, values in facts.items()]


def _values(values: dict[str, dict[str, None]]) -> str:
    if len(values) == 1:
        return shown(next(iter(values)))
    return ", ".join(f"{shown(value)} ({', '.join(modes)})" for value, modes in values.items())


def machines(results: Results) -> list[str]:
    """What it was measured on, and how busy that was when its cells began."""
    told = [each.told.get("machine") for each in results.cells]
    known = [each for each in told if isinstance(each, dict)]
    lines = dict.fromkeys(f"{each.get('cores', '?')} cores, {shown(str(each.get('platform', '?')))}" for each in known)
    loads = [each["load_average"] for each in known if isinstance(each.get("load_average"), float)]
    busy = [f"load average {min(loads):.1f} to {max(loads):.1f} as cells began"] if loads else []
    return [*lines, *busy]


def notes(results: Results) -> list[str]:
    """What reading the cells had to say, each with its cell."""
    said = chain.from_iterable(((each.cell.name, note) for note in each.notes) for each in results.cells)
    failed = ((each.cell.name, f"{n:,} failed: {why}") for each in results.cells for why, n in each.failures)
    others = (
        (each.cell.name, f"{count(each.inside.others, 'request')} of others in the recording, left out")
        for each in results.cells
        if each.inside and each.inside.others
    )
    return [f"{name}: {shown(note)}" for name, note in chain(said, failed, others)]


def shown(text: str) -> str:
    """A name that somebody else chose, as it may be shown: on one line, nothing in it that steers, not without end."""
    text = on_one_line(text)
    return text if len(text) <= NAME_SHOWN * 2 else text[: NAME_SHOWN * 2 - 1] + "…"
