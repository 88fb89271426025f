"""Pictures of every state that the overview can meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from kvscope.analysis.objectives import parse_objectives
from kvscope.live.collector import Collector, Settings
from kvscope.live.feed import Flow
from kvscope.live.snapshot import Snapshot
from kvscope.sources import open_sources

from ..live.fleet import request, stretch
from ..live.picture import Items, Once, load, picture, started, steps
from ..live.test_collector import pictures

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
SECOND = 1_000_000_000
WALL = 1_764_400_000 * SECOND
PAIR = [
    started("p0", role="kv_producer", mode="push", model="models/qwen3-32b", connector="NixlPushConnector"),
    started("d0", role="kv_consumer", mode="push", model="models/qwen3-32b", kv_blocks=1_000),
]


def flat(parts: list[Items]) -> Items:
    return [item for part in parts for item in part]


@cache
def early(seconds: float = 5) -> Snapshot:
    return picture([*PAIR, *flat(stretch("early", 0, seconds))], seconds + 1)


@cache
def changed(settings: Settings | None = None, delay_ms: float = 500) -> Snapshot:
    """Sequential from second 20 on, with decode called late."""
    parts = stretch("early", 0, 20) + stretch("sequential", 20, 40, first=1000, delay_ms=delay_ms)
    return picture([*PAIR, *flat(parts)], 40 + delay_ms // 1000, settings)


@cache
def without_prefill() -> Snapshot:
    return picture([item for item in flat(stretch("pull", 0, 5)) if item["engine"] != "p0"], 12)


@cache
def without_decode() -> Snapshot:
    items = [{**item, "peer_engine": "d0"} for item in flat(stretch("early", 0, 5)) if item["engine"] != "d0"]
    return picture(items, 12)


@cache
def hung() -> Snapshot:
    requests = flat([request("early", number, 1_000 * number) for number in range(5)])
    return picture([*PAIR, *(item for item in requests if item["t"] % SECOND <= 60_000_000)], 30)


@cache
def incomplete() -> Snapshot:
    return picture([item for item in flat(stretch("early", 0, 5)) if item["moment"] != "prepared"], 10)


@cache
def fleet_of_six() -> Snapshot:
    """d-3 is slow in what leads and in its steps; d-2 runs out of blocks."""
    items: Items = [started(f"d-{n}", role="kv_consumer", kv_blocks=1_000) for n in range(6)]
    for number in range(300):
        decode = number % 6
        items += request("sequential", number, 30 * number, 30 * (number % 5) + 400 * (decode == 3), f"d-{decode}")
    for n in range(6):
        items += [*steps(f"d-{n}", [71.0 if n == 3 else 57.0] * 100, begin_ms=1_000)]
        items.append(load(f"d-{n}", 5_000, n % 2, 1, 0, 90 if n == 2 else 600))
    return picture(items, 10)


@cache
def recorded(name: str) -> Snapshot:
    """All of a recording of the real pair, as a live view saw it at the end."""
    found = open_sources([str(PICTURES / f"{name}.kvs")]).events
    rows = found.rows[found.rows["t"].argsort(kind="stable")]
    return Collector(Once(replace(found, rows=rows), int(rows["t"].max()) + SECOND)).step()


@cache
def traffic_gone() -> Snapshot:
    """The last request a minute ago."""
    return pictures([PAIR, *stretch("early", 0, 3)], 66)[-1]


STATES: dict[str, Callable[[], Snapshot]] = {
    "no engine": lambda: picture([], 1),
    "no traffic": lambda: picture(PAIR, 5),
    "traffic gone": traffic_gone,
    "one request": lambda: picture([*PAIR, *request("early", 1, 0)], 2),
    "few": lambda: picture([*PAIR, *flat(stretch("early", 0, 1, per_s=3))], 3),
    "even": early,
    "changed": changed,
    "changed by minutes": lambda: changed(delay_ms=150_000),
    "only a router": lambda: picture([started("router", dispatch="early")], 2),
    "changed, with objectives": lambda: changed(Settings(objectives=parse_objectives("ttft=800ms,tpot=30ms"))),
    "decode only": without_prefill,
    "prefill only": without_decode,
    "hung": hung,
    "incomplete": incomplete,
    "six": fleet_of_six,
    "lost": lambda: replace(early(), flow=Flow.LOST, remark="nothing from the aggregator for 14 s; trying again"),
    "ended": lambda: replace(early(), flow=Flow.ENDED, wall_ns=WALL),
    "push, early": lambda: recorded("push-early"),
    "push, sequential": lambda: recorded("push-sequential"),
    "pull": lambda: recorded("pull"),
}
