"""A Parquet folder by time gives what the recording gives that it was made of."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from kvscope.export import passage as passage_module
from kvscope.export.parquet import sink as sink_module
from kvscope.live.feed import Flow
from kvscope.live.replay import Replay
from kvscope.model.events import Events
from kvscope.sources.past import Past, open_past

from ..live.scenes import BEGIN, SECOND, Recording
from .trips import PICTURES, tables

RECORDINGS = [PICTURES / f"{name}.kvs" for name in ("pull", "push-early", "push-sequential")]


def quiet(share: float) -> None:
    assert 0 <= share <= 1


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.stem)
def both(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Past, Past]]:
    """The recording, and its tables in many row groups."""
    monkeypatch.setattr(passage_module, "MOST", 200)
    monkeypatch.setattr(sink_module, "EVENTS_MOST", 300)
    with ExitStack() as stack:
        found = [open_past([path], quiet) for path in (request.param, tables(tmp_path / "tables", request.param))]
        for past in found:
            stack.callback(past.close)
        yield found[0], found[1]


def said(events: Events) -> list[tuple[str, bytes]]:
    """What events say, in one order."""
    rows = events.rows.copy()
    names = [f"{process.engine} {process.pid}" for process in events.processes]
    who = [names[number] for number in rows["process"]]
    rows["process"] = 0
    return sorted(zip(who, map(bytes, rows), strict=True))


def test_the_same_events_and_processes_in_any_stretch_of_time(both: tuple[Past, Past]) -> None:
    recording, folder = both
    assert (folder.begin, folder.end) == (recording.begin, recording.end)
    draw = random.Random(1)
    for _ in range(60):
        after = draw.randrange(recording.begin - SECOND, recording.end)
        until = after + draw.choice((1, SECOND // 100, SECOND, 100 * SECOND))
        one, other = recording.between(after, until), folder.between(after, until)
        assert said(other) == said(one)
        assert other.texts == one.texts
        assert other.processes == one.processes
        assert folder.next_after(until) == recording.next_after(until)
        assert said(folder.whole(after, until)) == said(recording.whole(after, until))
    assert folder.processes == recording.processes
    assert folder.next_after(folder.end) is None


def test_what_has_to_be_looked_at_is_bounded(both: tuple[Past, Past]) -> None:
    _, folder = both
    at, parts = folder.begin - 1, 0
    while at < folder.end:
        until = folder.reach(at, folder.end, 500)
        assert until > at
        assert len(folder.between(at, until)) <= 1_000
        at, parts = until, parts + 1
    assert parts > 4


def replayed(path: Path) -> int:
    """Events that a replay gives, a quarter of a second at a time."""
    wall = iter(range(10**6))
    replay = Replay([path], lambda: next(wall) / 4)
    replay.wait()
    replay.set_speed(100)
    found = 0
    while (batch := replay.poll()).flow is not Flow.ENDED:
        found += len(batch.events)
    replay.close()
    return found + len(batch.events)


def test_it_can_be_replayed(tmp_path: Path) -> None:
    assert replayed(tables(tmp_path / "tables", RECORDINGS[0])) == replayed(RECORDINGS[0]) > 4_000


def test_a_process_is_there_from_its_first_event_on_and_one_that_never_spoke_always(tmp_path: Path) -> None:
    with Recording(tmp_path / "a.kvs") as recording:
        for number in range(3):
            recording.process(number)
        recording.records(0, [BEGIN, BEGIN + 9 * SECOND], "cmpl-a-0-aaaaaaaa")
        recording.records(1, [BEGIN + 5 * SECOND], "cmpl-b-0-aaaaaaaa")
        recording.end()
    past = open_past([tables(tmp_path / "tables", tmp_path / "a.kvs")], quiet)
    try:
        for until, there in ((BEGIN, ["e0", "e2"]), (BEGIN + 5 * SECOND, ["e0", "e1", "e2"])):
            events = past.between(until - 1, until)
            assert [process.engine for process in events.processes] == there
            assert np.array_equal(events.rows["t"], [until])
            assert events.processes[events.rows["process"][0]].engine == ("e0" if until == BEGIN else "e1")
    finally:
        past.close()
