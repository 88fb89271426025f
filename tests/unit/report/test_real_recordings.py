"""Recordings of real pairs, kept for the pictures: versions to come have to read them and say the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kvscope.analysis.render.fleet import put_report
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.waterfall import put_waterfall
from kvscope.analysis.summary import gather_summary
from kvscope.core.critical_path import split as split_all
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.model.splits import Splits
from kvscope.sources import open_sources

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


@pytest.fixture(params=["push-early", "push-sequential", "pull"])
def events(request: pytest.FixtureRequest) -> Events:
    return open_sources([PICTURES / f"{request.param}.kvs"]).events


@pytest.fixture
def splits(events: Events) -> Splits:
    return split_all(events)


def test_every_request_is_complete(splits: Splits) -> None:
    assert len(splits) == 63
    assert splits.complete.all()
    assert splits.tally.lost == 0


def test_stages_add_up_to_the_time_to_first_token(splits: Splits) -> None:
    assert np.array_equal(splits.exposed.sum(axis=1), splits.ttft)


def test_hardly_anything_is_unattributed(splits: Splits) -> None:
    assert splits.stage("unattributed").sum() < splits.ttft.sum() // 1000


def page_of(split: RequestSplit, width: int) -> list[str]:
    page = Page(width)
    put_waterfall(page, split, {})
    return [line.plain for line in page.lines]


def paragraph(lines: list[str], begin: str) -> str:
    """The wrapped lines of a paragraph, as one; empty if there is none."""
    text = "\n".join(lines)
    found = re.search(rf"^ ?{re.escape(begin)}((?:.|\n  )*)", text, re.M)
    return " ".join(found[1].split()) if found else ""


def test_the_waterfall_lists_everything_on_the_path(splits: Splits) -> None:
    for split in splits:
        lines = page_of(split, 100)
        rows = [(name, ms) for line in lines for name, ms in re.findall(r"^ \*[PDR] (\w+) +([\d,.]+) \|", line)]
        before = re.findall(r"[PDR] (\w+) ([\d,.]+)", paragraph(lines, "*before ").partition(": ")[2])
        folded = re.findall(r"(\w+) [\d.]+ (?:us|ns)", paragraph(lines, "folded: "))
        assert sorted([name for name, _ in before + rows] + folded) == sorted(span.stage for span in split.path)
        shown = sum(float(ms.replace(",", "")) for _, ms in before + rows)
        ttft = float(re.findall(r"^TTFT ([\d,.]+) ms", "\n".join(lines), re.M)[0].replace(",", ""))
        assert shown == pytest.approx(ttft, abs=1e-6)


@pytest.mark.parametrize("width", [80, 100])
def test_no_note_of_the_waterfall_is_cut(splits: Splits, width: int) -> None:
    def notes(width: int) -> list[str]:
        lines = [line for split in splits for line in page_of(split, width)]
        cells = [found[1] for line in lines if (found := re.match(r"[^|]{36}\|[^|]*\|(.*)$", line))]
        return " ".join(cells).split()

    assert max(len(line) for split in splits for line in page_of(split, width)) <= width
    assert notes(width) == notes(300)
    assert {"descriptors,", "slack"} & {*notes(width)}


def test_a_time_reads_the_same_in_the_report_and_in_the_waterfall(events: Events, splits: Splits) -> None:
    summary = gather_summary(events, splits)
    page = Page(100)
    put_report(page, summary)
    report = "\n".join(line.plain for line in page.lines)
    for handle, split in summary.slowest:
        waterfall = " ".join(page_of(split, 100))
        row = re.findall(rf"^ {handle} +(.*)$", report, re.M)[0]
        ttft, *largest = re.findall(r"[\d,]+\.\d", row)
        assert f"TTFT {ttft} ms = " in waterfall
        once = [name for name in re.findall(r"[a-z_]+", row) if [span.stage for span in split.path].count(name) == 1]
        pairs = dict(zip(re.findall(r"[a-z_]+", row), largest, strict=True))
        assert len(once) > 2
        assert all(re.search(rf"[PDR] {name} +{re.escape(pairs[name])}\b", waterfall) for name in once)
    (highest,) = re.findall(r"^max +(.*)$", report, re.M)
    slowest = page_of(summary.slowest[0][1], 300)
    parts = re.findall(r"[\d,]+\.\d", slowest[2])[1:]
    assert [number for number in re.findall(r"[\d,]+\.\d", highest)[2:] if number != "0.0"] == parts
