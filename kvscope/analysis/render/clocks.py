"""CLOCK: what times between hosts are worth, or that there are none."""

from __future__ import annotations

from collections.abc import Sequence

from kvscope.analysis.condition import Clocks
from kvscope.analysis.render.amounts import duration
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import WARNING
from kvscope.model.clockpair import ClockPair
from kvscope.model.counting import count

FEW = 3


def put_clocks(page: Page, hosts: Sequence[str], clocks: Clocks) -> None:
    """One line for all, and one for each of the pairs that count most."""
    named = f"{len(hosts)} hosts ({', '.join(hosts[:FEW])}{', ..' if len(hosts) > FEW else ''})"
    known = [pair for pair in clocks.pairs if pair.offset_ns is not None]
    if not known:
        page.labelled(
            "CLOCK",
            f"{named} whose clocks were not aligned: how long it takes from one to another is not known, and requests "
            "between them are in no percentile.",
            WARNING,
        )
    elif not clocks.requests:
        page.labelled("CLOCK", f"{named}; no request between them is timed")
    else:
        page.labelled(
            "CLOCK",
            f"{named}, compared by the messages between them: {count(clocks.requests, 'timed request')} whose times "
            f"from one to another may be wrong by {duration(clocks.bound_p50_ns)} (p50), "
            f"{duration(clocks.bound_most_ns)} at most",
        )
    for pair in sorted(clocks.pairs, key=lambda pair: -(pair.sent + pair.received))[:FEW]:
        page.labelled("", _pair(pair), WARNING if pair.steps or pair.offset_ns is None else "")
    if clocks.uncertain:
        short = ", ".join(f"{stage} ({n:,})" for stage, n in clocks.uncertain)
        page.labelled("", f"not longer than it may be wrong by (~): {short}", WARNING)


def _pair(pair: ClockPair) -> str:
    messages = f"{pair.sent:,} messages there and {pair.received:,} back"
    if pair.offset_ns is None or pair.bound_ns is None:
        lacking = "" if pair.sent and pair.received else ": they bound it on one side only"
        return f"{pair.here} and {pair.there} do not compare, by {messages}{lacking}{_steps(pair)}"
    ahead = "ahead of" if pair.offset_ns >= 0 else "behind"
    drift = "" if pair.drift is None else f", drifts {pair.drift[0] * 1e6:+.1f} to {pair.drift[1] * 1e6:+.1f} ppm"
    return (
        f"{pair.there} is {duration(abs(pair.offset_ns))} {ahead} {pair.here} within {duration(pair.bound_ns)}{drift}, "
        f"by {messages}{_steps(pair)}"
    )


def _steps(pair: ClockPair) -> str:
    if not pair.steps:
        return ""
    doubt = duration(pair.doubtful_ns)
    return f"; stopped or set {count(pair.steps, 'time')}, and in {doubt} around that nothing is told across"
