"""The tables of a Parquet folder: every column, its unit, its meaning. Writing, reading and docs/parquet.md derive from
this one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from kvscope.model.graph import ALL_NODES, BRANCHES, Node
from kvscope.model.moments import MOMENT
from kvscope.model.splits import DISPATCH_PARTS, MARKS
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import TEXT_VALUES, VALUES
from kvscope.sources.jsonl import FLAGS
from kvscope.sources.schema import VALUE_MEANING


class Kind(Enum):
    """What a column holds."""

    INSTANT = "a time or a length of time; int64, ns"
    NUMBER = "int64"
    SMALL = "int32, few different ones"
    FLAG = "true or false"
    WORD = "text, few different ones"
    TEXT = "text"
    WORDS = "a list of texts"
    RATIO = "float64"
    WALL = "time of day; timestamp, us, UTC"


TYPE: dict[Kind, str] = {
    Kind.INSTANT: "BIGINT",
    Kind.NUMBER: "BIGINT",
    Kind.SMALL: "INTEGER",
    Kind.FLAG: "BOOLEAN",
    Kind.WORD: "VARCHAR",
    Kind.TEXT: "VARCHAR",
    Kind.WORDS: "VARCHAR[]",
    Kind.RATIO: "DOUBLE",
    Kind.WALL: "TIMESTAMP WITH TIME ZONE",
}
"""What SQL calls it."""


@dataclass(frozen=True)
class Column:
    """A column. What is not known is null, never zero."""

    name: str
    kind: Kind
    unit: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """A file of the folder."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.parquet"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _ns(name: str, meaning: str) -> Column:
    return Column(name, Kind.INSTANT, "ns", meaning)


def _word(name: str, meaning: str) -> Column:
    return Column(name, Kind.WORD, "", meaning)


def _number(name: str, meaning: str, unit: str = "") -> Column:
    return Column(name, Kind.NUMBER, unit, meaning)


UNIT_OF_VALUE: dict[str, str] = {
    **dict.fromkeys(("wall_ns", "looked", "rtt_ns", "offset_ns", "nixl_start", "nixl_post", "nixl_duration"), "ns"),
    **dict.fromkeys(("largest_gap", "begin", "connector_ns"), "ns"),
    **dict.fromkeys(("tokens", "cached"), "tokens"),
    **dict.fromkeys(("blocks", "free_blocks"), "blocks"),
    **dict.fromkeys(("requests", "waiting", "running", "held"), "requests"),
    "bytes": "bytes",
    "descriptors": "descriptors",
    "folded": "steps",
}
VALUE_NAMES: tuple[str, ...] = tuple(dict.fromkeys(name for names in VALUES.values() for name in names))
WORDS_OF_VALUES = TEXT_VALUES | {"direction"}


def _value(name: str) -> Column:
    stamped = ", ".join(moment for moment, names in VALUES.items() if name in names)
    meaning = f"{VALUE_MEANING[name]} (of {stamped})"
    if name in WORDS_OF_VALUES:
        return _word(name, meaning)
    unit = UNIT_OF_VALUE.get(name, "")
    return _ns(name, meaning) if unit == "ns" else _number(name, meaning, unit)


_PROCESS = Column("process", Kind.SMALL, "", "number of the process, in `processes`")
_ENGINE = _word("engine", "stable name of the engine or router")
_HOST = _word("host", "where its clock runs")

EVENTS = Table(
    "events",
    "every moment, by time",
    (
        _ns("t", "when it was, on the monotonic clock of the host"),
        _PROCESS,
        _ENGINE,
        _word("leg", "prefill, decode or router; engine or null for what belongs to no request"),
        _word("moment", "its name"),
        _word("request", "request id on this engine; `#` and 16 hex digits where its text was lost"),
        _word(
            "peer_request", "the other leg's id (`matched`, a pull's `reserved`); the one the router gave (`queued`)"
        ),
        _word("thread", "role of the thread that stamped it"),
        Column("rank", Kind.SMALL, "", "rank that stamped it"),
        Column("peer_rank", Kind.SMALL, "", "rank at the other end of the transfer"),
        Column("step", Kind.NUMBER, "", "engine step that was running"),
        _word("state", "state that the post returned (`posted`)"),
        _word("reason", "why (`held`, `failed`, `finished`)"),
        *(Column(name, Kind.FLAG, "", f"the moment has the flag `{name}`") for name in FLAGS),
        *(_value(name) for name in VALUE_NAMES),
    ),
)

