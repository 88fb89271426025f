"""Alerts about pairs of engines, and about what kvscope itself can be trusted for."""

from __future__ import annotations

from kvscope.alerts.models import FEW
from kvscope.alerts.query import both, increase
from kvscope.alerts.recordings import RATE_WINDOW, TRANSFER_SIZE, transfer_rate
from kvscope.alerts.rule import Alert, Guard, Severity

_VIOLATIONS, _REQUESTS = (increase("instance", f"{name}_total", "30m") for name in ("clock_violations", "requests"))
_READS = 'kvscope_rings_readable < 1\nor up{job="kvscope"} < 1\nor absent(kvscope_rings_readable)'


def _of_the_day(name: str) -> str:
    """A series beside its own median over the day before."""
    return f"{name}\n/ quantile_over_time(0.5, {name}[1d] offset 1h)"


PAIRS: tuple[Alert, ...] = (
    Alert(
        name="KvscopeTransferRateFallen",
        severity=Severity.WARNING,
        when=f"{_of_the_day(transfer_rate('low'))} < 0.5",
        because="Half of what this very pair did at its median over a day: a link that is not full slows down less "
        "under load.",
        guards=(
            Guard(both("pair", f"{_of_the_day(transfer_rate('high'))} < 0.5"),
                  "by the other bound too: where completions are seen late, only the low one falls"),
            Guard(both("pair", f"{_of_the_day(TRANSFER_SIZE)} > 0.5"),
                  "transfers are as large as ever: small ones (prefix hits) pay as much overhead for fewer bytes"),
            Guard(both("pair", f"{increase('pair', 'pair_timed_requests_total', RATE_WINDOW)} >= {FEW}"),
                  f"{FEW} requests of the pair at least: fewer are an accident, not a state"),
        ),
        hold="15m",
        held="a burst that shares the link is over by then",
        summary="from {{ $labels.engine_name }} to {{ $labels.peer }} bytes move at {{ $value | humanizePercentage }} "
        "of their usual rate",
        description="Between these two the same bytes take at least twice as long as they did. Mostly a transport "
        "fell back (TCP instead of RDMA or shared memory) at a restart or with a new image; else others "
        "fill the link.",
    ),
)  # fmt: skip

TRUST: tuple[Alert, ...] = (
    Alert(
        name="KvscopeClockUnusable",
        severity=Severity.WARNING,
        when=f"(max by (instance) (kvscope_clock_bound_seconds) > 0.01\nor {_VIOLATIONS}\n/ {_REQUESTS} > 0.01)",
        because="10 ms: most stages of coordination are shorter, and cannot be told with a larger bound. One "
        "violation in a hundred requests: a clock that is set now and then makes fewer.",
        guards=(
            Guard(both("instance", f"{_REQUESTS} >= {FEW}"), f"{FEW} requests at least: else nothing is spoilt"),
        ),
        hold="10m",
        held="a host that has just joined is not known at once",
        summary="at {{ $labels.instance }} clocks cannot be compared: times across hosts are not told",
        description="Requests between hosts whose clocks nothing aligns have no time to first token, so that every "
        "other alert misses them; or moments lie after others that depend on them. Serving is not "
        "affected.",
    ),
    Alert(
        name="KvscopeBlind",
        severity=Severity.WARNING,
        when=f"({_READS}) + 1",
        because="There is no degree of it: events are read, or they are not.",
        guards=(),
        hold="10m",
        held="`kvscope serve` restarts within seconds, and Prometheus bridges a few scrapes",
        summary="nothing is known of handoffs{{ with $labels.instance }} at {{ . }}{{ end }}",
        description="`kvscope serve` is not scraped, or cannot read its rings. Meanwhile no other alert of kvscope "
        "can fire, whatever happens.",
    ),
    Alert(
        name="KvscopeIncidentsUnsaved",
        severity=Severity.WARNING,
        when="kvscope_incidents_savable < 1",
        because="There is no degree of it: an incident could be saved now, or it could not.",
        guards=(),
        hold="10m",
        held="a disk that is full for a while, or away at a restart, is back by then",
        summary="at {{ $labels.instance }} no incident can be saved",
        description="`kvscope serve --save-to` cannot write into its folder. What a trigger sets off meanwhile is "
        "counted as failed, and what was before it is gone. Serving is not affected.",
    ),
)  # fmt: skip
