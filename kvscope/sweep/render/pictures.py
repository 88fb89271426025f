"""Pictures of a sweep, as SVG that stands in a page: in the page's colours, so that they are right on both grounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from kvscope.analysis.bands import CLASSES
from kvscope.model.stages import Class
from kvscope.sweep.contrasts import Contrast
from kvscope.sweep.estimates import Estimate
from kvscope.sweep.measured import Measured
from kvscope.sweep.render.words import Words

WIDTH, HEIGHT = 380, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 12, 40
MOST_RATIO = 20.0
"""Beyond it a linear axis shows nothing of the small ones."""
BAR, THIN = 20, 7
LABELLED = 0.09
"""Parts of a bar from which on there is room for a name."""
HATCH = (
    '<svg width="0" height="0" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6"'
    ' patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2.2" height="6" fill="#101010"'
    ' fill-opacity="0.35"/></pattern></defs></svg>\n'
)
Scale = Callable[[float], float]


def mark(mode: str, x: float, y: float, hollow: bool = False) -> str:
    """A mode's own: circle, square, triangle; others a diamond."""
    look = f'class="{mode}{" hollow" if hollow else ""}" stroke-width="1.8"'
    if hollow:
        look += ' style="fill: var(--panel)"'
    if mode == "push-early":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {look}/>'
    around = {"push-sequential": ((-4, -4), (4, -4), (4, 4), (-4, 4)), "pull": ((0, -5), (5, 4), (-5, 4))}
    corners = around.get(mode, ((0, -5), (5, 0), (0, 5), (-5, 0)))
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)}" {look}/>'


def legend_mark(mode: str, hollow: bool = False) -> str:
    """The same, alone."""
    return f'<svg viewBox="0 0 26 14" aria-hidden="true">{mark(mode, 13, 7, hollow)}</svg>'


def ttft(cells: Sequence[Measured], words: Words) -> Iterator[str]:
    """Percentiles of TTFT of one prompt length: loads across, modes beside each other, intervals as whiskers."""
    found = [(each, percent, each.percentile(percent)) for each in cells for percent in (50, 95)]
    told = [(each, percent, estimate) for each, percent, estimate in found if estimate is not None]
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="TTFT by load and mode">\n'
    if not told:
        yield _text(WIDTH / 2, HEIGHT / 2, "too few requests: no figure", "middle", "dim")
    else:
        yield from _percentiles(cells, told, words)
    yield "</svg>\n"


def _percentiles(
    cells: Sequence[Measured], told: Sequence[tuple[Measured, int, Estimate]], words: Words
) -> Iterator[str]:
    low, high = min(each.low for *_, each in told), max(each.high for *_, each in told)
    logarithmic = low > 0 and high / low > MOST_RATIO
    y = _scale(low, high, logarithmic)
    for tick in _ticks(low, high, logarithmic):
        yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        yield _text(LEFT - 6, y(tick) + 4, f"{tick / 1e6:,.3g}" if tick < 1e9 else f"{tick / 1e6:,.0f}", "end", "dim")
    loads, modes = (
        list(dict.fromkeys(each.cell.at for each in cells)),
        list(dict.fromkeys(each.cell.mode for each in cells)),
    )
    wide = (WIDTH - LEFT - RIGHT) / len(loads)
    apart = min(34.0, wide * 0.8 / max(1, len(modes)))
    for number, at in enumerate(loads):
        first = next(each for each in cells if each.cell.at == at)
        middle = LEFT + wide * (number + 0.5)
        yield _text(middle, HEIGHT - 22, f"{first.rate:.3g}/s", "middle")
        if first.cell.shared:
            yield _text(middle, HEIGHT - 8, f"{first.cell.at:.0%}", "middle", "dim")
    for each, percent, estimate in told:
        x = LEFT + wide * (loads.index(each.cell.at) + 0.5)
        x += apart * (modes.index(each.cell.mode) - (len(modes) - 1) / 2) + (5 if percent > 50 else -3)
        yield _whisker(each.cell.mode, x, y, estimate, percent)
        name = f"{each.cell.mode_words} p{percent}: {words.figure(estimate, 0)}"
        yield f"<g><title>{escape(name)}</title>{mark(each.cell.mode, x, y(estimate.value), percent > 50)}</g>\n"
    if logarithmic:
        yield _text(WIDTH - RIGHT, TOP - 2, "logarithmic", "end", "dim")


