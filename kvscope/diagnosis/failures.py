"""Everything that failed, with the request it struck."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, REASON_CODE, REASONS, UNKNOWN


@dataclass(frozen=True)
class Failures:
    """k moments `failed`, oldest first."""

    t: np.ndarray
    leg: np.ndarray
    reason: np.ndarray
    engine: np.ndarray
    request: np.ndarray
    """(k,) u8 key of the leg's id, 0 where it struck no request"""

    def of(self, splits: Splits, *reasons: str, leg: str = "") -> np.ndarray:
        """(n,) bool: requests that one of these struck, on one leg or on either"""
        codes = [REASON_CODE[reason] for reason in reasons]
        chosen = np.isin(self.reason, codes) & (self.request != 0)
        if leg:
            chosen &= self.leg == LEG_CODE[leg]
        keys = self.request[chosen]
        return np.asarray(
            np.isin(splits.request, keys) | ((splits.peer_request != 0) & np.isin(splits.peer_request, keys))
        )

    def first(self, splits: Splits, *reasons: str, leg: str) -> np.ndarray:
        """(n,) i8 ns of the first of these on a leg of each request, UNKNOWN where there was none"""
        chosen = np.isin(self.reason, [REASON_CODE[reason] for reason in reasons]) & (self.leg == LEG_CODE[leg])
        found = np.full(len(splits), UNKNOWN)
        keys, at = np.unique(self.request[chosen], return_index=True)
        times = self.t[chosen][at]
        for column in (splits.request, splits.peer_request) if len(keys) else ():
            where = np.searchsorted(keys, column)
            where[where == len(keys)] = 0
            hit = (keys[where] == column) & (column != 0) & (found == UNKNOWN)
            found[hit] = times[where[hit]]
        return found

    def count(self, *reasons: str) -> int:
        """How often one of these happened, with or without a request."""
        return int(np.isin(self.reason, [REASON_CODE[reason] for reason in reasons]).sum())

    def counted(self) -> dict[str, int]:
        """reason -> how often"""
        codes, counts = np.unique(self.reason, return_counts=True)
        return {REASONS[code]: int(n) for code, n in zip(codes.tolist(), counts, strict=True) if code < len(REASONS)}


def gather_failures(rows: np.ndarray, engine: np.ndarray) -> Failures:
    """rows: dtype EVENT; engine: (rows,) index into the splits' engines"""
    at = np.flatnonzero(rows["moment"] == MOMENT_CODE["failed"])
    at = at[np.argsort(rows["t"][at], kind="stable")]
    found = rows[at]
    return Failures(found["t"], found["leg"], found["reason"], engine[at], found["request"])
