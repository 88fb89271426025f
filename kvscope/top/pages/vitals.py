"""The overview's lower half: a line each for coordination, the trend, the price, the answers, trouble, odd engines."""

from __future__ import annotations

from statistics import median

from kvscope.analysis.overlap import Overlap
from kvscope.analysis.price import Posting, Price
from kvscope.analysis.render.amounts import NOT_KNOWN, Milliseconds, duration, share
from kvscope.analysis.render.fleet import scale_of
from kvscope.analysis.render.page import LABEL, Page
from kvscope.analysis.render.palette import HEADING, QUIET, WARNING
from kvscope.live.oddities import SHARE, TIME, Oddities, Oddity
from kvscope.live.roster import Roster
from kvscope.live.snapshot import Snapshot
from kvscope.live.trend import STEP_NS
from kvscope.live.trouble import gather_trouble
from kvscope.model.counting import count
from kvscope.top.pages.slots import GAP, Slot, put_slots
from kvscope.top.pages.sparkline import sparkline

SPANS = (3, 10, 30)
"""Minutes that the trend shows: the least that holds what there is."""
MINUTE_STEPS = 60_000_000_000 // STEP_NS
TAIL = 24
"""Room behind the sparkline for its least and its greatest."""
HINTS = ("SLO not set (--slo ttft=1s sets one)", "SLO not set (--slo)")
"""The first that has room beside what stands before."""


def put_coordination(page: Page, snapshot: Snapshot) -> None:
    """Exposed and hidden, and whether registrations were early; each beside what it was."""
    found = snapshot.summary.overlap
    regime = snapshot.regime
    was = regime.before.overlap if regime is not None and regime.before is not None else None
    scale = scale_of(snapshot.summary)
    timed = snapshot.summary.condition.timed
    slots = [
        Slot(f"exposed {_exposed(found if timed else None, scale)}{_was(_exposed(was, scale))}", 38),
        Slot(f"hidden {_hidden(found if timed else None, scale)}{_was(_hidden(was, scale))}", 26),
        Slot(f"registered before staged {_early(found)}{_was(_early(was))}", 40),
    ]
    put_slots(page, "coordination", slots)


def _exposed(found: Overlap | None, scale: Milliseconds) -> str:
    return NOT_KNOWN if found is None else scale.between(*found.exposed_ns)


def _hidden(found: Overlap | None, scale: Milliseconds) -> str:
    return NOT_KNOWN if found is None else scale.of(found.hidden_ns)


def _early(found: Overlap | None) -> str:
    return NOT_KNOWN if found is None else share(found.overlapped, found.pushes)


def _was(text: str) -> str:
    return f" (was {text})" if text != NOT_KNOWN else ""


