"""What is printed adds up, whatever the numbers are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.analysis.bands import FEWEST, Band, gather_bands, members, nearest_rank
from kvscope.analysis.render import classtable
from kvscope.analysis.render.amounts import Milliseconds, add_up
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.rounding import rounded_band, rounded_spans, rounded_stages
from kvscope.model.requests import Span
from kvscope.model.stages import STAGES

NUMBER = re.compile(r"(?<![\w.])[\d,]+(?:\.\d+)?(?![\w.])")
NS = st.integers(0, 3_000_000_000)
SPLITS = st.lists(st.lists(NS, min_size=len(STAGES), max_size=len(STAGES)), min_size=1, max_size=60)


def numbers(line: str) -> list[float]:
    """The numbers in a row of a table, its name left out."""
    _, rest = re.split(r"(?<=\S) +(?=[\d,]+\.\d)", line.strip(), maxsplit=1)
    return [float(found.replace(",", "")) for found in rest.split() if NUMBER.fullmatch(found)]


def bands_of(split: list[list[int]]) -> tuple[Band, ...]:
    exposed = np.array(split, np.int64)
    return gather_bands(exposed.sum(axis=1), exposed, np.zeros_like(exposed))


@given(st.lists(st.floats(0, 1e12), max_size=30), st.sampled_from([1e3, 1e5, 1e6]))
def test_rounded_parts_add_up_and_stay_within_one_quantum(parts: list[float], quantum: float) -> None:
    rounded = add_up(parts, quantum)
    assert sum(rounded) == round(sum(part / quantum for part in parts))
    assert all(abs(whole - part / quantum) <= 1 for whole, part in zip(rounded, parts, strict=True))


@given(st.lists(NS, min_size=len(STAGES), max_size=len(STAGES)))
def test_a_stage_is_rounded_alike_for_a_band_of_one_and_for_the_request(stages: list[int]) -> None:
    scale = Milliseconds(sum(stages))
    (*_, alone) = bands_of([stages])
    names = {stage.name: ns for stage, ns in zip(STAGES, stages, strict=True)}
    assert rounded_band(alone, scale).exposed.tolist() == list(rounded_stages(names, scale).values())


@given(st.lists(st.tuples(st.sampled_from([stage.name for stage in STAGES[:4]]), NS), min_size=1, max_size=12))
def test_the_pieces_of_a_stage_add_up_to_what_it_is_rounded_to(pieces: list[tuple[str, int]]) -> None:
    spans, stages, end = [], dict[str, int](), 0
    for name, ns in pieces:
        spans.append(Span(name, end, end + ns + 1, "posted", "prefill"))
        stages[name], end = stages.get(name, 0) + ns + 1, end + ns + 1
    scale = Milliseconds(end)
    lengths = rounded_spans(spans, scale)
    for name, rounded in rounded_stages(stages, scale).items():
        assert sum(ns for span, ns in lengths.items() if span.stage == name) == rounded
    assert all(abs(ns - span.ns) < 1.001 * scale.quantum for span, ns in lengths.items())


@given(SPLITS, st.sampled_from([60, 100, 300]))
def test_each_row_of_classes_adds_up_to_its_total(split: list[list[int]], width: int) -> None:
    bands = bands_of(split)
    scale = Milliseconds(bands[-1].mean_ns)
    page = Page(width)
    classtable.put_classes(page, [rounded_band(band, scale) for band in bands], scale)
    text = [line.plain for line in page.lines]
    if text[0].rstrip().endswith("max"):
        columns = list(zip(*(numbers(line) for line in text[1:9]), strict=True))
    else:
        columns = [tuple(numbers(line)[:8]) for line in text[1:5]]
    assert len(columns) == len(bands)
    for _, mean, *classes in columns:
        assert sum(classes) == pytest.approx(mean, abs=1e-6)


@given(SPLITS, st.sampled_from([60, 100, 300]), st.booleans())
def test_each_column_of_stages_adds_up_to_its_band(split: list[list[int]], width: int, every: bool) -> None:
    bands = bands_of(split)
    scale = Milliseconds(bands[-1].mean_ns)
    page = Page(width)
    classtable.put_stages(page, [rounded_band(band, scale) for band in bands], scale, every)
    rows = [numbers(line.plain)[: len(bands)] for line in page.lines[1:]]
    for column in range(len(bands)):
        assert sum(row[column] for row in rows[:-1]) == pytest.approx(rows[-1][column], abs=1e-6)


def test_no_number_is_cut_on_a_narrow_page() -> None:
    bands = bands_of([[200_000_000_000] * len(STAGES)] * 9)
    scale = Milliseconds(bands[-1].mean_ns)
    page = Page(60)
    classtable.put_stages(page, [rounded_band(band, scale) for band in bands], scale, True)
    head, *rows = [line.plain.split() for line in page.lines]
    assert head[2:] == ["p50", "p95", "max"]
    assert {tuple(row[2:5]) for row in rows[:-1]} == {("200,000.0",) * 3}
    assert rows[-1][-3:] == ["5,600,000.0"] * 3


@given(st.integers(1, 5_000), st.sampled_from([50.0, 95.0, 99.0]))
def test_a_band_holds_its_percentile_and_stays_narrow(n: int, percentile: float) -> None:
    low, high = members(n, percentile)
    assert 0 <= low <= nearest_rank(n, percentile) < high <= n
    assert high - low <= max(FEWEST, 0.02 * n + 2)


def test_the_split_of_a_band_is_the_mean_of_its_requests() -> None:
    exposed = np.zeros((100, len(STAGES)), np.int64)
    exposed[:, 5] = np.arange(100) * 1_000_000
    exposed[:, 1] = 1_000_000
    median = gather_bands(exposed.sum(axis=1), exposed, exposed)[0]
    assert median.count == FEWEST
    assert median.percentile_ns == 50_000_000
    assert median.exposed[5] == pytest.approx(49_000_000)
    assert median.mean_ns == pytest.approx(50_000_000)
