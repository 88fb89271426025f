"""What early commitment cost, beside what it won."""

from __future__ import annotations

from kvscope.analysis.holding import Held
from kvscope.analysis.price import Posting, Price, Regret
from kvscope.analysis.render.amounts import duration, share
from kvscope.analysis.render.page import Page
from kvscope.model.counting import count

FEW = 4


def put_price(page: Page, price: Price) -> None:
    """The other side of the ledger; nothing where nothing was held."""
    if not (price.reserved.requests or price.pinned.requests or price.connector):
        return
    page.heading("PRICE", "measured; what was paid for it elsewhere")
    put_blocks(page, price)
    put_work(page, price)


def put_blocks(page: Page, price: Price) -> None:
    """What was held, and what was decided on old news."""
    _put_held(page, "reserved-idle", price.reserved, "decode engine")
    _put_held(page, "pinned", price.pinned, "prefill engine")
    page.labelled("regret", _regret(price.regret))


def put_work(page: Page, price: Price) -> None:
    """On which threads the connector's work was done, and what it took from steps."""
    if price.posting:
        facts = [
            f"{_thread(post)} {duration(post.mean_ns)} on average ({count(post.requests, 'request')})"
            for post in price.posting
        ]
        page.items("post", facts)
    if price.writer_wake_ns is not None:
        middle, slow = price.writer_wake_ns
        page.items("writer wake", [f"{duration(middle)} at p50", f"{duration(slow)} at p95"])
    if price.connector:
        most = sorted(price.connector, key=lambda step: -step.share)
        facts = [f"{step.engine} {share(step.share, 1)} of {count(step.steps, 'step')}" for step in most[:FEW]]
        more = [f"and {count(len(most) - FEW, 'engine')} with less"] if len(most) > FEW else []
        page.items("connector", ["share of step time:", *facts, *more])


def _thread(post: Posting) -> str:
    return f"on the {post.thread} thread" if post.told else "thread not told:"


def _put_held(page: Page, label: str, held: Held, engine: str) -> None:
    if not held.requests:
        return
    facts = [] if held.block_s is None else [f"{held.block_s:,.1f} block-s"]
    if held.capacity is not None and held.equivalents is not None:
        facts.append(f"{share(held.capacity, 1)} of the blocks of {count(held.engines, engine)}")
        facts.append(f"= {held.equivalents:.2g} {engine}s")
    elif held.block_s is not None:
        facts.append("share not known: no engine told its KV blocks")
    if held.p50_ns is not None:
        facts.append(f"{duration(held.p50_ns)} at p50")
    facts.append(f"{count(held.requests, 'request')}" + (f", {held.still:,} still hold theirs" if held.still else ""))
    page.items(label, facts)


def _regret(found: Regret) -> str:
    if found.decoders < 2:
        return "not known: it takes two decode engines that tell their load"
    if not found.judged:
        return "not known: no load was told before prefill finished, by a clock that compares"
    told = f"another decoder had fewer waiting in {share(found.regretted, found.judged)} of {found.judged:,}"
    return told if found.waiting_p50 is None else f"{told}, by {found.waiting_p50:.0f} at the median"
