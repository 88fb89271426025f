"""What went wrong, and from which age on a request is stuck."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvscope.analysis.bands import Band
from kvscope.core.critical_path import split
from kvscope.live.trouble import LEAST_NS, PATIENCE_NS, gather_trouble, stuck_after
from kvscope.model.splits import MARKS, Splits
from kvscope.model.stages import STAGES

from ..core.scene import D_LEG, MS, moment
from .fleet import Items, events, request

SECOND = 1_000_000_000
NOTHING = np.zeros(len(STAGES))


def bands(p99_ms: float) -> tuple[Band, ...]:
    return (Band("p99", round(p99_ms * MS), 5, 0, 0, NOTHING, NOTHING),)


def failing(number: int, reason: str) -> Items:
    """A request that fails before its first token."""
    leg = {**D_LEG, "request": f"cmpl-f{number}-0-bbbbbbbb"}
    return [
        *(moment(leg, name, 1_000 + number) for name in ("arrived", "taken", "queued", "reserved")),
        moment(leg, "failed", 1_100, reason=reason),
        moment(leg, "finished", 1_200, reason="error"),
    ]


def hung(number: int, at_ms: float) -> Items:
    return [item for item in request("early", number, at_ms) if item["t"] <= (at_ms + 60) * MS]


def window(parts: list[Items], now_s: float) -> Splits:
    return replace(split(events(parts)), now=round(now_s * SECOND))


@pytest.mark.parametrize(
    ("p99_ms", "after_ns"),
    [(20, LEAST_NS), (500, 1_500 * MS), (3_000, 9 * SECOND), (8_000, PATIENCE_NS)],
)
def test_stuck_is_by_what_is_usual_within_bounds(p99_ms: float, after_ns: int) -> None:
    assert stuck_after(bands(p99_ms)) == after_ns
    assert stuck_after(()) == PATIENCE_NS


def test_those_without_a_first_token_for_too_long_are_stuck() -> None:
    parts = [hung(1, 0), hung(2, 5_000), hung(3, 9_000), request("early", 4, 9_000)]
    found = gather_trouble(window(parts, 10), bands(1_000), 10 * SECOND)
    assert (found.stuck, found.oldest_ns, found.stuck_ns) == (2, 10 * SECOND, 3 * SECOND)
    assert gather_trouble(window(parts, 10), (), 10 * SECOND).stuck == 0


def test_failures_expiries_and_preemptions_are_counted_per_minute() -> None:
    parts = [failing(1, "transfer_failed"), failing(2, "registration_expired"), request("early", 3, 0)]
    whole = window(parts, 2)
    marks = whole.marks.copy()
    marks[:1] |= 1 << MARKS.index("preempted")
    found = gather_trouble(replace(whole, marks=marks), (), 30 * SECOND)
    assert (found.failures, found.expired, found.preempted, found.stuck) == (2, 1, 1, 0)
    assert found.per_minute(found.failures) == 4.0
