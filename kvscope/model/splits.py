"""Many requests as columns. A `RequestSplit` is made from a row only when somebody looks at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from kvscope.model.clockpair import ClockPair
from kvscope.model.engines import Merged
from kvscope.model.events import Process
from kvscope.model.graph import ALL_NODES, STAGE_INDEX
from kvscope.model.membership import among
from kvscope.model.requests import STATES, RequestSplit, State, Tally
from kvscope.model.shapes import SHAPE_CODE
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import UNKNOWN

CARVE = np.dtype(
    [("row", "i8"), ("walk", "u1"), ("node", "u1"), ("stage", "u1"), ("begin", "i8"), ("end", "i8")],
)
"""A piece cut out of the edge that ends at `node`, on the path (walk 0) or in a hidden branch (1, 2)."""

MARKS: tuple[str, ...] = (
    "clock_step",
    "recompute",
    "stale_match",
    "retried",
    "shared_prefill",
    "preempted",
    "order_violation",
    "unaligned",
)
DISPATCH_PARTS: tuple[str, ...] = ("reply", "router_hold", "hop")


@dataclass(frozen=True)
class Splits:
    """n requests. Leading axis of every column: the request. Times in ns; UNKNOWN where not known."""

    request: np.ndarray
    """(n,) u8 key of the decode leg's id, else the prefill leg's"""
    peer_request: np.ndarray
    """(n,) u8 key of the prefill leg's id where both legs are known, else 0"""
    shape: np.ndarray
    """(n,) u1 index into shapes.SHAPES"""
    state: np.ndarray
    """(n,) u1 index into requests.STATES"""
    missing: np.ndarray
    """(n, nodes) bool: required moments that were not seen"""

    time: np.ndarray
    """(n, ALL_NODES) i8 as stamped"""
    step: np.ndarray
    """(n, ALL_NODES) u4, 0 where none"""
    thread: np.ndarray
    """(n, ALL_NODES) u1"""
    walks: np.ndarray
    """(n, 3, nodes) bool: the path; the hidden registration branch; the hidden staging branch"""
    carves: np.ndarray
    """(k,) CARVE, sorted by row"""

    origin: np.ndarray
    first_token: np.ndarray
    ttft: np.ndarray
    """(n,) i8; UNKNOWN unless complete"""
    exposed: np.ndarray
    """(n, stages) i8 ns on the path"""
    hidden: np.ndarray
    """(n, stages) i8 ns off the path"""
    slack: np.ndarray
    """(n, branches, 2) i8 low and high; UNKNOWN where that branch is not hidden"""
    dispatch_parts: np.ndarray
    """(n, 3) i8: reply, router_hold, hop"""
    knew: np.ndarray
    """(n,) i1: 1 the decode leg was sent knowing prefill's outcome, 0 not, -1 no two legs"""

    reserved_idle: np.ndarray
    reserved_blocks: np.ndarray
    pinned: np.ndarray
    """(n,) i8; of children that share a prefill, only the first has it"""
    pinned_blocks: np.ndarray

    prefill_engine: np.ndarray
    """(n,) i4 index into `engines`, -1 none"""
    decode_engine: np.ndarray
    prompt_tokens: np.ndarray
    cached_tokens: np.ndarray
    output_tokens: np.ndarray
    transfer_bytes: np.ndarray
    descriptors: np.ndarray
    ranks: np.ndarray
    rank_spread: np.ndarray
    slowest_rank: np.ndarray
    """(n, 2) prefill rank, decode rank; -1 where there was one transfer"""
    post_thread: np.ndarray
    """(n,) u1 thread code"""

    largest_gap: np.ndarray
    finish_reason: np.ndarray
    """(n,) u2 reason code"""
    failure: np.ndarray
    """(n, 3) i8: of the first failure leg code, reason code, and the key of a reason of the engine's own"""
    last_moment: np.ndarray
    """(n, 3) i8: leg code, moment code and time of the latest moment"""
    behind: np.ndarray
    """(n,) ns that the clock of the latest moment lies behind the one that `now` is on; 0 where one clock is all"""
    marks: np.ndarray
    """(n,) u2 bit i: MARKS[i]"""
    clock_bound: np.ndarray
    """(n,) i8 ns by which a time from one host to another may be wrong; 0 on one clock, UNKNOWN where unaligned"""
    between_clocks: np.ndarray
    """(n,) u4 bit i: STAGES[i] was measured from one host to another"""
    moved: np.ndarray
    """(n, 2) i8 ns that were added to what the prefill leg and the decode leg (its end) stamped"""

    engines: tuple[Process, ...]
    texts: dict[int, str]
    now: int
    """the latest event of the set"""
    tally: Tally
    clocks: tuple[ClockPair, ...] = ()
    """What is known of the clocks of the hosts, each two between which messages went"""

    def __len__(self) -> int:
        return len(self.request)

    def __getitem__(self, row: int) -> RequestSplit:
        from kvscope.model.row import request_split  # a row is drawn from columns, columns never from rows

        return request_split(self, range(len(self))[row])

    def __iter__(self) -> Iterator[RequestSplit]:
        return (self[row] for row in range(len(self)))

    def text(self, row: int) -> str:
        """The request id of a row."""
        return text_of(self.texts, int(self.request[row]))

    def find(self, text: str) -> list[int]:
        """Rows whose request id, or peer's id, is or contains `text`."""
        keys = {key for key, known in self.texts.items() if text in known}
        rows = zip(self.request.tolist(), self.peer_request.tolist(), strict=True)
        return [row for row, ids in enumerate(rows) if not keys.isdisjoint(ids)]

    @property
    def named(self) -> np.ndarray:
        """u8, each once: keys of all texts that the requests name."""
        return np.unique(np.concatenate((self.request, self.peer_request, self.failure[:, 2].astype(np.uint64))))

    @property
    def complete(self) -> np.ndarray:
        """(n,) bool"""
        return self.in_state(State.COMPLETE)

    @property
    def timed(self) -> np.ndarray:
        """(n,) bool: may enter a percentile of TTFT"""
        return np.asarray(self.ttft != UNKNOWN)

    @property
    def age(self) -> np.ndarray:
        """(n,) ns from origin, or the latest moment where that is not known, to `now`"""
        return self.now - self.behind - np.where(self.origin == UNKNOWN, self.last_moment[:, 2], self.origin)

    @property
    def idle(self) -> np.ndarray:
        """(n,) ns from the latest moment to `now`"""
        return np.asarray(self.now - self.behind - self.last_moment[:, 2])

    @property
    def tpot(self) -> np.ndarray:
        """(n,) f8 ns per token after the first; NaN where not known"""
        from_first = self.time[:, FINISHED] - self.first_token
        known = (from_first >= 0) & (self.first_token != UNKNOWN) & (self.output_tokens > 1)
        known &= self.time[:, FINISHED] != UNKNOWN
        tokens = np.where(known, self.output_tokens - 1, 1)
        return np.where(known, from_first / tokens, np.nan)

    def stage(self, name: str) -> np.ndarray:
        """(n,) exposed ns of a stage"""
        return np.asarray(self.exposed[:, STAGE_INDEX[name]])

    def class_bounds(self, cls: Class) -> tuple[np.ndarray, np.ndarray]:
        """(n,) exposed ns of a class, low and high: coordination, transfer may each hold what is undetermined."""
        low = self.exposed[:, [index for index, stage in enumerate(STAGES) if stage.cls is cls]].sum(axis=1)
        if cls not in (Class.COORDINATION, Class.TRANSFER):
            return low, low
        return low, low + self.stage("submit") + self.stage("poll_gap")

    def shaped(self, *names: str) -> np.ndarray:
        """(n,) bool: of one of these shapes"""
        return among(self.shape, *(SHAPE_CODE[name] for name in names))

    def in_state(self, *states: State) -> np.ndarray:
        """(n,) bool: in one of these states"""
        return among(self.state, *(STATES.index(state) for state in states))

    def marked(self, name: str) -> np.ndarray:
        """(n,) bool: with this mark"""
        return np.asarray((self.marks >> MARKS.index(name)) & 1 != 0)

    @property
    def uncertain(self) -> np.ndarray:
        """(n, stages) bool: measured from one host to another, and not longer than that may be wrong by"""
        crossed = (self.between_clocks[:, None] >> np.arange(len(STAGES), dtype=np.uint32)) & 1 != 0
        return np.asarray(crossed & (self.exposed + self.hidden <= self.clock_bound[:, None]))

    def select(self, rows: np.ndarray) -> Splits:
        """Some of the requests: a bool mask or indices. The tally stays whole."""
        chosen = np.flatnonzero(rows) if rows.dtype == bool else rows
        where = _stretch(chosen)
        columns = {name: getattr(self, name)[where] for name in COLUMNS}
        return replace(self, carves=_carves_of(self.carves, chosen, len(self)), **columns)


