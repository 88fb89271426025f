"""What ended each stage, in a few words: a step boundary, a drain, a poll, the router."""

from __future__ import annotations

from kvscope.analysis.render.amounts import Milliseconds, quantity
from kvscope.model.counting import count
from kvscope.model.requests import RequestSplit, Span

LETTERS = {"prefill": "P", "decode": "D", "router": "R"}
BY_STEP = {
    "P.scheduled": "scheduled it",
    "D.scheduled": "began",
    "D.reserved": "scheduled it",
    "P.computed": "ended",
    "first_token": "ended",
    "D.handed": "ended",
    "post_begun": "ended",
    "P.handed": "ended",
    "noticed": "polled",
    "ready": "reported",
}
"""What a step does at the moment that ends a stage."""
DRAINED = {"registration_received", "staged", "notified"}


def letter(span: Span, split: RequestSplit) -> str:
    """P, D or R: where the stage ended. A dispatch belongs to the router, whoever saw its end."""
    if span.stage in ("dispatch", "router"):
        return "R"
    return LETTERS.get(_poster(split) if span.ended_by == "transferred" else span.leg, "-")


def _poster(split: RequestSplit) -> str:
    """The leg that posted, and so the one that polls."""
    return next((stamp.leg for stamp in split.stamps if stamp.moment == "posted"), "")


def what_ended(span: Span, split: RequestSplit, scale: Milliseconds) -> str:
    """A few words; empty where nothing more is known than the stage's name says."""
    if span.stage == "dispatch":
        return _dispatch(split, scale)
    if span.stage == "wire":
        return _rate(split)
    if span.ended_by in ("prepared", "posted"):
        return _post(span, split)
    if span.ended_by == "transferred":
        return _landed(span, split)
    step = f"{LETTERS.get(span.leg, '')} step {span.step:,} " if span.step else ""
    if span.ended_by in DRAINED:
        return f"{step}writer drained" if step else f"{LETTERS.get(span.leg, '')} writer drained"
    return f"{step}{BY_STEP.get(span.ended_by, 'was running')}" if step else ""


def _dispatch(split: RequestSplit, scale: Milliseconds) -> str:
    named = {"reply": "prefill's reply", "router_hold": "router held", "hop": "hop to decode"}
    parts = sorted(split.dispatch_parts.items(), key=lambda part: -part[1])
    if not parts:
        return "decode called after prefill" if split.knew_peer else ""
    return ", ".join(f"{named.get(name, name)} {scale.of(ns)}" for name, ns in parts[:2] if ns)


def _rate(split: RequestSplit) -> str:
    low, high = split.transfer_bounds_ns
    if not split.transfer_bytes or not high:
        return ""
    slow = quantity(split.transfer_bytes * 1e9 / high, "B/s")
    fast = quantity(split.transfer_bytes * 1e9 / low, "B/s") if low else ""
    return f"{slow}..{fast}" if fast and fast != slow else slow


def _post(span: Span, split: RequestSplit) -> str:
    thread = "" if split.post_thread == "unknown" else f"{split.post_thread} thread"
    if span.ended_by == "posted":
        return thread
    made = count(split.descriptors, "descriptor") if split.descriptors is not None else ""
    return ", ".join(part for part in (made, thread) if part)


def _landed(span: Span, split: RequestSplit) -> str:
    first = {stamp.moment: stamp for stamp in split.stamps if stamp.t == span.end}
    if "done_seen" in first:
        seen = first["done_seen"]
        where = LETTERS.get(seen.leg, "")
        return f"{where} step {seen.step:,} polled" if seen.step else f"{where} polled"
    return "told before any poll" if "notified" in first else ""
