"""Recording into a folder of parts, beside processes that record and others that read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from kvscope.cli.record import sentence
from kvscope.model.amounts import in_bytes
from kvscope.model.errors import InputError
from kvscope.sources import open_sources
from kvscope.sources.past import open_past
from kvscope.sources.recorder import Recorded, record_parts_until
from kvscope.sources.rings import read_rings
from kvscope.sources.rotation import Folder, Limits

from .conftest import Start
from .test_recorder import same

SMALL = Limits(part_bytes=20_000)


def parts_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.kvs"))


@contextmanager
def recording(run_dir: Path, folder: Path, limits: Limits) -> Iterator[list[Recorded]]:
    """Record into parts beside the body; the list gets what each look told, the end last."""
    stop, seen = threading.Event(), list[Recorded]()

    def work() -> None:
        seen.append(record_parts_until(stop, run_dir, folder, limits, 0.01, seen.append))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def until_written(seen: list[Recorded], events: int) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if seen and seen[-1].events >= events:
            return
        pause.wait(0.01)
    raise AssertionError(f"{events} events are not written: {seen[-1:]}")


@pytest.mark.slow
def test_parts_hold_together_what_the_rings_held(run_dir: Path, start: Start, tmp_path: Path) -> None:
    with recording(run_dir, tmp_path / "parts", SMALL) as seen:
        writers = [start("p0"), start("d0")]
        for turn in range(1, 6):
            for writer in writers:
                writer.tell("write 400")
                writer.tell("write 300 writer")
            until_written(seen, turn * 1400)
        writers[0].kill()
    assert (seen[-1].events, seen[-1].lost, seen[-1].living) == (7000, 0, 1)
    assert len(parts_in(tmp_path / "parts")) >= 3
    assert seen[-1].size_bytes == sum(part.stat().st_size for part in parts_in(tmp_path / "parts"))
    opened = open_sources([tmp_path / "parts"])
    assert (opened.notes, opened.duplicates) == ((), 0)
    rings = read_rings(run_dir)
    assert opened.events.processes == rings.processes
    assert same(opened.events, rings)
    for part in parts_in(tmp_path / "parts"):
        alone = open_sources([part])
        assert all(note.startswith("not in these recordings: ") for note in alone.notes)
        assert {process.engine for process in alone.events.processes} <= {"p0", "d0"}
        assert set(alone.events.rows["request"].tolist()) == set(alone.events.texts)


def test_what_lies_between_the_parts_named_is_told_and_no_loss(run_dir: Path, start: Start, tmp_path: Path) -> None:
    with recording(run_dir, tmp_path / "parts", Limits(part_bytes=1)) as seen:
        writer = start("p0")
        for turn in range(1, 5):
            writer.tell("write 1250")
            until_written(seen, turn * 1250)
    named = [part for part in parts_in(tmp_path / "parts") if len(open_sources([part]).events)]
    assert len(named) > 2
    opened = open_sources([named[0], named[-1]])
    (process,) = opened.events.processes
    (gap,) = process.gaps
    assert (process.lost, process.earlier, gap.events) == (0, 0, 5000 - len(opened.events))
    assert (gap.end - gap.begin, len(opened.notes)) == (gap.events + 1, 1)
    past = open_past([named[0], named[-1]], lambda share: None)
    try:
        assert past.notes == opened.notes
        assert past.between(0, gap.end - 1).processes[0].gaps == ()
        assert past.between(0, gap.end).processes[0].gaps == (gap,)
        settled, _ = past.settled(np.array([len(opened.events)]))
        assert (settled[0].lost, settled[0].gaps) == (0, (gap,))
    finally:
        past.close()


def test_parts_are_gone_through_as_one(run_dir: Path, start: Start, tmp_path: Path) -> None:
    with recording(run_dir, tmp_path / "parts", SMALL) as seen:
        writer = start("p0")
        for turn in range(1, 5):
            writer.tell("write 1250")
            until_written(seen, turn * 1250)
    past = open_past([tmp_path / "parts"], lambda share: None)
    try:
        events = past.between(0, past.end)
        assert (len(events), past.notes, len(events.processes)) == (5000, (), 1)
        assert np.array_equal(np.sort(events.rows["t"]), np.arange(1, 5001))
    finally:
        past.close()


@pytest.mark.slow
def test_the_oldest_make_room_and_others_stay(
    run_dir: Path, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "mine.kvs").write_bytes(b"")
    (folder / "part-1.kvs").write_bytes(b"not named as parts are")
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "32768")
    quota, most = 400_000, []
    with recording(run_dir, folder, Limits(part_bytes=50_000, quota=quota)) as seen:
        writer = start("p0")
        for turn in range(1, 9):
            writer.tell("write 20000")
            until_written(seen, turn * 20_000)
            most.append(sum(part.stat().st_size for part in parts_in(folder) if part.name != "part-1.kvs"))
    assert seen[-1].size_bytes > quota * 1.2
    assert max(most) <= quota
    assert max(most) > quota * 0.8
    assert {"mine.kvs", "part-1.kvs"} < {path.name for path in folder.iterdir()}
    shutil.copytree(folder, tmp_path / "copy")
    for name in ("mine.kvs", "part-1.kvs"):
        (tmp_path / "copy" / name).unlink()
    opened = open_sources([tmp_path / "copy"])
    (process,) = opened.events.processes
    gone = 160_000 - len(opened.events)
    assert opened.notes == (f"not in these recordings: {gone:,} events of parts before them, removed or not named",)
    assert (process.lost, process.earlier, process.before, process.gaps) == (0, 0, gone, ())
    assert gone > 0
    assert sorted(opened.events.rows["t"])[0] == gone + 1
    assert seen[-1].removed > 0
    kept = f"MB written, {seen[-1].removed} parts removed since, {in_bytes(most[-1])} kept"
    assert sentence(seen[-1]).endswith(kept)


def test_what_is_too_old_is_removed_though_nothing_comes(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    with Folder(tmp_path / "parts", Limits(keep_s=60, part_s=5), lambda: now[0]) as folder:
        folder.begin()
        for _ in range(20):
            now[0] += 10
            assert folder.full()
            folder.begin()
        assert len(parts_in(tmp_path / "parts")) == 8
        now[0] += 1000
        folder.trim()
        assert [part.name for part in parts_in(tmp_path / "parts")] == ["part-000021-20270115T080320Z.kvs"]


def test_a_clock_set_back_ends_a_part_and_orders_none(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    with Folder(tmp_path / "parts", Limits(), lambda: now[0]) as folder:
        folder.begin()
        assert not folder.full()
        now[0] -= 7200
        assert folder.full()
        folder.begin()
    names = [part.name for part in parts_in(tmp_path / "parts")]
    assert names == ["part-000001-20270115T080000Z.kvs", "part-000002-20270115T060000Z.kvs"]


def test_a_recorder_goes_on_where_one_was_killed(run_dir: Path, start: Start, tmp_path: Path) -> None:
    writer, folder = start("p0"), tmp_path / "parts"
    command = [
        sys.executable,
        "-m",
        "kvscope",
        "record",
        "--interval",
        "10ms",
        "--part-size",
        "20kB",
        "-o",
        str(folder),
    ]
    for round_ in range(3):
        writer.tell("write 1000")
        verb = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert verb.stderr is not None
        assert f"{(round_ + 1) * 1000:,} events of 1 process" in verb.stderr.readline()
        os.kill(verb.pid, signal.SIGKILL)
        verb.communicate()
    numbers = [int(part.name.split("-")[1]) for part in parts_in(folder)]
    assert numbers == list(range(1, len(numbers) + 1))
    opened = open_sources([folder])
    assert np.array_equal(np.sort(opened.events.rows["t"]), np.arange(1, 3001))
    assert opened.duplicates > 0
    assert sum("was not ended" in note for note in opened.notes) == 3


def test_reading_while_it_rotates_and_removes(run_dir: Path, start: Start, tmp_path: Path) -> None:
    folder, read = tmp_path / "parts", 0
    with recording(run_dir, folder, Limits(part_bytes=8_000, keep_s=0.2)) as seen:
        writer = start("p0")
        writer.tell("write 100")
        until_written(seen, 100)
        for turn in range(60):
            writer.tell("write 500")
            with suppress(InputError):  # everything was removed before it was read
                read += len(open_sources([folder]).events if turn % 2 else _gone_through(folder))
    assert read > 0
    assert seen[-1].events == 30_100


def _gone_through(folder: Path) -> list[np.void]:
    past = open_past([folder], lambda share: None)
    try:
        return list(past.between(0, past.end).rows)
    finally:
        past.close()


def test_a_folder_takes_one_recording_at_a_time(run_dir: Path, tmp_path: Path) -> None:
    with recording(run_dir, tmp_path / "parts", SMALL) as seen:
        until_written(seen, 0)
        with pytest.raises(InputError, match=r"another recording goes into .*parts now; name another folder"):
            record_parts_until(threading.Event(), run_dir, tmp_path / "parts", SMALL)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--quota", "3kB"], "--quota 3000 is too small; give 1MB or more"),
        (["--quota", "2GB", "--force"], "--force replaces a file"),
        (["--part-size", "0"], "argument --part-size: '0' leaves nothing; give more than 0"),
        (["--part-age", "0s"], "argument --part-age: '0s' leaves nothing; give more than 0"),
        (["--quota", "0"], "argument --quota: '0' leaves nothing; give more than 0"),
        (["--keep-for", "0s"], "argument --keep-for: '0s' leaves nothing; give more than 0"),
        (["--interval", "0ms"], "argument --interval: '0ms' leaves nothing; give more than 0"),
        (["--part-size", "3999"], "--part-size 3999 is too small; give 4kB or more"),
        (["--part-size", "3MB", "--quota", "2MB"], "--quota 2000000 is less than one part of --part-size 3000000"),
        (["--quota", "much"], "'much' is no amount of bytes; write it like 64MB, 2GB or 512KiB"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path: Path, words: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "kvscope", "record", "-o", str(tmp_path / "parts"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, sentence in ran.stderr, "Traceback" in ran.stderr) == (2, True, False)
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("path", ["-", "file"])
def test_parts_go_into_a_folder(run_dir: Path, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"parts go into a folder, and {path} is none; name another"):
        record_parts_until(threading.Event(), run_dir, path, SMALL)
    assert (tmp_path / "file").read_text() == "mine"


def test_the_report_reads_a_folder(run_dir: Path, start: Start, tmp_path: Path) -> None:
    with recording(run_dir, tmp_path / "parts", SMALL) as seen:
        start("p0").tell("write 3000")
        until_written(seen, 3000)
    command = [sys.executable, "-m", "kvscope", "report", "--json", str(tmp_path / "parts")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["summary"]["condition"]["tally"]["events"] == 3000


def test_a_folder_of_folders_is_said(tmp_path: Path) -> None:
    (tmp_path / "incidents" / "one").mkdir(parents=True)
    (tmp_path / "incidents" / "one" / "recording.kvs").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"incidents holds 1 folder with a recording; name one of them, such as .*one$"
    ):
        open_sources([tmp_path / "incidents"])


def test_parts_that_are_none_are_left_out_and_said(run_dir: Path, start: Start, tmp_path: Path) -> None:
    with recording(run_dir, tmp_path / "parts", SMALL) as seen:
        start("p0").tell("write 300")
        until_written(seen, 300)
    (tmp_path / "parts" / "part-000007-20270115T080000Z.kvs").write_bytes(b"")
    (tmp_path / "parts" / "part-000008-20270115T080000Z.kvs").write_bytes(b"something else, and long enough")
    opened = open_sources([tmp_path / "parts"])
    assert len(opened.events) == 300
    assert [note.partition("part-")[2][:6] for note in opened.notes] == ["000007", "000008"]
    past = open_past([tmp_path / "parts"], lambda share: None)
    assert past.notes == opened.notes
    past.close()
