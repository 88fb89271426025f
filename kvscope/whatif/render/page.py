"""The page: what would be, between which bounds, of what that is made, and what is assumed. Hypothetical throughout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvscope.analysis.render.amounts import Milliseconds
from kvscope.analysis.render.page import Page, cells, column_widths
from kvscope.analysis.render.palette import HEADING, QUIET, STRONG, WARNING
from kvscope.model.counting import count
from kvscope.whatif.costs import MEANINGS
from kvscope.whatif.estimate import Estimate, Guess

MARK = "HYPOTHETICAL"
WORDS = {-1: "shorter", 0: "perhaps the same", 1: "longer"}


def put_estimate(page: Page, found: Estimate, notes: Sequence[str] = ()) -> None:
    """Draw it. `notes`: sentences on what was read."""
    page.line(f"WHAT IF  {found.to}  instead of  {found.was}   {MARK}", HEADING)
    page.rule()
    page.prose(f">> {sentence(found)}", hang=3, style=STRONG)
    page.rule()
    _put_figures(page, found)
    _put_costs(page, found)
    _put_price(page, found)
    page.items("ASSUMED", found.assumed)
    page.labelled("REPLAYED", _replayed(found))
    if found.left.lost:
        page.labelled("LOST", f"{count(found.left.lost, 'event')}: requests that they were of are not in it", WARNING)
    if notes:
        page.items("NOTE", notes)


def sentence(found: Estimate) -> str:
    """What would be, in words."""
    median = found.median
    scale = Milliseconds(max(median.measured, median.high))
    told = f"{MARK}: TTFT would be {scale.between(median.low, median.high)} ms at the median"
    told += f", where {scale.of(median.measured)} were measured: {WORDS[median.told]}."
    if found.early is not None:
        low, high = (f"{100 * share:.0f}" for share in found.early)
        told += f" Decode's half would be there first in {low if low == high else f'{low} to {high}'}% of requests."
    if median.wide:
        told += " The bounds are too far apart to say more."
    if found.reserved and found.reserved.overflows:
        told += " Decode might run out of blocks, and the wait for some is not in it."
    return told


def _put_figures(page: Page, found: Estimate) -> None:
    scale = Milliseconds(max(max(each.measured, each.high) for each in found.guesses))
    rows = [("TTFT, ms", "measured", MARK.lower(), "change"), *(_figure(scale, each) for each in found.guesses)]
    _put_table(page, rows)
    page.line()


def _figure(scale: Milliseconds, each: Guess) -> tuple[str, ...]:
    ends = [100 * (ns / each.measured - 1) if each.measured else 0.0 for ns in (each.low, each.high)]
    return each.name, scale.of(each.measured), scale.between(each.low, each.high), f"{ends[0]:+.0f}..{ends[1]:+.0f}%"


def _put_costs(page: Page, found: Estimate) -> None:
    ends = [[float(np.median(side)) for side in (each.low, each.high)] for each in found.costs]
    scale = Milliseconds(max(high for _, high in ends))
    parts = zip(found.costs, ends, strict=True)
    rows = [
        ("of it, p50, ms", "between", ""),
        *((each.name, scale.between(*both), MEANINGS[each.name]) for each, both in parts),
    ]
    _put_table(page, rows, words=True)
    for each in found.costs:
        if not each.measured:
            page.labelled(each.name, f"not measured: {each.source}", QUIET)
    page.line()


def _put_table(page: Page, rows: Sequence[tuple[str, ...]], words: bool = False) -> None:
    """`words`: the last column is of words."""
    figures = [row[:-1] for row in rows] if words else rows
    widths = column_widths(figures)
    for number, (row, own) in enumerate(zip(figures, rows, strict=True)):
        text = cells(row, widths)
        page.line(f"{text}  {own[-1]}" if words and own[-1] else text, HEADING if not number else "")


def _put_price(page: Page, found: Estimate) -> None:
    reserved = found.reserved
    if reserved is None:
        page.labelled("PRICE", "not known: no request told how many blocks were reserved for it")
        return
    ends = f"{reserved.low:,.1f}..{reserved.high:,.1f}"
    told = f"decode's blocks would be reserved and empty for {ends} block-s"
    page.labelled("PRICE", f"{told}, where {reserved.measured:,.1f} were measured")
    if reserved.least_room is not None:
        style = WARNING if reserved.overflows else ""
        page.labelled("", f"at most {reserved.most:,} of {reserved.least_room:,} blocks held at once", style)
    else:
        page.labelled("", f"at most {reserved.most:,} blocks held at once; how many there are was not told")


def _replayed(found: Estimate) -> str:
    told = count(found.requests, "request")
    if found.left.untimed:
        told += f"; not {found.left.untimed:,} without a TTFT or a handoff"
    if found.left.otherwise:
        told += f"; not {found.left.otherwise:,} that were served in another mode"
    return told