STEPS = Table(
    "steps",
    "every engine step, by its end; the same records as in `events`",
    (
        _ns("begin_ns", "when it began"),
        _ns("end_ns", "when it ended"),
        _ns("duration_ns", "how long it took; of records that stand for several steps, all of them"),
        _PROCESS,
        _ENGINE,
        _word("engine_id", "id of the engine, new at each start"),
        _word("thread", "role of the thread that stamped it: `core` and `worker` each stamp a step of the same number"),
        Column("rank", Kind.SMALL, "", "rank that stamped it"),
        _number("step", "its number"),
        _number("requests", VALUE_MEANING["requests"], "requests"),
        _number("tokens", "tokens in the step", "tokens"),
        _ns("connector_ns", VALUE_MEANING["connector_ns"]),
        _number("folded", VALUE_MEANING["folded"], "steps"),
    ),
)

LOADS = Table(
    "loads",
    "queues and free blocks of the engines, on change, by time; the same records as in `events`",
    (
        _ns("t", "when it was so: the end of a step"),
        _PROCESS,
        _ENGINE,
        _word("engine_id", "id of the engine, new at each start"),
        *(_value(name) for name in VALUES["load"]),
    ),
)

PROCESSES = Table(
    "processes",
    "who recorded, and what was lost",
    (
        _PROCESS,
        _ENGINE,
        _word("engine_id", "id of the engine, new at each start"),
        _HOST,
        _number("pid", "process id there"),
        _number("events", "records of it that are in `events`"),
        _ns("first_ns", "its first event"),
        _ns("last_ns", "its last event"),
        _number("lost", "records that were lost since reading began", "events"),
        _number("earlier", "records overwritten before reading began", "events"),
        Column("note", Kind.TEXT, "", "why it is not instrumented, if it is not"),
        Column("ended", Kind.FLAG, "", "it was seen to run no more"),
        Column("off", Kind.FLAG, "", "it was switched off when it was last looked at"),
        _ns("wall_offset_ns", "what to add to its times to get the time of day, ns since 1970"),
        Column("started", Kind.TEXT, "", "what it said of itself: versions, connector, sizes; JSON"),
        Column(
            "gaps",
            Kind.TEXT,
            "",
            "where recordings leave something out between them: JSON, `begin` and `end` in ns, `events`",
        ),
    ),
)
NEW = ("gaps",)
"""Columns of `processes` that exports of earlier versions have not."""


def _classes() -> Iterator[Column]:
    for cls in Class:
        name = str(cls).replace(" ", "_")
        if cls in (Class.COORDINATION, Class.TRANSFER):
            yield _ns(f"{name}_low_ns", f"{cls}, exposed: without `submit` and `poll_gap`")
            yield _ns(f"{name}_high_ns", f"{cls}, exposed: with `submit` and `poll_gap`, which may belong to it")
        else:
            yield _ns(f"{name}_ns", f"{cls}, exposed")


def _slacks() -> Iterator[Column]:
    for branch in BRANCHES:
        for bound, word in (("low", "least"), ("high", "most")):
            meaning = f"how much later the hidden {branch} could have ended, at {word}; null where it was not hidden"
            yield _ns(f"slack_{branch}_{bound}_ns", meaning)


def at_name(node: Node) -> str:
    """The column of a node's time: `decode_arrived_at_ns`, `matched_at_ns`."""
    return node.name.replace("P.", "prefill_").replace("D.", "decode_") + "_at_ns"


