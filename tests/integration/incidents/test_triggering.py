"""What sets off an incident, what it holds, and how often."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.probe.ring import boot_id
from kvscope.sources import open_sources

from ..live.conftest import Serve, Served, until
from .conftest import Incidents, Pair

Keep = Callable[..., Served]
SHORT = ("--before", "30s", "--after", "1s")


def posted(server: Served, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", "/trigger", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def incident_counts(server: Served) -> dict[str, int]:
    """kind -> how many, as Prometheus is told."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    found = re.findall(r'kvscope_incidents_total{kind="(\w+)"} (\d+)', page)
    return {kind: int(many) for kind, many in found}


def condition(server: Served) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.url}/healthz", timeout=10) as answer:
        told: dict[str, Any] = json.loads(answer.read())
    return told


def test_a_late_dispatch_is_saved_with_what_was_before_and_after(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    server = keep("--trigger", "dispatch>200ms", "--before", "30s", "--after", "2s")
    before = [pair.request() for _ in range(3)]
    late = pair.request(delay_ms=250)
    until(lambda: bool(incidents.found), "nothing was saved")
    after = pair.request()
    told = incidents.until(1)
    assert incidents.found[0].name.endswith("Z-dispatch")
    assert told["cause"]["what"] == "dispatch>200ms"
    assert [each["request"] for each in told["cause"]["requests"]] == [late]
    assert told["cause"]["limit_ns"] == 200_000_000 < told["cause"]["value_ns"] < 300_000_000
    assert (told["ended_by"], told["clock"]["boot_id"], told["recording"]["lost"]) == ("its time", boot_id(), 0)
    times = {name: each["ns"] for name, each in told["times"].items()}
    assert times["begin"] < times["trigger"] < times["trigger"] + 2 * 10**9 >= times["end"]
    assert {(each["engine"], each["vllm"]) for each in told["engines"]} == {("p0", "0.33.0"), ("d0", "0.33.0")}
    opened = open_sources([incidents.found[0]])
    assert opened.notes == ()
    assert len(opened.events) == told["recording"]["events"]
    assert {each.request for each in split(opened.events)} == {*before, late, after}
    recorded = opened.events.rows["t"]
    assert (times["begin"], times["end"]) == (recorded.min(), recorded.max())
    said = server.end()
    assert f"{incidents.found[0]}: dispatch>200ms; saving until 2 s after" in said
    assert f"{incidents.found[0]}: dispatch>200ms, {len(opened.events)} events of " in said


def test_the_report_reads_an_incident(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    keep("--trigger", "failed", *SHORT)
    pair.request()
    pair.failure("lease_expired")
    told = incidents.until(1)
    assert told["cause"]["requests"][0]["reason"] == "decode lease_expired"
    command = [sys.executable, "-m", "kvscope", "report", "--json", str(incidents.found[0])]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["summary"]["condition"]["timed"] == 1


def test_what_comes_too_soon_is_counted_and_not_saved(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    server = keep("--trigger", "dispatch>200ms", "--trigger", "failed", "--before", "5s", "--after", "100ms")
    pair.request(delay_ms=250)
    incidents.until(1)
    pair.request(delay_ms=300)
    pair.failure("no_blocks")
    until(lambda: condition(server)["flight"]["incidents"]["suppressed"] == 2, "nothing was suppressed")
    assert posted(server)[0] == 202
    told = incidents.until(2)
    assert told["suppressed_before"] == 2
    until(lambda: incident_counts(server) == {"saved": 2, "joined": 0, "suppressed": 2, "failed": 0}, "counts differ")


@pytest.mark.slow
def test_what_happens_meanwhile_joins(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    server = keep("--trigger", "dispatch>200ms", "--trigger", "failed", "--before", "5s", "--after", "3s")
    pair.request(delay_ms=250)
    until(lambda: bool(incidents.found), "nothing was saved")
    pair.failure("no_blocks")
    until(lambda: condition(server)["flight"]["incidents"]["joined"] == 1, "nothing joined")
    status, text = posted(server, b"and  this\n")
    assert (status, json.loads(text)) == (202, {"outcome": "joined", "folder": str(incidents.found[0])})
    assert "saved" not in text
    told = incidents.until(1)
    assert [each["what"] for each in told["also"]] == ["failed", "POST /trigger"]
    assert told["also"][1]["reason"] == "and this"
    assert told["also_count"] == 2
    assert len(incidents.found) == 1


def test_a_signal_saves(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    server = keep("--after", "100ms", "--no-metrics")
    sent = pair.request()
    os.kill(server.process.pid, signal.SIGUSR1)
    told = incidents.until(1)
    assert told["cause"] | {"at_ns": 0} == {"what": "SIGUSR1", "at_ns": 0, "by_hand": True}
    assert [each.request for each in split(open_sources([incidents.found[0]]).events)] == [sent]
    assert server.process.poll() is None


def test_a_signal_ends_no_server_that_keeps_nothing(pair: Pair, serve: Serve) -> None:
    server = serve()
    os.kill(server.process.pid, signal.SIGUSR1)
    assert condition(server)["status"] == "ok"
    assert "nothing is kept that SIGUSR1 could save" in server.end()


@pytest.mark.slow
def test_who_may_ask_over_http(pair: Pair, keep: Keep, incidents: Incidents, tmp_path: Path) -> None:
    server = keep("--after", "100ms", "--before", "1s")
    assert posted(server, Origin="http://elsewhere.example")[0] == 403
    assert posted(server, Host="elsewhere.example")[0] == 403
    assert posted(server, b"x" * 5000)[0] == 400
    assert incidents.found == []
    assert posted(server, "slow since the déploiement / 3".encode())[0] == 202
    assert incidents.until(1)["cause"]["reason"] == "slow since the déploiement / 3"
    assert incidents.found[0].name.endswith("Z-slow-since-the-d-ploiement---3")
    server.end()
    (tmp_path / "token").write_text("a-token-of-16-ch")
    guarded = keep("--after", "100ms", "--before", "1s", "--token-file", str(tmp_path / "token"))
    assert posted(guarded)[0] == 401
    assert posted(guarded, Authorization="Bearer something-else")[0] == 401
    assert posted(guarded, Authorization="Bearer a-token-of-16-ch")[0] == 202
    incidents.until(2)


def test_a_server_that_keeps_nothing_says_so(serve: Serve) -> None:
    status, text = posted(serve())
    assert (status, "start `kvscope serve` with --save-to DIR" in text) == (404, True)


def test_ending_the_server_ends_what_is_saved(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    server = keep("--after", "300s")
    sent = pair.request()
    assert posted(server)[0] == 202
    until(lambda: bool(incidents.found), "nothing was saved")
    said = server.end()
    assert server.process.returncode == 0
    assert "then serving ended" in said
    told = incidents.account()
    assert (told["complete"], told["ended_by"]) == (True, "serving ended")
    opened = open_sources([incidents.found[0]])
    assert opened.notes == ()
    assert [each.request for each in split(opened.events)] == [sent]


def test_the_oldest_make_room(pair: Pair, keep: Keep, incidents: Incidents, tmp_path: Path) -> None:
    (tmp_path / "incidents" / "mine").mkdir(parents=True)
    old = tmp_path / "incidents" / "incident-20200101T000000Z-dispatch"
    noted = tmp_path / "incidents" / "incident-20200102T000000Z-dispatch"
    for path in (old, noted):
        path.mkdir()
        (path / "recording.kvs").write_bytes(bytes(600_000))
    (noted / "note.txt").write_text("mine")
    server = keep("--after", "100ms", "--quota", "1MB")
    pair.request()
    assert posted(server)[0] == 202
    incidents.until(1)
    assert not old.exists()
    assert (noted / "recording.kvs").exists()
    assert (tmp_path / "incidents" / "mine").exists()
    assert len(incidents.found) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--trigger", "dispach>200ms"], "--trigger 'dispach>200ms': dispach is not ttft, nor a stage or class"),
        (["--before", "10m"], "--before 600s is more than --keep 300s holds"),
        (["--keep-bytes", "1kB"], "--keep-bytes 1000 is too small; give 1MB or more"),
        (["--quota", "0"], "--quota 0 is too small; give 1MB or more"),
        (["--keep", "0s"], "--keep 0s is too short; give 1s or more"),
        (["--before", "0s", "--after", "0s"], "--before and --after are both 0: nothing would be saved"),
        (["--pause", "-5s"], "argument --pause: "),
        (["--trigger", "dispatch>200"], "--trigger 'dispatch>200': '200' is not a length of time; give it a unit"),
        (["--trigger", "p95(ttft)>2s/10m"], "its span of 10 min is longer than --keep 300s holds"),
        (["--trigger", "p95(ttft)>2s", "--keep", "10s"], "end it with a shorter one, such as /10s"),
        (["--save-to", "/rings", "--run-dir", "/rings"], "--save-to /rings: that is where the rings are, in memory"),
        (["--save-to", ""], "argument --save-to: an empty name names nothing"),
        (["--ids-key", "nowhere", "--ids", "hash"], "nowhere cannot be read: no such file or directory"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, words: list[str], sentence: str) -> None:
    command = [
        sys.executable,
        "-m",
        "kvscope",
        "serve",
        "--port",
        "0",
        "--save-to",
        str(tmp_path / "incidents"),
        *words,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, sentence in ran.stderr, ran.stderr.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("words", [["--trigger", "failed"], ["--ids", "hash"], ["--ids-key", "x"]])
def test_without_a_folder_nothing_can_be_saved(words: list[str]) -> None:
    command = [sys.executable, "-m", "kvscope", "serve", "--port", "0", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert " is for incidents, and nothing says where to save them; add --save-to DIR" in ran.stderr
    assert ran.stderr.startswith("kvscope: --")


@pytest.mark.parametrize("kind", ["file", "pipe", "below a file", "link to nothing"])
def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link to nothing":
            path.symlink_to(tmp_path / "nothing")
        case _:
            path.write_text("")
    named = path / "under" if kind == "below a file" else path
    command = [sys.executable, "-m", "kvscope", "serve", "--port", "0", "--save-to", str(named)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    reason = "not a directory" if kind == "below a file" else "it is no folder"
    assert (ran.returncode, ran.stderr) == (2, f"kvscope: --save-to {named}: {reason}; name another folder\n")


def test_a_folder_is_one_server_s(keep: Keep, incidents: Incidents, tmp_path: Path) -> None:
    keep()
    command = [sys.executable, "-m", "kvscope", "serve", "--port", "0", "--save-to", str(incidents.path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "another `kvscope serve` saves into" in ran.stderr


def test_two_incidents_of_one_time_are_one_when_read_together(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    server = keep("--after", "100ms")
    pair.request()
    for number in (1, 2):
        assert posted(server)[0] == 202
        incidents.until(number)
    opened = open_sources(incidents.found)
    once = open_sources([incidents.found[0]])
    assert opened.duplicates == len(once.events) > 0
    assert np.array_equal(np.sort(opened.events.rows["t"]), np.sort(once.events.rows["t"]))
