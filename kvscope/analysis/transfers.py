"""The bytes: how long they may have moved, how fast, and what the same pair has shown it can do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import percentile_of
from kvscope.model.shapes import SHAPES
from kvscope.model.splits import Splits
from kvscope.model.stages import Class
from kvscope.probe.vocabulary import UNKNOWN

TRANSFERRING = np.array([shape.transfers for shape in SHAPES])


@dataclass(frozen=True)
class Transfers:
    """Complete requests whose blocks were sent."""

    requests: int
    bounds_p50_ns: tuple[float, float]
    bounds_p95_ns: tuple[float, float]
    """percentiles of the lower and of the upper bound of the time bytes moved"""
    bytes_total: int
    bytes_p50: float | None
    """None where no transfer told its size"""
    rate_p50: tuple[float | None, float | None]
    """bytes/s: over the upper bound of the time, and over the lower; None where that is not known or zero"""
    descriptors_p50: float | None
    inferred_p50_ns: float | None
    """INFERRED: bytes over the best rate the same pair has proved, within the bounds"""
    inferred_from: int
    """transfers with bytes, from which the best rates were taken"""


def gather_transfers(timed: Splits) -> Transfers | None:
    """Look at complete requests that transferred; None if none did."""
    sent = timed.select(TRANSFERRING[timed.shape]) if len(timed) else timed
    if not len(sent):
        return None
    low, high = sent.class_bounds(Class.TRANSFER)
    size = sent.transfer_bytes
    told = (size != UNKNOWN) & (size > 0)
    likely = likely_transfer(sent)
    return Transfers(
        requests=len(sent),
        bounds_p50_ns=(percentile_of(low, 50), percentile_of(high, 50)),
        bounds_p95_ns=(percentile_of(low, 95), percentile_of(high, 95)),
        bytes_total=int(size[told].sum()),
        bytes_p50=_middle(size[told]),
        rate_p50=(_rate(size, high, told), _rate(size, low, told)),
        descriptors_p50=_middle(sent.descriptors[sent.descriptors != UNKNOWN]),
        inferred_p50_ns=_middle(likely[~np.isnan(likely)]),
        inferred_from=int(told.sum()),
    )


def likely_transfer(sent: Splits) -> np.ndarray:
    """(n,) ns: bytes over the best rate its pair of engines has proved, within its bounds; NaN where not known.

    A rate is proved by the upper bound of a transfer's time, so the estimate never uses what was not seen.
    """
    low, high = sent.class_bounds(Class.TRANSFER)
    likely = np.full(len(sent), np.nan)
    usable = (sent.transfer_bytes != UNKNOWN) & (sent.transfer_bytes > 0) & (high > 0)
    pair = sent.prefill_engine.astype(np.int64) * (len(sent.engines) + 1) + sent.decode_engine
    _, group = np.unique(pair[usable], return_inverse=True)
    size = sent.transfer_bytes[usable]
    best = np.zeros(len(size))
    np.maximum.at(best, group, size / high[usable])
    likely[usable] = np.clip(size / best[group], low[usable], high[usable])
    return likely


def _middle(values: np.ndarray) -> float | None:
    return percentile_of(values, 50) if len(values) else None


def _rate(size: np.ndarray, ns: np.ndarray, told: np.ndarray) -> float | None:
    """Median bytes per second; None where half of the transfers or more show no time at all."""
    if not told.any():
        return None
    rates = np.divide(size[told] * 1e9, ns[told], where=ns[told] > 0, out=np.full(int(told.sum()), np.inf))
    middle = percentile_of(rates, 50)
    return middle if np.isfinite(middle) else None
