"""Twelve lines for an incident channel: no colour, nothing that has to be aligned."""

from __future__ import annotations

from kvscope.diagnosis.figures import told
from kvscope.diagnosis.finding import Diagnosis, Finding
from kvscope.diagnosis.render.instants import since
from kvscope.diagnosis.render.page import headline, nothing, title, ttft
from kvscope.model.counting import count

LINES, WIDTH = 12, 160


def paste(diagnosis: Diagnosis) -> list[str]:
    """At most LINES lines of at most WIDTH characters."""
    if not diagnosis.findings:
        lines = [nothing(diagnosis), f"TTFT {ttft(diagnosis)}"]
        return [*map(_cut, lines), *_unknown(diagnosis)]
    first, rest = diagnosis.findings[0], diagnosis.findings[1:]
    lines = [*_first(diagnosis, first), *_others(diagnosis, rest), *_unknown(diagnosis)]
    return [_cut(line) for line in lines[:LINES]]


def _first(diagnosis: Diagnosis, finding: Finding) -> list[str]:
    match, text = finding.match, finding.text
    evidence = [f"{measure.name} {told(measure)}" for measure in match.measured]
    looks = [f"{look.slug} (would show {look.would}; seen {look.seen})" for look in match.ruled_out]
    who = finding.who
    lines = [
        headline(diagnosis, finding),
        f"since {since(diagnosis, finding.since)}",
        f"who: {who.struck:,} of {count(who.of, 'request')}; {who.engines}, {who.prompts}",
        f"stage: {match.stage} ({finding.cls})" + (f"; {match.detail}" if match.detail else ""),
        "measured: " + ", ".join(evidence[:4]),
        *(f"not {look}" for look in looks[:2]),
        f"mechanism: {text.mechanism}",
        f"do: {text.do}",
        f"see: {', '.join(finding.see)}",
    ]
    return [line for line in lines if line]


def _others(diagnosis: Diagnosis, findings: tuple[Finding, ...]) -> list[str]:
    if not findings:
        return []
    return [f"also: {headline(diagnosis, findings[0])}" if len(findings) == 1 else
            "also: " + ", ".join(title(finding) for finding in findings)]  # fmt: skip


def _unknown(diagnosis: Diagnosis) -> list[str]:
    return ["not known: " + "; ".join(diagnosis.unknown)] if diagnosis.unknown else []


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 2] + ".."
