"""The table of requests: at every width whole cells, and the figures that a request's own page has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kvscope.analysis.render.fleet import put_report
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.waterfall import put_waterfall
from kvscope.analysis.summary import gather_summary
from kvscope.live.collector import Settings
from kvscope.live.filter import parse_filter
from kvscope.live.listing import NEWEST, Listing
from kvscope.live.snapshot import Snapshot
from kvscope.model.requests import State
from kvscope.top.pages.requests import put_requests, table_of

from ..core.scene import D_LEG, moment
from ..live.fleet import request, stretch
from ..live.picture import picture
from .states import PAIR, SECOND, flat, fleet_of_six, recorded

PIECE = r"[a-z_]+ [\d,]+\.\d"
ORDERS = (NEWEST, "ttft", "age", "class.coord", "stage.registration_flight")


def real() -> Snapshot:
    """The last requests of a recording."""
    snapshot = recorded("push-early")
    return replace(snapshot, window=snapshot.window.select(np.arange(20)))


def drawn(snapshot: Snapshot, width: int, order: str = NEWEST) -> list[str]:
    page, listing = Page(width), Listing(order)
    put_requests(page, snapshot, listing, table_of(snapshot, listing))
    return [line.plain for line in page.lines]


@cache
def mixed() -> Snapshot:
    """Requests of every kind of line: slow and fast, unfinished, failed, incomplete."""
    hung = [item for item in request("early", 901, 3_000) if item["t"] < 3_060_000_000]
    leg = {**D_LEG, "request": "cmpl-f-0-bbbbbbbb"}
    failed = [moment(leg, name, 1_000) for name in ("arrived", "taken", "queued", "reserved")]
    failed += [moment(leg, "failed", 1_100, reason="registration_expired"), moment(leg, "finished", 1_200)]
    partly = [item for item in request("early", 902, 2_000) if item["moment"] != "prepared"]
    slow = [request("sequential", n, 900, 61_234.5 * (n - 949)) for n in range(950, 953)]
    return picture(
        [*PAIR, *flat(stretch("pull", 0, 2)), *flat(slow), *hung, *failed, *partly],
        200,
        Settings(window_ns=600 * SECOND),
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shown", [mixed, fleet_of_six, real])
def test_no_cell_is_cut_at_any_width(shown: Callable[[], Snapshot], order: str) -> None:
    snapshot = shown()
    ample = told(drawn(snapshot, 300, order))
    for width in (*range(60, 112), 140, 200, 299):
        lines = drawn(snapshot, width, order)
        assert max(map(len, lines)) <= width
        for parts, whole in zip(told(lines), ample, strict=True):
            assert parts == whole[: len(parts)], width


def told(lines: list[str]) -> list[list[str]]:
    """What each line says behind its columns and its bar."""
    _, head, *rows = lines
    words = head.index("largest parts, ms")
    ends = head.index("TTFT, ms") + len("TTFT, ms")
    found = []
    for row in rows:
        standing = row[ends - 2 : ends] == " -"
        text = row[head.index("split") if standing and "split" in head else words :].rstrip()
        found.append(text.split(", " if standing else "  ") if text else [])
    return found


def test_what_it_is_sorted_by_is_a_column_at_every_width() -> None:
    for width in (60, 79, 100, 300):
        lines = drawn(recorded("push-early"), width, "stage.staging")
        assert " staging " in lines[1]
        assert f"{'484.9':>9}  " in lines[2]


def test_a_filter_leaves_the_rows_where_they_are() -> None:
    snapshot, page = recorded("push-early"), Page(80)
    listing = Listing(wanted=parse_filter(" ".join(["stage.prefill_run>1ms"] * 20)))
    put_requests(page, snapshot, listing, table_of(snapshot, listing))
    assert re.fullmatch(r"REQUESTS  58 of 63 requests of .* by newest   filter: stage.*\.\.", page.lines[0].plain)
    assert page.lines[1].plain.startswith("  request ")


def test_long_names_of_engines_are_told_by_what_they_differ_in() -> None:
    snapshot = recorded("push-early")
    names = {"p0": "10.0.3.17:7100", "d0": "10.0.3.9:7100"}
    engines = tuple(replace(each, engine=names.get(each.engine, each.engine)) for each in snapshot.window.engines)
    lines = drawn(replace(snapshot, window=replace(snapshot.window, engines=engines)), 100)
    assert " 17>9 " in lines[2]


@pytest.mark.parametrize("name", ["push-early", "push-sequential", "pull"])
def test_figures_are_those_of_the_waterfall_and_of_the_report(name: str) -> None:
    snapshot = recorded(name)
    window = snapshot.window
    report = Page(300)
    put_report(report, gather_summary(snapshot.scoped, window, slowest=len(window)))
    slowest = {
        line.plain.split()[0]: line.plain
        for line in report.lines
        if re.match(rf" [0-9a-f]{{8}}  .*{PIECE}", line.plain)
    }
    rows = table_of(snapshot, Listing()).rows.tolist()
    for row, line in zip(rows, drawn(snapshot, 300)[2:], strict=True):
        waterfall = Page(300)
        put_waterfall(waterfall, window[row], {}, every=True)
        text = "\n".join(each.plain for each in waterfall.lines)
        assert f"TTFT {line.split()[2]} ms" in text
        assert slowest[line[2:10]].split()[1] == line.split()[2]
        for piece in re.findall(PIECE, line):
            assert f"  {piece}" in slowest[line[2:10]]
            stage, amount = piece.split()
            parts = [float(each.replace(",", "")) for each in re.findall(rf"\*[PDR-] {stage} +([\d,.]+) ", text)]
            assert sum(parts) == pytest.approx(float(amount.replace(",", "")), abs=0.01)


def test_states_are_told_in_words() -> None:
    window = mixed().window
    assert {State.UNFINISHED, State.INCOMPLETE} <= {window[row].state for row in range(len(window))}
    page = "\n".join(drawn(mixed(), 100))
    assert "old, last " in page
    assert "incomplete, push, last " in page
