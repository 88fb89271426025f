"""The split of each request as arguments of its slice. A dot in a name is a level that the page unfolds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kvscope.export.perfetto import fields
from kvscope.export.perfetto.names import TEXTS, Names
from kvscope.export.perfetto.packets import Arg
from kvscope.model.graph import BRANCHES
from kvscope.model.requests import STATES, RequestSplit
from kvscope.model.shapes import SHAPES
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import LEGS, MOMENTS, REASONS, THREADS, UNKNOWN

COUNTED: dict[str, str] = {
    "ttft": "ttft_ns",
    "prompt_tokens": "prompt_tokens",
    "cached_tokens": "cached_tokens",
    "output_tokens": "output_tokens",
    "transfer_bytes": "transfer_bytes",
    "descriptors": "descriptors",
    "reserved_idle": "reserved_idle_ns",
    "reserved_blocks": "reserved_blocks",
    "pinned": "pinned_ns",
    "pinned_blocks": "pinned_blocks",
    "largest_gap": "largest_gap_ns",
}
"""Column of Splits -> argument; left out where not known."""


class SplitArgs:
    """Makes the arguments."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def of(self, splits: Splits) -> list[Arg]:
        """All that n requests have to tell; what none of them tells is left out."""
        found = [*self._words(splits), *_counts(splits), *_stages(splits), *_slacks(splits)]
        return [arg for arg in found if arg.present is None or arg.present.any()]

    def _words(self, splits: Splits) -> Iterator[Arg]:
        yield self._texts("request", [splits.text(row) for row in range(len(splits))])
        yield self._texts("peer_request", _texts_of(splits, splits.peer_request))
        engines = [engine.engine for engine in splits.engines]
        for name in ("prefill_engine", "decode_engine"):
            yield self._coded(name, ["", *engines], getattr(splits, name) + 1)
        yield self._coded("shape", [shape.name for shape in SHAPES], splits.shape)
        yield self._coded("state", list(STATES), splits.state)
        yield self._coded("finish_reason", ["", *REASONS[1:]], np.minimum(splits.finish_reason, len(REASONS) - 1))
        yield self._coded("post_thread", ["", *THREADS[1:]], splits.post_thread)
        yield self._texts("last_moment", _last_moments(splits))
        yield self._alike(splits, "failure", splits.failure, lambda split: split.failure)
        yield self._alike(splits, "marks", splits.marks[:, None], lambda split: ", ".join(split.marks))
        missing = np.column_stack((splits.missing, splits.shape))
        yield self._alike(splits, "missing", missing, lambda split: ", ".join(split.missing))

    def _alike(self, splits: Splits, name: str, keys: np.ndarray, told: Callable[[RequestSplit], str]) -> Arg:
        """A text that requests with the same key, (n, k), share."""
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        texts = [told(splits[row]) for row in first.tolist()]
        return self._coded(name, texts, which.reshape(-1))

    def _texts(self, name: str, texts: Sequence[str]) -> Arg:
        """(n,) texts; those that are empty are left out"""
        there = np.array([bool(text) for text in texts], bool)
        return Arg(name, self._names.numbers(TEXTS, texts), there, fields.ARG_TEXT_IID)

    def _coded(self, name: str, words: Sequence[str], codes: np.ndarray) -> Arg:
        numbers = self._names.numbers(TEXTS, words)
        there = np.array([bool(word) for word in words], bool)
        return Arg(name, numbers[codes], there[codes], fields.ARG_TEXT_IID)


def _texts_of(splits: Splits, keys: np.ndarray) -> list[str]:
    return [splits.texts.get(key, f"#{key:016x}") if key else "" for key in keys.tolist()]


def _last_moments(splits: Splits) -> list[str]:
    return [f"{LEGS[leg]} {MOMENTS[moment]}" for leg, moment, _ in splits.last_moment.tolist()]


def _counts(splits: Splits) -> Iterator[Arg]:
    for column, name in COUNTED.items():
        values = getattr(splits, column)
        yield Arg(name, values, values != UNKNOWN)
    several = splits.ranks > 1
    yield Arg("ranks", splits.ranks, several)
    yield Arg("rank_spread_ns", splits.rank_spread, several)
    yield Arg("knew_peer", splits.knew == 1, splits.knew >= 0, fields.ARG_BOOL)


def _stages(splits: Splits) -> Iterator[Arg]:
    """ns by class, on the path: where `submit` and `poll_gap` may belong to it, low and high. And by stage."""
    for cls in Class:
        name = cls.replace(" ", "_")
        low, high = splits.class_bounds(cls)
        yield Arg(f"class_ns_{name}", low, splits.timed)
        yield Arg(f"at_most_ns_{name}", high, splits.timed & (high != low))
    for what, columns in (("exposed", splits.exposed), ("hidden", splits.hidden)):
        for index, stage in enumerate(STAGES):
            yield Arg(f"{what}_ns_{stage.name}", columns[:, index], columns[:, index] != 0)


def _slacks(splits: Splits) -> Iterator[Arg]:
    for index, branch in enumerate(BRANCHES):
        for edge, name in enumerate(("at_least", "at_most")):
            slack = splits.slack[:, index, edge]
            yield Arg(f"slack_ns_{branch}_{name}", slack, slack != UNKNOWN)
