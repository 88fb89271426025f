"""`kvscope serve`: real rings, a real process, real connections."""

from __future__ import annotations

import http.client
import io
import json
import signal
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from kvscope.live.answering import PATHS, mark_of
from kvscope.live.serving import Server
from kvscope.live.visitors import Doing
from kvscope.model.errors import InputError
from kvscope.probe.recording import EndPart, MarkPart, ProcessPart, RecordsPart, parts
from kvscope.probe.ring import boot_id
from kvscope.sources.gathering import Gathering
from kvscope.sources.recording import read_into
from kvscope.sources.records import records
from kvscope.sources.rings import read_rings

from ..sources.conftest import ROOT, Start
from ..sources.test_recorder import same
from .conftest import Follow, Serve, until


def asked(port: int, method: str, path: str, body: bytes | None = None, host: str = "localhost") -> tuple[int, str]:
    """Status and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Host": host})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_what_is_saved_from_a_stream_is_a_whole_recording(run_dir: Path, start: Start, serve: Serve) -> None:
    for engine in ("p0", "d0"):
        writer = start(engine)
        writer.tell("write 400")
        writer.tell("write 300 writer")
    start("dark").tell("note switched off")
    server = serve()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/events", headers={"Host": "localhost"})
    response = connection.getresponse()
    start("late").tell("write 50")
    kept = bytearray()
    while b"late" not in kept:
        kept += response.read1()
    said = server.end()
    kept += response.read()
    connection.close()
    gathering = Gathering()
    assert read_into(gathering, io.BytesIO(kept), "it") == [], "neither damaged nor cut"
    assert same(gathering.events(), read_rings(run_dir))
    assert "serving the rings of 3 processes" in said
    assert f"ssh -N -L {server.port}:localhost:{server.port}" in said
    assert server.process.returncode == 0


def test_two_views_both_get_what_the_rings_hold_and_what_comes(
    run_dir: Path, start: Start, serve: Serve, follow: Follow
) -> None:
    writers = [start("p0"), start("d0")]
    for writer in writers:
        writer.tell("write 500")
    server = serve()
    first = follow(server.url)
    first.until_count(1000)
    for writer in writers:
        writer.tell("write 200 writer")
    second = follow(f"localhost:{server.port}")
    for view in (first, second):
        view.until_count(1400)
    writers[0].kill()
    start("p1").tell("write 7")
    whole = read_rings(run_dir)
    for view in (first, second):
        view.until_count(1407)
        assert sorted(bytes(row) for batch in view.batches for row in batch.events.rows) == sorted(
            map(bytes, whole.rows)
        )
        assert view.last.events.processes == whole.processes
        assert {key: text for batch in view.batches for key, text in batch.events.texts.items()} == whole.texts
        assert (view.last.faults, view.last.remark) == ((), "")


def test_a_slow_client_loses_the_oldest_is_told_how_many_and_disturbs_nobody(
    run_dir: Path, start: Start, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "8192")
    writer, burst, written = start("p0"), 6000, 0
    with Server(run_dir, "127.0.0.1", 0, buffer_bytes=20_000) as server:
        # Connections take it over: else the kernel may hold megabytes for the slow one, and nothing is lost.
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(server.server_address[:2])
        slow.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        quick = follow(server.url)
        until(lambda: len(server.visitors.those(Doing.FOLLOWING)) == 2, "one of them was not taken")
        while written < 40 * burst:
            writer.tell(f"write {burst}")
            written += burst
            quick.until_count(written)
        assert quick.last.events.processes[0].lost == 0
        until(lambda: len(server.visitors.those(Doing.FOLLOWING)) == 2, "one of them was dropped")
        server.stop.set()  # or the slow one would never be at the end
        taken, info = read_slowly(slow)
    assert info["lost"] + info["earlier"] > 0  # earlier: what was overwritten before the slow one's thread first looked
    assert len(taken) == len(set(taken))
    assert len(taken) + info["lost"] + info["earlier"] == written
    assert max(taken) == written, "the oldest are missing, not the newest"


def read_slowly(client: socket.socket) -> tuple[list[int], dict[str, int]]:
    """(times of the records that a stream holds to its end, what it said of its process last)."""
    response = http.client.HTTPResponse(client)
    response.begin()
    taken: list[int] = []
    info: dict[str, int] = {}
    for part in parts(io.BytesIO(response.read())):
        if isinstance(part, ProcessPart):
            info = part.info
        elif isinstance(part, RecordsPart):
            taken += records(part.raw)["t"].tolist()
    client.close()
    return taken, info


def test_a_client_that_goes_away_is_let_go(start: Start, serve: Serve, follow: Follow) -> None:
    start("p0").tell("write 10")
    server = serve()
    view = follow(server.url)
    view.until_count(10)
    assert json.loads(asked(server.port, "GET", "/healthz")[1])["clients"] == 1
    view.remote.close()
    until(lambda: json.loads(asked(server.port, "GET", "/healthz")[1])["clients"] == 0, "it is still there")


def test_it_lives_while_rings_cannot_be_read_and_is_not_ready(run_dir: Path, start: Start, serve: Serve) -> None:
    start("p0").tell("write 10")
    server = serve()
    status, text = asked(server.port, "GET", "/healthz")
    found = json.loads(text)
    assert (status, found["status"], found["processes"], found["run_dir"]) == (200, "ok", 1, str(run_dir))
    run_dir.rename(run_dir.with_name("away"))
    run_dir.write_text("in its place")
    try:
        assert asked(server.port, "GET", "/healthz")[0] == 200
        status, text = asked(server.port, "GET", "/readyz")
        assert (status, json.loads(text)["status"]) == (503, f"{run_dir} is not a directory")
        assert asked(server.port, "GET", "/events") == (503, f"{run_dir} is not a directory\n")
    finally:
        run_dir.unlink()
        run_dir.with_name("away").rename(run_dir)
    until(lambda: asked(server.port, "GET", "/readyz")[0] == 200, "it does not get ready again")


def test_it_answers_to_its_own_name_and_knows_its_paths(serve: Serve) -> None:
    port = serve("--no-metrics").port
    for path in ("/events", "/metrics", "/healthz"):
        assert asked(port, "GET", path, host="some.page.example")[0] == 403
    assert asked(port, "GET", "/healthz", host=f"127.0.0.1:{port}")[0] == 200
    assert asked(port, "GET", "/")[0] == 200
    assert asked(port, "GET", "/metrics")[0] == 404
    for method in ("GET", "POST", "PUT", "DELETE"):
        status, text = asked(port, method, "/nothing", b"{}")
        assert (status, text) == (404, f"there is no /nothing here; there are {PATHS}\n")
    for body in (b"", b"nothing", b"[]", b'{"rings": 3}', b'{"rings": {"a": [1, 2, 3, [[1, -2, 3]]]}}'):
        status, text = asked(port, "POST", "/events", body)
        assert (status, text.startswith("that is no mark")) == (400, True), body


READ = ("GET", "HEAD")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", READ),
        ("/metrics", READ),
        ("/healthz", READ),
        ("/readyz", READ),
        ("/events", (*READ, "POST")),
        ("/trigger", ("POST",)),
    ],
)
def test_a_page_asked_in_a_way_that_it_does_not_take_says_which_it_takes(
    serve: Serve, path: str, allowed: tuple[str, ...]
) -> None:
    port = serve("--no-metrics").port
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - set(allowed):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, path, b"what is not read", {"Host": "localhost"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Allow"]) == (405, ", ".join(allowed)), method
        assert answer.read().decode() == f"{path} takes {', '.join(allowed)}\n"
        connection.close()


@pytest.mark.parametrize(
    ("asks", "status"),
    [
        (b"GET http://[ HTTP/1.1\r\n", 404),
        (b"POST http://[ HTTP/1.1\r\nContent-Length: 1\r\n", 404),
        (b"POST /events HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n", 400),
        (b"POST /events HTTP/1.1\r\nContent-Length: \xb2\r\n", 400),
        (b"PUT /metrics HTTP/1.1\r\n", 405),
        (b"BREW /metrics HTTP/1.1\r\n", 501),
        (b"POST /events HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"CONNECT localhost:80 HTTP/1.1\r\n", 404),
        (b"GET / HTTP/1.1\r\n" + b"Name: value\r\n" * 6000, 431),
        (b"GET /" + b"x" * 70_000, 431),
    ],
)
def test_a_request_that_makes_no_sense_is_answered(serve: Serve, asks: bytes, status: int) -> None:
    server = serve()
    assert answered(server.port, asks + b"Host: localhost\r\n\r\n").startswith(b"HTTP/1.1 %d " % status)
    assert "Traceback" not in server.end()


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe\x00\x00", b"9" * 5000])
def test_a_body_that_is_no_mark_is_answered(serve: Serve, body: bytes) -> None:
    server = serve()
    status, text = asked(server.port, "POST", "/events", body)
    assert (status, text[:18]) == (400, "that is no mark: i" if body[:1] in b"[{" else text[:18])
    assert "Traceback" not in server.end()


def answered(port: int, sent: bytes) -> bytes:
    """What comes back to what no client library would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        return connection.recv(4096)


