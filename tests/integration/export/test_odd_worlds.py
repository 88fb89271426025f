"""Ids that nobody expects, streams that are closed, folders that take nothing, a bare locale: never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvscope.core.critical_path import split
from kvscope.sources import open_sources
from kvscope.sources.keys import sound
from tests.unit.core.scene import push_early

REAL = Path("docs/pictures/push-early.kvs").resolve()
ODD = {
    "newline": "a\nb\r\nc",
    "nul": "a\x00b\x1b[31m",
    "long": "x" * 10_000,
    "backwards": "\u202e\u05d0\u05d1 evil \u2067",
    "half": "a\ud800b",
    "markup": "'\"<b>&amp;;`$(id)`\\",
    "emoji": "😀 é e\u0301 ",
}
FORMATS = {"--jsonl": "out.jsonl", "--perfetto": "out.pftrace", "--otlp": "out.otlp", "--parquet": "out"}


def lines(path: Path, odd: str) -> Path:
    """A push under odd names: ids, engines, an engine's own words."""
    named: list[dict[str, Any]] = [
        {
            **item,
            **{
                name: item[name] + odd
                for name in ("request", "peer_request", "remote_request", "engine")
                if name in item
            },
            **({"wall_ns": 1_800_000_000_000_000_000 + item["t"]} if item["moment"] == "arrived" else {}),
        }
        for item in push_early()
    ]
    last = max(named, key=lambda item: item["t"])
    named.append({**last, "moment": "failed", "t": last["t"] + 1, "reason": f"own words {odd}"})
    path.write_text("".join(json.dumps(item) + "\n" for item in ({"version": 1}, *named)))
    return path


def kvscope(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvscope", *map(str, words)]
    environ = {**os.environ, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    more = {"capture_output": True, "env": environ, **more}
    ran = subprocess.run(command, check=False, timeout=120, **more)
    told = [(each or b"").decode("ascii", "replace") for each in (ran.stdout, ran.stderr)]
    assert "Traceback" not in told[1]
    assert "fault of kvscope's own" not in told[1]
    return subprocess.CompletedProcess(command, ran.returncode, *told)


@pytest.mark.parametrize("odd", ODD)
def test_odd_names_go_through_every_export_and_back(tmp_path: Path, odd: str) -> None:
    path = lines(tmp_path / "it.jsonl", ODD[odd])
    wanted = [word for name, file in FORMATS.items() for word in (name, tmp_path / file)]
    done = kvscope("export", path, *wanted)
    assert done.returncode == 0, done.stderr
    assert all(character.isprintable() for line in done.stderr.splitlines() for character in line)
    for back in (tmp_path / "out.jsonl", tmp_path / "out"):
        there, again = (open_sources([each]).events for each in (path, back))
        assert sorted(map(sound, there.texts.values())) == sorted(map(sound, again.texts.values()))
        assert sorted(split(there).ttft.tolist()) == sorted(split(again).ttft.tolist())
    for each in (tmp_path / "out.otlp", tmp_path / "out.jsonl"):
        for line in each.read_text(encoding="utf-8").splitlines():
            json.loads(line)


@pytest.mark.parametrize("wall", [-(2**62), 2**63 - 1])
def test_a_time_of_day_that_cannot_be_is_told_and_hinders_no_other_format(tmp_path: Path, wall: int) -> None:
    path = tmp_path / "it.jsonl"
    items = [item | ({"wall_ns": wall} if item["moment"] == "arrived" else {}) for item in push_early()]
    path.write_text("".join(json.dumps(item) + "\n" for item in ({"version": 1}, *items)))
    done = kvscope("export", path, "--otlp", tmp_path / "out.otlp")
    assert done.returncode == 2
    assert "before 1970 or after 2262" in done.stderr
    assert not (tmp_path / "out.otlp").exists()
    wanted = [word for name, file in FORMATS.items() if name != "--otlp" for word in (name, tmp_path / file)]
    done = kvscope("export", path, *wanted)
    assert done.returncode == 0, done.stderr


CLOSED = {"stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("verb", ["export", "share", "dump", "record", "profile"])
def test_closed_streams_end_nothing_in_a_traceback(tmp_path: Path, verb: str, closed: str) -> None:
    words = {
        "export": f"{REAL} --jsonl {tmp_path}/o.jsonl --perfetto {tmp_path}/o.pftrace --parquet {tmp_path}/o",
        "share": f"{REAL} -o {tmp_path}/s.kvs",
        "dump": f"--run-dir {tmp_path} -o {tmp_path}/d.kvs",
        "record": f"--run-dir {tmp_path} --for 50ms -o {tmp_path}/r.kvs",
        "profile": f"docs/pictures/push-profile --plain --speedscope {tmp_path}/p.json",
    }[verb]
    ran = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m kvscope {verb} {words} {CLOSED[closed]}"], capture_output=True, check=False
    )
    assert b"Traceback" not in ran.stdout + ran.stderr
    assert b"fault of kvscope's own" not in ran.stderr
    assert ran.returncode in (0, 2, 3)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", [f"report {REAL}", "profile docs/pictures/push-profile --json", f"export {REAL} --jsonl -", "--help"]
)
def test_standard_output_that_takes_nothing_is_named(words: str, unbuffered: str) -> None:
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "kvscope", *words.split()]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environ)
    said = "kvscope: cannot write standard output: no space left on device\n"
    assert (ran.returncode, ran.stderr) == (2, said)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
@pytest.mark.parametrize("name", [*FORMATS, "--speedscope", "--flame"])
def test_a_folder_that_takes_nothing_is_one_sentence(tmp_path: Path, name: str) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    mount = f'mount -t tmpfs -o ro none {closed} || exit 99; exec "$@"'
    verb, what = ("export", REAL) if name in FORMATS else ("profile", Path("docs/pictures/push-profile").resolve())
    words = [sys.executable, "-m", "kvscope", verb, str(what), name, str(closed / "out")]
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "sh", *words], capture_output=True, text=True, check=False
    )
    if ran.returncode == 99:
        pytest.skip("nothing may be mounted here")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "read-only file system" in ran.stderr
