"""The head of a report: what was seen, in what state, on which engines with which settings."""

from __future__ import annotations

from typing import Any

from kvscope.analysis.condition import Clocks, Condition
from kvscope.analysis.handles import shown
from kvscope.analysis.render.amounts import duration, share
from kvscope.analysis.render.clocks import put_clocks
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import HEADING, WARNING
from kvscope.analysis.setup import BRIEF, SHOWN, Fact, Setup
from kvscope.analysis.summary import Summary
from kvscope.model.counting import count
from kvscope.model.requests import State

FEW = 4
PATIENCE_NS = 10_000_000_000
"""Requests in flight are no news; one that is older than this is."""
ROUTER_FACTS = ("name", "router", "version", "dispatch")


def put_title(page: Page, summary: Summary) -> None:
    """What, how many, how long, between whom."""
    seconds = summary.condition.seconds
    parts = [f"kvscope report  {count(summary.condition.requests, 'request')} in {duration(seconds * 1e9)}"]
    named = [f"{prefill or '?'} -> {decode}" if prefill else decode for prefill, decode, _ in summary.pairs[:2]]
    more = len(summary.pairs) - len(named)
    if named:
        parts.append(", ".join(named) + (f" and {count(more, 'other pair')}" if more else ""))
    page.prose("   ".join(parts), hang=2, style=HEADING)


def put_condition(page: Page, found: Condition) -> None:
    """Counts first: no number below is better than these."""
    page.items("DATA", _states(found), style="" if _good(found) else WARNING)
    if found.shapes:
        page.items("", ["shapes of complete:", *(f"{name} {n:,}" for name, n in found.shapes)])
    if found.one_legged:
        page.items("", ["one-legged, seen only from:", *(f"{where} ({n:,})" for where, n in found.one_legged[:FEW])])
    for where, requests in found.unaligned[:FEW]:
        page.labelled(
            "", f"clocks not aligned, in no percentile: {where}: {_who(requests)} ({len(requests):,})", WARNING
        )
    if found.missing:
        more = len(found.missing) - FEW
        rest = [f"and {more} more"] if more > 0 else []
        page.items("", ["missing:", *(f"{name} ({n:,})" for name, n in found.missing[:FEW]), *rest])
    if found.waiting.count:
        _put_waiting(page, found)
    for engine, why in found.dark:
        page.labelled("", f"not instrumented: {engine}: {why}", WARNING)
    if found.failures:
        page.items("", ["failures:", *(f"{shown(what)} ({n:,})" for what, n in found.failures[:FEW])], WARNING)
    if marks := [(name, n) for name, n in found.marks if name != "unaligned"]:  # those are named above
        page.items("", ["marked:", *(f"{name} {n:,}" for name, n in marks)])


def _good(found: Condition) -> bool:
    return not found.broken and not found.trouble


def _states(found: Condition) -> list[str]:
    whole = found.states[State.COMPLETE]
    states = [f"complete {whole:,} of {found.over:,} ({share(whole, found.over)})"]
    for state in (State.ONE_LEGGED, State.INCOMPLETE, State.UNFINISHED, State.UNMATCHED):
        states.append(f"{state.replace('_', '-')} {found.states[state]:,}")
    if found.states[State.UNALIGNED]:
        states.append(f"unaligned {found.states[State.UNALIGNED]:,}")
    states += [f"events {found.tally.events:,}", f"lost {found.tally.lost:,}"]
    if found.tally.earlier:
        states.append(f"{count(found.tally.earlier, 'older one')} no longer in the rings")
    if found.tally.cleanups:
        states.append(f"{count(found.tally.cleanups, 'clean-up')} by API servers, no requests")
    return states + [f"{name.replace('_', ' ')} {n:,}" for name, n in found.trouble if name != "lost"]


def _put_waiting(page: Page, found: Condition) -> None:
    waiting = found.waiting
    oldest = f"oldest {duration(waiting.oldest_ns)} ({shown(waiting.oldest)})"
    last = ", ".join(f"{name} ({n:,})" for name, n in waiting.last_moments[:FEW])
    page.labelled(
        "",
        f"unfinished: {waiting.count:,}, in no percentile; {oldest}; last moment {last}",
        WARNING if waiting.oldest_ns > PATIENCE_NS else "",
    )


def put_brief(page: Page, setup: Setup, clocks: Clocks) -> None:
    """What no number may be read without: clocks, versions, connector, placement, router; and what differs."""
    if len(setup.hosts) > 1 or clocks.pairs:
        put_clocks(page, setup.hosts, clocks)
    if not setup.facts:
        page.labelled("SETUP", "not told: no engine recorded its start, so versions and settings are unknown.")
    told = [_shown(fact) for name in BRIEF if (fact := setup.facts.get(name)) is not None]
    routers = sorted({_router(router) for router in setup.routers})
    if told or routers:
        page.items("SETUP" if told else "", told + routers)
    for fact in setup.differences:
        values = "; ".join(f"{value} on {_who(who)}" for value, who in fact.values)
        page.labelled("", f"differs: {_label(fact.name)}: {values}", WARNING)
    if setup.facts and setup.silent:
        page.labelled("", f"did not tell: {_who(setup.silent)}", WARNING)


def put_setup(page: Page, setup: Setup) -> None:
    """All that a later comparison needs to know."""
    if not setup.facts:
        return
    page.heading("SETUP", f"as {count(len(setup.engines), 'engine')} told at the start")
    for title, names in SHOWN:
        told = [_shown(fact) for name in names if (fact := setup.facts.get(name)) is not None]
        if told:
            page.items(title, told)
    for router in setup.routers:
        page.items("router", [f"{name} {value}" for name, value in router.items() if name in ROUTER_FACTS])


def _router(router: dict[str, Any]) -> str:
    facts = (str(router[name]) for name in ROUTER_FACTS if router.get(name))
    return f"router {' '.join(facts)}"


def _shown(fact: Fact) -> str:
    return f"{_label(fact.name)} {'(differs)' if fact.differs else fact.values[0][0]}"


def _label(name: str) -> str:
    return {"vllm": "vLLM", "nixl": "NIXL", "ucx_tls": "UCX_TLS"}.get(name, name.replace("_", " "))


def _who(named: tuple[str, ...]) -> str:
    more = len(named) - FEW
    return ", ".join(map(shown, named[:FEW])) + (f" and {more} more" if more > 0 else "")
