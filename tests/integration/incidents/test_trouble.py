"""Incidents that cannot be saved: it is told before one has to be, with the reason, and ends nothing for good."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvscope.analysis.render.amounts import duration
from kvscope.probe.ids import Ids
from kvscope.sources import open_sources

from ..live.conftest import Served, until
from ..sources.conftest import ROOT
from .conftest import Incidents, Pair
from .test_triggering import posted

Keep = Callable[..., Served]
QUICK = ("--before", "5s", "--after", "100ms")


def asked(server: Served, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def in_place_of(path: Path) -> None:
    """Remove the folder, and put a file there."""
    shutil.rmtree(path)
    path.write_text("in its place")


def test_a_folder_that_cannot_be_saved_into_is_told_by_health_and_is_not_ready(
    pair: Pair, keep: Keep, incidents: Incidents
) -> None:
    server = keep(*QUICK)
    assert asked(server, "/readyz")[1]["status"] == "ok"
    in_place_of(incidents.path)
    fault = f"incidents cannot be saved into {incidents.path}: it is no folder"
    until(lambda: asked(server, "/healthz")[1]["status"] == fault, "it is not told")
    assert asked(server, "/healthz")[0] == 200
    status, told = asked(server, "/readyz")
    assert (status, told["status"], told["flight"]["fault"]) == (503, fault, fault)
    status, text = posted(server)
    assert (status, json.loads(text)) == (
        500,
        {"outcome": "failed", "reason": f"cannot save into {incidents.path}: it is no folder"},
    )
    incidents.path.unlink()
    until(lambda: asked(server, "/readyz")[0] == 200, "it does not get ready again")
    assert posted(server)[0] == 202
    incidents.until(1)
    said = server.end()
    assert said.count(f"kvscope: {fault}\n") == 1
    assert said.count(f"incidents can be saved into {incidents.path} again\n") == 1


def test_a_folder_that_was_removed_is_made_again_and_is_still_its_server_s(
    pair: Pair, keep: Keep, incidents: Incidents
) -> None:
    server = keep(*QUICK)
    shutil.rmtree(incidents.path)
    pair.request()
    status, text = posted(server)
    assert status == 202
    told = json.loads(text)
    assert told["outcome"] == "begun"
    incidents.until(1)
    assert (told["folder"], "T" in told["until"]) == (str(incidents.found[0]), True)
    command = [sys.executable, "-m", "kvscope", "serve", "--port", "0", "--save-to", str(incidents.path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "another `kvscope serve` saves into" in ran.stderr


def test_what_could_not_be_saved_uses_up_no_pause(pair: Pair, keep: Keep, incidents: Incidents) -> None:
    server = keep("--trigger", "dispatch>200ms", *QUICK)
    in_place_of(incidents.path)
    pair.request(delay_ms=250)
    until(lambda: asked(server, "/healthz")[1]["flight"]["incidents"]["failed"] == 1, "nothing failed")
    incidents.path.unlink()
    until(lambda: asked(server, "/readyz")[0] == 200, "it does not get ready again")
    pair.request(delay_ms=250)
    incidents.until(1)
    until(lambda: asked(server, "/healthz")[1]["flight"]["incidents"]["saved"] == 1, "it does not count as saved")
    assert asked(server, "/healthz")[1]["flight"]["incidents"]["failed"] == 1


@pytest.mark.slow
def test_one_that_is_removed_while_it_is_saved_is_told_and_the_next_is_saved(
    pair: Pair, keep: Keep, incidents: Incidents
) -> None:
    server = keep("--trigger", "dispatch>200ms", "--after", "4s")
    pair.request(delay_ms=250)
    until(lambda: bool(incidents.found), "nothing was saved")
    shutil.rmtree(incidents.path)
    until(lambda: asked(server, "/healthz")[1]["flight"]["incidents"]["failed"] == 1, "nothing failed")
    until(lambda: asked(server, "/readyz")[0] == 200, "it does not get ready again")
    pair.request(delay_ms=250)
    assert incidents.until(1)["cause"]["what"] == "dispatch>200ms"
    assert "could not be saved whole: its folder was removed while it was saved" in server.end()


def test_before_is_what_was_asked_for_and_what_is_told_is_what_is_saved(
    pair: Pair, keep: Keep, incidents: Incidents
) -> None:
    for _ in range(3):
        pair.request()
    server = keep("--before", "60s", "--after", "100ms")  # what rings held is there at its first look
    pair.request()
    assert posted(server)[0] == 202
    told = incidents.until(1)
    times = open_sources([incidents.found[0]]).events.rows["t"]
    assert (told["times"]["begin"]["ns"], told["times"]["end"]["ns"]) == (times.min(), times.max())
    assert times.min() >= told["times"]["trigger"]["ns"] - 60 * 10**9
    assert times.max() <= told["times"]["trigger"]["ns"] + 10**8
    assert f"{len(times)} events of {duration(int(times.max() - times.min()))}\n" in server.end()


def test_ids_are_hidden_in_all_that_is_saved(pair: Pair, keep: Keep, incidents: Incidents, tmp_path: Path) -> None:
    (key := tmp_path / "key").write_bytes(b"k" * 32)
    key.chmod(0o600)
    server = keep("--trigger", "dispatch>200ms", "--trigger", "failed", *QUICK, "--ids", "hash", "--ids-key", str(key))
    sent = pair.request(delay_ms=250)
    told = incidents.until(1)
    hidden = Ids(b"k" * 32).name(sent)
    assert [each["request"] for each in told["cause"]["requests"]] == [hidden]
    assert hidden in open_sources([incidents.found[0]]).events.texts.values()
    server.end()
    for path in incidents.found[0].iterdir():
        assert b"r0000" not in path.read_bytes()
    assert not any("r0000" in text for text in open_sources([incidents.found[0]]).events.texts.values())


ENVIRONS: tuple[dict[str, str], ...] = (
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
)


@pytest.mark.parametrize("environ", ENVIRONS)
def test_where_only_ascii_can_be_written_it_is_served_and_saved(
    pair: Pair, run_dir: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = tmp_path / "störungen"
    words = ["serve", "--port", "0", "--run-dir", str(run_dir), "--save-to", str(folder), "--after", "100ms"]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    with subprocess.Popen([sys.executable, "-m", "kvscope", *words], text=True, env=env, **pipes) as process:  # type: ignore[call-overload]
        port = process.stdout.readline().strip().rpartition(":")[2]
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
        connection.request("POST", "/trigger", "größer".encode())
        assert connection.getresponse().status == 202
        connection.close()
        until(lambda: any('"complete": true' in path.read_text() for path in folder.glob("*/incident.json")), "nothing")
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
    assert (process.returncode, "Traceback" in said) == (0, False)


@pytest.mark.parametrize("closed", ["2>&-", "</dev/null 2>/dev/full", "<&- 2>&-"])
def test_where_standard_error_takes_nothing_it_is_served_and_saved(
    pair: Pair, run_dir: Path, tmp_path: Path, closed: str
) -> None:
    pair.request()
    script = (
        f'exec "$0" -m kvscope serve --port 0 --run-dir {run_dir} --save-to {tmp_path / "saved"} --after 100ms {closed}'
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(["sh", "-c", script, sys.executable], text=True, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip().rpartition(":")[2]
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
        connection.request("POST", "/trigger", b"")
        assert connection.getresponse().status == 202
        connection.close()
        found = Incidents(tmp_path / "saved")
        found.until(1)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert len(open_sources([found.found[0]]).events) == found.account()["recording"]["events"]


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", ">/dev/full"])
def test_where_standard_output_takes_nothing_it_ends_with_a_sentence(
    run_dir: Path, tmp_path: Path, closed: str
) -> None:
    script = f'exec "$0" -m kvscope serve --port 0 --run-dir {run_dir} --save-to {tmp_path / "saved"} {closed}'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["sh", "-c", script, sys.executable], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 0 if "2>" in closed else 1)
    assert "Traceback" not in ran.stderr
