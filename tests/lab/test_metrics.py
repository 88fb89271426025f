"""A real Prometheus scrapes `kvscope serve` and the engines themselves under a real load: they agree, and they join."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain
from tests.integration.metrics.prometheus import Prometheus, needs_prometheus
from tests.lab.scraping import COUNTED, load_counted, reported, scraping
from tests.lab.screens import printed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), needs_prometheus]

LOAD = LoadOptions(requests=40, rate=3, input_tokens=((300, 1.0), (700, 1.0)), output_tokens=8, warm_up=2)
THEIRS = 'sum(vllm:time_to_first_token_seconds_count{engine_name="d0"})'


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A push pair."""
    with Pair(PairOptions(connector="push"), tmp_path_factory.mktemp("metrics"), Plain()) as made:
        yield made


@pytest.fixture(scope="module")
def router(pair: Pair) -> RouterProcess:
    """In front of it."""
    return pair.router("early")


@pytest.fixture(scope="module")
def prometheus(pair: Pair, router: RouterProcess) -> Iterator[Prometheus]:
    """It has scraped before the load, meanwhile, and after everything was counted."""
    with scraping(pair) as made:
        load_counted(made, pair, router, LOAD)
        yield made


def test_counts_are_those_of_the_report_and_of_vllm(pair: Pair, prometheus: Prometheus) -> None:
    requests = reported(pair)
    timed = [request for request in requests if request["ttft_ns"] is not None]
    assert prometheus.number(COUNTED) == len(timed) == prometheus.number(THEIRS)
    whole = sum(request["ttft_ns"] for request in timed) / 1e9
    assert prometheus.number("sum(kvscope_ttft_seconds_sum)") == pytest.approx(whole, abs=1e-9)
    found = prometheus.vector("sum by (shape, state) (kvscope_requests_total) > 0")
    counted = {(labels["shape"], labels["state"]): value for labels, value in found}
    assert counted == Counter((request["shape"], request["state"]) for request in requests)
    moved = sum(request["transfer_bytes"] or 0 for request in requests)
    assert prometheus.number("sum(kvscope_pair_transfer_bytes_total)") == moved > 0
    lost = prometheus.number("sum(kvscope_engine_events_lost_total)")
    cpu = {labels["part"]: value for labels, value in prometheus.vector("kvscope_reader_cpu_seconds_total")}
    print(f"\n{len(timed)} requests, {lost:.0f} events lost, CPU {cpu}")


def test_series_join_those_of_vllm_by_its_own_labels(prometheus: Prometheus) -> None:
    joined = prometheus.vector(
        "vllm:num_requests_running * on (model_name, engine, engine_name) kvscope_engine_recording"
    )
    assert {labels["engine_name"] for labels, _ in joined} == {"p0", "d0"}
    assert [value for _, value in joined] == [0, 0]
    cached = prometheus.vector(
        "vllm:kv_cache_usage_perc * on (model_name, engine, engine_name) group_left (role, vllm) kvscope_engine_info"
    )
    assert {(labels["engine_name"], labels["role"]) for labels, _ in cached} == {
        ("p0", "kv_producer"),
        ("d0", "kv_consumer"),
    }


def test_nothing_is_in_flight_or_held_once_all_is_over(prometheus: Prometheus) -> None:
    for gauge in (
        "requests_in_flight",
        "engine_reserved_idle_blocks",
        "engine_requests",
        "engine_writer_backlog_requests",
    ):
        assert prometheus.number(f"sum(kvscope_{gauge})") == 0, gauge
    seen = prometheus.number("max(max_over_time(kvscope_requests_in_flight[1h]))")
    assert seen > 0, "while they were under way, some were in flight"


def test_an_exemplar_leads_to_the_request(pair: Pair, prometheus: Prometheus) -> None:
    exemplar = prometheus.exemplars("kvscope_ttft_seconds_bucket")[-1]
    text = printed("request", exemplar["labels"]["request"], "--run-dir", str(pair.run_dir), "--json")
    (request,) = json.loads(text)["requests"]
    assert request["ttft_ns"] / 1e9 == pytest.approx(float(exemplar["value"]), abs=1e-9)
