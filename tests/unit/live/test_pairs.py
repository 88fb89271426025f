"""Figures of pairs are those of their requests, and rows, columns and all are made of requests, not of cells."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.analysis.bands import percentile_of
from kvscope.live.pairs import MEASURE, MEASURES, gather_pairs, worst_pairs
from kvscope.live.snapshot import Snapshot
from kvscope.model.stages import Class

from ..core.scene import D_LEG, MS, moment, moments
from .fleet import request
from .picture import Items, picture

PREFILLS, DECODES = ("p0", "p1"), ("d0", "d9", "d10")


def named(items: Items, prefill: str, decode: str) -> Items:
    """The request on other engines."""
    return [{**item, "engine": {"p0": prefill, "d0": decode}[item["engine"]]} for item in items]


def fleet() -> Snapshot:
    """Every pair but one: the slower, the further down and to the right; the last pair moves bytes."""
    items: Items = []
    for number in range(120):
        row, column = number % 2, number // 2 % 3
        if (row, column) == (1, 0):
            continue
        delay = 10.0 * (row + 1) * (column + 1) + number // 6
        items += named(request("sequential", number, 20.0 * number, delay), PREFILLS[row], DECODES[column])
    for item in items:
        if item["moment"] == "done_seen":
            item["bytes"] = 1_000_000 if item["engine"] == "p0" else 4_000_000
    return picture(items, 4)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return fleet()


def of_pair(snapshot: Snapshot, prefill: str, decode: str) -> np.ndarray:
    names = [engine.engine for engine in snapshot.window.engines]
    window = snapshot.window
    there = (window.prefill_engine == names.index(prefill)) & (window.decode_engine == names.index(decode))
    return np.asarray(there)


def test_each_cell_is_the_figure_of_its_requests(snapshot: Snapshot) -> None:
    window = snapshot.window
    found = {name: gather_pairs(window, measure) for name, measure in MEASURE.items()}
    assert all(pairs.prefills == PREFILLS and pairs.decodes == DECODES for pairs in found.values())
    low, _ = window.class_bounds(Class.COORDINATION)
    for row, prefill in enumerate(PREFILLS):
        for column, decode in enumerate(DECODES):
            mine = of_pair(snapshot, prefill, decode)
            assert found["requests"].requests[row, column] == mine.sum()
            if (row, column) == (1, 0):
                assert all(np.isnan(pairs.values[row, column]) for pairs in found.values())
                continue
            assert found["ttft"].values[row, column] == percentile_of(window.ttft[mine], 95)
            assert found["coordination"].values[row, column] == pytest.approx(low[mine].mean())
            assert found["requests"].values[row, column] == mine.sum()
            assert found["failures"].values[row, column] == 0
            # 11 ms: submit 1, wire 8 and poll_gap 2
            size = 1e6 if prefill == "p0" else 4e6
            assert found["rate"].values[row, column] == pytest.approx(size / 0.011)


def test_rows_columns_and_all_are_made_of_requests(snapshot: Snapshot) -> None:
    window, found = snapshot.window, gather_pairs(snapshot.window, MEASURE["ttft"])
    names = [engine.engine for engine in window.engines]
    for row, prefill in enumerate(PREFILLS):
        assert found.by_prefill[row] == percentile_of(window.ttft[window.prefill_engine == names.index(prefill)], 95)
    for column, decode in enumerate(DECODES):
        assert found.by_decode[column] == percentile_of(window.ttft[window.decode_engine == names.index(decode)], 95)
    assert found.overall == percentile_of(window.ttft, 95)
    assert (found.pairs, found.alone, int(found.judged.sum())) == (5, 0, len(window))


def test_the_worst_come_first(snapshot: Snapshot) -> None:
    for one in MEASURES:
        found = gather_pairs(snapshot.window, one)
        values = [pair.value for pair in worst_pairs(snapshot.window, found)]
        assert values == sorted(values, reverse=not one.low_is_worse)
        assert len(values) == (0 if one.name == "failures" else 5)


def test_the_worst_pair_by_time_is_said_with_its_largest_stage(snapshot: Snapshot) -> None:
    first = worst_pairs(snapshot.window, gather_pairs(snapshot.window, MEASURE["coordination"]))[0]
    assert (first.prefill, first.decode, first.judged) == ("p1", "d10", 20)
    assert first.remark == "most of it in dispatch"


def test_failures_are_counted_and_named() -> None:
    failed = [*request("early", 1, 0), moment({**D_LEG, "request": "cmpl-r0001-0-bbbbbbbb"}, "failed", 120)]
    failed[-1]["reason"] = "transfer_failed"
    window = picture([*failed, *request("early", 2, 0)], 1).window
    found = gather_pairs(window, MEASURE["failures"])
    (worst,) = worst_pairs(window, found)
    assert (worst.value, worst.remark, found.overall) == (1, "most by transfer_failed", 1)


def test_a_request_of_one_engine_is_counted_beside_the_matrix() -> None:
    alone = moments({"engine": "p0", "leg": "prefill", "request": "a"}, arrived=0, taken=1, queued=2, scheduled=3)
    found = gather_pairs(picture([*alone, *request("early", 1, 0)], 1).window, MEASURE["requests"])
    assert (found.alone, found.pairs, found.overall) == (1, 1, 1)


def test_without_a_pair_nothing_is_known() -> None:
    alone = moments({"engine": "p0", "leg": "prefill", "request": "a"}, arrived=0, taken=1, queued=2, scheduled=3)
    for items in (alone, []):
        window = picture(items, 1).window
        for measure in MEASURES:
            found = gather_pairs(window, measure)
            assert found.pairs == 0
            assert worst_pairs(window, found) == ()


def test_two_starts_of_an_engine_are_one_here() -> None:
    items = []
    for number, start in enumerate("ab"):
        items += [{**item, "engine_id": item["engine"] + start} for item in request("early", number, number * 300)]
    found = gather_pairs(picture(items, 1).window, MEASURE["ttft"])
    assert (found.prefills, found.decodes, found.requests.tolist()) == (("p0",), ("d0",), [[2]])
    assert found.overall == 136 * MS
