"""What others do to a folder of parts while it is recorded: removed, in the way, not to be removed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvscope.model.errors import InputError
from kvscope.sources import open_sources
from kvscope.sources.recorder import Recorded, record_parts_until
from kvscope.sources.rotation import Folder, Limits

from .conftest import Start
from .test_rotation import SMALL, parts_in, recording, until_written

OTHERS = ("part-000007-20270115T080000Z.kvs", "part-000008-20270115T080000Z.kvs", "part-000009-20270115T080000Z.kvs")


@pytest.mark.parametrize("what", ["folder", "part"])
def test_what_is_removed_meanwhile_is_said_once_and_the_recording_goes_on(
    run_dir: Path, start: Start, tmp_path: Path, what: str
) -> None:
    writer, folder = start("p0"), tmp_path / "parts"
    writer.tell("write 100")
    stop, seen = threading.Event(), list[Recorded]()

    def meddle(so_far: Recorded) -> None:
        seen.append(so_far)
        if len(seen) == 1:
            (first,) = parts_in(folder)
            shutil.rmtree(folder) if what == "folder" else first.unlink()
        elif len(seen) == 2:
            writer.tell("write 30")
        elif so_far.events == 130:
            stop.set()

    done = record_parts_until(stop, run_dir, folder, SMALL, 0, meddle)
    (fault,) = done.faults
    gone = r"/parts" if what == "folder" else r"/part-000001-\w+\.kvs"
    goes_on = r"was removed while it was recorded, and what was in it is lost; it goes on in .*/part-00000[12]-\w+\.kvs"
    assert re.search(f"{gone} {goes_on}$", fault)
    assert (done.events, done.removed, done.lost) == (130, 1, 0)
    opened = open_sources([folder])
    assert (len(opened.events), opened.events.processes[0].before) == (30, 100)


def test_a_folder_that_is_removed_and_cannot_be_made_again_ends_it_in_a_sentence(run_dir: Path, tmp_path: Path) -> None:
    above = tmp_path / "above"

    def meddle(so_far: Recorded) -> None:
        shutil.rmtree(above)

    with pytest.raises(
        InputError, match=r"parts was removed while .* cannot be made again \(no such file .*\): record"
    ):
        record_parts_until(threading.Event(), run_dir, above / "parts", SMALL, 0, meddle)


def _not_parts(folder: Path) -> None:
    """Named as parts are: a folder with something in it, a pipe, a link to nowhere."""
    (folder / OTHERS[0] / "within").mkdir(parents=True)
    os.mkfifo(folder / OTHERS[1])
    (folder / OTHERS[2]).symlink_to("nowhere")


def test_what_is_named_as_parts_are_and_is_none_is_in_nobodys_way(run_dir: Path, start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    _not_parts(folder)
    with recording(run_dir, folder, Limits(part_bytes=8_000, quota=40_000, keep_s=3600)) as seen:
        writer = start("p0")
        for turn in range(1, 9):
            writer.tell("write 2000")
            until_written(seen, turn * 2000)
    assert [each.partition("parts/")[2] for each in seen[-1].faults] == [
        f"{OTHERS[0]} is named as parts are and is no file (nor are 2 more); it stays as it is"
    ]
    assert {path.name for path in folder.iterdir()} >= set(OTHERS)
    assert min(int(path.name.split("-")[1]) for path in parts_in(folder) if path.name not in OTHERS) > 9
    opened = open_sources([folder])
    assert len(opened.events) > 0
    assert [note for note in opened.notes if OTHERS[1] in note and "is no file; it is not read" in note]


def test_a_part_that_cannot_be_removed_stays_and_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = Path.unlink

    def held(path: Path, missing_ok: bool = False) -> None:
        if path.name.startswith(("part-000001", "part-000002")):
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", held)
    with Folder(tmp_path / "parts", Limits(part_bytes=1000, quota=8000)) as folder:
        for _ in range(20):
            folder.begin()
            folder.write(b"x" * 1000)
        assert folder.unremoved == 2
        assert [fault.partition("parts/")[2][:11] for fault in folder.faults] == ["part-000001"]
        assert "cannot be removed: operation not permitted; it stays" in folder.faults[0]
        there = parts_in(tmp_path / "parts")
        assert sum(part.stat().st_size for part in there) <= 8000
        assert {"000001", "000002"} < {part.name.split("-")[1] for part in there}


def test_record_says_once_what_is_in_the_way(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 10")
    _not_parts(tmp_path / "parts")
    command = [sys.executable, "-m", "kvscope", "record", "-o", str(tmp_path / "parts"), "--keep-for", "1h"]
    ran = subprocess.run(
        [*command, "--interval", "10ms", "--for", "200ms"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr.count("is named as parts are and is no file")) == (0, 1), ran.stderr
