"""The file of a trace is whole or not there, whatever goes wrong, and what went wrong is one sentence."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.export import passage as passage_module
from kvscope.export.passage import Part, export, passage
from kvscope.export.perfetto import PerfettoSink
from kvscope.export.perfetto.fields import messages
from kvscope.sources.past import open_past

REAL = Path("docs/pictures/push-early.kvs").absolute()


def run(*words: object, small: bool = False, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "kvscope", "export", *map(str, words)]
    limit = _small if small else None
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)


def _small() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))


def refused(done: subprocess.CompletedProcess[str], reason: str) -> None:
    assert done.returncode == 2
    assert done.stderr.startswith("kvscope: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def whole(path: Path) -> int:
    """Packets of a trace."""
    trace = messages.Trace()
    trace.ParseFromString(path.read_bytes())
    return len(trace.packet)


def test_what_is_written_is_told(tmp_path: Path) -> None:
    out = tmp_path / "x.pftrace"
    done = run(REAL, "--perfetto", out)
    assert done.returncode == 0
    assert done.stdout == ""
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"63 requests and 4,438 events written to {out}, ")
    assert said.endswith("open it at https://ui.perfetto.dev")
    assert whole(out) > 10_000
    assert [each.name for each in tmp_path.iterdir()] == [out.name]


def test_a_stretch(tmp_path: Path) -> None:
    out = tmp_path / "x.pftrace"
    done = run(REAL, "--perfetto", out, "--from", "20s", "--to", "23s")
    assert done.returncode == 0
    assert 500 < whole(out) < 5_000


def test_a_small_file_is_told_in_a_unit_that_says_something(tmp_path: Path) -> None:
    out = tmp_path / "x.pftrace"
    done = run(REAL, "--perfetto", out, "--from", "20s", "--to", "20050ms")
    assert done.returncode == 0
    assert out.stat().st_size < 100_000
    assert f", {out.stat().st_size} bytes; " in done.stderr


def test_what_is_there_stays_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "x.pftrace"
    out.write_text("mine")
    refused(run(REAL, "--perfetto", out), "is there already")
    assert out.read_text() == "mine"
    refused(run(REAL, "--perfetto", tmp_path, "--force"), "is there and is no file, so nothing can take its place")
    refused(run(REAL, "--perfetto", tmp_path / "no" / "x.pftrace"), "cannot write")
    assert run(REAL, "--perfetto", out, "--force").returncode == 0
    assert whole(out) > 10_000


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("unshare"), reason="the superuser may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    mount = ("unshare", "-m", "sh", "-ec", f'mount -t tmpfs -o ro none {folder}; exec "$@"', "sh")
    done = run(REAL, "--perfetto", folder / "x.pftrace", before=mount if os.geteuid() == 0 else ())
    if "mount:" in done.stderr:
        pytest.skip("nothing may be mounted here")
    refused(done, "cannot write")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    refused(run(REAL, "--perfetto", tmp_path / "x.pftrace", small=True), "the file may not grow")
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_module, "MOST", 500)
    past = open_past([REAL], lambda share: None)

    def interrupted() -> Iterator[Part]:
        parts = passage(past)
        yield from (next(parts) for _ in range(3))
        assert len(list(tmp_path.iterdir())) == 1, "it is being written"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(interrupted(), [PerfettoSink(tmp_path / "x.pftrace")])
    past.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"t": 5, "engine": "p0", "moment": "step"}',
        '{"t": 5, "engine": "\\ud800", "moment": "load", "waiting": 3}',
        '{"t": 5, "engine": "p0", "moment": "started", "started": {"tp": "two", "role": ["x"], "kind": 7}}',
        '{"t": 5, "engine": "p0", "leg": "decode", "moment": "failed", "request": "\\udfff", "reason": "odd \\u0000"}',
        '{"t": -5, "engine": "p0", "moment": "step", "begin": -900, "tokens": 0, "folded": 3}',
        '{"t": 5, "engine": "p0", "moment": "step", "begin": 900}',
    ],
)
def test_what_nobody_would_send(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    out = tmp_path / "x.pftrace"
    done = run(tmp_path / "x.jsonl", "--perfetto", out)
    assert done.returncode == 0, done.stderr
    assert whole(out)
