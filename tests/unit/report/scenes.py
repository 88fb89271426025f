"""The worked examples as JSON lines, alone and by the hundred, with all that an engine tells beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kvscope.model.events import Events
from kvscope.sources.jsonl import parse_jsonl

MS = 1_000_000
Item = dict[str, Any]

EARLY: dict[str, dict[str, float]] = {
    "prefill": {
        "arrived": 0, "taken": 1, "queued": 2, "scheduled": 5, "computed": 105, "handed": 107,
        "staged": 108, "registration_received": 104, "matched": 108, "post_begun": 108, "prepared": 109,
        "posted": 110, "pending_seen": 118, "done_seen": 120, "released": 130,
    },
    "decode": {
        "arrived": 2, "taken": 3, "queued": 3, "reserved": 4, "handed": 5, "registration_sent": 5,
        "notified": 121, "noticed": 122, "ready": 123, "scheduled": 126, "first_token": 136, "finished": 1_396,
    },
}  # fmt: skip
LATE: dict[str, dict[str, float]] = {
    "prefill": {
        "arrived": 0, "taken": 1, "queued": 2, "scheduled": 5, "computed": 105, "handed": 107,
        "staged": 108, "registration_received": 119, "matched": 119, "post_begun": 119, "prepared": 120,
        "posted": 121, "pending_seen": 129, "done_seen": 131, "released": 141,
    },
    "decode": {
        "arrived": 110, "taken": 111, "queued": 112, "reserved": 113, "handed": 115, "registration_sent": 116,
        "notified": 132, "noticed": 133, "ready": 134, "scheduled": 137, "first_token": 147, "finished": 1_407,
    },
}  # fmt: skip
LOOKED = {id(EARLY): 3, id(LATE): 118}

STARTED: Item = {
    "vllm": "0.32.0", "nixl": "1.4.0", "torch": "2.11.0", "patches": "5f0c2a9e", "connector": "NixlPushConnector",
    "mode": "push", "placement": "writer", "backends": ["UCX"], "num_threads": 4, "model": "qwen3-32b",
    "dtype": "bfloat16", "block_size": 16, "kv_blocks": 4_000, "prefix_caching": False,
    "max_num_batched_tokens": 2_048, "max_num_seqs": 64, "async_scheduling": True, "runner": "v2",
    "executor": "uni", "tp": 1, "pp": 1, "dp": 1,
}  # fmt: skip


def request(
    example: dict[str, dict[str, float]], number: int = 0, begin: float = 0.0, prompt: float = 0.0
) -> list[Item]:
    """One request of an example, `begin` ms after the start; `prompt` ms are added to its prefill run."""
    ids = {leg: f"cmpl-{number:08x}-0-{tail}" for leg, tail in (("prefill", "aaaaaaaa"), ("decode", "bbbbbbbb"))}
    late = example is LATE
    items = []
    for leg, times in example.items():
        for moment, ms in times.items():
            stretched = ms + prompt * (ms >= 105 or (late and leg == "decode"))
            if not late and moment == "registration_received":
                stretched = ms
            item: Item = {"t": round((begin + stretched) * MS), "engine": leg[0] + "0", "leg": leg, "moment": moment}
            items.append(item | {"request": ids[leg]} | _more(example, leg, moment, ids, begin + prompt * late))
    return items


def _more(example: dict[str, dict[str, float]], leg: str, moment: str, ids: dict[str, str], begin: float) -> Item:
    """What a moment carries besides its time."""
    if moment == "registration_received":
        return {"request": ids["decode"], "looked": round((begin + LOOKED[id(example)]) * MS)}
    if (leg, moment) == ("decode", "queued"):
        return {"tokens": 1_000} | ({"remote_request": ids["prefill"]} if example is LATE else {})
    carried: dict[str, Item] = {
        "matched": {"peer_request": ids["decode"], "peer_engine": "d0"},
        "computed": {"blocks": 63, "tokens": 1_000},
        "reserved": {"blocks": 63, "tokens": 1_000, "cached": 0},
        "prepared": {"descriptors": 254, "thread": "writer"},
        "posted": {"state": "PROC", "thread": "writer", "descriptors": 254, "step": 7},
        "done_seen": {"bytes": 4_194_304, "step": 9},
        "finished": {"tokens": 127, "largest_gap": 14 * MS, "reason": "length"},
    }
    return carried.get(moment, {})


def started() -> list[Item]:
    """Both engines and the router telling what they are."""
    legs = {"t": 0, "moment": "started"}
    engines = [
        {**legs, "engine": name, "engine_id": f"{name}-id", "started": {**STARTED, "engine": name}}
        for name in ("p0", "d0")
    ]
    router = {"name": "kvscope-router", "version": "0.1.0", "dispatch": "early"}
    return [*engines, {**legs, "engine": "router", "started": router}]


def steps(engine: str, milliseconds: int, every: int) -> list[Item]:
    """Steps of an engine, one after the other."""
    return [
        {
            "t": (begin + every) * MS, "engine": engine, "moment": "step", "step": number + 1,
            "begin": begin * MS, "requests": 3, "tokens": 40, "connector_ns": every * MS // 100,
        }
        for number, begin in enumerate(range(0, milliseconds, every))
    ]  # fmt: skip


def fleet(example: dict[str, dict[str, float]], n: int, every: float = 40.0) -> list[Item]:
    """n requests, one after the other, with prompts of several lengths."""
    items = started()
    for number in range(n):
        items += request(example, number, number * every, prompt=(number * 37 % 100) ** 2 / 50)
    span = int(n * every) + 1_500
    return items + steps("p0", span, 27) + steps("d0", span, 12)


def lines(items: list[Item]) -> Iterator[str]:
    """JSON lines."""
    return (json.dumps(item) for item in items)


def events_of(items: list[Item]) -> Events:
    """Items as the JSON-lines source reads them."""
    return parse_jsonl(lines(items)).events
