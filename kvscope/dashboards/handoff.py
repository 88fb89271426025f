"""Handoff: every stage between prefill's last token and decode's first, push and pull side by side."""

from __future__ import annotations

from kvscope.dashboards import limits
from kvscope.dashboards.panels import Board, Look, Panel, Query, Row, Unit
from kvscope.dashboards.promql import RANGE, WINDOW, grown, pairs, per, quantile, ratio, series, total, zero

COUNT = grown("ttft_seconds_count")
LATE = ("poll_gap", "notice", "pickup", "report")
"""Stages from the bytes being there to the scheduler knowing it."""
UNHIDDEN = "pull hides nothing"
NO_TRANSFER = "no request with a transfer in this time"
CHOSEN = series("stage_seconds_bucket", exposure="exposed", stage="~$stage")
CLASSES = "coordination|transfer|undetermined"


def _stages(exposure: str, empty: str = "") -> Query:
    sums = grown("stage_seconds_sum", by="stage", exposure=exposure, cls=f"~{CLASSES}")
    return Query(per(sums, COUNT), "{{stage}}", empty=empty)


def _by_connector(exposure: str, by: str = "stage, class, connector") -> str:
    sums = grown("stage_seconds_sum", RANGE, by=by, exposure=exposure, cls=f"~{CLASSES}")
    return f"{sums}\n/ on (connector) group_left () ({grown('ttft_seconds_count', RANGE, by='connector')} > 0)"


def _p95(exposure: str) -> str:
    """Of nothing, the quantile of a histogram is no number: a stage that nobody was in has none."""
    inside = grown(
        "stage_seconds_bucket", RANGE, by="stage, class, connector, le", exposure=exposure, cls=f"~{CLASSES}"
    )
    return f"histogram_quantile(0.95, {inside}) >= 0"


STAGES = Row(
    "Stages, one column for each connector: push beside pull",
    (
        Panel(
            "On the path, by stage: $connector",
            "Mean time per request in each stage of coordination and transfer that delayed the first token. They add"
            " up to what lies between compute and the first token.",
            Unit.SECONDS, limits.SCALE, (_stages("exposed"),), Look.STACK, 24, 9, repeated="connector",
            leads="handoff",
        ),
        Panel(
            "Hidden, by stage: $connector",
            "The same of what ran behind prefill and delayed nothing. Pull has little to hide: it begins when prefill"
            " is done.",
            Unit.SECONDS, limits.SCALE, (_stages("hidden", UNHIDDEN),), Look.STACK, 24, repeated="connector",
            leads="handoff", nothing="0: nothing was hidden in this time",
        ),
        Panel(
            "Every stage, over the time shown",
            "Mean over all complete requests on that connector, on the path and hidden; p95 of those that spent any"
            " time there (percentiles do not add up).",
            Unit.SECONDS, limits.SCALE,
            (
                Query(_by_connector("exposed"), "on the path"),
                Query(_by_connector("hidden"), "hidden", empty=UNHIDDEN),
                Query(_p95("exposed"), "p95 on the path"),
            ),
            Look.TABLE, 24, 11, names=("connector", "class", "stage"),
        ),
    ),
)  # fmt: skip

BEHIND = Row(
    "The requests behind a stage",
    (
        Panel(
            "Time in $stage",
            "Of requests that spent any time there, on the path: p50 and p95 over the stages that are chosen above,"
            " known to the width of a bucket (a factor of 3.3 at most). A dot is a request: its label is the id for"
            " `kvscope request ID`, or opens its trace. A click on a stage of the panels above chooses it.",
            Unit.SECONDS, limits.SCALE,
            tuple(Query(quantile(share, "stage_seconds", "connector", exposure="exposed", stage="~$stage"),
                        f"p{share * 100:.0f} {{{{connector}}}}") for share in (0.5, 0.95)),
            width=12, exemplars=True, decades=True,
        ),
        Panel(
            "Requests by their time in $stage",
            "How many, in each bucket. Bands a step apart are waits for a step.",
            Unit.SECONDS, limits.SCALE,
            (Query(total(f"increase({CHOSEN}[{WINDOW}])", "le"), "{{le}}"),),
            Look.HEAT, 12, exemplars=True,
        ),
    ),
)  # fmt: skip

MEETING = Row(
    "Arranging: dispatch, registration, match",
    (
        Panel(
            "Dispatch and registration, on the path",
            "From prefill's end (where the router waits for it) until decode's blocks are known to prefill's writer."
            " All of it goes away when the router calls both engines at once.",
            Unit.SECONDS, limits.SCALE,
            (Query(per(grown("stage_seconds_sum", by="stage", exposure="exposed",
                             stage="~dispatch|registration_.*|match"),
                       COUNT), "{{stage}}", empty="all of it may be hidden"),),
            Look.STACK, 8, leads="handoff", nothing="none of it on the path in this time",
        ),
        Panel(
            "Slack of what was hidden",
            "How much later the registration, or the staging of finished blocks, could have come without delaying the"
            " first token: median of the low and the high bound. Near 0, it is about to be seen.",
            Unit.SECONDS, limits.SCALE,
            (Query(quantile(0.5, "slack_seconds", "branch, bound"), "{{branch}}, {{bound}}",
                   empty=UNHIDDEN),),
            width=8, nothing="nothing was hidden in this time",
        ),
        Panel(
            "Handshakes",
            "First contacts with a peer engine: begun and ended, a second. Begun and not ended is a peer that does"
            " not answer.",
            Unit.PER_SECOND, limits.LOAD,
            (
                Query(zero(grown("engine_handshakes_begun_total")), "begun"),
                Query(zero(grown("engine_handshakes_ended_total")), "ended"),
            ),
            width=4,
        ),
        Panel(
            "Time of a handshake",
            "Mean, from submitted to made.",
            Unit.SECONDS, limits.SCALE,
            (Query(ratio(grown("engine_handshake_seconds_total", RANGE), grown("engine_handshakes_ended_total", RANGE)),
                   "mean", empty="no engine may have met another in this time"),),
            Look.STAT, 4, nothing="no handshake in this time",
        ),
    ),
)  # fmt: skip

