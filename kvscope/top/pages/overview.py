"""The first view: one screen that says what the time to first token goes to, since when, and where."""

from __future__ import annotations

from kvscope.analysis.render.amounts import Milliseconds, duration
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import STRONG, WARNING
from kvscope.live.enginefigures import latest_loads
from kvscope.live.feed import Flow
from kvscope.live.oddities import gather_oddities
from kvscope.live.roster import Roster, gather_roster
from kvscope.live.seats import seats_of
from kvscope.live.snapshot import Snapshot
from kvscope.model.counting import count
from kvscope.model.requests import State
from kvscope.model.stages import STAGE
from kvscope.top.pages.bandtable import put_bands
from kvscope.top.pages.instants import Instants
from kvscope.top.pages.title import put_data, put_title
from kvscope.top.pages.verdict import LINES, put_verdict
from kvscope.top.pages.vitals import put_coordination, put_odd, put_price, put_running, put_trend, put_trouble

CANNOT_KNOW = {
    "prefill": "what happens on decode (admission, registration, notice, first token), and so no TTFT",
    "decode": "when prefill queued, ran, matched and posted: all of it lies within what decode waited for",
}
"""By the side that is seen alone."""
GONE_PAST = "If clients get answers all the same, `kvscope doctor` tells which engines of this host give them unseen."
SILENCE_NS = 10_000_000_000
"""Without a first token for so long, what led before is no news."""
PLURAL = {
    "RUNS NO MORE": "RUN NO MORE",
    "IS SWITCHED OFF: what it serves is not seen": "ARE SWITCHED OFF: what they serve is not seen",
}
COMMANDS = (
    ("kvscope doctor", "lists the vLLM processes of this host and says what each of them lacks"),
    ("kvscope lab run", "starts a small prefill/decode pair here, to see what this looks like"),
)


def put_overview(page: Page, snapshot: Snapshot) -> None:
    """Draw the view. It takes 80x24; whatever the state, a line has the same place as long as the width is the same."""
    seats = seats_of(snapshot)
    loads = latest_loads(snapshot.scoped, seats)
    roster = gather_roster(snapshot, seats, loads)
    put_title(page, snapshot, roster)
    if not snapshot.processes:
        page.rule()
        _put_no_engine(page, snapshot)
        return
    put_data(page, snapshot, roster)
    page.rule()
    if snapshot.summary.bands:
        _put_news(page, snapshot, roster)
        put_verdict(page, snapshot)
    else:
        _put_nothing_timed(page, snapshot, roster)
    page.rule()
    if snapshot.summary.one_legged_stages and not snapshot.summary.bands:
        _put_one_side(page, snapshot)
    else:
        put_bands(page, snapshot)
        put_coordination(page, snapshot)
    put_trend(page, snapshot)
    put_price(page, snapshot.summary.price)
    put_running(page, snapshot, roster)
    put_trouble(page, snapshot)
    put_odd(page, gather_oddities(snapshot, seats, roster, loads))


def _put_news(page: Page, snapshot: Snapshot, roster: Roster) -> None:
    """What makes a verdict one of the past comes before it."""
    for names, what in ((roster.ended, "RUNS NO MORE"), (roster.off, "IS SWITCHED OFF: what it serves is not seen")):
        if names:
            page.prose(f">> {', '.join(names)} {what if len(names) == 1 else PLURAL[what]}.", hang=3, style=WARNING)
    if snapshot.answered is None or snapshot.flow is not Flow.LIVE:
        return
    silent = snapshot.now - snapshot.answered
    if silent > SILENCE_NS:
        since = Instants(snapshot).since(snapshot.answered)
        page.prose(f">> NO FIRST TOKEN for {duration(silent)}, since {since}. Before that:", hang=3, style=WARNING)


def _put_no_engine(page: Page, snapshot: Snapshot) -> None:
    if told := [each for each in (snapshot.remark, *snapshot.faults, *snapshot.notes) if each]:
        page.prose("; ".join(told), hang=2)
    if snapshot.flow is not Flow.LIVE:
        page.prose(f"No engine has been seen in {snapshot.source} so far.", style=STRONG)
        return
    where = "there" if snapshot.remark else f"on {snapshot.source}"
    page.prose(f"No instrumented engine {where}, or none that this user may see.", style=STRONG)
    page.line()
    for command, what in COMMANDS:
        page.prose(f"{command:<18}{what}", 2, 20)
    page.line()
    page.prose(
        "An engine is instrumented if kvscope is installed in its environment when it starts, and it has a KV "
        "connector. It appears here within a second of its start; there is no need to start this anew."
    )


