"""A real Prometheus beside real engines: it scrapes `kvscope serve` and the engines themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair
from tests.integration.live.conftest import until
from tests.integration.metrics.prometheus import Prometheus
from tests.lab.rig import with_env
from tests.lab.screens import printed, served

COUNTED = "sum(kvscope_ttft_seconds_count)"
"""Complete requests that were counted so far."""
NAMESPACE = "lab"
"""The engines' own, where they are told one: `pod_of` names their pods."""


def pod_of(engine: str) -> str:
    """As on Kubernetes, where a pod's name is not the engine's."""
    return f"{engine}-7d9c5"


PODS = {name: with_env(POD_NAME=pod_of(name), POD_NAMESPACE=NAMESPACE) for name in ("p0", "d0")}
"""Each engine of a pair in its pod."""


@contextmanager
def scraping(pair: Pair, *words: str, rules: tuple[str, ...] = (), pods: bool = False) -> Iterator[Prometheus]:
    """It has scraped both before anything is sent. words: of `kvscope serve`; pods: vLLM's targets name theirs"""
    with served(pair.run_dir, 0, *words) as address:
        jobs: dict[str, dict[str, Any]] = {
            "kvscope": {"static_configs": [{"targets": [address]}]},
            "vllm": {"static_configs": [_target(engine.name, engine.url, pods) for engine in pair.engines]},
        }
        with Prometheus(*rules, **jobs) as made:
            for job in jobs:
                made.until_scraped(job)
            yield made


def _target(name: str, url: str, pods: bool) -> dict[str, Any]:
    pod = {"pod": pod_of(name), "namespace": NAMESPACE} if pods else {}
    return {"targets": [url.removeprefix("http://")], "labels": {"engine_name": name, **pod}}


def load_counted(prometheus: Prometheus, pair: Pair, router: RouterProcess, load: LoadOptions) -> int:
    """Send a load, wait until all of it is counted and was scraped so; how many requests that were."""
    before = prometheus.number(COUNTED)
    records = pair.load(load, router.url)
    assert [record.error for record in records if not record.ok] == []
    until(lambda: prometheus.number(COUNTED) - before >= len(records), f"of {len(records)} not all were counted")
    prometheus.until_scraped("kvscope", anew=3)
    return len(records)


def reported(pair: Pair) -> list[dict[str, Any]]:
    """All requests so far, as `kvscope report` has them."""
    return list(json.loads(printed("report", "--run-dir", str(pair.run_dir), "--json"))["requests"])
