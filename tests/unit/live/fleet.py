"""Fleets over a stretch of time, made of the worked examples: requests that come one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kvscope.model.events import Events

from ..core.scene import D_ID, D_LEG, MS, P_ID, events_of, moment, pull, push_early, push_sequential

Items = list[dict[str, Any]]
SCENES: dict[str, Callable[[], Items]] = {"early": push_early, "sequential": push_sequential, "pull": pull}


def request(scene: str, number: int, at_ms: float, delay_ms: float = 0.0, decode: str = "d0") -> Items:
    """One request of a scene that begins at `at_ms`; its decode leg and what follows come `delay_ms` later."""
    ids = {P_ID: f"cmpl-r{number:04d}-0-aaaaaaaa", D_ID: f"cmpl-r{number:04d}-0-bbbbbbbb"}
    items = [*SCENES[scene](), moment(D_LEG, "finished", 200, tokens=3)]
    return [_placed(item, ids, round(at_ms * MS), round(delay_ms * MS), decode) for item in items]


def _placed(item: dict[str, Any], ids: dict[str, str], at: int, delay: int, decode: str) -> dict[str, Any]:
    placed: dict[str, Any] = {
        key: ids.get(value, value) if isinstance(value, str) else value for key, value in item.items()
    }
    placed["engine"] = decode if item["engine"] == "d0" else item["engine"]
    late = delay if item["leg"] == "decode" or item["moment"] in AFTER_DECODE else 0
    placed["t"] += at + late
    if "looked" in placed:
        placed["looked"] += at + late
    return placed


AFTER_DECODE = {
    "registration_received", "matched", "post_begun", "prepared", "posted", "pending_seen", "done_seen", "released",
}  # fmt: skip


def events(parts: Iterable[Items]) -> Events:
    """All of them, oldest first."""
    found = events_of(item for part in parts for item in part)
    found.rows.sort(order="t")
    return found


def stretch(
    scene: str, begin_s: float, end_s: float, per_s: float = 10, first: int = 0, delay_ms: float = 0
) -> list[Items]:
    """Requests of a scene, `per_s` a second."""
    count = round((end_s - begin_s) * per_s)
    return [request(scene, first + n, 1000 * (begin_s + n / per_s), delay_ms) for n in range(count)]
