"""Who is connected to a server: how many at most, and for how long. Standard library only.

Where all seats are taken, whoever has been asking longest gives way to the one that comes: so one that asks without
dawdling is heard, however many others dawdle. Those that are given much are not sent away, but there is only so much
room for them.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from time import monotonic


class Doing(StrEnum):
    """What a connection is there for at the moment."""

    ASKING = "asking"
    """It has not asked yet, or is answered in a few words."""
    SCRAPING = "scraping"
    """It is given a page of metrics."""
    FOLLOWING = "following"
    """It is given what rings record."""
    SENDING = "sending"
    """An agent that has proved who it is, between two batches too."""


SEATS = 64
"""Connections at a time."""
MOST = {Doing.SCRAPING: 8, Doing.FOLLOWING: 32, Doing.SENDING: 1024}
"""Of these. Each page may be of 8 MB, and each that follows has 4 MiB waiting for it, and the rings open. Agents have
seats of their own: whoever has shown the token is let in, however many others dawdle."""
LEAVING = 64
"""Beside these, such as have been sent away and have not gone yet."""

ASK_S = 10.0
"""From the first byte to the last of a request, and to that of a short answer."""
IDLE_S = 75.0
"""Between two requests: a scraper that comes every minute keeps its connection."""
SEND_S = 75.0
"""From one batch to the next, each with its answer: an agent says a word every second."""
SCRAPE_S = 30.0
"""To take a page."""
LEAVE_S = 2.0
"""To take the word that it was too slow."""


@dataclass(eq=False)
class Visitor:
    """A connection."""

    connection: socket.socket
    doing: Doing
    since: float
    until: float
    """When it will have taken too long, on the monotonic clock."""
    late: bool = False
    """It took too long, or had to give way: nothing more is read from it."""

    def hang_up(self, how: int) -> None:
        """SHUT_RD: take no further request; one that is being answered is. SHUT_RDWR: end that, too."""
        with suppress(OSError):
            # Not the connection's own method: that of TLS forgets its keys, and the rest of an answer goes in plain.
            socket.socket.shutdown(self.connection, how)


class Visitors:
    """All connections of a server. For any thread."""

    def __init__(self) -> None:
        self._all: dict[socket.socket, Visitor] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, connection: socket.socket) -> bool:
        """Give a connection a seat, if need be another one's."""
        now = monotonic()
        with self._lock:
            others = [each for each in self._all.values() if each.doing is not Doing.SENDING]
            if len(others) >= SEATS + LEAVING:
                return False
            if sum(not each.late for each in others) >= SEATS:
                self._make_room(now)
            self._all[connection] = Visitor(connection, Doing.ASKING, now, now + ASK_S)
        return True

    def of(self, connection: socket.socket) -> Visitor:
        """Who has that connection."""
        return self._all[connection]

    def leave(self, connection: socket.socket) -> None:
        """Give its seat to others."""
        with self._lock:
            self._all.pop(connection, None)

    def make_room(self) -> None:
        """Send the one away that has been asking longest."""
        with self._lock:
            self._make_room(monotonic())

    def let(self, visitor: Visitor, doing: Doing, seconds: float = inf) -> bool:
        """Let it go on with something, for so long; returns whether it may: there may be too many at it already."""
        now = monotonic()
        with self._lock:
            many = sum(each.doing is doing for each in self._all.values() if each is not visitor)
            if visitor.late or many >= MOST.get(doing, inf):
                return False
            visitor.doing, visitor.since, visitor.until = doing, now, now + seconds
        return True

    def those(self, *doing: Doing) -> list[Visitor]:
        """Who is at one of these."""
        with self._lock:
            return [each for each in self._all.values() if each.doing in doing]

    def end_overdue(self) -> None:
        """Send those away that take too long: first in words, where they are asking."""
        now = monotonic()
        with self._lock:
            for each in self._all.values():
                if each.until > now:
                    continue
                if each.doing is Doing.ASKING and not each.late:
                    self._send_away(each, now)
                else:
                    each.hang_up(socket.SHUT_RDWR)

    def _make_room(self, now: float) -> None:
        asking = [each for each in self._all.values() if each.doing is Doing.ASKING and not each.late]
        if asking:
            self._send_away(min(asking, key=lambda each: each.since), now)

    @staticmethod
    def _send_away(visitor: Visitor, now: float) -> None:
        visitor.late, visitor.until = True, now + LEAVE_S
        visitor.hang_up(socket.SHUT_RD)
