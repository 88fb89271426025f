"""What a real Prometheus has scraped, held to what `kvscope report` says of the same requests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvscope.core.stream import SECOND
from kvscope.live.feed import Batch
from kvscope.live.serving import Server
from kvscope.metrics.buckets import FINE
from kvscope.metrics.exposition import Exporter, Page
from kvscope.metrics.reading import Reading
from kvscope.model.events import Events
from kvscope.sources.opening import open_all

from ..sources.conftest import ROOT
from .prometheus import Prometheus, needs_prometheus

PICTURES = ROOT / "docs" / "pictures"
RECORDINGS = ("pull", "push-early", "push-sequential")
WALL_NS = 1_790_000_000 * SECOND


def batches(events: Events) -> Iterator[Batch]:
    """The recording, half a second at a time, and a minute more."""
    t, processes = events.rows["t"], events.processes
    begin, end = int(t.min()), int(t.max()) + 70 * SECOND
    for at in range(begin, end, SECOND // 2):
        rows = events.rows[(t >= at) & (t < at + SECOND // 2)]
        yield Batch(Events(rows, processes, events.texts), at + SECOND // 2, WALL_NS - begin)


class Played:
    """Metrics of a recording that was played to its end."""

    fault = ""

    def __init__(self, path: Path, prefix: str = "") -> None:
        """prefix: put before the id of each request"""
        found = open_all([path], None).events
        ids = {key: f"{prefix}{text}" if "cmpl" in text else text for key, text in found.texts.items()}
        parts = list(batches(Events(found.rows, found.processes, ids)))
        reading = Reading(iter(parts).__next__)
        for _ in parts:
            reading.step()
        self._exporter = Exporter(reading.told)

    def page(self, accept: str, accept_encoding: str) -> Page:
        return self._exporter.page(accept, accept_encoding)


@contextmanager
def scraped(metrics: Played, run_dir: Path) -> Iterator[Prometheus]:
    """A Prometheus that has scraped them."""
    with Server(run_dir, "127.0.0.1", 0, metrics=metrics) as server:
        target = f"127.0.0.1:{server.server_address[1]}"
        with Prometheus(kvscope={"static_configs": [{"targets": [target]}]}) as prometheus:
            prometheus.until_scraped()
            yield prometheus


def reported(path: Path) -> dict[str, Any]:
    """What `kvscope report --json` says."""
    words = [sys.executable, "-m", "kvscope", "report", str(path), "--json"]
    return dict(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout))


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize("name", RECORDINGS)
def test_prometheus_and_the_report_agree(name: str, run_dir: Path) -> None:
    path = PICTURES / f"{name}.kvs"
    with scraped(Played(path), run_dir) as prometheus:
        report = reported(path)
        timed = [request for request in report["requests"] if request["ttft_ns"] is not None]
        _counts(prometheus, report["requests"])
        _stages(prometheus, timed)
        _quantiles(prometheus, sorted(request["ttft_ns"] for request in timed))
        _prices(prometheus, report["summary"]["price"])
        _exemplars(prometheus, {request["request"] for request in timed})


def _counts(prometheus: Prometheus, requests: list[dict[str, Any]]) -> None:
    """Exact."""
    found = {(labels["shape"], labels["state"]): value
             for labels, value in prometheus.vector("sum by (shape, state) (kvscope_requests_total) > 0")}  # fmt: skip
    assert found == Counter((request["shape"], request["state"]) for request in requests)
    moved = sum(request["transfer_bytes"] or 0 for request in requests)
    assert prometheus.number("sum(kvscope_pair_transfer_bytes_total)") == moved
    assert prometheus.number('sum(kvscope_engine_transfer_bytes_total{leg="decode"})') == moved > 0


def _stages(prometheus: Prometheus, timed: list[dict[str, Any]]) -> None:
    """To the nanosecond, by stage and exposure; and all that is exposed makes up TTFT."""
    for exposure in ("exposed", "hidden"):
        told: Counter[str] = Counter()
        for request in timed:
            told.update(request[exposure])
        sums = prometheus.vector(f'sum by (stage) (kvscope_stage_seconds_sum{{exposure="{exposure}"}})')
        assert {labels["stage"]: value for labels, value in sums} == pytest.approx(
            {stage: ns / 1e9 for stage, ns in told.items()}, abs=1e-9
        )
    whole = sum(request["ttft_ns"] for request in timed) / 1e9
    assert prometheus.number("sum(kvscope_ttft_seconds_sum)") == pytest.approx(whole, abs=1e-9)
    assert prometheus.number('sum(kvscope_class_seconds_sum{exposure="exposed"})') == pytest.approx(whole, abs=1e-9)


def _quantiles(prometheus: Prometheus, ttft: list[int]) -> None:
    """In the bucket of the value that the report has."""
    for quantile in (0.5, 0.95):
        found = prometheus.number(f"histogram_quantile({quantile}, sum by (le) (kvscope_ttft_seconds_bucket))")
        exact = ttft[max(0, -(-round(quantile * 1e6) * len(ttft) // 10**6) - 1)]
        bounds = (0, *FINE.ns)
        low, high = next((a, b) for a, b in zip(bounds, FINE.ns, strict=False) if a < exact <= b)
        assert low / 1e9 <= found <= high / 1e9


def _prices(prometheus: Prometheus, price: dict[str, Any]) -> None:
    for side, name in (("reserved", "reserved_idle"), ("pinned", "pinned")):
        held = prometheus.number(f"sum(kvscope_engine_{name}_block_seconds_total)")
        assert held == pytest.approx(price[side]["block_s"])
    shares = {step["engine"]: (step["steps"], step["share"]) for step in price["connector"]}
    for engine, (steps, share) in shares.items():
        mine = f'{{engine_name="{engine}"}}'
        assert prometheus.number(f"kvscope_engine_steps_total{mine}") == steps
        spent = f"kvscope_engine_step_connector_seconds_total{mine} / kvscope_engine_step_seconds_total{mine}"
        assert prometheus.number(spent) == pytest.approx(share)
    posts = {post["thread"]: (post["requests"], post["mean_ns"]) for post in price["posting"]}
    for thread, (requests, mean) in posts.items():
        mine = f'{{thread="{thread}"}}'
        assert prometheus.number(f"sum(kvscope_post_seconds_count{mine})") == requests
        assert prometheus.number(f"sum(kvscope_post_seconds_sum{mine})") == pytest.approx(requests * mean / 1e9)


def _exemplars(prometheus: Prometheus, requests: set[str]) -> None:
    """They name requests of the report, and the bucket's own values."""
    found = prometheus.exemplars("kvscope_ttft_seconds_bucket")
    assert found
    assert {exemplar["labels"]["request"] for exemplar in found} <= requests


@needs_prometheus
def test_strange_ids_get_through_to_prometheus(run_dir: Path) -> None:
    strange = 'quote " backslash \\ brace } hash # line\nescape \x1b[31m é '
    with scraped(Played(PICTURES / "pull.kvs", strange), run_dir) as prometheus:
        found = prometheus.exemplars("kvscope_ttft_seconds_bucket")
        assert found
        for exemplar in found:
            assert exemplar["labels"]["request"].startswith("quote ? backslash ? brace } hash # line?escape ?[31m é ")


@needs_prometheus
def test_promtool_finds_nothing_to_say(run_dir: Path) -> None:
    for name in RECORDINGS:
        page = Played(PICTURES / f"{name}.kvs").page("", "").body
        said = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
        assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")
