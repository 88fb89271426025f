"""What waits now: for what, where, how long, how long that usually takes, and what usually comes then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from kvscope.analysis.handles import brief
from kvscope.analysis.render.amounts import NOT_KNOWN, duration
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import HEADING, QUIET, STRONG, WARNING, word_style
from kvscope.live.enginedata import Data
from kvscope.live.habits import moment_name
from kvscope.live.snapshot import Snapshot
from kvscope.live.stuck import Stuck, Wait, gather_stuck
from kvscope.live.trouble import gather_trouble
from kvscope.model.counting import count
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import THREADS
from kvscope.top.pages.instants import Instants

CURSOR = "> "
NAMED = 14
"""Letters of a request's id, as the list of requests has them."""


@dataclass(frozen=True)
class Column:
    """A head, its room, and whether it stands to the left. What can be missed most stands last."""

    head: str
    room: int
    left: bool = False


COLUMNS = (
    Column("requests", NAMED, left=True),
    Column("wait for", 22, left=True),
    Column("for", 11),
    Column("times", 6),
    Column("on", 10, left=True),
    Column("usually", 8),
    Column("then", 21, left=True),
    Column("thread", 9, left=True),
    Column("since", 12),
)


def requests_waiting(snapshot: Snapshot) -> tuple[tuple[int, int], ...]:
    """What the cursor can be on, line by line: (request, peer request) of the one that has waited longest."""
    found = gather_stuck(snapshot)
    return tuple(wait.key for wait in (*found.overdue, *found.in_time))


def put_stuck(page: Page, snapshot: Snapshot, cursor: int = -1) -> None:
    """Draw what is overdue, then what is in time; the line of place `cursor` is marked."""
    found = gather_stuck(snapshot)
    page.prose(_title(found, snapshot), hang=2, style=HEADING)
    if not found.under_way:
        page.prose(_nothing(snapshot))
        return
    _put_old(page, snapshot)
    if found.overdue:
        page.prose(f">> {_sentence(found.overdue[0], Instants(snapshot))}", hang=3, style=STRONG)
    shown = _fitting(page.width - len(CURSOR))
    _put_lines(page, found.overdue, shown, snapshot, cursor)
    left_out = found.late - sum(wait.count for wait in found.overdue)
    if left_out:
        page.line(f"  and {count(left_out, 'other')} that {'is' if left_out == 1 else 'are'} less overdue", QUIET)
    if found.in_time:
        page.heading("IN TIME", "no more than three times as long as usual, or not yet 30 ms")
        _put_lines(page, found.in_time, shown, snapshot, cursor - len(found.overdue))
    _put_limits(page, found)


def _title(found: Stuck, snapshot: Snapshot) -> str:
    if not found.under_way:
        return "STUCK  nothing waits"
    span = duration(max(0, snapshot.now - snapshot.begin))
    return (
        f"STUCK  {found.late:,} of {found.under_way:,} under way wait longer than usual   "
        f"(usual: median of {count(found.judged_by, 'request')} of the last {span})"
    )


def _nothing(snapshot: Snapshot) -> str:
    if not snapshot.processes:
        return "No engine was seen. If vLLM runs here, `kvscope doctor` tells what it lacks to be seen."
    if not len(snapshot.window):
        return "No request in this time, and none under way."
    return f"All {count(len(snapshot.window), 'request')} of this time have their first token or are over."


def _put_old(page: Page, snapshot: Snapshot) -> None:
    """Those that the overview counts as stuck."""
    trouble = gather_trouble(snapshot.window, snapshot.summary.bands, snapshot.now - snapshot.begin)
    if trouble.stuck:
        page.prose(
            f"{count(trouble.stuck, 'request')} without a first token for more than {duration(trouble.stuck_ns)}, the "
            f"oldest for {duration(trouble.oldest_ns)}.",
            style=WARNING,
        )


