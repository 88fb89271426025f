"""Which agent may tell of a process, and of an engine's part of it: the first that did, for as long as it is heard.

An engine of several hosts has one id, and a process of each rank: so what is owned is (id, kind of process, rank). The
same engine started anew on its host keeps it; one that moved has it once the other is not heard any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SILENT_NS = 30_000_000_000
"""Whoever was not heard of for so long owns nothing."""
MOST = 100_000


class Owners:
    """Claims, by what is claimed."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, ...], str] = {}
        self._heard: dict[str, int] = {}

    def other(self, whose: str, key: str, info: Mapping[str, Any], now: int) -> str:
        """Claim what a process says it is; empty: it may be told of. Else a sentence on whose it is."""
        claims = list(_claimed(key, info))
        for claim in claims:
            known = self._claims.get(claim, whose)
            if known != whose and now - self._heard.get(known, now - SILENT_NS) < SILENT_NS:
                what = f"engine id {claim[1]}" if claim[0] == "engine" else f"process {key}"
                return f"{what} is told of by another agent"
        for claim in claims:
            if info.get("alive") is False:
                self._claims.pop(claim, None)
            else:
                self._claims[claim] = whose
        while len(self._claims) > MOST:
            self._claims.pop(next(iter(self._claims)))
        return ""

    def heard(self, whose: str, now: int) -> None:
        """It lives."""
        self._heard[whose] = now


def _claimed(key: str, info: Mapping[str, Any]) -> list[tuple[str, ...]]:
    started = info.get("started") or {}
    found: list[tuple[str, ...]] = [("process", str(info.get("boot_id")), key)]
    if engine_id := started.get("engine_id"):
        found.append(("engine", str(engine_id), str(started.get("process", "")), str(started.get("rank", 0))))
    return found
