"""The report of a fleet, top to bottom: state of the data, headline, measured, mechanism, hypothetical, what next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from kvscope.analysis.bands import Band
from kvscope.analysis.headline import Leader
from kvscope.analysis.objectives import Attainment
from kvscope.analysis.overlap import Overlap
from kvscope.analysis.render import classtable, words
from kvscope.analysis.render.amounts import Milliseconds, duration, quantity, share
from kvscope.analysis.render.page import Page, cells, column_widths
from kvscope.analysis.render.palette import COMMAND, QUIET, STRONG, WARNING, word_style
from kvscope.analysis.render.price import put_price
from kvscope.analysis.render.rounding import rounded_band, rounded_split
from kvscope.analysis.render.state import put_brief, put_condition, put_setup, put_title
from kvscope.analysis.summary import Summary
from kvscope.analysis.transfers import Transfers
from kvscope.model.counting import count
from kvscope.model.invocation import command
from kvscope.model.requests import State
from kvscope.model.stages import STAGE

LISTED = 5
"""Stages named beside a slow request, where there is room."""
GAP_WORTH_SAYING = 0.01
"""Share of the median TTFT that `unattributed` may have before it is pointed out."""
XFER_IS_ANOTHER = (
    "(ranked by the transfer itself; xfer above is the mean seen in flight of the requests around a percentile of TTFT)"
)


def put_report(page: Page, summary: Summary, by_stage: bool = False, arguments: str = "") -> None:
    """Draw the whole report. `arguments`: how the same data is named on the next command line."""
    put_title(page, summary)
    put_condition(page, summary.condition)
    for note in summary.notes:
        page.labelled("", note, WARNING)
    put_brief(page, summary.setup, summary.condition.clocks)
    if summary.bands:
        _put_timed(page, summary, by_stage)
    else:
        _put_nothing_timed(page, summary)
    if summary.one_legged_stages:
        _put_one_legged(page, summary)
    _put_after(page, summary)
    put_price(page, summary.price)
    _put_explanations(page, summary)
    put_setup(page, summary.setup)
    _put_slowest(page, summary, arguments)


def scale_of(summary: Summary) -> Milliseconds:
    """One scale for all of a report's times."""
    return Milliseconds(summary.bands[-1].mean_ns if summary.bands else 0.0)


def _put_timed(page: Page, summary: Summary, by_stage: bool) -> None:
    scale = scale_of(summary)
    bands = [rounded_band(band, scale) for band in summary.bands]
    _put_headline(page, summary.leaders, bands, summary.overlap, scale)
    page.heading(
        "MEASURED", f"from the first arrival to the first token of {count(summary.condition.timed, 'request')}"
    )
    classtable.put_classes(page, bands, scale)
    page.line()
    classtable.put_stages(page, bands, scale, by_stage, summary.condition.clocks.mostly_uncertain)
    if by_stage:
        page.line()
        classtable.put_hidden(page, bands, scale)
    _put_gap(page, summary)
    page.line()
    _put_coordination(page, summary, scale)
    if summary.transfers is not None:
        _put_transfers(page, summary.transfers)


def _put_headline(
    page: Page, leaders: Sequence[Leader], bands: Sequence[Band], overlap: Overlap, scale: Milliseconds
) -> None:
    """Who leads was decided on the exact times; it is said with the rounded ones, as the tables have them."""
    rounded = {band.name: band for band in bands}
    slow, *median = [replace(leader, band=rounded[leader.band.name]) for leader in leaders]
    page.rule()
    page.prose(f">> {words.leader(slow, scale)}", hang=3, style=STRONG)
    page.prose(words.behind(slow, scale), 3)
    if median and median[0].classes != slow.classes:
        page.prose(words.leader(median[0], scale), 3)
    page.prose(words.overlap(overlap), 3)
    page.rule()


def _put_nothing_timed(page: Page, summary: Summary) -> None:
    page.rule()
    found = summary.condition
    if not found.requests:
        page.prose(
            f"No request was seen in {count(found.tally.events, 'event')}. If engines are serving, `kvscope doctor` "
            "tells which of them are instrumented and switched on.",
            hang=3,
        )
    elif found.states[State.ONE_LEGGED] == found.requests:
        page.prose(
            "Only one side of each request is instrumented, so no time to first token can be split. Instrument the "
            "other engines as well; `kvscope doctor` lists those that are not.",
            hang=3,
        )
    elif found.states[State.UNALIGNED]:
        page.prose(
            "No request can be timed: the clocks of its engines' hosts were not aligned, and an instant of one says "
            "nothing on the other. Times within one leg hold: `kvscope request ID` lists them.",
            hang=3,
        )
    else:
        page.prose(
            "No request is complete, so there is no time to first token to split: see the missing and last moments "
            "above, and `kvscope request ID` for one of them.",
            hang=3,
        )


def _put_gap(page: Page, summary: Summary) -> None:
    median = summary.bands[0]
    gap = float(median.exposed[[name == "unattributed" for name in STAGE]].sum())
    if gap > GAP_WORTH_SAYING * median.mean_ns:
        page.prose(
            f"unattributed is {share(gap, median.mean_ns)} of TTFT at p50: no stage explains that time.", style=WARNING
        )


