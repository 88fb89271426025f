"""The page: what happened, in the order of what it cost users, each with what tells it from what looks alike."""

from __future__ import annotations

from rich.text import Text

from kvscope.analysis.render.amounts import share
from kvscope.analysis.render.page import KEPT, LABEL, Page
from kvscope.analysis.render.palette import COMMAND, HEADING, QUIET, STRONG
from kvscope.diagnosis.figures import amount, change, ms, told
from kvscope.diagnosis.finding import Diagnosis, Finding
from kvscope.diagnosis.match import TIME, Measure, RuledOut
from kvscope.diagnosis.render.instants import since
from kvscope.diagnosis.texts import UNFAMILIAR
from kvscope.model.counting import count
from kvscope.model.invocation import command

NAME = 26
"""Width of the first column of a table."""
FIGURE = 10
WOULD = 34


def put_diagnosis(page: Page, diagnosis: Diagnosis, arguments: str = "") -> None:
    """Draw it. `arguments`: how the same data is named on the next command line."""
    if not diagnosis.findings:
        _put_nothing(page, diagnosis)
        return
    for number, finding in enumerate(diagnosis.findings, 1):
        if number > 1:
            page.rule()
        _put_finding(page, diagnosis, finding, number, arguments)
    for line in page.lines:
        line.plain = line.plain.replace(KEPT, " ")


def headline(diagnosis: Diagnosis, finding: Finding) -> str:
    """What it is, and what it cost."""
    parts = [title(finding)]
    if finding.share is not None and finding.explains_ns >= 1e5:
        of = f"of +{ms(diagnosis.excess_ns)} ms" if diagnosis.usual else f"of {ms(diagnosis.ttft.now)} ms"
        verb = "explains +" if diagnosis.usual else "holds "
        parts.append(f"{verb}{ms(finding.explains_ns)} {of} TTFT {at(diagnosis)} ({_part(diagnosis, finding)})")
    elif finding.cost_s:
        parts.append(f"{count(finding.who.struck, 'request')} waited {finding.cost_s:,.0f} s together")
    else:
        parts.append(f"{count(finding.who.struck, 'request')}, none slower for it")
    if diagnosis.missed is not None and finding.share:
        parts.append(f"SLO misses {told(diagnosis.missed)}")
    return "   ".join(parts)


def _part(diagnosis: Diagnosis, finding: Finding) -> str:
    """How much of the excess it is; what is more than all of it was made up for elsewhere."""
    beyond = finding.explains_ns - diagnosis.excess_ns
    if not diagnosis.usual or ms(finding.explains_ns) == ms(diagnosis.excess_ns) or beyond <= 0:
        return share(min(finding.share or 0.0, 1.0), 1.0)
    return f"all of it; other stages took {ms(beyond)} ms less"


def title(finding: Finding) -> str:
    """The slug, and of what is no case its stage."""
    if finding.slug == UNFAMILIAR:
        return f"{UNFAMILIAR}: {finding.match.detail}"
    return finding.slug


def at(diagnosis: Diagnosis) -> str:
    """Where TTFT is compared."""
    return "at p95" if diagnosis.place == "p95" else "on average"


def ttft(diagnosis: Diagnosis) -> str:
    """TTFT as it was and is; of requests that have none nothing is said."""
    if not diagnosis.timed:
        return "not known: no request that is judged got its first token"
    return f"{told(diagnosis.ttft)} {at(diagnosis)}"


def nothing(diagnosis: Diagnosis) -> str:
    """The sentence for a recording in which nothing was found."""
    compared = (
        f"beside {count(diagnosis.usual, 'request')} that show what is usual ({diagnosis.usual_from})"
        if diagnosis.usual
        else "with nothing to compare with"
    )
    return f"NOTHING FOUND in {count(diagnosis.judged, 'request')}, {compared}."


def _put_nothing(page: Page, diagnosis: Diagnosis) -> None:
    page.prose(nothing(diagnosis), style=STRONG)
    page.labelled("TTFT", ttft(diagnosis))
    if diagnosis.missed is not None:
        page.labelled("SLO misses", told(diagnosis.missed))
    _put_unknown(page, diagnosis, ())


