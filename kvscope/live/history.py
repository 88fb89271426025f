"""The requests of the last while, bounded: given out by the stream, or so far as they have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvscope.live.register import Register
from kvscope.model.splits import Splits, concat
from kvscope.probe.vocabulary import UNKNOWN

MOST = 8_000
"""Requests kept: some 2 kB each. More would cost more than they tell."""
SMALL = 512
"""Neighbouring chunks are put together up to this many requests, so that there are few."""


@dataclass(frozen=True)
class Chunk:
    """Requests, and when the last of them was."""

    splits: Splits
    newest: int


class History:
    """Requests with a TTFT lie side by side, in about the order of their first tokens: at first as far as they had come
    then, and when they are over as they became. The others are kept apart, newest last."""

    def __init__(self, none: Splits, keep_ns: int, most: int = MOST) -> None:
        """`none`: splits of no request."""
        self._keep_ns, self._most = keep_ns, most
        self._timed = Register(none)
        self._running: dict[tuple[int, int], int] = {}
        """request and first token -> place, of those that answered and still run"""
        self._others: list[Chunk] = []
        self._texts: dict[int, str] = {}
        self._look_at = 0
        """So many texts, and those that nobody names any more are looked for."""
        self.floor = UNKNOWN
        """ns: requests up to here were forgotten because there were too many; UNKNOWN if none were."""

    def add(self, over: Sequence[Splits], answered: Splits, now: int) -> None:
        """Take requests that are over, and those whose first token came; forget what is too old or too much."""
        for splits in (*over, answered):
            self._texts |= splits.texts
        for splits in over:
            self._finish(splits.select(splits.timed))
            _push(self._others, splits.select(~splits.timed))
        self._running.update(zip(_keys(answered), self._timed.add(answered).tolist(), strict=True))
        self._trim(now)

    def window(self, begin: int, waiting: Splits) -> Splits:
        """Requests whose first token, else whose last moment, is not before `begin`, those with a TTFT first, and
        behind them some that wait. What it shows stays as it is."""
        others = (chunk.splits.select(when(chunk.splits) >= begin) for chunk in self._others if chunk.newest >= begin)
        rows = self._timed.rows.first_token >= begin
        place = self._timed.begin + _first(rows)
        window = self._timed.view(place, concat((*others, waiting), {}))
        inside = np.ones(len(window), bool)
        late = rows[place - self._timed.begin :]
        inside[: len(late)] = late
        window = window if late.all() else window.select(inside)
        return replace(window, texts=self._texts | waiting.texts)

    def _finish(self, splits: Splits) -> None:
        """Requests that are over now. One that answered keeps its first token for good."""
        places = np.array([self._running.pop(key, UNKNOWN) for key in _keys(splits)], np.int64)
        known = places >= self._timed.begin
        self._timed.replace(places[known], splits.select(known))
        self._timed.add(splits.select(places == UNKNOWN))

    def _trim(self, now: int) -> None:
        times, begin = self._timed.rows.first_token, self._timed.begin
        old, excess = _first(times >= now - self._keep_ns), len(times) - self._most
        if excess > old:
            self.floor = max(self.floor, int(times[:excess].max()))
        self._timed.forget(begin + max(old, excess))
        if len(self._running) > len(self._timed):
            kept = self._timed.begin
            self._running = {key: place for key, place in self._running.items() if place >= kept}
        while self._others and self._others[0].newest < now - self._keep_ns:
            del self._others[0]
        while len(self._others) > 1 and sum(len(chunk.splits) for chunk in self._others) > self._most:
            self.floor = max(self.floor, self._others.pop(0).newest)
        if len(self._texts) > self._look_at:
            kinds = (self._timed.rows, *(chunk.splits for chunk in self._others))
            named = {key for splits in kinds for key in splits.named.tolist()}
            self._texts = {key: text for key, text in self._texts.items() if key in named}
            self._look_at = 2 * len(self._texts) + 4 * SMALL


def _keys(splits: Splits) -> list[tuple[int, int]]:
    return list(zip(splits.request.tolist(), splits.first_token.tolist(), strict=True))


def _first(rows: np.ndarray) -> int:
    """Index of the first of (n,) bool; n if there is none."""
    return int(rows.argmax()) if rows.any() else len(rows)


def _push(chunks: list[Chunk], splits: Splits) -> None:
    if not len(splits):
        return
    if chunks and len(chunks[-1].splits) + len(splits) <= SMALL:
        splits = concat((chunks.pop().splits, splits), {})
    chunks.append(Chunk(splits, int(when(splits).max())))


def when(splits: Splits) -> np.ndarray:
    """(n,) ns: the first token, else the last moment."""
    return np.where(splits.first_token != UNKNOWN, splits.first_token, splits.last_moment[:, 2])
