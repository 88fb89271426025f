"""One request on one axis: both legs, the path, what hid behind it, what ended each stage, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from kvscope.analysis.bands import CLASSES
from kvscope.analysis.render.amounts import Milliseconds, count, duration, quantity
from kvscope.analysis.render.bars import Axis, ruler, stretch
from kvscope.analysis.render.classtable import SHORT
from kvscope.analysis.render.endings import LETTERS, letter, what_ended
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import HEADING, QUIET, STRONG, WARNING, bar_style, word_style
from kvscope.model.requests import RequestSplit, Span, State
from kvscope.model.stages import STAGE, Class

NAME = 22
AMOUNT = 9
NOTE = 30
ROOM_FOR_NOTES = 92
ZOOM = 0.7
"""The detail starts at `computed` where the rest is less than this share of all."""
STAGING_STAGES = ("staging", "writer_wake")
SLACK_DRAWN = {"registration": 0, "staging": 1}
"""Which bound of the slack ends where the other branch did."""
LAST_OF_BRANCH = {"registration": ("registration_flight",), "staging": ("writer_wake", "staging")}


@dataclass(frozen=True)
class Frame:
    """The columns of the waterfall and its axis."""

    axis: Axis
    scale: Milliseconds
    origin: int
    notes: int
    """width of the last column, 0 where there is no room"""

    def at(self, t: int) -> str:
        """An instant as ms since the origin."""
        return self.scale.of(t - self.origin)


def put_waterfall(page: Page, split: RequestSplit, steps: Mapping[str, Sequence[int]], every: bool = False) -> None:
    """Draw a request. steps: leg -> instants at which its engine began steps. `every`: whole axis, every moment."""
    _put_title(page, split)
    _put_state(page, split)
    spans = split.path + split.hidden_spans
    if spans:
        begin, end = min(span.begin for span in spans), max(span.end for span in spans)
        scale = Milliseconds(end - begin)
        _put_sum(page, split, scale)
        _put_strip(page, split, scale, begin, end)
        frame = _frame(page, split, scale, begin, end, every)
        _put_detail(page, split, frame)
        _put_rulers(page, split, frame, steps)
        page.line()
        _put_findings(page, split, frame)
    _put_cost(page, split)
    if every or not spans or not split.complete:
        _put_moments(page, split)


def _put_title(page: Page, split: RequestSplit) -> None:
    kind = split.shape
    if split.shape == "push" and split.knew_peer is not None:
        kind += ", sequential" if split.knew_peer else ", early"
    facts = [split.request, kind]
    if split.prompt_tokens is not None:
        cached = "" if split.cached_tokens is None else f" ({split.cached_tokens:,} cached)"
        facts.append(f"{split.prompt_tokens:,} tok{cached}")
    blocks = split.reserved_blocks if split.reserved_blocks is not None else split.pinned_blocks
    facts += [f"{blocks:,} blk"] if blocks is not None else []
    facts += [quantity(split.transfer_bytes, "B")] if split.transfer_bytes is not None else []
    facts.append(" -> ".join(name for name in (split.prefill_engine, split.decode_engine) if name))
    facts += [split.state.replace("_", "-"), *split.marks]
    page.prose("  ".join(fact for fact in facts if fact), hang=2, style=HEADING)
    if split.peer_request and split.peer_request != split.request:
        page.line(f"prefill leg {split.peer_request}", QUIET)


def _put_state(page: Page, split: RequestSplit) -> None:
    if split.missing:
        page.prose(
            f"MISSING {', '.join(split.missing)}: what lies around it is unattributed and TTFT is not split.",
            hang=2,
            style=WARNING,
        )
    if split.state is State.ONE_LEGGED:
        seen = "prefill" if split.prefill_engine else "decode"
        page.prose(f"ONE-LEGGED: only its {seen} leg was recorded; the other engine is not instrumented.", hang=2)
    if split.state is State.UNMATCHED:
        page.prose("UNMATCHED: this leg ended and its other leg was never seen.", hang=2, style=WARNING)
    if split.state is State.UNFINISHED:
        page.prose(
            f"UNFINISHED after {duration(split.age_ns or 0)}: last moment {split.last_moment}, "
            f"{duration(split.idle_ns or 0)} before the latest event of all.",
            hang=2,
            style=WARNING,
        )
    if split.failure:
        page.prose(f"FAILED: {split.failure}", hang=2, style=WARNING)


def _put_sum(page: Page, split: RequestSplit, scale: Milliseconds) -> None:
    if split.ttft_ns is None:
        return
    parts = scale.split([split.class_ns[cls][0] for cls in CLASSES])
    shown = [f"{SHORT[cls]} {scale.text(part)}" for cls, part in zip(CLASSES, parts, strict=True) if part]
    bounds = [
        f"{SHORT[cls]} {scale.between(*split.class_ns[cls])}"
        for cls in (Class.COORDINATION, Class.TRANSFER)
        if split.class_ns[cls][0] != split.class_ns[cls][1]
    ]
    page.prose(f"TTFT {scale.text(sum(parts))} ms = {' + '.join(shown)}", hang=2, style=STRONG)
    if bounds:
        page.prose(f"undet is one or the other: {', '.join(bounds)}", hang=2, style=QUIET)


def _put_strip(page: Page, split: RequestSplit, scale: Milliseconds, begin: int, end: int) -> None:
    tail = f"|  0 .. {scale.of(end - begin)} ms"
    axis = Axis(begin, end, max(10, page.width - len(tail) - 7))
    page.line(Text("path  |") + _strip(axis, split.path) + Text(tail))
    for branch in ("registration", "staging"):
        if branch in split.slack_ns:
            page.line(Text("hidden|", QUIET) + _hidden_strip(axis, split, branch) + Text(f"|  {branch}", QUIET))


def _strip(axis: Axis, spans: Sequence[Span]) -> Text:
    """Spans in their places on one line; those shorter than a cell may vanish."""
    cells = [" "] * axis.width
    placed = [(axis.column(span.begin), axis.column(span.end), STAGE[span.stage].cls) for span in spans]
    for first, last, cls in placed:
        cells[first:last] = cls.glyph * (last - first)
    text = Text("".join(cells))
    for first, last, cls in placed:
        text.stylize(bar_style(cls), first, last)
    return text


def _hidden_strip(axis: Axis, split: RequestSplit, branch: str) -> Text:
    """A hidden branch, and dashes for its slack."""
    spans = [span for span in split.hidden_spans if (span.stage in STAGING_STAGES) == (branch == "staging")]
    ends = max((span.end for span in spans), default=axis.begin)
    text = _strip(axis, spans)
    first, last = axis.column(ends), axis.column(ends + split.slack_ns[branch][SLACK_DRAWN[branch]])
    dashed = Text(text.plain[:first] + "-" * (last - first) + text.plain[last:], spans=text.spans)
    dashed.stylize(QUIET, first, last)
    return dashed


def _frame(page: Page, split: RequestSplit, scale: Milliseconds, begin: int, end: int, every: bool) -> Frame:
    origin = split.origin if split.origin is not None else begin
    computed = [stamp.t for stamp in split.stamps if stamp.moment == "computed"]
    if computed and not every and begin < computed[0] and end - computed[0] < ZOOM * (end - begin):
        begin = computed[0]
    notes = NOTE + (page.width - 100) // 5 if page.width >= ROOM_FOR_NOTES else 0
    room = page.width - NAME - AMOUNT - 8 - (notes + 1 if notes else 0)
    return Frame(Axis(begin, end, max(8, room)), scale, origin, max(0, notes))


def _put_detail(page: Page, split: RequestSplit, frame: Frame) -> None:
    axis, scale = frame.axis, frame.scale
    span_of_time = f"{frame.at(axis.begin)} .. {frame.at(axis.end)} ms"
    page.prose(
        f"detail, {span_of_time}  one mark = {axis.cell_ns / 1e6:.3g} ms  * on the path, others hidden  - slack",
        hang=2,
        style=QUIET,
    )
    inside = [span for span in split.path if span.end > axis.begin]
    folded = [span for span in inside if not round(span.ns / scale.quantum)]
    for span in inside:
        if span not in folded:
            page.line(_row(span, split, frame))
    for span in split.hidden_spans:
        page.line(_row(span, split, frame))
    if folded:
        page.prose("folded: " + ", ".join(f"{span.stage} {duration(span.ns)}" for span in folded), 1, style=QUIET)


def _row(span: Span, split: RequestSplit, frame: Frame) -> Text:
    cls = STAGE[span.stage].cls
    name = f" {'*' if span.exposed else ' '}{letter(span, split)} {span.stage}"
    head = Text(f"{name:<{NAME + 4}}{frame.scale.of(span.ns):>{AMOUNT}} |")
    head.stylize(word_style(cls), 0, len(name))
    if span.end <= frame.axis.begin:
        bar = Text("<" + " " * (frame.axis.width - 1), QUIET)
    else:
        bar = stretch(frame.axis, span.begin, span.end, cls, _slack_until(span, split))
    note = (what_ended(span, split, frame.scale) if span.exposed else _hidden_note(span, split, frame))[: frame.notes]
    return head + bar + Text("|" + (f" {note}" if note else ""))


def _branch(span: Span, split: RequestSplit) -> str:
    """The hidden branch that ends with this span, or nothing."""
    for branch, stages in LAST_OF_BRANCH.items():
        ends = [other.end for other in split.hidden_spans if other.stage in stages]
        if branch in split.slack_ns and span.stage in stages and span.end == max(ends):
            return branch
    return ""


def _slack_until(span: Span, split: RequestSplit) -> int | None:
    branch = "" if span.exposed else _branch(span, split)
    return span.end + split.slack_ns[branch][SLACK_DRAWN[branch]] if branch else None


def _hidden_note(span: Span, split: RequestSplit, frame: Frame) -> str:
    branch = _branch(span, split)
    slack = f", slack {frame.scale.between(*split.slack_ns[branch])}" if branch else ""
    return f"ends {frame.at(span.end)}{slack}"


def _put_rulers(page: Page, split: RequestSplit, frame: Frame, steps: Mapping[str, Sequence[int]]) -> None:
    for leg in ("prefill", "decode"):
        instants = [t for t in steps.get(leg, ()) if frame.axis.begin <= t <= frame.axis.end]
        if not instants:
            continue
        label = f"  {LETTERS[leg]} steps"
        marks = ruler(frame.axis, instants)
        if marks is None:
            each = (instants[-1] - instants[0]) / max(1, len(instants) - 1)
            marks = f"{len(instants):,} steps, {duration(each)} each: too fine to draw".ljust(frame.axis.width)
        page.line(Text(f"{label:<{NAME + 4}}{'':>{AMOUNT}} |", QUIET) + Text(marks, QUIET) + Text("|", QUIET))


def _put_findings(page: Page, split: RequestSplit, frame: Frame) -> None:
    if "staging" in split.slack_ns:
        _put_overlap_bound(page, split, frame, "staged", "matched", frame.scale.between(*split.slack_ns["staging"]))
    elif split.shape == "pull":
        begun = _time(split, "post_begun")
        computed = _time(split, "computed")
        if begun is not None and computed is not None:
            _put_overlap_bound(page, split, frame, "computed", "post_begun", frame.scale.of(begun - computed))
    if "registration" in split.slack_ns:
        low_high = frame.scale.between(*split.slack_ns["registration"])
        page.prose(f"Overlapped: the registration was hidden and had {low_high} ms to spare.", 1)
    low, high = split.transfer_bounds_ns
    if high:
        page.prose(f"Transfer {frame.scale.between(low, high)} ms: seen in flight, and at most.", 1)
    if split.ranks > 1:
        slowest = f", waited for {split.slowest_rank}" if split.slowest_rank else ""
        page.prose(f"{split.ranks} transfers, last {duration(split.rank_spread_ns)} after the first{slowest}.", 1)


def _put_overlap_bound(page: Page, split: RequestSplit, frame: Frame, able: str, began: str, bound: str) -> None:
    verb = "READ" if split.shape == "pull" else "WRITE"
    how = "a registration ahead, as in push," if split.shape == "pull" else "an earlier registration"
    could, did = _time(split, able), _time(split, began)
    if could is None or did is None:
        return
    page.prose(
        f"{verb} could have started at {frame.at(could)} ({able}), started at {frame.at(did)} ({began}): "
        f"{how} wins at most {bound} ms of this TTFT, a step boundary more or less.",
        1,
        style=STRONG,
    )


def _time(split: RequestSplit, moment: str) -> int | None:
    return next((stamp.t for stamp in split.stamps if stamp.moment == moment), None)


def _put_cost(page: Page, split: RequestSplit) -> None:
    paid = []
    for engine, blocks, ns, what in (
        ("D", split.reserved_blocks, split.reserved_idle_ns, "reserved and empty"),
        ("P", split.pinned_blocks, split.pinned_ns, "pinned after prefill"),
    ):
        if ns is not None:
            area = "" if blocks is None else f" = {blocks * ns / 1e9:,.1f} block-s"
            held = "blocks" if blocks is None else count(blocks, "block")
            paid.append(f"{engine}'s {held} {what} {duration(ns)}{area}")
    if paid:
        page.prose(f"Paid: {'; '.join(paid)}.", 1, 3)


def _put_moments(page: Page, split: RequestSplit) -> None:
    if not split.stamps:
        return
    begin = split.origin if split.origin is not None else split.stamps[0].t
    scale = Milliseconds(max(1, split.stamps[-1].t - begin))
    page.heading("MOMENTS", "ms since its origin")
    for stamp in split.stamps:
        step = f"  step {stamp.step:,}" if stamp.step else ""
        thread = "" if stamp.thread == "unknown" else f"  {stamp.thread}"
        page.line(f" {scale.of(stamp.t - begin):>{AMOUNT}}  {LETTERS.get(stamp.leg, '-')} {stamp.moment}{thread}{step}")