def test_names_in_bytes_of_no_encoding_leave_the_page_whole(start: Start, serve: Serve) -> None:
    start("p0").tell("write 10")
    start("half \udcff a name").tell("write 10")
    server = serve()
    until(lambda: "half ? a name" in asked(server.port, "GET", "/metrics")[1], "it is not told of")
    assert 'engine_name="p0"' in asked(server.port, "GET", "/metrics")[1]
    assert "Traceback" not in server.end()


def test_those_who_take_no_answer_hold_up_no_end(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvscope.live.answering.SCRAPE_S", 600)

    class Large:
        body, media_type, encoding, fault = bytes(32 << 20), "text/plain", "", ""

        def page(self, accept: str, accept_encoding: str) -> Large:
            return self

    with Server(run_dir, "127.0.0.1", 0, metrics=Large()) as server:
        taking = [socket.create_connection(("127.0.0.1", server.server_address[1])) for _ in range(3)]
        for connection in taking:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        until(lambda: len(server.visitors) == 3, "they were not taken")
        for connection in taking:
            assert connection.recv(4)
    for connection in taking:
        connection.close()


def test_a_mark_of_another_host_is_no_place_to_go_on_from() -> None:
    rings = {"1-2-a.ring": [0, 0, 0, [[16384, 5, 1]]]}
    assert (mark_of(json.dumps({"boot_id": boot_id(), "rings": rings}).encode()) or {})["rings"] == rings
    assert mark_of(json.dumps({"boot_id": "another", "rings": rings}).encode()) is None


def test_a_mark_comes_at_least_every_fifth_of_a_second_also_where_nothing_does(serve: Serve) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", serve().port, timeout=60)
    connection.request("GET", "/events", headers={"Host": "localhost"})
    kept = bytearray()
    response = connection.getresponse()
    while kept.count(b"monotonic_ns") < 12:
        kept += response.read1()
    connection.close()
    marks = [part.info["monotonic_ns"] for part in parts(io.BytesIO(kept)) if isinstance(part, MarkPart)]
    gaps = sorted(later - earlier for earlier, later in pairwise(marks))
    assert gaps[0] > 0
    assert gaps[len(gaps) // 2] < 200_000_000  # the machine may stop for a moment; half of them tell


COMMAND = [sys.executable, "-m", "kvscope", "serve"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "could be reached from other hosts.*ssh -L 7878:localhost:7878"),
        (["--host", "10.1.2.3"], "could be reached from other hosts"),
        (["--host", "example"], "no IP address"),
        (["--port", "70000"], "choose between 0 and 65535"),
        (["--port", "many"], "invalid int value"),
    ],
)
def test_what_it_cannot_do_is_said_in_a_sentence(run_dir: Path, words: list[str], said: str) -> None:
    ran = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert_matches(said, ran.stderr)


