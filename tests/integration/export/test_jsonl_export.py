"""`kvscope export --jsonl`: lines that are whole, or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvscope.export.interrupts import undisturbed
from kvscope.model.events import Events
from kvscope.probe.vocabulary import UNKNOWN
from kvscope.sources.jsonl import parse_jsonl
from kvscope.sources.keys import key_of_text, text_of_key
from kvscope.sources.lines import Lines, write_jsonl

from ..live.scenes import BEGIN, SECOND, Recording
from ..sources.conftest import ROOT
from .trips import PICTURES, lines, report

EARLY = PICTURES / "push-early.kvs"


def ran(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvscope", "export", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_standard_output_is_lines_and_nothing_else(tmp_path: Path) -> None:
    done = ran(EARLY, "--jsonl", "-")
    assert (done.returncode, done.stderr) == (0, "4,438 events written to standard output\n")
    assert json.loads(done.stdout.splitlines()[0]) == {"version": 1}
    (tmp_path / "a.jsonl").write_text(done.stdout)
    assert report(tmp_path / "a.jsonl") == report(EARLY)
    piped = subprocess.run(
        [sys.executable, "-m", "kvscope", "report", "-", "--json"], cwd=ROOT, input=done.stdout, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert piped.stdout == report(EARLY)


def test_records_that_no_format_gets_are_counted(tmp_path: Path) -> None:
    """By the lines that are written, and again where these are read."""
    ran(EARLY, "--jsonl", tmp_path / "a.jsonl")
    found = (tmp_path / "a.jsonl").read_text().splitlines()
    for number, line in enumerate(found):
        if "moment" in (item := json.loads(line)) and number % 100 == 0:
            found[number] = json.dumps(item | {"t": 2**62 + number})
    wild = tmp_path / "wild.jsonl"
    wild.write_text("\n".join(found) + "\n")
    done = ran(wild, "--jsonl", tmp_path / "b.jsonl", "--parquet", tmp_path / "b", "--perfetto", tmp_path / "b.pftrace")
    last = json.loads((tmp_path / "b.jsonl").read_text().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert last["impossible"] == sum("moment" in json.loads(line) for line in found[::100]) > 40
    said = f"kvscope: {last['impossible']} records are left out: of a time that cannot be, or of an unknown moment"
    assert sum(line.startswith(said) for line in done.stderr.splitlines()) == 1, done.stderr


def test_a_reader_that_goes_away_ends_it() -> None:
    command = [sys.executable, "-m", "kvscope", "export", str(EARLY), "--jsonl", "-"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as verb:
        assert verb.stdout is not None
        assert verb.stderr is not None
        verb.stdout.readline()
        verb.stdout.close()
        assert (verb.wait(), verb.stderr.read()) == (141, b"")


def test_lines_are_by_time_and_carry_who_stamped_them(tmp_path: Path) -> None:
    found = [json.loads(line) for line in lines(tmp_path / "a.jsonl", EARLY).read_text().splitlines()]
    moments = [item for item in found if "moment" in item]
    assert [item["t"] for item in moments] == sorted(item["t"] for item in moments)
    told = {(item["process"]["engine"], item["process"]["pid"]) for item in found if "process" in item}
    assert {(item["engine"], item["pid"]) for item in moments} == told
    assert found[-1] == {"notes": [], "impossible": 0}


def test_a_file_is_replaced_only_when_told_to_and_a_folder_never(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("mine")
    done = ran(EARLY, "--jsonl", path)
    assert (done.returncode, path.read_text()) == (2, "mine")
    assert "--force" in done.stderr
    assert ran(EARLY, "--jsonl", path, "--force").returncode == 0
    assert report(path) == report(EARLY)
    done = ran(EARLY, "--jsonl", tmp_path, "--force")
    assert done.returncode == 2
    assert "name another file" in done.stderr


def test_what_is_told_of_a_process_later_replaces_it(tmp_path: Path) -> None:
    told = {"engine": "p0", "pid": 3, "lost": 2, "started": {"mode": "push"}}
    later = {"engine": "p0", "pid": 3, "lost": 5, "earlier": 7, "ended": True, "wall_offset_ns": -4}
    moment = {"t": 1, "engine": "p0", "pid": 3, "moment": "load", "waiting": 0}
    found = parse_jsonl(json.dumps(item) for item in ({"process": told}, moment, {"process": later}))
    (process,) = found.events.processes
    assert (process.lost, process.earlier, process.ended, process.wall_ns) == (5, 7, True, -4)
    assert (process.started, process.pid) == ({}, 3)


def test_what_no_reader_takes_is_left_out_and_counted() -> None:
    step = {"t": 1, "engine": "p0", "moment": "step", "begin": -5, "requests": 1, "tokens": 2, "connector_ns": 3}
    events = parse_jsonl([json.dumps(step)]).events
    events.rows["values"][0, 2:4] = -1, 2**60
    written = Lines()
    (line,) = written.of(events)
    assert written.left_out == 2
    found = json.loads(line)
    assert {name: found.get(name) for name in ("begin", "requests", "tokens", "connector_ns")} == {
        "begin": -5,
        "requests": 1,
        "tokens": None,
        "connector_ns": None,
    }
    assert parse_jsonl(write_jsonl(events)).events.rows["values"][0].tolist() == [-5, 1, *[UNKNOWN] * 4]


@pytest.mark.parametrize(
    "text", ["cmpl-a", "#", "#abc", "##0123456789abcdef", "#0123456789abcdef", "#0000000000000000"]
)
def test_an_id_that_looks_like_a_lost_one_is_told_apart(text: str) -> None:
    learnt: dict[int, str] = {}
    key = key_of_text(text_of_key(77, {77: text}), learnt)
    assert learnt == {key: text}
    assert key_of_text(text_of_key(2**63 + 5, {}), learnt) == 2**63 + 5
    assert len(learnt) == 1


def test_an_id_whose_text_was_lost_stays_that_id(tmp_path: Path) -> None:
    with Recording(tmp_path / "a.kvs") as recording:
        recording.process(0)
        rows = recording.records(0, [BEGIN, BEGIN + SECOND])
        rows["request"] = 12345
        recording._writer.records(0, 1, rows.tobytes())
        recording.end()
    again = lines(tmp_path / "a.jsonl", tmp_path / "a.kvs")
    assert report(again) == report(tmp_path / "a.kvs")
    found: Events = parse_jsonl(again.read_text().splitlines()).events
    assert set(found.rows["request"].tolist()) == {0, 12345}
    assert found.texts == {}


def interrupted(done: list[str]) -> None:
    with undisturbed():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("half")
        done.append("whole")


def test_what_is_done_undisturbed_is_done_to_its_end_and_then_it_is_heard() -> None:
    done = list[str]()
    with pytest.raises(KeyboardInterrupt):
        interrupted(done)
    assert done == ["half", "whole"]
    with pytest.raises(ValueError, match="its own"), undisturbed():
        raise ValueError("its own")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def elsewhere(done: list[str]) -> None:
    with undisturbed():
        done.append("there")


def test_another_thread_is_disturbed_by_no_signal_anyway() -> None:
    done = list[str]()
    thread = threading.Thread(target=elsewhere, args=(done,))
    thread.start()
    thread.join()
    assert done == ["there"]
