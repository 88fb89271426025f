"""Engines that were off for a while: the picture says so as long as that while is in it."""

from __future__ import annotations

from dataclasses import replace

from kvscope.analysis.render.page import Page
from kvscope.core.stream import SECOND
from kvscope.live.collector import Collector, Settings
from kvscope.live.feed import Batch
from kvscope.live.gaps import Gap, Gaps
from kvscope.model.events import Events, Process
from kvscope.top.pages.overview import put_overview

from .fleet import events, stretch
from .test_collector import Script

P, D = Process("p0"), Process("d0", pid=1)
OFF = replace(D, off=True)


def test_a_gap_lasts_from_the_look_that_saw_it_off_to_the_one_that_saw_it_on() -> None:
    gaps = Gaps(100)
    for now, processes in ((10, (P, D)), (20, (P, OFF)), (30, (P, OFF)), (40, (P, D)), (50, (P, D))):
        gaps.add(processes, now)
    assert gaps.since(0) == (Gap("d0", 20, 40),)
    assert gaps.since(39) == (Gap("d0", 20, 40),)
    assert gaps.since(40) == ()
    gaps.add((P, D), 140)
    assert gaps.since(0) == ()


def test_an_engine_is_off_as_long_as_one_of_its_processes_is() -> None:
    other = replace(D, pid=2)
    gaps = Gaps(100)
    for now, processes in ((10, (OFF, replace(other, off=True))), (20, (OFF, other)), (30, (D, other))):
        gaps.add(processes, now)
    assert gaps.since(0) == (Gap("d0", 10, 30),)


def test_one_that_ended_while_it_was_off_did_not_come_back() -> None:
    gaps = Gaps(100)
    gaps.add((P, OFF), 10)
    gaps.add((P, replace(OFF, ended=True)), 20)
    assert gaps.since(0) == ()


class Switched(Script):
    """Both engines are switched off between second 5 and second 8, and record nothing meanwhile."""

    def poll(self) -> Batch:
        batch = super().poll()
        off = 5 * SECOND <= batch.now < 8 * SECOND
        processes = tuple(replace(process, off=off) for process in batch.events.processes)
        return replace(batch, events=Events(batch.events.rows, processes, batch.events.texts))


def test_the_data_line_tells_of_the_gap_while_it_is_in_the_window() -> None:
    collector = Collector(Switched(events(stretch("early", 0, 4) + stretch("early", 9, 40))), Settings(10 * SECOND))
    found = {}
    for _ in range(30 * 4):
        snapshot, page = collector.step(), Page(120)
        put_overview(page, snapshot)
        found[snapshot.now / SECOND] = " ".join(" ".join(line.plain for line in page.lines[1:4]).split())
    said = "d0 p0 off for 3.00 s until 8.0 s"
    assert [at for at, text in found.items() if said in text] == [8 + n / 4 for n in range(40)]
    assert found[4.0].startswith("DATA good")
    assert found[6.0].startswith("DATA in part")
    assert found[9.0].startswith("DATA in part")
    assert found[25.0].startswith("DATA good")
