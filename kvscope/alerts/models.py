"""Alerts about requests of a model on a connector."""

from __future__ import annotations

from kvscope.alerts.query import both, increase, rate, unless
from kvscope.alerts.recordings import coordination, requests
from kvscope.alerts.rule import Alert, Guard, Severity

FEW = 50
"""Requests that a mean is told of, at least: a first contact of 0.9 s moves that of fifty requests of 0.5 s by 4 %."""
BUDGET = 0.10
"""Share of TTFT that coordination may take. A pull pair that nothing ails needs 5 % (docs/pictures/pull.kvs)."""
_ACCIDENT = "fewer are an accident, not a state"
_SERVED = "of {{ $labels.model_name }} on {{ $labels.connector }}"
_PERCENT = "{{ $value | humanizePercentage }}"

_SEQUENTIAL = "\n/ ".join(
    increase("model", selector, "30m") for selector in ('pushes_total{dispatch="sequential"}', "pushes_total")
)
_TTFT = rate("model", "ttft_seconds_sum", "30m")
_WAITED = rate("model", 'slack_seconds_sum{branch="staging", bound="low"}', "30m")
_LATE = rate("model", 'stage_seconds_sum{exposure="exposed", stage=~"poll_gap|notice|pickup"}', "30m")
_WIRE = rate("model", 'stage_seconds_sum{exposure="exposed", stage="wire"}', "30m")
_ENOUGH = Guard(both("model", f"{requests('30m')} >= {FEW}"), f"{FEW} requests at least: {_ACCIDENT}")


def _burning(severity: Severity, share: float, windows: tuple[str, str], hold: str, because: str) -> Alert:
    """windows: the long one and the short one"""
    long, short = windows
    return Alert(
        name="KvscopeCoordinationBurn",
        severity=severity,
        when=f"{coordination(long)} > {share:g}",
        because=f"{share / BUDGET:g} times the budget, which is {BUDGET:.0%} of TTFT. {because}",
        guards=(
            Guard(both("model", f"{coordination(short)} > {share:g}"),
                  f"the last {short} are as bad: it goes on, and the alert ends soon after it does not"),
            Guard(both("model", f"{requests(long)} >= {2 * FEW}"),
                  f"{2 * FEW} requests in {long} at least: {_ACCIDENT}"),
        ),
        hold=hold,
        held="the windows are smooth by themselves; this bridges a gap in the scrapes",
        summary=f"{_PERCENT} of the time to first token {_SERVED} is coordination",
        description=f"For {long} so much of TTFT was the two engines getting arranged: on the path to the first "
        "token, neither compute nor bytes moving. A tenth is the budget. `kvscope report` on an engine's "
        "host names the stage that leads; each stage has causes of its own, and most have an alert of "
        "their own.",
    )  # fmt: skip


ALERTS: tuple[Alert, ...] = (
    _burning(
        Severity.CRITICAL, 0.5, ("1h", "5m"), "2m",
        "More than half of TTFT: users wait twice as long as compute and bytes need. A share ends at 100 %, so that "
        "the customary 14 times a budget cannot be. An hour: users have noticed, and the first contacts of an engine "
        "that was replaced do not fill it.",
    ),
    _burning(
        Severity.WARNING, 0.2, ("6h", "30m"), "15m",
        "A fifth of TTFT shows in the median, and nobody has to get up for it. Six hours: a busy one alone does not "
        "fill them.",
    ),
    Alert(
        name="KvscopeRegistrationLate",
        severity=Severity.WARNING,
        when=f"{_WAITED}\n/ {_TTFT} > {BUDGET:g}",
        because="This wait by itself uses up the whole budget of coordination, a tenth of TTFT.",
        guards=(
            _ENOUGH,
            Guard(unless("model", f"({_SEQUENTIAL} > 0.5)"),
                  "decode was called in time; where it was not, KvscopePushNotOverlapping says so"),
        ),
        hold="10m",
        held="the first contacts of a decode engine that was replaced are late, and over by then",
        summary=f"finished blocks {_SERVED} wait for decode's registration: {_PERCENT} of TTFT",
        description="Prefill is done, and decode has not said where to write to, though the router called it in "
        "time. Decode cannot reserve blocks, or its steps are long, or its writer does not get to send. "
        "It is not the network.",
    ),
    Alert(
        name="KvscopePushNotOverlapping",
        severity=Severity.WARNING,
        when=f"{_SEQUENTIAL} > 0.5",
        because="Half: with fewer the router dispatches early and some decode legs come late, with more it does not.",
        guards=(
            Guard(both("model", f"{increase('model', 'pushes_total', '30m')} >= {FEW}"),
                  f"{FEW} pushes at least: {_ACCIDENT}"),
        ),
        hold="15m",
        held="while routers are rolled out there are both kinds",
        summary=f"{_PERCENT} of the pushes {_SERVED} could not overlap with prefill",
        description="The router calls decode only once prefill has answered. So the registration is on the path to "
        "the first token instead of behind prefill, and push costs what pull costs, and more. The "
        "engines are well; it is the order of the router's calls.",
    ),
    Alert(
        name="KvscopeLateNotice",
        severity=Severity.WARNING,
        when=f"{_LATE}\n/ {_TTFT} > {BUDGET:g}",
        because="As much as all coordination may take, and here nothing is done: bytes lie there and nobody has "
        "looked.",
        guards=(
            _ENOUGH,
            Guard(unless("model", f"({_WIRE}\n  >= {_LATE})"),
                  "bytes were not seen in flight for longer than that: then they are slow, and not noticed late"),
        ),
        hold="10m",
        held="a few prompts of great length make long steps, and are done by then",
        summary=f"blocks {_SERVED} have arrived and are not noticed: {_PERCENT} of TTFT",
        description="Engines look for transfers that are done once a step. While steps are long (large batches, long "
        "prompts) what has arrived waits to be seen (poll_gap), told (notice) and taken into account "
        "(pickup). vLLM's nixl_xfer_time calls that transfer; it is not.",
    ),
    Alert(
        name="KvscopeRequestsStuck",
        severity=Severity.WARNING,
        when="max by (model_name, connector) (kvscope_requests_in_flight_oldest_seconds) > 300",
        because="The longest wait that was reported and ended by itself took 114 s. What hangs is in no percentile.",
        guards=(),
        hold="2m",
        held="a client leaves and is cleaned up after; no longer, as kvscope gives up what is silent for 10 minutes",
        summary=f"a request {_SERVED} has had no first token for {{{{ $value | humanizeDuration }}}}",
        description="It is not slow: it waits for something that will not come, and holds KV blocks meanwhile. Seen "
        "from decode, several causes look alike; prefill's side tells them apart. `kvscope top --view "
        "stuck` lists what waits, and for what.",
    ),
)  # fmt: skip
