"""Where an engine is to hide request ids, nothing that leads to a request is written in clear."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.probe import recorder
from kvscope.probe.ids import MODE
from kvscope.vllm import scheduler_side

from .conftest import Trace
from .test_scheduler_side import PARENT, request, scheduler


def test_no_id_and_no_span(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODE, "hash")
    monkeypatch.setattr(recorder, "IDS_KEPT", False)
    one = request("customer-7")
    one.trace_headers = {"traceparent": PARENT}
    one.kv_transfer_params = {
        "do_remote_prefill": True,
        "remote_engine_id": "engine-of-prefill",
        "remote_request_id": "customer-7-prefill",
    }
    scheduler_side.queued(scheduler(one), one)
    (queued,) = trace.moments("queued")
    assert queued.has_peer
    raw = b"".join(path.read_bytes() for path in (tmp_path / "run").glob("*.ring"))
    assert b"customer" not in raw
    assert PARENT.encode() not in raw
    assert trace.texts()[queued.values[-1]] == "engine-of-prefill"
    assert trace.faults() == 0
