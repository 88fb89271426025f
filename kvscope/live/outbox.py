"""What one client is sent, and what waits for it: a recording in chunks, made by a tap of its own."""

from __future__ import annotations

import select
import socket
import threading
import time
from typing import TYPE_CHECKING

from kvscope.live.wire import INTERVAL_S
from kvscope.probe.reader import RingError

if TYPE_CHECKING:
    from kvscope.live.serving import Source

BUFFER_BYTES = 4 << 20
"""What may wait for one client, beside what the kernel holds: ten seconds of 20,000 events a second."""
STALL_S = 60.0
"""A client that took nothing for so long is gone."""
PARTING_S = 1.0
"""How long the last part may take when the server ends."""


class Outbox:
    """What waits for a client: a file to write to, sent in chunks as far as the socket takes it."""

    def __init__(self, client: socket.socket, most: int = BUFFER_BYTES) -> None:
        client.setblocking(False)
        self._most = most
        self._client, self._poll = client, select.poll()
        self._poll.register(client, select.POLLIN)
        self._chunk, self._waiting = bytearray(), bytearray()
        self.moved_at = time.monotonic()
        """When the client took something last, or nothing waited."""

    def write(self, data: bytes) -> int:
        """Add to the chunk that is being made."""
        self._chunk += data
        return len(data)

    def flush(self) -> None:
        """Nothing: a chunk is whole when `seal` says so."""

    def seal(self, last: bool = False) -> None:
        """End the chunk; `last`: and the body."""
        if self._chunk:
            self._waiting += b"".join((b"%x\r\n" % len(self._chunk), self._chunk, b"\r\n"))
            self._chunk.clear()
        if last:
            self._waiting += b"0\r\n\r\n"

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    @property
    def full(self) -> bool:
        """Whether no more may be written, for now."""
        return len(self._waiting) >= self._most

    def send(self) -> None:
        """Give the client what it takes now. OSError: it is gone."""
        try:
            while self._waiting:
                del self._waiting[: self._client.send(self._waiting)]
                self.moved_at = time.monotonic()
        except BlockingIOError:
            return
        self.moved_at = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Until the socket takes more, or so long; returns whether the client is still there."""
        self._poll.modify(self._client, select.POLLIN | (select.POLLOUT if self._waiting else 0))
        happened = sum(what for _, what in self._poll.poll(max(seconds, 0) * 1000))
        return not happened & ~select.POLLOUT or bool(self._client.recv(4096))


def follow(outbox: Outbox, tap: Source, stop: threading.Event) -> None:
    """Send a client what the tap gives, which writes to `outbox`, until the client is gone, `stop` is set, or the
    rings cannot be read any more."""
    look_at = time.monotonic()
    try:
        while not stop.is_set():
            now = time.monotonic()
            if now >= look_at:
                look_at = now + INTERVAL_S
                _look(tap, outbox)
            outbox.send()
            if now - outbox.moved_at > STALL_S or not outbox.wait(look_at - time.monotonic()):
                return
        _part(tap, outbox)
    except (OSError, RingError):
        return


def _look(tap: Source, outbox: Outbox) -> None:
    """Take what is new, if there is room for it."""
    if not outbox.full:
        tap.poll()
        tap.mark()
        outbox.seal()


def _part(tap: Source, outbox: Outbox) -> None:
    """End the recording, if the client takes it."""
    tap.end()
    outbox.seal(last=True)
    until = time.monotonic() + PARTING_S
    while not outbox.empty and time.monotonic() < until:
        outbox.send()
        if not outbox.wait(until - time.monotonic()):
            return
