"""The two examples of the design, to the digit."""

from __future__ import annotations

import pytest

from kvscope.core.critical_path import split
from kvscope.model.requests import RequestSplit

from .scene import MS, events_of, pull, push_early, push_sequential


def _ms(stages: dict[str, int]) -> dict[str, float]:
    return {name: ns / MS for name, ns in stages.items()}


def _path(request: RequestSplit) -> list[tuple[str, float]]:
    return [(span.stage, span.ns / MS) for span in request.path]


@pytest.mark.parametrize("with_id_of", ["decode", "prefill"])
def test_push_dispatched_early(with_id_of: str) -> None:
    scene = push_early()
    for item in scene:
        if item["moment"] == "registration_received" and with_id_of == "prefill":
            item["request"] = "cmpl-x-0-aaaaaaaa"
    splits = split(events_of(scene))
    assert len(splits) == 1
    request = splits[0]
    assert (request.shape, request.complete, request.missing) == ("push", True, ())
    assert request.ttft_ns == 136 * MS
    assert _path(request) == [
        ("frontend", 1),
        ("intake", 1),
        ("prefill_queue", 3),
        ("prefill_run", 100),
        ("staging", 2),
        ("writer_wake", 1),
        ("prepare", 1),
        ("submit", 1),
        ("wire", 8),
        ("poll_gap", 2),
        ("notice", 1),
        ("pickup", 1),
        ("report", 1),
        ("decode_queue", 3),
        ("decode_run", 10),
    ]
    assert request.transfer_bounds_ns == (8 * MS, 11 * MS)
    assert request.coordination_ns == (7 * MS, 10 * MS)
    assert _ms(request.hidden) == {
        "dispatch": 2,
        "frontend": 1,
        "decode_admission": 1,
        "registration_handoff": 1,
        "registration_flight": 99,
    }
    assert request.slack_ns == {"registration": (4 * MS, 103 * MS)}
    assert request.reserved_idle_ns == 116 * MS
    assert request.pinned_ns == 25 * MS
    assert request.knew_peer is False


def test_the_same_push_called_after_prefill_answered() -> None:
    request = split(events_of(push_sequential()))[0]
    assert (request.shape, request.complete, request.ttft_ns) == ("push", True, 147 * MS)
    assert _path(request) == [
        ("frontend", 1),
        ("intake", 1),
        ("prefill_queue", 3),
        ("prefill_run", 100),
        ("dispatch", 5),
        ("frontend", 1),
        ("intake", 1),
        ("decode_admission", 1),
        ("registration_handoff", 2),
        ("registration_send", 1),
        ("registration_flight", 3),
        ("prepare", 1),
        ("submit", 1),
        ("wire", 8),
        ("poll_gap", 2),
        ("notice", 1),
        ("pickup", 1),
        ("report", 1),
        ("decode_queue", 3),
        ("decode_run", 10),
    ]
    assert request.coordination_ns == (15 * MS, 18 * MS)
    assert _ms(request.hidden) == {"staging": 2, "writer_wake": 1}
    assert request.slack_ns == {"staging": (11 * MS, 11 * MS)}
    assert request.reserved_idle_ns == 18 * MS
    assert request.knew_peer is True


def test_pull() -> None:
    request = split(events_of(pull()))[0]
    assert (request.shape, request.complete, request.ttft_ns) == ("pull", True, 140 * MS)
    assert _ms(request.exposed) == {
        "frontend": 2,
        "intake": 2,
        "prefill_queue": 3,
        "prefill_run": 100,
        "dispatch": 5,
        "decode_admission": 1,
        "read_handoff": 3,
        "prepare": 1,
        "submit": 1,
        "wire": 4,
        "poll_gap": 3,
        "pickup": 1,
        "report": 1,
        "decode_queue": 2,
        "decode_run": 11,
    }
    assert request.hidden == {}
    assert request.reserved_idle_ns == 12 * MS
    assert request.reserved_blocks == 8
    assert request.tpot_ns == 10 * MS
    assert (request.prefill_engine, request.decode_engine) == ("p0", "d0")
