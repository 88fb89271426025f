"""What a thread was doing, told by its stack: from the innermost frame outwards, the first that the table knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from kvscope.stacks.reading import UNTOLD, Stacks

GIL_WAIT = "GIL wait"
WAITING, WAKING = "waiting", "waking"
OTHER, ASLEEP = "other: ", "asleep: "
"""Before the innermost frame of a stack in which the table knows none."""
NO_FRAME = "no Python frame"


@dataclass(frozen=True)
class Doing:
    """Frames that say what a thread does."""

    name: str
    file: str
    """A pattern for the beginning of the frame's file, from its package on."""
    function: str = ""
    """A pattern for the whole name of its function, without its class; empty: any."""
    meaning: str = ""
    innermost: bool = False
    """It says so of the innermost frame alone."""


TABLE: tuple[Doing, ...] = (
    Doing(
        "descriptors",
        r"vllm/distributed/kv_transfer/kv_connector/v1/nixl/",
        r"_compute_desc_ids|_build_\w+|_stack_descs|_map_block_ids\w*|_logical_to_kernel_block_ids|group_ids"
        r"|_apply_prefix_caching\w*|_apply_dcp_prefix_caching|_block_ids_by_region|get_mapped_blocks"
        r"|_as_grouped_block_ids|register_local_xfer_handler",
        "building the lists of blocks, and the transfer's handle",
    ),
    Doing("descriptors", r"nixl\w*/", r"make_prepped_xfer|initialize_xfer|prep_xfer_dlist|get_xfer_descs"),
    Doing("NIXL post", r"nixl\w*/", r"transfer", "inside the call that submits a transfer"),
    Doing("NIXL poll", r"nixl\w*/", r"check_xfer_state|get_new_notifs|update_notifs", "asking NIXL what has happened"),
    Doing("NIXL notify", r"nixl\w*/", r"send_notif", "sending a registration, or a heartbeat"),
    Doing("NIXL", r"nixl\w*/", "", "inside NIXL otherwise"),
    Doing("connector", r"vllm/distributed/kv_transfer/|vllm/v1/worker/kv_connector", "", "the KV connector's own code"),
    Doing("kvscope", r"kvscope/", "", "recording a moment"),
    Doing(
        "spinning",
        r"vllm/distributed/(device_communicators/shm_broadcast|utils)\.py",
        r"sched_yield|wait|acquire_read|check|memory_fence|dequeue",
        "waiting for a message of another process by asking again and again: it takes a core",
    ),
    Doing("messages", r"vllm/distributed/device_communicators/shm_broadcast", "", "to and from other processes"),
    Doing("messages", r"vllm/v1/serial_utils|msgspec/|msgpack/|pickle\.py"),
    Doing("scheduler", r"vllm/v1/core/", "", "choosing the next step's requests, KV blocks"),
    Doing("sampler", r"vllm/v1/sample/", "", "choosing tokens"),
    Doing(
        "forward",
        r"vllm/(model_executor|attention|compilation|ir|v1/attention|v1/worker|forward_context|_custom_ops)|torch/",
        "",
        "the model: input preparation, layers, their operators",
    ),
    Doing(
        "tokenising",
        r"vllm/(tokenizers|transformers_utils|renderers|v1/engine/(detokenizer|input_processor|output_processor))"
        r"|transformers/|tokenizers/",
        "",
        "text to tokens and back",
    ),
    Doing(
        "pausing",
        r"vllm/v1/engine/core\.py",
        r"_process_engine_step",
        "a millisecond of sleep after a step without a batch, or on its way into one or out of it",
        innermost=True,
    ),
    Doing("engine loop", r"vllm/(v1/(engine|executor|outputs|request)|sampling_params)", "", "between all these"),
    Doing("API server", r"vllm/entrypoints/|uvicorn/|starlette/|fastapi/|uvloop/|pydantic/|aiohttp/", "", "HTTP"),
    Doing("metrics", r"vllm/v1/metrics/|prometheus_client/|logging/", "", "logs and vLLM's own metrics"),
    Doing("event loop", r"asyncio/", "", "asyncio"),
)

_WAITS = re.compile(
    r"threading\.py:(wait|join|acquire|_wait_for_tstate_lock)|queue\.py:get|selectors\.py:select"
    r"|zmq/.*:(poll|_poll|recv\w*|select)|socket(server)?\.py:(accept|recv\w*|readinto)"
    r"|multiprocessing/.*:(wait|poll|_poll|recv\w*|_recv|join)|subprocess\.py:(wait|_wait|_try_wait)"
    r"|concurrent/futures/.*:(_worker|result|wait)|(asyncio|uvloop)/.*:(run|run_forever|_run_once|select)"
)
"""FILE:FUNCTION where a thread sleeps that has nothing to do."""
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*):-?\d+\)$", re.DOTALL)
_COMPILED = tuple((each, re.compile(each.file), re.compile(each.function or ".*")) for each in TABLE)

MEANINGS: dict[str, str] = {
    GIL_WAIT: "asleep until another thread lets go of the GIL",
    WAITING: "asleep for want of work: a queue, a lock, a socket",
    WAKING: "in such a wait and not asleep: it was woken, and may not have a core yet",
    **{each.name: each.meaning for each in TABLE if each.meaning},
}
"""What each name means, in the table's order."""


def doing(frames: Sequence[str], asleep: bool) -> str:
    """What a stack says. `asleep`: it was not running, and did not wait for the GIL."""
    if not frames:
        return WAITING if asleep else NO_FRAME
    if _waits(frames[-1]):
        return WAITING if asleep else WAKING
    for place, frame in enumerate(reversed(frames)):
        if name := named(frame, innermost=place == 0):
            return name
    function, file = parted(frames[-1])
    return f"{ASLEEP if asleep else OTHER}{function} ({file})"


def doings(stacks: Stacks) -> tuple[np.ndarray, tuple[str, ...]]:
    """(n,) what each sample's thread did, as an index into the names beside it."""
    samples = stacks.samples
    # Where it is not told whether it slept, where it was decides; who holds the GIL runs.
    asleep = (samples["idle"] != 0) & ~((samples["idle"] == UNTOLD) & (samples["gil"] == 1))
    keys = samples["stack"].astype(np.int64) * 2 + asleep
    distinct, which = np.unique(keys, return_inverse=True)
    names = [doing(stacks.frames[key // 2], bool(key % 2)) for key in distinct.tolist()]
    known = (GIL_WAIT, *dict.fromkeys(names))
    number = {name: index for index, name in enumerate(known)}
    codes = np.array([number[name] for name in names], np.int32)[which]
    return np.where(samples["waits"], number[GIL_WAIT], codes).astype(np.int32), known


def parted(frame: str) -> tuple[str, str]:
    """(function, file) of a frame."""
    found = _FRAME.match(frame)
    return (found["function"], found["file"]) if found else (frame, "")


@cache
def named(frame: str, innermost: bool) -> str:
    """What the table calls a frame; empty if it does not know it."""
    file, function = _place(frame)
    found = (each for each, place, what in _COMPILED if place.match(file) and what.fullmatch(function))
    return next((each.name for each in found if innermost or not each.innermost), "")


@cache
def _waits(frame: str) -> bool:
    return bool(_WAITS.fullmatch(":".join(_place(frame))))


def _place(frame: str) -> tuple[str, str]:
    """(file, function without its class) of a frame."""
    function, file = parted(frame)
    return file, function.rpartition(".")[2]