def _whisker(mode: str, x: float, y: Scale, found: Estimate, percent: int) -> str:
    dashes = ' stroke-dasharray="3 2"' if percent > 50 else ""
    line = f'<line class="{mode}" x1="{x:.1f}" x2="{x:.1f}" y1="{y(found.low):.1f}" y2="{y(found.high):.1f}"'
    end = y(found.high)
    head = f"M{x - 3:.1f} {end + 4:.1f} L{x:.1f} {end - 1:.1f} L{x + 3:.1f} {end + 4:.1f}"
    arrow = f'<path class="{mode}" d="{head}" style="fill: none"/>'
    return f'{line} stroke-width="1.6"{dashes}/>{arrow if found.open else ""}'


def _scale(low: float, high: float, logarithmic: bool) -> Scale:
    room = HEIGHT - TOP - BOTTOM
    if not logarithmic:
        return lambda ns: TOP + room * (1 - ns / (high * 1.04 or 1))
    begin, end = math.log(low / 1.15), math.log(high * 1.15)
    return lambda ns: TOP + room * (1 - (math.log(ns) - begin) / (end - begin))


def _ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    """Round numbers; 0 is one of them where there is one."""
    if logarithmic:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [part * 10.0**decade for decade in decades for part in (1, 2, 5)]
        return [each for each in found if low / 1.15 <= each <= high * 1.15]
    rough = high / 4
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next((part * power for part in (1, 2, 2.5, 5, 10) if part * power >= rough), rough or 1.0)
    return [step * number for number in range(int(high * 1.04 / step) + 1)]


def split_bar(each: Measured, longest: float, words: Words) -> str:
    """Where the mean time went: classes on the path, and below them what coordination ran behind it."""
    assert each.inside is not None
    at, parts = 0.0, []
    means = [each.inside.classes[cls] for cls in CLASSES]
    for cls, ns, told in zip(CLASSES, means, words.parts(means), strict=True):
        width = 100 * ns / longest
        name = f"<title>{cls} {told} ms, n {len(each.inside.timed)}</title>"
        rect = f'x="{at:.2f}%" width="{width:.2f}%" height="{BAR}"'
        hatch = f'<rect {rect} fill="url(#hatch)"/>' if cls is Class.UNDETERMINED else ""
        label = f'<text class="on" x="{at + width / 2:.2f}%" y="14" text-anchor="middle">{cls.short}</text>'
        parts.append(
            f'<g>{name}<rect class="{cls.short}" {rect}/>{hatch}{label if width >= 100 * LABELLED else ""}</g>'
        )
        at += width
    hidden = 100 * each.inside.hidden / longest
    rect = f'<rect class="coord" opacity="0.5" y="{BAR + 3}" width="{min(100.0, hidden):.2f}%" height="{THIN}"/>'
    parts.append(f"<g><title>hidden coordination {words.hidden(each)} ms</title>{rect}</g>")
    what = f"mean split of {each.cell.mode_words}"
    return f'<svg height="{BAR + THIN + 4}" role="img" aria-label="{escape(what)}">{"".join(parts)}</svg>'


def difference(found: Contrast, low: float, high: float) -> str:
    """A difference with its interval on a track from `low` to `high`, ns; nothing where requests were too few."""
    estimate = found.ttft
    track = f'<rect class="track" y="7" width="100%" height="6"/>{_at(_share(0.0, low, high), "zero")}'
    if estimate is None:
        return f'<svg height="20" role="img" aria-label="too few requests">{track}</svg>'
    ends = (_share(estimate.low, low, high), _share(estimate.high, low, high))
    mode = found.one.cell.mode if estimate.value > 0 else found.other.cell.mode
    looks = f'class="{found.other.cell.mode if estimate.value > 0 else found.one.cell.mode}"'
    faint = "" if estimate.sure else ' opacity="0.55"'
    bar = f'<line {looks} x1="{ends[0]:.2f}%" x2="{ends[1]:.2f}%" y1="10" y2="10" stroke-width="4"{faint}/>'
    middle = _share(estimate.value, low, high)
    dot = f'<circle cx="{middle:.2f}%" cy="10" r="4.5" fill="var(--ink)"/>'
    label = f"{mode.replace('-', ' ')} slower on average" if estimate.value else "no difference"
    return f'<svg height="20" role="img" aria-label="{escape(label)}">{track}{bar}{dot}</svg>'


def _at(percent: float, look: str) -> str:
    return f'<line class="{look}" x1="{percent:.2f}%" x2="{percent:.2f}%" y1="0" y2="20"/>'


def _share(ns: float, low: float, high: float) -> float:
    return 100 * (ns - low) / ((high - low) or 1.0)


def _text(x: float, y: float, text: str, anchor: str, look: str = "") -> str:
    cls = f' class="{look}"' if look else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{cls}>{escape(text)}</text>'
