"""One request on one axis: both legs, the path, what hid behind it, what ended each stage, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from kvscope.analysis.bands import CLASSES
from kvscope.analysis.handles import shown
from kvscope.analysis.render.amounts import Milliseconds, duration, quantity
from kvscope.analysis.render.bars import Axis
from kvscope.analysis.render.detail import AMOUNT, SLACK_DRAWN, axis_of, put_detail
from kvscope.analysis.render.endings import LETTERS
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import HEADING, QUIET, STRONG, WARNING, bar_style
from kvscope.analysis.render.rounding import rounded_split
from kvscope.model.counting import count
from kvscope.model.requests import RequestSplit, Span, State
from kvscope.model.stages import STAGE, Class

STAGING_STAGES = ("staging", "writer_wake")


def put_waterfall(page: Page, split: RequestSplit, steps: Mapping[str, Sequence[int]], every: bool = False) -> None:
    """Draw a request. steps: leg -> instants at which its engine began steps. `every`: whole axis, every moment."""
    _put_title(page, split)
    _put_state(page, split)
    spans = split.path + split.hidden_spans
    if spans:
        _, begin, end = axis_of(split, every=True)
        scale = Milliseconds(end - begin)
        rounded = rounded_split(split, scale)
        _put_sum(page, rounded, scale)
        _put_bound(page, split)
        _put_strip(page, split, scale, begin, end)
        put_detail(page, split, scale, steps, every)
        page.line()
        _put_findings(page, rounded, scale)
    _put_cost(page, split)
    if every or not spans or not split.complete:
        _put_moments(page, split)


def _put_title(page: Page, split: RequestSplit) -> None:
    kind = split.shape
    if split.shape == "push" and split.knew_peer is not None:
        kind += ", sequential" if split.knew_peer else ", early"
    facts = [shown(split.request), kind]
    if split.prompt_tokens is not None:
        cached = "" if split.cached_tokens is None else f" ({split.cached_tokens:,} cached)"
        facts.append(f"{split.prompt_tokens:,} tok{cached}")
    blocks = split.reserved_blocks if split.reserved_blocks is not None else split.pinned_blocks
    facts += [f"{blocks:,} blk"] if blocks is not None else []
    facts += [quantity(split.transfer_bytes, "B")] if split.transfer_bytes is not None else []
    facts.append(" -> ".join(name for name in (split.prefill_engine, split.decode_engine) if name))
    facts += [split.state.replace("_", "-"), *(mark for mark in split.marks if mark != split.state)]
    page.prose("  ".join(fact for fact in facts if fact), hang=2, style=HEADING)
    if split.peer_request and split.peer_request != split.request:
        page.line(f"prefill leg {shown(split.peer_request, page.width - len('prefill leg '))}", QUIET)


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
    if "unaligned" in split.marks:
        page.prose(
            "UNALIGNED: its legs were stamped on hosts whose clocks were not aligned. Times within one leg hold; how "
            "long anything took across them, and so its TTFT, is not known.",
            hang=2,
            style=WARNING,
        )
    if split.state is State.UNFINISHED:
        page.prose(
            f"UNFINISHED after {duration(split.age_ns or 0)}: last moment {split.last_moment}, "
            f"{duration(split.idle_ns or 0)} before the latest event of all.",
            hang=2,
            style=WARNING,
        )
    if split.failure:
        page.prose(f"FAILED: {shown(split.failure)}", hang=2, style=WARNING)


def _put_sum(page: Page, split: RequestSplit, scale: Milliseconds) -> None:
    if split.ttft_ns is None:
        return
    shown = [f"{cls.short} {scale.of(low)}" for cls in CLASSES if (low := split.class_ns[cls][0])]
    bounds = [
        f"{cls.short} {scale.between(*split.class_ns[cls])}"
        for cls in (Class.COORDINATION, Class.TRANSFER)
        if split.class_ns[cls][0] != split.class_ns[cls][1]
    ]
    page.prose(f"TTFT {scale.of(split.ttft_ns)} ms = {' + '.join(shown)}", hang=2, style=STRONG)
    if bounds:
        page.prose(f"undet is one or the other: {', '.join(bounds)}", hang=2, style=QUIET)


def _put_bound(page: Page, split: RequestSplit) -> None:
    """What times from one host to another are worth."""
    if not (split.clock_bound_ns and split.between_clocks):
        return
    short = sorted({span.stage for span in split.path + split.hidden_spans if span.uncertain})
    told = f"; not longer than that, and marked ~: {', '.join(short)}" if short else ""
    named, bound = ", ".join(split.between_clocks), duration(split.clock_bound_ns)
    page.prose(f"Two clocks: {named} and TTFT may be wrong by {bound}{told}.", 0, 2, WARNING if short else QUIET)


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


def _put_findings(page: Page, split: RequestSplit, scale: Milliseconds) -> None:
    if "staging" in split.slack_ns:
        _put_overlap_bound(page, split, scale, "staged", "matched", scale.between(*split.slack_ns["staging"]))
    elif split.shape == "pull":
        begun = _time(split, "post_begun")
        computed = _time(split, "computed")
        if begun is not None and computed is not None:
            _put_overlap_bound(page, split, scale, "computed", "post_begun", scale.of(begun - computed))
    if "registration" in split.slack_ns:
        low_high = scale.between(*split.slack_ns["registration"])
        page.prose(f"Overlapped: the registration was hidden and had {low_high} ms to spare.", 1)
    low, high = split.transfer_bounds_ns
    if high:
        page.prose(f"Transfer {scale.between(low, high)} ms: seen in flight, and at most.", 1)
    if split.ranks > 1:
        slowest = f", waited for {split.slowest_rank}" if split.slowest_rank else ""
        page.prose(f"{split.ranks} transfers, last {duration(split.rank_spread_ns)} after the first{slowest}.", 1)


def _put_overlap_bound(page: Page, split: RequestSplit, scale: Milliseconds, able: str, began: str, bound: str) -> None:
    verb = "READ" if split.shape == "pull" else "WRITE"
    how = "a registration ahead, as in push," if split.shape == "pull" else "an earlier registration"
    could, did = _time(split, able), _time(split, began)
    if could is None or did is None:
        return
    origin = axis_of(split, every=True)[0]
    page.prose(
        f"{verb} could have started at {scale.of(could - origin)} ({able}), started at {scale.of(did - origin)} "
        f"({began}): {how} wins at most {bound} ms of this TTFT, a step boundary more or less.",
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
    legs, apart = list(LETTERS), "unaligned" in split.marks
    stamps = sorted(split.stamps, key=lambda stamp: legs.index(stamp.leg)) if apart else split.stamps
    begins = _begins(split)
    scale = Milliseconds(max(1, *(stamp.t - begins[stamp.leg] for stamp in split.stamps)))
    page.heading("MOMENTS", "ms since the first of its leg" if apart else "ms since its origin")
    for stamp in stamps:
        step = f"  step {stamp.step:,}" if stamp.step else ""
        thread = "" if stamp.thread == "unknown" else f"  {stamp.thread}"
        since = scale.of(stamp.t - begins[stamp.leg])
        page.line(f" {since:>{AMOUNT}}  {LETTERS.get(stamp.leg, '-')} {stamp.moment}{thread}{step}")


def _begins(split: RequestSplit) -> dict[str, int]:
    """leg -> the instant that its moments are counted from."""
    if "unaligned" not in split.marks:
        begin = split.origin if split.origin is not None else split.stamps[0].t
        return dict.fromkeys((stamp.leg for stamp in split.stamps), begin)
    return {stamp.leg: stamp.t for stamp in reversed(split.stamps)}
