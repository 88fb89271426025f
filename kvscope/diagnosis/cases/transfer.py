"""Posting, moving and noticing: what a transfer's time went into."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.figures import ms
from kvscope.diagnosis.match import COUNT, RATE, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import ALONE, CROWD, FEWEST, MOST_OF, RANKS, SAME, SLOWED, SLOWED_LEAST, SLOWER, STEP
from kvscope.diagnosis.view import View

POST = ("prepare", "submit")
MOVING = ("submit", "wire")
WRITER = ("writer_wake", "prepare", "match")
"""What a writer does besides submitting: no transport makes it slower."""


def same(one: float | None, other: float) -> bool:
    """Whether two sizes or counts are the same, as far as is known."""
    return one is None or np.isnan(one) or np.isnan(other) or abs(other - one) <= SAME.value * max(one, other)


def per_mebibyte(evidence: Evidence) -> np.ndarray:
    """(n,) f8 descriptors per MiB, NaN where not known"""
    return np.asarray(look.descriptors(evidence) * (1 << 20) / look.size(evidence))


def _sizes(view: View) -> tuple[Measure, Measure]:
    return (
        view.measure("descriptors per MiB", per_mebibyte, COUNT, median=True),
        view.measure("rate", lambda one: one.rate, RATE, median=True),
    )


def crowded(view: View) -> tuple[float, float, float]:
    """(rate alone, rate of the crowded, transfers at once), medians of bytes/s; NaN where there are too few"""
    now = view.now.timed
    many = now.crowd >= CROWD.value
    groups = [now.rate[chosen & ~np.isnan(now.rate)] for chosen in (~many & ~np.isnan(now.crowd), many)]
    alone, together = (float(np.median(rates)) if len(rates) >= 3 else float("nan") for rates in groups)
    if np.isnan(alone) and view.was is not None:
        before = view.was.timed
        rates = before.rate[(before.crowd < CROWD.value) & ~np.isnan(before.rate)]
        alone = float(np.median(rates)) if len(rates) >= 3 else float("nan")
    return alone, together, float(np.nanmean(now.crowd)) if (~np.isnan(now.crowd)).any() else float("nan")


def writer_busy(view: View) -> bool:
    """Whether whoever posts has become slow at several of the things that it does, as one without CPU has."""
    if view.was is None:
        _, wake = view.both(lambda one: one.stage(*WRITER) + hidden(one, *WRITER))
        return wake > SAME.value * view.grew("submit")
    return sum(_slowed(view, name) for name in ("writer_wake", "match", "prepare", "submit")) > 1


def _slowed(view: View, name: str) -> bool:
    was, now = view.middle(lambda one: one.stage(name) + hidden(one, name))
    return was is not None and now > SLOWED.value * was + SLOWED_LEAST.value


def hidden(evidence: Evidence, *names: str) -> np.ndarray:
    """(n,) f8 hidden ns of some stages together"""
    from kvscope.model.graph import STAGE_INDEX

    columns = [STAGE_INDEX[name] for name in names]
    return np.asarray(evidence.splits.hidden[:, columns].sum(axis=1, dtype=float))


def slow_transport(view: View) -> Match | None:
    """The same bytes in the same pieces move at half the rate or less, whether alone or not."""
    if not view.stands_out(*MOVING) or view.grew(*MOVING) < view.grew("poll_gap"):
        return None
    descriptors, rate = _sizes(view)
    if not same(descriptors.was, descriptors.now):
        return None
    if view.was is not None and not rate.now <= SLOWER.value * (rate.was or 0.0):
        return None
    alone, together, crowd = crowded(view)
    if _only_in_crowds(view, alone, together):
        return None
    if view.grew("submit") > view.grew("wire") and writer_busy(view):
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
    from kvscope.diagnosis.figures import amount

    return amount(value, RATE)


def _only_in_crowds(view: View, alone: float, together: float) -> bool:
    if np.isnan(alone) or np.isnan(together) or together > SLOWER.value * alone:
        return False
    if view.was is None:
        return True
    usual = view.measure("rate", lambda one: one.rate, RATE, median=True).was
    return usual is not None and alone > SLOWER.value * usual


def transfer_contention(view: View) -> Match | None:
    """Transfers are slow when there are several at once, and as fast as ever alone."""
    alone, together, crowd = crowded(view)
    if not view.stands_out(*MOVING) or not _only_in_crowds(view, alone, together):
        return None
    rows = view.timed & (view.now.crowd >= CROWD.value)
    if rows.sum() < FEWEST.value:
        return None
    return Match(
        slug="transfer-contention",
        stage="wire",
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
        refuted=int((view.timed & (view.now.crowd < CROWD.value) & (view.now.rate <= together)).sum()),
        detail=f"{crowd:.1f} at once on average",
    )


def too_many_descriptors(view: View) -> Match | None:
    """Posting takes long because the same bytes come in more pieces."""
    if not view.stands_out(*POST) or view.grew(*POST) < view.grew("wire"):
        return None
    pieces = view.measure("descriptors per MiB", per_mebibyte, COUNT, median=True)
    if view.was is not None:
        if not pieces.now >= 2 * (pieces.was or np.inf):
            return None
    elif _slope(view.now.timed) is None:
        return None
    rows = view.timed & (view.now.splits.descriptors > 0)
    return Match(
        slug="too-many-descriptors",
        stage="submit" if view.grew("submit") > view.grew("prepare") else "prepare",
        rows=rows,
        excess=np.where(rows, view.excess(*POST), 0.0),
        claims=POST,
        measured=(
            view.stage(*POST, name="post"),
            pieces,
            view.measure("post per descriptor", post_per_descriptor, "time", median=True),
            view.stage("wire"),
        ),
        ruled_out=(
            RuledOut("writer-starved-of-cpu", "post longer at the same descriptors", told_pieces(pieces)),
            look.by_stage(view, "slow-transport", view.grew(*POST), "wire"),
        ),
        refuted_by="a post as long with the usual descriptors",
        refuted=_long_posts_of_few(view, pieces),
    )


def told_pieces(measure: Measure) -> str:
    """Descriptors per MiB, in words."""
    from kvscope.diagnosis.figures import told

    return f"{told(measure)} per MiB"


def post_per_descriptor(evidence: Evidence) -> np.ndarray:
    """(n,) f8 ns of posting for each descriptor, NaN where not known"""
    return np.asarray(evidence.stage(*POST) / look.descriptors(evidence))


def _long_posts_of_few(view: View, pieces: Measure) -> int:
    usual = pieces.was or 0.0
    long = view.now.stage(*POST) >= np.median(view.now.timed.stage(*POST)) if view.timed.any() else view.timed
    return int((view.timed & long & (per_mebibyte(view.now) <= usual * (1 + SAME.value))).sum())


def _slope(timed: Evidence) -> float | None:
    """How surely posts get longer with descriptors among the requests of one recording; None: they do not."""
    pieces, post = per_mebibyte(timed), timed.stage(*POST)
    known = ~np.isnan(pieces)
    if known.sum() < FEWEST.value or np.nanmax(pieces) < 3 * np.nanmin(pieces):
        return None
    found = float(np.corrcoef(pieces[known], post[known])[0, 1])
    return found if found > 0.8 else None


def writer_starved_of_cpu(view: View) -> Match | None:
    """Whoever posts gets no CPU: all that it does takes longer, at the same descriptors."""
    if not view.stands_out(*POST, *WRITER) or not writer_busy(view):
        return None
    pieces = view.measure("descriptors per MiB", per_mebibyte, COUNT, median=True)
    if not same(pieces.was, pieces.now) or view.grew("wire") > view.grew(*POST, "writer_wake", "match"):
        return None
    if view.was is None and _slope(view.now.timed) is not None:
        return None
    rows = view.timed & (view.now.splits.ranks > 0)
    stages = ("writer_wake", "match", "prepare", "submit", "registration_send")
    return Match(
        slug="writer-starved-of-cpu",
        stage=max(stages, key=view.grew),
        rows=rows,
        excess=np.where(rows, view.excess(*stages), 0.0),
        claims=stages,
        measured=(
            view.stage(*POST, name="post"),
            view.measure("writer wake-up", lambda one: one.stage("writer_wake") + hidden(one, "writer_wake"), "time"),
            view.measure("preparing", lambda one: one.stage("prepare") + hidden(one, "prepare"), "time"),
            pieces,
        ),
        ruled_out=(
            RuledOut("too-many-descriptors", "twice the descriptors per MiB", told_pieces(pieces)),
            look.by_stage(view, "slow-transport", view.grew(*stages), "wire"),
            look.handed_late(view, view.grew(*stages)),
        ),
        refuted_by="a thread of the writer's process that is idle meanwhile (kvscope profile tells)",
        refuted=0,
        unknown=("who has the CPU instead: kvscope profile shows it",),
    )


def completion_noticed_late(view: View) -> Match | None:
    """The bytes are there, and the engine that polls looks once a step."""
    late = ("poll_gap", "notice") if view.now.pushed.any() else ("poll_gap",)
    if not view.stands_out(*late) or view.grew("wire") > view.grew(*late):
        return None
    gap, step = view.now.timed.stage(*late), view.now.timed.poll_step()
    waited = gap > 1e6
    known = waited & ~np.isnan(step)
    if known.sum() < FEWEST.value or (gap[known] <= 1.25 * step[known]).mean() < MOST_OF.value:
        return None
    if not np.median(gap[known]) >= STEP.value / 2 * np.median(step[known]):
        return None
    rows = view.timed & (view.now.stage(*late) > 1e6)
    grown = view.grew(*late)
    claims = (*late, "read_handoff", "pickup", "report", "decode_queue", "decode_run")
    claims = (*late, *(name for name in claims[len(late) :] if view.was is not None and view.grew(name) > 0))
    side = "prefill" if view.now.pushed.any() else "decode"
    return Match(
        slug="completion-noticed-late",
        stage="poll_gap" if view.grew("poll_gap") >= grown / 2 else "notice",
        rows=rows,
        excess=np.where(rows, view.excess(*claims), 0.0),
        claims=claims,
        measured=(
            view.stage("poll_gap"),
            view.stage("notice"),
            view.measure(f"{side}'s step at the poll", lambda one: one.poll_step(), "time", median=True),
            view.stage("wire"),
            view.measure("found at the first poll", first_poll, "share"),
        ),
        ruled_out=(
            look.by_stage(view, "slow-transport", grown, "wire", because=": polls find it in flight"),
            RuledOut("an unresponsive peer", "requests posted and never done", f"{int(_never_done(view).sum())}"),
            look.saturated(view, grown),
            look.starved_writer(view, grown),
        ),
        refuted_by="a poll_gap longer than two of that engine's steps",
        refuted=int((gap[known] > 2 * step[known]).sum()),
        detail=f"{side} polls once a step of {ms(float(np.median(step[known])))} ms",
        unknown=("when the last byte came: it cannot be observed between two polls, so this is inferred",),
    )


def first_poll(evidence: Evidence) -> np.ndarray:
    """(n,) f8 1 where the transfer was done when first looked at, NaN without one"""
    return np.where(evidence.has("posted"), ~evidence.has("pending_seen"), np.nan).astype(float)


def _never_done(view: View) -> np.ndarray:
    return np.asarray(view.hung & view.now.has("posted") & ~view.now.has("transferred"))


def writer_handed_blocks_late(view: View) -> Match | None:
    """Finished blocks reach prefill's writer only after its next step, with the registration there early."""
    rows = view.timed & view.now.splits.shaped("push") & ~view.now.late_registration
    if rows.sum() < FEWEST.value or not view.stands_out("staging", "writer_wake"):
        return None
    now = view.now
    staging = now.between("P.computed", "P.handed")
    step = now.steps.during(now.splits.prefill_engine, now.t("P.handed"))
    known = rows & ~np.isnan(step) & (staging > 1e6)
    if known.sum() < FEWEST.value or (staging[known] <= 1.5 * step[known]).mean() < MOST_OF.value:
        return None
    if view.grew("writer_wake") > view.grew("staging"):
        return None
    claims = ("staging", "writer_wake", "match")
    grown = view.grew(*claims)
    return Match(
        slug="writer-handed-blocks-a-step-late",
        stage="staging",
        rows=rows,
        excess=np.where(rows, view.excess(*claims), 0.0),
        claims=claims,
        measured=(
            view.stage("staging"),
            view.measure("prefill's step then", lambda one: _handing_step(one), "time", median=True),
            view.measure("registered before staged", _early, "share"),
            view.stage("poll_gap"),
        ),
        ruled_out=(
            RuledOut(
                "late-registration",
                "registrations sent after the blocks",
                f"{int((view.timed & now.late_registration).sum())} of {int(view.timed.sum())}",
            ),
            look.slow_transport(view),
            look.by_stage(view, "writer-starved-of-cpu", grown, "writer_wake", "prepare"),
        ),
        refuted_by="a hand-off that took longer than two of prefill's steps",
        refuted=int((known & (staging > 2 * step)).sum()),
        detail=f"prefill's steps take {ms(float(np.median(step[known])))} ms",
    )


def _handing_step(evidence: Evidence) -> np.ndarray:
    return evidence.steps.during(evidence.splits.prefill_engine, evidence.t("P.handed"))


def _early(evidence: Evidence) -> np.ndarray:
    from kvscope.diagnosis.cases.dispatch import registered_early

    return registered_early(evidence)


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
