"""What is normal, and by how much each stage has grown since: within strata of prompt length, so that a change of what
is asked for is no finding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvscope.analysis.bands import gather_bands
from kvscope.analysis.strata import octaves
from kvscope.diagnosis.evidence import STAGE_NAMES, Evidence
from kvscope.diagnosis.thresholds import FEWEST, GROWN, GROWN_LEAST, SIGNIFICANT
from kvscope.model.graph import STAGE_INDEX

BAND_FROM = 100
"""Requests from which on p95 is a band and not a handful: below, the mean of all is compared."""


@dataclass(frozen=True)
class Comparison:
    """Requests that are judged, beside requests that show what is normal (None: nothing does)."""

    now: Evidence
    was: Evidence | None

    def __post_init__(self) -> None:
        if self.was is not None and not len(self.was.timed):
            object.__setattr__(self, "was", None)  # requests without a first token show nothing

    @property
    def banded(self) -> bool:
        """Whether figures are of the requests around p95; else of all."""
        return all(len(one.timed) >= BAND_FROM for one in (self.now, self.was) if one is not None)

    @property
    def place(self) -> str:
        """Where figures are taken: `p95` or `mean`."""
        return "p95" if self.banded else "mean"

    @cached_property
    def now_stages(self) -> np.ndarray:
        """(stages,) exposed ns of the requests that are judged"""
        return _stages(self.now.timed, self.banded)

    @cached_property
    def was_stages(self) -> np.ndarray | None:
        """(stages,) exposed ns that were usual; None: not known"""
        return None if self.was is None else _stages(self.was.timed, self.banded)

    @cached_property
    def usual(self) -> np.ndarray:
        """(n, stages) f8 ns usual for each timed request that is judged, by its prompt; zero where nothing is known"""
        timed = self.now.timed
        if self.was is None:
            return np.zeros((len(timed), len(STAGE_NAMES)))
        was = self.was.timed
        return _usual(stratum(was.prompt), was.splits.exposed.astype(float), stratum(timed.prompt))

    @cached_property
    def excess(self) -> np.ndarray:
        """(n, stages) f8 ns of each timed request beyond what is usual"""
        return np.asarray(self.now.timed.splits.exposed - self.usual)

    @cached_property
    def change(self) -> np.ndarray:
        """(stages,) f8 mean growth"""
        return np.asarray(self.excess.mean(axis=0)) if len(self.excess) else np.zeros(len(STAGE_NAMES))

    @cached_property
    def errors(self) -> np.ndarray:
        """(stages,) standard error of `change`"""
        if self.was is None or not len(self.excess):
            return np.full(len(STAGE_NAMES), np.inf)
        was = self.was.timed
        spread = was.splits.exposed - _usual(stratum(was.prompt), was.splits.exposed.astype(float), stratum(was.prompt))
        order, before = np.argsort(self.now.timed.when), np.argsort(was.when)
        return np.asarray(np.hypot(standard_error(self.excess[order]), standard_error(spread[before])))

    @cached_property
    def usual_ttft(self) -> float:
        """ns: mean TTFT that would be usual for what is asked now; of the requests themselves if nothing is known"""
        if self.was is None:
            return float(self.now.timed.splits.ttft.mean()) if len(self.now.timed) else 0.0
        return float(self.usual.sum(axis=1).mean()) if len(self.usual) else 0.0

    def grew(self, *stages: str) -> float:
        """ns that these stages have grown by together, on average; NaN without anything to compare with"""
        if self.was is None:
            return float("nan")
        return float(self.change[[STAGE_INDEX[name] for name in stages]].sum())

    def surely(self, *stages: str) -> bool:
        """Whether these stages together have grown by more than chance and by enough to matter."""
        if self.was is None or len(self.excess) < FEWEST.value or len(self.was.timed) < FEWEST.value:
            return False
        columns = [STAGE_INDEX[name] for name in stages]
        growth = float(self.change[columns].sum())
        least = max(GROWN_LEAST.value, GROWN.value * self.usual_ttft)
        if growth < least:
            return False
        was = self.was.timed.splits.exposed[:, columns].sum(axis=1, dtype=float)
        strata = stratum(self.was.timed.prompt)
        spread = was - _usual(strata, was[:, None], strata)[:, 0]
        order, before = np.argsort(self.now.timed.when), np.argsort(self.was.timed.when)
        now = self.excess[:, columns].sum(axis=1)
        error = float(np.hypot(standard_error(now[order][:, None])[0], standard_error(spread[before][:, None])[0]))
        return growth > SIGNIFICANT.value * error

    def share(self, *stages: str) -> float:
        """Of the mean TTFT now, how much these stages have."""
        timed = self.now.timed
        total = float(timed.splits.ttft.sum()) if len(timed) else 0.0
        return float(timed.stage(*stages).sum()) / total if total else 0.0


def stratum(prompt: np.ndarray) -> np.ndarray:
    """(n,) prompts of about the same length: one stratum for each half of an octave, -1 where not known"""
    return octaves(prompt, 2)


def standard_error(values: np.ndarray) -> np.ndarray:
    """(columns,) of the mean of values (n, columns) in order of time: neighbours resemble each other, and count less"""
    n = len(values)
    if n < 2:
        return np.full(values.shape[1], np.inf)
    rest = values - values.mean(axis=0)
    power = (rest**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = np.where(power > 0, (rest[1:] * rest[:-1]).sum(axis=0) / power, 0.0)
    alike = np.clip(alike, 0.0, 0.95)
    return np.asarray(np.sqrt(power / (n - 1) / n * (1 + alike) / (1 - alike)))


def _usual(known: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(m, columns) mean of the values (n, columns) in the stratum of each wanted one; of all where that is empty"""
    names, group = np.unique(known, return_inverse=True)
    counts = np.bincount(group, minlength=len(names))
    sums = np.stack([np.bincount(group, column, len(names)) for column in values.T], axis=1)
    means = np.vstack((sums / counts[:, None], values.mean(axis=0)))
    at = np.searchsorted(names, wanted)
    at[at == len(names)] = 0
    return np.asarray(means[np.where(names[at] == wanted, at, len(names))])


def _stages(timed: Evidence, banded: bool) -> np.ndarray:
    splits = timed.splits
    if not len(splits):
        return np.zeros(len(STAGE_NAMES))
    if not banded:
        return np.asarray(splits.exposed.mean(axis=0))
    bands = gather_bands(splits.ttft, splits.exposed, splits.hidden, percentiles=(95.0,))
    return bands[0].exposed
