"""`kvscope dump`: what the rings hold at this moment, whoever is alive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.sources import open_sources
from kvscope.sources.rings import read_rings

from .conftest import Start
from .test_recorder import same

COMMAND = [sys.executable, "-m", "kvscope", "dump"]


def dumped(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], capture_output=True, check=False)


def test_the_dead_are_saved_too(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 200")
    gone = start("d0")
    gone.tell("write 300 writer")
    gone.kill()
    path = tmp_path / "now.kvs"
    ran = dumped("-o", str(path))
    assert ran.returncode == 0
    assert b"500 events of 2 processes in" in ran.stderr
    assert f"kvscope report {path}".encode() in ran.stderr
    opened = open_sources([path])
    assert opened.notes == ()
    assert same(opened.events, read_rings(run_dir))


def test_what_the_rings_had_overwritten_is_told_beside_what_was_lost(
    run_dir: Path, start: Start, tmp_path: Path
) -> None:
    writer = start("p0")
    writer.tell("write 200")
    assert b"overwritten" not in dumped("-o", str(tmp_path / "all.kvs")).stderr
    writer.tell("write 20000")
    said = dumped("-o", str(tmp_path / "now.kvs")).stderr.decode()
    (process,) = open_sources([tmp_path / "now.kvs"]).events.processes
    assert process.earlier > 10_000
    assert f" s, none lost, {process.earlier:,} older ones were overwritten before it began, " in said


def test_into_a_pipe(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 200")
    ran = dumped("-o", "-")
    (tmp_path / "now.kvs").write_bytes(ran.stdout)
    assert len(open_sources([tmp_path / "now.kvs"]).events) == 200


def test_what_is_there_stays_unless_forced(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 3")
    (tmp_path / "kept").write_text("mine")
    refused = dumped("-o", str(tmp_path / "kept"))
    assert (refused.returncode, b"kept is there already" in refused.stderr) == (2, True)
    assert (tmp_path / "kept").read_text() == "mine"
    assert dumped("-o", str(tmp_path / "kept"), "--force").returncode == 0
    assert len(open_sources([tmp_path / "kept"]).events) == 3


def test_without_rings_nothing_is_written(run_dir: Path, tmp_path: Path) -> None:
    ran = dumped("-o", str(tmp_path / "now.kvs"))
    assert ran.returncode == 3
    assert f"no engine records in {run_dir}".encode() in ran.stderr
    assert ran.stderr.count(b"\n") == 1
    assert not (tmp_path / "now.kvs").exists()


@pytest.mark.parametrize("where", ["no/such/folder/now.kvs", "file/now.kvs"])
def test_a_place_that_is_none_is_one_sentence(run_dir: Path, start: Start, tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    start("p0").tell("write 3")
    ran = dumped("-o", str(tmp_path / where))
    assert (ran.returncode, ran.stderr.count(b"\n")) == (2, 1)
    assert b"cannot write" in ran.stderr


def test_rings_that_cannot_be_read_make_no_file(run_dir: Path, tmp_path: Path) -> None:
    run_dir.mkdir(exist_ok=True)
    (run_dir / "1-1-a.ring").write_bytes(b"nothing of a ring" * 1000)
    ran = dumped("-o", str(tmp_path / "now.kvs"))
    assert ran.returncode == 3
    assert b"1-1-a.ring: not a ring file" in ran.stderr
    assert b"nothing else lies there; nothing was written" in ran.stderr
    assert not (tmp_path / "now.kvs").exists()
