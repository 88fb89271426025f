"""From batches to pictures: what is shown is what a report of the same time says, and what changed is seen when."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from kvscope.analysis.summary import gather_summary, without
from kvscope.core.critical_path import split
from kvscope.core.stream import SECOND
from kvscope.live.collector import PATIENCE_S, Collector, Settings, rest_s, strides
from kvscope.live.feed import Batch, Flow
from kvscope.live.regime import AFTER, EARLY
from kvscope.live.snapshot import Snapshot
from kvscope.model.events import Events
from kvscope.model.requests import State
from kvscope.model.stages import Class

from .fleet import Items, events, request, stretch


@dataclass
class Script:
    """Gives events by their time, a quarter of a second a poll."""

    whole: Events
    at: int = 0
    pace: int = SECOND // 4
    name: str = "script"
    restarts: list[int] = field(default_factory=list)

    def poll(self) -> Batch:
        begin, self.at = self.at, self.at + self.pace
        times = self.whole.rows["t"]
        rows = self.whole.rows[(times >= begin) & (times < self.at)]
        restart = begin in self.restarts
        return Batch(Events(rows, self.whole.processes, self.whole.texts), self.at, None, Flow.LIVE, restart=restart)

    def save(self, folder: Path) -> str:
        return f"nothing to save in {folder}"

    def close(self) -> None:
        pass


def pictures(parts: list[Items], until_s: float, settings: Settings | None = None) -> list[Snapshot]:
    collector = Collector(Script(events(parts)), settings)
    return [collector.step() for _ in range(round(until_s * 4))]


def test_a_picture_says_what_a_report_of_the_same_requests_says() -> None:
    parts = stretch("early", 0, 8)
    last = pictures(parts, 10)[-1]
    whole = events(parts)
    expected = gather_summary(whole, split(whole))
    shown = last.summary
    assert shown.condition.states == expected.condition.states
    assert [band.percentile_ns for band in shown.bands] == [band.percentile_ns for band in expected.bands]
    assert all((a.exposed == b.exposed).all() for a, b in zip(shown.bands, expected.bands, strict=True))
    assert shown.overlap == expected.overlap


def test_a_request_is_shown_before_it_is_over_and_once() -> None:
    for snapshot in pictures(stretch("early", 0, 4), 6):
        ids = snapshot.window.request.tolist()
        assert len(ids) == len(set(ids))
    answered = [item for item in request("early", 1, 0) if item["moment"] != "finished"]
    (first, *_), last = (found := pictures([answered], 2)), found[-1]
    assert first.window.ttft.tolist() == last.window.ttft.tolist() == [136_000_000]


def test_a_change_of_dispatch_is_seen_within_five_seconds_and_dated() -> None:
    """From early to sequential with the decode leg half a second late."""
    parts = stretch("early", 0, 20) + stretch("sequential", 20, 40, first=1000, delay_ms=500)
    shown = pictures(parts, 40)
    regimes = [(snapshot.now / SECOND, snapshot.regime) for snapshot in shown if snapshot.regime]
    assert {regime.manner for now, regime in regimes if now < 20} == {EARLY}
    assert all(regime.since is None and regime.cls is Class.COMPUTE_RUN for now, regime in regimes if now < 20)
    changed = next(now for now, regime in regimes if regime.manner is AFTER)
    assert 20 < changed < 25
    last = regimes[-1][1]
    assert (last.manner, last.cls) == (AFTER, Class.COORDINATION)
    assert last.since is not None
    assert abs(last.since / SECOND - 20.6) < 1.0
    assert last.before is not None
    assert last.before.bands[1].percentile_ns == 136_000_000
    assert len({regime.since for now, regime in regimes if now > changed}) == 1


def test_a_change_is_dated_by_the_first_request_though_pictures_are_far_apart() -> None:
    """A step that takes long to make sees two windows at once that both lie after the change."""
    parts = stretch("early", 0, 20) + stretch("sequential", 26, 32, first=1000, delay_ms=500)
    for pace_ms in (250, 1000, 2000):
        collector = Collector(Script(events(parts), pace=pace_ms * SECOND // 1000))
        last = [collector.step() for _ in range(40_000 // pace_ms)][-1]
        assert (len(last.window), last.window.knew.tolist()) == (60, [1] * 60)


def test_one_slow_request_changes_nothing() -> None:
    parts = [*stretch("early", 0, 20), request("sequential", 5000, 9_000, delay_ms=3000)]
    assert {s.regime.since for s in pictures(parts, 20) if s.regime} == {None}


def test_some_slow_requests_turn_nothing_to_and_fro() -> None:
    """One in six waits for its dispatch: the slow half is led by that at times, by little."""
    parts = [
        request("early", n, n * 50) if n % 6 else request("sequential", n, n * 50, delay_ms=400) for n in range(800)
    ]
    found = [s.regime for s in pictures(parts, 40) if s.regime]
    assert len({regime.since for regime in found}) == 1
    assert {regime.manner for regime in found} == {EARLY}


def test_what_leads_is_judged_anew_when_it_changes_and_dispatch_does_not() -> None:
    parts = stretch("early", 0, 30) + [request("early", 5000 + n, 30_000 + n * 100, delay_ms=300) for n in range(400)]
    last = pictures(parts, 68)[-1].regime
    assert last is not None
    assert (last.manner, last.cls) == (EARLY, Class.COORDINATION)
    assert last.since is not None
    assert abs(last.since / SECOND - 30.4) < 3


def test_a_leader_that_changes_soon_after_dispatch_did_leads_since_no_earlier() -> None:
    """Before the dispatch changed, what leads in the end led too: of that time nothing is counted."""
    parts = stretch("early", 0, 20, per_s=20, delay_ms=300)
    parts += stretch("sequential", 20, 34, per_s=3, first=1000)
    parts += stretch("sequential", 34, 50, per_s=3, first=2000, delay_ms=600)
    shown = [snapshot for snapshot in pictures(parts, 52) if snapshot.regime and snapshot.regime.manner is AFTER]
    assert [regime.cls for regime in (shown[0].regime, shown[-1].regime) if regime] == [
        Class.COMPUTE_RUN,
        Class.COORDINATION,
    ]
    assert min(snapshot.begin for snapshot in shown) / SECOND > 20
    assert all(snapshot.summary.overlap.told == snapshot.summary.overlap.pushes for snapshot in shown)


def test_the_window_begins_where_the_leader_did() -> None:
    parts = stretch("early", 0, 10) + stretch("sequential", 10, 20, first=1000, delay_ms=500)
    last = pictures(parts, 20)[-1]
    assert last.regime is not None
    assert last.begin == last.regime.since
    assert last.summary.overlap.overlapped == 0


def test_what_waits_is_in_the_picture_and_ages_without_traffic() -> None:
    hung = [item for item in request("early", 1, 0) if item["t"] <= 60_000_000]
    shown = pictures([hung], 5)
    assert [snapshot.window.in_state(State.UNFINISHED).sum() for snapshot in shown[1:]] == [1] * 19
    assert (np.diff([snapshot.window.age.max() for snapshot in shown]) == SECOND // 4).all()


def test_a_batch_of_a_long_past_is_taken_in_strides() -> None:
    whole = events(stretch("early", 0, 30) + stretch("sequential", 30, 45, first=1000, delay_ms=500))
    collector = Collector(Script(whole, pace=46 * SECOND))
    regime = collector.step().regime
    assert regime is not None
    assert regime.since is not None
    assert abs(regime.since / SECOND - 30.6) < 2.5
    pieces = list(strides(whole, 46 * SECOND))
    assert sum(len(piece) for piece, _ in pieces) == len(whole)
    assert [now for _, now in pieces] == sorted(now for _, now in pieces)


def test_a_restart_forgets() -> None:
    script = Script(events(stretch("early", 0, 4)), restarts=[5 * SECOND])
    collector = Collector(script)
    shown = [collector.step() for _ in range(24)]
    assert len(shown[19].window) == 40
    assert (len(shown[-1].window), shown[-1].begun, shown[-1].tally.events) == (0, None, 0)


def test_what_is_left_out_is_left_out_of_everything() -> None:
    usual = stretch("early", 0, 8)
    warm = [request("sequential", 700 + n, 100 * n, delay_ms=900) for n in range(40)]
    last = pictures(usual + warm, 10, Settings(without="r07"))[-1]
    expected, whole = pictures(usual, 10)[-1], events(usual + warm)
    said = gather_summary(whole, without(split(whole), "r07")[0])
    for other in (expected.summary, said):
        assert last.summary.condition.states == other.condition.states
        assert [(band.percentile_ns, band.mean_ns) for band in last.summary.bands] == [
            (band.percentile_ns, band.mean_ns) for band in other.bands
        ]
        assert last.summary.overlap == other.overlap
    assert (last.regime, last.trend) == (expected.regime, expected.trend)
    assert pictures(usual + warm, 10)[-1].trend != expected.trend


def test_who_has_little_to_show_takes_little_of_a_core() -> None:
    """Reading and a rest of so long, as shares: 0.2 is a fifth of a core."""
    usual = 0.03
    taken = {rate: usual / rest_s(usual, rate, 0.22) for rate in (0, 1_000, 5_000, 20_000, 1e6)}
    assert list(taken.values()) == sorted(taken.values())
    assert taken[0] == taken[1_000] <= usual
    assert taken[20_000] <= usual / (0.53 - 4 * usual)


def test_a_picture_is_an_event_s_half_second_where_that_is_cheap_and_takes_no_more_than_its_share_where_not() -> None:
    assert rest_s(0.01, 1_000, 0.22) == pytest.approx(0.53 - 4 * 0.01)
    assert rest_s(0.1, 1_000, 0.22) == PATIENCE_S
    assert rest_s(0.5, 0, 0.22) == rest_s(0.5, 20_000, 0.22) == pytest.approx(0.5 / 0.22)
    assert rest_s(0.5, 0, 0.5) == PATIENCE_S
