"""What the time to first token would be, between which bounds, and what it would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import percentile_of
from kvscope.analysis.price import kv_blocks
from kvscope.model.events import Events
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN
from kvscope.whatif.costs import Cost, costs_of
from kvscope.whatif.mode import Mode, asked
from kvscope.whatif.replay import Replayed, replay
from kvscope.whatif.seen import Left, gather_seen

RESAMPLES, LEVEL = 1000, 0.95
BEYOND = 0.2
"""Of the middle: bounds farther from it say little."""
FIGURES = ("p50", "p95", "mean")
ALWAYS = (
    "Prefill's queue and its run take as long as they did.",
    "Decode's queue, its admission and its first step take as long as they did, whenever they come.",
)


@dataclass(frozen=True)
class Guess:
    """A figure of TTFT, ns."""

    name: str
    measured: float
    low: float
    high: float
    """by the bounds of the costs, and by the chance that there is in how much each request would gain"""

    @property
    def middle(self) -> float:
        """Between the bounds."""
        return (self.low + self.high) / 2

    @property
    def wide(self) -> bool:
        """Whether the bounds are so far apart that they say little."""
        return self.high - self.middle > BEYOND * self.middle

    @property
    def told(self) -> int:
        """-1: shorter than measured at either bound; 1: longer; 0: neither is certain."""
        return -1 if self.high < self.measured else int(self.low > self.measured)


@dataclass(frozen=True)
class Reserved:
    """Decode's blocks that wait empty for what is to come into them."""

    measured: float
    """block-seconds"""
    low: float
    high: float
    most: int
    """blocks of one engine that requests would hold at once, at most"""
    least_room: int | None
    """blocks that the smallest decode engine has; None where one has not told"""

    @property
    def overflows(self) -> bool:
        """Whether decode might run out of blocks: what requests would then wait for some is not in the estimate."""
        return self.least_room is not None and self.most > self.least_room


@dataclass(frozen=True)
class Estimate:
    """Hypothetical, all of it but what is called measured."""

    was: Mode
    to: Mode
    requests: int
    left: Left
    guesses: tuple[Guess, ...]
    costs: tuple[Cost, ...]
    early: tuple[float, float] | None
    """share of requests whose decode half would be there before prefill's, at the least and the most; None in pull"""
    reserved: Reserved | None
    """None where no request told its blocks"""
    decoders: int
    assumed: tuple[str, ...]

    @property
    def median(self) -> Guess:
        """Of the guesses."""
        return self.guesses[FIGURES.index("p50")]


@dataclass(frozen=True)
class Wish:
    """The mode that is asked for; None: as recorded."""

    connector: str | None = None
    dispatch: str | None = None
    hold_ns: int = 0
    """for which the router would wait between the legs, where it called decode early"""


def estimate(events: Events, splits: Splits, wish: Wish, seed: int = 0) -> Estimate:
    """Of the requests of the commonest mode. InputError: as `gather_seen` and `asked`."""
    seen, left = gather_seen(events, splits, wish.hold_ns)
    to = asked(wish.connector, wish.dispatch, wish.hold_ns, seen.mode)
    costs = costs_of(seen, to)
    replayed = replay(costs, to)
    early = np.sort(replayed.early.mean(axis=1)) if to.push else None
    return Estimate(
        seen.mode,
        to,
        len(seen.splits),
        left,
        _guesses(seen.splits.ttft, replayed.ttft, seed),
        tuple(costs.values()),
        (float(early[0]), float(early[1])) if early is not None else None,
        _reserved(seen.splits, replayed, kv_blocks(events.processes)),
        len(np.unique(seen.splits.decode_engine)),
        _assumed(costs, to, wish, len(np.unique(seen.splits.decode_engine))),
    )


def _figures(ns: np.ndarray) -> list[float]:
    return [percentile_of(ns, 50), percentile_of(ns, 95), float(ns.mean())]


def _guesses(measured: np.ndarray, ttft: np.ndarray, seed: int) -> tuple[Guess, ...]:
    """ttft: (2, n)"""
    rng = np.random.default_rng(seed)
    n = len(measured)
    drawn = rng.integers(0, n, (RESAMPLES, n)) if n > 1 else np.zeros((1, 1), np.int64)
    # What changes is drawn, not what is: the requests are the same, so that long ones among them are no doubt of it.
    was, lows, highs = (np.array([_figures(side[rows]) for rows in drawn]) for side in (measured, *ttft))
    low = np.quantile(lows - was, (1 - LEVEL) / 2, axis=0)
    high = np.quantile(highs - was, (1 + LEVEL) / 2, axis=0)
    told = _figures(measured)
    return tuple(
        Guess(name, told[at], told[at] + float(low[at]), told[at] + float(high[at])) for at, name in enumerate(FIGURES)
    )


def _reserved(splits: Splits, replayed: Replayed, room: Mapping[str, int]) -> Reserved | None:
    """Idle from the reserved blocks until decode noticed that they are filled; held until the answer ends."""
    blocks = splits.reserved_blocks
    told = blocks != UNKNOWN
    if not told.any():
        return None
    idle = splits.time[:, NODE["noticed"]] - splits.time[:, NODE["D.reserved"]]
    measured = float((np.maximum(idle, 0) * blocks)[told].sum())
    least = np.maximum(replayed.ready[0] - replayed.reserved[1], 0)
    most = replayed.ready[1] - replayed.reserved[0]
    low, high = (float((ns * blocks)[told].sum()) for ns in (least, most))
    decoders = {splits.engines[at].engine for at in np.unique(splits.decode_engine).tolist() if at >= 0}
    known = [room[name] for name in decoders if name in room]
    return Reserved(
        measured / 1e9,
        low / 1e9,
        high / 1e9,
        _most_at_once(splits, replayed, told),
        min(known) if known and len(known) == len(decoders) else None,
    )


def _most_at_once(splits: Splits, replayed: Replayed, told: np.ndarray) -> int:
    """Blocks of one decode engine that requests hold at once, at most, if each holds them as long as it may."""
    begin = splits.origin + replayed.reserved[0]
    finished = splits.time[:, NODE["D.finished"]]
    answered = np.where(finished == UNKNOWN, 0, np.maximum(finished - splits.first_token, 0))
    end = splits.origin + replayed.ttft[1] + answered
    most = 0
    for engine in np.unique(splits.decode_engine[told]).tolist():
        rows = np.flatnonzero(told & (splits.decode_engine == engine))
        times = np.concatenate((begin[rows], end[rows]))
        change = np.concatenate((splits.reserved_blocks[rows], -splits.reserved_blocks[rows]))
        order = np.lexsort((change, times))  # what is freed at an instant is free for what comes then
        most = max(most, int(np.cumsum(change[order]).max()))
    return most


def _assumed(costs: Mapping[str, Cost], to: Mode, wish: Wish, decoders: int) -> tuple[str, ...]:
    found = [*ALWAYS]
    if not to.early and not costs["dispatch"].measured:
        when = f"{wish.hold_ns / 1e6:g} ms after prefill answers" if wish.hold_ns else "as soon as prefill answers"
        found.append(f"The router calls decode {when}.")
    if decoders > 1 and to.early:
        found.append(
            "Each request goes to the decode engine that it went to. Called early, the router would choose by what it"
            " knows earlier: what that costs is not in it."
        )
    return tuple(found)
