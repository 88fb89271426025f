"""Live rings of real processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.vocabulary import MOMENT_CODE
from kvscope.sources.rings import LATEST_S, SOONEST_S, Rings, again_after, read_rings, reading_ahead

from ..live.conftest import until
from .conftest import Start

RING = 256


@pytest.fixture(autouse=True)
def small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", str(RING))


def numbers(events: Events) -> list[int]:
    """What the writer numbered its events."""
    return sorted(events.rows["values"][:, 0].tolist())


def test_a_poll_gives_what_is_new_and_processes_keep_their_index(run_dir: Path, start: Start) -> None:
    rings = Rings(run_dir)
    assert len(rings.poll()) == 0
    first = start("p0")
    first.tell("write 30")
    found = rings.poll()
    assert numbers(found) == list(range(30))
    assert [process.engine for process in found.processes] == ["p0"]
    start("d0").tell("write 5")
    first.tell("write 10 writer")
    found = rings.poll()
    assert [process.engine for process in found.processes] == ["p0", "d0"]
    assert np.bincount(found.rows["process"]).tolist() == [10, 5]
    assert len(rings.poll()) == 0


def test_rows_say_what_was_recorded(run_dir: Path, start: Start) -> None:
    start("p0").tell("write 25")
    found = read_rings(run_dir)
    rows = np.sort(found.rows, order="t")
    assert rows["t"].tolist() == list(range(1, 26))
    assert set(rows["moment"]) == {MOMENT_CODE["chunk"]}
    assert [found.texts[int(key)] for key in rows["request"]] == [f"p0-request-{n // 10}" for n in range(25)]
    process = found.processes[0]
    assert (process.engine_id, process.started["vllm"], process.lost) == ("p0-1", "0.32.0", 0)
    assert process.host


def test_nothing_is_overwritten_between_two_polls_where_rings_are_read_ahead(run_dir: Path, start: Start) -> None:
    """Ten bursts, each most of a ring."""
    writer, rings, burst = start("p0"), Rings(run_dir), RING * 3 // 4
    rings.poll()
    with reading_ahead(rings):
        for count in range(1, 11):
            writer.tell(f"write {burst}")
            until(lambda read=count * burst: rings.waiting >= read, "nobody reads ahead")  # type: ignore[misc]
    found = rings.poll()
    assert numbers(found) == list(range(10 * burst))
    assert found.processes[0].lost == 0


@pytest.mark.parametrize(
    ("filled", "elapsed_s", "again_s"),
    [(0.0, 0.1, LATEST_S), (1.0, 0.8, 0.2), (0.5, 0.2, 0.1), (1.0, 0.01, SOONEST_S), (0.01, 5.0, LATEST_S)],
)
def test_the_faster_a_ring_fills_the_sooner_it_is_read_again(filled: float, elapsed_s: float, again_s: float) -> None:
    assert again_after(filled, elapsed_s) == pytest.approx(again_s)


def test_what_hinders_reading_ahead_is_the_poll_s_to_say(tmp_path: Path) -> None:
    (tmp_path / "rings").write_text("no directory")
    rings = Rings(tmp_path / "rings")
    with reading_ahead(rings):
        pass
    with pytest.raises(InputError):
        rings.poll()


@pytest.mark.parametrize("bursts", [(RING * 3 + 17,), (100, RING * 2, 5, 90), (RING - 8, 1, RING)])
def test_what_is_overwritten_is_counted_to_the_event(run_dir: Path, start: Start, bursts: tuple[int, ...]) -> None:
    """What was gone before reading began is told apart from what reading missed."""
    writer, rings, taken, earlier = start("p0"), Rings(run_dir), 0, 0
    for done, burst in enumerate(bursts, 1):
        writer.tell(f"write {burst}")
        found = rings.poll()
        taken += len(found)
        process = found.processes[0]
        assert taken + process.lost + process.earlier == sum(bursts[:done])
        assert (process.lost if done == 1 else process.earlier - earlier) == 0
        earlier = process.earlier
        assert numbers(found)[-1] == sum(bursts[:done]) - 1
    assert sum(bursts) - taken > 0


def test_what_ended_is_let_go_and_stays_known(run_dir: Path, start: Start) -> None:
    """Else the memory of a ring that is removed would be taken as long as somebody had ever read it."""
    writer, rings = start("p0"), Rings(run_dir)
    writer.tell(f"write {RING * 3}")
    rings.poll()
    assert str(run_dir) in Path("/proc/self/maps").read_text()
    writer.tell("write 60")
    writer.kill()
    before = rings.poll()
    assert str(run_dir) not in Path("/proc/self/maps").read_text()
    assert len(before) == 60
    for path in run_dir.iterdir():
        path.unlink()
    after = rings.poll()
    assert len(after) == 0
    assert after.processes == before.processes
    (process,) = after.processes
    assert (process.engine, process.ended, process.earlier > 0) == ("p0", True, True)


def test_a_killed_process_is_drained_to_its_last_event(run_dir: Path, start: Start) -> None:
    writer, rings = start("p0"), Rings(run_dir)
    writer.tell("write 40")
    rings.poll()
    writer.tell("write 60")
    writer.tell("die")
    writer.close()
    found = rings.poll()
    assert numbers(found) == list(range(40, 100))
    assert found.processes[0].lost == 0
    assert len(rings.poll()) == 0


def test_draining_beside_a_writer_that_laps_takes_whole_events_only(run_dir: Path, start: Start) -> None:
    writer, rings = start("p0"), Rings(run_dir)
    writer.tell("again 1000")
    taken: list[int] = []
    while len(taken) < 20 * RING:
        found = rings.poll()
        assert (found.rows["values"][:, 0] + 1 == found.rows["t"]).all()
        taken += numbers(found)
    writer.kill()
    last = rings.poll()
    taken += numbers(last)
    assert len(set(taken)) == len(taken)
    assert len(taken) + last.processes[0].lost + last.processes[0].earlier == max(taken) + 1


def test_an_uninstrumented_process_is_listed_with_its_reason(run_dir: Path, start: Start) -> None:
    start("p0").tell("note unknown file scheduler.py")
    found = read_rings(run_dir)
    assert len(found) == 0
    assert found.processes[0].note == "unknown file scheduler.py"


def test_a_file_that_is_no_ring_is_named_and_the_others_are_read(run_dir: Path, start: Start) -> None:
    start("p0").tell("write 3")
    (run_dir / "1-1-ffffff.ring").write_bytes(b"nothing" * 4000)
    rings = Rings(run_dir)
    assert len(rings.poll()) == 3
    assert len(rings.poll()) == 0
    (fault,) = rings.faults
    assert "1-1-ffffff.ring" in fault
