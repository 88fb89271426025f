"""A push of which every moment is known, and samples of every thread at every millisecond of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from kvscope.core.critical_path import split
from kvscope.model.splits import Splits
from kvscope.sources.jsonl import parse_jsonl
from kvscope.stacks.reading import Stacks, read_stacks
from kvscope.stacks.writing import StacksFile

from ..report.scenes import EARLY, MS, request, started

NIXL = "vllm/distributed/kv_transfer/kv_connector/v1/nixl"
WAIT = ("Thread.run (threading.py:982)", "Event.wait (threading.py:629)")
PREPARE = ("Thread.run (threading.py:982)", f"NixlPushConnectorWorker._compute_desc_ids ({NIXL}/base_worker.py:134)")
FORWARD = ("EngineCore.step (vllm/v1/engine/core.py:400)", "Module._call_impl (torch/nn/modules/module.py:1780)")
LOOP = ("EngineCore.step (vllm/v1/engine/core.py:400)",)
SPIN = ("Own.spin (/srv/plugin.py:5)",)

Did = tuple[tuple[str, ...], bool | None, bool, bool]
"""stack, holds the GIL, idle, waits for the GIL"""
ASLEEP: Did = (WAIT, False, True, False)

BEGIN_MS = 1_000
LENGTH_MS = 140


def push() -> Splits:
    """One push, dispatched early, that begins at BEGIN_MS."""
    items = [*started(), *request(EARLY, begin=BEGIN_MS)]
    return split(parse_jsonl(map(json.dumps, items)).events)


def sampled(path: Path, did: Mapping[tuple[str, str], Callable[[int], Did | None]]) -> Stacks:
    """`did`: (engine, role) -> what its thread did in a millisecond of the request; None: no sample of it then."""
    file = StacksFile(path, {"period_ns": MS, "boot_id": "", "tool": "py-spy 0.4.3"})
    pids = {engine: number for number, engine in enumerate(sorted({engine for engine, _ in did}), 10)}
    for ms in range(LENGTH_MS):
        for tid, ((engine, role), what) in enumerate(did.items(), 100):
            told = what(ms)
            if told is not None:
                frames, gil, idle, waits = told
                known = role if role in ("core", "writer", "worker", "api") else "unknown"
                thread = file.thread(pids[engine], tid, role, engine, known)
                t = (BEGIN_MS + ms) * MS + MS // 2
                file.sample(t, thread, file.stack(frames), gil, idle, waits)
    file.clock(10, BEGIN_MS * MS, (BEGIN_MS + LENGTH_MS) * MS, 200_000)
    file.close()
    return read_stacks(path)
