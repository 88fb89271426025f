"""What looks alike: one function for each, that says what would have been seen and what was."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.figures import ms, told
from kvscope.diagnosis.match import COUNT, RATE, SHARE, Measure, RuledOut
from kvscope.diagnosis.thresholds import CLOCK_LEAST
from kvscope.diagnosis.view import View
from kvscope.model.counting import count
from kvscope.model.graph import NODE
from kvscope.probe.vocabulary import UNKNOWN


def by_stage(view: View, slug: str, effect: float, *stages: str, because: str = "") -> RuledOut:
    """It would have lengthened other stages by as much."""
    name = " + ".join(stages)
    return RuledOut(slug, f"{name} up by {ms(effect)}{because}", told(view.stage(*stages)))


def out_of_blocks(view: View, effect: float) -> RuledOut:
    """Decode had no blocks."""
    return by_stage(view, "decode-out-of-blocks", effect, "decode_admission")


def router_late(view: View, effect: float) -> RuledOut:
    """The router was late."""
    return by_stage(view, "late-registration", effect, "dispatch")


def saturated(view: View, effect: float) -> RuledOut:
    """Prefill had too much to do."""
    return by_stage(view, "prefill-saturated", effect, "intake", "prefill_queue")


def slow_transport(view: View) -> RuledOut:
    """The bytes moved slowly."""
    rate = view.measure("rate", lambda one: one.rate, RATE, median=True)
    return RuledOut("slow-transport", "half the rate at the same bytes", told(rate))


def starved_writer(view: View, effect: float) -> RuledOut:
    """The writer had no CPU."""
    return by_stage(
        view, "writer-starved-of-cpu", effect, "prepare", "submit", "writer_wake", because=" at the same descriptors"
    )


def many_descriptors(view: View) -> RuledOut:
    """More descriptors for the same bytes."""
    found = view.measure("descriptors", descriptors, COUNT, median=True)
    return RuledOut("too-many-descriptors", "twice the descriptors at the same bytes", told(found))


def noticed_late(view: View, effect: float) -> RuledOut:
    """Nobody looked."""
    return by_stage(view, "completion-noticed-late", effect, "poll_gap")


def handed_late(view: View, effect: float) -> RuledOut:
    """Prefill handed its blocks over a step late."""
    return by_stage(view, "writer-handed-blocks-a-step-late", effect, "staging")


def clock(view: View, effect: float) -> RuledOut:
    """The clocks lie."""
    splits = view.now.splits
    torn = int(((view.now.backwards >= CLOCK_LEAST.value) | splits.marked("unaligned")).sum())
    hosts = len({engine.host for engine in splits.engines if engine.host})
    one = "one clock" if hosts < 2 else f"{hosts} hosts' clocks"
    return RuledOut(
        "clock-skew", f"moments out of order, by {ms(effect)} ms", f"{one}, {count(torn, 'request')} out of order"
    )


def no_transfer(view: View) -> RuledOut:
    """Decode computed the prompt itself."""
    found = view.measure("no handoff", lambda one: one.splits.shaped("no_handoff").astype(float), SHARE)
    return RuledOut("no-handoff", "decode computes whole prompts", told(found))


def prefix_hit(view: View) -> RuledOut:
    """Decode had the blocks cached."""
    found = view.measure("prefix hits", lambda one: one.splits.shaped("prefix_hit").astype(float), SHARE)
    return RuledOut("prefix-hit-or-leak", "cached tokens, decode_run as short as a hit's", f"hits {told(found)}")


def lost_leg(view: View, rows: np.ndarray) -> RuledOut:
    """Prefill never got its leg."""
    seen = int((rows & (view.now.t("P.arrived") != UNKNOWN)).sum())
    return RuledOut("registration-never-matched", "no prefill leg", f"{count(seen, 'prefill leg')} of {rows.sum()}")


def other_id(view: View, rows: np.ndarray, halves: int) -> RuledOut:
    """Both legs are there, under different ids."""
    return RuledOut("id-mismatch", f"{count(int(rows.sum()), 'unmatched prefill leg')}", f"{halves}")


def expired(view: View, rows: np.ndarray) -> RuledOut:
    """Prefill let its blocks go."""
    found = int((rows & view.now.failures.of(view.now.splits, "lease_expired", leg="prefill")).sum())
    return RuledOut("lease-expired-before-read", "prefill's lease expired first", f"in {found} of {int(rows.sum())}")


def failed_post(view: View, rows: np.ndarray) -> RuledOut:
    """Prefill matched, and could not write."""
    nodes = view.now.splits.time[:, NODE["matched"]]
    found = int((rows & (nodes != UNKNOWN)).sum())
    return RuledOut("write-never-posted", "matched, then a failure on prefill", f"{found} of {int(rows.sum())} matched")


def stale(view: View, rows: np.ndarray) -> RuledOut:
    """An earlier attempt under the same id took the blocks."""
    splits = view.now.splits
    found = int((rows & (splits.marked("stale_match") | splits.marked("retried"))).sum())
    return RuledOut("retry-same-id", "prefill matched a request that was over", f"{found} of {int(rows.sum())}")


def dead_peer(view: View, rows: np.ndarray) -> RuledOut:
    """Prefill is gone."""
    splits = view.now.splits
    peers = np.unique(splits.prefill_engine[splits.prefill_engine >= 0])
    heard = view.now.last_seen[peers]
    heard = heard[heard != UNKNOWN]
    ago = f"{(splits.now - int(heard.max())) / 1e9:.1f} s before the end" if len(heard) else "never"
    return RuledOut("prefill-dies-at-handshake", "prefill silent from then on", f"last heard {ago}")


def descriptors(evidence: Evidence) -> np.ndarray:
    """(n,) f8 of each transfer, NaN where not known"""
    told_ = evidence.splits.descriptors
    return np.where(told_ > 0, told_.astype(float), np.nan)


def size(evidence: Evidence) -> np.ndarray:
    """(n,) f8 bytes of each transfer, NaN where not known"""
    told_ = evidence.splits.transfer_bytes
    return np.where(told_ > 0, told_.astype(float), np.nan)


def share_measure(name: str, was: float | None, now: float) -> Measure:
    """A share of one."""
    return Measure(name, was, now, SHARE)
