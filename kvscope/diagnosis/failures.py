"""Everything that failed, with the request it struck."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.diagnosis.kept import Kept
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEG_CODE, REASON_CODE, REASONS, UNKNOWN


@dataclass(frozen=True)
class Failures:
    """k moments `failed`, oldest first."""

    t: np.ndarray
    leg: np.ndarray
    reason: np.ndarray
    engine: np.ndarray
    request: np.ndarray
    """(k,) u8 key of the leg's id, 0 where it struck no request"""
    row: np.ndarray
    """(k,) the request it struck, -1 where it struck none, or none that is looked at"""
    known: np.ndarray
    """(k,) bool: prefill had computed a prompt under that id"""

    def select(self, rows: np.ndarray) -> Failures:
        """Those of some requests, (n,) bool, and those of none."""
        place = np.append(np.where(rows, np.cumsum(rows) - 1, -1), -1)
        kept = (self.row < 0) | np.append(rows, True)[self.row]
        columns = {name: getattr(self, name)[kept] for name in self.__dataclass_fields__}
        return Failures(**columns | {"row": place[columns["row"]]})

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


def gather_failures(kept: Kept, engine: np.ndarray, splits: Splits) -> Failures:
    """engine: (processes,) index into the splits' engines, -1 where it is none"""
    found = kept.rare("failed")
    keys = found["request"]
    computed = splits.time[:, NODE["P.computed"]] != UNKNOWN
    known = np.isin(keys, splits.peer_request[computed]) | np.isin(keys, splits.request[computed])
    row = np.maximum(_rows(splits.request, keys), _rows(splits.peer_request, keys))
    return Failures(found["t"], found["leg"], found["reason"], engine[found["process"]], keys, row, known & (keys != 0))


def _rows(column: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """(k,) row of each key in a column, -1 where it is not, or is 0"""
    order = np.argsort(column, kind="stable")
    at = np.searchsorted(column[order], keys)
    at[at == len(column)] = 0
    found = order[at] if len(column) else np.zeros(len(keys), np.int64)
    hit = (keys != 0) & (column[found] == keys if len(column) else False)
    return np.where(hit, found, -1)
