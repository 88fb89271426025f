"""Every query that docs/metrics.md shows, on series of which the answer is known: promtool computes it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvscope.metrics.catalogue import METRICS, Kind

from ..sources.conftest import ROOT
from .prometheus import needs_prometheus

PAGE = (ROOT / "docs" / "metrics.md").read_text()
QUERIES = [query.strip() for query in re.findall(r"```promql\n(.*?)```", PAGE, re.S)]

DECODE = 'model_name="m",engine="0",engine_name="d0"'
POD = 'namespace="serving",pod="d-7f",model_name="m",engine="0"'
OTHER_POD = 'namespace="serving",pod="p-1c",model_name="m",engine="0"'
SERIES: dict[str, str] = {
    # five minutes of a sample a minute; what grows by 60 a minute grows by 1 a second
    'kvscope_ttft_seconds_count{model_name="m",connector="c",prompt_tokens="0-511"}': "0+60x10",
    'kvscope_ttft_seconds_count{model_name="m",connector="c",prompt_tokens="512-2047"}': "0+60x10",
    'kvscope_ttft_seconds_sum{model_name="m",connector="c",prompt_tokens="0-511"}': "0+60x10",
    'kvscope_class_seconds_sum{class="coordination",exposure="exposed",prompt_tokens="0-511"}': "0+12x10",
    'kvscope_class_seconds_sum{class="coordination",exposure="exposed",prompt_tokens="512-2047"}': "0+12x10",
    'kvscope_class_seconds_sum{class="coordination",exposure="hidden",prompt_tokens="0-511"}': "0+600x10",
    'kvscope_class_seconds_sum{class="compute_run",exposure="exposed",prompt_tokens="0-511"}': "0+30x10",
    'kvscope_stage_seconds_sum{stage="notice",class="coordination",exposure="exposed"}': "0+6x10",
    'kvscope_stage_seconds_sum{stage="notice",class="coordination",exposure="hidden"}': "0+60x10",
    'kvscope_stage_seconds_sum{stage="submit",class="undetermined",exposure="exposed"}': "0+3x10",
    'kvscope_stage_seconds_sum{stage="poll_gap",class="undetermined",exposure="exposed"}': "0+3x10",
    f"kvscope_engine_reserved_idle_block_seconds_total{{{DECODE}}}": "0+600x10",
    f"kvscope_engine_kv_blocks{{{DECODE}}}": "100x10",
    f'kvscope_engine_info{{{POD},engine_name="d0",role="kv_consumer",vllm="0.32.0"}}': "1x10",
    f'kvscope_engine_info{{{OTHER_POD},engine_name="p0",role="kv_producer",vllm="0.32.0"}}': "1x10",
    f'kvscope_engine_requests{{{DECODE},state="waiting"}}': "3x10",
    f'kvscope_engine_requests{{{DECODE},state="running"}}': "30x10",
    f'vllm:kv_cache_usage_perc{{{POD},instance="a:8000",job="vllm"}}': "0.25x10",
    f'vllm:kv_cache_usage_perc{{{OTHER_POD},instance="b:8000",job="vllm"}}': "0.75x10",
    f'vllm:num_requests_waiting{{{DECODE},instance="a:8000",job="vllm"}}': "5x10",
    f'vllm:time_to_first_token_seconds_count{{{POD},instance="a:8000",job="vllm"}}': "0+150x10",
    f'vllm:time_to_first_token_seconds_count{{{OTHER_POD},instance="b:8000",job="vllm"}}': "0+999x10",
}
ANSWERS: list[dict[str, float]] = [
    {'{class="coordination"}': 0.2, '{class="compute_run"}': 0.25},
    {"{}": 0.1},
    {"{}": 0.2},
    {f"{{{DECODE}}}": 0.1},
    {f'{{{POD},instance="a:8000",job="vllm",engine_name="d0",role="kv_consumer"}}': 0.25},
    {f"{{{DECODE}}}": 2},
    {'{model_name="m"}': 0.8},
]
"""Of each query of the page, in order: labels -> value, after ten minutes."""


@needs_prometheus
@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_a_query_of_the_document_gives_what_it_says(number: int, tmp_path: Path) -> None:
    expected = [{"labels": labels, "value": value} for labels, value in ANSWERS[number].items()]
    query = {"expr": QUERIES[number], "eval_time": "10m", "exp_samples": expected}
    series = [{"series": name, "values": values} for name, values in SERIES.items()]
    test: dict[str, Any] = {"interval": "1m", "input_series": series, "promql_expr_test": [query]}
    (tmp_path / "test.yml").write_text(json.dumps({"tests": [test]}))
    ran = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_there_is_an_answer_to_each_query() -> None:
    assert len(QUERIES) == len(ANSWERS)


def test_queries_ask_for_metrics_and_labels_that_there_are() -> None:
    suffixes = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
    labels = {f"{metric.name}{suffix}": set(metric.labels) for metric in METRICS
              for suffix in suffixes.get(metric.kind, ("",))}  # fmt: skip
    labels["kvscope_engine_info"] |= {"role", "namespace", "pod"}
    for query in QUERIES:
        for name, chosen in re.findall(r"\b(kvscope_[a-z_]+)(?:\{([^}]*)\})?", query):
            assert set(re.findall(r"([a-z_]+)=", chosen)) <= labels[name], query
