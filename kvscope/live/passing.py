"""What an aggregator took, passed on to whoever follows it, as it lies in its folder. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvscope.agents.following import Follower, place_of
from kvscope.agents.taking import Taker
from kvscope.probe.recording import Writer
from kvscope.probe.ring import boot_id, clock_pair


class Passing:
    """One client's way through the folder."""

    def __init__(self, folder: Path, writer: Writer, mark: Mapping[str, Any] | None) -> None:
        """mark: of the connection before; None: there was none."""
        self._follower = Follower(folder, place_of(mark.get("place")) if mark else None)
        self._writer, self._boot_id = writer, boot_id()
        self._exchanges: list[list[Any]] = []

    def poll(self) -> None:
        """Write what is new."""
        for frame in self._follower.look():
            self._writer.pass_on(frame)
        self._exchanges += self._follower.exchanges

    def mark(self) -> None:
        """Write how far that is, and what clocks showed meanwhile."""
        monotonic_ns, realtime_ns, _ = clock_pair()
        clocks = {"monotonic_ns": monotonic_ns, "realtime_ns": realtime_ns, "boot_id": self._boot_id}
        place = [self._follower.place.part, self._follower.place.at]
        self._writer.mark(clocks | {"rings": {}, "place": place, "exchanges": self._exchanges})
        self._exchanges = []

    def end(self) -> None:
        """Write what is new, and that it was all."""
        self.poll()
        self._writer.end({})


class Taken:
    """An aggregator's folder, as a server has it: agents put in, views are given out."""

    def __init__(self, taker: Taker) -> None:
        self._taker = taker
        self.take, self.refuse = taker.take, taker.refuse

    @property
    def fault(self) -> str:
        """What keeps it from taking anything; empty where nothing does."""
        return self._taker.fault

    @property
    def told(self) -> dict[str, Any]:
        """What there is to say of it."""
        return self._taker.told

    def source(self, writer: Writer, mark: Mapping[str, Any] | None) -> Passing:
        """All that is taken, from a mark on, or from a minute or two ago."""
        return Passing(self._taker.folder, writer, mark)
