"""From rounds of histograms to what may be said of the cost."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.analysis.overhead import Cost, costs, document
from kvscope.sources.alternation import RoundSeen, gained, orders
from kvscope.sources.vllm_metrics import Histogram

URLS = ("http://p/metrics", "http://d/metrics")


def seen(ttft: float, tpot: float = 0.0, count: int = 20) -> dict[str, Histogram]:
    return {"ttft": Histogram(count, ttft * count), "tpot": Histogram(count, tpot * count)}


def rounds(slower: float, noise: float = 0.01, number: int = 20) -> list[RoundSeen]:
    """A prefill engine, which counts no output tokens, and a decode engine."""
    rng = np.random.default_rng(5)
    level, on, off = rng.lognormal(0, 0.2, number), rng.lognormal(0, noise, number), rng.lognormal(0, noise, number)
    return [
        RoundSeen(
            (seen(0.2 * level[i] * on[i] * slower), seen(0.3 * level[i] * on[i] * slower, 0.01 * on[i] * slower)),
            (seen(0.2 * level[i] * off[i]), seen(0.3 * level[i] * off[i], 0.01 * off[i])),
        )
        for i in range(number)
    ]


def by_quantity(found: list[Cost]) -> dict[tuple[str, str], Cost]:
    return {(cost.url, cost.quantity): cost for cost in found}


def test_each_engine_has_what_it_measured() -> None:
    found = by_quantity(costs(URLS, rounds(1.0)))
    assert set(found) == {(URLS[0], "ttft"), (URLS[1], "ttft"), (URLS[1], "tpot")}
    assert found[URLS[1], "tpot"].on.count == 400


def test_a_cost_is_found_and_named() -> None:
    found = by_quantity(costs(URLS, rounds(1.1)))[URLS[1], "ttft"]
    assert found.ratio is not None
    assert found.ratio.low <= 1.1 <= found.ratio.high
    assert found.same is not None
    assert found.same.low <= 1 <= found.same.high
    assert found.sentence.startswith("slower with recording on, by ")


def test_none_is_told_with_what_could_have_been_seen() -> None:
    found = by_quantity(costs(URLS, rounds(1.0)))[URLS[1], "tpot"]
    assert found.ratio is not None
    assert 0 < found.ratio.smallest_effect < 0.03
    assert f"{found.ratio.smallest_effect:.1%}" in found.sentence


def test_drift_that_both_blocks_of_a_round_share_costs_nothing() -> None:
    drifting = [RoundSeen((seen(0.2 * 1.2**number),), (seen(0.2 * 1.2**number),)) for number in range(20)]
    ratio = costs(URLS[:1], drifting)[0].ratio
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx((1, 1))


def test_an_uneven_run_is_not_believed() -> None:
    levels = [0.2, 0.25, 0.25, 0.2] * 5
    uneven = [RoundSeen((seen(level * 1.5),), (seen(level),)) for level in levels]
    assert costs(URLS[:1], uneven)[0].sentence.startswith("the run was uneven")


def test_blocks_without_requests_are_left_out_and_counted() -> None:
    some = [*rounds(1.0, number=5), RoundSeen((seen(0.2), seen(0.3)), (seen(0.2, count=0), seen(0.3, count=0)))]
    assert by_quantity(costs(URLS, some))[URLS[0], "ttft"].left_out == 1


def test_too_few_rounds_give_no_ratio() -> None:
    found = costs(URLS, rounds(1.0, number=3))[0]
    assert found.ratio is None
    assert "too few rounds" in found.sentence


def test_the_document_says_it_all() -> None:
    told = document(costs(URLS, rounds(1.0)), 20, 30.0)
    assert told["version"] == 1
    entry = told["costs"][0]
    assert entry["histogram"] == "vllm:time_to_first_token_seconds"
    assert entry["on_over_off"]["low"] < entry["on_over_off"]["ratio"] < entry["on_over_off"]["high"]
    assert "p99" not in entry["on"]  # these histograms have no buckets


def test_an_engine_that_started_anew_gives_nothing() -> None:
    before, after = {"ttft": Histogram(100, 20.0)}, {"ttft": Histogram(3, 1.0)}
    assert gained(before, after) == {"ttft": Histogram()}
    assert gained({}, after) == after


@pytest.mark.parametrize("seed", range(5))
def test_half_of_the_rounds_begin_with_each_condition(seed: int) -> None:
    assert sum(orders(20, seed)) == 10
    assert orders(20, seed) == orders(20, seed)
