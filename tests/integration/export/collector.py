"""The end of the line: an OTLP receiver in this process, which keeps what it got and can be told what to answer."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class Answer:
    """What to say instead of yes."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    """Hang up without a word."""


@dataclass(frozen=True)
class Arrived:
    """A span, and whose it is."""

    span: Span
    resource: dict[str, str]

    @property
    def attributes(self) -> dict[str, object]:
        """Plain values."""
        return {each.key: plain(each.value) for each in self.span.attributes}


def plain(value: object) -> object:
    """What an AnyValue holds."""
    kind = value.WhichOneof("value")  # type: ignore[attr-defined]
    held = getattr(value, kind)
    return [plain(each) for each in held.values] if kind == "array_value" else held


class Collector:
    """A context manager: it listens inside."""

    def __init__(self, certificate: Path | None = None) -> None:
        """`certificate`: key and certificate in one file; then it speaks TLS."""
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.answers: deque[Answer] = deque()
        """One for each request to come; when there is none left, it says yes."""
        self._some = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://localhost:{self._server.server_address[1]}"

    @property
    def spans(self) -> list[Arrived]:
        """All that arrived."""
        found = []
        for request in list(self.requests):
            for group in request.resource_spans:
                resource = {each.key: str(plain(each.value)) for each in group.resource.attributes}
                found += [Arrived(span, resource) for scope in group.scope_spans for span in scope.spans]
        return found

    def wait(self, spans: int) -> None:
        """Until so many are there."""
        self.until(lambda arrived: len(arrived) >= spans)

    def until(self, holds: Callable[[list[Arrived]], bool]) -> None:
        """Until this is so of all that arrived."""
        with self._some:
            assert self._some.wait_for(lambda: holds(self.spans), 60), f"{len(self.spans)} spans arrived"

    def take(self, handler: BaseHTTPRequestHandler) -> Answer:
        """A request."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if handler.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with self._some:
            answer = self.answers.popleft() if self.answers else Answer()
            self.paths.append(handler.path)
            self.headers.append(dict(handler.headers.items()))
            if answer.status == 200 and not answer.drop:
                self.requests.append(ExportTraceServiceRequest.FromString(body))
            self._some.notify_all()
        return answer

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def partly(rejected: int, why: str) -> Answer:
    """Yes, but."""
    told = ExportTraceServiceResponse()
    told.partial_success.rejected_spans, told.partial_success.error_message = rejected, why
    return Answer(200, told.SerializeToString())


def _handler(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer = collector.take(self)
            if answer.drop:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
