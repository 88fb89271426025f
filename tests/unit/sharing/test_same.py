"""What is said of requests is the same after sharing, to the nanosecond; sizes are rounded, and nobody is named."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.analysis.document import summary_object
from kvscope.analysis.summary import gather_summary
from kvscope.core.critical_path import split
from kvscope.model.events import Events, Process
from kvscope.model.requests import RequestSplit
from kvscope.probe.ids import DROP, HASH, KEEP, Ids
from kvscope.sharing.rounding import rounded_one
from kvscope.sharing.share import Wishes, share
from kvscope.sources.jsonl import parse_jsonl
from kvscope.sources.opening import open_all
from tests.unit.core.scene import events_of, moment, moments, pull, push_early, push_sequential
from tests.unit.core.simulator import Cause, fleets, items
from tests.unit.core.unusual import Items, on_hosts, worlds, years

from .written import alike, info_of, requests, said, write

EXAMPLES = settings(max_examples=25, deadline=None)
REAL = [Path(f"docs/pictures/{name}.kvs") for name in ("push-early", "push-sequential", "pull")]
KEY = b"k" * 32


def shared(path: Path, wishes: Wishes | None = None) -> Path:
    out = path.parent / f"shared-{path.name}"
    share([path], out, wishes or Wishes(), force=True)
    return out


@pytest.mark.parametrize("mode", [HASH, DROP, KEEP])
@pytest.mark.parametrize("secret", [None, KEY])
@pytest.mark.parametrize("real", REAL, ids=lambda path: path.stem)
def test_of_real_engines(real: Path, tmp_path: Path, mode: str, secret: bytes | None) -> None:
    out = tmp_path / "out.kvs"
    share([real], out, Wishes(mode, secret))
    alike(real, out)
    assert [note for note in open_all([out], None).notes if "sizes in it" not in note] == []


@pytest.mark.parametrize("real", REAL, ids=lambda path: path.stem)
def test_the_report_has_the_same_numbers(real: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.kvs"
    share([real], out, Wishes())
    before, after = summary(real), summary(out)
    assert before["bands"]
    for called in ("setup", "slowest", "pairs", "notes"):
        del before[called], after[called]
    price = before["price"], after["price"]
    for each in price:
        assert [told.pop("engine") for told in each["connector"]]
    assert after == before


def summary(path: Path) -> dict[str, Any]:
    opened = open_all([path], None)
    return summary_object(gather_summary(opened.events, split(opened.events), None, 5, opened.notes))


@given(fleets(most=4))
@EXAMPLES
def test_of_made_up_ones(tmp_path_factory: pytest.TempPathFactory, fleet: list[Cause]) -> None:
    held(tmp_path_factory, [item for cause in fleet for item in items(cause)])


@given(worlds(most=4), st.none() | years(), st.booleans())
@EXAMPLES
def test_of_unusual_ones(
    tmp_path_factory: pytest.TempPathFactory, world: list[Items], ahead: int | None, late: bool
) -> None:
    found = [item for request in world for item in request]
    held(tmp_path_factory, found if ahead is None else on_hosts(found, ahead), late)


def held(factory: pytest.TempPathFactory, found: Items, late: bool = False) -> None:
    path = write(events_of(found), factory.mktemp("made") / "it.kvs", late=late)
    for wishes in (Wishes(), Wishes(HASH, KEY)):
        alike(path, shared(path, wishes))


def test_each_request_has_the_name_that_the_key_gives_it(tmp_path: Path) -> None:
    path = write(events_of(push_early()), tmp_path / "it.kvs")
    (before,), (after,) = requests(path), requests(shared(path, Wishes(HASH, KEY)))
    assert after.request == Ids(KEY).name(before.request) != before.request
    assert after.peer_request == Ids(KEY).name(before.peer_request)
    assert (requests(shared(path, Wishes(KEEP)))[0].request, requests(shared(path, Wishes(DROP, KEY)))[0].request) != (
        before.request,
        after.request,
    )
    assert requests(shared(path, Wishes(KEEP)))[0].request == before.request
    assert requests(shared(path, Wishes(DROP, KEY)))[0].request != after.request


def test_engines_are_called_by_what_they_do(tmp_path: Path) -> None:
    found = [*push_early(), *push_sequential()]
    router = [{"engine": "lb-7", "leg": "router", "request": "x", "t": 1, "moment": "received"}]
    dark = moment({"engine": "d0", "leg": "decode", "request": "y"}, "queued", 9, peer_engine="10.0.0.9:5600")
    path = write(events_of([*found, *router, dark]), tmp_path / "it.kvs")
    opened = open_all([shared(path)], None).events
    assert {process.engine for process in opened.processes} == {"P1", "D1", "R1"}
    assert "e1" in opened.texts.values()


def test_a_restarted_engine_is_another_start_of_the_same(tmp_path: Path) -> None:
    first = moments({"engine": "p", "engine_id": "one", "leg": "prefill", "request": "a"}, arrived=1, taken=2)
    second = moments({"engine": "p", "engine_id": "two", "leg": "prefill", "request": "b"}, arrived=3, taken=4)
    path = write(events_of([*first, *second]), tmp_path / "it.kvs")
    processes = open_all([shared(path)], None).events.processes
    assert [(each.engine, each.engine_id) for each in processes] == [("P1", "P1.1"), ("P1", "P1.2")]


def test_two_recordings_with_one_key_still_join(tmp_path: Path) -> None:
    """Each side was recorded and shared for itself."""
    whole = events_of(pull())
    both = write(whole, tmp_path / "both.kvs")
    sides = [write(_side(whole, number), tmp_path / f"{number}.kvs", _numbered(number)) for number in (0, 1)]
    joined = [shared(side, Wishes(HASH, KEY)) for side in sides]
    found = list(requests_of(joined))
    assert [said(each) for each in found] == [said(each, rounded_one) for each in requests(both)]
    assert found[0].complete
    apart = [shared(side, Wishes(HASH, None)) for side in sides]
    assert not any(split.complete for split in requests_of(apart))


def _side(events: Events, number: int) -> Events:
    rows = events.rows[events.rows["process"] == number].copy()
    rows["process"] = 0
    return Events(rows, (events.processes[number],), events.texts)


def _numbered(number: int) -> Callable[[Process, int], dict[str, Any]]:
    return lambda process, _: info_of(process, number)


def requests_of(paths: list[Path]) -> list[RequestSplit]:
    return list(split(open_all(paths, None).events))


def test_several_recordings_become_one(tmp_path: Path) -> None:
    whole = events_of(pull())
    sides = [write(_side(whole, number), tmp_path / f"{number}.kvs", _numbered(number)) for number in (0, 1)]
    both = write(whole, tmp_path / "both.kvs")
    out = tmp_path / "out.kvs"
    share(sides, out, Wishes())
    assert len(open_all([out], None).events.processes) == 2
    alike(both, out)


def test_to_share_again_changes_no_size(tmp_path: Path) -> None:
    once = tmp_path / "once.kvs"
    share([REAL[0]], once, Wishes())
    twice = shared(once)
    assert Counter(map(said, requests(twice))) == Counter(map(said, requests(once)))


def test_the_time_of_day_is_kept_on_demand_alone(tmp_path: Path) -> None:
    path = write(events_of(push_early()), tmp_path / "it.kvs")
    (before,) = {process.wall_ns for process in open_all([path], None).events.processes}
    assert before == 1_700_000_000_000_000_000
    assert {process.wall_ns for process in open_all([shared(path)], None).events.processes} == {None}
    for wishes in (Wishes(keep_time=True), Wishes(HASH, KEY, keep_time=True)):
        kept = open_all([shared(path, wishes)], None).events
        assert {int(kept.rows["t"].min()) + (process.wall_ns or 0) for process in kept.processes} == {before}


def test_a_clock_begins_at_a_second(tmp_path: Path) -> None:
    found = parse_jsonl([json.dumps(item | {"t": item["t"] + 10**15}) for item in push_early()]).events
    path = write(found, tmp_path / "it.kvs")
    assert int(open_all([shared(path)], None).events.rows["t"].min()) == 10**9
    keyed = int(open_all([shared(path, Wishes(HASH, KEY))], None).events.rows["t"].min())
    assert abs(keyed - 10**15) > 10**12, "by as much as the key says"
