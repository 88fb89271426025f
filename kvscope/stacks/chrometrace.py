"""py-spy's trace -> looks: each instant at which some thread's stack had changed, and every thread's stack then.

py-spy looks at all threads of a process at once, at random intervals, and writes down what has changed since it
looked last. Looks that found nothing changed are not in the trace: when those were, `watch` tells from outside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

TOGETHER_US = 500
"""What is written of one look follows each other closely."""
_THREAD = re.compile(r"thread \((\d+)\)(?:: (.*))?$", re.DOTALL)
_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")
_CHECKOUT = re.compile(
    r"^.*/(?=(?:kvscope/(?:probe|vllm)|vllm/(?:v1|distributed|model_executor|entrypoints|attention|compilation))/)"
)
"""Of packages that lie elsewhere."""
_STANDARD = re.compile(r"^.*/lib/python3\.\d+/")

Stack: TypeAlias = tuple[str, ...]
"""`function (file:line)`, outermost first"""
Thread: TypeAlias = tuple[int, str]
"""tid, as its process numbers it, and name"""


@dataclass(frozen=True)
class Look:
    """All threads of a process at one instant."""

    us: int
    """since py-spy began"""
    stacks: dict[Thread, Stack]


def looks(raw: bytes) -> list[Look]:
    """Those that found something changed, in order of time. The last one, without stacks, is the trace's end.
    ValueError: that is no trace."""
    threads: dict[int, list[str]] = {}
    found = []
    for us, events in _together(json.loads(raw or b"[]")):
        for event in events:
            _apply(threads, event)
        found.append(Look(us, dict(map(_named, threads.values()))))
    return found


def _together(events: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(when, events) of each look."""
    group: list[dict[str, Any]] = []
    for event in events:
        if group and event["ts"] - group[-1]["ts"] > TOGETHER_US:
            yield group[0]["ts"], group
            group = []
        group.append(event)
    if group:
        yield group[0]["ts"], group


def _apply(threads: dict[int, list[str]], event: dict[str, Any]) -> None:
    stack = threads.setdefault(event["tid"], [])
    if event["ph"] == "B":
        stack.append(_frame(event))
    elif stack:
        stack.pop()
    if not stack:
        del threads[event["tid"]]


def _frame(event: dict[str, Any]) -> str:
    file, line = event["args"]["filename"], event["args"]["line"]
    if not file:
        return str(event["name"])
    return f"{event['name']} ({short(file)}:{line})"


def short(file: str) -> str:
    """A file's path from its package on: `vllm/v1/engine/core.py`, `threading.py`."""
    return _CHECKOUT.sub("", _STANDARD.sub("", _PACKAGES.sub("", file)))


def _named(stack: list[str]) -> tuple[Thread, Stack]:
    found = _THREAD.match(stack[0])
    return (int(found[1]), found[2] or "") if found else (0, stack[0]), tuple(stack[1:])
