"""Alerts about one engine."""

from __future__ import annotations

from kvscope.alerts.models import FEW
from kvscope.alerts.query import both, increase, rate, total, unless
from kvscope.alerts.recordings import lost
from kvscope.alerts.rule import Alert, Guard, Severity

LOSABLE = 0.001
"""Share of events that may be lost. A push needs some 35 of them, so that up to 3.5 % of the requests lack one."""
FAST, SLOW = 14.4 * LOSABLE, 6 * LOSABLE
THREE = "2.5"
"""At least three: an increase is no whole number."""
_ENGINE = "{{ $labels.engine_name }} ({{ $labels.model_name }})"
_PERCENT = "{{ $value | humanizePercentage }}"

_FREE = "\n  / ".join(total("engine", f"kvscope_engine_kv_blocks{which}") for which in ("_free", ""))
_WAITING = total("engine", 'min_over_time(kvscope_engine_requests{state="waiting"}[5m])')
_HELD = increase("engine", 'engine_holds_total{reason="blocks"}', "1h")
_TRANSFERS = 'engine_transfers_total{leg="prefill"}'
_WAKING = rate("engine", 'engine_stage_seconds_total{stage="writer_wake"}', "15m")
_BEGUN, _MADE = (increase("engine", f"engine_handshakes_{end}_total", "10m") for end in ("begun", "ended"))
_REFUSED = increase("engine", 'engine_failures_total{kind="handshake"}', "10m")
_EXPIRED = increase("engine", 'engine_failures_total{kind="expired"}', "30m")
_LEGS = increase("engine", "engine_legs_total", "30m")
_LOST = (
    f"({lost('1h')} > {FAST:g} and {lost('5m')} > {FAST:g}\nor {lost('6h')} > {SLOW:g} and {lost('30m')} > {SLOW:g})"
)

ALERTS: tuple[Alert, ...] = (
    Alert(
        name="KvscopeDecodeOutOfBlocks",
        severity=Severity.CRITICAL,
        when=f"{_WAITING} > 0",
        because="At every scrape of five minutes somebody waited: the queue never got empty.",
        guards=(
            Guard(both("engine", f"{_HELD} > 0"),
                  "within the hour requests were held for want of blocks, not of a slot or of the step's budget"),
            Guard(both("engine", f"{_FREE} < 0.5"),
                  "not half of the cache is free: else it admits any usual prompt, and the wait is for something else"),
            Guard(unless("engine", 'kvscope_engine_info{role="kv_producer"}'),
                  "it is no prefill engine: that one waits for its own compute, or for decode to take its blocks"),
        ),
        hold="2m",
        held="seven minutes in all: meanwhile answers end and free their blocks, if there is nothing wrong",
        summary=f"decode engine {_ENGINE} has no KV blocks for the {{{{ $value }}}} requests that wait",
        description="Requests wait before their registration or read can begin, small ones behind a large one too. "
        "Either there is more load than this cache holds, or blocks are held by requests that wait for "
        "something that will not come.",
    ),
    Alert(
        name="KvscopeWriterStarved",
        severity=Severity.WARNING,
        when=f"{_WAKING}\n/ {rate('engine', _TRANSFERS, '15m')} > 0.02",
        because="A writer that finds a core free is awake within 1 ms. 20 ms are four of Python's switch intervals: "
        "four times in a row another thread had the interpreter, or another process the core.",
        guards=(
            Guard(both("engine", f"{increase('engine', _TRANSFERS, '15m')} >= {FEW}"),
                  f"{FEW} transfers at least: fewer are an accident, not a state"),
        ),
        hold="10m",
        held="a compilation, or a model that is loaded beside it, takes the cores for minutes",
        summary=f"before each transfer the writer of {_ENGINE} waits {{{{ $value | humanizeDuration }}}} for a core",
        description="Finished blocks lie ready, and the thread that is to write them does not run: something takes "
        "its core, or Python's interpreter lock. It is not the number of descriptors, which makes "
        "prepare and submit longer and not the waking up.",
    ),
    Alert(
        name="KvscopeHandshakeFailing",
        severity=Severity.CRITICAL,
        when=f"({_BEGUN}\n- {_MADE} > {THREE}\nor {_REFUSED} > {THREE})",
        because="Three in ten minutes: one fails where an engine is replaced while it is called, and is tried again.",
        guards=(),
        hold="2m",
        held="a first contact can take 38 s, and twenty new engines make twenty at once",
        summary=f"{_ENGINE} does not reach its peers: {{{{ $value | printf `%.0f` }}}} first contacts failed in 10 "
        "minutes",
        description="Requests between these engines fail or hang; with push, decode waits without end for blocks "
        "that prefill cannot write. Each attempt keeps the engine's one handshake thread busy until its "
        "timeout of 5 s, so that good peers wait as well.",
    ),
    Alert(
        name="KvscopeLeaseExpiry",
        severity=Severity.WARNING,
        when=f"{_EXPIRED}\n/ {_LEGS} > 0.01",
        because="One in a hundred: fewer are clients that leave between prefill and decode.",
        guards=(
            Guard(both("engine", f"{_EXPIRED} > {THREE}"), "three at least: one is a client that left at a bad moment"),
            Guard(both("engine", f"{_LEGS} >= {FEW}"), f"{FEW} requests at least: of fewer a share says nothing"),
        ),
        hold="5m",
        held="the windows are smooth by themselves; this bridges a gap in the scrapes",
        summary=f"leases run out on {_ENGINE}: those of {_PERCENT} of its requests",
        description="Blocks were given up before the other side had them. That prefill was for nothing. With pull it "
        "may be worse: decode can have read blocks that belong to another request by then, and a wrong "
        "answer goes out with HTTP 200.",
    ),
    Alert(
        name="KvscopeEventsLost",
        severity=Severity.WARNING,
        when=_LOST,
        because=f"The budget is {LOSABLE:.1%} of all events. At 14.4 times that, an hour uses 2 % of what 30 days "
        "may; at 6 times, six hours use 5 %: the customary pairs, each with a window of a twelfth that ends "
        "the alert.",
        guards=(
            Guard(both("engine", f"{increase('engine', 'engine_events_total', '1h')} >= 1000"),
                  "1,000 events within the hour, some thirty requests, at least: of less a share says nothing"),
        ),
        hold="5m",
        held="a reader that stood still catches up by then",
        summary=f"{_PERCENT} of the events of {_ENGINE} are lost",
        description="Requests are served; what is told of them is not whole. One that lacks an event enters no time, "
        "and those that remain may be the quiet ones. Until this ends, trust no percentile and no other "
        "alert of this engine.",
    ),
)  # fmt: skip
