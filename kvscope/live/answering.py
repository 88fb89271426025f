"""One connection of a server: what it asks, and what it is told. Standard library only."""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from importlib.metadata import version
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from kvscope.agents.wire import GARBAGE, PLAIN, TOKEN
from kvscope.agents.wire import MOST_BODY as MOST_BATCH
from kvscope.live.access import OPEN, REALM, address_for
from kvscope.live.outbox import Outbox, follow
from kvscope.live.visitors import ASK_S, IDLE_S, MOST, SCRAPE_S, SEND_S, Doing
from kvscope.live.wire import EVENTS, HEALTH, MEDIA_TYPE, METRICS, READY, TAKE, TRIGGER
from kvscope.probe.reader import RingError, list_rings
from kvscope.probe.recording import VERSION, Writer
from kvscope.probe.ring import boot_id
from kvscope.probe.tap import Tap, is_progress

if TYPE_CHECKING:
    from kvscope.live.serving import Server

MOST_HEAD = 1 << 16
"""Bytes of a request up to its body."""
MOST_BODY = 1 << 20

ABOUT = f"""kvscope serve: what the engines of this host record is at {EVENTS}, for kvscope top --connect,
and what they come to at {METRICS}, for Prometheus; {HEALTH} and {READY} say how it is;
POST {TRIGGER} saves the last minutes, where they are kept; POST {TAKE} is for kvscope agent
"""
READ, ASKED = ("GET", "HEAD"), ("POST",)
PAGES = {"/": READ, EVENTS: READ + ASKED, METRICS: READ, HEALTH: READ, READY: READ, TRIGGER: ASKED, TAKE: ASKED}
"""What there is -> the methods that it takes."""
PATHS = f"{EVENTS}, {METRICS}, {HEALTH}, {READY}, POST {TRIGGER} and POST {TAKE}"
MOST_UNASKED = 1 << 16
"""Bytes that are read of a batch of which it is clear that it will not be taken."""
MOST_REASON = 4096
"""Bytes of what is said with a trigger."""


