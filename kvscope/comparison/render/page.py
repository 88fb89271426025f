"""The page: what differs among requests that are alike, how sure that is, and under what both were measured."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvscope.analysis.render.amounts import Milliseconds
from kvscope.analysis.render.page import Page, cells, column_widths
from kvscope.analysis.render.palette import HEADING, QUIET, STRONG, WARNING
from kvscope.comparison.conditions import Condition, Weight
from kvscope.comparison.differences import Difference
from kvscope.comparison.side import EXPOSED, Side
from kvscope.comparison.verdict import COVERED, Verdict
from kvscope.model.counting import count
from kvscope.model.stages import STAGE

SURE, UNSURE, SEAM = "*", " ", "~"
"""More than chance, or not; a stage that does not mean the same on both sides."""
STAGES_SHOWN, HIDDEN_SHOWN = 12, 4
"""At least, and all that differ by more than chance."""
WORDS = {"ttft": "TTFT", "tpot": "TPOT", "gap": "largest gap"}
HEAD = ("", "class", "was", "now", "change", "between", "")


def put_comparison(page: Page, verdict: Verdict) -> None:
    """Draw it."""
    page.line(f"COMPARE  {verdict.one.name}  with  {verdict.other.name}", HEADING)
    page.rule()
    page.prose(f">> {sentence(verdict)}", hang=3, style=STRONG)
    page.rule()
    _put_conditions(page, verdict)
    _put_coverage(page, verdict)
    if verdict.differences:
        _put_table(page, verdict)


def sentence(verdict: Verdict) -> str:
    """What came of it, in words."""
    ttft, (one, other) = verdict.ttft, verdict.same.counts
    if ttft is None:
        return f"Too few requests are alike to say anything: {one:,} and {other:,}. Record more of both."
    scale = Milliseconds(max(abs(ttft.was), abs(ttft.now)))
    among = f"among {one:,} and {other:,} requests that are alike"
    sure = [each for each in verdict.exposed if each.sure]
    if not ttft.sure and not sure:
        told = f"{scale.of(ttft.smallest)} ms of TTFT would have been told in four of five tries"
        return f"Nothing differs by more than chance {among}; {told}."
    mean = f"TTFT {signed(scale, ttft.value)} ms on average ({signed(scale, ttft.low)} to {signed(scale, ttft.high)})"
    told = mean if ttft.sure else f"TTFT differs by no more than chance ({signed(scale, ttft.value)} ms)"
    stages = ", ".join(f"{each.figure.name} {signed(scale, each.value)}" for each in sure[:3])
    return f"{told} {among}; {'of the stages ' + stages if stages else 'no single stage differs by more than chance'}."


def signed(scale: Milliseconds, ns: float) -> str:
    """`+8.0`, `-0.3`."""
    text = scale.of(abs(ns))
    return ("-" if ns < 0 else "+") + text


def _put_conditions(page: Page, verdict: Verdict) -> None:
    for weight, label in ((Weight.REFUSE, "NOT ALIKE"), (Weight.FLAG, "ALSO DIFFERS"), (Weight.SUBJECT, "DIFFERS")):
        told = [_told(each) for each in verdict.conditions if each.weight is weight]
        if told:
            page.items(label, told, "" if weight is Weight.SUBJECT else WARNING)
    if not verdict.conditions:
        page.labelled("DIFFERS", "nothing that engines and requests tell of")


def _told(each: Condition) -> str:
    return f"{each.name} {each.was} -> {each.now}"


def _put_coverage(page: Page, verdict: Verdict) -> None:
    strata = f"{count(len(verdict.same.weights), 'stratum', 'strata')} of computed tokens, bytes moved and load"
    parts = [_covered(side, n) for side, n in zip((verdict.one, verdict.other), verdict.same.counts, strict=True)]
    page.labelled("COMPARED", f"{'; '.join(parts)}: in {strata}")
    for side in (verdict.one, verdict.other):
        if lost := side.splits.tally.lost:
            page.labelled(
                "LOST", f"{count(lost, 'event')} of {side.name}: requests that they were of are not in it", WARNING
            )
    few = [
        side.name for side, share in zip((verdict.one, verdict.other), verdict.covered, strict=True) if share < COVERED
    ]
    if few:
        page.labelled("", f"most requests of {' and '.join(few)} have no like on the other side", WARNING)


def _covered(side: Side, compared: int) -> str:
    untimed = f", {count(side.untimed, 'request')} more without a TTFT" if side.untimed else ""
    return f"{compared:,} of {count(len(side), 'request')} of {side.name}{untimed}"


def _put_table(page: Page, verdict: Verdict) -> None:
    ttft = [verdict.ttft] if verdict.ttft else []
    scale = Milliseconds(max((max(abs(each.was), abs(each.now)) for each in verdict.differences), default=0.0))
    seams = {seam.stage for seam in verdict.seams}
    exposed, hidden = _shown(verdict.exposed, STAGES_SHOWN), _shown(verdict.hidden, HIDDEN_SHOWN)
    sections: tuple[tuple[str, Sequence[Difference]], ...] = (
        ("means, ms", [*ttft, *exposed]),
        ("hidden behind these", hidden),
        ("of requests that run", verdict.running),
    )
    rows = [(title, [_row(scale, each, seams) for each in found], found) for title, found in sections if found]
    widths = column_widths([HEAD, *(row for _, texts, _ in rows for row in texts)])
    page.line()
    for number, (title, texts, found) in enumerate(rows):
        head = cells((title, *HEAD[1:]) if not number else (title, *[""] * 6), _roomy(widths, title), left=2)
        page.line(head, HEADING if not number else QUIET)
        for text, each in zip(texts, found, strict=True):
            page.line(Text(cells(text, _roomy(widths, title), left=2), STRONG if each.sure else ""))
    if left := len(verdict.exposed) + len(verdict.hidden) - len(exposed) - len(hidden):
        page.line(f"and {count(left, 'more stage')} that differ by no more than chance (--json has all)", QUIET)
    for seam in verdict.seams:
        since = ".".join(map(str, seam.since))
        page.labelled("NOT THE SAME", f"{seam.stage} {SEAM} takes in more from {since} on: {seam.why}", WARNING)
    page.line()
    page.prose(
        f"{SURE} more than chance: of comparisons of like with like, one in twenty has any such line.", style=QUIET
    )


def _shown(found: list[Difference], least: int) -> list[Difference]:
    return found[: max(least, sum(each.sure for each in found))]


def _roomy(widths: Sequence[int], title: str) -> list[int]:
    return [max(widths[0], len("of requests that run")), *widths[1:]]


def _row(scale: Milliseconds, each: Difference, seams: set[str]) -> tuple[str, ...]:
    figure = each.figure
    cls = str(STAGE[figure.name].cls) if figure.kind == EXPOSED else ""
    return (
        WORDS.get(figure.name, figure.name) + (f" {SEAM}" if figure.name in seams else ""),
        cls,
        scale.of(each.was),
        scale.of(each.now),
        signed(scale, each.value),
        f"{signed(scale, each.low)}..{signed(scale, each.high)}",
        SURE if each.sure else UNSURE,
    )
