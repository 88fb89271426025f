"""Trust: what the other dashboards' numbers can be trusted for."""

from __future__ import annotations

from kvscope.dashboards import limits
from kvscope.dashboards.panels import Board, Look, Panel, Query, Row, Unit
from kvscope.dashboards.promql import ENGINE_KEY, RANGE, grown, ratio, series, zero

SUM = grown("ttft_seconds_sum")
VERSIONS = ("vllm", "nixl", "torch", "release", "patches", "connector", "placement")
HAPPENED = "there may be none"


def _share(**labels: str) -> str:
    return ratio(zero(grown("stage_seconds_sum", exposure="exposed", **labels)), SUM)


SEEN = Row(
    "What is seen of requests",
    (
        Panel(
            "Complete requests",
            "Requests of which every required moment was seen; only these have times.",
            Unit.SHARE, limits.COMPLETE,
            (Query(ratio(zero(grown("requests_total", RANGE, state="complete")), grown("requests_total", RANGE)),
                   "complete"),),
            Look.STAT, 6, nothing="no request was over in this time",
        ),
        Panel(
            "Requests, by state of the account",
            "one_legged: the other engine is not instrumented. incomplete: a required moment is missing. unmatched:"
            " only one half was ever seen. unaligned: its clocks were not compared.",
            Unit.REQUESTS, limits.LOAD,
            (Query(grown("requests_total", by="state"), "{{state}}"),), Look.STACK, 9,
            nothing="no request was over in this time",
        ),
        Panel(
            "Requests, by shape",
            "Push, pull, no transfer (a prefix hit), and what was aborted or failed: over the time shown.",
            Unit.NUMBER, limits.LOAD,
            (Query(f"sum by (shape) (increase({series('requests_total')}[{RANGE}])) > 0", "requests",
                   empty=HAPPENED),),
            Look.TABLE, 9, nothing="no request was over in this time", names=("shape",),
        ),
        Panel(
            "Missing moments",
            "What incomplete requests lack. One moment on one engine is a lost tracepoint; all of them after one is a"
            " hang.",
            Unit.REQUESTS, limits.ANY,
            (Query(f"{grown('requests_missing_total', by='moment')} > 0", "{{moment}}", empty=HAPPENED),), width=12,
            nothing="0: no moment is missing",
        ),
        Panel(
            "Remarkable requests",
            "Marks: clock steps, recomputed after a failed load, matched with a stale registration, retried, shared"
            " prefill, and the like.",
            Unit.REQUESTS, limits.LOAD,
            (Query(f"{grown('request_marks_total', by='mark')} > 0", "{{mark}}", empty=HAPPENED),), width=12,
            nothing="0: no request is remarkable",
        ),
    ),
)  # fmt: skip

KNOWN = Row(
    "What is known of time",
    (
        Panel(
            "Undetermined, share of TTFT",
            "Time in which bytes may have moved and nobody looked: submit and poll_gap.",
            Unit.SHARE, limits.UNKNOWN_SHARE, (Query(_share(cls="undetermined"), "undetermined"),), width=8,
        ),
        Panel(
            "Unattributed, share of TTFT",
            "Time that no stage explains. It must stay near zero.",
            Unit.SHARE, limits.UNATTRIBUTED, (Query(_share(stage="unattributed"), "unattributed"),), width=8,
        ),
        Panel(
            "Clock bound",
            "How far instants on two hosts may be apart by their clocks alone. 0 on one host; +Inf where clocks were"
            " never compared, and then no time across them is told.",
            Unit.SECONDS, limits.CLOCK, (Query(f"max({series('clock_bound_seconds')})", "bound"),), Look.STAT, 4,
            nothing="kvscope serve is not scraped",
        ),
        Panel(
            "Clock violations",
            "Moments that lie after one that depends on them, a second. Counted, never smoothed away.",
            Unit.PER_SECOND, limits.ANY, (Query(zero(grown("clock_violations_total")), "violations"),), width=4,
        ),
    ),
)  # fmt: skip

