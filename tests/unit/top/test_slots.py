"""Places that stay where they are, a course over time in one line, and the scale of bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.analysis.render.page import LABEL, Page
from kvscope.top.pages.bandtable import nice_mark
from kvscope.top.pages.slots import Slot, put_slots
from kvscope.top.pages.sparkline import LEVELS, sparkline


def lines(slots: list[Slot], width: int = 60) -> list[str]:
    page = Page(width)
    put_slots(page, "label", slots)
    return [line.plain for line in page.lines]


def test_facts_keep_their_places_whatever_they_say() -> None:
    for first in ("1", "1,234"):
        (line,) = lines([Slot(first, 8), Slot("then", 6)])
        assert line.index("then") == LABEL + 8 + 2


def test_rooms_decide_what_is_on_a_line_and_not_what_is_said() -> None:
    assert lines([Slot("a", 40), Slot("b", 10)]) == ["label         a", "              b"]
    assert lines([Slot("a", 40), Slot("b", 10, spare=True)]) == ["label         a"]
    assert lines([Slot("a", 30), Slot("b", 10)]) == [f"{'label':<14}{'a':<32}b"]


def test_what_is_longer_than_its_room_pushes_the_next_one() -> None:
    assert lines([Slot("abcdef", 3), Slot("g", 3)]) == ["label         abcdef  g"]


@given(st.dictionaries(st.integers(0, 200), st.floats(0, 1e12)), st.integers(1, 180), st.integers(1, 200))
def test_a_sparkline_takes_its_room_in_ascii(values: dict[int, float], steps: int, room: int) -> None:
    line = sparkline(values, 150, steps, room)
    assert len(line) <= min(room, steps)
    assert set(line) <= {*LEVELS, " "}


def test_a_sparkline_rises_with_its_values_and_leaves_gaps() -> None:
    course = {place: float(place) for place in range(1, 9) if place != 4}
    line = sparkline(course, 8, 8, 80)
    assert line[3] == " "
    levels = [LEVELS.index(glyph) for glyph in line.replace(" ", "")]
    assert levels == sorted(levels)
    assert line[-1] == LEVELS[-1]
    assert sparkline({5: 100.0, 6: 101.0}, 6, 2, 80) == LEVELS[-1] * 2  # a small change looks small


def test_of_several_places_in_one_cell_the_greatest_counts() -> None:
    assert sparkline({1: 1.0, 2: 8.0, 3: 1.0, 4: 1.0}, 4, 4, 2) == LEVELS[-1] + LEVELS[1]
    assert sparkline({}, 4, 4, 2) == "  "


@given(st.floats(1, 1e13))
def test_a_mark_is_round_not_shorter_and_wastes_a_quarter_at_most(ns: float) -> None:
    mark = nice_mark(ns)
    assert ns <= mark <= 1.26 * ns or mark <= 1.26 * ns + 1
    assert float(f"{mark:.1e}") == mark  # two digits


@pytest.mark.parametrize(("ns", "mark"), [(1.0, 1.0), (11.0, 12.0), (43e6, 45e6), (99e6, 100e6), (0.3, 1.0)])
def test_marks(ns: float, mark: float) -> None:
    assert nice_mark(ns) == mark
