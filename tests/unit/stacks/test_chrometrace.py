"""Traces as py-spy writes them -> looks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvscope.stacks.chrometrace import looks, short

PACKAGES = "/opt/venv/lib/python3.12/site-packages"


def event(phase: str, tid: int, us: int, name: str, file: str = "", line: int = 0) -> dict[str, Any]:
    return {"args": {"filename": file, "line": line}, "cat": "py-spy", "name": name, "ph": phase, "pid": 9, "tid": tid,
            "ts": us}  # fmt: skip


MAIN, OTHER = 140_000_001, 140_000_002
CORE, QUEUE = f"{PACKAGES}/vllm/v1/engine/core.py", "/usr/lib/python3.12/queue.py"
TRACE = [
    event("B", MAIN, 100, "thread (41): MainThread"),
    event("B", MAIN, 100, "run", CORE, 10),
    event("B", MAIN, 100, "Queue.get", QUEUE, 171),
    event("B", OTHER, 120, "thread (42): a (b): c"),
    event("B", OTHER, 120, "work", "/srv/own.py", 5),
    event("E", MAIN, 9000, "Queue.get", QUEUE, 171),
    event("E", MAIN, 9000, "run", CORE, 10),
    event("B", MAIN, 9000, "run", CORE, 12),
    event("E", MAIN, 20_000, "run", CORE, 12),
    event("E", MAIN, 20_000, "thread (41): MainThread"),
    event("E", OTHER, 20_003, "work", "/srv/own.py", 5),
    event("E", OTHER, 20_003, "thread (42): a (b): c"),
]


def test_each_look_has_every_threads_stack() -> None:
    first, second, end = looks(json.dumps(TRACE).encode())
    main, other = (41, "MainThread"), (42, "a (b): c")
    assert (first.us, second.us, end.us, end.stacks) == (100, 9000, 20_000, {})
    assert first.stacks == {
        main: ("run (vllm/v1/engine/core.py:10)", "Queue.get (queue.py:171)"),
        other: ("work (/srv/own.py:5)",),
    }
    assert second.stacks == {main: ("run (vllm/v1/engine/core.py:12)",), other: ("work (/srv/own.py:5)",)}


def test_a_process_that_was_never_seen_has_none() -> None:
    assert looks(b"") == []
    assert looks(b"[]") == []


def test_half_a_trace_is_refused() -> None:
    with pytest.raises(ValueError, match=r".*"):
        looks(json.dumps(TRACE).encode()[:-20])


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (f"{PACKAGES}/torch/nn/modules/module.py", "torch/nn/modules/module.py"),
        ("/usr/lib/python3/dist-packages/zmq/sugar/poll.py", "zmq/sugar/poll.py"),
        ("/usr/local/lib/python3.11/threading.py", "threading.py"),
        ("/srv/overlay/kvscope/probe/recorder.py", "kvscope/probe/recorder.py"),
        ("/src/vllm/vllm/v1/engine/core.py", "vllm/v1/engine/core.py"),
        ("/srv/app/own.py", "/srv/app/own.py"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
    ],
)
def test_paths_begin_with_their_package(file: str, told: str) -> None:
    assert short(file) == told
