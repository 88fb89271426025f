"""Cases of alerts about pairs, and about kvscope itself."""

from __future__ import annotations

from .case import Case, Fired, Series, Values, counter, each, gap, gauge, restarted

PAIR = {"engine_name": "p0", "peer": "d0"}
_P = 'engine_name="p0",peer="d0"'
DAY, LATER = 1560, 60
_MB = 1e6


def moved(count: float = 60, size: float = 1.0, low_ms: float = 5.0, high_ms: float = 10.0, before: float = 60,
          calm: int = DAY) -> dict[str, Values]:  # fmt: skip
    """A day of transfers of 1 MB, 5 to 10 ms each, `before` a minute; then an hour of others."""

    def grown(first: float, then: float) -> Values:
        return counter((calm, first), (DAY + LATER - calm, then), step=5)

    return {
        f"kvscope_pair_requests_total{{{_P}}}": grown(before, count),
        f"kvscope_pair_timed_requests_total{{{_P}}}": grown(before, count),
        f"kvscope_pair_transfer_bytes_total{{{_P}}}": grown(before * _MB, count * size * _MB),
        f'kvscope_pair_transfer_seconds_total{{{_P},bound="low"}}': grown(before * 0.005, count * low_ms / 1000),
        f'kvscope_pair_transfer_seconds_total{{{_P},bound="high"}}': grown(before * 0.010, count * high_ms / 1000),
    }


def _others(series: Series) -> dict[str, Values]:
    return {name.replace('"p0"', '"other"').replace('"d0"', '"other"'): values for name, values in series.items()}


_END = DAY + LATER
_SLOW = moved(low_ms=40, high_ms=50)
TRANSFER = [
    Case("two fifths of the rate", moved(low_ms=20, high_ms=25), _END, (Fired("warning", PAIR, "40%"),), step=5),
    Case("three quarters of it, as far as is certain", moved(low_ms=12.5, high_ms=13.3), _END, step=5),
    Case("completions are seen late", moved(low_ms=5, high_ms=50), _END, step=5),
    Case("prefix hits", moved(size=0.125), _END, step=5),
    Case("one request a minute", moved(count=1, low_ms=40, high_ms=50, before=1), _END, step=5),
    Case("five times the load at the same rate", moved(count=300), _END, step=5),
    Case("it has just begun", moved(low_ms=40, high_ms=50, calm=_END - 20), _END, step=5),
    Case("a pair without a past", {name: values[-13:] for name, values in _SLOW.items()}, 60, step=5),
    Case("pairs that are added up", _others(_SLOW), _END, step=5),
    Case("a pair begins anew", each(moved(), restarted, 318), _END, step=5),
]
HERE = {"instance": "h:7878"}
_BOUND = 'kvscope_clock_bound_seconds{instance="h:7878"}'
_BROKEN = 'kvscope_clock_violations_total{instance="h:7878"}'


def over(per_minute: float) -> dict[str, Values]:
    """Requests that are over, a minute."""
    return {'kvscope_requests_total{instance="h:7878",model_name="m",state="unaligned"}': counter((120, per_minute))}


CLOCK = [
    Case("clocks that nothing aligns", {**over(60), _BOUND: gauge((121, float("inf")))}, 120,
         (Fired("warning", HERE),)),
    Case("a bound of 15 ms", {**over(60), _BOUND: gauge((121, 0.015))}, 120, (Fired("warning", HERE),)),
    Case("three in two hundred come before their cause", {**over(60), _BROKEN: counter((120, 0.9))}, 120,
         (Fired("warning", HERE),)),
    Case("a bound of 8 ms", {**over(60), _BOUND: gauge((121, 0.008)), _BROKEN: counter((120, 0))}, 120),
    Case("eight in a thousand", {**over(60), _BOUND: gauge((121, 0)), _BROKEN: counter((120, 0.48))}, 120),
    Case("one request a minute", {**over(1), _BOUND: gauge((121, 1))}, 120),
    Case("a host has just joined", {**over(60), _BOUND: gauge((60, 0), (61, 1))}, 66),
]  # fmt: skip
_SAVABLE = 'kvscope_incidents_savable{instance="h:7878",job="kvscope"}'
UNSAVED = [
    Case("the disk is full", {_SAVABLE: gauge((30, 1), (31, 0))}, 60,
         (Fired("warning", {"instance": "h:7878", "job": "kvscope"}),)),
    Case("it can be written to", {_SAVABLE: gauge((61, 1))}, 60),
    Case("it is full for five minutes", {_SAVABLE: gauge((50, 1), (5, 0), (6, 1))}, 54),
    Case("nobody wants incidents saved", {"vector": gauge((61, 1))}, 60),
]  # fmt: skip
_READS, _UP = 'kvscope_rings_readable{instance="h:7878",job="kvscope"}', 'up{instance="h:7878",job="kvscope"}'
_WHERE = {"instance": "h:7878", "job": "kvscope"}
_HOUR = gauge((61, 1))
BLIND = [
    Case("rings cannot be read", {_READS: gauge((61, 0)), _UP: _HOUR}, 60, (Fired("warning", _WHERE),)),
    Case("one of two servers is gone",
         {_UP: gauge((30, 1), (31, 0)), _READS.replace("h:", "i:"): _HOUR}, 60, (Fired("warning", _WHERE),)),
    Case("it was never there", {"vector": gauge((61, 1))}, 60, (Fired("warning", {}),)),
    Case("it reads", {_READS: _HOUR, _UP: _HOUR}, 60),
    Case("it restarts", {_READS: gap(_HOUR, 50, 53), _UP: gauge((50, 1), (3, 0), (8, 1))}, 52),
    Case("a gap of four minutes", {_READS: gap(_HOUR, 56, 60), _UP: gap(_HOUR, 56, 60)}, 59),
    Case("vLLM is gone", {_READS: _HOUR, _UP: _HOUR, 'up{job="vllm"}': gauge((61, 0))}, 60),
]  # fmt: skip
