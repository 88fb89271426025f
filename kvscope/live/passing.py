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

    def __init__(
        self, folder: Path, writer: Writer, mark: Mapping[str, Any] | None, taker: Taker | None = None
    ) -> None:
        """mark: of the connection before; None: there was none. taker: who writes there, if that is this process."""
        self._taker = taker
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
        said = {"notes": self._taker.notes, "faults": self._taker.silent} if self._taker else {}
        self._writer.mark(clocks | {"rings": {}, "place": place, "exchanges": self._exchanges} | said)
        self._exchanges = []

    def end(self) -> None:
        """Write what is new, and that it was all."""
        self.poll()
        self._writer.end({})


class Taken:
    """An aggregator's folder, as a server has it: agents put in, views are given out."""

    takes = True

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
        return Passing(self._taker.folder, writer, mark, self._taker)


class Seen:
    """The folder of an aggregator that is another process: views are given what is there, and nothing is put in."""

    takes = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.told: dict[str, Any] = {}

    @property
    def fault(self) -> str:
        """What keeps it from being read; empty where nothing does."""
        return (
            ""
            if self._folder.is_dir()
            else f"{self._folder}, where another `kvscope serve` keeps what it takes, is gone"
        )

    def take(self, body: bytes, peer: str, received: int) -> dict[str, Any]:
        """Nothing is taken."""
        raise NotImplementedError

    def refuse(self, kind: str, peer: str, why: str = "") -> str:
        """Nobody counts it here."""
        return why

    def source(self, writer: Writer, mark: Mapping[str, Any] | None) -> Passing:
        """All that is taken, from a mark on, or from a minute or two ago."""
        return Passing(self._folder, writer, mark)
