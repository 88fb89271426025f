"""Histograms as vLLM prints them, read back."""

from __future__ import annotations

import math

import pytest

from kvscope.model.errors import InputError
from kvscope.sources.vllm_metrics import Histogram, metrics_url, parsed

PAGE = """\
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="a \\"q{u}ote\\", b"} 3.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.25",model_name="a \\"q{u}ote\\", b"} 9.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="a \\"q{u}ote\\", b"} 10.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="a \\"q{u}ote\\", b"} 10.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="a \\"q{u}ote\\", b"} 1.75
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.1",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.25",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf",model_name="m"} 2.0
vllm:time_to_first_token_seconds_count{engine="1",model_name="m"} 2.0 1727000000000
vllm:time_to_first_token_seconds_sum{engine="1",model_name="m"} 5.25e-1
vllm:time_to_first_token_seconds_created{engine="0",model_name="m"} 1.7e+09
vllm:request_time_per_output_token_seconds_count 4
vllm:request_time_per_output_token_seconds_sum 0.04
vllm:num_requests_running{engine="0",model_name="m"} 3.0
process_start_time_seconds 1.7e+09
"""


def test_engines_on_one_page_are_added_up() -> None:
    page = parsed(PAGE)
    assert page["ttft"] == Histogram(12, 1.75 + 5.25e-1, ((0.1, 4.0), (0.25, 10.0), (math.inf, 12.0)))
    assert page["tpot"] == Histogram(4, 0.04)
    assert set(page) == {"ttft", "tpot"}


def test_what_came_in_between_is_a_histogram() -> None:
    later = PAGE.replace('_count{engine="1",model_name="m"} 2.0', '_count{engine="1",model_name="m"} 5.0').replace(
        "5.25e-1", "8.25e-1"
    )
    gained = parsed(later)["ttft"] - parsed(PAGE)["ttft"]
    assert gained.count == 3
    assert gained.mean == pytest.approx(0.1)


def test_a_quantile_lies_within_its_bucket() -> None:
    seen = Histogram(10, 2.0, ((0.1, 5.0), (0.2, 9.0), (math.inf, 10.0)))
    assert seen.quantile(0.5) == pytest.approx(0.1)
    assert seen.quantile(0.7) == pytest.approx(0.15)
    assert seen.quantile(0.99) == 0.2
    assert math.isnan(Histogram().quantile(0.5))


def test_a_page_of_something_else_has_none() -> None:
    assert parsed("<html>vllm: hello</html>\nhttp_requests_total 4\n") == {}


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ("count many", "could not convert string to float: 'many'"),
        ("count NaN", "'NaN' is no figure"),
        ("sum +Inf", "seconds_sum is inf"),
        ('bucket{le="x"} 4', "could not convert string to float: 'x'"),
        ('bucket{le="NaN"} 4', "'NaN' is no figure"),
    ],
)
def test_what_is_no_figure_is_no_page(sample: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parsed(f"{PAGE}vllm:time_to_first_token_seconds_{sample}\n")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/metrics"),
        ("http://engine:8000/", "http://engine:8000/metrics"),
        ("https://engine/vllm/metrics", "https://engine/vllm/metrics"),
    ],
)
def test_an_address_may_be_short(given: str, meant: str) -> None:
    assert metrics_url(given) == meant


@pytest.mark.parametrize("given", ["", "file:///etc/passwd", "http://", "http://[::1"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="not the address of a metrics page"):
        metrics_url(given)
