"""The requests of the last while, bounded: given out by the stream, or so far as they have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.model.splits import Splits, concat
from kvscope.probe.vocabulary import UNKNOWN

MOST = 8_000
"""Requests kept: some 2 kB each. They are laid side by side for each picture; more would cost more than they tell."""
SMALL = 512
"""Neighbouring chunks are put together up to this many requests, so that there are few."""


@dataclass(frozen=True)
class Chunk:
    """Requests, and between which instants (`when`) they lie."""

    splits: Splits
    oldest: int
    newest: int


class History:
    """Chunks of requests that are over, newest last, and those that answered and still run.

    Requests with a TTFT are kept apart from the others, so that in a window they lie side by side.
    """

    def __init__(self, keep_ns: int, most: int = MOST) -> None:
        self._keep_ns, self._most = keep_ns, most
        self._timed: list[Chunk] = []
        self._others: list[Chunk] = []
        self._answered: Splits | None = None
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
            _push(self._timed, splits.select(splits.timed))
            _push(self._others, splits.select(~splits.timed))
        running = [splits for splits in (self._answered, answered) if splits is not None and len(splits)]
        if len(running) > 1 or (running and over):
            self._answered = _without(concat(running), over)
        elif running:
            self._answered = running[0]
        self._trim(now)

    def since(self, begin: int) -> list[Splits]:
        """Requests whose first token, else whose last moment, is not before `begin`; those with a TTFT first."""
        running = [chunk_of(self._answered)] if self._answered is not None else []
        parts = (_from(chunk, begin) for chunk in (*self._timed, *running, *self._others) if chunk.newest >= begin)
        return [part for part in parts if len(part)]

    def texts(self, *more: Splits) -> dict[int, str]:
        """All that requests of `since` name, and those of some more: a dict of the caller's own."""
        found = self._texts.copy()
        for splits in more:
            found |= splits.texts
        return found

    def _trim(self, now: int) -> None:
        for chunks in (self._timed, self._others):
            while chunks and chunks[0].newest < now - self._keep_ns:
                del chunks[0]
            while len(chunks) > 1 and sum(len(chunk.splits) for chunk in chunks) > self._most:
                self.floor = max(self.floor, chunks.pop(0).newest)
        if len(self._texts) > self._look_at:
            self._texts = {key: text for part in self.since(UNKNOWN) for key, text in part.texts.items()}
            self._look_at = 2 * len(self._texts) + 4 * SMALL


def _push(chunks: list[Chunk], splits: Splits) -> None:
    if not len(splits):
        return
    if chunks and len(chunks[-1].splits) + len(splits) <= SMALL:
        splits = concat((chunks.pop().splits, splits))
    chunks.append(chunk_of(splits))


def when(splits: Splits) -> np.ndarray:
    """(n,) ns: the first token, else the last moment."""
    return np.where(splits.first_token != UNKNOWN, splits.first_token, splits.last_moment[:, 2])


def chunk_of(splits: Splits) -> Chunk:
    """With its bounds; it must not be empty."""
    times = when(splits)
    return Chunk(splits, int(times.min()), int(times.max()))


def _from(chunk: Chunk, begin: int) -> Splits:
    return chunk.splits if chunk.oldest >= begin else chunk.splits.select(when(chunk.splits) >= begin)


def _without(running: Splits, over: Sequence[Splits]) -> Splits | None:
    """Of the running ones, those that are not over now. One that answered keeps its first token for good."""
    ended = {key for splits in over for key in zip(splits.request.tolist(), splits.first_token.tolist(), strict=True)}
    if not ended:
        return running
    keys = zip(running.request.tolist(), running.first_token.tolist(), strict=True)
    kept = np.array([key not in ended for key in keys], bool)
    return running.select(kept) if kept.any() else None
