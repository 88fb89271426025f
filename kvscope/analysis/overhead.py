"""From rounds of on and off to what recording costs: per engine and quantity, a ratio and what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from kvscope.analysis.ratio import LEAST_ROUNDS, Block, Ratio, compared, neighbours
from kvscope.sources.alternation import RoundSeen
from kvscope.sources.vllm_metrics import QUANTITIES, Histogram

VERSION = 1


@dataclass(frozen=True)
class Cost:
    """One quantity of one engine, recording over not recording."""

    url: str
    quantity: str
    """One of QUANTITIES."""
    on: Histogram
    off: Histogram
    """All rounds together."""
    ratio: Ratio | None
    """Of the means; None where fewer than LEAST_ROUNDS rounds had observations in both blocks."""
    same: Ratio | None
    """On blocks against on blocks and off against off: what this run makes of no difference. None as above."""
    left_out: int
    """Rounds in which a block had no observation, or the engine started anew."""

    @property
    def sentence(self) -> str:
        """What may be said of it."""
        if self.ratio is None:
            return "too few rounds had requests in both their blocks"
        size = f"{self.ratio.smallest_effect:.1%}"
        if self.same and not self.same.low <= 1 <= self.same.high:
            return "the run was uneven: like blocks differ too; run it again, longer"
        if self.ratio.low > 1:
            return f"slower with recording on, by {self.ratio.value - 1:.1%}"
        if self.ratio.high < 1:
            return f"faster with recording on, by {1 - self.ratio.value:.1%}: chance, or something else alternated"
        return f"no difference seen; one of {size} would have shown in four runs of five"


def costs(urls: Sequence[str], rounds: Sequence[RoundSeen], seed: int = 0) -> list[Cost]:
    """Every quantity that every engine measured; those never observed (a prefill engine's TPOT) are left out."""
    found = (
        _cost(url, quantity, [(seen.on[page].get(quantity), seen.off[page].get(quantity)) for seen in rounds], seed)
        for page, url in enumerate(urls)
        for quantity in QUANTITIES
    )
    return [cost for cost in found if cost.on.mean or cost.off.mean]


def _cost(url: str, quantity: str, seen: Sequence[tuple[Histogram | None, Histogram | None]], seed: int) -> Cost:
    pairs = [(on, off) for on, off in seen if on and off and on.mean > 0 and off.mean > 0]
    blocks = [(Block(on.mean, on.count), Block(off.mean, off.count)) for on, off in pairs]
    alike = neighbours([on for on, _ in blocks]) + neighbours([off for _, off in blocks])
    return Cost(
        url=url,
        quantity=quantity,
        on=reduce(add, (on for on, _ in pairs), Histogram()),
        off=reduce(add, (off for _, off in pairs), Histogram()),
        ratio=compared(blocks, seed) if len(blocks) >= LEAST_ROUNDS else None,
        same=compared(alike, seed) if len(alike) >= LEAST_ROUNDS else None,
        left_out=len(seen) - len(pairs),
    )


def document(costs_seen: Sequence[Cost], rounds: int, span_s: float) -> dict[str, Any]:
    """What `--json` prints; times in seconds."""
    return {
        "version": VERSION,
        "rounds": rounds,
        "toggle_s": span_s,
        "off_is_stock": False,
        "costs": [_entry(cost) for cost in costs_seen],
    }


def _entry(cost: Cost) -> dict[str, Any]:
    return {
        "metrics": cost.url,
        "quantity": cost.quantity,
        "histogram": QUANTITIES[cost.quantity],
        "on": _arm(cost.on),
        "off": _arm(cost.off),
        "rounds_left_out": cost.left_out,
        "on_over_off": _ratio(cost.ratio),
        "same_over_same": _ratio(cost.same),
        "smallest_effect": cost.ratio.smallest_effect if cost.ratio else None,
        "sentence": cost.sentence,
    }


def _arm(seen: Histogram) -> dict[str, float]:
    figures = {"mean": seen.mean, "p50": seen.quantile(0.5), "p99": seen.quantile(0.99)}
    return {"observations": seen.count, **{name: figure for name, figure in figures.items() if figure == figure}}


def _ratio(ratio: Ratio | None) -> dict[str, float] | None:
    if ratio is None:
        return None
    return {"ratio": ratio.value, "low": ratio.low, "high": ratio.high, "rounds": ratio.rounds}
