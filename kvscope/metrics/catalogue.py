"""The one table of metrics: the exporter, the documents, dashboards and alerts derive from it.

Names follow Prometheus's conventions: base units, `_total` of counters. Times are held in ns and told in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from kvscope.metrics.buckets import COARSE, FINE, Buckets
from kvscope.metrics.labels import (
    ALONE,
    BOUNDS,
    CLASSES,
    DISPATCHES,
    ENGINE,
    EXPOSURES,
    FAILURES,
    GROUP,
    HIDEABLE,
    HOLDS,
    LAST_MOMENTS,
    MISSABLE,
    OBJECTIVES,
    OUTCOMES,
    PAIR,
    POSTERS,
    PROMPTS,
    SHAPE_NAMES,
    SIDES,
    STAGE_CLASSES,
    STATE_NAMES,
    TROUBLES,
    UNTOLD,
    Columns,
    Scope,
)
from kvscope.model.graph import BRANCHES
from kvscope.model.splits import MARKS

PREFIX = "kvscope_"


class Kind(StrEnum):
    """Types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


_SUFFIX = {Kind.COUNTER: "_total", Kind.INFO: "_info"}


@dataclass(frozen=True)
class Metric:
    """One family of series."""

    name: str
    kind: Kind
    scope: Scope
    help: str
    inner: tuple[str, ...] = ()
    """Names of labels whose values are known beforehand,"""
    columns: Columns = ((),)
    """and all sets of these."""
    unit: str = ""
    buckets: Buckets | None = None
    sparse: bool = False
    """Only what was ever counted is told: there is much that never happens. Else zeros are told as well."""

    @property
    def family(self) -> str:
        """The name without what its type adds."""
        return self.name.removesuffix(_SUFFIX.get(self.kind, ""))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its labels, `le` aside."""
        return self.scope.labels + self.inner

    @property
    def series(self) -> int:
        """Series of one label set of its scope, at most."""
        return len(self.columns) * (len(self.buckets) + 2 if self.buckets else 1)

    @property
    def scale(self) -> float:
        """What to multiply by what is held, to tell it."""
        return 1e-9 if self.unit.endswith("seconds") else 1.0


def _all(*values: tuple[str, ...]) -> Columns:
    return tuple(product(*values))


def _crossed(outer: Columns, inner: Columns) -> Columns:
    return tuple(one + other for one, other in product(outer, inner))


def _each(values: tuple[str, ...]) -> Columns:
    return tuple((value,) for value in values)


def _counter(name: str, scope: Scope, text: str, inner: tuple[str, ...] = (), columns: Columns = ((),),
             sparse: bool = False) -> Metric:  # fmt: skip
    units = ("block_seconds", "seconds", "bytes")
    unit = next((unit for unit in units if name.endswith(f"_{unit}_total")), "")
    return Metric(PREFIX + name, Kind.COUNTER, scope, text, inner, columns, unit, sparse=sparse)


def _gauge(name: str, scope: Scope, text: str, inner: tuple[str, ...] = (), columns: Columns = ((),)) -> Metric:
    unit = "seconds" if name.endswith("_seconds") else ""
    return Metric(PREFIX + name, Kind.GAUGE, scope, text, inner, columns, unit, sparse=True)


def _histogram(name: str, scope: Scope, text: str, buckets: Buckets, inner: tuple[str, ...] = (),
               columns: Columns = ((),), sparse: bool = False) -> Metric:  # fmt: skip
    return Metric(PREFIX + name, Kind.HISTOGRAM, scope, text, inner, columns, "seconds", buckets, sparse)


_PROMPTS = _each(PROMPTS)
_CLASSES = _all(CLASSES, EXPOSURES)
_STAGES: Columns = (
    *(stage + EXPOSURES[:1] for stage in STAGE_CLASSES),
    *(STAGE_CLASSES[index] + EXPOSURES[1:] for index in HIDEABLE),
)

REQUESTS = (
    _counter("requests_total", GROUP, "Requests that are over, by what is known of them.", ("shape", "state"),
             _all(SHAPE_NAMES, STATE_NAMES)),
    _counter("requests_missing_total", GROUP, "Incomplete requests without a required moment; one that lacks several "
             "counts for each.", ("moment",), _each(MISSABLE)),
    _counter("request_failures_total", GROUP, "Requests with a failure, by the first: the leg that it struck, and why.",
             ("leg", "reason"), _all(SIDES, FAILURES)),
    _counter("request_marks_total", GROUP, "Requests that something is remarkable about.", ("mark",), _each(MARKS)),
    _counter("pushes_total", GROUP, "Complete requests whose blocks were pushed.", ("dispatch",), _each(DISPATCHES)),
    _histogram("ttft_seconds", GROUP, "Time to first token of complete requests that are over, from their origin: the "
               "earliest of received and arrived.", FINE, ("prompt_tokens",), _PROMPTS),
    _histogram("class_seconds", GROUP, "Time that complete requests spent in a class. The count is of those that spent "
               "any; the exposed sums of all classes add up to the sum of ttft_seconds.", FINE,
               ("prompt_tokens", "class", "exposure"), _crossed(_PROMPTS, _CLASSES), sparse=True),
    _histogram("stage_seconds", GROUP, "Time that complete requests spent in a stage. The count is of those that spent "
               "any; the exposed sums of all stages add up to the sum of ttft_seconds.", COARSE,
               ("prompt_tokens", "stage", "class", "exposure"), _crossed(_PROMPTS, _STAGES), sparse=True),
    _histogram("slack_seconds", GROUP, "How much later what was hidden could have come without moving the first token.",
               COARSE, ("branch", "bound"), _all(BRANCHES, BOUNDS), sparse=True),
    _histogram("post_seconds", GROUP, "Preparing and submitting the transfers of complete requests, by the thread that "
               "does it.", COARSE, ("placement", "thread"), POSTERS, sparse=True),
    _histogram("tpot_seconds", GROUP, "Time per output token after the first, of requests that finished.", FINE),
    _histogram("step_seconds", GROUP, "Engine steps with a forward, by the leg that the engine serves.", COARSE,
               ("leg",), _each((*SIDES, UNTOLD)), sparse=True),
    _counter("requests_judged_total", GROUP, "Complete requests by whether they met an objective.",
             ("objective", "outcome"), _all(OBJECTIVES, OUTCOMES)),
    _counter("regret_judged_total", GROUP, "Requests that are over of which is known how many waited on their "
             "decode engine and on another one when prefill finished."),
    _counter("regret_regretted_total", GROUP, "Of these, those with another decode engine that had fewer waiting."),
    _counter("regret_waiting_total", GROUP, "How many fewer, over these."),
    _counter("slow_requests_total", GROUP, "Complete requests that missed the objective for TTFT.",
             ("prompt_tokens",), _PROMPTS),
    _counter("slow_class_seconds_total", GROUP, "Time on the path of complete requests that missed the objective for "
             "TTFT, by class.", ("prompt_tokens", "class"), _all(PROMPTS, CLASSES)),
    _gauge("requests_in_flight", GROUP, "Requests without a first token that are not over, by the moment seen last.",
           ("leg", "moment"), LAST_MOMENTS),
    _gauge("requests_in_flight_oldest_seconds", GROUP, "Age of the oldest of these; 0 where there are none."),
)  # fmt: skip

ENGINES = (
    Metric(PREFIX + "engine_info", Kind.INFO, ENGINE, "What an engine is and where it runs: pod, namespace, node, "
           "role, connector, mode, versions; its latest start."),
    _counter("engine_starts_total", ENGINE, "Starts of the engine that were seen, the one that was found included."),
    _gauge("engine_recording", ENGINE, "1 while it records; 0 where it is not instrumented, is switched off or ended."),
    _gauge("engine_last_event_timestamp_seconds", ENGINE, "When its latest event was, in seconds since 1970."),
    _counter("engine_events_total", ENGINE, "Events read of the engine's processes."),
    _counter("engine_events_lost_total", ENGINE, "Events overwritten in a ring before they were read."),
    _counter("engine_legs_total", ENGINE, "Requests that are over and had this leg here.", ("leg",), _each(SIDES)),
    _counter("engine_stage_seconds_total", ENGINE, "Time that requests spent in stages that end on this engine, on the "
             "path or hidden; all requests that are over. Stages that end on either leg's engine are not among them.",
             ("stage", "class"), STAGE_CLASSES, sparse=True),
    _counter("engine_failures_total", ENGINE, "Requests whose first failure struck here.", ("kind",), _each(TROUBLES)),
    _counter("engine_holds_total", ENGINE, "Times that a request could not be admitted, by the reason; one that waits "
             "on for another reason counts again.", ("reason",), _each(HOLDS)),
    _counter("engine_transfers_total", ENGINE, "Requests with a transfer, at either end.", ("leg",), _each(SIDES)),
    _counter("engine_transfer_bytes_total", ENGINE, "Bytes transferred, at either end.", ("leg",), _each(SIDES)),
    _counter("engine_transfer_descriptors_total", ENGINE, "Descriptors of these.", ("leg",), _each(SIDES)),
    _counter("engine_reserved_idle_block_seconds_total", ENGINE, "Decode's KV blocks times the time they were reserved "
             "and empty (reserved to transferred)."),
    _counter("engine_reserved_idle_seconds_total", ENGINE, "The time alone, over requests."),
    _gauge("engine_reserved_idle_blocks", ENGINE, "KV blocks that are reserved and empty now."),
    _counter("engine_pinned_block_seconds_total", ENGINE, "Prefill's KV blocks times the time they were held after it "
             "was done (computed to released)."),
    _counter("engine_pinned_seconds_total", ENGINE, "The time alone, over requests."),
    _gauge("engine_kv_blocks", ENGINE, "KV blocks that the engine has."),
    _gauge("engine_kv_blocks_free", ENGINE, "Of these, free ones."),
    _gauge("engine_requests", ENGINE, "Requests on the engine: waiting, running, and held for remote KV.", ("state",),
           _each(("waiting", "running", "held"))),
    _gauge("engine_writer_backlog_requests", ENGINE, "Requests that the writer has been given and has not done: "
           "finished blocks to stage, registrations to send or to receive.", ("kind",),
           _each(("blocks", "registrations"))),
    _counter("engine_steps_total", ENGINE, "Steps with a forward."),
    _counter("engine_step_seconds_total", ENGINE, "Time in these."),
    _counter("engine_step_connector_seconds_total", ENGINE, "Of that, in the connector on the forward thread."),
    _counter("engine_handshakes_begun_total", ENGINE, "First contacts with a peer engine that were submitted."),
    _counter("engine_handshakes_ended_total", ENGINE, "First contacts that were made."),
    _counter("engine_handshake_seconds_total", ENGINE, "Time from submitted to made, of these."),
)  # fmt: skip

PAIRS = (
    _counter("pair_requests_total", PAIR, "Requests that are over, of a prefill and a decode engine."),
    _counter("pair_failures_total", PAIR, "Of these, with a failure."),
    _counter("pair_timed_requests_total", PAIR, "Of these, complete: those that the times below are of."),
    _counter("pair_ttft_seconds_total", PAIR, "Time to first token."),
    _counter("pair_coordination_seconds_total", PAIR, "Exposed coordination, at least."),
    _counter("pair_transfer_bytes_total", PAIR, "Bytes transferred."),
    _counter("pair_transfer_seconds_total", PAIR, "Time in which they moved: wire, and with submit and poll_gap.",
             ("bound",), _each(BOUNDS)),
)  # fmt: skip

ODDITIES = ("duplicates", "late", "out_of_bounds", "strays", "ambiguous", "stale_matches", "cleanups", "evicted")
"""Of the tally, what is counted beside the results."""

ITSELF = (
    Metric(PREFIX + "build_info", Kind.INFO, ALONE, "Version of kvscope and of the recording format."),
    _counter("oddities_total", ALONE, "What was counted beside the results: events that came twice, too late, or are "
             "impossible; records and clean-ups of no request; joins refused; matches with a stale registration; "
             "requests given up to bound memory.", ("kind",), _each(ODDITIES)),
    _counter("clock_violations_total", ALONE, "Moments that lie after one that depends on them."),
    _gauge("clock_bound_seconds", ALONE, "How far instants that are compared may be apart by their clocks alone: 0 on "
           "one host, by the messages between two; +Inf where none tell of a host's, and no time across is told."),
    _gauge("rings_readable", ALONE, "Whether the run directory could be read at the last look: 1 or 0."),
    _gauge("rings_refused", ALONE, "Ring files that could not be read."),
    _gauge("tls_certificate_expiry_timestamp_seconds", ALONE, "When the certificate that `kvscope serve` shows ends, "
           "or the first of its chain, in seconds since 1970. Told where there is one."),
    _counter("incidents_total", ALONE, "Incidents that were saved whole (`saved`), and those that could not be saved, "
             "or not whole (`failed`). Triggers that were set off and began none: they joined one that was being saved "
             "(`joined`), or came too soon after one (`suppressed`).",
             ("kind",), _each(("saved", "joined", "suppressed", "failed"))),
    _gauge("incidents_savable", ALONE, "Whether an incident could be saved now: 1, or 0 where something is known to "
           "keep it from that. Told where incidents are saved."),
    _counter("reader_events_total", ALONE, "Events read."),
    _counter("reader_cpu_seconds_total", ALONE, "CPU time of reading: taking events and splitting requests "
             "(`reading`), and adding them up (`metrics`).", ("part",), _each(("reading", "metrics"))),
)  # fmt: skip

METRICS: tuple[Metric, ...] = REQUESTS + ENGINES + PAIRS + ITSELF
METRIC: dict[str, Metric] = {metric.name: metric for metric in METRICS}


ROOM = 36_000
"""A model on a connector is told by name if, with the engines that there are, no more series than these can come of it,
whatever happens: that is a page of 8 MB. Beside 200 engines there is room for 3, beside fewer for more."""


def most_series(engines: int = ENGINE.most, groups: int = GROUP.most) -> int:
    """Series told at most, `other` included, whatever happens: with so many engines, and models on a connector."""
    sets = {ENGINE: engines + 1, GROUP: groups + 1, PAIR: PAIR.most + 1, ALONE: 1}
    return sum(sets[metric.scope] * metric.series for metric in METRICS)
