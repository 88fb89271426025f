"""Two processes that record requests as a pair of engines would, and a `kvscope serve` that keeps the last minutes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ...unit.live.fleet import request
from ..live.conftest import Serve, Served, serve, until
from ..sources.conftest import ROOT, Recording, Start, start

__all__ = ["serve", "start"]

PLAYER = ROOT / "tests" / "scripts" / "playing_process.py"


@dataclass
class Pair:
    """A prefill and a decode engine."""

    processes: dict[str, Recording]
    sent: int = field(default=0)

    def play(self, items: list[dict[str, Any]]) -> None:
        """Record moments, each on its engine."""
        for engine, process in self.processes.items():
            process.tell(json.dumps([item for item in items if item["engine"] == engine]))

    def request(self, delay_ms: float = 0.0) -> str:
        """One whole request that ends now, its decode leg so much later than it could have been; returns its id."""
        items = request("sequential", self.sent, 0, delay_ms)
        base = time.monotonic_ns() - max(item["t"] for item in items)
        self.sent += 1
        # The next one is another; in a fleet of the tests ids are counted, and clocks begin at 0.
        self.play([_placed(item, base) for item in items])
        return f"cmpl-r{self.sent - 1:04d}-0-bbbbbbbb"

    def failure(self, reason: str) -> None:
        """A request fails on the decode engine."""
        failed = {"engine": "d0", "leg": "decode", "request": "cmpl-f-0-bbbbbbbb", "moment": "failed", "reason": reason}
        self.play([failed | {"t": time.monotonic_ns()}])


def _placed(item: dict[str, Any], base: int) -> dict[str, Any]:
    looked = {"looked": item["looked"] + base} if "looked" in item else {}
    return item | {"t": item["t"] + base} | looked


def _playing(engine: str) -> Recording:
    return Recording(engine, [sys.executable, str(PLAYER), engine])


@pytest.fixture
def pair(start: Start) -> Pair:
    """Both, up and recording."""
    return Pair({name: start(name, _playing) for name in ("p0", "d0")})


@pytest.fixture
def keep(serve: Serve, tmp_path: Path) -> Callable[..., Served]:
    """Serve with incidents, saved into `tmp_path/incidents`."""

    def begin(*words: str) -> Served:
        return serve("--save-to", str(tmp_path / "incidents"), *words)

    return begin


@dataclass
class Incidents:
    """A folder of them."""

    path: Path

    @property
    def found(self) -> list[Path]:
        return sorted(self.path.glob("incident-*"))

    def account(self, number: int = -1) -> dict[str, Any]:
        """What is said of one."""
        told: dict[str, Any] = json.loads((self.found[number] / "incident.json").read_text())
        return told

    def until(self, count: int) -> dict[str, Any]:
        """Wait until so many are complete; the account of the last."""

        def there() -> bool:
            accounts = [path / "incident.json" for path in self.found]
            told = [json.loads(path.read_text()) for path in accounts if path.exists()]
            return [each["complete"] for each in told].count(True) >= count

        until(there, f"{count} incidents are not complete: {self.found}")
        return self.account()


@pytest.fixture
def incidents(tmp_path: Path) -> Incidents:
    """Those that are saved."""
    return Incidents(tmp_path / "incidents")
