"""Which cells a sweep has, and in which order. Pure functions of its options."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from kvscope.lab.sweeping.cell import CONTROLLED, MIXED, MODES, PRODUCTION, SHAPES, TARGET, Cell, Mode, canonical
from kvscope.model.errors import InputError

RECIPE = 1
"""Counted up when the same options mean other loads than before."""
MOST_CELLS, MOST_REQUESTS = 500, 20_000
MOST_SHARE = 3.0
LENGTHS = {CONTROLLED: (300, 1000), PRODUCTION: (100, 400, 1200)}


@dataclass(frozen=True)
class SweepOptions:
    """What is swept. Each of these is part of what a sweep's folder remembers."""

    shape: str = CONTROLLED
    modes: tuple[str, ...] = tuple(MODES)
    """Names in MODES; of a target none."""
    input_tokens: tuple[int, ...] = ()
    """Prompt lengths: a cell each, or of the production shape what is mixed. Empty: LENGTHS."""
    shares: tuple[float, ...] = (0.3, 0.6, 0.9)
    """Of the capacity that is measured first."""
    rates: tuple[float, ...] = ()
    """Requests per second, in place of shares."""
    requests: int = 60
    """Of each cell."""
    output_tokens: int = 16
    seed: int = 0
    target: str = ""
    """A router's address; empty: pairs of our own."""
    model: str = ""
    """Its name, for targets that want one."""

    @property
    def prompts(self) -> tuple[int, ...]:
        """Their lengths."""
        return self.input_tokens or LENGTHS[self.shape]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the prompts, a cell each."""
        return (MIXED,) if self.shape == PRODUCTION else self.prompts

    @property
    def swept(self) -> tuple[Mode, ...]:
        """The modes."""
        return (TARGET,) if self.target else tuple(MODES[name] for name in self.modes)

    @property
    def decodes(self) -> int:
        """Decode engines of a pair of ours."""
        return 2 if self.shape == PRODUCTION else 1

    @property
    def digest(self) -> str:
        """Names the plan: changes with every option."""
        return hashlib.sha256(canonical({"recipe": RECIPE, **asdict(self)}).encode()).hexdigest()[:12]

    def checked(self) -> SweepOptions:
        """Itself. InputError: something that cannot be; better said before a minute's start."""
        if self.shape not in SHAPES:
            raise InputError(f"a sweep's shape is {' or '.join(SHAPES)}, not {self.shape!r}")
        if unknown := [name for name in self.modes if name not in MODES]:
            raise InputError(f"there is no mode {unknown[0]!r}; choose among {', '.join(MODES)}")
        for name, found in (("--modes", self.modes), ("--input-tokens", self.prompts)):
            _each_once(name, found)
        _each_once("--rates" if self.rates else "--shares", self.rates or self.shares)
        if not all(0 < share <= MOST_SHARE for share in self.shares):
            raise InputError(f"--shares are parts of the capacity, above 0 and at most {MOST_SHARE:g}")
        if not all(0 < rate < math.inf for rate in self.rates):
            raise InputError("--rates are requests per second, above 0")
        if min(self.prompts) < 1 or self.output_tokens < 2:
            raise InputError("prompts have at least one token and answers two, or there is no time per token")
        if not 1 <= self.requests <= MOST_REQUESTS:
            raise InputError(f"--requests {self.requests}: choose between 1 and {MOST_REQUESTS:,} for each cell")
        if self.target and not self.target.startswith(("http://", "https://")):
            raise InputError(f"--target {self.target}: it is no address such as http://HOST:PORT")
        if len(cells(self)) > MOST_CELLS:
            raise InputError(f"{len(cells(self))} cells are too many; {MOST_CELLS} are the most")
        return self


def _each_once(name: str, found: Sequence[object]) -> None:
    if not found:
        raise InputError(f"{name} names nothing")
    if len(set(found)) < len(found):
        raise InputError(f"{name} names something twice: {', '.join(map(str, found))}")


def cells(options: SweepOptions) -> list[Cell]:
    """All, in the order in which they are measured.

    Those of one connector together, since each connector needs engines of its own. Within them the modes of one
    length and rate follow each other, so that a machine that changes over the hour changes both alike.
    """
    found: list[Cell] = []
    loads = [(rate, False) for rate in options.rates] or [(share, True) for share in options.shares]
    for connector in dict.fromkeys(mode.connector for mode in options.swept):
        modes = [mode.name for mode in options.swept if mode.connector == connector]
        for tokens, (at, shared), mode in itertools.product(options.lengths, loads, modes):
            found.append(Cell(mode, tokens, at, shared))
    return found


def by_connector(found: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    """Cells by the engines that they need, in their order."""
    groups: dict[str, list[Cell]] = {}
    for cell in found:
        groups.setdefault(mode_of(cell).connector, []).append(cell)
    return list(groups.items())


def mode_of(cell: Cell) -> Mode:
    """Its mode."""
    return MODES.get(cell.mode, TARGET)


def rate_of(cell: Cell, capacity: dict[int, float]) -> float:
    """Requests per second. capacity: prompt length -> requests per second"""
    return cell.at * capacity[cell.tokens] if cell.shared else cell.at


PER_CELL_S = 8.0
"""Warm-up, settling and looking at what came of it."""
PER_START_S = 90.0


def seconds_left(left: Sequence[Cell], options: SweepOptions, capacity: dict[int, float], started: bool) -> float:
    """About how long these cells take; 0 where no capacity is known yet. started: the first ones' engines are up"""
    if any(cell.shared and cell.tokens not in capacity for cell in left):
        return 0.0
    sending = sum(options.requests / rate_of(cell, capacity) + PER_CELL_S for cell in left)
    starts = 0 if options.target else max(0, len(by_connector(left)) - started)
    return sending + starts * PER_START_S
