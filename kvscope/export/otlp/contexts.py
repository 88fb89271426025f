"""Which traces requests belong to, as engines and routers were told: `traceparent` of their moments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvscope.export.otlp.identity import Context, context_of
from kvscope.model.events import Events
from kvscope.model.ids import router_id
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, UNKNOWN, VALUES

MOST = 200_000
"""Contexts kept of requests that are not over."""
NAME = "traceparent"
_SLOTS = [(MOMENT_CODE[moment], names.index(NAME)) for moment, names in VALUES.items() if NAME in names]
_ROUTER = LEG_CODE["router"]


class Contexts:
    """Takes events as they come, and tells of each request once."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], Context] = {}

    def take(self, events: Events) -> None:
        """Note what was told in it. A request's first moment that tells counts."""
        for leg, request, value in _told(events.rows):
            context = context_of(events.texts.get(value & 0xFFFF_FFFF_FFFF_FFFF, ""))
            if context is not None:
                self._told.setdefault((leg, request), context)
        while len(self._told) > MOST:
            del self._told[next(iter(self._told))]

    def of_leg(self, leg: int, request: int) -> Context | None:
        """What an engine was told with a leg of a request (its key)."""
        return self._told.pop((leg, request), None)

    def of_router(self, request: str) -> Context | None:
        """The span that a router had open for a request (the engine's id of it)."""
        for text in (request, router_id(request)):
            found = self._told.get((_ROUTER, key64(text)))
            if found is not None:
                return found
        return None


def _told(rows: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """(leg, request, key of the text) of each moment that tells, in the order of time."""
    found = [rows[(rows["moment"] == code) & (rows["values"][:, slot] != UNKNOWN)] for code, slot in _SLOTS]
    keys = [each["values"][:, slot] for each, (_, slot) in zip(found, _SLOTS, strict=True)]
    if not any(map(len, found)):
        return
    every, key = np.concatenate(found), np.concatenate(keys)
    order = np.argsort(every["t"], kind="stable")
    columns = (every["leg"], every["request"], key)
    yield from zip(*(column[order].tolist() for column in columns), strict=True)
