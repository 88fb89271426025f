"""`kvscope overhead` on a process that records with the real probe, judged by a page that notices."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kvscope.probe import control
from kvscope.probe.reader import list_rings

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "scripts" / "recording_process.py"
BOUNDS = (0.05, 0.15, 0.25)


class Engine:
    """A metrics page in vLLM's form. Each look finds ten more requests, twice as slow while the probe records."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir, self.count, self.total, self.looks = run_dir, {True: 0, False: 0}, 0.0, 0
        self.busy, self.body = True, ""
        self.slow = 10.0
        self.fails_after = 1_000_000
        self.seen = {True: threading.Event(), False: threading.Event()}
        """Set once a look found the probe on, and off."""

    def page(self) -> str:
        self.looks += 1
        if self.body:
            return self.body
        on = is_on(self.run_dir)
        self.seen[on].set()
        if self.busy:
            self.count[on] += 10
            self.total += self.slow * (0.2 if on else 0.1)
        name, labels = "vllm:time_to_first_token_seconds", 'engine="0",model_name="m"'
        rows = [f'{name}_bucket{{{labels},le="{bound}"}} {self._below(bound)}.0' for bound in BOUNDS]
        whole = sum(self.count.values())
        rows += [f'{name}_bucket{{{labels},le="+Inf"}} {whole}.0', f"{name}_count{{{labels}}} {whole}.0"]
        return "\n".join([f"# TYPE {name} histogram", *rows, f"{name}_sum{{{labels}}} {self.total}", ""])

    def _below(self, bound: float) -> int:
        return self.count[False] * (bound > 0.1) + self.count[True] * (bound > 0.2)


def is_on(run_dir: Path) -> bool:
    (ring,) = list_rings(run_dir)
    return ring.header.on


