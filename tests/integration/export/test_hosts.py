"""Recordings of several hosts, whose clocks began at different times: what happened together is met together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kvscope.export import passage as passage_module
from kvscope.export.parquet import sink as sink_module
from kvscope.export.passage import passage
from kvscope.model.events import Process
from kvscope.probe.recording import ProcessPart, RecordsPart, TextsPart, Writer, parts
from kvscope.sources.past import open_past
from kvscope.sources.records import RECORD
from kvscope.sources.sidebyside import shifts, side_by_side

from ...unit.core.unusual import on_hosts, pulled
from .trips import PICTURES, report, tables

DAY = 24 * 3600 * 10**9
PUSH = PICTURES / "push-early.kvs"


def apart(folder: Path, ahead: int, told: bool = True) -> tuple[Path, Path]:
    """What the decode engine's host recorded, its clock `ahead` ns, and what the other did."""
    here, there = folder / "prefill.kvs", folder / "decode.kvs"
    with open(PUSH, "rb") as file, open(here, "wb") as one, open(there, "wb") as other:
        writers = Writer(one), Writer(other)
        far = dict[int, bool]()
        for part in parts(file):
            match part:
                case ProcessPart(process, info):
                    far[process] = info["started"].get("engine") == "d0"
                    if far[process]:
                        info = info | {"boot_id": "another-host", "monotonic_ns": info["monotonic_ns"] + ahead}
                    writers[far[process]].process(process, info if told else info | {"realtime_ns": 0})
                case TextsPart(pairs):
                    for writer in writers:
                        writer.texts(pairs)
                case RecordsPart(process, thread, raw):
                    rows = np.frombuffer(raw, RECORD).copy()
                    rows["t"] += ahead * far[process]
                    writers[far[process]].records(process, thread, rows.tobytes())
        for writer in writers:
            writer.end({})
    return here, there


def requests(folder: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / "requests.parquet").to_pylist())


@pytest.mark.parametrize("ahead", [50 * DAY, -DAY // 3, 10**7])
@pytest.mark.parametrize("told", [True, False])
def test_requests_across_hosts_are_the_report_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int, told: bool
) -> None:
    monkeypatch.setattr(passage_module, "MOST", 500)
    monkeypatch.setattr(sink_module, "EVENTS_MOST", 700)
    sources = apart(tmp_path, ahead, told)
    folder = tables(tmp_path / "tables", *sources)
    expected = json.loads(report(*sources))
    assert {each["state"] for each in expected["requests"]} == {"unaligned"}
    found = {row["request"]: row for row in requests(folder)}
    assert len(found) == len(expected["requests"]) == 63
    for each in expected["requests"]:
        row = found[each["request"]]
        assert {name: row[name] for name in each.keys() & row.keys()} == {
            name: each[name] for name in each.keys() & row.keys()
        }
    assert report(folder) == report(*sources)
    again = tables(tmp_path / "again", folder)
    assert report(again) == report(*sources)
    assert sorted(map(str, requests(again))) == sorted(map(str, requests(folder)))


def test_what_happened_together_lies_in_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_module, "MOST", 400)
    past = side_by_side(open_past(apart(tmp_path, 50 * DAY), lambda share: None))
    try:
        assert past.end - past.begin < 60 * 10**9
        found = list(passage(past))
        hosts = [{part.events.processes[number].host for number in part.events.rows["process"]} for part in found[1:-2]]
        assert sum(len(each) == 2 for each in hosts) > len(hosts) / 2 > 3
        stretch = list(passage(past, past.begin, past.begin + (past.end - past.begin) // 2))
        assert 1000 < sum(len(part.events) for part in stretch) < 3500
    finally:
        past.close()


def test_json_lines_of_two_hosts_without_a_time_of_day(tmp_path: Path) -> None:
    moments = on_hosts([item for number in range(40) for item in pulled(f"a{number}", number * 10_000)], 10**17)
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in moments))
    found = requests(tables(tmp_path / "tables", tmp_path / "a.jsonl"))
    assert [row["state"] for row in found] == ["unaligned"] * 40


def test_only_what_cannot_be_one_clock_is_moved() -> None:
    def of(*hosts: tuple[str, int | None]) -> list[Process]:
        return [Process("e", host=host, wall_ns=wall) for host, wall in hosts]

    reaches = np.array([[100, 200], [150, 250], [5_000, 5_100]])
    assert shifts(of(("a", 7), ("a", 9), ("a", 7)), reaches).tolist() == [0, 0, 0]
    assert shifts(of(("a", None), ("b", None), ("", None)), reaches).tolist() == [0, 0, 0]
    assert shifts(of(("a", None), ("b", None), ("c", None)), reaches).tolist() == [0, 0, -4_900]
    assert shifts(of(("a", 1_000), ("b", 1_010), ("c", -3_900)), reaches).tolist() == [0, 10, -4_900]
    assert shifts(of(("a", 1_000), ("b", None), ("c", -3_900)), reaches).tolist() == [0, 0, -4_900]