def assert_matches(pattern: str, text: str) -> None:
    with pytest.raises(InputError, match=pattern):
        raise InputError(text)


def test_a_port_that_is_taken_is_named(run_dir: Path, serve: Serve) -> None:
    port = serve().port
    words = ["--port", str(port)]
    ran = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert f"cannot listen on port {port}: address already in use; choose another with --port" in ran.stderr


def test_it_needs_nothing_installed() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import kvscope.live.serving"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("package", ["numpy", "prometheus_client"])
def test_where_metrics_need_a_package_it_says_so_and_serves_views(run_dir: Path, package: str) -> None:
    words = ["serve", "--port", "0", "--run-dir", str(run_dir)]
    code = f"import sys; sys.modules[{package!r}] = None; from kvscope.cli import main; sys.exit(main({words!r}))"
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], text=True, cwd=ROOT, **pipes) as process:  # type: ignore[call-overload]
        port = int(process.stdout.readline().rpartition(":")[2])
        assert asked(port, "GET", "/metrics")[0] == 404
        assert asked(port, "GET", "/readyz")[0] == 200
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert f"no /metrics: {package} is not installed here; run: pip install 'kvscope[serve]'" in said
    assert process.returncode == 0


def test_without_engines_it_says_so_and_serves_what_comes(start: Start, serve: Serve, follow: Follow) -> None:
    server = serve()
    view = follow(server.url)
    view.until_flow("live")
    assert view.last.now > 0
    start("p0").tell("write 30")
    view.until_count(30)
    assert "no engine records in" in server.end(signal.SIGINT)
    assert server.process.returncode == 0


def test_the_last_part_says_that_it_was_ended(start: Start, serve: Serve) -> None:
    start("p0").tell("write 10")
    server = serve()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/events", headers={"Host": "localhost"})
    response = connection.getresponse()
    server.end()
    *_, last = parts(io.BytesIO(response.read()))
    connection.close()
    assert last == EndPart({"processes": 1, "events": 10, "lost": 0})
