"""The sweep as one HTML page that stands alone: pictures in it, nothing loaded, no script."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import quote

from kvscope.analysis.bands import CLASSES
from kvscope.lab.sweeping.folder import CELLS, RECORDING
from kvscope.model.stages import Class
from kvscope.sweep.contrasts import Contrast
from kvscope.sweep.measured import Measured
from kvscope.sweep.render import pictures
from kvscope.sweep.render.markup import items, table
from kvscope.sweep.render.style import STYLE
from kvscope.sweep.render.words import HOW, Words, asked, heading, machines, notes, served, title, trust
from kvscope.sweep.results import Results

HEAD = (
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)  # fmt: skip
FIGURES = ("mode", "TTFT p50, ms", "TTFT p95, ms", "as the client saw it, p50", "TPOT p50, ms", "TPOT p95, ms")
CHANGES = ("load", "of the difference of TTFT, ms", "TPOT, ms", "requests without their like")
PARTS = (
    "mode",
    *(cls.short for cls in CLASSES),
    "mean TTFT",
    "coordination exposed",
    "hidden",
    "transfer",
    "recording",
)


SPLIT = (
    "Mean split of TTFT, in ms; bars of one load share a scale. Below each bar: coordination that was hidden behind the"
    " path, and cost no TTFT."
)
AGAINST = (
    "Mean difference of TTFT, request by request, in ms: left of the line the first one is faster. A dot is the mean, a"
    " bar its interval, in the colour of the faster one; faint: no more than chance."
)


def page(results: Results) -> Iterator[str]:
    """The page, in pieces."""
    words = Words(results)
    yield f"{HEAD}<title>{escape(title(results))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{pictures.HATCH}"
    where = "; ".join([results.span, *machines(results)])
    yield f'<h1>{escape(title(results))}</h1>\n<p class="dim">{escape(where)}</p>\n'
    if results.headlines:
        yield items(results.headlines, "headlines")
    if results.cells:
        yield from _ttft(results, words)
        yield from _splits(results, words)
    if results.contrasts:
        yield from _against(results, words)
    if results.cells:
        yield from _figures(results, words)
    yield f"<h2>How it was measured</h2>\n{items([*asked(results), *HOW])}"
    if settings := served(results):
        yield f'<h3>Served by</h3>\n<p class="settings">{escape("; ".join(settings))}</p>\n'
    if said := notes(results):
        yield f"<h2>Notes</h2>\n{items(said)}"
    yield "</body>\n</html>\n"


def _ttft(results: Results, words: Words) -> Iterator[str]:
    yield "<h2>Time to first token</h2>\n"
    names = {each.cell.mode: each.cell.mode_words for each in results.cells}
    marks = [f"<li>{pictures.legend_mark(mode)} {escape(name)}</li>" for mode, name in names.items()]
    marks += [f"<li>{pictures.legend_mark(results.cells[0].cell.mode, True)} hollow, dashed: p95; filled: p50</li>"]
    yield f'<ul class="legend">{"".join(marks)}</ul>\n<div class="panels">\n'
    by_length = sorted(results.cells, key=lambda each: each.cell.tokens)
    for _, group in itertools.groupby(by_length, lambda each: each.cell.tokens):
        cells = list(group)
        yield f'<figure class="panel"><figcaption>{escape(cells[0].cell.length)}, TTFT in ms by load</figcaption>\n'
        yield from pictures.ttft(cells, words)
        yield "</figure>\n"
    yield "</div>\n"


def _splits(results: Results, words: Words) -> Iterator[str]:
    if not any(each.inside for each in results.cells):
        return
    yield f'<h2>Where it went</h2>\n<p class="dim">{SPLIT}</p>\n'
    swatch = '<svg viewBox="0 0 26 14" aria-hidden="true"><rect class="{0}" width="26" height="14"/>{1}</svg>'
    hatch = '<rect width="26" height="14" fill="url(#hatch)"/>'
    kinds = (
        f"<li>{swatch.format(cls.short, hatch if cls is Class.UNDETERMINED else '')} {cls}</li>" for cls in CLASSES
    )
    yield f'<ul class="legend">{"".join(kinds)}</ul>\n<div class="rows">\n'
    for group in results.conditions:
        longest = max((sum(each.inside.classes.values()) for each in group if each.inside), default=0.0)
        yield f'<h3 class="wide">{escape(heading(group))}</h3>\n'
        for each in group:
            yield f"<div>{escape(each.cell.mode_words)}</div>"
            if each.inside is None:
                yield '<div class="few">no recording</div><div></div>\n'
                continue
            mean = words.scale.of(sum(each.inside.classes.values()))
            yield f"<div>{pictures.split_bar(each, longest or 1.0, words)}</div>"
            yield f'<div class="number">mean {mean} ms, n {len(each.inside.timed):,}</div>\n'
    yield "</div>\n"


def _against(results: Results, words: Words) -> Iterator[str]:
    yield f'<h2>Mode against mode</h2>\n<p class="dim">{AGAINST}</p>\n'
    for name, group in itertools.groupby(results.contrasts, lambda each: each.words):
        found = list(group)
        ends = [ns for each in found if each.ttft for ns in (each.ttft.low, each.ttft.high)]
        low, high = min([*ends, 0.0]), max([*ends, 0.0])
        room = 0.04 * (high - low) or 1.0
        yield f'<h3>{escape(name)}</h3>\n<div class="rows">\n'
        for each in found:
            picture = pictures.difference(each, low - room, high + room)
            yield f"<div>{escape(heading([each.one]))}</div><div>{picture}</div>"
            yield f'<div class="number">{_change(each, words)}</div>\n'
        yield "</div>\n"
        yield table(CHANGES, [_change_row(each, words) for each in found], wrap=1)


def _change_row(each: Contrast, words: Words) -> list[str]:
    tpot = words.change(each.tpot, each.tpot_pairs)
    return [heading([each.one]), words.classes(each), tpot, f"{each.left_out:,}"]


def _change(found: Contrast, words: Words) -> str:
    look = "few" if found.ttft is None else "sure" if found.ttft.sure else ""
    source = "" if found.inside else ", as the client saw it"
    return f'<span class="{look}">{escape(words.change(found.ttft, found.pairs))}</span>{source}'


def _figures(results: Results, words: Words) -> Iterator[str]:
    yield "<h2>All figures</h2>\n"
    for group in results.conditions:
        yield f"<h3>{escape(heading(group))}</h3>\n"
        yield table((*FIGURES, "trust"), [_figure_row(each, words) for each in group], wrap=len(FIGURES))
        yield _parts(group, words)


def _figure_row(each: Measured, words: Words) -> list[str]:
    return [
        each.cell.mode_words,
        words.figure(each.percentile(50), len(each.ttft)),
        words.figure(each.percentile(95), len(each.ttft)),
        words.figure(each.client_percentile(50), len(each.client_ttft)),
        words.figure(each.tpot_percentile(50), len(each.tpot)),
        words.figure(each.tpot_percentile(95), len(each.tpot)),
        trust(each),
    ]


def _parts(group: Sequence[Measured], words: Words) -> str:
    rows = []
    for each in group:
        if each.inside is None:
            continue
        means = [each.inside.classes[cls] for cls in CLASSES]
        whole = words.scale.text(sum(words.scale.split(means)))
        bounds = [words.bounds(each, Class.COORDINATION), words.hidden(each), words.bounds(each, Class.TRANSFER)]
        rows.append([each.cell.mode_words, *words.parts(means), f"{whole} n {len(each.inside.timed):,}", *bounds])
    links = [_link(each) for each in group if each.inside]
    return table(PARTS, rows, links=links) if rows else ""


def _link(each: Measured) -> str:
    path = quote(f"{CELLS}/{each.cell.name}/{RECORDING}")
    return f'<a href="{path}">recording</a>'
