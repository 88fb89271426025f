"""What is looked at, and in what state its data is: the first lines of the overview."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from kvscope.analysis.condition import Condition
from kvscope.analysis.handles import shown
from kvscope.analysis.render.amounts import NOT_KNOWN, duration, share
from kvscope.analysis.render.page import LABEL, Page
from kvscope.analysis.render.palette import HEADING, QUIET, WARNING
from kvscope.analysis.setup import label_of
from kvscope.live.feed import Flow
from kvscope.live.roster import Roster, Side
from kvscope.live.snapshot import Snapshot
from kvscope.model.counting import count
from kvscope.model.requests import State
from kvscope.top.pages.instants import SECOND, Instants
from kvscope.top.pages.slots import GAP, Slot, put_slots

HARM = 0.01
"""Share of requests that were not seen whole from which on the data is impaired: p99 may be made of them."""
FEW, NOTED = 3, 24
STANDING = {Flow.PAUSED: "REPLAY PAUSED", Flow.ENDED: "REPLAY ENDED"}


def put_title(page: Page, snapshot: Snapshot, roster: Roster) -> None:
    """One line; what matters least is left out where there is no room."""
    flow, window = _flow(snapshot), _window(snapshot)
    right = f"{flow}  {window}"
    pieces = _pieces(snapshot, roster)
    while len(pieces) > 1 and sum(len(text) + GAP for _, text in pieces) + len(right) > page.width:
        pieces.remove(max(pieces))
    left = "  ".join(text for _, text in pieces)
    line = Text(left.ljust(page.width - len(right)), HEADING)
    line.append(flow, WARNING if snapshot.flow is Flow.LOST else HEADING)
    page.line(line.append(f"  {window}", QUIET))


def _pieces(snapshot: Snapshot, roster: Roster) -> list[tuple[int, str]]:
    """(how soon it may be missed, text), as they stand"""
    facts = snapshot.summary.setup.facts
    told = {name: fact.values[0][0] if not fact.differs else f"{name}s differ" for name, fact in facts.items()}
    pieces = [
        (0, "kvscope top"),
        (3, snapshot.source),
        (4, told.get("model", "").rstrip("/").rpartition("/")[2]),
        (6, told.get("connector", "")),
        (2, told.get("mode", "")),
        (1, f"P {_side(roster.prefill)}"),
        (1, f"D {_side(roster.decode)}"),
        (1, f"other {_side(roster.untold)}" if roster.untold.known else ""),
        (5, f"router {roster.routers}" if roster.routers else ""),
    ]
    return [piece for piece in pieces if piece[1]]


def _side(side: Side) -> str:
    return f"{len(side.engines)}/{side.known}{'+' if side.unseen else ''}"


def _flow(snapshot: Snapshot) -> str:
    word = STANDING.get(snapshot.flow, snapshot.flow.upper())
    return f"{word} {Instants(snapshot).at(snapshot.now, fine=snapshot.flow is Flow.PAUSED)}"


def _window(snapshot: Snapshot) -> str:
    """`win 60 s`, or `win 12/60 s` where less is looked at."""
    asked, span = snapshot.window_ns / SECOND, (snapshot.now - snapshot.begin) / SECOND
    return f"win {asked:g} s" if span >= asked - 0.5 else f"win {max(0.0, span):.0f}/{asked:g} s"


def put_data(page: Page, snapshot: Snapshot, roster: Roster) -> None:
    """Counts first: no number below is better than these. What needs names comes in a line of its own."""
    found = snapshot.summary.condition
    word, style = _state(snapshot, roster)
    put_slots(page, f"DATA {word}", [*_counts(found), *_beside(snapshot)], style)
    notes = list(_notes(snapshot, roster))
    if notes:
        page.prose(_fitting(notes, page.width - LABEL), LABEL, style=WARNING if word != "good" else "")


def _state(snapshot: Snapshot, roster: Roster) -> tuple[str, str]:
    if snapshot.flow is Flow.LOST or (roster.ended and not roster.recording):
        return "old", WARNING
    if roster.off or roster.ended or snapshot.gaps:
        return "in part", WARNING
    found = snapshot.summary.condition
    astray = _hosts(snapshot) > 1 and (not _aligned(found) or found.clocks.mostly_uncertain)
    if found.broken > HARM * found.requests or found.tally.lost or snapshot.faults or astray:
        return "impaired", WARNING
    if found.states[State.ONE_LEGGED] > HARM * found.requests:
        return "in part", WARNING
    return ("good", HEADING) if found.requests else ("none", HEADING)


def _counts(found: Condition) -> list[Slot]:
    """Shares of those that are over: one under way is no news."""
    states, lost, broken = found.states, found.tally.lost, found.states[State.INCOMPLETE]
    over = found.over
    return [
        Slot(f"complete {share(states[State.COMPLETE], over)} of {over:,}", 23),
        Slot(f"one-legged {share(states[State.ONE_LEGGED], over)}", 15),
        Slot(f"incomplete {share(broken, over)}", 15, WARNING if broken else ""),
        Slot(f"lost {lost:,}", 6, WARNING if lost else ""),
    ]


def _beside(snapshot: Snapshot) -> list[Slot]:
    waiting, hosts = snapshot.summary.condition.waiting, _hosts(snapshot)
    oldest = duration(waiting.oldest_ns) if waiting.count else NOT_KNOWN
    found = snapshot.summary.condition
    between = f"within {duration(found.clocks.bound_most_ns)}" if _aligned(found) else "NOT ALIGNED"
    clocks = {0: f"clock {NOT_KNOWN}", 1: "one clock"}.get(hosts, f"clocks of {hosts} hosts {between}")
    return [
        Slot(f"unfinished {waiting.count:,} (oldest {oldest})", 30),
        Slot(clocks, 9, WARNING if hosts > 1 and not _aligned(found) else ""),
        Slot(f"first tokens {snapshot.rates.requests:,.1f}/s", 20),
    ]


def _hosts(snapshot: Snapshot) -> int:
    return len(snapshot.summary.setup.hosts)


def _aligned(found: Condition) -> bool:
    """Whether it is known, within a bound, how long requests took from one host to another."""
    return bool(found.clocks.requests) and not found.states[State.UNALIGNED]


def _notes(snapshot: Snapshot, roster: Roster) -> Iterator[str]:
    """What has to be known of the data, the gravest first."""
    found = snapshot.summary.condition
    if snapshot.remark and snapshot.flow is Flow.LOST:
        yield snapshot.remark
    yield from snapshot.faults
    yield from snapshot.notes  # where one was not ended, that is why requests are not whole
    yield from _unseen(roster)
    yield from _off(snapshot)
    if found.missing:
        yield "missing: " + _named(found.missing)
    dark, gone = roster.dark, roster.gone
    if dark:
        yield f"{' '.join(dark[:FEW])}{_more(len(dark))} not instrumented{_why(snapshot, dark[0])}"
    if gone:
        yield f"{' '.join(gone[:FEW])}{_more(len(gone))} silent, though it had work"
    yield from _in_no_percentile(found)
    yield from _between_hosts(found)
    if snapshot.without:
        yield f"left out: requests with {shown(snapshot.without, NOTED)!r} in the id"
    if snapshot.cut:
        yield "the window is shorter: it holds all requests that are kept"
    others = [f"{name.replace('_', ' ')} {n:,}" for name, n in found.trouble if name != "lost"]
    if others:
        yield f"so far {', '.join(others)}"


def _in_no_percentile(found: Condition) -> Iterator[str]:
    if found.one_legged:
        yield f"one-legged: seen from {_named(found.one_legged)}; without the other side no TTFT"
    if found.states[State.UNMATCHED]:
        yield f"other leg never seen of {count(found.states[State.UNMATCHED], 'request')}"
    if found.states[State.UNALIGNED]:
        yield f"no TTFT of {count(found.states[State.UNALIGNED], 'request')} between clocks that were not aligned"


def _between_hosts(found: Condition) -> Iterator[str]:
    if stages := found.clocks.mostly_uncertain:
        wrong = f"may be wrong by {duration(found.clocks.bound_p50_ns)}, and no longer than that"
        yield f"times between hosts {wrong}: {', '.join(stages[:FEW])}{_more(len(stages))}"


def _unseen(roster: Roster) -> Iterator[str]:
    for names, what in ((roster.ended, "ended"), (roster.off, "switched off (`kvscope on`)")):
        if names:
            yield f"{' '.join(names[:FEW])}{_more(len(names))} {what}"


def _off(snapshot: Snapshot) -> Iterator[str]:
    """Engines with the same gap together."""
    alike: dict[str, list[str]] = {}
    for gap in snapshot.gaps:
        told = f"off for {duration(gap.end - gap.begin)} until {Instants(snapshot).at(gap.end)}"
        alike.setdefault(told, []).append(gap.engine)
    for told, names in alike.items():
        yield f"{' '.join(names[:FEW])}{_more(len(names))} {told}"


def _why(snapshot: Snapshot, engine: str) -> str:
    notes = (process.note for process in snapshot.processes if label_of(process) == engine)
    return next((f" ({note})" for note in notes if note), "")


def _named(counts: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} ({n:,})" for name, n in counts[:FEW]) + _more(len(counts))


def _more(number: int) -> str:
    return f" and {number - FEW} more" if number > FEW else ""


def _fitting(notes: list[str], room: int) -> str:
    """As many as fit a line, the first in any case; how many more there are."""
    fit = list(notes)
    while len(fit) > 1 and len("; ".join(fit)) + len(f"; {len(notes)} more") > room:
        fit.pop()
    more = len(notes) - len(fit)
    return "; ".join(fit) + (f"; {more} more" if more else "")