def put_trend(page: Page, snapshot: Snapshot) -> None:
    """p95 over the last half hour, or what there is of it."""
    points = {point.begin // STEP_NS: point.p95_ns for point in snapshot.trend}
    last = snapshot.now // STEP_NS
    age = last - min(points, default=last) + 1
    minutes = next((each for each in SPANS if age <= each * MINUTE_STEPS), SPANS[-1])
    room = page.width - LABEL - TAIL - 2
    line = sparkline(points, last, minutes * MINUTE_STEPS, room)
    scale = Milliseconds(max(points.values(), default=0.0))
    tail = f"{scale.of(min(points.values()))} to {scale.of(max(points.values()))} ms" if points else NOT_KNOWN
    put_slots(page, f"p95, {minutes} min", [Slot(line, len(line)), Slot(tail, TAIL, QUIET)])


def put_price(page: Page, price: Price) -> None:
    """What was paid for early commitment, in three figures; the view of its own has the rest."""
    held, regret = price.reserved, price.regret
    most = max(price.posting, key=lambda post: post.requests, default=None)
    sent = sum(post.requests for post in price.posting)
    idle = NOT_KNOWN if held.capacity is None else share(held.capacity, 1)
    slots = [
        Slot(f"reserved-idle {idle} of D blocks", 31),
        Slot(f"regret {share(regret.regretted, regret.judged)}", 12),
        Slot(_posts(most, sent), 17),
        Slot(f"{duration(most.mean_ns)} each" if most else "", 13, spare=True),
    ]
    put_slots(page, "price", slots)


def _posts(most: Posting | None, sent: int) -> str:
    """By which thread; there may be none that was told."""
    if most is None:
        return f"posts {NOT_KNOWN}"
    return f"{most.thread} posts {share(most.requests, sent)}" if most.told else f"posting thread {NOT_KNOWN}"


def put_running(page: Page, snapshot: Snapshot, roster: Roster) -> None:
    """After the first token, and whether the objectives were met."""
    tpot = snapshot.summary.running.tpot_ns.get("p95")
    slots = [
        Slot(f"TPOT p95 {NOT_KNOWN if tpot is None else Milliseconds(1e6).of(tpot)} ms", 17),
        Slot(f"connector {_connector(snapshot.summary.price, roster)} of D step", 25),
    ]
    slots += _objectives(snapshot, page.width - LABEL - sum(slot.room + GAP for slot in slots))
    put_slots(page, "running", slots)


def _connector(price: Price, roster: Roster) -> str:
    """The median decode engine's: the odd ones have a line of their own."""
    shares = [step.share for step in price.connector if step.engine in roster.decode.engines]
    return share(median(shares), 1) if shares else NOT_KNOWN


def _objectives(snapshot: Snapshot, room: int) -> list[Slot]:
    found = snapshot.summary.attainment
    if found is None:
        hint = next((text for text in HINTS if len(text) <= room), HINTS[-1])
        return [Slot(hint, len(hint), QUIET)]
    limits = (("TTFT", found.objectives.ttft_ns, found.ttft_met), ("TPOT", found.objectives.tpot_ns, found.tpot_met))
    kept = [
        Slot(f"{name} {duration(limit)} met {share(met, found.judged)}", 22)
        for name, limit, met in limits
        if limit is not None
    ]
    goodput = NOT_KNOWN if found.goodput is None else f"{found.goodput:,.2f}"
    return [*kept, Slot(f"goodput {goodput}/s", 15)]


def put_trouble(page: Page, snapshot: Snapshot) -> None:
    """Rates of what goes wrong, and how many wait without an end in sight."""
    found = gather_trouble(snapshot.window, snapshot.summary.bands, snapshot.now - snapshot.begin)
    slots = [
        Slot(f"failures {_rate(found.per_minute(found.failures))}", 18, WARNING if found.failures else ""),
        Slot(f"expired {_rate(found.per_minute(found.expired))}", 16, WARNING if found.expired else ""),
        Slot(f"preempted {_rate(found.per_minute(found.preempted))}", 18),
        Slot(f"stuck {found.stuck:,}", 8, WARNING if found.stuck else ""),
        Slot(f"(no first token for {duration(found.stuck_ns)})", 28, QUIET, spare=True),
    ]
    put_slots(page, "trouble", slots, WARNING if found.failures or found.stuck else HEADING)


def _rate(per_minute: float) -> str:
    return f"{per_minute:,.0f}/min" if per_minute >= 10 or not per_minute else f"{per_minute:.1f}/min"


def put_odd(page: Page, found: Oddities) -> None:
    """The engines that are not like their peers, in one line."""
    if not found.compared:
        put_slots(page, "odd ones out", [Slot(f"{NOT_KNOWN}  (it takes three engines of a role to tell)", 0, QUIET)])
    elif not found.found:
        put_slots(page, "odd ones out", [Slot(f"none of {_compared(found)}", 0)])
    else:
        put_slots(page, "odd ones out", [Slot(_odd(found, page.width - LABEL), 0, WARNING)])


def _compared(found: Oddities) -> str:
    return ", ".join(f"{n:,} {'D' if role == 'decode' else 'P'}" for role, n in found.compared)


def _odd(found: Oddities, room: int) -> str:
    """As many as fit, the oddest first."""
    texts = [_one(oddity) for oddity in found.found]
    shown = len(texts)
    while shown > 1 and len("  ".join(texts[:shown])) + len("  and 99 more") * (shown < len(texts)) > room:
        shown -= 1
    return "  ".join(texts[:shown]) + (f"  and {count(len(texts) - shown, 'other')}" if shown < len(texts) else "")


def _one(oddity: Oddity) -> str:
    value, peers = (_figure(oddity, each) for each in (oddity.value, oddity.peers))
    return f"{oddity.engine} {oddity.rule.name} {value} (peers {peers})"


def _figure(oddity: Oddity, value: float) -> str:
    if oddity.rule.unit == TIME:
        return duration(value)
    return share(value, 1) if oddity.rule.unit == SHARE else f"{value:,.0f}"
