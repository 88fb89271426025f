"""The page of engines: what is not known is no number, and what does not fit is named."""

from __future__ import annotations

import re

import pytest

from kvscope.analysis.render.page import Page
from kvscope.live.snapshot import Snapshot
from kvscope.model.events import Process
from kvscope.top.pages.engines import COLUMNS, engine_names, put_engines

from ..core.scene import moments
from ..live.fleet import stretch
from ..live.picture import Items, load, picture, started, steps

PUSH = {"connector": "NixlPushConnector", "mode": "push", "placement": "writer", "kv_blocks": 2_048}


def flat(parts: list[Items]) -> Items:
    return [item for part in parts for item in part]


def fleet() -> Items:
    told = [started("p0", **PUSH), started("d0", **PUSH), load("d0", 1_900, 3, 2, 1, 1_024)]
    return [*told, *steps("d0", [12.5] * 40), *flat(stretch("early", 0, 2))]


def drawn(snapshot: Snapshot, width: int = 100, cursor: int = -1, first: int = 0, height: int = 0) -> list[str]:
    page = Page(width)
    put_engines(page, snapshot, cursor, first, height)
    return [line.plain for line in page.lines]


def cells(lines: list[str], engine: str) -> dict[str, str]:
    """head -> cell of the engine's row"""
    head = next(line for line in lines if line.split()[:1] == ["engine"]).split()
    row = next(line for line in lines if line.strip("> ").startswith(engine)).strip("> ")
    return dict(zip(head, re.split(r" +", row), strict=False))


def test_a_row_says_what_is_known_and_a_dash_what_is_not() -> None:
    row = cells(drawn(picture(fleet(), 3)), "d0")
    assert row == {
        "engine": "d0", "role": "D", "data": "ok", "wait": "3", "run": "2", "held": "1", "KV": "50%",
        "blocks": "2,048", "idle": "0%", "fail": "0", "exp": "0", "queue": "1.0", "step": "12.5", "p95": "12.5",
        "conn": "10%",
    }  # fmt: skip
    prefill = cells(drawn(picture(fleet(), 3)), "p0")
    assert [prefill[name] for name in ("wait", "run", "held", "KV", "idle", "step", "conn")] == ["-"] * 7


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200, 300])
def test_columns_drop_from_the_right_and_the_page_says_which(width: int) -> None:
    lines = drawn(picture(fleet(), 3), width)
    assert max(map(len, lines)) <= width
    shown = next(line for line in lines if line.startswith("  engine")).split()[1:]
    heads = [column.head for column in COLUMNS]
    assert shown == heads[: len(shown)]
    said = " ".join(lines).partition("On a wider screen: ")[2].rstrip(".").split(", ")
    assert [name for name in said if name] == heads[len(shown) :]


def test_columns_stand_where_they_stood_when_numbers_change() -> None:
    small, large = (drawn(picture([*fleet(), load("d0", 1_990, n, n, n, 1_024 - n)], 3)) for n in (0, 999))
    heads = [next(line for line in lines if line.startswith("  engine")) for lines in (small, large)]
    assert heads[0] == heads[1]
    assert len(next(line for line in large if " d0 " in line)) == len(next(line for line in small if " d0 " in line))


def test_why_an_engine_is_dark_or_gone_or_lossy_stands_below() -> None:
    dark = tuple(Process(f"pid {number}", note="vLLM 0.12.0 is not supported", pid=number) for number in (7, 8))
    silent = [load("d9", 10, 1, 1, 1, 1), {**started("d8"), "lost": 12}]
    lines = drawn(picture([*fleet(), *silent, *steps("p0", [1_000.0] * 9)], 9.5, dark=dark))
    text = " ".join(lines)
    assert "not instrumented: pid 7, pid 8: vLLM 0.12.0 is not supported" in text
    assert "gone: d9: no event for 9.49 s" in text
    assert "short: d8 (12)" in text
    assert cells(lines, "d9")["data"] == "gone"
    row = next(line for line in lines if line.strip().startswith("pid 7"))
    assert row.split()[2:] == ["-", "dark", *["-"] * (len(row.split()) - 4)]
    assert "2 gone, 2 dark" in lines[0]


def test_without_engines_it_says_where_to_look() -> None:
    assert "kvscope doctor" in " ".join(drawn(picture([], 1)))


def test_without_requests_no_role_is_made_up() -> None:
    lines = drawn(picture(steps("d0", [5]), 1))
    assert cells(lines, "d0")["role"] == "-"
    assert "No request in this time" in " ".join(lines)


def test_of_one_side_alone_it_says_so() -> None:
    alone = moments({"engine": "p0", "leg": "prefill", "request": "a"}, arrived=0, taken=1, queued=2, scheduled=3)
    assert "Only prefill legs are seen" in " ".join(drawn(picture(alone, 1)))


def test_the_cursor_marks_the_row_of_its_name() -> None:
    snapshot = picture(fleet(), 3)
    assert engine_names(snapshot) == ("d0", "p0")
    for place, name in enumerate(engine_names(snapshot)):
        marked = [line for line in drawn(snapshot, cursor=place) if line.startswith("> ")]
        assert len(marked) == 1
        assert marked[0].startswith(f"> {name} ")


def test_a_part_of_the_rows() -> None:
    snapshot = picture(flat([steps(f"d{number}", [5]) for number in range(9)]), 1)
    names = [line.split()[0] for line in drawn(snapshot, first=3, height=2) if line.startswith("  d")]
    assert names == ["d3", "d4"]


def test_requests_of_which_one_side_alone_is_seen_are_counted_beside_the_others() -> None:
    hidden = [{**item, "peer_engine": "d9"} for item in flat(stretch("early", 1, 2, first=1000))]
    seen = [*flat(stretch("early", 0, 1)), *(item for item in hidden if item["engine"] != "d0")]
    lines = drawn(picture(seen, 12))
    told = "10 requests were seen from prefill alone: the engines that decode for them give no events here."
    assert told in " ".join(" ".join(lines).split())
