"""When something was: time of day where the source told it, else seconds since the first event."""

from __future__ import annotations

from datetime import datetime

from kvscope.live.snapshot import Snapshot

MS, SECOND = 1_000_000, 1_000_000_000


class Instants:
    """Writes ns of the events' clock for a person."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._wall_ns = snapshot.wall_ns
        known = (ns for ns in (snapshot.first, snapshot.begun) if ns is not None)
        self._begun = min(known, default=snapshot.now)

    def at(self, ns: int, fine: bool = False) -> str:
        """`02:11:40` in local time, or `12.3 s`; to the millisecond, if it is to be fine."""
        if self._wall_ns is None:
            return f"{max(0, ns - self._begun) / SECOND:.{3 if fine else 1}f} s"
        whole, rest = divmod(ns + self._wall_ns, SECOND)
        return datetime.fromtimestamp(whole).strftime("%H:%M:%S") + (f".{rest // MS:03}" if fine else "")

    def since(self, ns: int) -> str:
        """The same in a sentence that says since when."""
        return self.at(ns) if self._wall_ns is not None else f"{self.at(ns)} after the start"

    def between(self, begin: int, end: int) -> str:
        """`02:01:10-02:11:40`."""
        return f"{self.at(begin).removesuffix(' s')}-{self.at(end)}"
