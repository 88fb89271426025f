"""An aggregator's folder: each batch in it once, whoever is started anew in it, and followers that see just that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvscope.agents.batch import Batch
from kvscope.agents.following import Follower, Place, frames_in, place_of
from kvscope.agents.taking import Taker
from kvscope.agents.wire import sealed
from kvscope.live.taken import TakenFolder
from kvscope.metrics.reading import Reading
from kvscope.probe.recording import MARK, RECORDS, Frame, Writer
from kvscope.probe.ring import boot_id
from kvscope.sources import open_sources
from kvscope.sources.continued import continued
from kvscope.sources.rotation import parts_of

from .test_batches import ENVELOPE, batcher, info, record
from .test_batches import MARK as TOLD

EACH = 10


def batches(count: int, lost: int = 0) -> list[Batch]:
    """Of one process, so many records each, so many overwritten before each."""
    cutter, side = batcher()
    made = []
    for part in range(count):
        side.process(0, info(lost * (part + 1)))
        side.records(0, 0, b"".join(record(part * EACH + number) for number in range(EACH)))
        side.mark(TOLD)
        made += cutter.cut()
    return made


def take(taker: Taker, batch: Batch, **more: Any) -> dict[str, Any]:
    return taker.take(sealed(ENVELOPE | more, batch.data), "here", 1)


def test_a_batch_that_comes_again_is_acknowledged_and_counted_once(tmp_path: Path) -> None:
    (batch,) = batches(1)
    with Taker(tmp_path) as taker:
        assert take(taker, batch)["taken"] == take(taker, batch)["taken"] == ["run", 1]
        assert (taker.told["events"], taker.told["duplicate_batches"]) == (EACH, 1)
    assert len(open_sources([tmp_path], None).events) == EACH


def test_what_a_batch_that_never_came_held_is_lost(tmp_path: Path) -> None:
    first, _, third = batches(3, lost=2)
    with Taker(tmp_path) as taker:
        take(taker, first)
        take(taker, third)
        assert taker.told["missing_batches"] == 1
    (process,) = open_sources([tmp_path], None).events.processes
    assert process.lost == 3 * 2 + EACH


def test_whoever_is_started_anew_goes_on_and_cuts_off_what_was_not_acknowledged(tmp_path: Path) -> None:
    first, second, third = batches(3, lost=1)
    follower = TakenFolder(tmp_path)
    with Taker(tmp_path) as taker:
        take(taker, first)
    (part,) = parts_of(tmp_path)
    with part.open("ab") as file:  # as of one that was killed while it wrote the second
        torn = list(frames_in(second.data[16:], 0))
        for frame in torn:
            if frame.kind == RECORDS:
                _Appending(file).pass_on(frame)
        file.write(b"\x89KVP and no more")
    assert len(follower().events) == EACH
    with Taker(tmp_path) as taker:
        assert take(taker, first)["taken"] == ["run", 1]
        assert take(taker, second)["taken"] == ["run", 2]
        assert taker.told["duplicate_batches"] == 1
        asked = {"agent": ENVELOPE["agent"] | {"boot_id": boot_id()}, "ask": ["11-22-ab.ring", "1-1-ab.ring"]}
        assert taker.take(sealed(asked), "here", 1)["rings"] == TOLD["rings"]
        take(taker, third)
        batch = follower()
        assert len(batch.events) == 2 * EACH
        assert [process.lost for process in batch.events.processes] == [3]
    read = open_sources([tmp_path], None).events
    assert len(read) == 3 * EACH
    assert [process.lost for process in read.processes] == [3]


class _Appending(Writer):
    """Writes parts at the end of a file."""

    def __init__(self, file: Any) -> None:
        self._file = file


def test_what_cannot_be_written_is_not_acknowledged_and_comes_again(tmp_path: Path) -> None:
    first, second = batches(2)
    said: list[str] = []
    with Taker(tmp_path / "taken", say=said.append) as taker:
        take(taker, first)
        for path in parts_of(tmp_path / "taken"):
            path.unlink()
        (tmp_path / "taken").rmdir()
        (tmp_path / "taken").touch()  # nothing can be made there
        assert take(taker, second)["refused"]["kind"] == "full"
        assert taker.fault
        (tmp_path / "taken").unlink()
        assert take(taker, second)["taken"] == ["run", 2]
        assert not taker.fault
    assert len(said) == 1
    assert len(open_sources([tmp_path / "taken"], None).events) == EACH


def test_a_follower_goes_on_from_its_place_over_parts(tmp_path: Path) -> None:
    found: list[Frame] = []
    place = None
    with Taker(tmp_path) as taker:
        for batch in batches(6):
            take(taker, batch)
            if batch.part % 2:
                taker._writer.turn()
                taker._mark(taker._memory.whole())
            follower = Follower(tmp_path, place)
            found += follower.look()
            place = place_of([follower.place.part, follower.place.at])
    assert sum(frame.kind == RECORDS for frame in found) == 6
    assert not any(frame.kind == MARK for frame in found)
    assert place_of(["no", "place"]) is None


def test_a_follower_that_is_too_late_goes_on_with_the_oldest_there_is(tmp_path: Path) -> None:
    with Taker(tmp_path) as taker:
        (batch,) = batches(1)
        take(taker, batch)
    (part,) = parts_of(tmp_path)
    part.rename(part.with_name(part.name.replace("000001", "000007")))
    follower = Follower(tmp_path, Place(3, 500))
    assert sum(frame.kind == RECORDS for frame in follower.look()) == 1
    assert follower.missed == 1


def test_an_exchange_is_handed_on(tmp_path: Path) -> None:
    told = ["a", "b", 1, 5, 6, 9]
    with Taker(tmp_path) as taker:
        taker.take(sealed(ENVELOPE | {"exchange": told}), "here", 1)
        follower = Follower(tmp_path)
        follower.look()
    assert follower.exchanges == [told]


def test_losses_of_parts_add_up_and_one_part_is_as_it_says() -> None:
    first = {"earlier": 100, "lost": 3}
    assert continued(first, first)["lost"] == 3
    later = {"earlier": 100 + 50 + 7, "before": 50, "lost": 2, "alive": False}
    found = continued(later, first)
    assert (found["lost"], found["earlier"], found["before"], found["alive"]) == (7 + 2, 100, 0, False)


def test_metrics_of_an_aggregator_that_is_started_anew_count_what_comes_and_not_what_was_there(tmp_path: Path) -> None:
    first, second = batches(2, lost=2)
    with Taker(tmp_path) as taker:
        take(taker, first)
    with Taker(tmp_path) as taker:
        reading = Reading(TakenFolder(tmp_path))
        reading.recall()
        reading.step()
        lost = reading._ledger.store.table("engine_events_lost_total")
        assert lost.values.sum() == 0
        take(taker, second)
        reading.step()
        assert lost.values.sum() == 2
