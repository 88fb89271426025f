"""Cases of alerts about requests."""

from __future__ import annotations

from .case import Case, Fired, Series, counter, each, gap, gauge, restarted

SERVED = {"model_name": "m", "connector": "c"}
_S = 'model_name="m",connector="c"'
TTFT = 0.5
_PUSHED = {"early": f'kvscope_pushes_total{{{_S},dispatch="early"}}',
           "sequential": f'kvscope_pushes_total{{{_S},dispatch="sequential"}}'}  # fmt: skip


def _stage(stage: str, cls: str) -> str:
    return f'kvscope_stage_seconds_sum{{{_S},prompt_tokens="0-511",stage="{stage}",class="{cls}",exposure="exposed"}}'


def served(*stretches: tuple[int, float, float], what: str) -> dict[str, list[float | None]]:
    """Requests a minute for so many minutes, and the share of TTFT that `what`, a series of seconds, takes."""
    return {
        f'kvscope_ttft_seconds_count{{{_S},prompt_tokens="0-511"}}': counter(*((m, n) for m, n, _ in stretches)),
        f'kvscope_ttft_seconds_sum{{{_S},prompt_tokens="0-511"}}': counter(*((m, n * TTFT) for m, n, _ in stretches)),
        what: counter(*((m, n * TTFT * share) for m, n, share in stretches)),
    }


def pushed(minutes: int, early: float, sequential: float, since: int = 0) -> dict[str, list[float | None]]:
    """Pushes a minute; `since`: before that minute all were early."""
    both = early + sequential
    return {
        _PUSHED["early"]: counter((since, both), (minutes - since, early)),
        _PUSHED["sequential"]: counter((since, 0), (minutes - since, sequential)),
    }


MATCH = _stage("match", "coordination")
_HALF: Series = served((120, 60, 0.6), what=MATCH)
_THIRD: Series = served((120, 60, 0.3), what=MATCH)
CRITICAL = [
    Case("sixty percent for two hours", _HALF, 120,
         (Fired("critical", SERVED, "60%"), Fired("warning", SERVED, "60%"))),
    Case("the load grows tenfold and the share stays", served((60, 60, 0.3), (60, 600, 0.3), what=MATCH), 120),
    Case("ten bad minutes", served((110, 60, 0.05), (10, 60, 0.9), what=MATCH), 120),
    Case("it was bad and is over", served((110, 60, 0.9), (10, 60, 0.02), what=MATCH), 120),
    Case("one request a minute", served((120, 1, 0.9), what=MATCH), 120),
    Case("an engine restarts", each(_THIRD, restarted, 90), 120),
    Case("a gap of twenty minutes", each(_THIRD, gap, 80, 100), 101),
    Case("it has just begun", served((60, 60, 0.0), (60, 60, 0.9), what=MATCH), 95),
    Case("waiting for compute", served((120, 60, 0.9), what=_stage("prefill_queue", "compute_wait")), 120),
]  # fmt: skip
WARNING = [
    Case("a quarter for eight hours", served((480, 60, 0.25), what=MATCH), 480, (Fired("warning", SERVED, "25%"),)),
    Case("one busy hour", served((360, 60, 0.05), (60, 60, 0.6), what=MATCH), 420),
    Case("it was bad and is over", served((420, 60, 0.4), (60, 60, 0.05), what=MATCH), 480),
    Case("twelve requests an hour", served((480, 0.2, 0.9), what=MATCH), 480),
    Case("it has just begun", served((360, 60, 0.05), (120, 60, 0.9), what=MATCH), 430),
    Case("an engine restarts", each(served((480, 60, 0.1), what=MATCH), restarted, 300), 480),
]

WAITED = f'kvscope_slack_seconds_sum{{{_S},branch="staging",bound="low"}}'
_EARLY = pushed(120, 60, 0)
REGISTRATION = [
    Case("blocks wait for a seventh of TTFT", {**served((120, 60, 0.14), what=WAITED), **_EARLY}, 120,
         (Fired("warning", SERVED, "14%"),)),
    Case("the router calls decode late", {**served((120, 60, 0.2), what=WAITED), **pushed(120, 0, 60)}, 120),
    Case("the load grows and the share stays",
         {**served((60, 60, 0.07), (60, 600, 0.07), what=WAITED), **pushed(120, 600, 0)}, 120),
    Case("one request a minute", {**served((120, 1, 0.5), what=WAITED), **pushed(120, 1, 0)}, 120),
    Case("the registration waits for the blocks",
         {**served((120, 60, 0.9), what=WAITED.replace("staging", "registration")), **_EARLY}, 120),
    Case("it has just begun", {**served((60, 60, 0), (60, 60, 0.3), what=WAITED), **_EARLY}, 75),
    Case("an engine restarts", each({**served((120, 60, 0.05), what=WAITED), **_EARLY}, restarted, 100), 120),
]  # fmt: skip
OVERLAP = [
    Case("four in five are dispatched after prefill", pushed(120, 12, 48), 120, (Fired("warning", SERVED, "80%"),)),
    Case("a third comes late", pushed(120, 40, 20), 120),
    Case("pull, which is sequential by nature", served((120, 60, 0.1), what=MATCH), 120),
    Case("one request a minute", pushed(120, 0, 1), 120),
    Case("routers are being rolled out", pushed(120, 0, 60, since=60), 85),
    Case("a router restarts", each(pushed(120, 40, 20), restarted, 100), 120),
]
GAP, WIRE = _stage("poll_gap", "undetermined"), _stage("wire", "transfer")
LATE = [
    Case("a sixth of TTFT, and nothing was seen in flight", served((120, 60, 0.16), what=GAP), 120,
         (Fired("warning", SERVED, "16%"),)),
    Case("blocks are told late", served((120, 60, 0.16), what=_stage("notice", "coordination")), 120,
         (Fired("warning", SERVED, "16%"),)),
    Case("the transfer is slow", {**served((120, 60, 0.16), what=GAP), WIRE: counter((120, 60 * TTFT * 0.3))}, 120),
    Case("the load grows and the share stays", served((60, 60, 0.07), (60, 600, 0.07), what=GAP), 120),
    Case("one request a minute", served((120, 1, 0.5), what=GAP), 120),
    Case("a few prompts of great length", served((60, 60, 0.05), (60, 60, 0.4), what=GAP), 72),
    Case("an engine restarts", each(served((120, 60, 0.07), what=GAP), restarted, 100), 120),
]  # fmt: skip
OLDEST = f"kvscope_requests_in_flight_oldest_seconds{{{_S}}}"
STUCK = [
    Case("it waits and waits", {OLDEST: counter((30, 60))}, 15, (Fired("warning", SERVED, "15m 0s"),)),
    Case("it waits until it is given up", {OLDEST: [*counter((10, 60)), *gauge((10, 0))]}, 9,
         (Fired("warning", SERVED, "9m 0s"),)),
    Case("a long queue that moves", {OLDEST: gauge((60, 114))}, 60),
    Case("a client leaves and is cleaned up after", {OLDEST: [*counter((7, 60)), *gauge((10, 0))]}, 7),
    Case("and then there is none", {OLDEST: [*counter((7, 60)), *gauge((10, 0))]}, 15),
]  # fmt: skip
