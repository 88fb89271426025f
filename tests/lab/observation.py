"""A load on a real pair, seen twice: by its client, and through kvscope; and what else the machine did meanwhile."""

from __future__ import annotations

import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvscope.core.critical_path import split
from kvscope.lab.client import ClientRecord
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair
from kvscope.lab.recording import recording
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.model.splits import Splits
from kvscope.sources import open_sources
from tests.lab.bystanders import Bystanders, watching

# Two cores: about ten prompts of 500 tokens a second saturate the prefill engine.
LIGHT = LoadOptions(requests=200, rate=3.0, input_tokens=((300, 1.0), (700, 1.0)), output_tokens=6)
HEAVY = LoadOptions(requests=200, rate=9.0, input_tokens=((300, 2.0), (900, 1.0)), output_tokens=6)
LOADS = pytest.mark.parametrize("load", [LIGHT, HEAVY], ids=["light", "heavy"])


@dataclass(frozen=True)
class Observation:
    """What both saw. The rings still hold what came before: only `sent` and `pairs` are this load's."""

    events: Events
    splits: Splits
    sent: tuple[RequestSplit, ...]
    """Of every request of the client's, warm-up included."""
    pairs: tuple[tuple[ClientRecord, RequestSplit], ...]
    """Without warm-up."""
    queue_time_s: float
    """Growth of vLLM's own sum of queue times on the decode engine, warm-up included."""
    queued: int
    """Requests in that sum."""
    bystanders: Bystanders
    """What others had of the machine from the first request to the last answer."""


def observe(pair: Pair, url: str, load: LoadOptions) -> Observation:
    """Send `load` and take both views of it."""
    return witness(pair, lambda: pair.load(load, url))


def witness(pair: Pair, send: Callable[[], list[ClientRecord]]) -> Observation:
    """Take both views of what `send` sends."""
    before = queue_time(pair.decodes[0].url)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.kvs"
        with recording(pair.run_dir, path) as tap, watching() as watch:
            records = send()
        assert not tap.faults
        events = open_sources([path]).events
    after = queue_time(pair.decodes[0].url)
    failed = [(record.status, record.error) for record in records if not record.ok]
    assert not failed, failed[:3]
    splits = split(events)
    rows = [splits.find(record.request) for record in records]
    assert all(len(found) == 1 for found in rows), [len(found) for found in rows]
    sent = tuple(splits[found[0]] for found in rows)
    pairs = tuple((record, split) for record, split in zip(records, sent, strict=True) if not record.warm_up)
    grown = (after[0] - before[0], after[1] - before[1])
    return Observation(events, splits, sent, pairs, *grown, watch.bystanders)


def queue_time(url: str) -> tuple[float, int]:
    """Sum (s) and count of vLLM's histogram of queue times."""
    return histogram(url, "vllm:request_queue_time_seconds")


def histogram(url: str, name: str) -> tuple[float, int]:
    """Sum and count of one that an engine has told since it began."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = {
        kind: sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name}_{kind}{{"))
        for kind in ("sum", "count")
    }
    return found["sum"], int(found["count"])
