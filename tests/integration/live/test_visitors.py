"""Those who dawdle, who never read, and who are too many: real connections to a real server."""

from __future__ import annotations

import http.client
import json
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kvscope.live.serving import Server
from kvscope.live.visitors import MOST, SEATS, Doing
from kvscope.model.errors import InputError

from .conftest import Follow, Serve, until
from .test_serve import asked

REQUEST = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
Limit = Callable[..., None]
Connect = Callable[..., socket.socket]


class Large:
    """A page that no kernel takes whole."""

    body, media_type, encoding, fault = bytes(32 << 20), "text/plain", "", ""

    def page(self, accept: str, accept_encoding: str) -> Large:
        return self


@pytest.fixture
def server(run_dir: Path) -> Iterator[Server]:
    with Server(run_dir, "127.0.0.1", 0, metrics=Large()) as server:
        yield server


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """limit(NAME=value, ..): other bounds than those of `kvscope.live.visitors`."""

    def set_to(scraping: int | None = None, following: int | None = None, **others: float) -> None:
        for name, value in others.items():
            for module in ("visitors", "answering"):
                monkeypatch.setattr(f"kvscope.live.{module}.{name}", value, raising=False)
        for doing, most in ((Doing.SCRAPING, scraping), (Doing.FOLLOWING, following)):
            if most is not None:
                monkeypatch.setitem(MOST, doing, most)

    return set_to


@pytest.fixture
def connect() -> Iterator[Connect]:
    """connect(port, sent): a connection that says so much; closed with the test."""
    made: list[socket.socket] = []

    def begin(port: int, sent: bytes = b"") -> socket.socket:
        made.append(socket.create_connection(("127.0.0.1", port), timeout=60))
        made[-1].sendall(sent)
        return made[-1]

    yield begin
    for connection in made:
        connection.close()


def port_of(server: Server) -> int:
    return int(server.server_address[1])


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    with suppress(ConnectionResetError):
        return b"".join(iter(lambda: connection.recv(65536), b""))
    return b""


DAWDLERS = (b"", b"G", b"GET /metrics HTTP/1.1\r\nHost: local", b"POST /events HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 9\r\n\r\n{", REQUEST % b"/")  # fmt: skip


@pytest.mark.parametrize("sent", DAWDLERS)
def test_however_many_dawdle_one_that_asks_is_answered(server: Server, connect: Connect, sent: bytes) -> None:
    for _ in range(3 * SEATS):
        connect(port_of(server), sent)
    for path in ("/healthz", "/readyz", "/healthz"):
        assert asked(port_of(server), "GET", path)[0] == 200
    until(lambda: len(server.visitors) <= SEATS, "those who gave way are still there")


def test_health_is_told_where_every_seat_that_may_be_kept_is_taken(
    server: Server, connect: Connect, follow: Follow, limit: Limit
) -> None:
    limit(SEATS=12, scraping=3, following=4)
    for _ in range(3):
        connect(port_of(server), REQUEST % b"/metrics")
    for _ in range(4):
        connect(port_of(server), REQUEST % b"/events")
    until(lambda: len(server.visitors.those(Doing.SCRAPING)) == 3, "they are not given a page")
    until(lambda: len(server.visitors.those(Doing.FOLLOWING)) == 4, "they do not follow")
    dawdling = [connect(port_of(server), b"GET / HTTP/1.1\r\n") for _ in range(20)]
    status, text = asked(port_of(server), "GET", "/healthz")
    assert (status, json.loads(text)["clients"]) == (200, 4)
    status, text = asked(port_of(server), "GET", "/metrics")
    assert (status, text) == (503, "3 others are given a page just now; ask again in a moment\n")
    assert asked(port_of(server), "GET", "/events")[0] == 503
    with pytest.raises(InputError, match="4 views follow already, and no more may; end one of them"):
        follow(server.url).until_flow("live")
    assert rest(dawdling[0]).startswith(b"HTTP/1.1 408 "), "the first one gave way, and was told"
    assert len(server.visitors.those(Doing.SCRAPING)) == 3, "those who are given something were left alone"


def test_where_there_is_no_seat_at_all_that_is_said(server: Server, connect: Connect, limit: Limit) -> None:
    limit(SEATS=2, LEAVING=0)
    for _ in range(2):
        connect(port_of(server), REQUEST % b"/metrics")
    until(lambda: len(server.visitors.those(Doing.SCRAPING)) == 2, "they are not given a page")
    told = rest(connect(port_of(server)))
    assert told.startswith(b"HTTP/1.1 503 ")
    assert told.endswith(b"there are too many connections to this `kvscope serve`; close some, or come again later\n")


