"""The sweep as Markdown that an incident's page takes: tables, and what they can be trusted for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kvscope.model.stages import Class
from kvscope.sweep.contrasts import Contrast
from kvscope.sweep.measured import Measured
from kvscope.sweep.render.words import HOW, Words, asked, heading, machines, notes, served, title, trust
from kvscope.sweep.results import Results

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$@])")
"""What Markdown would make something of; `@` would call people."""
HEAD = (
    *("mode", "TTFT p50, ms", "TTFT p95, ms", "TPOT p50, ms", "mean TTFT = split"),
    *("coordination exposed", "coordination hidden", "transfer", "trust"),
)
AGAINST = ("sent", "TTFT, ms", "of that", "TPOT, ms")


def markdown(results: Results) -> Iterator[str]:
    """The page, in pieces."""
    words = Words(results)
    yield f"## {escaped(title(results))}\n\n{escaped(results.span)}\n\n"
    yield _list(results.headlines)
    for group in results.conditions:
        yield f"\n### {escaped(heading(group))}\n\n"
        yield _table(HEAD, [_row(words, each) for each in group])
    for name, found in _by_words(results.contrasts):
        yield f"\n### {escaped(name)}\n\n"
        yield _table(AGAINST, [_against(words, each) for each in found])
    yield "\n### How it was measured\n\n"
    yield _list([*asked(results), *machines(results), "; ".join(served(results)), *HOW])
    if said := notes(results):
        yield f"\n### Notes\n\n{_list(said)}"


def _row(words: Words, each: Measured) -> list[str]:
    return [
        each.cell.mode_words,
        words.figure(each.percentile(50), len(each.ttft)),
        words.figure(each.percentile(95), len(each.ttft)),
        words.figure(each.tpot_percentile(50), len(each.tpot)),
        words.split(each),
        words.bounds(each, Class.COORDINATION),
        words.hidden(each),
        words.bounds(each, Class.TRANSFER),
        trust(each),
    ]


def _against(words: Words, found: Contrast) -> list[str]:
    return [
        heading([found.one]),
        words.change(found.ttft, found.pairs),
        words.classes(found),
        words.change(found.tpot, found.tpot_pairs),
    ]


def _by_words(found: Sequence[Contrast]) -> list[tuple[str, list[Contrast]]]:
    groups: dict[str, list[Contrast]] = {}
    for each in found:
        groups.setdefault(each.words, []).append(each)
    return list(groups.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([escaped(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _list(lines: Iterable[str]) -> str:
    return "".join(f"- {escaped(line)}\n" for line in lines if line)


def escaped(text: str) -> str:
    """Text that stays text."""
    return SPECIAL.sub(r"\\\1", text.replace("\n", " "))
