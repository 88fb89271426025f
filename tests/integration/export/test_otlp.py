"""Spans of real recordings arrive through a real collector, and each request's tree is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.core.critical_path import split
from kvscope.sources.opening import open_all

from .checking import check_tree, root_of, traces
from .collector import Collector

CLOCK_NS = 1_000_000
"""How far apart readings of the time of day may lie: these hosts' clocks were not set while they recorded."""
RECORDINGS = ("push-early", "pull", "push-sequential")


def recording(name: str) -> Path:
    return Path("docs/pictures") / f"{name}.kvs"


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_request_of_a_real_recording_arrives_as_a_tree(
    name: str, collector: Collector, through_rotel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events = open_all([recording(name)], None).events
    (wall,) = {process.wall_ns // CLOCK_NS * CLOCK_NS for process in events.processes if process.wall_ns}
    requests = {request.request: request for request in split(events)}
    assert main(["export", str(recording(name)), "--otlp", through_rotel]) == 0
    said = capsys.readouterr().err
    spans = int(said.split(" spans")[0].replace(",", ""))
    assert f"of {len(requests)} requests sent to {through_rotel}/v1/traces" in said
    collector.wait(spans)
    found = traces(collector.spans)
    assert len(found) == len(requests) > 50
    assert {check_tree(trace, requests) for trace in found.values()} == set(requests)
    assert sum(map(len, found.values())) == spans
    for trace in found.values():
        root = root_of(trace)
        request = requests[str(root.attributes["kvscope.request"])]
        told = root.span.start_time_unix_nano - (request.origin or 0)
        assert abs(told - wall) < CLOCK_NS


def test_an_export_says_the_same_each_time(collector: Collector) -> None:
    for _ in range(2):
        assert main(["export", str(recording("pull")), "--otlp", collector.url]) == 0
    half = len(collector.spans) // 2
    first, second = (
        [each.span.SerializeToString() for each in part] for part in (collector.spans[:half], collector.spans[half:])
    )
    assert sorted(first) == sorted(second)


def test_a_stretch_is_exported_alone(collector: Collector) -> None:
    events = open_all([recording("pull")], None).events
    origins = sorted(request.origin or 0 for request in split(events))
    first = int(events.rows["t"][events.rows["t"] > 0].min())
    begin, end = ((origins[at] - first) / 1e9 for at in (20, 40))
    words = ["export", str(recording("pull")), "--from", f"{begin}s", "--to", f"{end}s", "--otlp", collector.url]
    assert main(words) == 0
    roots = [each for each in collector.spans if not each.span.parent_span_id]
    assert 20 <= len(roots) < 30  # and those that were under way when the stretch began
    cut = [root for root in roots if root.attributes["kvscope.state"] != "complete"]
    assert cut
    for root in cut:
        assert "kvscope.ttft_ns" not in root.attributes
        assert root.attributes.get("kvscope.missing") or root.attributes["kvscope.state"] == "unfinished"
