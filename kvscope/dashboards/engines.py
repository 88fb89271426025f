"""Engines: load, KV blocks, steps, the writer, failures; beside vLLM's own metrics where they exist."""

from __future__ import annotations

from kvscope.dashboards import limits
from kvscope.dashboards.panels import Board, Look, Panel, Query, Row, Unit
from kvscope.dashboards.promql import ENGINE_KEY, RANGE, WINDOW, grown, ratio, series

WRITER = ("staging", "writer_wake", "registration_handoff", "registration_send", "prepare", "submit")
WHO_IT_IS = ("engine_name", "model_name", "engine", "role", "mode", "connector", "vllm", "nixl", "release", "gpu", "tp",
             "pp", "dp", "block_size", "namespace", "pod", "node")  # fmt: skip
NO_LOAD = "no engine has told its load"
NO_VLLM = "Prometheus does not scrape vLLM, or nothing ties its targets to engines: docs/metrics.md, Beside vLLM's own"
POD = "namespace, pod, model_name, engine"


def _vllm(name: str) -> tuple[Query, Query]:
    """A metric of vLLM's under kvscope's names: by the pod on Kubernetes, elsewhere by a label of the target's."""
    info = f"{series('engine_info', pod='~.+')}"
    chosen = '{model_name=~"$model",engine_name=~"$engine",engine_name!=""}'
    return (
        Query(f"{name}\n* on ({POD}) group_left (engine_name) {info}", "{{engine_name}}", empty=NO_VLLM),
        Query(f"max by (engine_name) ({name}{chosen})", "{{engine_name}}", empty=NO_VLLM),
    )


def _per_leg(times: str, window: str = WINDOW) -> str:
    legs = grown("engine_legs_total", window, by="engine_name")
    return f"{times}\n/ on (engine_name) group_left () ({legs} > 0)"


LOAD = Row(
    "Load",
    (
        Panel(
            "Requests running",
            "By engine, as its scheduler said last.",
            Unit.NUMBER, limits.LOAD,
            (Query(series("engine_requests", state="running"), "{{engine_name}}"),), width=8, nothing=NO_LOAD,
        ),
        Panel(
            "Requests waiting, and held for remote KV",
            "Waiting: for a slot or blocks. Held: their blocks are reserved and their KV has not come.",
            Unit.NUMBER, limits.LOAD,
            (Query(series("engine_requests", state="~waiting|held"), "{{engine_name}} {{state}}"),), width=8,
            nothing=NO_LOAD,
        ),
        Panel(
            "Free KV blocks, share",
            "Of the blocks that the engine has. Decode without free blocks cannot reserve: a long wait before"
            " registration.",
            Unit.SHARE, limits.FREE_BLOCKS,
            (Query(ratio(series("engine_kv_blocks_free"), series("engine_kv_blocks")), "{{engine_name}}"),),
            width=8, nothing=NO_LOAD,
        ),
        Panel(
            "Legs",
            "Requests that were over, a second, by engine and by what it did for them.",
            Unit.REQUESTS, limits.LOAD,
            (Query(grown("engine_legs_total", by="engine_name, leg"), "{{engine_name}} {{leg}}"),), width=8,
            nothing="no request was over in this time",
        ),
        Panel(
            "Mean step time",
            "Steps with a forward. What waits for a step (intake, pickup, polls) waits about as long.",
            Unit.SECONDS, limits.COMPARED,
            (Query(ratio(grown("engine_step_seconds_total", by="engine_name"),
                         grown("engine_steps_total", by="engine_name")),
                   "{{engine_name}}"),),
            width=8, nothing="no engine ran a step in this time",
        ),
        Panel(
            "Steps",
            "With a forward, a second.",
            Unit.PER_SECOND, limits.LOAD,
            (Query(grown("engine_steps_total", by="engine_name"), "{{engine_name}}"),), width=8,
            nothing="no engine ran a step in this time",
        ),
    ),
)  # fmt: skip

HOLDS = Row(
    "Admission",
    (
        Panel(
            "Requests held from admission, by reason",
            "Times a second that a request could not be admitted. Blocks: give the engine more cache, or fewer"
            " sequences.",
            Unit.PER_SECOND, limits.LOAD,
            (Query(f"{grown('engine_holds_total', by='engine_name, reason')} > 0", "{{engine_name}} {{reason}}",
                   empty="all may be admitted at once"),),
            width=24, nothing="0: every request was admitted at once",
        ),
    ),
)  # fmt: skip

