"""Each case is found where it is, and nothing else is: what looks alike is not called by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.diagnosis.texts import MISSING, TEXTS
from kvscope.model.graph import NODE
from kvscope.model.stages import STAGE, STAGES
from kvscope.probe.vocabulary import MOMENT_CODE

from .catalogue import INCIDENTS, UNFAMILIAR
from .conftest import Diagnose, diagnosis_of
from .incidents import given_up, held, last, lasting, pull, push
from .lost import never_matched, skewed
from .real import delayed, everyone, recording, second_half
from .slowed import prefix_hits, queue, slow_wire


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_is_called_by_its_name_and_by_no_other(name: str) -> None:
    incident, found = INCIDENTS[name], diagnosis_of(name).findings
    assert [finding.slug for finding in found] == [incident.slug]
    assert found[0].match.stage == incident.stage
    assert found[0].see


@pytest.mark.parametrize("name", UNFAMILIAR)
def test_a_fault_that_is_no_case_gets_its_stage_and_no_slug(name: str) -> None:
    incident, found = UNFAMILIAR[name], diagnosis_of(name).findings
    assert [(finding.slug, finding.match.stage) for finding in found] == [("unfamiliar", incident.stage)]
    assert found[0].cls == str(STAGE[incident.stage].cls)
    assert found[0].match.missing


@pytest.mark.parametrize("name", INCIDENTS)
def test_a_finding_rules_out_something_and_says_by_what(name: str) -> None:
    (found,) = diagnosis_of(name).findings
    assert found.match.measured
    assert found.match.ruled_out
    assert found.slug not in {look.slug for look in found.match.ruled_out}
    assert all(look.would and look.seen for look in found.match.ruled_out)
    assert found.match.refuted == 0


def test_every_case_has_its_incident_and_its_words() -> None:
    assert {incident.slug for incident in INCIDENTS.values()} == set(TEXTS) - {"unfamiliar"}
    assert set(MISSING) == {stage.name for stage in STAGES}


def test_what_a_delay_costs_is_what_the_finding_explains() -> None:
    """Over all findings of delays: to a tenth."""
    for name, ms in (("decode's API server", 300), ("picked up late", 300), ("out of blocks, pull", 2_000)):
        (found,) = diagnosis_of(name).findings
        assert found.explains_ns / 1e6 == pytest.approx(ms, rel=0.1)


def test_two_causes_at_once_are_two_findings(diagnosed: Diagnose) -> None:
    both = push({"D.scheduled": 300, "P.handed": 0, "posted": 0, "first_token": 500})
    found = diagnosed(both, recording("push-early")).findings
    assert [(finding.slug, finding.match.stage) for finding in found] == [
        ("unfamiliar", "decode_run"),
        ("unfamiliar", "decode_queue"),
    ]
    assert sum(finding.share or 0 for finding in found) == pytest.approx(1.0, abs=0.05)


def test_a_late_router_and_decode_out_of_blocks_are_told_apart_and_together(diagnosed: Diagnose) -> None:
    base = recording("pull")
    late = delayed(recording("push-early"), {"D.arrived": 600}, everyone, after_prefill=True)
    (router,) = diagnosed(late, recording("push-early")).findings
    (blocks,) = diagnosed(held(delayed(base, {"D.reserved": 600}, everyone)), base).findings
    assert (router.slug, blocks.slug) == ("late-registration", "decode-out-of-blocks")
    both = held(delayed(recording("push-sequential"), {"D.arrived": 900, "D.reserved": 700}, everyone))
    slugs = {finding.slug for finding in diagnosed(both, recording("push-sequential")).findings}
    assert slugs == {"late-registration", "decode-out-of-blocks"}


def test_hangs_come_before_delays_when_they_cost_more(diagnosed: Diagnose) -> None:
    lost = never_matched()
    slow = delayed(lost, {"first_token": 300}, everyone)
    found = diagnosed(slow, recording("push-early")).findings
    assert [finding.slug for finding in found] == ["registration-never-matched", "unfamiliar"]
    assert found[0].cost_s > found[1].cost_s


def test_a_prefix_hit_is_no_handoff_that_failed(diagnosed: Diagnose) -> None:
    events = prefix_hits()
    assert split(events).shaped("prefix_hit").sum() == 16
    assert diagnosed(events).findings == ()


def test_slow_bytes_and_a_long_queue_on_prefill_are_told_apart(diagnosed: Diagnose) -> None:
    (wire,) = diagnosed(slow_wire("push-early"), recording("push-early")).findings
    (wait,) = diagnosed(queue(2_000), recording("push-early")).findings
    assert (wire.slug, wait.slug) == ("slow-transport", "prefill-saturated")


def test_one_client_that_leaves_is_nothing(diagnosed: Diagnose) -> None:
    base = recording("push-early")
    splits = split(base)
    key = int(splits.request[-1])
    cut = replace(
        base,
        rows=base.rows[
            ~((base.rows["request"] == key) & (base.rows["t"] > splits.time[-1, NODE["registration_sent"]]))
        ],
    )
    assert diagnosed(given_up(cut, last(1), 100)).findings == ()


@pytest.mark.parametrize("name", ["push-early", "push-sequential", "pull"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_a_recording_that_ends_in_the_middle_is_no_incident(name: str, share: float, diagnosed: Diagnose) -> None:
    base = recording(name)
    t = base.rows["t"][base.rows["moment"] == MOMENT_CODE["arrived"]]
    end = t.min() + share * (t.max() - t.min())
    assert diagnosed(replace(base, rows=base.rows[base.rows["t"] < end])).findings == ()


@pytest.mark.parametrize("name", ["push-early", "push-sequential", "pull"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.7])
def test_nor_is_one_that_begins_in_the_middle(name: str, share: float, diagnosed: Diagnose) -> None:
    base = recording(name)
    t = base.rows["t"][base.rows["moment"] == MOMENT_CODE["arrived"]]
    begin = t.min() + share * (t.max() - t.min())
    kept = (base.rows["t"] >= begin) | (base.rows["moment"] == MOMENT_CODE["started"])
    assert diagnosed(replace(base, rows=base.rows[kept])).findings == ()


def test_half_of_a_recording_shows_what_is_usual_where_the_other_half_is_slow(diagnosed: Diagnose) -> None:
    found = diagnosed(pull({"D.scheduled": 300}, second_half))
    assert found.usual == 31
    (finding,) = found.findings
    assert (finding.slug, finding.match.stage) == ("unfamiliar", "decode_queue")
    assert finding.since.at is not None


def test_clocks_that_are_apart_leave_no_other_finding(diagnosed: Diagnose) -> None:
    for ms in (-5_000, -50, 5_000):
        assert [finding.slug for finding in diagnosed(skewed(ms)).findings] == ["clock-skew"]


@pytest.mark.parametrize("name", ["push-early", "pull"])
@pytest.mark.parametrize("seed", range(5))
def test_moments_that_are_lost_here_and_there_are_no_hangs(name: str, seed: int, diagnosed: Diagnose) -> None:
    base = lasting(recording(name))
    kept = np.random.default_rng(seed).random(len(base.rows)) > 0.02
    assert diagnosed(replace(base, rows=base.rows[kept])).findings == ()
