"""One picture of hand-written events, as a collector makes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvscope.core.stream import SECOND
from kvscope.live.collector import Collector, Settings
from kvscope.live.feed import Batch, Flow
from kvscope.live.snapshot import Snapshot
from kvscope.model.events import Events, Process

from ..core.scene import MS, events_of, moment

Items = list[dict[str, Any]]


@dataclass
class Once:
    """Gives everything at the first poll."""

    events: Events
    now: int
    name: str = "a test"

    def poll(self) -> Batch:
        return Batch(self.events, self.now, None, Flow.LIVE)

    def save(self, folder: Path) -> str:
        raise NotImplementedError

    def close(self) -> None:
        pass


def picture(items: Items, now_s: float, settings: Settings | None = None, dark: tuple[Process, ...] = ()) -> Snapshot:
    """What is seen of the items at `now_s`; `dark`: processes that are listed and said nothing."""
    found = events_of(items)
    events = Events(found.rows, (*found.processes, *dark), found.texts)
    return Collector(Once(events, round(now_s * SECOND)), settings).step()


def load(engine: str, ms: float, waiting: int, running: int, held: int, free_blocks: int) -> dict[str, Any]:
    told = {"waiting": waiting, "running": running, "held": held, "free_blocks": free_blocks}
    return moment({"engine": engine}, "load", ms, **told)


def steps(engine: str, lengths_ms: list[float], begin_ms: float = 0, share: float = 0.1) -> Items:
    """Steps one after the other; `share` of each in the connector."""
    items = []
    for length in lengths_ms:
        more = {"begin": round(begin_ms * MS), "connector_ns": round(length * share * MS), "folded": 0}
        begin_ms += length
        items.append(moment({"engine": engine}, "step", begin_ms, **more))
    return items


def started(engine: str, **facts: Any) -> dict[str, Any]:
    return {"t": 0, "engine": engine, "moment": "started", "started": {"engine": engine, **facts}}
