"""Marks on the dashboards: incidents and deployments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvscope.dashboards.server.connection import Grafana
from kvscope.dashboards.variables import TAG

KINDS = ("incident", "deployment")


@dataclass(frozen=True)
class Mark:
    """What happened, and when."""

    kind: str
    text: str
    begin_ms: int
    """since 1970"""
    end_ms: int | None = None
    """None: it was an instant"""
    tags: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """As Grafana takes it. Every dashboard of kvscope asks for the tag."""
        tags = [TAG, self.kind, *(tag for tag in self.tags if tag not in (TAG, self.kind))]
        end = {} if self.end_ms is None else {"timeEnd": self.end_ms}
        return {"time": self.begin_ms, "tags": tags, "text": self.text} | end


def mark(server: Grafana, mark: Mark) -> bool:
    """Put it there, unless it is there already; returns whether it was put."""
    what, client = f"the {mark.kind}", server.api.client
    span = {"from": mark.begin_ms, "to": mark.end_ms or mark.begin_ms, "tags": [TAG, mark.kind], "limit": 100}
    found = server.asked(what, client.GET, "/annotations", params=span)
    if any(_alike(mark, each) for each in found):
        return False
    server.asked(what, client.POST, "/annotations", json=mark.document)
    return True


def _alike(mark: Mark, found: dict[str, Any]) -> bool:
    end = mark.begin_ms if mark.end_ms is None else mark.end_ms
    return (found["time"], found.get("timeEnd") or found["time"], found["text"]) == (mark.begin_ms, end, mark.text)