def _put_finding(page: Page, diagnosis: Diagnosis, finding: Finding, number: int, arguments: str) -> None:
    match, text = finding.match, finding.text
    page.prose(f"{number} of {len(diagnosis.findings)}  {headline(diagnosis, finding)}", hang=8, style=STRONG)
    page.labelled("SINCE", since(diagnosis, finding.since))
    who = finding.who
    page.labelled("WHO", f"{who.struck:,} of {count(who.of, 'request')}; {who.engines}, {who.prompts}")
    page.labelled("STAGE", f"{match.stage}, {finding.cls}" + (f"; {match.detail}" if match.detail else ""))
    _put_measured(page, diagnosis, finding)
    _put_ruled_out(page, match.ruled_out)
    page.labelled("MECHANISM", text.mechanism + ".")
    if match.refuted_by:
        page.labelled("REFUTED BY", f"{match.refuted_by}: {match.refuted:,} found")
    page.labelled("DO", text.do + (f". Mended when {text.back}" if text.back else ""))
    page.labelled("PRICE", text.price)
    if finding.share is not None and match.slug != UNFAMILIAR:
        left = max(0.0, diagnosis.ttft.now - finding.explains_ns)
        page.labelled("HYPOTHETICAL", f"TTFT {ms(left)} ms {at(diagnosis)} without it, at best; not measured")
    _put_unknown(page, diagnosis, (*((f"missing: {match.missing}",) if match.missing else ()), *match.unknown))
    if finding.see:
        typed = f"{command()} request {finding.see[0]} {arguments}".rstrip()
        page.whole(Text.assemble((f"{'SEE':<{LABEL}}", HEADING), (typed, COMMAND)))
        if len(finding.see) > 1:
            page.labelled("", "and " + " | ".join(finding.see[1:]), QUIET)


def _put_measured(page: Page, diagnosis: Diagnosis, finding: Finding) -> None:
    shown = _stage_rows(diagnosis, finding) if finding.share is not None else []
    if shown:
        _put_table(page, diagnosis, shown)
    names = {measure.name for measure in shown}
    others = [measure for measure in finding.match.measured if measure.name not in names]
    if others:
        page.items("" if shown else "MEASURED", [f"{measure.name} {told(measure)}" for measure in others])


def _put_table(page: Page, diagnosis: Diagnosis, shown: list[Measure]) -> None:
    """Stages as they are where TTFT is compared; with all the rest they add up."""
    known = diagnosis.usual is not None
    what = "p95 band" if diagnosis.place == "p95" else "means"
    page.labelled("MEASURED", _cells(f"ms, {what}", *(("was", "now", "change") if known else ("now",))))
    rest_now = diagnosis.ttft.now - sum(measure.now for measure in shown)
    rest_was = (diagnosis.ttft.was or 0.0) - sum(measure.was or 0.0 for measure in shown)
    for measure in (*shown, Measure("everything else", rest_was if known else None, rest_now)):
        page.labelled("", _row(measure))


def _stage_rows(diagnosis: Diagnosis, finding: Finding) -> list[Measure]:
    """The stages that it explains, then the largest others, as they are where TTFT is compared."""
    claimed = {finding.match.stage, *finding.match.claims}
    mine = [measure for measure in diagnosis.stages if measure.name in claimed]
    other = [measure for measure in diagnosis.stages if measure.name not in claimed]
    mine.sort(key=lambda measure: -abs(measure.now - (measure.was or 0.0)))
    other.sort(key=lambda measure: -abs(measure.now - (measure.was or 0.0)))
    return [*mine[:4], *other[:2]]


def _row(measure: Measure) -> str:
    if measure.was is None:
        return _cells(measure.name, amount(measure.now, TIME))
    return _cells(measure.name, amount(measure.was, TIME), amount(measure.now, TIME), change(measure))


def _cells(name: str, *figures: str) -> str:
    row = f"{name:<{NAME}}" + "".join(f"{figure:>{FIGURE}}" for figure in figures)
    return row.replace(" ", KEPT)


def _put_ruled_out(page: Page, looks: tuple[RuledOut, ...]) -> None:
    if not looks:
        return
    page.labelled("RULED OUT", "would have shown, and what was seen instead", QUIET)
    widest = max(len(look.slug) for look in looks) + 2
    for look in looks:
        page.labelled("", f"{look.slug:<{widest}}".replace(" ", KEPT) + f"{look.would}; seen: {look.seen}")


def _put_unknown(page: Page, diagnosis: Diagnosis, more: tuple[str, ...]) -> None:
    told_ = [*more, *diagnosis.unknown]
    if told_:
        page.labelled("NOT KNOWN", "; ".join(told_))
