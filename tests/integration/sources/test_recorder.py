"""Recording live rings: the same events as the rings held, whatever happens meanwhile."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.recording import RECORDS, Frames
from kvscope.sources import open_sources
from kvscope.sources.recorder import Recorded, record_until, save
from kvscope.sources.recording import read_recordings
from kvscope.sources.rings import read_rings

from .conftest import Recording, Start


def same(left: Events, right: Events) -> bool:
    """Whether two sets of events say the same, in whatever order."""
    rows = [sorted(map(bytes, events.rows)) for events in (left, right)]
    return rows[0] == rows[1] and left.processes == right.processes and named(left) == named(right)


def named(events: Events) -> dict[int, str]:
    """The texts of its requests: rings may hold others, of what was overwritten."""
    return {key: events.texts[key] for key in events.rows["request"].tolist()}


def test_a_recording_holds_what_the_rings_hold(run_dir: Path, start: Start, tmp_path: Path) -> None:
    for engine in ("p0", "d0"):
        writer = start(engine)
        writer.tell("write 400")
        writer.tell("write 300 writer")
    start("dark").tell("note switched off")
    recorded = save(run_dir, tmp_path / "a.kvs")
    assert (recorded.events, recorded.lost, recorded.processes) == (1400, 0, 3)
    assert same(read_recordings([tmp_path / "a.kvs"]), read_rings(run_dir))


def test_losses_are_the_same_in_both(
    run_dir: Path, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "256")
    start("p0").tell("write 1000")
    save(run_dir, tmp_path / "a.kvs")
    recorded, live = read_recordings([tmp_path / "a.kvs"]), read_rings(run_dir)
    assert same(recorded, live)
    assert recorded.processes[0].earlier == 1000 - len(recorded) > 0
    assert recorded.processes[0].lost == 0


def test_two_recordings_of_one_process_are_one(run_dir: Path, start: Start, tmp_path: Path) -> None:
    writer = start("p0")
    writer.tell("write 100")
    save(run_dir, tmp_path / "a.kvs")
    writer.tell("write 50 writer")
    save(run_dir, tmp_path / "b.kvs")
    opened = open_sources([tmp_path / "a.kvs", tmp_path / "b.kvs"], run_dir)
    assert same(opened.events, read_rings(run_dir))
    assert opened.duplicates == 100 + 150
    assert any("more than one source" in note for note in opened.notes)


def test_what_one_recording_missed_another_makes_good(
    run_dir: Path, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "256")
    writer = start("p0")
    for name in ("a", "b", "c"):
        writer.tell("write 200")
        save(run_dir, tmp_path / name)
    last = read_recordings([tmp_path / "c"])
    together = read_recordings([tmp_path / name for name in "cab"])
    assert last.processes[0].earlier == 600 - len(last) > 0
    assert (together.processes[0].lost, together.processes[0].earlier) == (0, 0)
    assert sorted(together.rows["values"][:, 0]) == list(range(600))


def test_recording_beside_writers_until_told_to_stop(run_dir: Path, start: Start, tmp_path: Path) -> None:
    stop, seen, done = threading.Event(), threading.Event(), []

    def progress(so_far: Recorded) -> None:
        if so_far.events >= 500:
            seen.set()

    def work() -> None:
        done.append(record_until(stop, run_dir, tmp_path / "a.kvs", interval_s=0.01, progress=progress))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        writers = [start("p0"), start("d0")]
        for writer in (*writers, start("late")):
            writer.tell("write 500")
        writers[0].kill()
        writers[1].tell("write 500 writer")
        assert seen.wait(60)
        copied = read_recordings([tmp_path / "a.kvs"])  # while it is being written
        assert 500 <= len(copied) <= 2000
    finally:
        stop.set()
        thread.join()
    assert (done[0].events, done[0].lost) == (2000, 0)
    assert same(read_recordings([tmp_path / "a.kvs"]), read_rings(run_dir))


def test_a_cut_recording_is_read_to_its_last_whole_part(run_dir: Path, start: Start, tmp_path: Path) -> None:
    for engine in ("p0", "d0", "d1"):
        start(engine).tell("write 300")
    save(run_dir, tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) * 2 // 3])
    opened = open_sources([tmp_path / "cut"])
    assert 300 <= len(opened.events) < 900
    assert any("was not ended" in note for note in opened.notes)


def test_a_flipped_bit_costs_a_part_and_is_said(run_dir: Path, start: Start, tmp_path: Path) -> None:
    for engine in ("p0", "d0", "d1"):
        start(engine).tell("write 300")
    save(run_dir, tmp_path / "a")
    raw = bytearray((tmp_path / "a").read_bytes())
    with (tmp_path / "a").open("rb") as file:
        _, second, _ = (frame for frame in Frames(file) if frame.kind == RECORDS)
    raw[second.at + len(second.payload) // 2] ^= 16
    (tmp_path / "flipped").write_bytes(raw)
    opened = open_sources([tmp_path / "flipped"])
    assert len(opened.events) == 600
    assert any("is damaged" in note for note in opened.notes)


def test_an_existing_file_is_kept_unless_forced(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 3")
    kept = tmp_path / "kept"
    kept.write_text("mine")
    with pytest.raises(InputError, match=r"kept is there already.*--force"):
        save(run_dir, kept)
    assert kept.read_text() == "mine"
    save(run_dir, kept, force=True)
    assert len(read_recordings([kept])) == 3


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_is_no_file_to_record_into(run_dir: Path, start: Start, tmp_path: Path, force: bool) -> None:
    start("p0").tell("write 3")
    with pytest.raises(
        InputError, match=rf"{tmp_path} is a directory; name a file in it, such as {tmp_path}/run\.kvs$"
    ):
        save(run_dir, tmp_path, force=force)


def test_a_file_is_not_replaced_where_there_is_nothing_to_record(tmp_path: Path) -> None:
    kept, no_folder = tmp_path / "kept", tmp_path / "file"
    kept.write_text("mine")
    no_folder.write_text("")
    for path, force in ((kept, True), (tmp_path / "new", False)):
        with pytest.raises(InputError, match="file is not a directory"):
            save(no_folder, path, force)
    assert kept.read_text() == "mine"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("harm", "how"), [("unlink", "removed"), ("cut", "cut short")])
def test_what_happens_to_the_file_meanwhile_is_said(
    run_dir: Path, start: Start, tmp_path: Path, harm: str, how: str
) -> None:
    start("p0").tell("write 100")
    path = tmp_path / "a"

    def meddle(so_far: Recorded) -> None:
        if harm == "unlink":
            path.unlink()
        else:
            os.truncate(path, 0)

    with pytest.raises(InputError, match=f"a was {how} while it was recorded"):
        record_until(threading.Event(), run_dir, path, interval_s=0, progress=meddle)


def test_a_file_takes_one_recording_at_a_time(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 100")
    stop = threading.Event()

    def intrude(so_far: Recorded) -> None:
        with pytest.raises(InputError, match=r"another recording goes into .*a now; name another file"):
            save(run_dir, tmp_path / "a", force=True)
        stop.set()

    assert record_until(stop, run_dir, tmp_path / "a", progress=intrude).events == 100
    opened = open_sources([tmp_path / "a"])
    assert (len(opened.events), opened.notes) == (100, ())


COMMAND = [sys.executable, "-m", "kvscope", "record", "--interval", "10ms", "-o"]


def test_a_full_disk_is_one_sentence_and_the_rest_stays_readable(run_dir: Path, start: Start, tmp_path: Path) -> None:
    for engine in ("p0", "d0", "d1", "d2"):
        start(engine).tell("write 3000")
    room = 40_000

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    path = tmp_path / "a"
    ran = subprocess.run([*COMMAND, str(path)], capture_output=True, text=True, preexec_fn=limit, check=False)
    assert ran.returncode == 2
    assert "cannot write" in ran.stderr.splitlines()[-1]
    assert "can be read" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
    assert path.stat().st_size == room
    assert 0 < len(read_recordings([path])) < 12000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_verb_stops_cleanly_when_asked(run_dir: Path, start: Start, tmp_path: Path, number: int) -> None:
    path = tmp_path / "a"
    writer = start("p0")
    writer.tell("write 100")
    verb = subprocess.Popen([*COMMAND, str(path)], stderr=subprocess.PIPE, text=True)
    assert verb.stderr is not None
    assert "100 events of 1 process in" in verb.stderr.readline()
    writer.tell("write 100")
    os.kill(verb.pid, number)
    _, said = verb.communicate()
    assert "200 events of 1 process in " in said
    assert " s, of which 100 were in the rings before, none lost" in said
    assert verb.returncode == 0
    assert "200 events of 1 process in" in said
    assert "kvscope report" in said
    assert np.array_equal(np.sort(read_recordings([path]).rows["t"]), np.arange(1, 201))


def test_the_verb_stops_after_its_time(run_dir: Path, tmp_path: Path) -> None:
    ran = subprocess.run([*COMMAND, str(tmp_path / "a"), "--for", "50ms"], capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert "nothing was recorded: no engine records in" in ran.stderr
    with pytest.raises(InputError, match="no process has recorded anything"):
        open_sources([tmp_path / "a"])


def test_that_nobody_records_is_said_beside_what_the_dead_left_and_whoever_comes_is_recorded(
    run_dir: Path, start: Start, tmp_path: Path
) -> None:
    gone = start("gone")
    gone.tell("write 30")
    gone.kill()
    path = tmp_path / "a"
    verb = subprocess.Popen([*COMMAND, str(path)], stderr=subprocess.PIPE, text=True)
    assert verb.stderr is not None
    assert "30 events of 1 process in" in verb.stderr.readline()
    assert f"no engine records in {run_dir}; " in (told := verb.stderr.readline())
    assert "waiting for one, Ctrl-C ends it" in told
    start("p0").tell("write 100")
    assert "130 events of 2 processes in" in verb.stderr.readline()
    os.kill(verb.pid, signal.SIGTERM)
    assert "130 events of 2 processes in" in verb.communicate()[1]
    assert verb.returncode == 0
    assert len(read_recordings([path])) == 130


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_a_pipe_takes_a_recording(run_dir: Path, start: Start, tmp_path: Path, path: str) -> None:
    start("p0").tell("write 100")
    ran = subprocess.run([*COMMAND, path, "--for", "0s"], capture_output=True, check=True)
    (tmp_path / "a").write_bytes(ran.stdout)
    opened = open_sources([tmp_path / "a"])
    assert (len(opened.events), opened.notes) == (100, ())
    assert f"{len(ran.stdout) / 1e3:.1f} kB".encode() in ran.stderr


def test_standard_output_keeps_what_is_in_it(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 100")
    (tmp_path / "a").write_text("mine")
    with (tmp_path / "a").open("ab") as file:
        subprocess.run([*COMMAND, "-", "--for", "0s"], stdout=file, check=True)
    assert (tmp_path / "a").read_bytes().startswith(b"mineKVSCREC")


def test_a_pipe_whose_reader_went_away_ends_it_quietly(run_dir: Path, start: Start) -> None:
    start("p0").tell("write 100")
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run([*COMMAND, "-"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_a_pipe_that_nobody_reads_is_not_waited_for(run_dir: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot write .*pipe: no such device or address; name another file"):
        save(run_dir, tmp_path / "pipe")


def test_random_kills_never_break_a_reader(run_dir: Path, start: Start, tmp_path: Path) -> None:
    writers: list[Recording] = [start(f"p{number}") for number in range(4)]
    for number, writer in enumerate(writers):
        writer.tell("write 50")
        writer.tell("again 50")
        save(run_dir, tmp_path / str(number))
        writer.kill()
    events = read_recordings([tmp_path / str(number) for number in range(4)])
    assert len(events.processes) == 4
    assert (events.rows["values"][:, 0] + 1 == events.rows["t"]).all()
