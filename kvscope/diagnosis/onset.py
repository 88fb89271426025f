"""Since when: the instant from which on a figure of the requests is another, or that it always was so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.diagnosis.baseline import standard_error
from kvscope.diagnosis.thresholds import CHANGE, FEWEST

BESIDE = 10e9
"""ns before a change within which what started is said beside it."""
EDGE = 5
"""Requests that it takes to say that it was different before, or is again."""
LEAST_SHARE = 0.15
"""Of the requests on either side of a change: what is shorter is a burst, and asked for with --from and --to."""


@dataclass(frozen=True)
class Change:
    """A step in a series of values."""

    at: int
    """index of the first value after it"""
    score: float
    """standard errors"""
    up: bool
    """the values after it are the greater ones"""


def change_in(values: np.ndarray) -> Change | None:
    """The clearest step in a series (n,), whatever its size; None: there are too few values."""
    n = len(values)
    least = max(int(FEWEST.value), round(LEAST_SHARE * n))
    if n < 2 * least:
        return None
    sums, squares = np.cumsum(values), np.cumsum(values**2)
    k = np.arange(least, n - least + 1)
    before, after = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    within = squares[-1] - k * before**2 - (n - k) * after**2
    gap = np.abs(after - before)
    score = gap / np.sqrt(np.maximum(within, 1e-9 * max(squares[-1], 1.0)) / n * (1 / k + 1 / (n - k)))
    best = int(score.argmax())
    at = int(k[best])
    error = np.hypot(standard_error(values[:at, None])[0], standard_error(values[at:, None])[0])
    floor = 1e-3 * float(gap[best])
    return Change(at, float(gap[best] / max(error, floor, 1e-12)), bool(after[best] > before[best]))


def sure_change(values: np.ndarray, least: float) -> Change | None:
    """The step, if chance does not explain it and it is of `least` at least."""
    found = change_in(values)
    if found is None or found.score < CHANGE.value:
        return None
    size = abs(float(values[found.at :].mean() - values[: found.at].mean()))
    return found if size >= least else None


@dataclass(frozen=True)
class Onset:
    """Since when something is so."""

    at: int | None
    """ns; None: for as long as anything was recorded"""
    within_ns: int = 0
    """how far from `at` it may have been"""
    until: int | None = None
    """ns; None: to the end"""
    beside: str = ""
    """what started about then"""


def onset_of(when: np.ndarray, values: np.ndarray, normal: float, started: tuple[tuple[int, str], ...]) -> Onset:
    """When values (n,) at times (n,) ns, in any order, rose above `normal`. started: (ns, what) of processes"""
    order = np.argsort(when, kind="stable")
    when, high = when[order], values[order] > normal
    if not high.any() or high.all():
        return Onset(None)
    begin, end = _stretch(high)
    until = int(when[end]) if end < len(when) else None
    if begin == 0:
        return Onset(None, until=until)
    doubt = int(when[begin] - when[begin - 1])
    at = int(when[begin])
    near = [(abs(t - at), what) for t, what in started if at - max(doubt, BESIDE) <= t <= at + doubt]
    return Onset(int(when[begin]), doubt, until, min(near)[1] if near else "")


def _stretch(high: np.ndarray) -> tuple[int, int]:
    """[begin, end) in which the high ones are, as far as they are fewer outside; not every request need be high."""
    weights = high - 0.5 * high.mean()
    total = np.concatenate(([0.0], np.cumsum(weights)))
    lowest = np.minimum.accumulate(total)
    end = int((total - lowest).argmax())
    begin = int(total[: end + 1].argmin())
    inside = high[begin:end].mean()
    if begin < EDGE or high[:begin].mean() > 0.5 * inside:
        begin = 0
    if len(high) - end < max(EDGE, LEAST_SHARE * len(high)) or high[end:].mean() > 0.5 * inside:
        end = len(high)
    return begin, end
