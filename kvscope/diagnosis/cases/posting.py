"""Preparing and posting a transfer: in how many pieces, and by a thread that has to run."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.figures import told
from kvscope.diagnosis.match import COUNT, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import (
    EXPLAINS,
    FEWEST,
    SAME,
    SLOWED,
    SLOWED_LEAST,
)
from kvscope.diagnosis.view import View
from kvscope.model.graph import STAGE_INDEX

POST = ("prepare", "submit")
WRITER = ("writer_wake", "prepare", "match")
"""What a writer does besides submitting: no transport makes it slower."""


def same(one: float | None, other: float) -> bool:
    """Whether two sizes or counts are the same, as far as is known."""
    return one is None or np.isnan(one) or np.isnan(other) or abs(other - one) <= SAME.value * max(one, other)


def per_mebibyte(evidence: Evidence) -> np.ndarray:
    """(n,) f8 descriptors per MiB, NaN where not known"""
    return np.asarray(look.descriptors(evidence) * (1 << 20) / look.size(evidence))


def writer_busy(view: View) -> bool:
    """Whether whoever posts has become slow at several of the things that it does, as one without CPU has."""
    return sum(_slowed(view, name) for name in ("writer_wake", "prepare", "submit")) > 1


def _slowed(view: View, name: str) -> bool:
    was, now = view.middle(lambda one: one.stage(name) + hidden(one, name))
    if was is None:  # each of them has a part of TTFT that one thing alone could not have
        return now > EXPLAINS.value * view.comparison.usual_ttft
    return now > SLOWED.value * was + SLOWED_LEAST.value


def hidden(evidence: Evidence, *names: str) -> np.ndarray:
    """(n,) f8 hidden ns of some stages together"""
    columns = [STAGE_INDEX[name] for name in names]
    return np.asarray(evidence.splits.hidden[:, columns].sum(axis=1, dtype=float))


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