def _at(node: Node) -> Column:
    leg = {"poster": "whoever posts", "none": "computed"}.get(node.leg, node.leg)
    meaning = MOMENT[node.moment].meaning if node.moment else "the transfer's end: bytes were there at the latest"
    return _ns(at_name(node), f"{leg}: {meaning}")


NODES_AT: tuple[int, ...] = tuple(
    index for index, node in enumerate(ALL_NODES) if node.name not in ("origin", "first_token")
)
"""Nodes whose time has a column of the form `.._at_ns`."""

REQUESTS = Table(
    "requests",
    "every request, with its stages",
    (
        Column("request", Kind.TEXT, "", "the decode leg's id, else the prefill leg's"),
        Column("peer_request", Kind.TEXT, "", "the prefill leg's id where both are known"),
        _word("shape", "push, pull, return_read, prefix_hit, no_handoff, decode_only, failed_recomputed, failed, .."),
        _word("state", "complete, one_legged, incomplete, unfinished, unmatched or unaligned"),
        Column("complete", Kind.FLAG, "", "its state is complete"),
        Column("missing", Kind.WORDS, "", "required moments that were not seen"),
        _ns("origin_ns", "when it began, on the monotonic clock of the reference host"),
        Column("origin_time", Kind.WALL, "", "the same as time of day to the us, where that is known"),
        _ns("first_token_ns", "when its first token was there"),
        _ns("ttft_ns", "their difference; only of complete requests"),
        _word("prefill_engine", "stable name"),
        _word("prefill_engine_id", "id of that engine, new at each start"),
        _word("decode_engine", "stable name"),
        _word("decode_engine_id", "id of that engine, new at each start"),
        _number("prompt_tokens", "tokens of the prompt", "tokens"),
        _number("cached_tokens", "of them, those that need not be computed or moved", "tokens"),
        _number("output_tokens", "tokens of the answer", "tokens"),
        _number("transfer_bytes", "bytes moved", "bytes"),
        _number("descriptors", "descriptors of the transfer", "descriptors"),
        Column("ranks", Kind.SMALL, "", "transfers that made up the handoff"),
        _ns("rank_spread_ns", "the last transfer's end less the first's"),
        Column("slowest_prefill_rank", Kind.SMALL, "", "prefill rank that was waited for, of several transfers"),
        Column("slowest_decode_rank", Kind.SMALL, "", "decode rank that was waited for, of several transfers"),
        _word("post_thread", "thread role that prepared and submitted the transfer"),
        Column("tpot_ns", Kind.RATIO, "ns", "time per token after the first"),
        _ns("largest_gap_ns", "largest gap between tokens"),
        _word("finish_reason", "why it ended"),
        _word("failure", "leg and reason of its first failure"),
        _word("last_moment", "latest moment seen, with its leg"),
        _ns("last_moment_ns", "when that was"),
        Column("marks", Kind.WORDS, "", ", ".join(MARKS)),
        Column("knew_peer", Kind.FLAG, "", "whether the decode leg was sent knowing prefill's outcome"),
        *(_ns(f"dispatch_{part}_ns", f"{part} of `dispatch`, where the router reports it") for part in DISPATCH_PARTS),
        _ns("reserved_idle_ns", "how long decode's blocks were reserved and empty"),
        _number("reserved_blocks", "how many these were", "blocks"),
        _ns("pinned_ns", "how long prefill's blocks were held after prefill"),
        _number("pinned_blocks", "how many these were", "blocks"),
        *_slacks(),
        *_classes(),
        *(_ns(f"exposed_{stage.name}_ns", f"on the path: {stage.meaning}") for stage in STAGES),
        *(_ns(f"hidden_{stage.name}_ns", f"behind the path: {stage.meaning}") for stage in STAGES),
        *(_at(ALL_NODES[node]) for node in NODES_AT),
    ),
)

TABLES: tuple[Table, ...] = (EVENTS, REQUESTS, STEPS, LOADS, PROCESSES)
