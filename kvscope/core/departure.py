"""What goes with requests that are given out: their legs, the rows of those, and what belongs to no request."""

from __future__ import annotations

import numpy as np

from kvscope.core.critical_path import Solution
from kvscope.core.join import Joined
from kvscope.core.legs import ENGINE, NONE
from kvscope.model.events import picked
from kvscope.model.membership import within
from kvscope.model.splits import Splits


def of_no_request(solution: Solution) -> np.ndarray:
    """Legs that no row has: clean-ups, and what a router or a writer stamped of requests that were not seen."""
    legs = np.flatnonzero(solution.legs.role != ENGINE)
    return np.setdiff1d(legs, np.concatenate(legs_of(solution.joined)))


def legs_of(joined: Joined) -> tuple[np.ndarray, ...]:
    """The seats that legs of a request have, (n,) leg index or NONE each."""
    return joined.prefill, joined.decode, joined.router, joined.registration


def registration_ends(solution: Solution, rows: np.ndarray) -> dict[int, int]:
    """Of ids used again: registration leg -> the end of the requests given out; what came later is another's."""
    if not solution.legs.again:
        return {}
    ends: dict[int, int] = {}
    legs, last = solution.joined.registration[rows], solution.splits.last_moment[rows, 2]
    for leg, end in zip(legs[legs != NONE].tolist(), last[legs != NONE].tolist(), strict=True):
        key = int(solution.legs.hash[leg])
        ends[key] = max(end, ends.get(key, end))
    return ends


def rows_of(gone: np.ndarray, ends: dict[int, int], hashes: np.ndarray, leg: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(n,) rows of the legs that go; hashes: (legs,), leg, t: (n,)"""
    mine = within(hashes, gone)[leg]
    for key, end in ends.items():
        mine &= (hashes[leg] != np.uint64(key)) | (t <= end)
    return np.asarray(mine)


def together(solution: Solution, rows: np.ndarray) -> np.ndarray:
    """(n,) rows of which all that share their prefill leg are chosen."""
    prefill = solution.joined.prefill
    waiting = np.unique(prefill[~rows])
    return np.asarray(rows & ((prefill == NONE) | ~within(prefill, waiting)))


def without(these: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The other rows, and their ids; these: (n,) bool, mostly none: then nothing is copied."""
    return (picked(rows, ~these), ids[~these]) if these.any() else (rows, ids)


def texts_of(splits: Splits, texts: dict[int, str]) -> dict[int, str]:
    """Only what these rows name, so that a split kept does not keep every text."""
    return {key: texts[key] for key in splits.named.tolist() if key in texts}
