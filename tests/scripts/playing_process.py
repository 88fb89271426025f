"""A process that records moments as they are told: a line of standard input is a JSON array of them, as in JSON lines.

A line of output says that they are recorded.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, REASON_CODE, STATE_CODE, UNKNOWN, VALUES


def play(item: dict[str, Any]) -> None:
    names = VALUES.get(item["moment"], ())
    values = {f"v{slot}": value_of(item, name) for slot, name in enumerate(names)}
    recorder.record(
        MOMENT_CODE[item["moment"]],
        LEG_CODE[item["leg"]],
        item.get("request"),
        item["t"],
        **values,
        peer=item.get("peer_request") or item.get("remote_request"),
        state=STATE_CODE[item.get("state", "none")],
        reason=REASON_CODE[item.get("reason", "none")],
    )


def value_of(item: dict[str, Any], name: str) -> int:
    given = item.get(name, UNKNOWN)
    return recorder.text(given) if isinstance(given, str) else given


def main() -> None:
    engine = sys.argv[1]
    recorder.set_main_role("core")
    recorder.describe(
        {"engine": engine, "engine_id": f"{engine}-1", "vllm": "0.33.0", "connector": "NixlPushConnector"}
    )
    print("ready", flush=True)
    for line in sys.stdin:
        items = json.loads(line)
        for item in items:
            play(item)
        print(f"done {len(items)}", flush=True)


main()
