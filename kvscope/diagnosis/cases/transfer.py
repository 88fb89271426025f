"""Moving bytes: how fast, beside how many others, by which of several ranks."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.cases.posting import per_mebibyte, same, writer_busy
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.figures import amount, ms
from kvscope.diagnosis.match import COUNT, RATE, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import (
    ALONE,
    CROWD,
    FEWEST,
    MOST_OF,
    RANKS,
    SLOWER,
)
from kvscope.diagnosis.view import View

MOVING = ("submit", "wire")
LEAST_NS = 10_000
"""What a transfer takes at least: what was not seen to take any time is not infinitely fast."""


def _sizes(view: View) -> tuple[Measure, Measure]:
    return (
        view.measure("descriptors per MiB", per_mebibyte, COUNT, median=True),
        view.measure("rate", lambda one: one.rate, RATE, median=True),
    )


def crowded(view: View) -> tuple[float, float, float]:
    """(rate alone, rate of the crowded, transfers at once): medians of bytes/s while they were seen to move, NaN where
    there are too few. What is usual does not stand in for those alone: a slow transport is slow beside it, too."""
    now = view.now.timed
    pace = look.size(now) * 1e9 / np.maximum(now.stage(*MOVING), LEAST_NS)
    many, known = now.crowd >= CROWD.value, ~np.isnan(pace) & ~np.isnan(now.crowd)
    lonely, others = pace[known & ~many], pace[known & many]
    alone = float(np.median(lonely)) if len(lonely) >= 3 else float("nan")
    together = float(np.median(others)) if len(others) >= 3 else float("nan")
    return alone, together, float(now.crowd[known].mean()) if known.any() else float("nan")


def slow_transport(view: View) -> Match | None:
    """The same bytes in the same pieces move at half the rate or less, whether alone or not."""
    if not view.stands_out(*MOVING) or view.grew(*MOVING) < view.grew("poll_gap"):
        return None
    descriptors, rate = _sizes(view)
    if not same(descriptors.was, descriptors.now):
        return None
    if view.was is not None and not rate.now <= SLOWER.value * (rate.was or 0.0):
        return None
    alone, _, crowd = crowded(view)
    if shared(view):
        return None
    if (view.grew("submit") > view.grew("wire") and writer_busy(view)) or not by_bytes(view):
        return None
    rows = view.timed & (view.now.splits.transfer_bytes > 0)
    return Match(
        slug="slow-transport",
        stage="submit" if view.grew("submit") > view.grew("wire") else "wire",
        rows=rows,
        excess=np.where(rows, view.excess(*MOVING, "poll_gap"), 0.0),
        claims=(*MOVING, "poll_gap"),
        measured=(
            view.stage("wire"),
            view.stage("submit"),
            rate,
            descriptors,
            view.measure("bytes", look.size, COUNT, median=True),
        ),
        ruled_out=(
            look.many_descriptors(view),
            look.starved_writer(view, view.grew(*MOVING)),
            RuledOut("transfer-contention", "as fast as ever when alone", f"alone {_rate(alone)}, {crowd:.1f} at once"),
            look.noticed_late(view, view.grew(*MOVING)),
            look.saturated(view, view.grew(*MOVING)),
        ),
        refuted_by="a transfer of this size at the usual rate",
        refuted=int((view.now.rate[rows] >= (rate.was or np.inf)).sum()),
        detail=f"UCX_TLS is {view.now.settings['ucx_tls']}" if "ucx_tls" in view.now.settings else "",
    )


def _rate(value: float) -> str:
    return amount(value, RATE)


def by_bytes(view: View) -> bool:
    """Whether it takes longer the more bytes there are; where all transfers are of one size, nobody can tell."""
    sizes, excess = look.size(view.now)[view.timed], view.excess(*MOVING)[view.timed]
    sizes, excess = sizes[~np.isnan(sizes)], excess[~np.isnan(sizes)]
    if len(sizes) < FEWEST.value or sizes.max() < 2 * sizes.min() or excess.mean() <= 0:
        return True
    slope = float(np.polyfit(sizes / sizes.mean(), excess / excess.mean(), 1)[0])
    return slope >= MOST_OF.value


def shared(view: View) -> bool:
    """Whether transfers are slow because there are several: those that are alone are fast; where hardly any is alone,
    together they move as much as one did before."""
    alone, together, _ = crowded(view)
    if not np.isnan(alone) or np.isnan(together) or view.was is None:
        return together <= SLOWER.value * alone
    was, now = view.middle(lambda one: one.rate * one.crowd)
    return view.middle(lambda one: one.crowd)[1] >= CROWD.value and now >= SLOWER.value * (was or np.inf)


def transfer_contention(view: View) -> Match | None:
    """Transfers are slow when there are several at once, and as fast as ever alone."""
    alone, together, crowd = crowded(view)
    if not view.stands_out(*MOVING) or not shared(view):
        return None
    rows = view.timed & (view.now.crowd >= CROWD.value)
    if rows.sum() < FEWEST.value:
        return None
    return Match(
        slug="transfer-contention",
        stage=max(MOVING, key=view.grew),
        rows=rows,
        excess=np.where(rows, view.excess(*MOVING, "poll_gap"), 0.0),
        claims=(*MOVING, "poll_gap"),
        measured=(
            view.stage("wire"),
            view.measure("transfers at once", lambda one: one.crowd, COUNT),
            Measure("rate alone", None, alone, RATE),
            Measure("rate among others", None, together, RATE),
        ),
        ruled_out=(
            RuledOut("slow-transport", "slow alone, too", f"alone {_rate(alone)}"),
            look.many_descriptors(view),
            look.starved_writer(view, view.grew(*MOVING)),
        ),
        refuted_by="a transfer alone at the rate of the crowded",
        refuted=_slow_alone(view, together),
        detail=f"{crowd:.1f} at once on average",
    )


def _slow_alone(view: View, together: float) -> int:
    pace = look.size(view.now) * 1e9 / np.maximum(view.now.stage(*MOVING), LEAST_NS)
    return int((view.timed & (view.now.crowd < CROWD.value) & (pace <= together)).sum())


def slowest_rank(view: View) -> Match | None:
    """A request waits for the last of its ranks, and one is later than the others."""
    now = view.now
    spread = np.where(now.splits.ranks > 1, now.splits.rank_spread, 0).astype(float)
    rows = view.timed & (now.splits.ranks > 1)
    if rows.sum() < FEWEST.value:
        return None
    usual = 0.0
    if view.was is not None:
        usual = float(np.where(view.was.timed.splits.ranks > 1, view.was.timed.splits.rank_spread, 0).mean())
    grown = float(spread[rows].mean()) - usual
    total = float(now.splits.ttft[rows].mean())
    if grown < (RANKS.value if view.was is None else ALONE.value / 2) * total:
        return None
    pairs, counts = np.unique(now.splits.slowest_rank[rows], axis=0, return_counts=True)
    worst = pairs[counts.argmax()]
    if counts.max() < MOST_OF.value * rows.sum():
        return None
    return Match(
        slug="slowest-rank",
        stage="wire",
        rows=rows,
        excess=np.where(rows, np.maximum(spread - usual, 0.0), 0.0),
        claims=("submit", "wire", "poll_gap", "prepare"),
        measured=(
            view.measure("last rank less first", _spread, "time"),
            Measure("it is that pair of ranks", None, float(counts.max() / rows.sum()), "share"),
            view.measure("rank pairs", lambda one: one.splits.ranks.astype(float), COUNT),
        ),
        ruled_out=(
            RuledOut("slow-transport", "all ranks late alike", f"{ms(grown)} ms between first and last"),
            look.many_descriptors(view),
        ),
        refuted_by="another pair of ranks that is last as often",
        refuted=int((counts[counts != counts.max()] >= MOST_OF.value * counts.max()).sum()),
        detail=f"prefill rank {worst[0]} to decode rank {worst[1]}",
    )


def _spread(evidence: Evidence) -> np.ndarray:
    return np.where(evidence.splits.ranks > 1, evidence.splits.rank_spread.astype(float), np.nan)