@pytest.fixture
def engine(run_dir: Path) -> Engine:
    return Engine(run_dir)


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = engine.page().encode()
            self.send_response(200 if engine.looks <= engine.fails_after else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def recording(run_dir: Path) -> Iterator[None]:
    """A process with rings, that lives until the end of the test."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "d0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("write 1\n")
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "done 1\n"]
    yield
    process.communicate()


Overhead = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def overhead(url: str) -> Iterator[Overhead]:
    """overhead(*words): the verb as a process of its own, on the page unless --metrics is among the words."""
    begun: list[subprocess.Popen[str]] = []

    def run(*words: str) -> subprocess.Popen[str]:
        where = () if "--metrics" in words else ("--metrics", url)
        command = [sys.executable, "-m", "kvscope", "overhead", *where, *words]
        begun.append(subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("was_on", [True, False])
def test_the_page_s_own_figures_decide(run_dir: Path, overhead: Overhead, was_on: bool) -> None:
    control.switch(run_dir, None, was_on)
    process = overhead("--toggle", "10ms", "--rounds", "6", "--json")
    out, err = process.communicate()
    assert process.returncode == 0, err
    (cost,) = json.loads(out)["costs"]
    assert cost["on_over_off"]["ratio"] == pytest.approx(2.0)
    assert cost["same_over_same"]["ratio"] == pytest.approx(1.0)
    assert (cost["on"]["observations"], cost["off"]["observations"]) == (60, 60)
    assert cost["off"]["p99"] < cost["on"]["p50"]
    assert "round 6 of 6: TTFT 200.0 ms on, 100.0 ms off" in err
    assert is_on(run_dir) is was_on


@pytest.mark.usefixtures("recording")
def test_it_says_that_off_is_not_stock(overhead: Overhead) -> None:
    out, _ = overhead("--toggle", "10ms", "--rounds", "4").communicate()
    assert "TTFT" in out
    assert "slower with recording on, by 100.0%" in out
    assert "Off is not stock vLLM" in out


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("was_on", [True, False])
def test_an_interrupted_run_leaves_the_probe_as_it_was(
    run_dir: Path, engine: Engine, overhead: Overhead, number: signal.Signals, was_on: bool
) -> None:
    control.switch(run_dir, None, was_on)
    process = overhead("--toggle", "1h", "--settle", "0", *begin_with(not was_on))
    assert engine.seen[not was_on].wait(60)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "stopped before the first round was whole" in err
    assert is_on(run_dir) is was_on


def begin_with(on: bool) -> tuple[str, str]:
    from kvscope.sources.alternation import orders

    return "--seed", str(next(seed for seed in range(100) if orders(20, seed)[0] is on))


@pytest.mark.usefixtures("recording")
def test_an_engine_that_goes_away_ends_the_run_with_what_was_seen(
    run_dir: Path, engine: Engine, overhead: Overhead
) -> None:
    engine.fails_after = 3 + 4 * 5
    process = overhead("--toggle", "10ms", "--rounds", "50")
    out, err = process.communicate()
    assert process.returncode == 2
    assert "slower with recording on" in out
    assert "after 5 of 50 rounds: " in err
    assert "answers with status 503" in err
    assert is_on(run_dir)


@pytest.mark.usefixtures("recording")
def test_without_traffic_there_is_nothing_to_see(run_dir: Path, engine: Engine, overhead: Overhead) -> None:
    engine.busy = False
    process = overhead("--toggle", "10ms")
    assert one_sentence(process, 2).startswith("kvscope: no request got its first token at http://127.0.0.1:")
    assert is_on(run_dir)


@pytest.mark.usefixtures("recording")
def test_a_page_of_something_else_is_refused(engine: Engine, overhead: Overhead) -> None:
    engine.body = "http_requests_total 3\n"
    assert "not with vLLM's metrics" in one_sentence(overhead(), 2)


@pytest.mark.usefixtures("recording")
def test_a_page_whose_figures_are_none_is_refused(engine: Engine, overhead: Overhead) -> None:
    engine.body = "vllm:time_to_first_token_seconds_count NaN\n"
    assert "answers with what is no metrics page: 'NaN' is no figure" in one_sentence(overhead(), 2)


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nvllm:", "breaks off 99995 bytes before its end"),
        (b"\x1b[2J\n\x00garbage\n", "cannot be reached: ?[2J"),
        (b"", "cannot be reached: Remote end closed connection"),
    ],
)
def test_an_answer_that_is_none_is_one_sentence(overhead: Overhead, answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = overhead("--metrics", f"127.0.0.1:{server.getsockname()[1]}")
        connection, _ = server.accept()
        connection.recv(65536)
        connection.sendall(answer)
        connection.close()
        assert said in one_sentence(process, 2)


@pytest.mark.usefixtures("recording")
def test_an_answer_without_end_is_not_waited_for(run_dir: Path, overhead: Overhead) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = overhead("--metrics", f"127.0.0.1:{server.getsockname()[1]}")
        connection, _ = server.accept()
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with connection, suppress(OSError):
            while True:
                connection.sendall(b"# nothing\n" * 10_000)
        assert "its answer " in one_sentence(process, 2)
    assert is_on(run_dir)


@pytest.mark.usefixtures("recording")
def test_a_run_without_one_usable_round_says_so(engine: Engine, overhead: Overhead) -> None:
    engine.slow = 0.0
    process = overhead("--toggle", "10ms", "--rounds", "4")
    out, _ = process.communicate()
    assert process.returncode == 1
    assert "no round had requests in both its blocks" in out


@pytest.mark.parametrize("rounds", ["3", "99999999999999999999"])
def test_as_many_rounds_as_can_be_done_are_done(overhead: Overhead, rounds: str) -> None:
    assert f"--rounds {rounds} " in one_sentence(overhead("--rounds", rounds), 2)


@pytest.mark.usefixtures("recording")
def test_a_page_that_cannot_be_reached_is_refused(overhead: Overhead) -> None:
    assert "cannot be reached" in one_sentence(overhead("--metrics", "http://127.0.0.1:1/metrics"), 2)


def test_no_engine_is_said(overhead: Overhead) -> None:
    assert "no engine records in" in one_sentence(overhead(), 2)


@pytest.mark.usefixtures("recording")
def test_an_engine_by_another_name_is_said(overhead: Overhead) -> None:
    assert "no engine called d7 records in" in one_sentence(overhead("--engine", "d7"), 2)


def one_sentence(process: subprocess.Popen[str], code: int) -> str:
    out, err = process.communicate()
    assert (process.returncode, out, err.count("\n")) == (code, "", 1)
    return err
