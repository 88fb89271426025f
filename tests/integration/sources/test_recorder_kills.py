"""SIGKILL to whoever records, at random instants: what is whole is read, wherever the last write stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.recording import RECORDS, RECORDS_PREFIX, Frames, RecordingError
from kvscope.sources import open_sources
from kvscope.sources.folders import members
from kvscope.sources.past import open_past

from .conftest import Recording, Start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECORD = [sys.executable, "-m", "kvscope", "record", "--interval", "2ms", "-o"]
KILLS = 20


@contextmanager
def busy(*writers: Recording) -> Iterator[None]:
    """They record a little all the time."""
    stop = threading.Event()

    def work(writer: Recording) -> None:
        while not stop.wait(0.002):
            writer.tell("write 200")

    threads = [threading.Thread(target=work, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def killed(command: list[str], draw: random.Random) -> None:
    """Start a recorder and end it at some instant after its first word."""
    verb = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert verb.stderr is not None
    assert "kvscope: no engine" in (first := verb.stderr.readline()) or "events of" in first
    threading.Event().wait(draw.uniform(0, 0.3))
    os.kill(verb.pid, signal.SIGKILL)
    verb.communicate()


def whole_records(path: Path) -> int:
    """Records in the sound parts of a file, counted without the readers of events."""
    with path.open("rb") as file, suppress(RecordingError):
        return sum(RECORDS_PREFIX.unpack_from(each.payload)[2] for each in Frames(file) if each.kind == RECORDS)
    return 0


def sound(events: Events) -> None:
    """As the writers wrote them: no event is torn or invented, each has its text, and what is missing is counted."""
    assert (events.rows["values"][:, 0] + 1 == events.rows["t"]).all()
    assert set(events.rows["request"].tolist()) <= set(events.texts)
    for index, process in enumerate(events.processes):
        mine = np.sort(events.rows["t"][events.rows["process"] == index])
        assert len(np.unique(mine)) == len(mine)
        if len(mine):
            missing = process.lost + sum(gap.events for gap in process.gaps)
            assert mine[-1] - mine[0] + 1 <= len(mine) + missing


def check(path: Path) -> int:
    """Both ways of reading agree with what is there; how many events that is."""
    there = sum(whole_records(Path(member.path)) for member in members([path]))
    if not there:
        with pytest.raises(InputError):
            open_sources([path])
        return 0
    opened = open_sources([path])
    sound(opened.events)
    assert len(opened.events) + opened.duplicates == there
    past = open_past([path], lambda share: None)
    assert len(past.between(0, past.end)) == len(opened.events)
    past.close()
    return len(opened.events)


def test_one_file(run_dir: Path, start: Start, tmp_path: Path) -> None:
    draw, read = random.Random(1), 0
    with busy(start("p0"), start("d0")):
        for number in range(KILLS):
            path = tmp_path / f"{number}.kvs"
            killed([*RECORD, str(path)], draw)
            read += check(path) > 0
    assert read > KILLS / 2


def test_a_folder_of_parts(run_dir: Path, start: Start, tmp_path: Path) -> None:
    draw, folder, before = random.Random(2), tmp_path / "parts", 0
    with busy(start("p0"), start("d0")):
        for number in range(KILLS):
            killed([*RECORD, str(folder), "--part-size", "10kB"], draw)
            if number % 5 == 4:
                now = check(folder)
                assert now > before
                before = now
    assert len(list(folder.iterdir())) > KILLS
    assert sum("was not ended" in note for note in open_sources([folder]).notes) <= KILLS


def test_a_folder_of_parts_with_a_quota(run_dir: Path, start: Start, tmp_path: Path) -> None:
    draw, folder = random.Random(3), tmp_path / "parts"
    with busy(start("p0"), start("d0")):
        for _ in range(KILLS):
            killed([*RECORD, str(folder), "--part-size", "4kB", "--keep-for", "1s"], draw)
            check(folder)
    numbers = sorted(int(path.name.split("-")[1]) for path in folder.iterdir())
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[0] > 1
