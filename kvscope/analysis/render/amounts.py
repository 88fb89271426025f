"""Numbers as people read them; parts rounded so that what is printed adds up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NOT_KNOWN = "-"


def add_up(parts: Sequence[float] | np.ndarray, quantum: float, total: int | None = None) -> list[int]:
    """Parts in whole quanta whose sum is `total`, the rounded sum unless told: the largest remainders are rounded up.

    total: at least the sum of the parts rounded down, at most that of the parts rounded up.
    """
    exact = np.asarray(parts, float) / quantum
    whole = np.floor(exact).astype(int)
    short = (round(float(exact.sum())) if total is None else total) - int(whole.sum())
    for index in np.argsort(whole - exact, kind="stable")[:short]:
        whole[index] += 1
    return [int(value) for value in whole]


class Milliseconds:
    """The scale of times: tenths of a ms, on every page, so that one time reads the same on all of them.

    Only where nothing lasts a whole ms are they thousandths.
    """

    def __init__(self, largest_ns: float) -> None:
        self.decimals = 1 if largest_ns >= 1e6 else 3
        self.quantum = 10 ** (6 - self.decimals)

    def split(self, parts_ns: Sequence[float] | np.ndarray) -> list[int]:
        """Parts in quanta that add up."""
        return add_up(parts_ns, self.quantum)

    def text(self, quanta: int) -> str:
        """`1,312.4`."""
        return f"{quanta / 10**self.decimals:,.{self.decimals}f}"

    def of(self, ns: float) -> str:
        """A single time on this scale."""
        return self.text(round(ns / self.quantum))

    def between(self, low: float, high: float) -> str:
        """`8.0..11.0`, or one number where both read alike."""
        first, last = self.of(low), self.of(high)
        return first if first == last else f"{first}..{last}"


def duration(ns: float) -> str:
    """A length of time with the unit that suits it."""
    size = abs(ns)
    if size >= 3_600e9:
        return f"{int(ns // 3_600e9)} h {int(ns % 3_600e9 // 60e9):02d} min"
    if size >= 60e9:
        return f"{int(ns // 60e9)} min {int(ns % 60e9 // 1e9):02d} s"
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if size >= scale:
            return f"{_three_digits(ns / scale)} {unit}"
    return f"{ns:.0f} ns"


def quantity(value: float, unit: str) -> str:
    """`1.61 GB`, `27.8 GB/s`: decimal prefixes."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def share(part: float, whole: float) -> str:
    """A percentage that never rounds to 0 % or 100 % what is not."""
    if not whole:
        return NOT_KNOWN
    percent = 100 * part / whole
    if percent in (0, 100):
        return f"{percent:.0f}%"
    if percent < 0.1:
        return "<0.1%"
    if percent > 99.9:
        return ">99.9%" if percent < 100 else f"{percent:.0f}%"
    return f"{percent:.1f}%" if percent < 10 or percent > 99 else f"{percent:.0f}%"


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
