"""Whether what leads does so evenly over all engines, or on one engine or one pair of engines.

Each engine's requests are held against the median of its peers. "Even" is a claim as well: it is made only where
an excess that matters would have shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from kvscope.analysis.bands import CLASS_OF_STAGE, CLASSES
from kvscope.analysis.setup import label_of
from kvscope.model.splits import Splits
from kvscope.model.stages import Class

PREFILL, DECODE, PAIR = "prefill", "decode", "pair"
CHANCE = 0.01
"""How often noise alone may name somebody, over all who are compared: a screen that is read all day must not cry."""
MATTERS = 0.2
"""Share of the mean TTFT from which on an excess explains a slow fleet. Less would be lost in it."""
FEWEST = 8
"""Requests of an engine or a pair, below which their mean says nothing of it."""
COVERED = 0.9
"""Share of requests whose engines must be judged before "even" may be said: the rest is too little to lead."""
ITS_OWN = 0.8
"""Share of an engine's excess that one of its pairs must have for the pair to be named instead,"""
NOT_ITS_SHARE = 0.5
"""having no more than this share of the engine's requests."""


@dataclass(frozen=True)
class Excess:
    """An engine or a pair whose requests spend more on what leads than those of its peers."""

    kind: str
    """PREFILL, DECODE or PAIR"""
    name: str
    requests: int
    mean_ns: float
    peers_ns: float
    """median over its peers"""

    @property
    def total_ns(self) -> float:
        """What its requests lost to it together."""
        return (self.mean_ns - self.peers_ns) * self.requests


@dataclass(frozen=True)
class Spread:
    """How what leads is spread."""

    prefill: int
    decode: int
    """engines with requests"""
    pairs: int
    excesses: tuple[Excess, ...]
    """of one kind, most first; empty: nobody stands out"""
    sure: bool
    """whether an excess that matters would have been seen"""


@dataclass(frozen=True)
class _Groups:
    """Requests by engine or by pair."""

    codes: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    peers: np.ndarray
    """median of the others' means; NaN where there are none"""
    out: np.ndarray
    """bool: stands out"""
    sure: bool


def gather_spread(window: Splits, classes: tuple[Class, ...]) -> Spread:
    """Look for the requests that spend more on `classes`, which lead or may lead, than others do."""
    names, engine = _by_name(window)
    rows = np.flatnonzero(window.timed & (window.prefill_engine >= 0) & (window.decode_engine >= 0))
    prefill, decode = engine[window.prefill_engine[rows]], engine[window.decode_engine[rows]]
    stages = np.flatnonzero(np.isin(CLASS_OF_STAGE, [CLASSES.index(cls) for cls in classes])).tolist()
    leading = sum((window.exposed[rows, stage] for stage in stages), np.zeros(len(rows)))
    floor = MATTERS * float(window.ttft[rows].mean()) if len(rows) else 0.0
    sides = {kind: _compare(leading, codes, floor) for kind, codes in ((PREFILL, prefill), (DECODE, decode))}
    pairs = _compare(leading, prefill * len(names) + decode, floor)
    return Spread(
        prefill=len(sides[PREFILL].codes),
        decode=len(sides[DECODE].codes),
        pairs=len(pairs.codes),
        excesses=_excesses(sides, pairs, names),
        sure=all(side.sure for side in sides.values()),
    )


def _by_name(window: Splits) -> tuple[list[str], np.ndarray]:
    """Names, and the place among them of each engine: one that was started anew is still the same to a person."""
    told = [label_of(engine) for engine in window.engines]
    names = list(dict.fromkeys(told))
    return names, np.array([names.index(name) for name in told], np.int64)


def _compare(values: np.ndarray, codes: np.ndarray, floor: float) -> _Groups:
    kinds, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    means = np.bincount(inverse, values, len(kinds)) / counts
    doubt = _doubt(values - means[inverse], counts)
    judged = counts >= FEWEST
    peers = np.full(len(kinds), np.nan)
    peers[judged] = median_of_others(means[judged])
    excess = means - peers
    out = judged & (excess > doubt) & (excess > floor)
    safe = counts[judged & (doubt <= floor)].sum() >= COVERED * counts.sum()
    return _Groups(kinds, counts, means, peers, out, bool(len(kinds) < 2 or safe))


def _doubt(within: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(groups,) how far off noise alone may put the mean of a group, given what is left of each value.

    Pooled, so that few that happen to be alike are not taken for certain. Times have a long tail, and so have means
    of few of them: the normal quantile is moved by their skewness, as Cornish and Fisher have it.
    """
    sigma = np.sqrt(float((within**2).sum()) / max(1, len(within) - len(counts)))
    skewness = max(0.0, float((within**3).mean()) / sigma**3) if sigma else 0.0
    z = NormalDist().inv_cdf(1 - CHANCE / max(1, len(counts)))
    return np.asarray(sigma / np.sqrt(counts) * (z + (z * z - 1) * skewness / 6 / np.sqrt(counts)))


def median_of_others(values: np.ndarray) -> np.ndarray:
    """(n,) for each value the median of all the others; NaN where there are none."""
    n = len(values)
    if n < 2:
        return np.full(n, np.nan)
    order = np.argsort(values, kind="stable")
    ranks = np.empty(n, np.int64)
    ranks[order] = np.arange(n)
    low, high = ((n - 2) // 2, (n - 1) // 2)  # the middle of n - 1 values; one out moves what lies above it
    ordered = values[order]
    return np.asarray((ordered[low + (ranks <= low)] + ordered[high + (ranks <= high)]) / 2)


def _excesses(sides: dict[str, _Groups], pairs: _Groups, names: list[str]) -> tuple[Excess, ...]:
    """Of the side with the greater excess; a pair in an engine's stead where it is the pair's."""
    best = max((_named(kind, groups, names) for kind, groups in sides.items()), key=_total)
    if not best:
        return _named(PAIR, pairs, names)
    return (_narrowed(best[0], pairs, names),) if len(best) == 1 else best


def _total(found: tuple[Excess, ...]) -> float:
    return sum(excess.total_ns for excess in found)


def _named(kind: str, groups: _Groups, names: list[str]) -> tuple[Excess, ...]:
    found = [_excess(kind, groups, at, names) for at in np.flatnonzero(groups.out).tolist()]
    return tuple(sorted(found, key=lambda excess: -excess.total_ns))


def _excess(kind: str, groups: _Groups, at: int, names: list[str]) -> Excess:
    code = int(groups.codes[at])
    name = names[code] if kind != PAIR else f"{names[code // len(names)]} -> {names[code % len(names)]}"
    return Excess(kind, name, int(groups.counts[at]), float(groups.means[at]), float(groups.peers[at]))


def _narrowed(whole: Excess, pairs: _Groups, names: list[str]) -> Excess:
    """The one pair that makes an engine stand out; the engine itself where its pairs are alike in it."""
    prefill, decode = pairs.codes // len(names), pairs.codes % len(names)
    member, others = (prefill, decode) if whole.kind == PREFILL else (decode, prefill)
    mine = np.flatnonzero(member == names.index(whole.name))
    if len(np.unique(others)) < 2:
        return whole
    lost = (pairs.means[mine] - whole.peers_ns) * pairs.counts[mine]
    most = int(lost.argmax())
    its_own = lost[most] >= ITS_OWN * whole.total_ns
    if len(mine) > 1 and not (its_own and pairs.counts[mine[most]] <= NOT_ITS_SHARE * whole.requests):
        return whole
    return replace(_excess(PAIR, pairs, int(mine[most]), names), peers_ns=whole.peers_ns)
