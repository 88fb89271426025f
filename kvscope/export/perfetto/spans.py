"""Moments that are the two ends of something on one thread, as slices: a transfer prepared and submitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.model.membership import among
from kvscope.probe.vocabulary import MOMENT_CODE

_BEGUN, _PREPARED, _POSTED = (MOMENT_CODE[name] for name in ("post_begun", "prepared", "posted"))
SPANS: dict[str, tuple[int, int]] = {"prepare": (_BEGUN, _PREPARED), "submit": (_PREPARED, _POSTED)}
"""Stage -> the moments that it lies between."""


@dataclass(frozen=True)
class Spans:
    """k slices of one stage."""

    stage: str
    first: np.ndarray
    """(k,) index of the row that begins it"""
    last: np.ndarray
    """(k,) index of the row that ends it"""


def spans(rows: np.ndarray, number: np.ndarray) -> tuple[tuple[Spans, ...], np.ndarray]:
    """Of rows (dtype EVENT) of requests (number: (n,)): the slices, and (n,) bool, rows that are an end of one."""
    at = np.flatnonzero(among(rows["moment"], _BEGUN, _PREPARED, _POSTED))
    at = at[np.lexsort([rows[name][at] for name in ("moment", "t", *_SAME)] + [number[at]])]
    alike = number[at][1:] == number[at][:-1]
    for name in _SAME:
        alike &= rows[name][at][1:] == rows[name][at][:-1]
    used, found = np.zeros(len(rows), bool), []
    for stage, (begins, ends) in SPANS.items():
        here = np.flatnonzero(alike & (rows["moment"][at][:-1] == begins) & (rows["moment"][at][1:] == ends))
        found.append(Spans(stage, at[here], at[here + 1]))
        used[at[here]] = used[at[here + 1]] = True
    return tuple(found), used


_SAME = ("peer_rank", "rank", "thread", "process", "request")
"""What the two ends share."""
