"""A tap on real processes that end, and whose files are removed: each event once, and nothing held on to."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvscope.probe.recording import EndPart, MarkPart, RecordsPart, Writer, parts
from kvscope.probe.tap import Progress, Tap
from kvscope.sources.gathering import Gathering
from kvscope.sources.recording import read_into
from kvscope.sources.records import records
from kvscope.sources.rings import read_rings

from .conftest import Start
from .test_recorder import same

RING = 256


@pytest.fixture(autouse=True)
def small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", str(RING))


def held(run_dir: Path, pid: int | str = "self") -> set[str]:
    """Files of a run directory that a process has mapped or open."""
    of = Path(f"/proc/{pid}")
    opened = [os.path.realpath(each) for each in (of / "fd").iterdir() if each.is_symlink()]
    mapped = [line.split(maxsplit=5)[-1] for line in (of / "maps").read_text().splitlines()]
    return {name for name in opened + mapped if name.startswith(str(run_dir))}


class Tapped:
    """A tap, and all that it wrote."""

    def __init__(self, run_dir: Path, since: Progress | None = None) -> None:
        self.file = io.BytesIO()
        self.tap = Tap(run_dir, Writer(self.file), hold_s=0, since=since)

    def marked(self) -> Mapping[str, Any]:
        """Drain; then how far each ring has been read."""
        self.tap.poll()
        self.tap.mark()
        *_, last = parts(io.BytesIO(self.file.getvalue()))
        assert isinstance(last, MarkPart)
        return dict(last.info["rings"])

    def times(self) -> list[int]:
        """Of all records so far: 1, 2, 3, .. of each process."""
        found = parts(io.BytesIO(self.file.getvalue()))
        return [t for part in found if isinstance(part, RecordsPart) for t in records(part.raw)["t"].tolist()]

    def gathering(self) -> Gathering:
        gathering = Gathering()
        assert read_into(gathering, io.BytesIO(self.file.getvalue()), "it") == []
        return gathering


def test_what_ended_is_let_go_and_nothing_of_it_is_missing(run_dir: Path, start: Start) -> None:
    writer, lasting = start("p0"), start("d0")
    writer.tell(f"write {RING * 3}")
    lasting.tell("write 20")
    tapped = Tapped(run_dir)
    before = tapped.marked()
    assert len(held(run_dir)) == 2
    writer.tell(f"write {RING * 2}")
    lasting.tell("write 30")
    writer.kill()
    last = tapped.marked()
    assert {Path(name).name for name in held(run_dir)} == {f.name for f in run_dir.glob(f"{lasting.process.pid}-*")}
    tap = tapped.tap
    assert (tap.processes, tap.living, len(last)) == (2, 1, 2)
    assert tap.earlier > 0
    assert tap.lost > 0
    assert len(tapped.times()) + tap.lost + tap.earlier == RING * 5 + 50
    assert last.keys() == before.keys()
    again = Tapped(run_dir, last)
    assert again.marked() == last
    assert again.times() == []
    assert (again.tap.lost, again.tap.earlier) == (tap.lost, tap.earlier)


def test_a_recording_over_an_end_is_what_the_rings_hold(run_dir: Path, start: Start) -> None:
    tapped = Tapped(run_dir)
    for engine in ("p0", "d0"):
        tapped.marked()
        writer = start(engine)
        writer.tell("write 60")
        tapped.marked()
        writer.tell("write 70 writer")
        writer.kill()
    tapped.tap.end()
    assert not held(run_dir)
    assert same(tapped.gathering().events(), read_rings(run_dir))


def test_what_is_removed_while_it_lives_is_read_to_its_end(run_dir: Path, start: Start) -> None:
    """And then its memory is free."""
    writer, tapped = start("p0"), Tapped(run_dir)
    writer.tell("write 10")
    tapped.marked()
    for path in run_dir.iterdir():
        path.unlink()
    writer.tell("write 20")
    assert len(tapped.marked()) == 1
    writer.tell("write 30")
    writer.kill()
    tapped.marked()
    assert not held(run_dir)
    assert tapped.marked() == {}
    assert tapped.times() == list(range(1, 61))
    assert (tapped.tap.processes, tapped.tap.living, tapped.tap.lost, tapped.tap.earlier) == (1, 0, 0, 0)


def test_what_is_removed_after_its_end_leaves_the_marks_and_stays_counted(run_dir: Path, start: Start) -> None:
    tapped = Tapped(run_dir)
    tapped.marked()
    for number in range(1, 6):
        writer = start(f"p{number}")
        tapped.marked()
        writer.tell(f"write {RING * 2}")
        writer.kill()
        assert len(tapped.marked()) == 1
        told = tapped.tap.lost, tapped.tap.earlier, tapped.tap.texts_lost
        for path in run_dir.iterdir():
            path.unlink()
        assert tapped.marked() == {}
        assert (tapped.tap.lost, tapped.tap.earlier, tapped.tap.texts_lost) == told
        assert tapped.tap.processes == number
        assert len(tapped.times()) + tapped.tap.lost == number * RING * 2
    assert tapped.tap.texts_lost == 0
    tapped.tap.end()
    *_, last = parts(io.BytesIO(tapped.file.getvalue()))
    assert last == EndPart({"processes": 5, "events": tapped.tap.events, "lost": tapped.tap.lost})
    infos = tapped.gathering().events().processes
    assert [(process.engine, process.ended) for process in infos] == [(f"p{number}", True) for number in range(1, 6)]
    assert sum(process.lost for process in infos) == tapped.tap.lost > 0


@pytest.mark.parametrize("aside", ["directory", "file"])
def test_what_was_away_for_a_while_is_not_read_twice(run_dir: Path, start: Start, aside: str) -> None:
    start("d0").tell("write 10")
    writer, tapped = start("p0"), Tapped(run_dir)
    writer.tell("write 40")
    writer.kill()
    mark = tapped.marked()
    path = run_dir if aside == "directory" else next(run_dir.glob(f"{writer.process.pid}-*"))
    path.rename(path.with_name("away"))
    assert len(tapped.marked()) == (2 if aside == "directory" else 1), "a directory that was moved comes back as it was"
    path.with_name("away").rename(path)
    assert tapped.marked().items() <= mark.items()
    assert len(tapped.times()) == 50
