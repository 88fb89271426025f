"""Requests whose handoff is several transfers: which rank pair the request waited for, and by how much.

The walk follows one rank pair: the last decode rank to notice, and of the transfers into it the last to
end. Moments of the other ranks are set aside here, so that everything after sees one transfer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.core.join import Joined
from kvscope.core.legs import DECODE, NONE, PREFILL, Legs
from kvscope.model.events import picked
from kvscope.probe.vocabulary import MOMENT_CODE, MOMENTS, STATE_CODE

_PAIRED = ("registration_sent", "registration_received", "matched", "post_begun", "prepared", "posted")
PAIRED = np.isin(MOMENTS, (*_PAIRED, "pending_seen", "done_seen"))
"""(moments,) stamped once for each pair of ranks"""
SINGLE = np.isin(MOMENTS, ("handed", "staged", "notified", "noticed"))
"""(moments,) stamped once for each rank of one side"""

_POSTED, _DONE_SEEN, _NOTICED = (MOMENT_CODE[name] for name in ("posted", "done_seen", "noticed"))
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Ranks:
    """What the ranks of each leg come down to. Indices are legs; a leg with one transfer keeps everything."""

    keep: np.ndarray
    """(events,) bool: rows that the walk may use"""
    transfers: np.ndarray
    """(legs,) rank pairs that the leg posted"""
    spread: np.ndarray
    """(legs,) ns from the first of them to end to the last"""
    slowest: np.ndarray
    """(legs, 2) rank, peer rank that was waited for; NONE where there was one"""


def slowest_ranks(legs: Legs, joined: Joined) -> Ranks:
    """Choose the rank pair of each leg that its request waited for."""
    lanes = _lanes(legs)
    count = np.bincount(lanes["leg"], minlength=len(legs.hash))
    slowest = np.full((len(legs.hash), 2), NONE)
    keep = np.ones(len(legs.rows), bool)
    spread = _spread(lanes, len(legs.hash))
    if not (legs.rows["rank"].any() or legs.rows["peer_rank"].any()):
        return Ranks(keep, count, spread, slowest)
    noticed = _last_noticed(legs)
    partner = np.full(len(legs.hash), NONE)
    paired = (joined.prefill != NONE) & (joined.decode != NONE)
    partner[joined.prefill[paired]] = joined.decode[paired]
    _choose(legs, lanes[count[lanes["leg"]] > 1], noticed, partner, slowest)
    pushed = paired & (count[joined.prefill] > 1) & (count[joined.decode] == 0)
    slowest[joined.decode[pushed]] = slowest[joined.prefill[pushed]][:, ::-1]
    registered = (joined.registration != NONE) & (joined.prefill != NONE)
    slowest[joined.registration[registered]] = slowest[joined.prefill[registered]]
    return Ranks(_of_ranks(legs, slowest), count, spread, slowest)


_LANE = np.dtype([("leg", "i8"), ("rank", "i8"), ("peer_rank", "i8"), ("end", "i8")])


def _lanes(legs: Legs) -> np.ndarray:
    """One row per transfer: leg, ranks, and the first evidence of its end (the time it was posted, failing that)."""
    moment = legs.moment
    at = np.flatnonzero(((moment == _POSTED) | (moment == _DONE_SEEN)) & (legs.role[legs.leg] != 0))
    rows = picked(legs.rows, at)
    done = (rows["moment"] == _DONE_SEEN) | (rows["state"] == STATE_CODE["DONE"])
    order = np.lexsort((rows["t"], ~done, rows["peer_rank"], rows["rank"], legs.leg[at]))
    lanes = np.empty(len(at), _LANE)
    lanes["leg"], lanes["end"] = legs.leg[at][order], rows["t"][order]
    lanes["rank"], lanes["peer_rank"] = rows["rank"][order], rows["peer_rank"][order]
    key = lanes["leg"] << 32 | lanes["rank"] << 16 | lanes["peer_rank"]
    return np.asarray(lanes[np.concatenate((np.ones(min(1, len(key)), bool), key[1:] != key[:-1]))])


def _spread(lanes: np.ndarray, legs: int) -> np.ndarray:
    first, last = np.full(legs, _NEVER), np.full(legs, -_NEVER)
    np.minimum.at(first, lanes["leg"], lanes["end"])
    np.maximum.at(last, lanes["leg"], lanes["end"])
    return np.where(last >= first, last - first, 0)


def _last_noticed(legs: Legs) -> np.ndarray:
    """(legs,) rank that noticed last; NONE where none did."""
    at = legs.of(_NOTICED, DECODE)
    rank = np.full(len(legs.hash), NONE)
    at = at[np.argsort(legs.rows["t"][at], kind="stable")]
    rank[legs.leg[at]] = legs.rows["rank"][at]
    return rank


def _choose(legs: Legs, lanes: np.ndarray, noticed: np.ndarray, partner: np.ndarray, slowest: np.ndarray) -> None:
    """Write the waited-for lane of each leg: into the rank that noticed last, the last to end."""
    push = legs.role[lanes["leg"]] == PREFILL
    decode_leg = np.where(push, partner[lanes["leg"]], lanes["leg"])
    decode_rank = np.where(push, lanes["peer_rank"], lanes["rank"])
    waited = (decode_leg != NONE) & (noticed[decode_leg] == decode_rank)
    order = np.lexsort((lanes["end"], waited, lanes["leg"]))  # the last of a leg is written last
    slowest[lanes["leg"][order], 0] = lanes["rank"][order]
    slowest[lanes["leg"][order], 1] = lanes["peer_rank"][order]


def _of_ranks(legs: Legs, slowest: np.ndarray) -> np.ndarray:
    """(events,) False for moments of other ranks, where the chosen rank has that moment too."""
    rows, leg = legs.rows, legs.leg
    moment = legs.moment
    ranked = (PAIRED | SINGLE)[moment] & (slowest[leg, 0] != NONE)
    fit = (rows["rank"] == slowest[leg, 0]).astype(np.int8)
    fit += fit * (PAIRED[moment] & (rows["peer_rank"] == slowest[leg, 1]))
    slot = leg * len(MOMENTS) + moment
    begins = np.flatnonzero(np.concatenate((np.ones(1, bool), slot[1:] != slot[:-1])))
    best = np.repeat(np.maximum.reduceat(fit, begins), np.diff(np.append(begins, len(slot))))
    return np.asarray(~ranked | (fit == best))
