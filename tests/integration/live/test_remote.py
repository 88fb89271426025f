"""A view of another host: what it shows while connections break, and when it is told the wrong address."""

from __future__ import annotations

import io
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvscope.live.collector import Collector
from kvscope.live.connection import Address, address_of
from kvscope.live.feed import Flow
from kvscope.live.remote import FIRST_S, Remote
from kvscope.live.wire import MEDIA_TYPE
from kvscope.model.errors import InputError
from kvscope.probe.recording import FILE_HEADER, FILE_MAGIC, Writer
from kvscope.sources import open_sources
from kvscope.sources.rings import read_rings

from ..sources.conftest import Start
from ..sources.test_recorder import same
from .conftest import Follow, Serve, View, until
from .scenes import SECOND


def values(view: View) -> list[int]:
    """What the writer numbered the events that came."""
    return sorted(value for batch in view.batches for value in batch.events.rows["values"][:, 0].tolist())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_server_s_end_the_picture_stays_and_the_next_one_goes_on(
    run_dir: Path, start: Start, serve: Serve, follow: Follow, number: signal.Signals
) -> None:
    writer, server = start("p0"), serve()
    writer.tell("write 300")
    view = follow(server.url)
    view.until_count(300)
    seen = view.until_flow(Flow.LIVE)
    server.end(number)
    lost = view.until_flow(Flow.LOST)
    assert lost.now >= seen.now
    assert lost.remark.startswith(f"lost 127.0.0.1:{server.port} ")
    assert lost.remark.endswith(" s ago; trying again")
    assert len(lost.faults) == 1
    writer.tell("write 200")
    start("d0").tell("write 10")
    still = view.poll()
    assert (still.now, len(still.events), still.flow) == (lost.now, 0, Flow.LOST)
    serve(port=server.port)
    view.until_count(510)
    live = view.until_flow(Flow.LIVE)
    assert live.now > lost.now
    assert values(view) == sorted([*range(500), *range(10)]), "each once"
    assert [batch.restart for batch in view.batches].count(True) == 1, "the first of all"
    assert live.events.processes == read_rings(run_dir).processes


def test_what_came_can_be_saved(run_dir: Path, start: Start, serve: Serve, follow: Follow, tmp_path: Path) -> None:
    start("p0").tell("write 300")
    start("d0").tell("write 20 writer")
    view = follow(serve().url)
    view.until_count(320)
    said = view.save(tmp_path)
    (path,) = tmp_path.iterdir()
    assert str(path) in said
    assert same(open_sources([path]).events, read_rings(run_dir))


def test_what_was_overwritten_while_it_was_lost_is_counted_once(
    run_dir: Path, start: Start, serve: Serve, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "256")
    writer, server = start("p0"), serve()
    writer.tell("write 200")
    view = follow(server.url)
    collector = Collector(view)

    def counted() -> int:
        return collector.step().tally.lost + view.count()

    until(lambda: counted() == 200, "the events do not come")
    for written in (1200, 2200):
        server.end(signal.SIGKILL)
        writer.tell("write 1000")
        server = serve(port=server.port)
        until(partial(lambda wanted: counted() == wanted, written), "events and losses do not add up")
    tally = collector.step().tally
    assert (tally.lost > 1000, tally.earlier) == (True, 0)