WRITERS = Row(
    "Writer and stages",
    (
        Panel(
            "Writer's backlog",
            "Requests that the writer was given and has not done: finished blocks to stage, registrations.",
            Unit.NUMBER, limits.BACKLOG,
            (Query(series("engine_writer_backlog_requests"), "{{engine_name}} {{kind}}", empty="pull has no writer"),),
            width=8, nothing="no engine here has a writer: pull has none",
        ),
        Panel(
            "What passes through the writer, per leg",
            "Mean time in stages that the writer thread or the way to it makes. Grows at constant descriptors where"
            " it gets no CPU.",
            Unit.SECONDS, limits.COMPARED,
            (Query(_per_leg(grown("engine_stage_seconds_total", by="engine_name, stage", stage=f"~{'|'.join(WRITER)}")),
                   "{{engine_name}} {{stage}}"),),
            width=8, nothing="no request was over in this time",
        ),
        Panel(
            "Connector's share of step time",
            "On the forward thread.",
            Unit.SHARE, limits.CONNECTOR,
            (Query(ratio(grown("engine_step_connector_seconds_total", by="engine_name"),
                         grown("engine_step_seconds_total", by="engine_name")), "{{engine_name}}"),),
            width=8, nothing="no engine ran a step in this time", leads="commitment",
        ),
        Panel(
            "Every stage by engine, over the time shown",
            "Mean per leg of that engine, exposed or hidden, at the engine where the stage ends. Who differs from the"
            " others is the odd one out.",
            Unit.SECONDS, limits.COMPARED,
            (Query(_per_leg(grown("engine_stage_seconds_total", RANGE, by="engine_name, class, stage"), RANGE),
                   "mean"),),
            Look.TABLE, 24, 9, "no request was over in this time", names=("engine_name", "class", "stage"),
        ),
    ),
)  # fmt: skip

TROUBLE = Row(
    "Failures",
    (
        Panel(
            "Failures, by engine",
            "Requests whose first failure struck there: handshake, a lease that expired, others.",
            Unit.REQUESTS, limits.SOME,
            (Query(grown("engine_failures_total", by="engine_name, kind"), "{{engine_name}} {{kind}}"),), width=8,
            nothing="no engine is known",
        ),
        Panel(
            "Failures, by reason",
            "Of requests, by the first failure's leg and reason.",
            Unit.REQUESTS, limits.SOME,
            (Query(f"{grown('request_failures_total', by='leg, reason')} > 0", "{{leg}} {{reason}}",
                   empty="there may be none"),),
            width=8, nothing="0: no request failed",
        ),
        Panel(
            "Starts",
            "Over the time shown: more than one is a restart.",
            Unit.NUMBER, limits.FACT,
            (Query(f"sum by (engine_name) (increase({series('engine_starts_total')}[{RANGE}]))", "{{engine_name}}"),),
            Look.STAT, 8, nothing="no engine is known",
        ),
    ),
)  # fmt: skip

VLLM = Row(
    "Beside vLLM's own metrics",
    (
        Panel(
            "KV cache in use, as vLLM says",
            "vllm:kv_cache_usage_perc under kvscope's names for engines.",
            Unit.SHARE, limits.COMPARED, _vllm("vllm:kv_cache_usage_perc"), width=8, nothing=NO_VLLM,
        ),
        Panel(
            "Requests waiting, as vLLM says",
            "vllm:num_requests_waiting. It is sampled at another instant than kvscope's.",
            Unit.NUMBER, limits.LOAD, _vllm("vllm:num_requests_waiting"), width=8, nothing=NO_VLLM,
        ),
        Panel(
            "Requests running, as vLLM says",
            "vllm:num_requests_running.",
            Unit.NUMBER, limits.LOAD, _vllm("vllm:num_requests_running"), width=8, nothing=NO_VLLM,
        ),
    ),
)  # fmt: skip

WHO = Row(
    "Who they are",
    (
        Panel(
            "Engines",
            "What each said at its latest start, and whether it records: 1 or 0.",
            Unit.NUMBER, limits.FACT,
            (
                Query(f"max by ({', '.join(WHO_IT_IS)}) ({series('engine_info')}\n* on ({ENGINE_KEY}) group_left ()"
                      f" max by ({ENGINE_KEY}) ({series('engine_recording')}))", "records"),
            ),
            Look.TABLE, 24, 9, "no engine is known",
            names=WHO_IT_IS,
        ),
    ),
)  # fmt: skip

BOARD = Board(
    "engines",
    "kvscope: engines",
    "Each engine beside the others: load, KV blocks, steps, the writer, failures; and what vLLM says itself.",
    (LOAD, HOLDS, WRITERS, TROUBLE, VLLM, WHO),
)
