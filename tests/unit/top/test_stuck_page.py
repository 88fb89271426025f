"""What waits is said in words first, then line by line; what is in time is not in the way."""

from __future__ import annotations

import pytest

from kvscope.analysis.render.page import Page
from kvscope.live.snapshot import Snapshot
from kvscope.top.pages.stuck import put_stuck, requests_waiting

from ..core.scene import MS
from ..live.fleet import request, stretch
from ..live.picture import Items, load, picture, steps


def flat(parts: list[Items]) -> Items:
    return [item for part in parts for item in part]


def cut(number: int, at_ms: float, until_ms: float, scene: str = "sequential") -> Items:
    items = request(scene, number, at_ms)
    return [item for item in items if item["t"] <= round((at_ms + until_ms) * MS)]


def hung(n: int) -> Items:
    """n requests whose registrations nobody reads, beside thirty that went well."""
    return [*flat(stretch("sequential", 0, 3)), *flat([cut(900 + k, 3_000 + 10 * k, 116) for k in range(n)])]


def drawn(snapshot: Snapshot, width: int = 100, cursor: int = -1) -> list[str]:
    page = Page(width)
    put_stuck(page, snapshot, cursor)
    return [line.plain for line in page.lines]


def text(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_many_alike_are_one_sentence_and_one_line() -> None:
    lines = drawn(picture(hung(58), 44))
    said = text(lines)
    assert "STUCK 58 of 58 under way wait longer than usual (usual: median of 30 requests" in said
    assert (
        ">> 58 requests wait for registration_received on p0 since 3.1 s after the start: 40.3 s to 40.9 s, usually "
        "3.00 ms. Then usually matched." in said
    )
    assert "58 requests without a first token for more than 1.00 s, the oldest for 41.0 s." in said
    (row,) = [line for line in lines if line.startswith("# ")]
    assert row.split() == [
        "#", "58", "requests", "registration_received", "40.9", "s", "13,628", "p0", "3.00", "ms", "matched",
    ]  # fmt: skip
    assert "IN TIME" not in said


def test_what_is_in_time_stands_apart_and_is_not_called_late() -> None:
    lines = drawn(picture([*flat(stretch("sequential", 0, 3)), *cut(900, 3_000, 60), *cut(901, 3_000, 60)], 3.08))
    said = text(lines)
    assert "STUCK 0 of 2 under way wait longer than usual" in said
    assert ">>" not in said
    assert "= 2 requests computed 75.0 ms 0.8 p0 100 ms handed" in said.partition("IN TIME")[2]


def test_a_silent_engine_is_told_with_what_waits_for_it() -> None:
    items = [*hung(5), load("p0", 3_200, 1, 1, 0, 5), *steps("d0", [1_000.0] * 12)]
    assert "p0 is silent: it may be gone." in text(drawn(picture(items, 12)))


def test_without_anything_usual_nothing_is_made_up() -> None:
    said = text(drawn(picture(flat([cut(n, 10 * n, 116) for n in range(9)]), 8)))
    assert "how long it usually takes nothing shows" in said
    assert "No request got on in this time" in said
    row = next(line for line in drawn(picture(flat([cut(n, 10 * n, 116) for n in range(9)]), 8)) if line[:2] == "# ")
    assert row.split()[6:9] == ["-", "p0", "-"]


def test_what_cannot_be_seen_is_counted() -> None:
    seen = [item for item in flat(stretch("pull", 0, 3)) if item["engine"] == "p0"]
    open_ = [item for item in cut(900, 3_000, 105, "pull") if item["engine"] == "p0"]
    assert "1 other under way: what comes next for them happens on an engine" in text(
        drawn(picture([*seen, *open_], 8))
    )


def test_without_engines_requests_or_waits_it_says_which() -> None:
    assert "kvscope doctor" in text(drawn(picture([], 1)))
    assert "No request in this time" in text(drawn(picture(steps("d0", [5]), 1)))
    assert "All 20 requests of this time have their first token" in text(drawn(picture(flat(stretch("pull", 0, 2)), 4)))


@pytest.mark.parametrize("width", [60, 80, 100, 140, 300])
def test_no_width_is_exceeded_and_the_narrowest_says_what_and_how_long(width: int) -> None:
    lines = drawn(picture(hung(5), 44), width)
    assert max(map(len, lines)) <= width
    assert any(line.startswith("# 5 requests     registration_received       40.9 s") for line in lines)


def test_the_cursor_is_on_the_longest_wait_of_its_line() -> None:
    snapshot = picture([*hung(5), *cut(800, 3_000, 60)], 44)
    ids = [snapshot.window.texts[request] for request, _ in requests_waiting(snapshot)]
    assert ids == ["cmpl-r0900-0-bbbbbbbb", "cmpl-r0800-0-aaaaaaaa"]
    for place, shown in enumerate(("5 requests", "r0800")):
        (marked,) = [line for line in drawn(snapshot, cursor=place) if line.startswith("> ")]
        assert marked.startswith(f"> {shown} ")