def test_time_is_the_server_s_and_goes_on_without_traffic(serve: Serve, follow: Follow) -> None:
    view = follow(serve().url)
    first = view.until_flow(Flow.LIVE)
    until(lambda: view.poll().now > first.now + SECOND // 2, "time stands still")
    here, wall = time.monotonic_ns(), time.time_ns()
    last = view.poll()
    assert abs(here - last.now) < 30 * SECOND
    assert last.wall_ns is not None
    assert abs(last.now + last.wall_ns - wall) < 30 * SECOND
    assert len(last.events) == 0


@contextmanager
def scripted(*answers: bytes | None, leave: bool = True) -> Iterator[str]:
    """A server that gives each connection the next answer and hangs up, if it is to leave; None: no answer, and it
    holds the line."""
    listening = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def work() -> None:
        for answer in answers:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            held.append(client)
            client.recv(65536)
            if answer is not None:
                client.sendall(answer)
                if leave:
                    client.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for client in held:
            client.close()


def answer(body: bytes, status: str = "200 OK", kind: str = MEDIA_TYPE, server: str = "kvscope/0") -> bytes:
    head = f"HTTP/1.1 {status}\r\nServer: {server}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def stream(boot: str, monotonic_ns: int, process: int, lost: int = 0) -> bytes:
    """What a server of a host that was booted so would send in one round."""
    file = io.BytesIO()
    writer = Writer(file)
    about = {"pid": process, "boot_id": boot, "start_ticks": 1, "started": {"engine": f"e{process}"}, "lost": lost}
    writer.process(0, about)
    writer.mark({"monotonic_ns": monotonic_ns, "realtime_ns": 10**18, "boot_id": boot, "rings": {}})
    return file.getvalue()


def test_a_host_that_was_booted_anew_is_another_picture() -> None:
    with scripted(answer(stream("a", 900, 1)), answer(stream("a", 950, 1)), answer(stream("b", 7, 2))) as address:
        view = View(address)
        until(lambda: view.poll().now == 7, "the third stream does not come")
        view.remote.close()
    told = [(batch.now, batch.restart, [each.engine for each in batch.events.processes]) for batch in view.batches]
    assert (7, True, ["e2"]) in told
    assert sum(restart for _, restart, _ in told) == 2
    assert all(engines == ["e1"] for now, _, engines in told if now in (900, 950))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            answer(b"{}", "404 Not Found", "application/json", "uvicorn"),
            "no `kvscope serve` .it answered 404 Not Found",
        ),
        (answer(b"<html>", kind="text/html", server="nginx"), "no `kvscope serve` .it answered 200 OK"),
        (answer(b"/run is not a directory\n", "503 Service Unavailable", "text/plain"), "/run is not a directory"),
        (answer(b"gone", "503 Service Unavailable", "text/plain", "nginx"), "no `kvscope serve`"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (b"", "closed the connection without an answer; is `kvscope serve` running behind it"),
        (answer(FILE_HEADER.pack(FILE_MAGIC, 99, 0)), "sends a recording of version 99, this reader knows 1; use the"),
        (answer(b"nothing of ours, although it says so"), "sends a not a kvscope recording|not a kvscope recording"),
        (None, "does not answer; is that the port"),
    ],
)
def test_what_is_no_server_of_ours_is_said_in_a_sentence(
    given: bytes | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvscope.live.connection.SILENCE_S", 0.3)
    with scripted(given) as address, closing(Remote(address)) as remote:
        assert remote.wait(30)
        with pytest.raises(InputError, match=said) as caught:
            remote.poll()
        assert address in str(caught.value)


def test_one_that_sends_for_ever_and_nothing_to_show_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvscope.live.connection.SILENCE_S", 30)
    with scripted(answer(FILE_HEADER.pack(FILE_MAGIC, 1, 0)), leave=False) as address:
        wall = 0.0
        with closing(Remote(address, lambda: wall)) as remote:
            assert not remote.wait(0.3)
            assert remote.poll().remark == f"connecting to {address}"
            wall += FIRST_S + 1
            with pytest.raises(InputError, match=f"{address} sent nothing to show within 10 s"):
                remote.poll()


def marked(mark: dict[str, Any]) -> bytes:
    """A round that ends with this mark."""
    file = io.BytesIO()
    writer = Writer(file)
    writer.process(0, {"pid": 1, "boot_id": "a", "start_ticks": 1, "started": {"engine": "e"}, "lost": 0})
    writer.mark(mark)
    return file.getvalue()


MARK = {"monotonic_ns": 1, "realtime_ns": 1, "boot_id": "a", "rings": {}}


@pytest.mark.parametrize(
    "mark", [{}, {**MARK, "monotonic_ns": None}, {**MARK, "realtime_ns": "noon"}, {**MARK, "monotonic_ns": 1e999}]
)
def test_a_mark_that_cannot_be_understood_is_the_fault_of_whoever_sent_it(mark: dict[str, Any]) -> None:
    with scripted(answer(marked(mark))) as address, closing(Remote(address)) as remote:
        assert remote.wait(30)
        with pytest.raises(InputError, match="sends what this version does not understand; use the same kvscope"):
            remote.poll()


def test_where_nothing_listens_it_says_what_to_start() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with closing(Remote(f"127.0.0.1:{port}")) as remote:
        assert remote.wait(30)
        with pytest.raises(InputError, match=rf"nothing listens at 127\.0\.0\.1:{port}; start `kvscope serve` there"):
            remote.poll()


def test_one_that_stops_being_a_server_is_lost_not_wrong() -> None:
    answers = (answer(stream("a", 900, 1)), answer(b"{}", "404 Not Found", "text/plain"), answer(stream("a", 1000, 1)))
    with scripted(*answers) as address:
        view = View(address)
        until(lambda: any("404" in fault for fault in view.poll().faults), "it does not say so")
        assert (view.last.flow, view.last.now) == (Flow.LOST, 900)
        until(lambda: view.poll().now == 1000, "it does not try again")
        view.remote.close()


def test_what_waits_for_a_poll_is_bounded(
    start: Start, serve: Serve, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvscope.live.remote.MOST", 100)
    writer, server = start("p0"), serve()
    view = follow(server.url)
    view.until_flow(Flow.LIVE)
    for _ in range(5):
        before = view.count()
        writer.tell("write 90")
        until(lambda: len(view.remote._arrived) > 0, "nothing comes")
        assert len(view.remote._arrived) <= 200
        view.until_count(before + 90)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", Address("localhost", 7878)),
        ("node-7:9000", Address("node-7", 9000)),
        ("http://127.0.0.1:40123", Address("127.0.0.1", 40123)),
        ("http://127.0.0.1:40123/", Address("127.0.0.1", 40123)),
        ("[::1]:9000", Address("::1", 9000)),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, address: Address) -> None:
    assert address_of(text) == address
    assert address_of(str(address)) == address


@pytest.mark.parametrize("text", ["", ":9000", "host:port", "host:99999", "https://host:1", "host:1/events", "[::1"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(InputError, match=r"is no address; write it as HOST:PORT, e\.g\. localhost:7878"):
        Remote(text)
