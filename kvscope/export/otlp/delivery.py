"""Bringing spans to a collector by OTLP over HTTP. What may pass is tried again; what will not is said once."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from kvscope.export.otlp.endpoint import Endpoint
from kvscope.model.errors import InputError

AGAIN = frozenset((429, 502, 503, 504))
"""Answers after which the protocol has a client try again."""
FIRST_S, LONGEST_S = 0.25, 8.0
"""Between two tries: at first, at most."""
PATIENCE_S, PATIENCE_AT_FIRST_S = 60.0, 5.0
"""How long one batch is tried: once something has arrived there, and before."""
WHOLE_S = 30.0
"""For one try: sending, and the whole answer, however it dribbles in."""
ANSWER_MOST = 65_536
SHOWN = 120


class _MayPass(Exception):
    """It did not arrive, and may if it is tried again."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s
        """The collector asks to be left alone for so long."""


@dataclass
class Delivery:
    """A way to one collector."""

    endpoint: Endpoint
    told: Callable[[str], None] = lambda sentence: None
    """Hears that it is waited for, once per batch."""
    pause: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    batches: int = 0
    """Arrived."""
    rejected: int = 0
    """Spans that the collector said it threw away, of those that arrived."""
    objection: str = ""
    """What it said of them."""
    _connection: HTTPConnection | None = field(default=None, repr=False)

    def send(self, body: bytes) -> None:
        """Bring one batch there. InputError: it cannot be brought."""
        patience = PATIENCE_S if self.batches else PATIENCE_AT_FIRST_S
        end, wait, waited = self.now() + patience, FIRST_S, False
        while True:
            try:
                self._try(body)
            except _MayPass as reason:
                pause = max(wait * random.uniform(0.5, 1.0), reason.after_s)
                if self.now() + pause > end:
                    raise InputError(f"{self.endpoint.url} {reason}, and it was tried for {patience:.0f} s") from None
                if not waited:
                    self.told(f"{self.endpoint.url} {reason}; trying again for up to {patience:.0f} s")
                self.pause(pause)
                wait, waited = min(2 * wait, LONGEST_S), True
                continue
            self.batches += 1
            return

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try(self, body: bytes) -> None:
        try:
            answer, text = self._asked(body)
        except ssl.SSLCertVerificationError as error:
            raise InputError(
                f"{self.endpoint.url} shows a certificate that cannot be trusted ({error.verify_message}); name who"
                " signed it with --otlp-ca FILE"
            ) from None
        except ssl.SSLError as error:
            raise InputError(
                f"{self.endpoint.url} does not speak TLS ({error.reason or error}); is it http://?"
            ) from None
        except (OSError, HTTPException) as error:
            self.close()
            raise _MayPass(_reason(error)) from None
        self._judge(answer, text)

    def _asked(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self.endpoint.connection()
        if self._connection.sock is None:
            self._connection.connect()
        headers = {"Content-Type": "application/x-protobuf", "User-Agent": "kvscope", **self.endpoint.headers}
        # An answer of no stated length takes the connection's socket with it.
        with _cut_after(self._connection.sock, WHOLE_S):
            self._connection.request("POST", self.endpoint.path, body, headers)
            answer = self._connection.getresponse()
            text = answer.read(ANSWER_MOST)
        if not answer.isclosed():  # more than anybody reads: it cannot be asked again
            self.close()
        return answer, text

    def _judge(self, answer: HTTPResponse, text: bytes) -> None:
        said = f"answers {answer.status} {answer.reason}".rstrip()
        if answer.status in AGAIN:
            raise _MayPass(said, _after(answer.headers))
        if answer.status != 200:
            raise InputError(f"{self.endpoint.url} {said}{_words(text)}")
        try:
            told = ExportTraceServiceResponse.FromString(text)
        except DecodeError:
            raise InputError(f"{self.endpoint.url} answers, but not as a collector of traces does") from None
        self.rejected += max(0, told.partial_success.rejected_spans)  # less than none is no number
        self.objection = _shown(told.partial_success.error_message) or self.objection


def _after(headers: Message) -> float:
    """Seconds that it asks for; dates are not understood."""
    given = str(headers.get("Retry-After", ""))
    return float(given) if given.isdecimal() and len(given) < 6 else 0.0


def _words(text: bytes) -> str:
    """What it says about it, if that can be shown."""
    words = _shown(text.decode(errors="ignore"))
    return f": {words}" if words else ""


def _shown(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:SHOWN]


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPException) and not isinstance(error, ConnectionError):
        return "answers, but not as a web server does, or not to the end"
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot be reached: {(told or type(error).__name__).lower()}"


@contextmanager
def _cut_after(connection: socket.socket, seconds: float) -> Iterator[None]:
    """End what is under way on a connection when it takes longer: a time limit on each read alone never comes."""

    def cut() -> None:
        late.set()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    late = threading.Event()
    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException):
        if late.is_set():
            raise TimeoutError(f"no whole answer within {seconds:.0f} s") from None
        raise
    finally:
        timer.cancel()
    if late.is_set():  # what was there is taken for all where no length was told
        raise TimeoutError(f"no whole answer within {seconds:.0f} s")
