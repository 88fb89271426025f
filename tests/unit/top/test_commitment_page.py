"""The ledger says of all requests what a report says, word for word, and of engines what adds up to it."""

from __future__ import annotations

import re

import pytest

from kvscope.analysis.render.fleet import put_report
from kvscope.analysis.render.page import Page
from kvscope.live.snapshot import Snapshot
from kvscope.top.pages.commitment import put_commitment

from ..core.scene import events_of, moments
from ..live.fleet import request, stretch
from ..live.picture import Items, load, picture, started, steps


def flat(parts: list[Items]) -> Items:
    return [item for part in parts for item in part]


def with_blocks(items: Items) -> Items:
    return [{**item, "blocks": 8} if item["moment"] in ("reserved", "computed") else item for item in items]


def fleet() -> Items:
    """Two decoders, of which one has fewer waiting; steps on both sides."""
    told = [started(name, kv_blocks=100, mode="push") for name in ("p0", "d0", "d1")]
    parts = [request("early", n, 100.0 * n, decode=f"d{n % 2}") for n in range(20)]
    told += [load("d0", 1, 4, 1, 1, 50), load("d1", 1, 2, 1, 1, 50)]
    return [*told, *with_blocks(flat(parts)), *steps("d0", [10.0] * 50), *steps("p0", [100.0] * 9)]


def changed() -> Items:
    """Decode is called early for twenty seconds, then after prefill."""
    told = [started(name, kv_blocks=100, mode="push") for name in ("p0", "d0")]
    parts = stretch("early", 0, 20) + stretch("sequential", 20, 40, first=1000, delay_ms=500)
    return [*told, *with_blocks(flat(parts))]


def drawn(snapshot: Snapshot, width: int = 100) -> list[str]:
    page = Page(width)
    put_commitment(page, snapshot)
    return [line.plain for line in page.lines]


def text(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_the_figures_of_all_are_the_reports() -> None:
    snapshot = picture(fleet(), 3)
    page = Page(100)
    put_report(page, snapshot.summary)
    report = {line.plain for line in page.lines}
    lines = drawn(snapshot)
    for label in ("reserved-idle", "pinned", "regret", "writer wake", "connector     share"):
        (mine,) = [line for line in lines if line.startswith(label)]
        assert mine in report
    assert "another decoder had fewer waiting in 50% of 20, by 2 at the median" in text(lines)


def test_what_was_traded_is_one_sentence() -> None:
    said = text(drawn(picture(fleet(), 3)))
    # registration_handoff 1 and registration_flight 99, dispatch 2
    assert ">> 102.0 ms of coordination hidden per request, for 0.062 decode engines' worth of KV blocks held" in said
    assert "Push overlapped: the registration was there before the blocks were staged in 100% of 20 pushes." in said


def test_engines_add_up_to_all() -> None:
    lines = drawn(picture(fleet(), 3))
    rows = [
        line.split() for line in lines[lines.index(next(row for row in lines if row.startswith("BY ENGINE"))) + 2 :]
    ]
    (whole,) = re.findall(r"reserved-idle ([\d.]+) block-s", text(lines))
    assert [row[0] for row in rows] == ["d0", "d1", "p0"]
    assert sum(float(row[1]) for row in rows if row[1] != "-") == pytest.approx(float(whole), abs=0.11)
    assert rows[2][1:5] == ["-"] * 4
    assert rows[0][5:8] == ["-"] * 3


def test_what_it_was_before_a_change_stands_beside_it() -> None:
    said = text(drawn(picture(changed(), 40)))
    assert "Decode is called after prefill returns." in said
    assert re.search(r"was: until 2\d\.\d s after the start \(early\)", said)
    # staging 2 and writer_wake 1
    assert "hidden 3.0 ms (was 102.0)" in said
    assert "before staged in 0% of" in said
    assert "(was 100%)" in said
    assert re.search(r"before reserved-idle 9\.\d% of blocks, 116 ms at p50, 2\d\d complete requests", said)


def test_without_engines_requests_or_a_handoff_it_says_which() -> None:
    assert "kvscope doctor" in text(drawn(picture([], 1)))
    assert "nothing was committed to" in text(drawn(picture(steps("d0", [5]), 1)))
    alone = {"engine": "d0", "leg": "decode", "request": "a"}
    one = moments(alone, arrived=0, taken=1, queued=2, scheduled=3, first_token=9, finished=10)
    assert "handed from engine to engine" in text(drawn(picture(one, 9)))


def test_of_one_side_the_cost_there_is_told_and_the_rest_is_not_made_up() -> None:
    items = [*with_blocks(flat(stretch("pull", 0, 2)))]
    seen = [
        {**item, "peer_engine": "p0"} if item["moment"] == "reserved" else item
        for item in items
        if item["engine"] == "d0"
    ]
    snapshot = picture(seen, 8)
    assert events_of(seen).processes[0].engine == "d0"
    said = text(drawn(snapshot))
    assert "Only decode legs are seen" in said
    assert "pinned not known: no prefill engine that records" in said
    assert re.search(r"reserved-idle [\d.]+ block-s", said)
    assert "BOUGHT" not in said


@pytest.mark.parametrize("width", [60, 80, 100, 300])
def test_no_width_is_exceeded(width: int) -> None:
    for items, now in ((fleet(), 3), (changed(), 40)):
        assert max(map(len, drawn(picture(items, now), width))) <= width