def _put_nothing_timed(page: Page, snapshot: Snapshot, roster: Roster) -> None:
    """Why there is no TTFT to split, in as many lines as a verdict has."""
    before = len(page.lines)
    found = snapshot.summary.condition
    states = found.states
    if not found.requests:
        page.prose(f">> {_no_traffic(snapshot, roster)}", hang=3, style=STRONG)
        if snapshot.flow is Flow.LIVE:
            page.prose(GONE_PAST, 3)
    elif 2 * states[State.ONE_LEGGED] > found.requests - states[State.UNFINISHED]:
        _put_one_legged(page, snapshot)
    else:
        page.prose(f">> {_nothing_complete(snapshot)}", hang=3, style=STRONG)
        if found.missing or states[State.UNMATCHED]:
            page.prose("`kvscope doctor` tells which engines are instrumented only in part.", 3)
    for _ in range(LINES - (len(page.lines) - before)):
        page.line()


def _no_traffic(snapshot: Snapshot, roster: Roster) -> str:
    if not any(side.known for side in roster.sides):
        return "NO ENGINE so far: only a router is heard."
    if not roster.recording:
        silent = sum(map(len, (roster.dark, roster.gone, roster.off, roster.ended)))
        known = count(silent, "engine is known and does", "engines are known and do")
        return f"NO ENGINE RECORDS: {known} not."
    engines = count(roster.recording, "engine records", "engines record")
    if snapshot.last is not None:
        silence = f"NO REQUEST in the last {_span(snapshot)}: {engines}."
        if snapshot.answered is not None:
            return f"{silence} The last first token came at {Instants(snapshot).since(snapshot.answered)}."
        return f"{silence} One was last seen at {Instants(snapshot).since(snapshot.last)}, without a first token."
    return f"NO REQUEST so far: {engines}, nothing was asked of {'it' if roster.recording == 1 else 'them'} yet."


def _span(snapshot: Snapshot) -> str:
    return duration(max(0, snapshot.now - snapshot.begin))


def _put_one_legged(page: Page, snapshot: Snapshot) -> None:
    found = snapshot.summary.condition
    sides = {where.partition(" ")[0] for where, _ in found.one_legged}
    seen = " and ".join(sorted(sides, reverse=True))
    legs, over = found.states[State.ONE_LEGGED], found.requests - found.states[State.UNFINISHED]
    who = "every request was" if legs == over else f"{legs:,} of {count(over, 'request')} were"
    page.prose(f">> ONLY ONE SIDE is instrumented: {who} seen from {seen} alone.", hang=3, style=STRONG)
    if len(sides) == 1:
        page.prose(
            f"It cannot be known {CANNOT_KNOW[seen]}. `kvscope doctor` on the other hosts tells what they lack.", 3
        )


def _nothing_complete(snapshot: Snapshot) -> str:
    found = snapshot.summary.condition
    broken = found.broken
    apart = found.states[State.UNALIGNED]
    parts = [f"{count(broken - apart, 'request')} not seen whole"] if broken > apart else []
    parts += [f"{count(apart, 'request')} between clocks that were not aligned"] if apart else []
    waiting = found.waiting
    if waiting.count:
        moment, n = waiting.last_moments[0]
        parts.append(
            f"{waiting.count:,} without a first token (oldest {duration(waiting.oldest_ns)}; last moment {moment} "
            f"in {n:,})"
        )
    ended = found.requests - broken - waiting.count - found.states[State.ONE_LEGGED]
    if ended > 0:
        parts.append(f"{ended:,} over without one")
    return f"NO TTFT to split: {', '.join(parts)}."


def _put_one_side(page: Page, snapshot: Snapshot) -> None:
    """Its stages where the table of percentiles would be."""
    stages = snapshot.summary.one_legged_stages
    scale = Milliseconds(max(ns for _, ns in stages))
    legs = count(snapshot.summary.condition.states[State.ONE_LEGGED], "request")
    page.prose(f"stages of the side that is seen, mean ms of {legs}; never part of a TTFT:")
    page.items("", [f"{STAGE[name].cls.glyph} {name} {scale.of(ns)}" for name, ns in stages])
