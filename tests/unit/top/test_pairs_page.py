"""The matrix of pairs: what a glyph stands for is written under it, and 40 x 60 fit a hundred columns."""

from __future__ import annotations

import pytest

from kvscope.analysis.render.page import Page
from kvscope.live.pairs import MEASURE, MEASURES, Measure
from kvscope.live.snapshot import Snapshot
from kvscope.top.pages.matrix import GLYPHS
from kvscope.top.pages.pairs import pairs_in_words, put_pairs

from ..core.scene import moments
from ..live.fleet import request
from ..live.picture import Items, picture

SLOW = ("p-3", "d-17")


def fleet(prefills: int, decodes: int, name: str = "{side}-{number}") -> Items:
    """A request for every pair, those of SLOW half a second later."""
    items: Items = []
    for number in range(prefills * decodes):
        at, beside = divmod(number, decodes)
        p, d = name.format(side="p", number=at), name.format(side="d", number=beside)
        made = request("sequential", number, number / 2, 500.0 if (p, d) == SLOW else 0.0)
        items += [{**item, "engine": {"p0": p, "d0": d}[item["engine"]]} for item in made]
    return items


@pytest.fixture(scope="module")
def large() -> Snapshot:
    return picture(fleet(40, 60), 3)


def drawn(snapshot: Snapshot, measure: Measure = MEASURE["ttft"], width: int = 100, **more: int) -> list[str]:
    page = Page(width)
    put_pairs(page, snapshot, measure, **more)
    return [line.plain for line in page.lines]


def cells(line: str) -> str:
    """The glyphs of a row."""
    label = len(line) - len(line.lstrip())
    return line[label:].partition(" ")[2].rsplit("  ", 1)[0].replace(" ", "")


def test_forty_by_sixty_fit_a_hundred_columns(large: Snapshot) -> None:
    for measure in MEASURES:
        lines = drawn(large, measure)
        assert max(map(len, lines)) <= 100
        if measure.name == "ttft":
            rows = lines[3:43]
            assert [len(cells(row)) for row in rows] == [60] * 40
            heavy = [(at, cells(row).index("@")) for at, row in enumerate(rows) if "@" in cells(row)]
            assert heavy == [(3, 17)]
            assert "p-3 -> d-17     647.0 ms, of 1 request" in "\n".join(lines)


def test_columns_are_named_downwards(large: Snapshot) -> None:
    tens, units = (line.replace(" ", "") for line in drawn(large)[1:3])
    assert units == "0123456789" * 6
    assert tens == "".join(str(ten) * 10 for ten in range(1, 6))


def test_the_legend_gives_ranges_and_counts_all_pairs(large: Snapshot) -> None:
    text = " ".join(" ".join(drawn(large)).split())
    assert "@ 500 ms or more (1)" in text
    assert "- below 100 ms (0)" in text
    assert "+ 100 ms to 150 ms (2,399)" in text
    assert all(f" {glyph} " in text for glyph in GLYPHS)


def test_larger_ones_are_shown_in_parts() -> None:
    snapshot = picture(fleet(45, 130), 4)
    first, second = drawn(snapshot), drawn(snapshot, first_row=40, first_column=100)
    assert "prefill 1-40 of 45 x decode 1-77 of 130" in first[0]
    assert "prefill 6-45 of 45 x decode 54-130 of 130" in second[0]
    places = [next(at for at, line in enumerate(lines) if line.startswith("all")) for lines in (first, second)]
    assert places == [44, 44]


@pytest.mark.parametrize("width", [60, 80, 300])
def test_no_width_is_exceeded(large: Snapshot, width: int) -> None:
    assert max(map(len, drawn(large, width=width))) <= width


def test_long_names_are_numbered_and_the_numbers_are_explained() -> None:
    lines = drawn(picture(fleet(2, 3, "{side}ool{number}x-of-east{number}"), 1))
    assert lines[1].split() == ["123"]
    assert "columns 1 dool0x-of-east0, 2 dool1x-of-east1, 3 dool2x-of-east2" in " ".join(" ".join(lines).split())


def test_a_pair_without_requests_is_blank_and_one_without_a_figure_is_marked() -> None:
    items = [item for item in fleet(2, 2) if not (item["engine"] == "p-0" and "-0003-" in item.get("request", ""))]
    items = [item for item in items if not item.get("request", "").startswith("cmpl-r0001-")]
    lines = drawn(picture(items, 1), MEASURE["rate"])
    text = "\n".join(lines)
    assert "~ not known (3)" in text
    assert "blank: no request" in text
    row = next(line for line in lines if line.lstrip().startswith("0 "))
    assert row.startswith("  0 ~ ")


def test_without_engines_requests_or_pairs_it_says_which() -> None:
    alone = moments({"engine": "p0", "leg": "prefill", "request": "a"}, arrived=0, taken=1, queued=2, scheduled=3)
    assert "kvscope doctor" in " ".join(drawn(picture([], 1)))
    assert "No request in this time" in " ".join(drawn(picture([{"t": 5, "engine": "p0", "moment": "started"}], 1)))
    assert "of 1 request only one engine was seen" in " ".join(drawn(picture(alone, 1)))


def test_one_pair_needs_no_matrix() -> None:
    lines = drawn(picture(request("early", 1, 0), 1))
    assert "1 prefill x 1 decode: 1 pair, 1 request" in lines[0]
    assert not any("glyphs" in line for line in lines)
    assert any("p0 -> d0     136.0 ms, of 1 request, most of it in prefill_run" in line for line in lines)


def test_the_cursor_is_on_the_pair_of_its_place(large: Snapshot) -> None:
    names = pairs_in_words(large)
    assert names[0] == SLOW
    assert len(names) == 10
    for place in (0, 9):
        (marked,) = [line for line in drawn(large, cursor=place) if line.startswith("> ")]
        assert marked.startswith(f"> {names[place][0]} -> {names[place][1]} ")
