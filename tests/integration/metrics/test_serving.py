"""A real Prometheus scrapes a real `kvscope serve` that reads the rings of processes that write meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..live.conftest import Serve, until
from ..live.test_access import TOKEN, guarded, needs_openssl
from ..sources.conftest import ROOT, Start
from .prometheus import Prometheus, needs_prometheus

WRITERS = ROOT / "benchmarks" / "writing_engines.py"
COUNTED = ("ttft_seconds_count", "ttft_seconds_sum", "slow_requests_total")
LIMIT_MS = 137
"""About what the writers' requests take: some are slower."""
COUNT = 'sum(kvscope_requests_total{shape="push",state="complete"})'


def writing(run_dir: Path, rate: int, seconds: float) -> subprocess.Popen[str]:
    """Two processes that record what a prefill and a decode engine do."""
    words = [sys.executable, str(WRITERS), str(run_dir), "--rate", str(rate), "--seconds", str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, text=True)


@pytest.mark.slow
@needs_prometheus
def test_counts_of_live_engines_are_exact_by_raw_differences(run_dir: Path, serve: Serve) -> None:
    server = serve("--slo", f"ttft={LIMIT_MS}ms")
    with Prometheus(kvscope={"static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}) as prometheus:
        prometheus.until_scraped()
        before = {name: prometheus.values(f"kvscope_{name}") for name in COUNTED}
        with writing(run_dir, 600, 4) as writers:
            assert writers.wait(timeout=60) == 0
        words = [sys.executable, "-m", "kvscope", "report", "--run-dir", str(run_dir), "--json"]
        report = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        timed = [request for request in report["requests"] if request["ttft_ns"] is not None]
        until(
            lambda: prometheus.number(COUNT) >= len(timed), f"{prometheus.number(COUNT)} of {len(timed)} were counted"
        )
        prometheus.until_scraped()
        assert len(timed) == len(report["requests"]) > 50
        after = {name: prometheus.values(f"kvscope_{name}") for name in COUNTED}
        grown = {name: sum(after[name].values()) - sum(before[name].values()) for name in COUNTED}
        assert grown["ttft_seconds_count"] == len(timed)
        assert abs(grown["ttft_seconds_sum"] - sum(request["ttft_ns"] for request in timed) / 1e9) < 1e-9
        assert grown["slow_requests_total"] == sum(request["ttft_ns"] > LIMIT_MS * 1e6 for request in timed)
        assert prometheus.number("sum(kvscope_engine_events_lost_total)") == 0
        assert all(values == sorted(values) for values in prometheus.samples('{__name__=~"kvscope_.+_total"}').values())


@pytest.mark.slow
@needs_prometheus
def test_after_a_restart_what_is_still_in_the_rings_does_not_count_again(run_dir: Path, serve: Serve) -> None:
    with writing(run_dir, 600, 1) as writers:
        assert writers.wait(timeout=60) == 0
    server = serve()
    with Prometheus(kvscope={"static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}) as prometheus:
        prometheus.until_scraped(anew=4)  # the rings have been read and what they hold has settled
        assert prometheus.number("kvscope_reader_events_total") == 0
        assert prometheus.number("sum(kvscope_requests_total)") == 0


@pytest.mark.slow
@needs_prometheus
@needs_openssl
def test_prometheus_gets_in_with_certificate_and_token_and_not_without(start: Start, serve: Serve, files: Path) -> None:
    start("p0").tell("write 10")
    server = serve("--host", "0.0.0.0", *guarded(files, "--token-file", str(files / "token")))
    target = {"static_configs": [{"targets": [f"localhost:{server.port}"]}], "scheme": "https"}
    tls = {"tls_config": {"ca_file": str(files / "cert.pem")}}
    right = {**target, **tls, "authorization": {"credentials": TOKEN}}
    with Prometheus(kvscope=right, nobody={**target, **tls}) as prometheus:
        prometheus.until_scraped()
        assert prometheus.number("kvscope_rings_readable") == 1
        assert prometheus.number('up{job="nobody"}') == 0


@pytest.mark.slow
@needs_prometheus
def test_readiness_and_a_gauge_tell_of_rings_that_cannot_be_read(run_dir: Path, start: Start, serve: Serve) -> None:
    start("p0").tell("write 10")
    server = serve()
    with Prometheus(kvscope={"static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}) as prometheus:
        prometheus.until_scraped()
        run_dir.rename(run_dir.with_name("away"))
        run_dir.write_text("in its place")
        try:
            until(lambda: prometheus.number("kvscope_rings_readable") == 0, "it still says that it can read")
        finally:
            run_dir.unlink()
            run_dir.with_name("away").rename(run_dir)
        until(lambda: prometheus.number("kvscope_rings_readable") == 1, "it does not read again")
