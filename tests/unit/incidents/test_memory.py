"""What is kept packed can be read as it was; no more than was asked for is kept."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from kvscope.core.critical_path import split
from kvscope.incidents.memory import SECOND, Block, Memory
from kvscope.incidents.splicing import EVER, Splice
from kvscope.model.events import Events
from kvscope.probe.ids import Ids
from kvscope.probe.recording import ProcessPart, RecordsPart, TextsPart, parts
from kvscope.sources.gathering import Gathering
from kvscope.sources.recording import read_into, read_recordings
from kvscope.sources.records import RECORD, records
from kvscope.sources.rings import RingReading

WHOLE = Path(__file__).parents[3] / "docs" / "pictures" / "push-early.kvs"


class Reading:
    """As far as a memory asks."""

    def __init__(self, **info: Any) -> None:
        self.info = info


def readings(*infos: dict[str, Any]) -> list[RingReading]:
    return [cast(RingReading, Reading(**info)) for info in infos]


def played(memory: Memory) -> Iterator[int]:
    """Give a memory a recording as it was written; yields the time after each part."""
    infos: dict[int, dict[str, Any]] = {}
    told: list[tuple[bytes, str]] = []
    with WHOLE.open("rb") as file:
        for part in parts(file):
            match part:
                case ProcessPart(number, info):
                    infos[number] = info
                case TextsPart(pairs):
                    told += pairs
                case RecordsPart(number, _, raw):
                    memory.add(number, records(raw), told)
                    told = []
                    now = int(records(raw)["t"].max())
                    seen = readings(*(infos[number] for number in sorted(infos)))
                    memory.look(seen, now)
                    yield now
    memory.seal(readings(*(infos[number] for number in sorted(infos))), now + 1)


def saved(blocks: list[Block], stretch: tuple[int, int] = EVER, ids: Ids | None = None) -> Events:
    file = io.BytesIO()
    splice = Splice(file, stretch, ids)
    for block in blocks:
        splice.add(block)
    splice.end()
    gathering = Gathering()
    assert read_into(gathering, io.BytesIO(file.getvalue()), "saved") == []
    events = gathering.events()
    assert splice.events == len(events)
    assert splice.span == (events.rows["t"].min(), events.rows["t"].max())
    return events


def test_all_of_it_is_what_was_read() -> None:
    memory = Memory(keep_s=3600, block_s=2)
    list(played(memory))
    whole, again = read_recordings([WHOLE]), saved(memory.since(0))
    assert len(memory.since(0)) > 5
    assert sorted(map(bytes, again.rows)) == sorted(map(bytes, whole.rows))
    assert again.processes == whole.processes
    assert list(split(again)) == list(split(whole))
    assert memory.held.events == len(whole)
    assert memory.held.dropped == 0


def test_a_stretch_stands_alone_and_adds_up() -> None:
    memory = Memory(keep_s=3600, block_s=2)
    list(played(memory))
    blocks = memory.since(0)
    part = saved(blocks[3:6])
    assert len(part) == sum(block.events for block in blocks[3:6])
    assert set(part.rows["request"].tolist()) - {0} <= set(part.texts)
    assert sum(process.earlier for process in part.processes) == sum(block.events for block in blocks[:3])
    assert sum(process.lost for process in part.processes) == 0
    torn = saved([blocks[3], blocks[5]])
    assert sum(process.lost for process in torn.processes) == blocks[4].events > 0


def test_a_stretch_of_time_is_cut_to_the_event_and_adds_up() -> None:
    memory = Memory(keep_s=3600, block_s=2)
    list(played(memory))
    whole = read_recordings([WHOLE])
    times = np.sort(whole.rows["t"])
    first, last = int(times[len(times) // 3]), int(times[2 * len(times) // 3])
    part = saved(memory.since(0), (first, last))
    wanted = whole.rows[(whole.rows["t"] >= first) & (whole.rows["t"] <= last)]
    assert sorted(map(bytes, part.rows)) == sorted(map(bytes, wanted))
    assert set(part.rows["request"].tolist()) - {0} <= set(part.texts)
    before = Counter(whole.rows["process"][whole.rows["t"] < first].tolist())
    assert [process.earlier for process in part.processes] == [before[n] for n in range(len(part.processes))]
    assert [process.lost for process in part.processes] == [0] * len(whole.processes)


def test_what_rings_held_before_reading_began_counts_as_held() -> None:
    memory, old = Memory(keep_s=60), np.ones(10, RECORD)
    old["t"] = np.arange(1, 11) * SECOND
    memory.add(0, old, [])
    memory.look(readings({"pid": 1, "segments": 1}), 29 * SECOND)
    memory.seal(readings({"pid": 1, "segments": 1}), 30 * SECOND)
    (block,) = memory.since(0)
    assert (block.first, block.last) == (SECOND, 10 * SECOND)
    assert memory.held.seconds == 29
    memory.add(0, old, [])
    memory.seal(readings({"pid": 1, "segments": 1}), 80 * SECOND)
    assert memory.held.seconds == 60


def test_ids_are_hidden_in_what_is_saved_and_still_join() -> None:
    memory, ids = Memory(keep_s=3600, block_s=2), Ids(b"k" * 32)
    list(played(memory))
    plain, hidden = read_recordings([WHOLE]), saved(memory.since(0), ids=ids)
    requests = {plain.texts[key] for key in plain.rows["request"].tolist() if key}
    assert {hidden.texts[key] for key in hidden.rows["request"].tolist() if key} == {
        ids.name(each) for each in requests
    }
    assert not requests & set(hidden.texts.values())
    assert [process.engine for process in hidden.processes] == [process.engine for process in plain.processes]
    assert sorted(split(hidden).ttft) == sorted(split(plain).ttft)


def test_what_is_older_than_was_asked_is_dropped() -> None:
    memory = Memory(keep_s=4, block_s=1)
    for now in played(memory):
        blocks = memory.since(0)
        assert all(block.until >= now - 4 * SECOND - 2 * SECOND for block in blocks)
    assert memory.held.dropped == 0
    assert 2 <= memory.held.seconds <= 7


def test_no_more_bytes_are_held_than_were_asked_for_and_what_that_costs_is_counted() -> None:
    memory = Memory(keep_s=3600, most_bytes=60_000, block_s=1)
    sizes = [memory.held.size for _ in played(memory)]
    assert max(sizes) <= 60_000
    held = memory.held
    assert held.dropped > 0
    assert held.dropped + held.events == len(read_recordings([WHOLE]))


def test_it_is_a_fraction_of_what_was_read() -> None:
    memory = Memory(keep_s=3600)
    list(played(memory))
    assert memory.held.size * 3 < memory.held.events * RECORD.itemsize


def test_losses_are_told_as_of_the_first_block() -> None:
    memory, one = Memory(keep_s=3600, block_s=1), np.ones(10, RECORD)
    for number, lost in enumerate((0, 4, 4, 9)):
        memory.add(0, one, [])
        memory.seal(readings({"pid": 1, "segments": 1, "lost": lost, "earlier": 100}), number * SECOND)
    blocks = memory.since(0)
    for first, wanted in ((0, (9, 100)), (1, (9, 110)), (2, (5, 124)), (3, (5, 134))):
        (process,) = saved(blocks[first:]).processes
        assert (process.lost, process.earlier) == wanted
