"""Where does TTFT go: classes, exposed and hidden, by length of prompts, and what leads."""

from __future__ import annotations

from kvscope.dashboards import limits
from kvscope.dashboards.panels import Board, Look, Panel, Query, Row, Unit
from kvscope.dashboards.promql import RANGE, WINDOW, grown, per, quantile, rate, ratio, series, total, zero

PROMPT = {"prompt_tokens": "~$prompt"}
NO_SLO = "no request missed an objective for TTFT, or none is set (kvscope serve --slo ttft=800ms)"
EITHER = "only one of the two sentences holds"
COUNT = grown("ttft_seconds_count", **PROMPT)
IN_RANGE = grown("ttft_seconds_sum", RANGE, **PROMPT)
COORDINATION = rate("class_seconds_sum", exposure="exposed", cls="coordination", **PROMPT)
COORDINATION_IN_RANGE = rate("class_seconds_sum", RANGE, exposure="exposed", cls="coordination", **PROMPT)
UNSEEN_IN_RANGE = rate("stage_seconds_sum", RANGE, exposure="exposed", stage="~submit|poll_gap", **PROMPT)


def _lead(times: str) -> tuple[Query, Query]:
    """Says which class leads, and `most` only of more than half."""
    share = f"topk(1, {per(total(times, 'class'), total(times))})"
    return (
        Query(f"{share} > 0.5", "{{class}}: most of it", empty=EITHER),
        Query(f"{share} <= 0.5", "{{class}} leads", empty=EITHER),
    )


def _range_mean(name: str, by: str, exposure: str) -> str:
    return per(grown(f"{name}_seconds_sum", RANGE, by=by, exposure=exposure, **PROMPT),
               grown("ttft_seconds_count", RANGE, **PROMPT))  # fmt: skip


NOW = Row(
    "In short, over the time shown",
    (
        Panel(
            "What leads the time to first token",
            "The class that all requests spent most of their time to first token in, and its share. As `kvscope top`"
            " says it, of means; a class leads for sure only where transfer, coordination and undetermined leave no"
            " doubt: see the share below.",
            Unit.SHARE, limits.SCALE,
            _lead(rate("class_seconds_sum", RANGE, exposure="exposed", **PROMPT)),
            Look.STAT, 6, 5, leads="handoff",
        ),
        Panel(
            "What leads the slow requests",
            "The same of requests that missed the objective for TTFT.",
            Unit.SHARE, limits.SCALE,
            _lead(rate("slow_class_seconds_total", RANGE, **PROMPT)),
            Look.STAT, 6, 5, NO_SLO, leads="handoff",
        ),
        Panel(
            "Coordination, share of TTFT",
            "Waiting for the two sides to get arranged, on the path to the first token: at least, and with the time"
            " in which nobody looked whether bytes had landed (submit and poll_gap), at most.",
            Unit.SHARE, limits.COORDINATION,
            (
                Query(ratio(zero(total(COORDINATION_IN_RANGE)), IN_RANGE), "at least"),
                Query(ratio(zero(f"sum({UNSEEN_IN_RANGE} or {COORDINATION_IN_RANGE})"), IN_RANGE), "at most"),
            ),
            Look.STAT, 6, 5, leads="handoff",
        ),
        Panel(
            "Objectives met",
            "Complete requests that met the objectives which kvscope serve was given.",
            Unit.SHARE, limits.SLO,
            tuple(
                Query(ratio(grown("requests_judged_total", RANGE, objective=name, outcome="met"),
                            grown("requests_judged_total", RANGE, objective=name)), name,
                      empty="without --slo none is judged")
                for name in ("ttft", "tpot")
            ),
            Look.STAT, 6, 5, "no objective is set: kvscope serve --slo ttft=800ms,tpot=30ms",
        ),
    ),
)  # fmt: skip

SPLIT = Row(
    "Where it goes",
    (
        Panel(
            "Mean time to first token, by class: all requests",
            "Time on the path to the first token; the classes add up to the mean. A request counts when it is over.",
            Unit.SECONDS, limits.SCALE,
            (Query(per(grown("class_seconds_sum", by="class", exposure="exposed", **PROMPT), COUNT), "{{class}}"),),
            Look.STACK, leads="handoff",
        ),
        Panel(
            "Mean time to first token, by class: requests that missed the objective",
            "The same of the slow ones. What grows here and not on the left is what makes them slow.",
            Unit.SECONDS, limits.SCALE,
            (Query(per(grown("slow_class_seconds_total", by="class", **PROMPT), grown("slow_requests_total", **PROMPT)),
                   "{{class}}", empty=NO_SLO),),
            Look.STACK, nothing=NO_SLO, leads="handoff",
        ),
        Panel(
            "Coordination per request, exposed and hidden",
            "Exposed: on the path, it delays the first token. Hidden: it ran behind prefill and cost no time. What"
            " early dispatch wins is what moves from the one to the other.",
            Unit.SECONDS, limits.SCALE,
            tuple(Query(per(zero(grown("class_seconds_sum", exposure=name, cls="coordination", **PROMPT)), COUNT), name)
                  for name in ("exposed", "hidden")),
            leads="handoff",
        ),
        Panel(
            "Time to first token",
            "Quantiles of complete requests, known to the width of a bucket (a factor of 2.5 at most). A dot is a"
            " request: its label is the id for `kvscope request ID`, or opens its trace.",
            Unit.SECONDS, limits.SCALE,
            tuple(Query(quantile(share, "ttft_seconds", **PROMPT), f"p{share * 100:.0f}")
                  for share in (0.5, 0.95, 0.99)),
            exemplars=True, leads="handoff",
        ),
    ),
)  # fmt: skip