@pytest.mark.parametrize("sent", [b"GET /metrics HTTP/1.1\r\nX: ", b"POST /events HTTP/1.1\r\nHost: localhost\r\n"
                                  b"Content-Length: 1000000\r\n\r\n"])  # fmt: skip
def test_a_request_that_comes_byte_by_byte_for_ever_is_ended(
    server: Server, connect: Connect, limit: Limit, sent: bytes
) -> None:
    limit(ASK_S=0.5)
    connection = connect(port_of(server), sent)
    connection.settimeout(0.02)
    told = bytearray()

    def ended() -> bool:
        """Another byte, and whatever comes back."""
        try:
            connection.send(b"x")
            told.extend(connection.recv(65536))
        except TimeoutError:
            return False
        except OSError:
            return True
        return bool(told)

    until(ended, "it goes on for ever")
    assert not told or told.startswith(b"HTTP/1.1 408 "), "nothing, where the next byte crossed the answer"
    until(lambda: not server.visitors, "it keeps its place")


@pytest.mark.parametrize("sent", [*DAWDLERS[1:4], b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_request_that_never_ends_is_told_so(server: Server, connect: Connect, limit: Limit, sent: bytes) -> None:
    limit(ASK_S=0.3)
    told = rest(connect(port_of(server), sent))
    assert told.startswith(b"HTTP/1.1 408 ")
    assert b"the request did not come within 0.3 s" in told


def test_a_connection_that_says_nothing_is_closed(server: Server, connect: Connect, limit: Limit) -> None:
    limit(ASK_S=0.3, IDLE_S=0.3)
    assert rest(connect(port_of(server))) == b""
    kept = rest(connect(port_of(server), REQUEST % b"/healthz"))
    assert kept.startswith(b"HTTP/1.1 200 ")
    assert kept.count(b"HTTP/1.1") == 1


def test_one_that_takes_no_page_is_cut_and_its_place_is_free(server: Server, connect: Connect, limit: Limit) -> None:
    limit(SCRAPE_S=0.5, scraping=1)
    stuck = connect(port_of(server), REQUEST % b"/metrics")
    until(lambda: len(server.visitors.those(Doing.SCRAPING)) == 1, "it is not given a page")
    assert asked(port_of(server), "GET", "/metrics")[0] == 503
    until(lambda: not server.visitors.those(Doing.SCRAPING), "it keeps its place")
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=60)
    connection.request("GET", "/metrics", headers={"Host": "localhost"})
    assert len(connection.getresponse().read()) == 32 << 20
    connection.close()
    assert 0 < len(rest(stuck)) < 32 << 20


def test_views_follow_for_as_long_as_they_like(
    run_dir: Path, follow: Follow, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(ASK_S=0.3, IDLE_S=0.3, SCRAPE_S=0.3, LEAVE_S=0.1)
    with Server(run_dir, "127.0.0.1", 0) as server:
        view = follow(server.url)
        first = view.until_flow("live").now
        until(lambda: view.poll().now - first > 2_000_000_000, "no mark comes any more")
        (visitor,) = server.visitors.those(Doing.FOLLOWING)
        assert not visitor.late
    assert view.last.flow == "live"


def test_without_a_file_left_it_takes_connections_again_and_rests_between(serve: Serve, connect: Connect) -> None:
    server = serve("--no-metrics")
    assert asked(server.port, "GET", "/healthz")[0] == 200
    used = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    most = used + 4
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (most, most))
    for _ in range(10):
        connect(server.port)
    assert asked(server.port, "GET", "/healthz")[0] == 200
    assert "Traceback" not in server.end()


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics", "/nothing"])
def test_what_only_wants_the_head_is_answered_like_get_without_a_body(server: Server, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=60)
    told = []
    for method in ("GET", "HEAD", "GET"):  # on one connection: a body that came after all would be the next answer
        connection.request(method, path, headers={"Host": "localhost"})
        response = connection.getresponse()
        headers = {name: value for name, value in response.getheaders() if name != "Date"}
        told.append((response.status, headers))
        assert bool(response.read()) is (method == "GET")
    connection.close()
    assert told[0] == told[1] == told[2]


def test_the_head_of_a_stream_ends(server: Server, connect: Connect) -> None:
    told = rest(connect(port_of(server), b"HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    assert told.startswith(b"HTTP/1.1 200 ")
    assert told.endswith(b"\r\n\r\n")
    assert b"application/vnd.kvscope.recording" in told
