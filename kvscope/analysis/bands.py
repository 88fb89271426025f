"""Percentile bands of the time to first token, each with the mean split of the requests in it.

Percentiles of parts do not add up to a percentile of the whole, so no such thing is computed here: a band
holds the requests around the percentile, and its split is their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.model.graph import STAGE_INDEX
from kvscope.model.stages import STAGES, Class

PERCENTILES = (50.0, 95.0, 99.0)
REACH = 1.0
"""A band reaches from p-1 to p+1,"""
FEWEST = 5
"""further where that holds fewer requests than these,"""
WIDEST = 0.2
"""but never over more than this share of all."""

CLASSES: tuple[Class, ...] = tuple(Class)
CLASS_OF_STAGE = np.array([CLASSES.index(stage.cls) for stage in STAGES])
TRANSFER_OR_NOT = [STAGE_INDEX["submit"], STAGE_INDEX["poll_gap"]]
"""Time in which bytes may or may not have moved."""


@dataclass(frozen=True)
class Band:
    """The requests around one percentile."""

    name: str
    percentile_ns: int
    """The percentile of TTFT itself, nearest rank."""
    count: int
    """Requests in the band."""
    low_ns: int
    high_ns: int
    """The least and the greatest TTFT in the band."""
    exposed: np.ndarray
    """(stages,) mean ns on the path; adds up to `mean_ns`"""
    hidden: np.ndarray
    """(stages,) mean ns off the path"""
    late_ns: float = 0.0
    """Mean time that finished blocks waited for their registration: the most that an earlier one wins"""

    @property
    def mean_ns(self) -> float:
        """Mean TTFT of the band."""
        return float(self.exposed.sum())

    @property
    def undecided_ns(self) -> float:
        """`submit` and `poll_gap`: transfer or coordination, nobody can tell."""
        return float(self.exposed[TRANSFER_OR_NOT].sum())

    def class_ns(self, cls: Class) -> float:
        """What the band's requests spent in the class, `undetermined` being a class of its own."""
        return float(self.exposed[CLASS_OF_STAGE == CLASSES.index(cls)].sum())

    def bounds_ns(self, cls: Class) -> tuple[float, float]:
        """What the class may have had: transfer and coordination share the undecided, all the unattributed."""
        least = self.class_ns(cls)
        loose = float(self.exposed[STAGE_INDEX["unattributed"]])
        if cls is Class.UNDETERMINED:
            return 0.0, least
        shared = self.undecided_ns if cls in (Class.COORDINATION, Class.TRANSFER) else 0.0
        return least, least + shared + loose


def gather_bands(
    ttft: np.ndarray,
    exposed: np.ndarray,
    hidden: np.ndarray,
    late: np.ndarray | None = None,
    percentiles: Sequence[float] = PERCENTILES,
) -> tuple[Band, ...]:
    """Bands at the percentiles and at the maximum; none of no requests. ttft, late: (n,) ns; others (n, stages) ns."""
    if not len(ttft):
        return ()
    order = np.argsort(ttft, kind="stable")
    columns = (ttft, exposed, hidden, np.zeros(len(ttft)) if late is None else late)
    bands = [_band(f"p{p:g}", columns, order, p) for p in percentiles]
    return (*bands, _band("max", columns, order, 100.0))


def members(n: int, percentile: float) -> tuple[int, int]:
    """Ranks [low, high) of the requests in the band, among n in order of TTFT."""
    if percentile >= 100.0:
        return n - 1, n
    rank = nearest_rank(n, percentile)
    low = math.floor((percentile - REACH) / 100 * n)
    high = math.ceil((percentile + REACH) / 100 * n)
    few = max(1, min(FEWEST, math.ceil(n * WIDEST)))
    if high - low < few:
        reach = min(few // 2, rank, n - 1 - rank)  # as far up as down: the slowest must not pull the band up
        low, high = min(low, rank - reach), max(high, rank + reach + 1)
    return max(0, min(low, rank)), min(n, max(high, rank + 1))


def nearest_rank(n: int, percentile: float) -> int:
    """Index of the percentile among n values in order: the least that at least that share does not exceed."""
    return min(n - 1, max(0, math.ceil(percentile / 100 * n) - 1))


def percentile_of(values: np.ndarray, percentile: float) -> float:
    """Nearest-rank percentile of unordered values; `values` holds one at least."""
    return float(np.sort(values)[nearest_rank(len(values), percentile)])


def class_ns(exposed: np.ndarray) -> np.ndarray:
    """(n, stages) ns by stage -> (n, classes) ns by class"""
    return np.stack([exposed[:, CLASS_OF_STAGE == index].sum(axis=1) for index in range(len(CLASSES))], axis=1)


Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _band(name: str, columns: Columns, order: np.ndarray, percentile: float) -> Band:
    low, high = members(len(order), percentile)
    inside = order[low:high]
    ttft, exposed, hidden, late = columns
    return Band(
        name=name,
        percentile_ns=int(ttft[order[nearest_rank(len(order), percentile)]]),
        count=len(inside),
        low_ns=int(ttft[inside].min()),
        high_ns=int(ttft[inside].max()),
        exposed=exposed[inside].mean(axis=0),
        hidden=hidden[inside].mean(axis=0),
        late_ns=float(late[inside].mean()),
    )
