"""A recording gone through bit by bit holds what it holds read at once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.export import passage as passage_module
from kvscope.export.passage import Part, export, passage
from kvscope.model.splits import Splits, concat
from kvscope.probe.recording import Writer
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, UNKNOWN
from kvscope.sources.opening import open_all
from kvscope.sources.past import open_past
from kvscope.sources.records import RECORD

from ..core.scene import MS, push_early

REAL = Path("docs/pictures/push-early.kvs")
HANDSHAKE = (("begun", 108.25), ("ended", 108.75))
"""ms: while the push of the design is prepared."""


def parts(monkeypatch: pytest.MonkeyPatch, most: int, **bounds: int) -> list[Part]:
    monkeypatch.setattr(passage_module, "MOST", most)
    past = open_past([REAL], lambda share: None)
    try:
        begin = past.begin + bounds["begin"] if "begin" in bounds else None
        end = past.begin + bounds["end"] if "end" in bounds else None
        return list(passage(past, begin, end))
    finally:
        past.close()


def by_id(splits: Splits) -> dict[str, tuple[int, ...]]:
    return {splits.text(row): (int(splits.ttft[row]), *splits.exposed[row].tolist()) for row in range(len(splits))}


@pytest.mark.parametrize("most", [300, 5_000, 10**9])
def test_the_same_events_and_requests_whatever_the_size_of_parts(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    whole = open_all([REAL], None).events
    found = parts(monkeypatch, most)
    assert len(found) > 1
    t = np.concatenate([part.events.rows["t"] for part in found])
    assert Counter(t.tolist()) == Counter(whole.rows["t"].tolist())
    assert by_id(concat([each for part in found for each in part.over])) == by_id(split(whole))


def test_requests_that_are_long_over_at_the_end_of_a_part(tmp_path: Path) -> None:
    """Where little happens, a part is long: what was cut out of a stage for a handshake is cut out all the same."""
    meeting = [
        {"engine": "p0", "peer_engine": "d0", "moment": f"handshake_{edge}", "t": round(t * MS)}
        for edge, t in HANDSHAKE
    ]
    items = [*push_early(), *meeting, {"engine": "p0", "moment": "load", "waiting": 0, "t": 900 * 10**9}]
    path = tmp_path / "long.jsonl"
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items))
    past = open_past([path], lambda share: None)
    found = concat([each for part in passage(past) for each in part.over])
    past.close()
    assert found[0].exposed["handshake"] == MS // 2
    assert by_id(found) == by_id(split(open_all([path], None).events))


def test_a_process_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, tuple[str, int]] = {}
    for part in parts(monkeypatch, 300):
        for number, process in enumerate(part.events.processes):
            assert seen.setdefault(number, (process.engine, process.pid)) == (process.engine, process.pid)
    assert len(seen) > 1


def test_a_stretch_holds_what_lies_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = open_all([REAL], None).events.rows["t"]
    begin, end = 4_000_000_000, 6_000_000_000
    first = int(whole.min())
    t = np.concatenate([part.events.rows["t"] for part in parts(monkeypatch, 500, begin=begin, end=end)])
    assert sorted(t.tolist()) == sorted(whole[(whole >= first + begin) & (whole <= first + end)].tolist())


class Told:
    """Takes parts up to one, and notes what it is told."""

    def __init__(self, most: int) -> None:
        self.most, self.told = most, list[str]()

    def take(self, part: Part) -> None:
        if len(self.told) == self.most:
            raise OSError("no more")
        self.told.append("take")

    def finish(self) -> str:
        self.told.append("finish")
        return "done"

    def abandon(self) -> None:
        self.told.append("abandon")


def test_where_one_sink_fails_all_are_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Told(9), Told(1)
    with pytest.raises(OSError, match="no more"):
        export(iter(parts(monkeypatch, 2_000)), [first, second])
    assert first.told[-1] == second.told[-1] == "abandon"
    assert "finish" not in first.told + second.told


def test_records_that_cannot_be_are_no_records_of_several_sources(tmp_path: Path) -> None:
    rows = np.zeros(9, RECORD)
    rows["sequence"], rows["t"], rows["values"] = np.arange(1, 10), 10**12, UNKNOWN
    rows["moment"], rows["leg"] = MOMENT_CODE["arrived"], LEG_CODE["prefill"]
    rows["moment"][1:] = 255
    with (tmp_path / "odd.kvs").open("wb") as file:
        writer = Writer(file)
        writer.process(0, {"boot_id": "b", "pid": 1, "start_ticks": 7, "segments": 1, "started": {"engine": "e0"}})
        writer.records(0, 1, rows.tobytes())
        writer.end({})
    past = open_past([tmp_path / "odd.kvs"], lambda share: None)
    try:
        found = list(passage(past))
    finally:
        past.close()
    assert sum(len(part.events) for part in found) == 1
    assert sum(part.events.impossible for part in found) == 8
    assert found[-1].notes == ()