MOVING = Row(
    "Moving: post, wire, notice",
    (
        Panel(
            "Post, by placement",
            "Preparing and submitting a transfer, by the thread that does it: p95. On the forward thread it holds up"
            " every request in the batch; on the writer it does not, and can starve there.",
            Unit.SECONDS, limits.POST,
            (Query(quantile(0.95, "post_seconds", "placement, thread"), "p95 {{placement}} ({{thread}})"),),
            width=8, nothing=NO_TRANSFER, exemplars=True,
        ),
        Panel(
            "Wire rate",
            "Bytes over the time in which they moved, over all pairs. At most: by the time seen in flight; at least:"
            " with submit and poll_gap, in which they may have moved as well.",
            Unit.BYTE_RATE, limits.SCALE,
            tuple(
                Query(ratio(total(pairs("pair_transfer_bytes_total")),
                            total(pairs("pair_transfer_seconds_total", bound=bound))), name)
                for bound, name in (("low", "at most"), ("high", "at least"))
            ),
            width=8, nothing=NO_TRANSFER, decades=True,
        ),
        Panel(
            "Late notice",
            "From the bytes being there to the scheduler being told, p95 of those that waited: the next poll, the"
            " notification on its way, the worker's next step, the report.",
            Unit.SECONDS, limits.NOTICE,
            tuple(Query(quantile(0.95, "stage_seconds", exposure="exposed", stage=stage), f"p95 {stage}",
                        empty="not every connector has this stage, nor is it always on the path") for stage in LATE),
            width=8, nothing=NO_TRANSFER, exemplars=True,
        ),
        Panel(
            "Bytes per transfer",
            "Mean over transfers that decode received. Falls where prefixes are found in decode's cache.",
            Unit.BYTES, limits.LOAD,
            (Query(ratio(grown("engine_transfer_bytes_total", leg="decode"),
                         grown("engine_transfers_total", leg="decode")),
                   "bytes"),),
            width=8, nothing=NO_TRANSFER,
        ),
        Panel(
            "Descriptors per transfer",
            "Pieces that a transfer is made of: many small ones make the post slow, not the wire.",
            Unit.NUMBER, limits.SCALE,
            (Query(ratio(grown("engine_transfer_descriptors_total", leg="decode"),
                         grown("engine_transfers_total", leg="decode")), "descriptors"),),
            width=8, nothing=NO_TRANSFER,
        ),
        Panel(
            "Bytes moved",
            "By prefill engine, a second.",
            Unit.BYTE_RATE, limits.LOAD,
            (Query(grown("engine_transfer_bytes_total", by="engine_name", leg="prefill"), "{{engine_name}}"),),
            Look.STACK, 8, nothing=NO_TRANSFER, leads="engines",
        ),
    ),
)  # fmt: skip

PAIRS = Row(
    "Pairs of engines",
    (
        Panel(
            "Exposed coordination per request, prefill engines down, decode engines across",
            "Mean over the time shown, at least. A row that is dark is a prefill engine, a column a decode engine,"
            " one field a pair; even over all is the router or the set-up. The 50 busiest pairs; `other` is the rest.",
            Unit.SECONDS, limits.SCALE,
            (Query(ratio(total(pairs("pair_coordination_seconds_total", RANGE), "engine_name, peer"),
                         total(pairs("pair_timed_requests_total", RANGE), "engine_name, peer"))),),
            Look.MATRIX, 12, 9, names=("engine_name", "peer"),
        ),
        Panel(
            "Pairs, over the time shown",
            "Requests that are over and failures, mean TTFT, and bytes over the time seen in flight.",
            Unit.NUMBER, limits.COMPARED,
            (
                Query(total(pairs("pair_requests_total", RANGE), "engine_name, peer"), "requests/s", Unit.REQUESTS),
                Query(total(pairs("pair_failures_total", RANGE), "engine_name, peer"), "failures/s", Unit.REQUESTS),
                Query(ratio(total(pairs("pair_ttft_seconds_total", RANGE), "engine_name, peer"),
                            total(pairs("pair_timed_requests_total", RANGE), "engine_name, peer")), "mean TTFT",
                      Unit.SECONDS),
                Query(ratio(total(pairs("pair_transfer_bytes_total", RANGE), "engine_name, peer"),
                            total(pairs("pair_transfer_seconds_total", RANGE, bound="low"), "engine_name, peer")),
                      "wire rate, at most", Unit.BYTE_RATE),
            ),
            Look.TABLE, 12, 9, names=("engine_name", "peer"),
        ),
    ),
)  # fmt: skip

BOARD = Board(
    "handoff",
    "kvscope: handoff",
    "Every stage from prefill to decode's first token: arranging, posting, moving, noticing; for each connector and"
    " pair.",
    (STAGES, BEHIND, MEETING, MOVING, PAIRS),
    stages=True,
)