def _stretch(chosen: np.ndarray) -> np.ndarray | slice:
    """The same rows as a slice where they lie side by side: then nothing is copied."""
    n = len(chosen)
    if n and chosen[-1] - chosen[0] == n - 1 and (n < 3 or (np.diff(chosen) == 1).all()):
        return slice(int(chosen[0]), int(chosen[-1]) + 1)
    return chosen


def _carves_of(carves: np.ndarray, chosen: np.ndarray, n: int) -> np.ndarray:
    begins = np.searchsorted(carves["row"], np.arange(n + 1))
    counts = begins[chosen + 1] - begins[chosen]
    at = np.repeat(begins[chosen] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    kept = carves[at]
    kept["row"] = np.repeat(np.arange(len(chosen)), counts)
    return np.asarray(kept)


def concat(parts: Sequence[Splits], texts: dict[int, str] | None = None) -> Splits:
    """Several batches as one. Engines are told apart by name and id; tallies add up.

    `texts`: all that they name, where it is at hand: laying those of thousands together costs as much as the rest.
    """
    merged = Merged()
    maps = [merged.places(part.engines) for part in parts]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    for name in ("prefill_engine", "decode_engine"):
        columns[name] = np.concatenate(
            [np.append(where, -1)[getattr(part, name)] for part, where in zip(parts, maps, strict=True)]
        ).astype(np.int32)
    offset, carves = 0, []
    for part in parts:
        shifted = part.carves.copy()
        shifted["row"] += offset
        carves.append(shifted)
        offset += len(part)
    if texts is None:
        texts = {}
        for part in parts:
            texts |= part.texts
    tally = sum((part.tally for part in parts), Tally())
    now = max(part.now for part in parts)
    clocks = {(pair.here, pair.there): pair for part in parts for pair in part.clocks}
    return Splits(
        carves=np.concatenate(carves),
        engines=merged.processes,
        texts=texts,
        now=now,
        tally=tally,
        clocks=tuple(clocks[pair] for pair in sorted(clocks)),
        **columns,
    )


def text_of(texts: dict[int, str], key: int) -> str:
    """The text behind a key, or the key in hex where the text was lost."""
    return texts.get(key, f"#{key:016x}") if key else ""


FINISHED = next(index for index, node in enumerate(ALL_NODES) if node.name == "D.finished")
NOT_COLUMNS = ("carves", "engines", "texts", "now", "tally", "clocks")
COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Splits) if field.name not in NOT_COLUMNS)
