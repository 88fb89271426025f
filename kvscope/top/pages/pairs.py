"""Prefill by decode, a glyph for each pair by the chosen figure, and the ten worst in words."""

from __future__ import annotations

from rich.text import Text

from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import HEADING
from kvscope.live.pairs import COUNT, MEASURE, Measure, Pair, Pairs, gather_pairs, worst_pairs
from kvscope.live.snapshot import Snapshot
from kvscope.model.counting import count
from kvscope.top.pages.matrix import Frame, frame_of, put_matrix, written

CURSOR = "> "
TTFT = MEASURE["ttft"]
WORTH = 1.1
"""How many times worse than all pairs together it takes to say so."""


def pairs_in_words(snapshot: Snapshot, measure: Measure = TTFT) -> tuple[tuple[str, str], ...]:
    """What the cursor can be on, in its order: (prefill, decode) engine."""
    found = gather_pairs(snapshot.window, measure)
    return tuple((pair.prefill, pair.decode) for pair in worst_pairs(snapshot.window, found))


def put_pairs(
    page: Page,
    snapshot: Snapshot,
    measure: Measure = TTFT,
    first_row: int = 0,
    first_column: int = 0,
    cursor: int = -1,
) -> None:
    """Draw the matrix from a row and a column on, as much as there is room for; the pair of place `cursor` marked."""
    found = gather_pairs(snapshot.window, measure)
    if not found.pairs:
        page.line(f"PAIRS  {measure.title}", HEADING)
        page.prose(_nothing(snapshot, found))
        return
    frame = frame_of(page.width, found, first_row, first_column)
    page.prose(_title(found, frame), hang=2, style=HEADING)
    if found.pairs > 1:
        put_matrix(page, found, frame)
    if found.alone:
        page.labelled("left out", f"{count(found.alone, 'request')} of which one engine only is known")
    _put_worst(page, snapshot, found, cursor)


def _nothing(snapshot: Snapshot, found: Pairs) -> str:
    if not snapshot.processes:
        return "No engine was seen. If vLLM runs here, `kvscope doctor` tells what it lacks to be seen."
    if not len(snapshot.window):
        return "No request in this time."
    return f"No pair is known: of {count(found.alone, 'request')} only one engine was seen."


def _title(found: Pairs, frame: Frame) -> str:
    sides = [
        f"{len(names):,} {kind}"
        if len(part) == len(names)
        else f"{kind} {part.start + 1}-{part.stop} of {len(names):,}"
        for kind, names, part in (("prefill", found.prefills, frame.rows), ("decode", found.decodes, frame.columns))
    ]
    judged = count(int(found.judged.sum()), "request")
    return f"PAIRS  {found.measure.title}   {' x '.join(sides)}: {count(found.pairs, 'pair')}, {judged}"


def _put_worst(page: Page, snapshot: Snapshot, found: Pairs, cursor: int) -> None:
    worst = worst_pairs(snapshot.window, found)
    page.heading(_order(found.measure), f"over all pairs {written(found.measure, found.overall)}")
    if not worst:
        known = "none" if found.measure.unit == COUNT else "not known of any pair"
        page.line(f"  {known}")
    room = max((len(_name(pair)) for pair in worst), default=0)
    for place, pair in enumerate(worst):
        line = f"{_name(pair):<{room}}  {_sentence(pair, found)}"
        marked = place == cursor
        text = (CURSOR if marked else "  ") + line
        page.line(Text(text.ljust(page.width), "reverse") if marked else text)


def _order(measure: Measure) -> str:
    return "MOST" if measure.unit == COUNT else "WORST"


def _name(pair: Pair) -> str:
    return f"{pair.prefill} -> {pair.decode}"


def _sentence(pair: Pair, found: Pairs) -> str:
    facts = [f"{written(found.measure, pair.value):>11}"]
    if found.measure.unit != COUNT:
        facts.append(f"of {count(pair.judged, 'request')}")
        better, worse = (pair.value, found.overall) if found.measure.low_is_worse else (found.overall, pair.value)
        facts += [f"{worse / better:.1f} times worse than all"] if better > 0 and worse >= WORTH * better else []
    elif found.overall:
        facts.append(f"of {found.overall:,.0f}")
    return ", ".join(filter(None, (*facts, pair.remark)))
