"""The table of requests: those under way first, then the finished ones, newest first, unless sorted otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from rich.text import Text

from kvscope.analysis.bands import CLASSES, class_ns
from kvscope.analysis.handles import brief, shown
from kvscope.analysis.render.amounts import NOT_KNOWN, Milliseconds, duration
from kvscope.analysis.render.bars import class_bar
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import HEADING, QUIET, WARNING, word_style
from kvscope.live.figures import FIGURE, TIME, Figure
from kvscope.live.history import when
from kvscope.live.listing import NEWEST, Listing
from kvscope.live.naming import told_apart
from kvscope.live.snapshot import Snapshot
from kvscope.model.controls import celled
from kvscope.model.counting import count
from kvscope.model.requests import STATES, State
from kvscope.model.shapes import SHAPES
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import LEGS, MOMENTS, UNKNOWN

MARK = {
    State.COMPLETE: " ",
    State.ONE_LEGGED: "1",
    State.INCOMPLETE: "!",
    State.UNFINISHED: "~",
    State.UNMATCHED: "1",
    State.UNALIGNED: "!",
}
ID, ENGINES, TTFT, SORTED = 14, 12, 9, 9
"""Widths of the columns,"""
WORDS = 28
"""and of what stands behind them: the longest stage and its time."""
LEAST_BAR = 10
LISTED = 4
SORTS = (NEWEST, "ttft", "age", "tpot", "gap", "reserved", *(f"class.{cls.short}" for cls in CLASSES), *(
    f"stage.{stage.name}" for stage in STAGES
))  # fmt: skip
"""What `<` and `>` go through."""


@dataclass(frozen=True)
class Table:
    """The rows that are listed, in order, and what they are rows of."""

    splits: Splits
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, place: int) -> tuple[int, int]:
        """What tells the request at a place in the list from all others, as long as it is shown."""
        row = int(self.rows[place])
        return int(self.splits.request[row]), int(self.splits.peer_request[row])

    def place(self, key: tuple[int, int]) -> int | None:
        """Where a request is listed now."""
        same = (self.splits.request[self.rows] == key[0]) & (self.splits.peer_request[self.rows] == key[1])
        found = np.flatnonzero(same)
        return int(found[0]) if len(found) else None


def table_of(snapshot: Snapshot, listing: Listing) -> Table:
    """Filter and sort the window."""
    return Table(snapshot.window, listing.rows(snapshot.window))


def put_requests(
    page: Page, snapshot: Snapshot, listing: Listing, table: Table, cursor: int = -1, first: int = 0, height: int = 0
) -> None:
    """Draw the places [first, first + height) of the table, all of it for height 0; `cursor` is marked."""
    page.line(_title(snapshot, listing, table, page.width), HEADING)
    if not len(table):
        page.prose(_nothing(snapshot, listing))
        return
    rows = table.rows[first : first + height] if height else table.rows
    chosen = table.splits.select(rows)
    columns = _columns(page.width, listing)
    page.line(_head(listing, columns), QUIET)
    scale = float(np.where(chosen.ttft == UNKNOWN, 0, chosen.ttft).max(initial=1))
    lines = _Lines(chosen, snapshot, listing, columns, scale)
    for place in range(len(chosen)):
        line = lines.line(place)
        if first + place == cursor:
            line = Text(">" + line.plain[1:].ljust(page.width - 1), "reverse")
        page.line(line)


def _title(snapshot: Snapshot, listing: Listing, table: Table, width: int) -> str:
    """One line, so that rows stay where they are; a filter may be cut."""
    whole = len(snapshot.window)
    listed = count(whole, "request") if len(table) == whole else f"{len(table):,} of {count(whole, 'request')}"
    order = listing.order if listing.descending else f"{listing.order}, reversed"
    text = f"REQUESTS  {listed} of the last {duration(snapshot.now - snapshot.begin)}   by {order}"
    if not (listing.wanted and listing.wanted.text):
        return text
    filtered = f"filter: {listing.wanted.text}"
    return f"{text}   {shown(filtered, max(width - len(text) - 3, len('filter: ..')))}"


def _nothing(snapshot: Snapshot, listing: Listing) -> str:
    if len(snapshot.window):
        return "No request fits the filter. Backspace or Escape clears it; / edits it."
    return "No request in this time."


@dataclass(frozen=True)
class _Columns:
    """Which columns there is room for: whole ones alone. What the table is sorted by is among them."""

    engines: bool
    sorted: bool
    bar: int
    """0: none"""
    words: int

    @property
    def head(self) -> int:
        """Width of what stands before the bar."""
        return 2 + ID + (1 + ENGINES) * self.engines + 1 + TTFT + (1 + SORTED) * self.sorted + 2


def _columns(width: int, listing: Listing) -> _Columns:
    """Half of the room behind the columns is for the bar, or what the words leave; none where that is too little."""
    both = _Columns(True, True, 0, 0)
    fits = both.head + WORDS <= width
    shown = both if fits else _Columns(_figure_of(listing) is None, _figure_of(listing) is not None, 0, 0)
    if shown.head + WORDS > width:
        shown = replace(shown, engines=False)
    room = width - shown.head
    bar = min(room - WORDS, max(LEAST_BAR, room // 2)) - 2
    bar = bar if bar >= LEAST_BAR else 0
    return replace(shown, bar=bar, words=room - (bar + 2 if bar else 0))


def _figure_of(listing: Listing) -> Figure | None:
    """What the table is sorted by, where that is no column that it has anyhow."""
    return None if listing.order in (NEWEST, "ttft") else FIGURE[listing.order]


def _head(listing: Listing, columns: _Columns) -> str:
    text = f"  {'request':<{ID}}" + (f" {'engines':<{ENGINES}}" if columns.engines else "") + f" {'TTFT, ms':>{TTFT}}"
    text += f" {_sorted_head(listing):>{SORTED}}" if columns.sorted else ""
    return f"{text}  " + (f"{'split':<{columns.bar + 2}}" if columns.bar else "") + "largest parts, ms"


def _sorted_head(listing: Listing) -> str:
    if _figure_of(listing) is None:
        return "ago"
    return listing.order.partition(".")[2][:SORTED] or listing.order


class _Lines:
    """One line per request of `chosen`."""

    def __init__(self, chosen: Splits, snapshot: Snapshot, listing: Listing, columns: _Columns, largest: float) -> None:
        self._splits, self._snapshot, self._columns = chosen, snapshot, columns
        self._cell = largest / max(columns.bar, 1)
        self._classes = class_ns(chosen.exposed)
        self._figure = _figure_of(listing)
        self._values = None if self._figure is None else self._figure.of(chosen)
        self._when = when(chosen)
        self._names = _short(snapshot.window)

    def line(self, row: int) -> Text:
        splits, columns = self._splits, self._columns
        ttft = int(splits.ttft[row])
        known = ttft != UNKNOWN
        scale = Milliseconds(ttft)
        text = Text(f"{MARK[STATES[splits.state[row]]]} {brief(splits.text(row), ID):<{ID}}")
        text.append(f" {self._engines(row):<{ENGINES}}" if columns.engines else "")
        text.append(f" {scale.of(ttft) if known else NOT_KNOWN:>{TTFT}}")
        text.append(f" {self._sorted(row):>{SORTED}}" if columns.sorted else "").append("  ")
        text.stylize(WARNING if splits.failure[row, 0] else "" if known else QUIET)
        return text + (self._split(row, scale) if known else Text(self._standing(row), QUIET))

    def _engines(self, row: int) -> str:
        prefill, decode = (
            self._names[column[row]] for column in (self._splits.prefill_engine, self._splits.decode_engine)
        )
        return f"{prefill}>{decode}"

    def _sorted(self, row: int) -> str:
        if self._figure is None or self._values is None:
            return f"{max(0, self._snapshot.now - int(self._when[row])) / 1e9:,.1f} s"
        value = float(self._values[row])
        if np.isnan(value):
            return NOT_KNOWN
        return Milliseconds(1e6).of(value) if self._figure.unit == TIME else f"{value:,.0f}"

    def _split(self, row: int, scale: Milliseconds) -> Text:
        """Where the time went: a bar, and the largest stages, rounded as in the request's waterfall."""
        columns = self._columns
        text = class_bar(self._classes[row].tolist(), self._cell) if columns.bar else Text()
        text.pad_right(columns.bar + 2 - len(text) if columns.bar else 0)
        exposed, room = self._splits.exposed[row], columns.words
        quanta = scale.split(exposed)
        for index in np.argsort(-exposed, kind="stable")[:LISTED].tolist():
            piece = f"{STAGES[index].name} {scale.text(quanta[index])}"
            if not exposed[index] or len(piece) > room:
                break  # none is left out before a smaller one
            text.append(piece, word_style(STAGES[index].cls)).append("  ")
            room -= len(piece) + 2
        return text

    def _standing(self, row: int) -> str:
        """Why there is no split: where it stands, what was not seen, or that it failed; as much as fits, whole."""
        leg, moment, _ = self._splits.last_moment[row].tolist()
        state, last = STATES[self._splits.state[row]], f"last {LEGS[leg]} {MOMENTS[moment]}"
        if state is State.UNFINISHED:
            facts = [f"{duration(int(self._splits.age[row]))} old", last]
        else:
            facts = [state.replace("_", "-"), SHAPES[self._splits.shape[row]].name.replace("_", " "), last]
        kept = (facts, facts[:-1], facts[:1])
        room = self._columns.words + (self._columns.bar + 2 if self._columns.bar else 0)
        return next((text for text in map(", ".join, kept) if len(text) <= room), "")


def _short(window: Splits) -> list[str]:
    """Engines' names for the column of both, none's the last: what tells them apart where they are too long, at worst
    their ends."""
    room = (ENGINES - 1) // 2
    used = np.union1d(window.prefill_engine, window.decode_engine)
    numbers = used[used >= 0].tolist()
    names = [celled(window.engines[number].engine) for number in numbers]
    if any(len(name) > room for name in names):
        names, _ = told_apart(names)
    short = dict(zip(numbers, names, strict=True))
    return [*(short.get(number, "")[-room:] for number in range(len(window.engines))), "?"]
