"""Steps that the join does without are put by, and there when a prompt is computed in chunks after all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvscope.core.critical_path import split
from kvscope.export import passage as passage_module
from kvscope.export.needed import Needed
from kvscope.export.passage import passage
from kvscope.model.splits import Splits, concat
from kvscope.probe.vocabulary import MOMENT_CODE
from kvscope.sources.opening import open_all
from kvscope.sources.past import open_past

from ..core.scene import D_LEG, MS, P_LEG, events_of, moment, moments

SECOND = 10**9
LATER = 30_000
"""ms"""


def step(engine: str, number: int, ms: float, **more: Any) -> dict[str, Any]:
    """A step of 4 ms that ends at `ms`."""
    base = {"engine": engine, "leg": "engine"}
    told = {"step": number, "begin": round((ms - 4) * MS), "requests": 1, "tokens": 5, "connector_ns": 0} | more
    return moment(base, "step", ms, **told)


def chunked(begin: float) -> list[dict[str, Any]]:
    """A prompt computed in three chunks, with steps between the first two that ran without it; its engine and the other
    step all the time before."""
    steps = [step(engine, number, number * 10) for number in range(1, round(begin / 10)) for engine in ("p0", "d0")]
    first = round(begin / 10)
    return [
        *steps,
        *(step("p0", first + index, begin + 10 + index * 10) for index in range(6)),
        *moments(P_LEG, arrived=begin, taken=begin + 1, queued=begin + 2, released=begin + 90),
        moment(P_LEG, "scheduled", begin + 5, step=first, tokens=100),
        moment(P_LEG, "chunk", begin + 45, step=first + 3, tokens=100),
        moment(P_LEG, "computed", begin + 60, step=first + 4),
        *moments(D_LEG, arrived=begin + 61, taken=begin + 62, scheduled=begin + 64, first_token=begin + 70),
        moment(D_LEG, "queued", begin + 63, remote_request=P_LEG["request"]),
        moment(D_LEG, "finished", begin + 80, tokens=2),
    ]


@pytest.mark.parametrize("most", [20, 500, 10**6])
def test_gaps_between_chunks_are_cut_out_whatever_the_size_of_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(item)}\n" for item in chunked(LATER)))
    monkeypatch.setattr(passage_module, "MOST", most)
    monkeypatch.setattr("kvscope.sources.bytime.BLOCK", 8)
    found = list(passage(open_past([path], lambda share: None)))
    assert (len(found) > 20) is (most == 20)
    splits: Splits = concat([each for part in found for each in part.over])
    expected = split(open_all([path], None).events)
    assert [(each.ttft_ns, each.exposed, each.shape) for each in splits] == [
        (each.ttft_ns, each.exposed, each.shape) for each in expected
    ]
    assert expected[0].exposed["prefill_gap"] == 8 * MS
    assert sum(len(part.events) for part in found) == len(open_all([path], None).events)


def test_steps_are_put_by_as_long_as_the_join_keeps_them_and_no_longer() -> None:
    """Two a second, of which the later one tells how far the clock has come, and is given at once."""
    items = [step(engine, number, number * 500) for number in range(1, 21) for engine in ("p0", "d0")]
    events = events_of(items)
    needed = Needed(events.processes, 3 * SECOND)
    for begin in range(0, 10 * SECOND, SECOND):
        rows = events.rows[(events.rows["t"] > begin) & (events.rows["t"] <= begin + SECOND)]
        given = needed.of(rows, begin, begin + SECOND)
        assert given["t"].tolist() == [begin + SECOND] * 2
    chunk = events_of([moment(P_LEG, "chunk", 10_001, step=30)])
    given = needed.of(chunk.rows, 10 * SECOND, 11 * SECOND)
    steps = given[given["moment"] == MOMENT_CODE["step"]]
    assert sorted(steps["t"].tolist()) == [number * SECOND + SECOND // 2 for number in (6, 7, 8, 9)]
    assert set(steps["process"].tolist()) == {0}, "the other engine computes no prompt"
    again = events_of([step("p0", 31, 10_050), step("p0", 32, 10_060)])
    assert len(needed.of(again.rows, 11 * SECOND, 12 * SECOND)) == 2


def test_nothing_but_steps_and_loads_is_put_by() -> None:
    events = events_of([*chunked(100), moment({"engine": "p0"}, "load", 50, waiting=1), *moments(D_LEG, arrived=300)])
    given = Needed(events.processes, SECOND).of(events.rows, 0, SECOND)
    kept = events.rows["request"] != 0
    assert set(map(bytes, events.rows[kept])) <= set(map(bytes, given))
    assert len(given) < len(events)
