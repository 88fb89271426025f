"""Commitment: what choosing the decode engine early buys, and what it costs."""

from __future__ import annotations

from kvscope.dashboards import limits
from kvscope.dashboards.panels import Board, Look, Panel, Query, Row, Unit
from kvscope.dashboards.promql import ENGINE_KEY, RANGE, WINDOW, grown, per, quantile, ratio, series, zero

COUNT = grown("ttft_seconds_count")
ONE_DECODE = "no request could be judged: it takes two decode engines"
NO_LEGS = "no request was over in this time"


def _reserved_share(window: str) -> str:
    blocks = grown("engine_reserved_idle_block_seconds_total", window, by=ENGINE_KEY)
    return ratio(blocks, f"max by ({ENGINE_KEY}) ({series('engine_kv_blocks')})")


BOUGHT = Row(
    "What it buys",
    (
        Panel(
            "Coordination that was hidden",
            "Mean per request, beside what was still seen. Early commitment moves registration behind prefill; this"
            " is how much of it.",
            Unit.SECONDS, limits.SCALE,
            tuple(Query(per(zero(grown("class_seconds_sum", exposure=name, cls="coordination")), COUNT), name)
                  for name in ("hidden", "exposed")),
            Look.STACK, 8, leads="handoff",
        ),
        Panel(
            "Share of coordination that was hidden",
            "All of it hidden is all that early commitment can win.",
            Unit.SHARE, limits.SCALE,
            (Query(ratio(zero(grown("class_seconds_sum", exposure="hidden", cls="coordination")),
                         grown("class_seconds_sum", cls="coordination")), "hidden"),),
            width=8, leads="handoff",
        ),
        Panel(
            "Time to spare of registrations",
            "Slack, median of the low and the high bound: decode could have been chosen that much later at no cost.",
            Unit.SECONDS, limits.SCALE,
            (Query(quantile(0.5, "slack_seconds", "bound", branch="registration"), "{{bound}} bound",
                   empty="only push registers"),),
            width=8, nothing="no registration was hidden in this time",
        ),
    ),
)  # fmt: skip

CHOICE = Row(
    "How decode was chosen",
    (
        Panel(
            "Pushes, by how the router dispatched them",
            "Share of complete pushes. Early dispatch alone has prefill to hide its coordination behind.",
            Unit.SHARE, limits.FACT,
            (Query(per(grown("pushes_total", by="dispatch"), grown("pushes_total")), "{{dispatch}}",
                   empty="nothing is pushed with pull"),),
            Look.STACK, 8, nothing="no push in this time",
        ),
        Panel(
            "Routing regret",
            "Share of judged requests for which another decode engine had fewer waiting when prefill finished: the"
            " price of having chosen before that was known. Judged is where two decode engines told how many waited.",
            Unit.SHARE, limits.REGRET,
            (Query(ratio(zero(grown("regret_regretted_total")), grown("regret_judged_total")), "regretted",
                   empty=ONE_DECODE),),
            width=8, nothing=ONE_DECODE,
        ),
        Panel(
            "Fewer waiting elsewhere",
            "Mean over judged requests: how many fewer waited on the best other decode engine.",
            Unit.NUMBER, limits.COMPARED,
            (Query(ratio(zero(grown("regret_waiting_total")), grown("regret_judged_total")), "requests",
                   empty=ONE_DECODE),),
            width=8, nothing=ONE_DECODE,
        ),
    ),
)  # fmt: skip

