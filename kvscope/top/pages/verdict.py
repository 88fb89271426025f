"""The overview's verdict in words: what leads, since when, how decode is called, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kvscope.analysis.headline import Leader, leader_of
from kvscope.analysis.render import words
from kvscope.analysis.render.amounts import Milliseconds
from kvscope.analysis.render.fleet import scale_of
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import STRONG
from kvscope.analysis.render.rounding import rounded_band
from kvscope.live.regime import Before, Regime
from kvscope.live.snapshot import Snapshot
from kvscope.live.spread import DECODE, PAIR, PREFILL, Excess, Spread, gather_spread
from kvscope.model.counting import count
from kvscope.top.pages.instants import Instants

LINES = 4
"""Kept free for the verdict, so that what is below stays where it is when a sentence grows."""
ALL_SLOWEST = 20
"""Below so many requests the nearest-rank p95 is the slowest of all."""
NAMED = 3


def put_verdict(page: Page, snapshot: Snapshot) -> None:
    """What a report of the same requests says leads, in its very words, and what only a live view can add."""
    before = len(page.lines)
    summary = snapshot.summary
    scale = scale_of(summary)
    slow = summary.leaders[0]
    said = replace(slow, band=rounded_band(slow.band, scale))
    page.prose(f">> {words.leader(said, scale)} {_since(snapshot, slow)}", hang=3, style=STRONG)
    spread = gather_spread(snapshot.window, slow.classes)
    rest = (_manner(snapshot), _where(spread, scale), _few(summary.condition.timed), words.behind(said, scale))
    page.prose(" ".join(filter(None, rest)), 3)
    for _ in range(LINES - (len(page.lines) - before)):
        page.line()


def _since(snapshot: Snapshot, slow: Leader) -> str:
    """Since when it leads. What leads p95 and what leads the slow half may differ for a while: that is said."""
    regime, instants = snapshot.regime, Instants(snapshot)
    if regime is None:
        return "Too few requests to say since when."
    if regime.cls not in slow.classes:
        return f"The slower half is led by {regime.cls} {_from(regime, snapshot)}."
    if regime.since is not None and regime.before is not None and _led(regime.before, slow):
        return f"It did so before {instants.since(regime.since)} too."
    return f"So {_from(regime, snapshot)}."


def _from(regime: Regime, snapshot: Snapshot) -> str:
    if regime.since is not None:
        return f"since {Instants(snapshot).since(regime.since)}"
    begun, first = snapshot.begun, snapshot.first
    if begun is not None and first is not None and first < begun:
        return f"since before {Instants(snapshot).since(begun)} (as far as a jump looks back)"
    if begun is None or snapshot.wall_ns is None:
        return "since before the start of data"
    return f"since before {Instants(snapshot).at(begun)} (start of data)"


def _led(before: Before, slow: Leader) -> bool:
    """Whether the same was found before it changed."""
    band = next((band for band in before.bands if band.name == slow.band.name), None)
    return band is not None and set(leader_of(band).classes) == set(slow.classes)


def _manner(snapshot: Snapshot) -> str:
    regime = snapshot.regime
    if regime is None:
        return ""
    if regime.before is None or regime.since is None or regime.before.manner == regime.manner:
        return regime.manner.sentence
    when = Instants(snapshot).since(regime.since)
    return f"{regime.manner.sentence.rstrip('.')} since {when} (before: {regime.before.manner.name})."


def _where(spread: Spread, scale: Milliseconds) -> str:
    """Evenly, or where; or that it cannot be told."""
    if spread.excesses:
        return _concentrated(spread, scale)
    if not spread.pairs:
        return ""
    if spread.pairs == 1:
        return "Only one pair of engines is seen."
    sides = [(spread.prefill, "prefill"), (spread.decode, "decode")]
    over = " and ".join(f"{n:,} {name}" for n, name in sides if n > 1)
    if not spread.sure:
        return f"Too few requests to tell whether it is even over {over} engines."
    return f"Even over {over} engines."


def _concentrated(spread: Spread, scale: Milliseconds) -> str:
    first, more = spread.excesses[0], len(spread.excesses) > 1
    of = {PAIR: spread.pairs, PREFILL: spread.prefill, DECODE: spread.decode}[first.kind]
    kind = "the pair" if first.kind == PAIR else first.kind
    return (
        f"Concentrated on {kind} {_names(spread.excesses)}, of {of:,}: {scale.of(first.mean_ns)} ms of it on average"
        f"{f' on {first.name}' if more else ''}, {scale.of(first.peers_ns)} on its peers."
    )


def _names(excesses: Iterable[Excess]) -> str:
    names = [excess.name for excess in excesses]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _few(timed: int) -> str:
    return f"Of {count(timed, 'request')} p95 and p99 are the slowest." if timed < ALL_SLOWEST else ""