LENGTHS = Row(
    "By length of prompts",
    (
        Panel(
            "Mean time to first token, by tokens in the prompt",
            "Prefill and bytes grow with the prompt. Compare like with like before an engine or a release is blamed.",
            Unit.SECONDS, limits.SCALE,
            (Query(ratio(grown("ttft_seconds_sum", by="prompt_tokens", **PROMPT),
                         grown("ttft_seconds_count", by="prompt_tokens", **PROMPT)), "{{prompt_tokens}}"),),
            width=8,
        ),
        Panel(
            "Coordination per request, by tokens in the prompt",
            "Exposed. Hardly grows with the prompt where it is waiting for steps; grows where descriptors cost.",
            Unit.SECONDS, limits.SCALE,
            (Query(ratio(total(COORDINATION, "prompt_tokens"),
                         grown("ttft_seconds_count", by="prompt_tokens", **PROMPT)),
                   "{{prompt_tokens}}"),),
            width=8,
        ),
        Panel(
            "Requests, by tokens in the prompt",
            "Complete requests a second. A change of the mix moves every mean.",
            Unit.REQUESTS, limits.LOAD,
            (Query(grown("ttft_seconds_count", by="prompt_tokens", **PROMPT), "{{prompt_tokens}}"),),
            Look.STACK, 8,
        ),
        Panel(
            "Time to first token, all of them",
            "Requests in each bucket. Two bands are two kinds of requests, which no mean shows.",
            Unit.SECONDS, limits.SCALE,
            (Query(total(f"increase({series('ttft_seconds_bucket', **PROMPT)}[{WINDOW}])", "le"), "{{le}}"),),
            Look.HEAT, exemplars=True,
        ),
        Panel(
            "Classes, over the time shown",
            "Mean time per request on the path and hidden behind it, and the share of TTFT.",
            Unit.SECONDS, limits.SCALE,
            (
                Query(_range_mean("class", "class", "exposed"), "on the path"),
                Query(_range_mean("class", "class", "hidden"), "hidden", empty="pull hides nothing"),
                Query(per(grown("class_seconds_sum", RANGE, by="class", exposure="exposed", **PROMPT), IN_RANGE),
                      "share of TTFT", Unit.SHARE),
            ),
            Look.TABLE, names=("class",), leads="handoff",
        ),
    ),
)  # fmt: skip

AFTER = Row(
    "Load, and after the first token",
    (
        Panel(
            "Requests",
            "Requests that are over, a second, by what became of them; complete ones have times.",
            Unit.REQUESTS, limits.LOAD,
            (Query(grown("requests_total", by="state"), "{{state}}"),),
            Look.STACK, 8, nothing="nothing records here",
        ),
        Panel(
            "Waiting for a first token, by the moment seen last",
            "What is under way is in no quantile: a hung push shows here alone.",
            Unit.NUMBER, limits.LOAD,
            (Query(f"{total(series('requests_in_flight'), 'leg, moment')} > 0", "{{leg}} {{moment}}",
                   empty="nothing may be under way"),),
            Look.STACK, 8, nothing="0: nothing is under way",
        ),
        Panel(
            "Oldest request without a first token",
            "Age. 0 where there is none.",
            Unit.SECONDS, limits.HANGS,
            (Query(zero(f"max({series('requests_in_flight_oldest_seconds')})"), "oldest"),),
            width=8, leads="engines",
        ),
        Panel(
            "Time per output token",
            "After the first, of requests that finished. Transfers of others are posted in between: see Commitment.",
            Unit.SECONDS, limits.SCALE,
            tuple(Query(quantile(share, "tpot_seconds"), f"p{share * 100:.0f}") for share in (0.5, 0.95)),
            nothing="no request finished in this time",
        ),
        Panel(
            "Step time",
            "Engine steps with a forward, by leg: p95. Waits for a step are about as long.",
            Unit.SECONDS, limits.SCALE,
            (Query(quantile(0.95, "step_seconds", "leg"), "p95 {{leg}}"),),
            nothing="no engine ran a step in this time", leads="engines",
        ),
    ),
)  # fmt: skip

BOARD = Board(
    "ttft",
    "kvscope: where does TTFT go",
    "Of the time to first token, how much is waiting for or using compute, how much the two sides getting arranged,"
    " how much bytes moving; and what of it is hidden behind prefill.",
    (NOW, SPLIT, LENGTHS, AFTER),
    prompts=True,
)