LOST = Row(
    "What was lost",
    (
        Panel(
            "Events lost",
            "Overwritten in a ring before they were read, by engine.",
            Unit.PER_SECOND, limits.ANY,
            (Query(grown("engine_events_lost_total", by="engine_name"), "{{engine_name}}"),), width=8,
            nothing="no engine is known",
        ),
        Panel(
            "Oddities",
            "What was counted beside the results: duplicates, late or impossible events, strays, stale matches,"
            " requests given up to bound memory.",
            Unit.PER_SECOND, limits.LOAD, (Query(grown("oddities_total", by="kind"), "{{kind}}"),), width=8,
            nothing="kvscope serve is not scraped",
        ),
        Panel(
            "Rings readable",
            "1 where every run directory could be read at the last look.",
            Unit.NUMBER, limits.YES, (Query(f"min({series('rings_readable')})", "readable"),), Look.STAT, 4,
            nothing="kvscope serve is not scraped",
        ),
        Panel(
            "Rings refused",
            "Ring files that could not be read: of another version, damaged, or not ours.",
            Unit.NUMBER, limits.ANY, (Query(zero(f"sum({series('rings_refused')})"), "refused"),), Look.STAT, 4,
        ),
    ),
)  # fmt: skip

COST = Row(
    "Recording, and what it costs",
    (
        Panel(
            "Engines that record",
            "Of those known.",
            Unit.NUMBER, limits.FACT,
            (
                Query(zero(f"sum({series('engine_recording')})"), "record"),
                Query(zero(f"count(count by ({ENGINE_KEY}) ({series('engine_info')}))"), "known"),
            ),
            Look.STAT, 6,
        ),
        Panel(
            "Silence",
            "Time since an engine's latest event.",
            Unit.SECONDS, limits.QUIET,
            (Query(f"time() - {series('engine_last_event_timestamp_seconds')}", "{{engine_name}}"),), width=9,
            nothing="no engine is known", leads="engines",
        ),
        Panel(
            "Events",
            "Read of each engine's processes, a second.",
            Unit.PER_SECOND, limits.LOAD,
            (Query(grown("engine_events_total", by="engine_name"), "{{engine_name}}"),), width=9,
            nothing="no engine is known", leads="engines",
        ),
        Panel(
            "CPU of kvscope serve",
            "Cores that reading the rings and adding up take. What an event costs an engine is measured by `kvscope"
            " overhead`.",
            Unit.SHARE, limits.READING,
            (Query(grown("reader_cpu_seconds_total", by="part"), "{{part}}"),), Look.STACK, 7,
            nothing="kvscope serve is not scraped",
        ),
        Panel(
            "CPU per event",
            "Of kvscope serve: reading and adding up.",
            Unit.SECONDS, limits.FACT,
            (Query(ratio(grown("reader_cpu_seconds_total"), grown("reader_events_total")), "per event"),),
            width=7, nothing="no event was read in this time",
        ),
        Panel(
            "Versions",
            "Of kvscope serve and its recording format.",
            Unit.NUMBER, limits.FACT, (Query(series("build_info"), "known"),), Look.TABLE, 6,
            nothing="kvscope serve is not scraped", names=("version", "recording", "instance"),
        ),
        Panel(
            "Certificate, time left",
            "Until the first certificate of a `kvscope serve` ends. A new one is read when that starts again.",
            Unit.SECONDS, limits.CERTIFICATE,
            (Query(f"min({series('tls_certificate_expiry_timestamp_seconds')} - time())", "left",
                   empty="without TLS there is none"),),
            Look.STAT, 4, nothing="served without TLS",
        ),
        Panel(
            "What engines run",
            "Engines of each set of versions, patch set included: a mixed fleet is compared with itself.",
            Unit.NUMBER, limits.FACT,
            (Query(f"count by ({', '.join(VERSIONS)}) ({series('engine_info')})", "engines"),),
            Look.TABLE, 24, 7, "no engine is known",
            names=VERSIONS,
        ),
    ),
)  # fmt: skip

BOARD = Board(
    "trust",
    "kvscope: trust",
    "What the numbers of the other dashboards lack: losses, incomplete requests, clocks, what recording costs,"
    " versions.",
    (SEEN, KNOWN, LOST, COST),
)
