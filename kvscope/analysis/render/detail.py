"""The rows of a waterfall: each stage on the axis, what ended it, what lies before, when the engines stepped."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from kvscope.analysis.render.amounts import Milliseconds, duration
from kvscope.analysis.render.bars import Axis, ruler, stretch
from kvscope.analysis.render.endings import LETTERS, letter, what_ended
from kvscope.analysis.render.page import KEPT, Page
from kvscope.analysis.render.palette import QUIET, word_style
from kvscope.analysis.render.rounding import rounded_spans
from kvscope.model.counting import count
from kvscope.model.requests import RequestSplit, Span
from kvscope.model.stages import STAGE

NAME = 26
"""Columns of mark, engine and stage,"""
AMOUNT = 9
"""of the time that it took,"""
FRAME = 4
"""and of what stands around the bars."""
NARROWEST_NOTES = 16
"""Where half of what is left is less than this, there is no last column."""
ZOOM = 0.7
"""The detail starts at `computed` where the rest is less than this share of all."""
SLACK_DRAWN = {"registration": 0, "staging": 1}
"""Which bound of the slack ends where the other branch did."""
LAST_OF_BRANCH = {"registration": ("registration_flight",), "staging": ("writer_wake", "staging")}


@dataclass(frozen=True)
class Row:
    """One stage, ready to be drawn."""

    span: Span
    name: str
    ns: int
    """rounded"""
    note: str
    slack_until: int | None = None


def put_detail(
    page: Page, split: RequestSplit, scale: Milliseconds, steps: Mapping[str, Sequence[int]], every: bool
) -> None:
    """Rows for path and hidden branches. Whatever of the path is not drawn is listed: before the axis, or too short."""
    origin, begin, end = axis_of(split, every)
    rows = [*_path_rows(split, scale), *_hidden_rows(split, scale, origin)]
    drawn = [row for row in rows if not row.span.exposed or (row.ns and row.span.end > begin)]
    notes = _note_width(page.width, drawn)
    axis = Axis(begin, end, max(8, page.width - NAME - AMOUNT - FRAME - notes))
    rulers = _rulers(axis, steps)
    page.prose(_legend(axis, scale, origin, bool(rulers)), hang=2, style=QUIET)
    before = [row for row in rows if row.span.exposed and row.ns and row.span.end <= begin]
    if before:
        listed = ", ".join(f"{row.name[2:]} {scale.of(row.ns)}".replace(" ", KEPT) for row in before)
        page.prose(f" *before {scale.of(begin - origin)} ms: {listed}", hang=2)
    for row in drawn:
        _put_row(page, row, axis, scale, notes)
    for label, marks, note in rulers:
        _put_line(page, Text(f"{label:<{NAME + AMOUNT}} |", QUIET), Text(marks, QUIET), note, notes)
    short = [row.span for row in rows if row.span.exposed and not row.ns]
    if short:
        page.prose("folded: " + ", ".join(f"{span.stage} {duration(span.ns)}" for span in short), 1, style=QUIET)


def axis_of(split: RequestSplit, every: bool) -> tuple[int, int, int]:
    """(origin, begin, end) of the detail: the hand-off alone where that is the smaller part. `every`: all."""
    spans = split.path + split.hidden_spans
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    origin = split.origin if split.origin is not None else begin
    computed = next((stamp.t for stamp in split.stamps if stamp.moment == "computed"), begin)
    if not every and begin < computed and end - computed < ZOOM * (end - begin):
        begin = computed
    return origin, begin, end


def _path_rows(split: RequestSplit, scale: Milliseconds) -> list[Row]:
    lengths = rounded_spans(split.path, scale)
    return [Row(span, _name(span, split), lengths[span], what_ended(span, split, scale)) for span in split.path]


def _hidden_rows(split: RequestSplit, scale: Milliseconds, origin: int) -> list[Row]:
    lengths, rows = rounded_spans(split.hidden_spans, scale), []
    for span in split.hidden_spans:
        branch, note = _branch(span, split), f"ends {scale.of(span.end - origin)}"
        until = None
        if branch:
            slack = split.slack_ns[branch]
            until, note = span.end + slack[SLACK_DRAWN[branch]], f"{note}, slack {scale.between(*slack)}"
        rows.append(Row(span, _name(span, split), lengths[span], note, until))
    return rows


def _name(span: Span, split: RequestSplit) -> str:
    return f" {'*' if span.exposed else ' '}{letter(span, split)} {span.stage}{' ~' if span.uncertain else ''}"


def _branch(span: Span, split: RequestSplit) -> str:
    """The hidden branch that ends with this span, or nothing."""
    for branch, stages in LAST_OF_BRANCH.items():
        ends = [other.end for other in split.hidden_spans if other.stage in stages]
        if branch in split.slack_ns and span.stage in stages and span.end == max(ends):
            return branch
    return ""


def _note_width(width: int, rows: Sequence[Row]) -> int:
    """Columns for the notes: what the longest takes, half of what is left at most; longer ones are wrapped."""
    half = (width - NAME - AMOUNT - FRAME) // 2
    return min(half, max((len(row.note) for row in rows), default=0)) if half >= NARROWEST_NOTES else 0


def _legend(axis: Axis, scale: Milliseconds, origin: int, ruled: bool) -> str:
    span_of_time = f"{scale.of(axis.begin - origin)} .. {scale.of(axis.end - origin)} ms"
    marks = "  ^ step begins" if ruled else ""
    one = f"one mark = {axis.cell_ns / 1e6:.3g} ms"
    return f"detail, {span_of_time}  {one}  * path, others hidden  - slack{marks}"


def _put_row(page: Page, row: Row, axis: Axis, scale: Milliseconds, notes: int) -> None:
    cls = STAGE[row.span.stage].cls
    head = Text(f"{row.name:<{NAME}}{scale.of(row.ns):>{AMOUNT}} |")
    head.stylize(word_style(cls), 0, len(row.name))
    if row.span.end <= axis.begin:
        bar = Text("<" + " " * (axis.width - 1), QUIET)
    else:
        bar = stretch(axis, row.span.begin, row.span.end, cls, row.slack_until)
    _put_line(page, head, bar, row.note, notes)


def _put_line(page: Page, head: Text, bar: Text, note: str, notes: int) -> None:
    """A row, and its note on as many lines as that takes."""
    first, *more = (textwrap.wrap(note, notes, break_on_hyphens=False) if notes else []) or [""]
    page.line(head + bar + Text("|" + (f" {first}" if first else "")))
    for piece in more:
        page.line(Text(f"{'':<{NAME + AMOUNT}} |{'':<{len(bar)}}| {piece}"))


def _rulers(axis: Axis, steps: Mapping[str, Sequence[int]]) -> list[tuple[str, str, str]]:
    """(label, marks, note) for each engine whose steps can be told apart on the axis."""
    made = []
    for leg in ("prefill", "decode"):
        inside = [t for t in steps.get(leg, ()) if axis.begin <= t <= axis.end]
        if marks := ruler(axis, inside):
            made.append((f"  {LETTERS[leg]} steps", marks, count(len(inside), "step")))
    return made
