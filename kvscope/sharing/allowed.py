"""What of a recording may be given away: each field, what becomes of it, and why. What is not in here is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """What becomes of a field."""

    KEPT = "kept"
    """A number, a switch, a code of the vocabulary: as it is."""
    KNOWN = "kept if known"
    """A text that `known` has, else nothing."""
    RENAMED = "renamed"
    """A name of its kind instead; equal ones stay equal."""
    HASHED = "hashed"
    """Made with the key; equal ones stay equal."""
    ROUNDED = "rounded"
    """A size, by at most a ninth."""
    SHIFTED = "shifted"
    """An instant, on a clock that begins elsewhere."""
    TIMED = "dropped, unless `--keep-time`"
    """A time of day: kept with --keep-time alone."""
    DROPPED = "dropped"


KEPT, KNOWN, RENAMED, HASHED = Rule.KEPT, Rule.KNOWN, Rule.RENAMED, Rule.HASHED
ROUNDED, SHIFTED, TIMED, DROPPED = Rule.ROUNDED, Rule.SHIFTED, Rule.TIMED, Rule.DROPPED


@dataclass(frozen=True)
class Field:
    """One decision."""

    rule: Rule
    why: str
    kind: str = ""
    """RENAMED: whose name it is. KNOWN: the words of `known` that are allowed."""


Table = Mapping[str, Field]

UNDECIDED = Field(DROPPED, "nobody has decided on it")

_CODE = "a code of kvscope's vocabulary"
_COUNT = "small numbers: how many of something were there"
_SIZE = "how long prompts and answers are can tell one from the other"
_LASTED = "what is measured"
_SETTING = "explains the times"
_PLACE = "names a machine or who runs it"

RECORD: Table = {
    "sequence": Field(KEPT, "tells a record that two recordings hold from two records"),
    "t": Field(SHIFTED, "what is measured; since when the host is up is nobody's business"),
    "request": Field(HASHED, "joins a request's moments; a key of a known id can be found by trying"),
    "peer": Field(HASHED, "joins the two legs of a request"),
    "moment": Field(KEPT, _CODE),
    "leg": Field(KEPT, _CODE),
    "thread": Field(KEPT, _CODE),
    "state": Field(KEPT, _CODE),
    "rank": Field(KEPT, _COUNT),
    "peer_rank": Field(KEPT, _COUNT),
    "step": Field(KEPT, "tells which steps ran without a prompt's chunk"),
    "reason": Field(KEPT, _CODE),
    "flags": Field(KEPT, _CODE),
}
"""The fixed fields of a record. Codes and flags that this version does not know become none."""

VALUES: Table = {
    "wall_ns": Field(TIMED, "the time of day"),
    "tokens": Field(ROUNDED, _SIZE),
    "direction": Field(KEPT, _CODE),
    "turn": Field(KEPT, _COUNT),
    "traceparent": Field(DROPPED, "leads to the request in whatever keeps its traces"),
    "peer_engine": Field(RENAMED, "an engine's id or address", "engine"),
    "cached": Field(ROUNDED, _SIZE),
    "blocks": Field(ROUNDED, _SIZE),
    "looked": Field(SHIFTED, _LASTED),
    "bytes": Field(ROUNDED, _SIZE),
    "rtt_ns": Field(KEPT, _LASTED),
    "offset_ns": Field(DROPPED, "how much longer one host has been up than another"),
    "descriptors": Field(ROUNDED, _SIZE),
    "nixl_start": Field(SHIFTED, _LASTED),
    "nixl_post": Field(KEPT, _LASTED),
    "nixl_duration": Field(KEPT, _LASTED),
    "free_blocks": Field(ROUNDED, _SIZE),
    "largest_gap": Field(KEPT, _LASTED),
    "reason_text": Field(HASHED, "the engine's own words, which can name anything", "reason"),
    "begin": Field(SHIFTED, _LASTED),
    "requests": Field(KEPT, _COUNT),
    "connector_ns": Field(KEPT, _LASTED),
    "folded": Field(KEPT, _COUNT),
    "waiting": Field(KEPT, _COUNT),
    "running": Field(KEPT, _COUNT),
    "held": Field(KEPT, _COUNT),
}
"""What moments carry."""

PROCESS: Table = {
    "process": Field(KEPT, "its number in this file"),
    "pid": Field(RENAMED, _PLACE, "pid"),
    "start_ticks": Field(DROPPED, "when it was started, since the host is up"),
    "boot_id": Field(RENAMED, "names a machine since its last start", "host"),
    "monotonic_ns": Field(SHIFTED, "the clock pair: with the time of day dropped it says nothing"),
    "realtime_ns": Field(TIMED, "the time of day"),
    "clock_error_ns": Field(KEPT, _LASTED),
    "stated_bytes": Field(DROPPED, "explains nothing that was measured"),
    "file_bytes": Field(DROPPED, "explains nothing that was measured"),
    "segments": Field(KEPT, "whether it recorded at all"),
    "on": Field(KEPT, "whether it recorded then"),
    "self_off": Field(RENAMED, "an error's own words, which can name anything", "reason"),
    "note": Field(RENAMED, "an error's own words, which can name anything", "reason"),
    "errors": Field(KEPT, "what is missing"),
    "refused": Field(KEPT, "what is missing"),
    "untold": Field(KEPT, "what is missing"),
    "alive": Field(KEPT, "whether more would have come"),
    "started": Field(KEPT, "as its own table says"),
    "threads": Field(KNOWN, "roles alone: names are dropped", "thread"),
    "lost": Field(KEPT, "what is missing"),
    "earlier": Field(KEPT, "what is missing"),
    "before": Field(KEPT, "what is missing"),
    "texts_lost": Field(KEPT, "what is missing"),
    "ids": Field(KNOWN, "whether ids were hidden already", "ids"),
}
"""What is said of a process."""

STARTED: Table = {
    "process": Field(KNOWN, _SETTING, "process"),
    "rank": Field(KEPT, _COUNT),
    "engine": Field(RENAMED, _PLACE, "engine"),
    "engine_id": Field(RENAMED, "tells a restarted engine from the one before", "engine"),
    "vllm": Field(KNOWN, _SETTING, "version"),
    "nixl": Field(KNOWN, _SETTING, "version"),
    "torch": Field(KNOWN, _SETTING, "version"),
    "python": Field(KNOWN, _SETTING, "version"),
    "release": Field(KNOWN, "which patches are in force", "version"),
    "patches": Field(KNOWN, "which patches are in force", "digest"),
    "applied": Field(KNOWN, "how the patches came in", "applied"),
    "missing_functions": Field(
        RENAMED, "how many: functions of a build of one's own have names of their own", "function"
    ),
    "connector": Field(KNOWN, _SETTING, "connector"),
    "mode": Field(KNOWN, _SETTING, "mode"),
    "role": Field(KNOWN, _SETTING, "role"),
    "placement": Field(KNOWN, _SETTING, "placement"),
    "backends": Field(KNOWN, _SETTING, "backend"),
    "num_threads": Field(KEPT, _SETTING),
    "ucx_tls": Field(KNOWN, _SETTING, "transports"),
    "bidirectional": Field(KEPT, _SETTING),
    "lease_s": Field(KEPT, _SETTING),
    "kv_buffer_device": Field(KNOWN, _SETTING, "device"),
    "load_failure_policy": Field(KNOWN, _SETTING, "policy"),
    "model": Field(RENAMED, "names what is served, or its path; kept with --keep model", "model"),
    "dtype": Field(KNOWN, _SETTING, "dtype"),
    "max_model_len": Field(KEPT, _SETTING),
    "block_size": Field(KEPT, _SETTING),
    "kv_blocks": Field(ROUNDED, "the free memory of the machine, nearly"),
    "prefix_caching": Field(KEPT, _SETTING),
    "max_num_batched_tokens": Field(KEPT, _SETTING),
    "max_num_seqs": Field(KEPT, _SETTING),
    "async_scheduling": Field(KEPT, _SETTING),
    "runner": Field(KNOWN, _SETTING, "runner"),
    "executor": Field(KNOWN, _SETTING, "executor"),
    "tp": Field(KEPT, _SETTING),
    "pp": Field(KEPT, _SETTING),
    "dp": Field(KEPT, _SETTING),
    "dp_rank": Field(KEPT, _COUNT),
    "node_name": Field(RENAMED, _PLACE, "node"),
    "gpu": Field(RENAMED, "a rare one names who has it; kept with --keep gpu", "gpu"),
    "nics": Field(RENAMED, "how many: their names name a machine", "nic"),
    "pod": Field(RENAMED, _PLACE, "pod"),
    "namespace": Field(RENAMED, _PLACE, "namespace"),
    "node": Field(RENAMED, _PLACE, "node"),
    "kind": Field(KNOWN, "whether it is a router", "process"),
    "name": Field(RENAMED, "a router's own name", "router"),
    "version": Field(KNOWN, "a router's version", "version"),
    "dispatch": Field(KNOWN, _SETTING, "dispatch"),
    "hold_ms": Field(KEPT, _SETTING),
    "ids": Field(KNOWN, "whether ids were hidden already", "ids"),
    "dropped": Field(KNOWN, "fields that had no room", "field"),
}
"""What a process says of itself."""

HEAD: Table = {
    "recording": Field(RENAMED, "tells one recording from another", "recording"),
    "part": Field(DROPPED, "it is one file now"),
    "kvscope": Field(KNOWN, "which version recorded", "version"),
    "layout": Field(KEPT, "how records are laid out"),
    "boot_id": Field(DROPPED, _PLACE),
    "monotonic_ns": Field(DROPPED, "when recording began says less than the events"),
    "realtime_ns": Field(DROPPED, "the time of day"),
    "shared": Field(KNOWN, "that sizes are rounded", "shared"),
}
"""What a file says of itself."""

STACKS: Table = {
    "stacks": Field(KEPT, "the version of the format"),
    "period_ns": Field(KEPT, _LASTED),
    "boot_id": Field(RENAMED, "names a machine since its last start", "host"),
    "tool": Field(KNOWN, "what took the samples", "tool"),
    "clock": Field(RENAMED, "a process's number", "pid"),
    "from": Field(SHIFTED, "for which time the next holds"),
    "to": Field(SHIFTED, "for which time the next holds"),
    "error_ns": Field(KEPT, "how well times are known"),
    "thread": Field(KEPT, "its number in this file"),
    "pid": Field(RENAMED, "a process's number", "pid"),
    "tid": Field(RENAMED, "a thread's number", "tid"),
    "name": Field(KNOWN, "engines and Python name threads; others can name anything", "thread name"),
    "engine": Field(RENAMED, _PLACE, "engine"),
    "role": Field(KNOWN, "which of an engine's threads it is", "thread"),
    "stack": Field(KEPT, "its number in this file"),
    "frames": Field(
        KNOWN, "function, file and line in packages that everybody has; `(not told)` for all others", "frame"
    ),
    "t": Field(SHIFTED, _LASTED),
    "gil": Field(KEPT, _LASTED),
    "idle": Field(KEPT, _LASTED),
    "waits": Field(KEPT, _LASTED),
    "note": Field(DROPPED, "free words"),
}
"""Sampled stacks, with --stacks."""

TABLES: dict[str, Table] = {
    "record": RECORD,
    "value": VALUES,
    "process": PROCESS,
    "started": STARTED,
    "head": HEAD,
    "stacks": STACKS,
}
KEEPABLE = ("model", "gpu")
"""Kinds of names that --keep leaves as they are."""