PAID = Row(
    "What it costs on decode",
    (
        Panel(
            "Decode engines' worth of cache, reserved and empty",
            "Shares of all engines added up: 1 is the cache of one decode engine, paid for and doing nothing.",
            Unit.NUMBER, limits.EQUIVALENTS,
            (Query(zero(f"sum({_reserved_share(RANGE)})"), "engines"),),
            Look.STAT, 6,
        ),
        Panel(
            "Reserved and empty, share of each engine's cache",
            "Block-seconds between reserved and transferred over the blocks that the engine has.",
            Unit.SHARE, limits.RESERVED,
            (Query(_reserved_share(WINDOW), "{{engine_name}}"),),
            width=9, nothing=NO_LEGS, leads="engines",
        ),
        Panel(
            "Blocks reserved and empty now",
            "As the latest scrape saw it, requests included that are not over.",
            Unit.NUMBER, limits.LOAD,
            (Query(series("engine_reserved_idle_blocks"), "{{engine_name}}"),),
            width=9, nothing="no engine has told how many blocks it has", leads="engines",
        ),
        Panel(
            "Time reserved and empty, per decode leg",
            "Mean. With late dispatch it is the transfer alone; with early dispatch prefill's queue and run as well.",
            Unit.SECONDS, limits.SCALE,
            (Query(ratio(grown("engine_reserved_idle_seconds_total", by=ENGINE_KEY),
                         grown("engine_legs_total", by=ENGINE_KEY, leg="decode")), "{{engine_name}}"),),
            width=12, nothing=NO_LEGS, leads="engines",
        ),
        Panel(
            "Waiting for decode's blocks",
            "decode_admission, mean per request, on the path and hidden: grows when reserved blocks are missing"
            " elsewhere.",
            Unit.SECONDS, limits.SCALE,
            tuple(Query(per(zero(grown("stage_seconds_sum", exposure=name, stage="decode_admission")), COUNT), name)
                  for name in ("exposed", "hidden")),
            width=12, leads="engines",
        ),
    ),
)  # fmt: skip

PINNED = Row(
    "What it costs on prefill, and on the forward thread",
    (
        Panel(
            "Blocks that finished prefills hold",
            "Block-seconds a second between computed and released: this many blocks on average.",
            Unit.NUMBER, limits.LOAD,
            (Query(grown("engine_pinned_block_seconds_total", by=ENGINE_KEY), "{{engine_name}}"),),
            width=8, nothing=NO_LEGS, leads="engines",
        ),
        Panel(
            "Time that a finished prefill holds its blocks",
            "Mean per prefill leg, from computed to released.",
            Unit.SECONDS, limits.HANGS,
            (Query(ratio(grown("engine_pinned_seconds_total", by=ENGINE_KEY),
                         grown("engine_legs_total", by=ENGINE_KEY, leg="prefill")), "{{engine_name}}"),),
            width=8, nothing=NO_LEGS, leads="engines",
        ),
        Panel(
            "Connector's share of step time",
            "Time in the connector on the forward thread: what hand-offs cost those who are decoding.",
            Unit.SHARE, limits.CONNECTOR,
            (Query(ratio(grown("engine_step_connector_seconds_total", by=ENGINE_KEY),
                         grown("engine_step_seconds_total", by=ENGINE_KEY)), "{{engine_name}}"),),
            width=8, nothing="no engine ran a step in this time", leads="engines",
        ),
        Panel(
            "Posting, by thread",
            "Seconds of posting a second. On the forward thread it is taken from every request in the batch.",
            Unit.SHARE, limits.LOAD,
            (Query(grown("post_seconds_sum", by="placement, thread"), "{{placement}} ({{thread}})"),),
            Look.STACK, 12, nothing="no request with a transfer in this time",
        ),
        Panel(
            "The price, by engine, over the time shown",
            "Mean blocks reserved and empty, mean blocks held by finished prefills, and the share of step time in the"
            " connector.",
            Unit.NUMBER, limits.COMPARED,
            (
                Query(grown("engine_reserved_idle_block_seconds_total", RANGE, by="engine_name"),
                      "blocks reserved, empty"),
                Query(grown("engine_pinned_block_seconds_total", RANGE, by="engine_name"), "blocks held by prefills"),
                Query(ratio(grown("engine_step_connector_seconds_total", RANGE, by="engine_name"),
                            grown("engine_step_seconds_total", RANGE, by="engine_name")), "connector in steps",
                      Unit.SHARE),
            ),
            Look.TABLE, 12, names=("engine_name",), leads="engines",
        ),
    ),
)  # fmt: skip

BOARD = Board(
    "commitment",
    "kvscope: commitment",
    "Choosing the decode engine before prefill is done hides coordination, and pays for it with decode's KV blocks,"
    " reserved and empty. Both, from the same requests.",
    (BOUGHT, CHOICE, PAID, PINNED),
)
