"""A disk that is full, one that may not be written, a limit on files: one sentence, and what was written is read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvscope.sources import open_sources
from kvscope.sources.rings import read_rings

from .conftest import Recording, Start

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare here"),
]

RECORD = "record --interval 10ms -o"
Ran = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def full(tmp_path: Path) -> Ran:
    """Runs kvscope on a small disk of its own; afterwards what was on it lies in `tmp_path/kept`."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    for folder in (disk, kept):
        folder.mkdir()

    def run(words: str, options: str = "size=64k", before: str = "true") -> subprocess.CompletedProcess[str]:
        kvscope = f'"{sys.executable}" -m kvscope {words}'
        script = (
            f"mount -t tmpfs -o {options} none {disk} || exit 99; cd {disk}; {before}; {kvscope}; code=$?;"
            f" cp -r {disk}/. {kept}; exit $code"
        )
        ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
        if ran.returncode == 99 and not os.environ.get("CI"):
            pytest.skip(f"may not mount here: {ran.stderr.strip()}")
        return ran

    return run


@pytest.fixture
def rings(start: Start, monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """More than the disk holds."""
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "8192")
    writers = [start(name) for name in ("p0", "p1", "d0", "d1")]
    for writer in writers:
        for role in ("core", "worker", "writer", "input"):
            writer.tell(f"write 6000 {role}")
    return writers


def said(ran: subprocess.CompletedProcess[str]) -> str:
    """The last line, where nothing is a traceback."""
    assert "Traceback" not in ran.stderr
    return ran.stderr.splitlines()[-1]


def test_a_full_disk_ends_a_file(rings: list[Recording], full: Ran, tmp_path: Path) -> None:
    ran = full(f"{RECORD} a.kvs")
    assert ran.returncode == 2
    left = "a.kvs is left, 65.5 kB, and can be read up to the last whole block; make room or name another file"
    assert said(ran) == f"kvscope: cannot write a.kvs: the disk is full; {left}"
    opened = open_sources([tmp_path / "kept" / "a.kvs"])
    assert 0 < len(opened.events) < 96_000
    assert any("was not ended" in note for note in opened.notes)


def test_a_full_disk_ends_a_folder_of_parts(rings: list[Recording], full: Ran, tmp_path: Path) -> None:
    ran = full(f"{RECORD} parts --part-size 20kB")
    assert ran.returncode == 2
    assert re.fullmatch(
        r"kvscope: cannot write parts: the disk is full; \d parts in parts are left, \d\d\.\d kB, and can be read"
        r" up to the last whole block; make room or name another file",
        said(ran),
    )
    opened = open_sources([tmp_path / "kept" / "parts"])
    assert 0 < len(opened.events) < 96_000


def test_a_quota_within_a_small_disk_goes_on(run_dir: Path, rings: list[Recording], full: Ran, tmp_path: Path) -> None:
    ran = full(f"{RECORD} parts --part-size 100kB --quota 1MB --for 2s", "size=1100k")
    assert ran.returncode == 0, ran.stderr
    assert len(open_sources([tmp_path / "kept" / "parts"]).events) == len(read_rings(run_dir)) > 30_000


def test_a_full_disk_ends_a_dump(rings: list[Recording], full: Ran, tmp_path: Path) -> None:
    ran = full("dump -o a.kvs")
    assert ran.returncode == 2
    assert "the disk is full; a.kvs is left, 65.5 kB, and can be read up to the last whole block; make" in said(ran)
    assert len(open_sources([tmp_path / "kept" / "a.kvs"]).events) > 0


@pytest.mark.parametrize("words", [f"{RECORD} a.kvs", "dump -o a.kvs"])
def test_a_disk_without_room_for_any_event_is_said(rings: list[Recording], full: Ran, words: str) -> None:
    ran = full(words, "size=4k")
    assert ran.returncode == 2
    assert "the disk is full; a.kvs is left, 4.1 kB, with no event to read; make room" in said(ran)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"{RECORD} a.kvs", "cannot write a.kvs: read-only file system; name another file"),
        (f"{RECORD} parts --quota 1MB", "cannot write parts: read-only file system; name another file"),
        ("dump -o a.kvs", "cannot write a.kvs: read-only file system; name another file"),
        ("serve --port 0 --save-to incidents", "--save-to incidents: read-only file system; name another folder"),
    ],
)
def test_a_read_only_disk_is_one_sentence(rings: list[Recording], full: Ran, words: str, sentence: str) -> None:
    ran = full(words, "ro")
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [f"kvscope: {sentence}"]
