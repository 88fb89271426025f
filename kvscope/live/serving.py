"""The rings of this host over HTTP, to whoever wants to follow them. Standard library only.

    GET  /events    a recording without end: what the rings hold, then what comes, a mark every tenth of a second
    POST /events    the same, going on from the mark that the body holds
    POST /take      a batch of an agent, where they are taken
    POST /trigger   the last minutes are saved, where they are kept; the body may hold a reason
    GET  /metrics   what is given as such: pages for Prometheus
    GET  /healthz   the process lives
    GET  /readyz    the rings can be read, metrics are made of them, incidents can be saved; else 503

Each client has a tap and a thread of its own. One that is slow is given what it can take: once its buffer is full its
tap rests, the rings overwrite the oldest, and what that cost is counted as with every reader of rings. So nothing is
held for it but the buffer, and nobody else waits for it.
"""

from __future__ import annotations

import errno
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from kvscope.live.access import OPEN, Access, address_for
from kvscope.live.answering import Handler
from kvscope.live.outbox import BUFFER_BYTES
from kvscope.live.visitors import Doing, Visitors
from kvscope.model.errors import InputError
from kvscope.probe.recording import Writer

PARTING_S = 3.0
"""How long answers may take when the server ends; then their connections are cut."""
PAUSE_S = 0.1
"""Between two attempts to take a connection while there are no files left for it."""
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_FULL = "there are too many connections to this `kvscope serve`; close some, or come again later\n"
FULL = (
    f"HTTP/1.1 {HTTPStatus.SERVICE_UNAVAILABLE} {HTTPStatus.SERVICE_UNAVAILABLE.phrase}\r\n"
    f"Content-Type: text/plain\r\nContent-Length: {len(_FULL)}\r\nConnection: close\r\n\r\n{_FULL}"
).encode()
"""What is said to a connection that there is no seat for."""


class Page(Protocol):
    """An answer."""

    @property
    def body(self) -> bytes: ...

    @property
    def media_type(self) -> str: ...

    @property
    def encoding(self) -> str:
        """of the body; may be empty"""


class Metrics(Protocol):
    """Makes pages for Prometheus."""

    @property
    def fault(self) -> str:
        """What keeps it from doing so; empty where nothing does."""

    def page(self, accept: str, accept_encoding: str) -> Page:
        """One, by the headers of who asks."""


class Source(Protocol):
    """What is followed, for one client: a tap, or what is like one."""

    def poll(self) -> object:
        """Write what is new. RingError: it cannot be read any more."""

    def mark(self) -> None:
        """Write how far that is."""

    def end(self) -> None:
        """Write what is new, and that it was all."""


class Taking(Protocol):
    """Gives out again what agents send, and takes it, if it `takes`."""

    @property
    def takes(self) -> bool: ...

    @property
    def fault(self) -> str:
        """What keeps it from doing so; empty where nothing does."""

    @property
    def told(self) -> dict[str, Any]:
        """What there is to say of it."""

    def take(self, body: bytes, peer: str, received: int) -> dict[str, Any]:
        """The answer to a batch; received: ns, when it was there."""

    def refuse(self, kind: str, peer: str, why: str = "") -> str:
        """Count what is refused before it is looked at."""

    def source(self, writer: Writer, mark: Mapping[str, Any] | None) -> Source:
        """All that is taken, from a mark on, or from a minute or two ago."""


class Recorder(Protocol):
    """Keeps the last minutes, and saves them."""

    @property
    def fault(self) -> str:
        """What keeps it from doing so; empty where nothing does."""

    @property
    def told(self) -> dict[str, Any]:
        """What there is to say of it."""

    def ask(self, how: str, reason: str) -> dict[str, Any]:
        """Save them; what becomes of it: an `outcome` (`begun`, `joined`, `failed`) and a `folder`, or a `reason`."""


class Server(ThreadingHTTPServer):
    """Serves the rings of a run directory: on a loopback address, or to whoever proves it. A context manager."""

    daemon_threads = False  # each ends its client's recording
    request_queue_size = 64

    def __init__(
        self,
        run_dir: Path,
        host: str,
        port: int,
        buffer_bytes: int = BUFFER_BYTES,
        metrics: Metrics | None = None,
        access: Access = OPEN,
        flight: Recorder | None = None,
        taking: Taking | None = None,
    ) -> None:
        """Port 0: the system chooses. InputError: others could reach it unasked, or the port cannot be had."""
        address = address_for(host, access)
        self.address_family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        self.run_dir, self.buffer_bytes, self.stop = run_dir, buffer_bytes, threading.Event()
        self.metrics, self.access, self.flight, self.taking = metrics, access, flight, taking
        self.visitors = Visitors()
        try:
            super().__init__((str(address), port), Handler)
        except OSError as error:
            raise InputError(
                f"cannot listen on port {port}: {(error.strerror or str(error)).lower()}; choose another with --port"
            ) from None
        self._thread = threading.Thread(target=self.serve_forever, name="kvscope-serve")

    @property
    def url(self) -> str:
        """Where it listens."""
        host = str(self.server_address[0])
        scheme = "https" if self.access.tls else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.shutdown()
        for visitor in self.visitors.those(Doing.ASKING, Doing.SCRAPING, Doing.SENDING):
            visitor.hang_up(socket.SHUT_RD)  # Prometheus keeps its connection open: nothing more will be asked
        until = time.monotonic() + PARTING_S
        while self.visitors and time.monotonic() < until:
            time.sleep(0.01)
        for visitor in self.visitors.those(*Doing):
            visitor.hang_up(socket.SHUT_RDWR)  # one that does not take its answer
        self._thread.join()
        self.server_close()  # waits for the clients' threads

    def get_request(self) -> tuple[Any, Any]:
        """The next connection. Where there is no file left for it, it would be offered again and again at once."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _NO_FILES:
                self.visitors.make_room()
                self.stop.wait(PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Give it a seat and a thread, or turn it away."""
        try:
            if self.visitors.admit(request):
                super().process_request(request, client_address)
                return
        except RuntimeError:  # the system has no thread left
            pass
        if self.access.tls is None:
            with suppress(OSError):
                request.setblocking(False)
                request.send(FULL)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """The end of a connection."""
        self.visitors.leave(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """At least twice a second."""
        self.visitors.end_overdue()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A client that went away is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