class _Arriving(io.BufferedReader):
    """What a client sends. Lines are counted, and only so much of them is read."""

    left = MOST_HEAD

    def readline(self, size: int | None = -1, /) -> bytes:
        """LineTooLong: that would be more than may come."""
        line = super().readline(self.left + 1 if size is None or size < 0 else min(size, self.left + 1))
        self.left -= len(line)
        if self.left < 0:
            raise LineTooLong("head")
        return line


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer in two pieces would wait for what acknowledges the first
    rbufsize = 0
    server: Server
    command = requestline = ""  # until there is one
    request_version = protocol_version

    def setup(self) -> None:
        """TLS begins here, in the request's own thread: one that dawdles keeps nobody waiting."""
        self._visitor, tls = self.server.visitors.of(self.request), self.server.access.tls
        if tls is not None:
            self.request = tls.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
            self._visitor.connection = self.request
        try:
            if tls is not None:
                self.request.do_handshake()
            super().setup()
        except BaseException as error:
            self.request.close()
            if self.server.taking is not None and isinstance(error, ssl.SSLError):
                self.server.taking.refuse(PLAIN, self._peer, str(error.reason or error).replace("_", " ").lower())
            raise
        self.rfile = self._arriving = _Arriving(cast(io.RawIOBase, self.rfile))
        self._answered = 0

    def finish(self) -> None:
        """Close what TLS has put around the connection, too."""
        super().finish()
        if self.server.access.tls:
            self.connection.close()

    def handle_one_request(self) -> None:
        """Wait for a request, so long, and answer it."""
        self._arriving.left = MOST_HEAD
        sends = self._visitor.doing is Doing.SENDING  # it stays what it is between two batches
        if self._answered and not sends:
            self.server.visitors.let(self._visitor, Doing.ASKING, IDLE_S)
        if not self._arriving.peek(1):
            self.close_connection = True
            return
        if not sends:
            self.server.visitors.let(self._visitor, Doing.ASKING, ASK_S)
        self._answered += 1
        try:
            super().handle_one_request()
        except LineTooLong:
            self.close_connection = True
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def parse_request(self) -> bool:
        """Whether there is a request to be answered; one that was cut short looks as though it had ended."""
        return not self._came_late() and super().parse_request() and not self._came_late()

    def _came_late(self) -> bool:
        """Whether a request did not come in time, or had to give way; then that is said."""
        if self._visitor.late:
            self.close_connection = True
            text = f"the request did not come within {ASK_S:g} s, or others needed its place; ask again\n"
            self._answer(HTTPStatus.REQUEST_TIMEOUT, text)
        return self._visitor.late

    def do_GET(self) -> None:
        """Whatever is asked: who may ask it, whether it is there, and whether it can be asked so."""
        path, posted = self._path, self.command not in READ
        held = self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding") is not None
        sends = path == TAKE and self.server.taking is not None and self._may_ask()
        # What it holds is not always read.
        self.close_connection = self.close_connection or ((posted or held) and not sends)
        answers = {
            EVENTS: self._events,
            METRICS: self._metrics,
            "/": self._about,
            TRIGGER: self._trigger,
            TAKE: self._take,
        }
        if not self._is_addressed_to_us():
            self._answer(HTTPStatus.FORBIDDEN, "ask for localhost: pages of other names are not served\n")
        elif path in (HEALTH, READY) and not posted:  # whoever looks after processes has no token
            self._condition(path == READY)
        elif not self._may_ask():
            self._refuse()
        elif path not in PAGES:
            self._answer(HTTPStatus.NOT_FOUND, f"there is no {path} here; there are {PATHS}\n")
        elif self.command not in PAGES[path]:
            allowed = ", ".join(PAGES[path])
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes {allowed}\n", {"Allow": allowed})
        else:
            answers[path]()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = do_GET

    def _follow_from(self) -> None:
        """A client that goes on from a mark."""
        size = self._length(MOST_BODY, "")
        if size is None:
            self._answer(HTTPStatus.BAD_REQUEST, "the mark has no length, or is too long\n")
        else:
            body = self.rfile.read(size)
            if self._came_late():
                return
            try:
                since = mark_of(body)
            except ValueError as error:
                self._answer(HTTPStatus.BAD_REQUEST, f"that is no mark: {error}\n")
            else:
                self._stream(since)

    def _length(self, most: int, unsaid: str) -> int | None:
        """Bytes of what a request holds; None where they are too many, or not said, as of what comes in chunks."""
        said = self.headers.get("Content-Length", unsaid if self.headers.get("Transfer-Encoding") is None else "")
        known = said.isdecimal() and len(said) <= len(str(most)) and int(said) <= most
        return int(said) if known else None

    def _trigger(self) -> None:
        """Save what happened, for who may ask. A page in a browser of this host may not: it says where it is from."""
        flight, size = self.server.flight, self._length(MOST_REASON, "0")
        if not self.server.access.guarded and self.headers.get("Origin") is not None:
            self._answer(HTTPStatus.FORBIDDEN, "this is not for pages in a browser\n")
        elif flight is None:
            self._answer(HTTPStatus.NOT_FOUND, "nothing is kept here: start `kvscope serve` with --save-to DIR\n")
        elif size is None:
            self._answer(HTTPStatus.BAD_REQUEST, f"the reason has no length, or more than {MOST_REASON} bytes\n")
        else:
            reason = self.rfile.read(size).decode(errors="replace")
            if not self._came_late():
                told = flight.ask(f"POST {TRIGGER}", reason)
                failed = told["outcome"] == "failed"
                status = HTTPStatus.INTERNAL_SERVER_ERROR if failed else HTTPStatus.ACCEPTED
                self._answer(status, json.dumps(told), {"Content-Type": "application/json"})

    def _take(self) -> None:
        """A batch of an agent. A page in a browser of this host has none: it says where it is from."""
        taking, size = self.server.taking, self._length(MOST_BATCH, "")
        self.close_connection = self.close_connection or taking is None or not taking.takes or not size
        if not self.server.access.guarded and self.headers.get("Origin") is not None:
            self._answer(HTTPStatus.FORBIDDEN, "this is not for pages in a browser\n")
        elif taking is None or not taking.takes:
            self._answer(HTTPStatus.NOT_FOUND, "nothing is taken here: start `kvscope serve` with --take DIR\n")
        elif not size:
            why = taking.refuse(GARBAGE, self._peer, f"it has no length, or more than {MOST_BATCH >> 20} MiB")
            self._answer(HTTPStatus.BAD_REQUEST, f"{why}\n")
        elif not self.server.visitors.let(self._visitor, Doing.SENDING, SEND_S):
            self._have_no_room(f"{MOST[Doing.SENDING]} agents send already, and no more may\n")
        else:
            body = self.rfile.read(size)
            received = monotonic_ns()
            if len(body) < size:
                self.close_connection = True
                return
            told = taking.take(body, self._peer, received) | {"replied": monotonic_ns()}
            self._answer(HTTPStatus.OK, json.dumps(told), {"Content-Type": "application/json"})

    @property
    def _peer(self) -> str:
        """Where the other end is."""
        return str(self.client_address[0])

    @property
    def _path(self) -> str:
        """What is asked for; empty where it is no address at all."""
        try:
            return urlsplit(self.path).path
        except ValueError:
            return ""

    def _may_ask(self) -> bool:
        return self.server.access.allows(self.headers.get("Authorization", ""))

    def _is_addressed_to_us(self) -> bool:
        """A page in somebody's browser may name this address, but not as localhost; and it has no token."""
        if self.server.access.guarded:
            return True
        try:
            name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            address_for(name, OPEN)
        except ValueError:
            return False
        return True

    def _about(self) -> None:
        self._answer(HTTPStatus.OK, ABOUT)

    def _refuse(self) -> None:
        self.close_connection = True
        if self.server.taking is not None and self._path == TAKE:
            self.server.taking.refuse(TOKEN, self._peer)
            self.rfile.read(self._length(MOST_UNASKED, "") or 0)  # what is not read would cut the answer off
        asked = "Bearer" if self.server.access.token else REALM
        text = "show the token, or the user and password, that `kvscope serve` was given\n"
        self._answer(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": asked})

    def _events(self) -> None:
        if self.server.access.tls:
            self._answer(HTTPStatus.NOT_FOUND, f"{EVENTS} is served without TLS only, on a loopback address\n")
        elif self.command == "POST":
            self._follow_from()
        else:
            self._stream(None)

    def _metrics(self) -> None:
        if self.server.metrics is None:
            reason = "this `kvscope serve` makes none: it said why when it started"
            self._answer(HTTPStatus.NOT_FOUND, f"there are no metrics here; {reason}\n")
            return
        if not self.server.visitors.let(self._visitor, Doing.SCRAPING, SCRAPE_S):
            self._have_no_room(f"{MOST[Doing.SCRAPING]} others are given a page just now; ask again in a moment\n")
            return
        asked = self.headers.get("Accept", ""), ",".join(self.headers.get_all("Accept-Encoding", []))
        page = self.server.metrics.page(*asked)
        headers = {"Content-Type": page.media_type, "Vary": "Accept, Accept-Encoding"}
        self._answer(HTTPStatus.OK, page.body, headers | ({"Content-Encoding": page.encoding} if page.encoding else {}))

    def _condition(self, ready: bool) -> None:
        """Whether the process lives, or is of use; what else there is to know is for those who may ask."""
        told = _condition_of(self.server)
        status = HTTPStatus.SERVICE_UNAVAILABLE if ready and told["status"] != "ok" else HTTPStatus.OK
        if not self._may_ask():
            told = {"status": "ok" if told["status"] == "ok" else "not ready"}
        self._answer(status, json.dumps(told), {"Content-Type": "application/json"})

    def _answer(self, status: HTTPStatus, text: str | bytes, headers: Mapping[str, str] | None = None) -> None:
        raw = text.encode() if isinstance(text, str) else text
        if self.server.stop.is_set():
            self.close_connection = True  # whatever else was asked for on it already
        self.send_response(status)
        for name, value in ({"Content-Type": "text/plain; charset=utf-8"} | dict(headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _have_no_room(self, text: str) -> None:
        self.close_connection = True
        self._answer(HTTPStatus.SERVICE_UNAVAILABLE, text)

    def _stream(self, since: Mapping[str, Any] | None) -> None:
        self.close_connection = True
        try:
            if self.server.taking is None:
                list_rings(self.server.run_dir, [])
        except RingError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")
            return
        if self.command != "HEAD" and not self.server.visitors.let(self._visitor, Doing.FOLLOWING):
            self._have_no_room(f"{MOST[Doing.FOLLOWING]} views follow already, and no more may; end one of them\n")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", MEDIA_TYPE)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self._follow(since)

    def _follow(self, since: Mapping[str, Any] | None) -> None:
        outbox, taking = Outbox(self.connection, self.server.buffer_bytes), self.server.taking
        writer = Writer(outbox)
        if taking is not None:
            follow(outbox, taking.source(writer, since), self.server.stop)
            return
        progress = since["rings"] if since else None
        follow(outbox, Tap(self.server.run_dir, writer, hold_s=0, since=progress), self.server.stop)

    def version_string(self) -> str:
        """The Server header."""
        return f"kvscope/{_version()}"

    def log_message(self, *_: object) -> None:
        """Nothing: standard error is the command line's."""


@cache
def _version() -> str:
    """Read once: for an answer no file should be needed."""
    return version("kvscope")


def _condition_of(server: Server) -> dict[str, Any]:
    """What there is to say of a server; `status` is `ok`, or what it cannot do that it is there for."""
    faults: list[RingError] = []
    about = {"version": _version(), "recording": VERSION, "run_dir": str(server.run_dir)}
    try:
        found = list_rings(server.run_dir, faults) if server.taking is None else []
    except RingError as error:
        return {"status": str(error)} | about
    counts = {
        "processes": len(found),
        "clients": len(server.visitors.those(Doing.FOLLOWING)),
        "faults": [str(fault) for fault in faults],
    }
    parts = (server.metrics, server.flight, server.taking)
    status = "; ".join(dict.fromkeys(each.fault for each in parts if each and each.fault))
    kept = {"flight": server.flight.told} if server.flight else {}
    kept |= {"agents": server.taking.told} if server.taking and server.taking.takes else {}
    return {"status": status or "ok"} | about | counts | {"metrics": server.metrics is not None} | kept


def mark_of(body: bytes) -> dict[str, Any] | None:
    """The mark in a request's body; None if it is of another host. ValueError: it is no mark."""
    try:
        mark = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(mark, Mapping) or not isinstance(mark.get("rings"), Mapping):
        raise ValueError("an object with rings is expected")
    for name, entry in mark["rings"].items():
        if not is_progress(entry):
            raise ValueError(f"what it says of {name} is not understood")
    return dict(mark) if mark.get("boot_id") == boot_id() else None
