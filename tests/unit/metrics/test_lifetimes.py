"""What is told of an engine from its start to a while after its end, and what is told of none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kvscope.core.stream import SECOND
from kvscope.metrics.roll import GONE_NS
from kvscope.model.events import Events, Process
from kvscope.probe.vocabulary import UNKNOWN

from ..live.fleet import events, request
from ..live.picture import steps
from .reader import Reader
from .test_ledger import GROUP, counted, engines


def processes_of(found: Events, epoch: int, **more: object) -> tuple[Process, ...]:
    return tuple(replace(each, engine_id=f"{each.engine}-{epoch}", pid=epoch, **more) for each in found.processes)  # type: ignore[arg-type]


def test_counters_go_on_over_a_restart_and_end_with_an_engine_that_is_gone_while_totals_stay() -> None:
    reader = Reader()
    found = events([[*engines("p0", "d0"), *request("early", 0, 0)]])
    first = processes_of(found, 1)
    reader.take(Events(found.rows, first, found.texts), 1)
    reader.quiet(5, first)
    before = reader.scrape()
    assert reader.total("kvscope_engine_legs_total", engine_name="d0") == 1

    dead = tuple(replace(each, ended=True) for each in first)
    again = events([[*engines("p0", "d0"), *request("early", 1, 10_000)]])
    second = processes_of(again, 2)
    both = Events(again.rows, (*second, *dead), again.texts)
    reader.take(both, 11)
    reader.quiet(15, (*second, *dead))
    after = reader.scrape()
    assert reader.total("kvscope_engine_legs_total", engine_name="d0") == 2
    assert reader.total("kvscope_engine_starts_total", engine_name="d0") == 2
    counters = [
        series for series in before if series.partition("{")[0].endswith(("_total", "_count", "_sum", "_bucket"))
    ]
    assert all(after[series] >= before[series] for series in counters)

    gone = tuple(replace(each, ended=True) for each in (*second, *dead))
    reader.quiet(20, gone)
    assert reader.total("kvscope_engine_recording") == 0
    reader.quiet(20 + GONE_NS / SECOND - 1, gone)
    assert reader.total("kvscope_engine_legs_total", engine_name="d0") == 2
    reader.quiet(20 + GONE_NS / SECOND, gone)
    assert not [series for series in reader.scrape() if "=d0" in series and not series.startswith("kvscope_pair")]
    assert reader.total("kvscope_requests_total", **GROUP) == 2
    assert reader.total("kvscope_ttft_seconds_count", **GROUP) == 2


def test_an_engine_s_series_do_not_change_their_labels_once_it_told_what_it_is() -> None:
    reader = Reader()
    silent = (Process("d0", "d0-1", pid=1), Process("d0", "d0-1", pid=2))
    reader.quiet(1, silent)
    assert "d0" not in reader.exporter.page("").body.decode()
    told = replace(silent[1], started={"model": ["m", "alias"], "dp_rank": 1, "connector": "Nixl"})
    reader.quiet(2, (silent[0], told))
    assert reader.scrape()["kvscope_engine_recording{engine=1,engine_name=d0,model_name=m}"] == 1
    assert "unknown" not in {part.partition("=")[2] for series in reader.scrape() if "d0" in series
                             for part in series.partition("{")[2][:-1].split(",")}  # fmt: skip


def test_what_was_over_before_is_not_counted_and_what_ends_after_is() -> None:
    reader = Reader(since=round(0.5 * SECOND))
    early, late = request("early", 0, 0), request("early", 1, 450)
    reader.items([*engines("p0", "d0"), *early, *late, *steps("d0", [20, 20], begin_ms=470)], 1)
    for now in (5, 80):
        reader.quiet(now)
    assert reader.total("kvscope_requests_total") == 1
    assert reader.total("kvscope_ttft_seconds_sum") == pytest.approx(0.136)
    assert reader.total("kvscope_engine_steps_total", engine_name="d0") == 1


def test_losses_count_for_the_engine_whose_rings_lost() -> None:
    reader = Reader()
    process = Process("d0", "d0-1", started={"model": "m", "connector": "Nixl"}, lost=3, earlier=100)
    reader.quiet(1, (process,))
    reader.quiet(2, (replace(process, lost=10),))
    reader.quiet(3, (replace(process, lost=10),))
    assert reader.total("kvscope_engine_events_lost_total", engine_name="d0") == 10


def test_a_process_with_the_pid_of_one_that_ended_is_another_one() -> None:
    reader = Reader()
    old = Process("d0", pid=7, started={"model": "m", "connector": "Nixl"}, lost=500, wall_ns=1)
    reader.quiet(1, (old,))
    old = replace(old, ended=True)
    new = replace(old, ended=False, lost=0, wall_ns=2)
    for lost, now in ((0, 2), (100, 3)):
        reader.quiet(now, (replace(new, lost=lost), old))
        assert reader.total("kvscope_engine_recording", engine_name="d0") == 1
    assert reader.total("kvscope_engine_events_lost_total", engine_name="d0") == 600


def test_oddities_and_clocks_are_told() -> None:
    items = request("early", 0, 0)
    reader = counted([*engines("p0", "d0"), *items, *items])
    assert reader.total("kvscope_oddities_total", kind="duplicates") == len(items)
    assert reader.total("kvscope_clock_bound_seconds") == 0
    hosts = tuple(Process(name, host=name, started={"model": "m"}) for name in ("d0", "p0"))
    reader.quiet(90, hosts)
    assert math.isinf(reader.total("kvscope_clock_bound_seconds"))


def test_an_engine_that_is_not_instrumented_is_told_of_and_a_router_is_none() -> None:
    reader = Reader()
    reader.quiet(1, (Process("dark", note="switched off"), Process("router", started={"process": "router"})))
    assert reader.scrape()["kvscope_engine_recording{engine=unknown,engine_name=dark,model_name=unknown}"] == 0
    assert "router" not in "".join(series for series in reader.scrape() if "engine_name" in series)


def test_there_is_something_to_scrape_before_anything_came() -> None:
    reader = Reader()
    assert reader.total("kvscope_build_info") == 1
    assert reader.total("kvscope_reader_events_total") == 0
    assert UNKNOWN not in reader.scrape().values()
