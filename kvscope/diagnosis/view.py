"""A comparison as the cases ask it: figures, who is stuck, whether something stands out, and what looks alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvscope.diagnosis.baseline import Comparison
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.match import TIME, Measure
from kvscope.diagnosis.thresholds import ALONE, DOUBLED, FEWEST, HANGING, HANGING_USUAL
from kvscope.model.graph import NODES, STAGE_INDEX
from kvscope.model.requests import State
from kvscope.probe.vocabulary import UNKNOWN

_PROGRESS = [index for index, node in enumerate(NODES) if node.name != "failed"]
"""A warning is no progress."""
Figure = Callable[[Evidence], np.ndarray]
"""evidence -> (n,) f8, NaN where a request says nothing"""


@dataclass(frozen=True)
class View:
    """The requests that are judged, beside what is usual."""

    comparison: Comparison

    @property
    def now(self) -> Evidence:
        """The n requests that are judged."""
        return self.comparison.now

    @property
    def was(self) -> Evidence | None:
        """Those that show what is usual."""
        return self.comparison.was

    @cached_property
    def timed(self) -> np.ndarray:
        """(n,) bool: has a TTFT"""
        return self.now.splits.timed

    def excess(self, *stages: str) -> np.ndarray:
        """(n,) f8 ns of some stages beyond what is usual for the prompt; 0 without a TTFT"""
        columns = [STAGE_INDEX[name] for name in stages]
        return self.spread(self.comparison.excess[:, columns].sum(axis=1))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(n,) f8 values of the timed requests at their places, 0 elsewhere"""
        whole = np.zeros(len(self.now))
        whole[self.timed] = values
        return whole

    def stands_out(self, *stages: str, alone: float = ALONE.value) -> bool:
        """Whether stages have surely grown; where nothing shows what is usual, whether they have `alone` of TTFT."""
        if self.was is not None:
            return self.comparison.surely(*stages)
        return int(self.timed.sum()) >= FEWEST.value and self.comparison.share(*stages) >= alone

    def builds_up(self, *stages: str, alone: float = ALONE.value) -> bool:
        """The same of a line that builds up: there neighbours are alike and no mean is sure, so that size will do.

        For cases in which the engine itself tells what is waited for."""
        doubled = self.was is not None and self.comparison.grew(*stages) >= DOUBLED.value * self.comparison.usual_ttft
        return self.stands_out(*stages, alone=alone) or (doubled and int(self.timed.sum()) >= FEWEST.value)

    def grew(self, *stages: str) -> float:
        """ns: mean growth; the mean itself where nothing shows what is usual"""
        if self.was is not None:
            return self.comparison.grew(*stages)
        timed = self.now.timed
        return float(timed.stage(*stages).mean()) if len(timed) else 0.0

    def both(self, figure: Figure, among: Figure | None = None) -> tuple[float | None, float]:
        """(usual mean or None, mean now) of a figure over timed requests, among those for which `among` holds"""
        return None if self.was is None else _mean(self.was.timed, figure, among), _mean(self.now.timed, figure, among)

    def middle(self, figure: Figure) -> tuple[float | None, float]:
        """The same, medians."""
        return None if self.was is None else _median(figure(self.was.timed)), _median(figure(self.now.timed))

    def stage(self, *stages: str, name: str = "") -> Measure:
        """Mean of some stages together, usual and now."""
        was, now = self.both(lambda one: one.stage(*stages))
        return Measure(name or " + ".join(stages), was, now, TIME)

    def measure(self, name: str, figure: Figure, unit: str, median: bool = False) -> Measure:
        """A figure, usual and now."""
        was, now = self.middle(figure) if median else self.both(figure)
        return Measure(name, was, now, unit)

    @cached_property
    def silence(self) -> np.ndarray:
        """(n,) f8 ns that a request without a first token waited after it last got further; NaN of the others"""
        splits = self.now.splits
        still = splits.in_state(State.UNFINISHED) & (splits.first_token == UNKNOWN)
        ended = splits.shaped("aborted", "failed") & self.now.has("D.finished") & (splits.first_token == UNKNOWN)
        end = np.where(ended, self.now.t("D.finished"), splits.now - splits.behind)
        got = splits.time[:, _PROGRESS]
        further = np.where(got < end[:, None], got, UNKNOWN).max(axis=1, initial=UNKNOWN)
        known = (still | ended) & (further != UNKNOWN)
        return np.where(known, end - np.where(known, further, 0), np.nan)

    @cached_property
    def patience(self) -> float:
        """ns of silence beyond which a request hangs."""
        known = [one.timed.splits.ttft for one in (self.now, self.was) if one is not None and len(one.timed)]
        slowest = min((int(ttft.max()) for ttft in known), default=0)
        return max(HANGING.value, HANGING_USUAL.value * slowest)

    @cached_property
    def hung(self) -> np.ndarray:
        """(n,) bool: decode waits, or waited until somebody gave up, for what does not come"""
        known = ~np.isnan(self.silence) & (self.now.splits.decode_engine >= 0) & self._told
        return np.asarray(known & (np.where(known, self.silence, 0.0) > self.patience))

    @property
    def _told(self) -> np.ndarray:
        """(n,) bool: decode's moments are there from its queue on: of what was lost in part, the answer may be lost"""
        whole = np.ones(len(self.now), bool)
        for later, earlier in (("registration_sent", "D.reserved"), ("notified", "matched")):
            whole &= ~self.now.has(later) | self.now.has(earlier)
        return np.asarray(whole & self.now.has("D.queued"))

    @cached_property
    def waited(self) -> np.ndarray:
        """(n,) f8 ns of silence, 0 of those that have a first token"""
        return np.asarray(np.nan_to_num(self.silence))


def _mean(evidence: Evidence, figure: Figure, among: Figure | None) -> float:
    values = figure(evidence)
    if among is not None:
        values = values[among(evidence).astype(bool)]
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def _median(values: np.ndarray) -> float:
    values = values[~np.isnan(values)]
    return float(np.median(values)) if len(values) else float("nan")
