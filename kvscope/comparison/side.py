"""One of the two: its requests that have a time to first token, in time order, as figures that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvscope.analysis.setup import Setup, gather_setup
from kvscope.analysis.strata import octaves
from kvscope.model.events import Process
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import UNKNOWN

TTFT, TPOT, GAP = "ttft", "tpot", "gap"
EXPOSED, HIDDEN = "exposed", "hidden"


@dataclass(frozen=True)
class Figure:
    """A time that each request has."""

    name: str
    """TTFT, TPOT, GAP or a stage's name"""
    kind: str = ""
    """of a stage EXPOSED or HIDDEN, else empty"""

    @property
    def running(self) -> bool:
        """Whether it says how requests fare that already have their first token."""
        return self.name in (TPOT, GAP)


FIGURES: tuple[Figure, ...] = (
    Figure(TTFT),
    *(Figure(stage.name, EXPOSED) for stage in STAGES),
    *(Figure(stage.name, HIDDEN) for stage in STAGES),
    Figure(TPOT),
    Figure(GAP),
)
"""All that is compared, in the order of the columns of `Side.values`."""


@dataclass(frozen=True)
class Side:
    """n requests."""

    name: str
    splits: Splits
    """with a TTFT, by origin"""
    processes: tuple[Process, ...]
    untimed: int
    """requests that have none"""

    def __len__(self) -> int:
        return len(self.splits)

    @cached_property
    def setup(self) -> Setup:
        """What served them."""
        return gather_setup(self.processes)

    @cached_property
    def values(self) -> np.ndarray:
        """(n, FIGURES) f8 ns, NaN where not known"""
        splits = self.splits
        gaps = np.where(splits.largest_gap == UNKNOWN, np.nan, splits.largest_gap.astype(float))
        columns = (splits.ttft[:, None], splits.exposed, splits.hidden, splits.tpot[:, None], gaps[:, None])
        return np.concatenate([column.astype(float) for column in columns], axis=1)

    @cached_property
    def computed(self) -> np.ndarray:
        """(n,) prompt tokens that were computed, UNKNOWN where not known"""
        splits = self.splits
        cached = np.where(splits.cached_tokens == UNKNOWN, 0, splits.cached_tokens)
        return np.where(splits.prompt_tokens == UNKNOWN, UNKNOWN, splits.prompt_tokens - cached)

    @cached_property
    def load(self) -> np.ndarray:
        """(n,) requests that had come and had no first token yet when each came, itself among them"""
        begun = np.sort(self.splits.origin)
        ended = np.sort(self.splits.first_token)
        at = self.splits.origin
        return np.asarray(np.searchsorted(begun, at, "right") - np.searchsorted(ended, at, "right"))

    @cached_property
    def strata(self) -> np.ndarray:
        """(n, 3) i8: requests of the same numbers are alike in computed tokens, in bytes moved and in load"""
        moved = self.splits.transfer_bytes
        return np.stack((octaves(self.computed, 2), octaves(moved), octaves(self.load)), axis=1)


def side_of(name: str, splits: Splits, processes: Iterable[Process]) -> Side:
    """Of some requests those that can be compared."""
    timed = splits.select(splits.timed)
    timed = timed.select(np.argsort(timed.origin, kind="stable"))
    return Side(name, timed, tuple(processes), len(splits) - len(timed))


WAYS: Mapping[str, tuple[str, ...]] = {
    "connector": ("connector",),
    "version": ("vllm",),
    "pod": ("pod_name", "node_name"),
}
"""What one recording can be split by: what an engine told of itself, the first that it told. See `parts_by`."""


def parts_by(way: str, splits: Splits, processes: tuple[Process, ...]) -> list[Side]:
    """One side for each value, most requests first: of the decode engine, else of the prefill engine."""
    told = [_told(process, WAYS[way]) or (process.engine if way == "pod" else "") for process in splits.engines]
    words = np.array([*told, ""], object)
    engine = np.where(splits.decode_engine >= 0, splits.decode_engine, splits.prefill_engine)
    value = words[engine]
    names, counts = np.unique(value[(value != "") & splits.timed].astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [side_of(str(names[at]), splits.select(value == names[at]), _serving(way, str(names[at]), processes))
            for at in order]  # fmt: skip


def _told(process: Process, names: tuple[str, ...]) -> str:
    return next((str(process.started[name]) for name in names if process.started.get(name)), "")


def _serving(way: str, value: str, processes: tuple[Process, ...]) -> list[Process]:
    return [each for each in processes if (_told(each, WAYS[way]) or (each.engine if way == "pod" else "")) == value]
