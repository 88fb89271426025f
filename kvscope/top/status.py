"""The last lines of the screen: what is shown is of when, what was just done, and the keys."""

from __future__ import annotations

from rich.text import Text

from kvscope.analysis.render.amounts import duration
from kvscope.analysis.render.palette import QUIET, STRONG, WARNING
from kvscope.live.feed import Flow
from kvscope.live.snapshot import Snapshot
from kvscope.model.counting import count
from kvscope.top.keys import KEYS
from kvscope.top.pages.instants import Instants


def status(shown: Snapshot | None, newest: Snapshot | None, frozen: bool, said: str) -> Text:
    """One line: in what state it is; then what was just done, else the time and how much comes."""
    if shown is None or newest is None:
        return Text(said or "reading ..", QUIET)
    text = Text()
    if frozen:
        behind = duration(max(0, newest.now - shown.now))
        text.append(f"FROZEN {behind} ago, collecting goes on (p goes on)   ", WARNING)
    elif shown.flow is not Flow.LIVE:
        text.append(f"{shown.flow.upper()}  ", WARNING if shown.flow is Flow.LOST else STRONG)
    if shown.remark:
        text.append(f"{shown.remark}   ", WARNING if shown.flow is Flow.LOST else "")
    if said:
        return text.append(said, STRONG)
    return text.append(
        f"{clock(shown)}  {shown.rates.events:,.0f} events/s  {count(len(shown.window), 'request')}", QUIET
    )


def clock(snapshot: Snapshot) -> str:
    """The time of day where it is known, else the time since the data began."""
    if snapshot.wall_ns is not None:
        return Instants(snapshot).at(snapshot.now, fine=snapshot.flow is Flow.PAUSED)
    if snapshot.begun is None:
        return "no data yet"
    begun = snapshot.begun if snapshot.first is None else min(snapshot.first, snapshot.begun)
    return "+" + duration(max(0, snapshot.now - begun))


def keys(view: str, width: int) -> Text:
    """The foot: what fits, the view that is shown in reverse."""
    text = Text()
    for key in KEYS:
        piece = f" {key.shown} {key.brief} "
        if not key.brief or len(text) + len(piece) > width:
            continue
        text.append(piece, "reverse" if f"'{view}'" in key.action else "")
    return text
