"""Pictures: what is drawn lies inside its frame, on an axis that shows the small ones too."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kvscope.lab.sweeping.cell import Cell
from kvscope.sweep.contrasts import contrasts
from kvscope.sweep.measured import Measured
from kvscope.sweep.render import pictures
from kvscope.sweep.render.words import Words

from .scenes import MODES, outside, results, whole

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def cells(*scales: float) -> list[Measured]:
    """All modes at loads that take so many times longer."""
    return [
        outside(Cell(mode, 1000, 0.1 * (1 + number)), [scale * (50.0 + at % 9) for at in range(50)])
        for number, scale in enumerate(scales)
        for mode in MODES
    ]


def drawn(found: list[Measured]) -> ElementTree.Element:
    return ElementTree.fromstring("".join(pictures.ttft(found, Words(results(found)))))


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 3.0), (1.0, 3.0, 900.0)], ids=["one", "linear", "logarithmic"])
def test_all_marks_lie_in_the_frame_and_on_their_load(scales: tuple[float, ...]) -> None:
    picture = drawn(cells(*scales))
    told = [each.text for each in picture.iter("text")]
    assert ("logarithmic" in told) is (max(scales) > 20)
    places = [NUMBER.findall(each.get("points", "")) for each in picture.iter("polygon")]
    corners = [(float(x), float(y)) for points in places for x, y in zip(points[::2], points[1::2], strict=True)]
    corners += [(float(each.get("cx", 0)), float(each.get("cy", 0))) for each in picture.iter("circle")]
    assert len(list(picture.iter("circle"))) == 2 * len(scales)
    assert all(pictures.LEFT - 6 <= x <= pictures.WIDTH and 0 <= y <= pictures.HEIGHT for x, y in corners)
    ticks = [each for each in picture.iter("line") if each.get("class") == "axis"]
    assert 2 <= len(ticks) <= 16


def test_what_has_too_few_requests_draws_no_mark() -> None:
    picture = drawn([outside(Cell("pull", 1000, 0.5), [50.0] * 9)])
    assert not list(picture.iter("polygon"))
    assert [each.text for each in picture.iter("text")] == ["too few requests: no figure"]


def test_equal_times_have_an_axis_too() -> None:
    assert list(drawn([outside(Cell("pull", 1000, 0.5), [50.0] * 50)]).iter("line"))


def test_bars_of_a_split_fill_what_they_are_of() -> None:
    found = whole()
    for each in found.cells:
        assert each.inside is not None
        mean = sum(each.inside.classes.values())
        svg = ElementTree.fromstring(pictures.split_bar(each, 2 * mean, Words(found)))
        bars = [rect for rect in svg.iter("rect") if rect.get("height") == str(pictures.BAR)]
        coloured = [float(str(rect.get("width")).rstrip("%")) for rect in bars if rect.get("class")]
        assert sum(coloured) == pytest.approx(50, abs=0.1)


def test_a_difference_lies_where_its_track_says() -> None:
    found = contrasts(whole().cells)[0]
    assert found.ttft is not None
    low, high = -2 * abs(found.ttft.low), 2 * abs(found.ttft.high)
    svg = ElementTree.fromstring(pictures.difference(found, low, high))
    (dot,) = svg.iter("circle")
    place = float(str(dot.get("cx")).rstrip("%")) / 100
    assert low + place * (high - low) == pytest.approx(found.ttft.value, abs=0.001 * (high - low))
