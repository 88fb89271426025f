"""Registration late because the router calls decode late."""

from __future__ import annotations

import pytest

from kvscope.diagnosis.finding import Finding
from kvscope.diagnosis.match import Measure

from ..live.fleet import AFTER_DECODE
from ..report.scenes import EARLY, LATE, Item, events_of, fleet
from .conftest import Diagnose
from .real import delayed, everyone, recording, second_half


def measured(finding: Finding, name: str) -> Measure:
    return next(measure for measure in finding.match.measured if measure.name == name)


@pytest.mark.parametrize("hold", [200, 300, 600])
def test_a_router_that_holds_decode_back_is_named(hold: int, diagnosed: Diagnose) -> None:
    events = delayed(recording("push-early"), {"D.arrived": hold}, everyone, after_prefill=True)
    (found,) = diagnosed(events, recording("push-early")).findings
    assert (found.slug, found.match.stage, found.cls) == ("late-registration", "dispatch", "coordination")
    assert found.share == pytest.approx(1.0, abs=0.05)
    assert found.since.at is None
    assert measured(found, "registered before staged").was == pytest.approx(62 / 63)
    assert measured(found, "registered before staged").now < 0.5
    assert found.match.refuted == 0


def test_what_it_costs_moves_one_for_one_with_the_hold(diagnosed: Diagnose) -> None:
    base = recording("push-early")
    costs = [
        diagnosed(delayed(base, {"D.arrived": hold}, everyone, after_prefill=True), base).findings[0].explains_ns / 1e6
        for hold in (1000, 1200)
    ]
    assert costs[1] - costs[0] == pytest.approx(200, abs=1)


def test_it_is_found_without_anything_to_compare_with(diagnosed: Diagnose) -> None:
    events = delayed(recording("push-early"), {"D.arrived": 600}, everyone, after_prefill=True)
    found = diagnosed(events)
    assert [finding.slug for finding in found.findings] == ["late-registration"]
    assert found.usual is None


def test_since_when_is_told_where_it_began_within_the_recording(diagnosed: Diagnose) -> None:
    base = recording("push-early")
    found = diagnosed(delayed(base, {"D.arrived": 600}, second_half, after_prefill=True))
    (finding,) = found.findings
    assert finding.slug == "late-registration"
    assert finding.since.at is not None
    assert (finding.since.at - found.first) / 1e9 == pytest.approx(9.9, abs=0.5)
    assert finding.since.until is None


def test_the_short_dispatch_of_a_sequential_router_is_no_incident(diagnosed: Diagnose) -> None:
    base = recording("push-sequential")
    assert diagnosed(delayed(base, {"D.arrived": 5}, everyone), base).findings == ()


@pytest.mark.parametrize(
    ("node", "stage"),
    [("D.reserved", "decode_admission"), ("registration_sent", "registration_send"), ("D.taken", "frontend")],
)
def test_what_makes_a_registration_late_on_decode_is_not_the_router(node: str, stage: str, diagnosed: Diagnose) -> None:
    base = recording("push-sequential")
    slugs = {
        finding.match.stage: finding.slug for finding in diagnosed(delayed(base, {node: 600}, everyone), base).findings
    }
    assert "late-registration" not in slugs.values()
    assert stage in slugs


def test_a_pull_has_no_registration_to_be_late(diagnosed: Diagnose) -> None:
    (found,) = diagnosed(delayed(recording("pull"), {"D.arrived": 300}, everyone), recording("pull")).findings
    assert (found.slug, found.match.stage) == ("unfamiliar", "dispatch")


def test_from_a_hundred_requests_on_p95_is_compared(diagnosed: Diagnose) -> None:
    """The worked examples by the hundred, the later one held back by 80 ms more."""
    held_back = [_later(item, 80_000_000) for item in fleet(LATE, 150)]
    found = diagnosed(events_of(held_back), events_of(fleet(EARLY, 150)))
    (finding,) = found.findings
    assert (finding.slug, found.place) == ("late-registration", "p95")
    assert finding.explains_ns == pytest.approx(found.excess_ns) == pytest.approx(91e6)


def _later(item: Item, ns: int) -> Item:
    moved = item.get("leg") == "decode" or item["moment"] in AFTER_DECODE
    return {key: value + ns * (moved and key in ("t", "looked")) if key in ("t", "looked") else value
            for key, value in item.items()}  # fmt: skip