def _sentence(wait: Wait, instants: Instants) -> str:
    """The most overdue in words."""
    who = count(wait.count, "request waits", "requests wait")
    usual, longest = wait.next.habit.usual_ns, duration(wait.longest_ns)
    long = longest if wait.count == 1 else f"{duration(wait.shortest_ns)} to {longest}"
    usually = "how long it usually takes nothing shows" if usual is None else f"usually {duration(usual)}"
    then = f" Then usually {moment_name(wait.next.then)}." if wait.next.then >= 0 else ""
    held = f" {count(wait.held, 'was', 'were')} refused for want of room." if wait.held else ""
    return (
        f"{who} for {moment_name(wait.next.habit.to)}{_where(wait)} since {instants.since(wait.since)}: {long}, "
        f"{usually}.{then}{held}{_state(wait)}"
    )


def _where(wait: Wait) -> str:
    if wait.next.leg == "router":
        return ", a call of the router's,"
    thread = THREADS[wait.next.habit.thread] if wait.next.habit.thread else ""
    return f" on {_engine(wait)}" + (f" ({thread} thread)" if thread else "")


def _engine(wait: Wait) -> str:
    return "the router" if wait.next.leg == "router" else wait.engine or f"a {wait.next.leg} engine"


def _state(wait: Wait) -> str:
    """An engine that says nothing may have gone on."""
    if wait.data in (Data.GONE, Data.ENDED):
        return f" {wait.engine} is silent: it may be gone."
    return f" {wait.engine} is instrumented in part." if wait.data is Data.PARTLY else ""


def _fitting(room: int) -> Sequence[Column]:
    taken = 0
    for number, column in enumerate(COLUMNS):
        taken += column.room + 1
        if taken > room + 1:
            return COLUMNS[:number]
    return COLUMNS


def _put_lines(page: Page, waits: Sequence[Wait], shown: Sequence[Column], snapshot: Snapshot, cursor: int) -> None:
    instants = Instants(snapshot)
    if waits:
        page.line(" " * len(CURSOR) + _cells([column.head for column in shown], shown), QUIET)
    for place, wait in enumerate(waits):
        stage = STAGES[wait.next.habit.stage]
        line = _cells(_texts(wait, instants), shown)
        if place == cursor:
            page.line(Text((CURSOR + line).ljust(page.width), "reverse"))
        else:
            page.line(Text.assemble((f"{stage.cls.glyph} ", word_style(stage.cls)), line))


def _cells(texts: Sequence[str], shown: Sequence[Column]) -> str:
    pairs = zip(shown, texts, strict=False)
    return " ".join(text[: c.room].ljust(c.room) if c.left else text.rjust(c.room) for c, text in pairs)


def _texts(wait: Wait, instants: Instants) -> tuple[str, ...]:
    habit = wait.next.habit
    return (
        f"{wait.count:,} requests" if wait.count > 1 else brief(wait.request, NAMED),
        moment_name(habit.to) + (" (held)" if wait.held else ""),
        duration(wait.longest_ns),
        NOT_KNOWN if wait.ratio is None else f"{wait.ratio:,.0f}" if wait.ratio >= 10 else f"{wait.ratio:.1f}",
        _engine(wait),
        NOT_KNOWN if habit.usual_ns is None else duration(habit.usual_ns),
        NOT_KNOWN if wait.next.then < 0 else moment_name(wait.next.then),
        THREADS[habit.thread] if habit.thread else NOT_KNOWN,
        instants.at(wait.since),
    )


def _put_limits(page: Page, found: Stuck) -> None:
    """What cannot be told."""
    page.line()
    if found.unseen:
        page.prose(
            f"{count(found.unseen, 'other')} under way: what comes next for them happens on an engine that records "
            "nothing here.",
            hang=2,
        )
    if not found.judged_by:
        page.prose("No request got on in this time, so nothing shows how long anything usually takes.", hang=2)
    page.prose(
        "for: the longest of a line; times: that over what is usual; the glyph: the class of the time that passes "
        "meanwhile.",
        style=QUIET,
    )