def _put_coordination(page: Page, summary: Summary, scale: Milliseconds) -> None:
    found = summary.overlap
    page.items(
        "coordination",
        [
            f"exposed {scale.between(*found.exposed_ns)} ms",
            f"hidden {scale.of(found.hidden_ns)} ms",
            "(means; the upper bound counts submit and poll_gap)",
        ],
    )
    if found.pushes:
        early = share(found.overlapped, found.pushes)
        page.labelled("registration", f"registered before staged in {early} of {count(found.pushes, 'push', 'pushes')}")
    for slack in found.slacks:
        label = "" if slack.branch == "registration" else slack.branch
        page.labelled(label, words.slack(slack, scale))


def _put_transfers(page: Page, found: Transfers) -> None:
    scale = Milliseconds(max(found.bounds_p95_ns))
    facts = [
        "seen in flight .. at most:",
        f"{scale.between(*found.bounds_p50_ns)} ms at p50",
        f"{scale.between(*found.bounds_p95_ns)} ms at p95",
    ]
    if found.bytes_p50 is not None:
        facts += [f"{quantity(found.bytes_total, 'B')} in all", f"{quantity(found.bytes_p50, 'B')} each at p50"]
        facts.append(_rates(found))
    if found.descriptors_p50 is not None:
        facts.append(f"{count(round(found.descriptors_p50), 'descriptor')} at p50")
    page.items("transfer", [fact for fact in facts if fact])
    page.labelled("", XFER_IS_ANOTHER)
    if found.inferred_p50_ns is not None:
        likely, best = scale.of(found.inferred_p50_ns), count(found.inferred_from, "transfer")
        page.labelled("", f"inferred, not measured: likely {likely} ms at p50, by the best rate of each pair in {best}")


def _rates(found: Transfers) -> str:
    low, high = found.rate_p50
    if low is None:
        return ""
    if high is None:
        return f"at least {quantity(low, 'B/s')}"
    return f"{quantity(low, 'B/s')} to {quantity(high, 'B/s')}"


def _put_one_legged(page: Page, summary: Summary) -> None:
    legs = count(summary.condition.states[State.ONE_LEGGED], "one-legged request")
    page.heading("MEASURED, ONE SIDE", f"mean ms of {legs}; never part of a TTFT")
    scale = Milliseconds(max(ns for _, ns in summary.one_legged_stages))
    page.items("stages", [f"{STAGE[name].cls.glyph} {name} {scale.of(ns)}" for name, ns in summary.one_legged_stages])


def _put_after(page: Page, summary: Summary) -> None:
    running = summary.running
    if running.tpot_ns:
        scale = Milliseconds(max(running.tpot_ns.values()))
        facts = [f"{name} {scale.of(ns)}" for name, ns in running.tpot_ns.items()]
        gap = running.gap_ns.get("p95")
        page.items("TPOT, ms", facts + ([f"largest gap at p95 {duration(gap)}"] if gap is not None else []))
    if summary.attainment is not None:
        _put_attainment(page, summary.attainment)


def _put_attainment(page: Page, found: Attainment) -> None:
    limits = found.objectives
    facts = []
    if limits.ttft_ns is not None:
        facts.append(f"TTFT {duration(limits.ttft_ns)} met {share(found.ttft_met, found.judged)}")
    if limits.tpot_ns is not None:
        facts.append(f"TPOT {duration(limits.tpot_ns)} met {share(found.tpot_met, found.judged)}")
    goodput = "" if found.goodput is None else f"goodput {found.goodput:,.2f} requests/s"
    facts += [f"all met by {found.met:,} of {found.judged:,}", goodput]
    page.items("SLO", [fact for fact in facts if fact])


def _put_explanations(page: Page, summary: Summary) -> None:
    cause = words.mechanism(summary.overlap)
    if cause:
        page.heading("MECHANISM", "what explains it")
        page.prose(cause, 1, 1)
    bound = words.hypothetical(summary.overlap, scale_of(summary))
    if bound:
        page.heading("HYPOTHETICAL", "not measured; bounded by what was")
        page.prose(bound, 1, 1)


def _put_slowest(page: Page, summary: Summary, arguments: str) -> None:
    if not summary.slowest:
        return
    scale = scale_of(summary)
    page.heading("SLOWEST", "request, TTFT in ms, and its largest stages")
    table = [[handle, scale.of(split.ttft_ns or 0)] for handle, split in summary.slowest]
    widths = column_widths(table)
    for row, (_, split) in zip(table, summary.slowest, strict=True):
        largest = sorted(rounded_split(split, scale).exposed.items(), key=lambda stage: -stage[1])[:LISTED]
        text = Text(" " + cells(row, widths))
        for name, ns in largest:
            piece = f"  {name} {scale.of(ns)}"
            if len(text) + len(piece) <= page.width:
                text.append(piece, word_style(STAGE[name].cls))
        page.line(text)
    page.line()
    following = f"{command()} request {shlex.quote(summary.slowest[0][0])} {arguments}".rstrip()
    page.whole(Text.assemble(("next  ", QUIET), (following, COMMAND)))
