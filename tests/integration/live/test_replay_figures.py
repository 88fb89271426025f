"""What a view of a replay says is what a report of the same recording says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.analysis.summary import gather_summary
from kvscope.core.critical_path import split
from kvscope.live.collector import Collector, Settings
from kvscope.live.feed import Flow
from kvscope.sources import open_sources

from .conftest import Play
from .scenes import SECOND

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
EARLY = PICTURES / "push-early.kvs"


def test_what_a_view_computes_is_what_a_report_says(play: Play) -> None:
    said = split(open_sources([EARLY]).events)
    report = dict(zip(said.request.tolist(), said.ttft.tolist(), strict=True))
    player = play(EARLY)
    collector = Collector(player.replay, Settings(window_ns=3600 * SECOND))
    snapshot = collector.step()
    while snapshot.flow is not Flow.ENDED:
        player.wall += 0.25
        snapshot = collector.step()
    window = snapshot.window.select(snapshot.window.timed)
    assert len(window) > 5
    assert all(report[key] == ttft for key, ttft in zip(window.request.tolist(), window.ttft.tolist(), strict=True))
    assert snapshot.tally.lost == said.tally.lost


@pytest.mark.parametrize("name", ["push-early", "push-sequential", "pull"])
def test_at_its_end_a_view_has_the_very_figures_of_a_report(play: Play, name: str) -> None:
    events = open_sources([PICTURES / f"{name}.kvs"]).events
    player = play(PICTURES / f"{name}.kvs")
    player.replay.seek(3600)
    shown = Collector(player.replay, Settings(window_ns=3600 * SECOND)).step()
    said = gather_summary(events, split(events))
    assert shown.now == events.rows["t"].max()
    assert shown.summary.condition == said.condition
    assert (shown.summary.price, shown.summary.running) == (said.price, said.running)
    assert shown.summary.overlap == said.overlap


def test_what_is_open_at_the_end_gets_no_older_by_waiting(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "cut.kvs"
    whole = EARLY.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    events = open_sources([path]).events
    said = gather_summary(events, split(events)).condition
    player = play(path)
    player.replay.seek(3600)
    collector = Collector(player.replay, Settings(window_ns=3600 * SECOND))
    for _ in range(3):
        shown = collector.step().summary.condition
        assert (shown.waiting.count, shown.waiting.oldest_ns) == (said.waiting.count, said.waiting.oldest_ns)
        player.wall += 60
