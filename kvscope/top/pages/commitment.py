"""The ledger of early commitment: what calling decode early bought, what it cost, where the work went, by engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvscope.analysis.holding import Held
from kvscope.analysis.overlap import Overlap
from kvscope.analysis.render import words
from kvscope.analysis.render.amounts import NOT_KNOWN, Milliseconds, duration, share
from kvscope.analysis.render.fleet import scale_of
from kvscope.analysis.render.page import Page, cells
from kvscope.analysis.render.palette import HEADING, QUIET, STRONG
from kvscope.analysis.render.price import put_blocks, put_work
from kvscope.analysis.summary import Summary
from kvscope.live.ledger import Account, accounts, backlog
from kvscope.live.regime import Before
from kvscope.live.snapshot import Snapshot
from kvscope.model.counting import count
from kvscope.top.pages.instants import Instants

SCALE = Milliseconds(1e9)


def put_commitment(page: Page, snapshot: Snapshot) -> None:
    """Draw it. The figures of all are in the very words of `kvscope report`."""
    summary = snapshot.summary
    page.prose(_title(snapshot), hang=2, style=HEADING)
    if not summary.condition.requests:
        page.prose(_nothing(snapshot))
        return
    for sentence in _sentences(summary):
        page.prose(sentence, hang=3, style=STRONG)
    _put_bought(page, snapshot)
    _put_cost(page, snapshot)
    _put_work(page, snapshot)
    _put_engines(page, accounts(snapshot))


def _title(snapshot: Snapshot) -> str:
    regime, found = snapshot.regime, snapshot.summary.condition
    span = duration(max(0, snapshot.now - snapshot.begin))
    parts = [f"COMMITMENT  {found.timed:,} complete of {count(found.requests, 'request')}, last {span}"]
    if regime is not None:
        parts.append(regime.manner.sentence)
        if regime.before is not None:
            was = f" ({regime.before.manner.name})" if regime.before.manner != regime.manner else ""
            parts.append(f"was: until {Instants(snapshot).since(regime.before.end)}{was}")
    return "   ".join(parts)


def _nothing(snapshot: Snapshot) -> str:
    if not snapshot.processes:
        return "No engine was seen. If vLLM runs here, `kvscope doctor` tells what it lacks to be seen."
    return "No request in this time, so nothing was committed to."


def _sentences(summary: Summary) -> list[str]:
    """What was traded for what; or why that cannot be said."""
    found = summary.overlap
    if not summary.condition.timed:
        return [_one_side(summary)]
    if not found.pushes + found.pulls:
        return [">> No complete request was handed from engine to engine: nothing was committed to early."]
    price = summary.price.reserved
    scale = scale_of(summary)
    bought = f"{scale.of(found.hidden_ns)} ms of coordination hidden per request"
    paid = _paid(price)
    return [f">> {bought}, for {paid}.", *filter(None, [words.overlap(found)])]


def _one_side(summary: Summary) -> str:
    sides = {where.partition(" ")[0] for where, _ in summary.condition.one_legged}
    if len(sides) == 1:
        (side,) = sides
        return f">> Only {side} legs are seen: what was hidden is not known; the cost on that side is."
    return ">> No request is complete: what was hidden is not known."


def _paid(held: Held) -> str:
    if held.equivalents is not None:
        return f"{held.equivalents:.2g} decode engines' worth of KV blocks held empty"
    return "KV blocks held empty on decode, of which the share is not known"


def _before(snapshot: Snapshot) -> Before | None:
    return snapshot.regime.before if snapshot.regime is not None else None


def _put_bought(page: Page, snapshot: Snapshot) -> None:
    summary = snapshot.summary
    if not summary.condition.timed:
        return
    page.heading("BOUGHT", f"measured; means of {count(summary.condition.timed, 'complete request')}")
    found, before = summary.overlap, _before(snapshot)
    was, scale = before.overlap if before else None, scale_of(summary)
    hidden = f"hidden {scale.of(found.hidden_ns)} ms" + _was(scale.of(was.hidden_ns) if was else "")
    exposed = f"exposed {scale.between(*found.exposed_ns)} ms" + _was(scale.between(*was.exposed_ns) if was else "")
    page.items("coordination", [hidden, exposed])
    if found.pushes:
        early = f"before staged in {_early(found)} of {count(found.pushes, 'push', 'pushes')}"
        page.labelled("registered", early + _was(_early(was) if was and was.pushes else ""))
    for slack in found.slacks:
        page.labelled(slack.branch if slack.branch != "registration" else "", words.slack(slack, scale))


def _early(found: Overlap) -> str:
    return share(found.overlapped, found.pushes)


def _was(text: str) -> str:
    return f" (was {text})" if text else ""


def _put_cost(page: Page, snapshot: Snapshot) -> None:
    price = snapshot.summary.price
    page.heading("COST", "measured; of all requests, whether complete or not")
    if not price.reserved.requests:
        page.labelled("reserved-idle", "not known: no decode engine that records reserved blocks")
    if not price.pinned.requests:
        page.labelled("pinned", "not known: no prefill engine that records held blocks after prefill")
    put_blocks(page, price)
    before = _before(snapshot)
    if before is not None and before.reserved.requests:
        page.labelled("before", f"reserved-idle {_held(before.reserved)}")


def _held(held: Held) -> str:
    """In a few words: share, equivalents, median."""
    facts = [] if held.capacity is None else [f"{share(held.capacity, 1)} of blocks"]
    facts += [] if held.p50_ns is None else [f"{duration(held.p50_ns)} at p50"]
    return ", ".join([*facts, count(held.requests, "complete request")])


def _put_work(page: Page, snapshot: Snapshot) -> None:
    price, waiting = snapshot.summary.price, backlog(snapshot)
    if not (price.posting or price.connector or waiting.writers):
        return
    page.heading("WHERE THE WORK WENT", "prepare and submit by thread; the connector on the forward thread")
    put_work(page, price)
    if waiting.writers:
        blocks, writers = count(waiting.blocks, "request", "requests"), count(waiting.writers, "engine")
        registrations = count(waiting.registrations, "registration")
        page.items("backlog", [f"now: blocks of {blocks}", f"{registrations} before the writers of {writers}"])


@dataclass(frozen=True)
class Column:
    """A head, and the room below."""

    head: str
    room: int


COLUMNS = (
    Column("idle blk-s", 10),
    Column("share", 6),
    Column("engines", 8),
    Column("p50", 9),
    Column("pinned blk-s", 13),
    Column("share", 6),
    Column("p50", 9),
    Column("connector", 10),
    Column("wake p95", 9),
)
"""The last ones are left out of a narrow page."""


def _put_engines(page: Page, found: Sequence[Account]) -> None:
    if not found:
        return
    page.heading("BY ENGINE", "block-seconds add up to those above; times in ms")
    names = [account.engine for account in found]
    widths = [max(map(len, (*names, "engine"))), *(column.room for column in COLUMNS)]
    shown = next(n for n in range(len(widths), 0, -1) if sum(widths[:n]) + n - 1 <= page.width or n == 1)
    head = ["engine", *(column.head for column in COLUMNS)]
    for number, row in enumerate([head, *map(_row, found)]):
        page.line(cells(row[:shown], widths[:shown], gap=" "), "" if number else QUIET)


def _row(account: Account) -> list[str]:
    reserved, pinned = account.reserved, account.pinned
    return [
        account.engine,
        *_block_s(reserved),
        NOT_KNOWN if reserved is None or reserved.equivalents is None else f"{reserved.equivalents:.2g}",
        NOT_KNOWN if reserved is None or reserved.p50_ns is None else SCALE.of(reserved.p50_ns),
        *_block_s(pinned),
        NOT_KNOWN if pinned is None or pinned.p50_ns is None else SCALE.of(pinned.p50_ns),
        NOT_KNOWN if account.connector_share is None else share(account.connector_share, 1),
        NOT_KNOWN if account.wake_p95 is None else SCALE.of(account.wake_p95),
    ]


def _block_s(held: Held | None) -> tuple[str, str]:
    """Block-seconds, and their share of the engine's."""
    if held is None or held.block_s is None:
        return NOT_KNOWN, NOT_KNOWN
    return f"{held.block_s:,.1f}", NOT_KNOWN if held.capacity is None else share(held.capacity, 1)
