"""Arrows: which moments of a request follow from one another on other threads.

A flow is an id that events share; the page joins them in the order of time. Every chain of a request has an id of its
own, and so has every pair of ranks in it.
"""

from __future__ import annotations

import numpy as np

from kvscope.model.membership import among
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

NO_REQUEST = -1

PUSH, READ, TO_PREFILL, TO_DECODE = range(4)
CHAINS: dict[int, tuple[str, ...]] = {
    PUSH: ("registration_sent", "registration_received", "matched", "submit", "notified", "noticed"),
    READ: ("submit", "done_seen", "noticed"),
    TO_PREFILL: ("prefill_sent", "arrived"),
    TO_DECODE: ("decode_sent", "arrived"),
}
"""Chain -> its events, in order; `submit` is the slice in which the transfer was posted."""

_PUSHED = tuple(MOMENT_CODE[name] for name in CHAINS[PUSH] if name in MOMENT_CODE)
_READ = tuple(MOMENT_CODE[name] for name in CHAINS[READ] if name in MOMENT_CODE)
_SINGLE = tuple(MOMENT_CODE[name] for name in ("notified", "noticed"))
_MATCHED, _POSTED = MOMENT_CODE["matched"], MOMENT_CODE["posted"]
_PREFILL, _DECODE = LEG_CODE["prefill"], LEG_CODE["decode"]
_DISPATCH = ((MOMENT_CODE["prefill_sent"], _PREFILL, TO_PREFILL), (MOMENT_CODE["decode_sent"], _DECODE, TO_DECODE))
_ARRIVED = MOMENT_CODE["arrived"]


def flows(rows: np.ndarray, number: np.ndarray, reads: np.ndarray) -> np.ndarray:
    """(n,) u8 flow id of each row (dtype EVENT), 0 for none. number: (n,) of the request, NO_REQUEST where none; reads:
    (n,) bool, its blocks are read and not written. `posted` has the id of its `submit`."""
    moment, leg = rows["moment"], rows["leg"]
    chain = np.full(len(rows), -1)
    chain[~reads & among(moment, *_PUSHED, _POSTED)] = PUSH
    chain[reads & among(moment, *_READ, _POSTED)] = READ
    for sent, side, which in _DISPATCH:
        chain[(moment == sent) | (moment == _ARRIVED) & (leg == side)] = which
    here, there = _ranks(rows, number)
    ids = (number + 1).astype(np.uint64) << np.uint64(35) | here << np.uint64(19) | there << np.uint64(3)
    ids |= (chain.astype(np.uint64) & np.uint64(3)) | (leg == _PREFILL) * np.uint64(4) * (chain == READ)
    return np.where((chain >= 0) & (number != NO_REQUEST), ids, np.uint64(0))


def _ranks(rows: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) u8 prefill's and decode's rank of the pair that each row belongs to, 0 where there is one pair."""
    prefill = rows["leg"] == _PREFILL
    here = np.where(prefill, rows["rank"], rows["peer_rank"]).astype(np.uint64)
    there = np.where(prefill, rows["peer_rank"], rows["rank"]).astype(np.uint64)
    if not (here.any() or there.any()):
        return here, there
    # One side alone stamps `notified` and `noticed`, once for all that came from the other: the last to be posted.
    pair = np.flatnonzero(among(rows["moment"], _POSTED) & (number != NO_REQUEST))
    pair = pair[np.lexsort((rows["t"][pair], there[pair], number[pair]))]
    key = number[pair] << 16 | there[pair].astype(np.int64)
    single = np.flatnonzero(among(rows["moment"], *_SINGLE) & (rows["leg"] == _DECODE))
    wanted = number[single] << 16 | there[single].astype(np.int64)
    at = np.searchsorted(key, wanted, "right") - 1
    found = (at >= 0) & (key[at] == wanted) if len(key) else np.zeros(len(single), bool)
    here[single[found]] = here[pair[at[found]]]
    return here, there
