"""Evenly, or on one engine, or on one pair: said only where it can be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.live.spread import Excess, Spread, gather_spread, median_of_others
from kvscope.model.events import Process
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.splits import Splits
from kvscope.model.stages import Class

from .fleet import events, request

MS = 1_000_000
LED = (Class.COORDINATION,)
ONE = split(events([request("sequential", 0, 0)]))
DISPATCH = STAGE_INDEX["dispatch"]


def window(prefill: np.ndarray, decode: np.ndarray, dispatch_ms: np.ndarray, restarted: bool = False) -> Splits:
    """Requests of engines p-0.. and d-0..; each spends its `dispatch_ms`, beside what the example spends."""
    sides = (("p", int(prefill.max()) + 1), ("d", int(decode.max()) + 1))
    engines = [Process(f"{side}-{n}", f"{side}-{n}-id") for side, count in sides for n in range(count)]
    if restarted:
        engines[1] = Process("p-0", "p-0-another")
    many = ONE.select(np.zeros(len(prefill), int))
    more = np.round(dispatch_ms * MS).astype(np.int64)
    exposed = many.exposed.copy()
    exposed[:, DISPATCH] += more
    return replace(
        many,
        engines=tuple(engines),
        prefill_engine=prefill.astype(np.int32),
        decode_engine=(decode + sides[0][1]).astype(np.int32),
        exposed=exposed,
        ttft=many.ttft + more,
    )


def traffic(requests: int, prefill: int, decode: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Engines taken at random, and a delay with a long tail."""
    dice = np.random.default_rng(seed)
    return dice.integers(0, prefill, requests), dice.integers(0, decode, requests), dice.gamma(1.5, 40, requests)


def spread(prefill: np.ndarray, decode: np.ndarray, dispatch_ms: np.ndarray) -> Spread:
    return gather_spread(window(prefill, decode, dispatch_ms), LED)


def named(found: Spread) -> list[tuple[str, str]]:
    return [(excess.kind, excess.name) for excess in found.excesses]


def test_noise_alone_names_nobody() -> None:
    found = [spread(*traffic(1500, 5, 20, seed)) for seed in range(100)]
    assert sum(bool(each.excesses) for each in found) <= 5  # two are expected
    assert all(each.sure for each in found)
    assert (found[0].prefill, found[0].decode, found[0].pairs) == (5, 20, 100)


def test_a_slow_decode_engine_is_named_and_not_its_pairs() -> None:
    prefill, decode, delay = traffic(1500, 5, 20)
    found = spread(prefill, decode, delay + 300 * (decode == 7))
    assert named(found) == [("decode", "d-7")]
    (excess,) = found.excesses
    assert excess.requests == (decode == 7).sum()
    assert 250 * MS < excess.mean_ns - excess.peers_ns < 350 * MS


def test_several_slow_engines_are_named_most_first() -> None:
    prefill, decode, delay = traffic(3000, 5, 20)
    slow = 400 * (decode == 3) + 200 * (decode == 11)
    assert named(spread(prefill, decode, delay + slow)) == [("decode", "d-3"), ("decode", "d-11")]


def test_a_slow_pair_is_named_though_its_engines_look_slow_as_well() -> None:
    prefill, decode, delay = traffic(1500, 3, 4)
    found = spread(prefill, decode, delay + 600 * ((prefill == 2) & (decode == 1)))
    assert named(found) == [("pair", "p-2 -> d-1")]
    assert found.excesses[0].requests == ((prefill == 2) & (decode == 1)).sum()


def test_a_slow_pair_among_many_is_found_though_no_engine_stands_out() -> None:
    prefill, decode, delay = traffic(6000, 10, 10)
    found = spread(prefill, decode, delay + 250 * ((prefill == 4) & (decode == 9)))
    assert named(found) == [("pair", "p-4 -> d-9")]


def test_an_engine_with_one_peer_cannot_be_told_from_its_pair() -> None:
    prefill, _, delay = traffic(800, 4, 4)
    assert named(spread(prefill, prefill, delay + 300 * (prefill == 2))) == [("pair", "p-2 -> d-2")]


def test_an_engine_is_named_where_the_other_side_has_only_one() -> None:
    prefill, decode, delay = traffic(800, 1, 6)
    assert named(spread(prefill, decode, delay + 300 * (decode == 2))) == [("decode", "d-2")]


def test_with_one_pair_there_is_nothing_to_compare() -> None:
    nobody = np.zeros(100, int)
    found = spread(nobody, nobody, np.arange(100))
    assert (found.pairs, found.excesses) == (1, ())


def test_of_few_requests_neither_is_said() -> None:
    found = spread(*traffic(30, 3, 6))
    assert (found.excesses, found.sure) == ((), False)


def test_an_excess_too_small_to_matter_is_not_named() -> None:
    prefill, decode, delay = traffic(20_000, 2, 5)
    found = spread(prefill, decode, delay + 15 * (decode == 2))
    assert (found.excesses, found.sure) == ((), True)


def test_only_what_leads_is_looked_at() -> None:
    prefill, decode, delay = traffic(1500, 5, 20)
    slow = window(prefill, decode, delay + 300 * (decode == 7))
    assert gather_spread(slow, (Class.COMPUTE_RUN,)).excesses == ()


def test_an_engine_started_anew_is_still_the_same() -> None:
    prefill, decode, delay = traffic(400, 3, 2)
    assert gather_spread(window(prefill, decode, delay, restarted=True), LED).prefill == 2


def test_of_no_requests_nothing_is_said() -> None:
    found = gather_spread(ONE.select(np.zeros(0, int)), LED)
    assert (found.pairs, found.excesses) == (0, ())


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=12))
def test_median_of_others(values: list[float]) -> None:
    numbers = np.array(values)
    expected = [np.median(np.delete(numbers, at)) for at in range(len(numbers))]
    assert np.allclose(median_of_others(numbers), expected)


def test_what_an_excess_cost_in_all() -> None:
    assert Excess("decode", "d", 10, 7.0, 4.0).total_ns == 30.0
