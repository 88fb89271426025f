"""Percentiles of TTFT with the mean split of the requests around each, against what they were before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.text import Text

from kvscope.analysis.bands import CLASSES, Band
from kvscope.analysis.render.amounts import NOT_KNOWN, Milliseconds, share
from kvscope.analysis.render.bars import class_bar
from kvscope.analysis.render.fleet import scale_of
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import QUIET, STRONG, bar_style
from kvscope.analysis.render.rounding import rounded_band
from kvscope.live.change import Change, change_of
from kvscope.live.regime import Regime
from kvscope.live.snapshot import Snapshot
from kvscope.top.pages.instants import Instants

SHOWN = ("p50", "p95", "p99")
COMPARED = "p95"
NAME, CELL = 7, 8
"""Widths: room for 9,999.9 ms and the blank before it. Numbers below 1,000 leave room to spare, and stay in place."""
LEAST_BAR = 6
STEPS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
"""A mark of a bar is so many ms, times a power of ten: the bars keep their scale while p99 moves a little."""


def put_bands(page: Page, snapshot: Snapshot) -> None:
    """Six lines: a head, three percentiles, what p95 was, and what changed."""
    summary = snapshot.summary
    scale = scale_of(summary)
    regime = snapshot.regime
    before = _before(regime)
    shown = [_rounded(band, scale) for band in summary.bands if band.name in SHOWN]
    was = _rounded(replace(before, name=f"was {COMPARED}"), scale) if before is not None else None
    now = next((band for band in shown if band.name == COMPARED), None)
    change = change_of(was, now) if was is not None and now is not None else None
    rows = {name: next((band for band in shown if band.name == name), None) for name in SHOWN}
    rows[f"was {COMPARED}"] = was
    cell = _cell_width([band for band in rows.values() if band is not None], change, scale)
    if page.width < NAME + (2 + len(CLASSES)) * cell:
        _put_turned(page, rows, change, scale, cell)
        return
    table = _Table(page.width, cell, scale, [band for band in rows.values() if band is not None])
    page.line(table.head())
    for name, band in rows.items():
        page.line(table.row(name, band) + (_when(regime, snapshot, table.room_after(was)) if band is was else ""))
    page.line(table.change(change))


def _cell_width(bands: Sequence[Band], change: Change | None, scale: Milliseconds) -> int:
    """Of all columns alike: the longest number and the blank before it."""
    texts = [scale.of(ns) for band in bands for ns in (band.percentile_ns, band.mean_ns)]
    signed = () if change is None else (change.percentile_ns, change.mean_ns, *change.classes)
    return max([CELL, *(len(text) + 1 for text in (*texts, *(_signed(ns, scale) for ns in signed)))])


def _before(regime: Regime | None) -> Band | None:
    bands = regime.before.bands if regime is not None and regime.before is not None else ()
    return next((band for band in bands if band.name == COMPARED), None)


def _rounded(band: Band, scale: Milliseconds) -> Band:
    """Also the percentile, so that the difference of two is that of what is printed."""
    percentile = round(band.percentile_ns / scale.quantum) * scale.quantum
    return replace(rounded_band(band, scale), percentile_ns=percentile)


def _when(regime: Regime | None, snapshot: Snapshot, room: int) -> Text:
    if regime is None or regime.before is None:
        return Text()
    when = f"  {Instants(snapshot).between(regime.before.begin, regime.before.end)}"
    return Text(when if len(when) <= room else "", QUIET)


class _Table:
    """Rows of fixed columns: the percentile, the mean of the requests around it, its parts, and a bar of these."""

    def __init__(self, width: int, cell: int, scale: Milliseconds, bands: Sequence[Band]) -> None:
        self._scale, self._cell = scale, cell
        self._room = max(0, width - NAME - (2 + len(CLASSES)) * cell - 1)
        longest = max((band.mean_ns for band in bands), default=0.0)
        self._mark_ns = nice_mark(longest / self._room) if self._room >= LEAST_BAR and longest else 0.0

    def head(self) -> Text:
        """Names of the columns, with the glyphs of the classes."""
        text = Text(f"{'TTFT ms':<{NAME}}{'exact':>{self._cell}}{'mean':>{self._cell}}", QUIET)
        for cls in CLASSES:
            text.append(f"{cls.short + ' ':>{self._cell - 1}}", QUIET)
            text.append(cls.glyph, bar_style(cls))
        if not self._mark_ns:
            return text
        mark = f"{self._mark_ns / 1e9:g} s" if self._mark_ns >= 1e9 else f"{self._mark_ns / 1e6:g} ms"
        return text + self._remark(f"one mark = {mark}  split: mean around it", f"mark = {mark}", mark)

    def _remark(self, *texts: str) -> Text:
        """The first that has room where the bars are; nothing where none has."""
        return Text(f" {next((text for text in texts if len(text) <= self._room), '')}", QUIET)

    def row(self, name: str, band: Band | None) -> Text:
        """One band, dashes where there is none."""
        if band is None:
            return Text(f"{name:<{NAME}}" + f"{NOT_KNOWN:>{self._cell}}" * (2 + len(CLASSES)), QUIET)
        amounts = (band.percentile_ns, band.mean_ns, *_by_class(band))
        text = Text(f"{name:<{NAME}}" + "".join(f"{self._scale.of(ns):>{self._cell}}" for ns in amounts))
        text.stylize(STRONG, 0, NAME + self._cell)
        return text + Text(" ") + class_bar(_by_class(band), self._mark_ns) if self._mark_ns else text

    def room_after(self, band: Band | None) -> int:
        """Columns behind the bar of a band."""
        bar = len(class_bar(_by_class(band), self._mark_ns)) if band is not None and self._mark_ns else 0
        return self._room - bar

    def change(self, change: Change | None) -> Text:
        """Differences of what is printed above, and which class they are."""
        if change is None:
            return self.row("change", None)
        signed = (_signed(ns, self._scale) for ns in (change.percentile_ns, change.mean_ns, *change.classes))
        text = Text(f"{'change':<{NAME}}" + "".join(f"{cell:>{self._cell}}" for cell in signed), STRONG)
        if change.explained_by is None:
            return text
        cls, part = change.explained_by
        told = share(part, 1)
        return text + self._remark(f"{told} of it {cls}", f"{told} {cls.short}", f"{told} {cls.glyph}")


def _signed(ns: float, scale: Milliseconds) -> str:
    text = scale.of(ns)
    return f"+{text}" if ns > 0 and text.strip("0.,") else text


def _put_turned(
    page: Page, rows: Mapping[str, Band | None], change: Change | None, scale: Milliseconds, cell: int
) -> None:
    """On its side, for pages too narrow for the classes side by side."""
    columns = [["TTFT ms", "exact", "mean", *(f"{cls.glyph} {cls.short}" for cls in CLASSES)]]
    unknown = [NOT_KNOWN] * (2 + len(CLASSES))
    for name, band in rows.items():
        amounts = () if band is None else (band.percentile_ns, band.mean_ns, *_by_class(band))
        columns.append([name, *([scale.of(ns) for ns in amounts] or unknown)])
    changes = () if change is None else (change.percentile_ns, change.mean_ns, *change.classes)
    columns.append(["change", *([_signed(ns, scale) for ns in changes] or unknown)])
    room = min(cell + 1, (page.width - NAME) // (len(columns) - 1))
    for name, *texts in zip(*columns, strict=True):
        page.line(f"{name:<{NAME}}" + "".join(f"{text:>{room}}" for text in texts))


def _by_class(band: Band) -> list[float]:
    return [band.class_ns(cls) for cls in CLASSES]


def nice_mark(ns: float) -> float:
    """The next round length that is not shorter, in steps of a quarter at most."""
    power = 10.0 ** max(0, len(f"{int(ns)}") - 1)
    return next(step * power for step in STEPS if step * power >= ns)
