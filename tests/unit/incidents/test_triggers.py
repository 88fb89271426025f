"""What triggers a person can write, and what is said of the others."""

from __future__ import annotations

import pytest

from kvscope.incidents.triggers import QUANTITIES, WINDOW_NS, Trigger, parsed
from kvscope.model.errors import InputError
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import FAILURES, REASONS

MS, SECOND = 1_000_000, 1_000_000_000


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("dispatch>200ms", Trigger("dispatch>200ms", "dispatch", 200 * MS)),
        (" compute_wait > 1.5s ", Trigger("compute_wait > 1.5s", "compute_wait", 1500 * MS)),
        ("ttft>2s", Trigger("ttft>2s", "ttft", 2 * SECOND)),
        ("p95(dispatch)>200ms", Trigger("p95(dispatch)>200ms", "dispatch", 200 * MS, 0.95, WINDOW_NS)),
        ("p99.9(ttft)>1s/5m", Trigger("p99.9(ttft)>1s/5m", "ttft", SECOND, 0.999, 300 * SECOND)),
        ("failed", Trigger("failed", "failed")),
        ("failed:lease_expired", Trigger("failed:lease_expired", "failed", reason="lease_expired")),
    ],
)
def test_what_can_be_written(text: str, trigger: Trigger) -> None:
    assert parsed(text) == trigger


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("dispach>200ms", "dispach is not ttft, nor a stage or class; near to it are dispatch"),
        ("wait>200ms", "near to it are wire, compute_wait"),
        ("xyz>200ms", "xyz is not ttft, nor a stage or class; there are ttft, frontend, "),
        ("failed:handshake_timeout", "handshake_timeout is not a reason of failures; near to it are handshake_failed"),
        ("failed:stop", "stop is not a reason of failures; there are handshake_setup_failed, "),
        (
            "dispatch>200",
            "--trigger 'dispatch>200': '200' is not a length of time; give it a unit, as in 'dispatch>200ms'",
        ),
        ("p95(ttft)>2s/30", "'30' is not a length of time; give it a unit, as in 'p95(ttft)>200ms/30s'"),
        ("ttft>2s,dispatch>1s", "as in 'ttft>200ms'; each further trigger takes a --trigger of its own"),
        ("ttft>0s", "--trigger 'ttft>0s': a limit is more than nothing and a day at most"),
        ("ttft>25h", "a limit is more than nothing and a day at most"),
        ("p95(ttft)>2s/0s", "a span is more than nothing and a day at most, as in 'p95(ttft)>200ms/30s'"),
        ("dispatch<200ms", "is not understood; write dispatch>200ms"),
        ("dispatch>200ms/30s", "a span is for a quantile, as in 'p95(dispatch)>200ms/30s'"),
        ("p0(ttft)>1s", "a quantile lies between p1 and p99.9"),
        ("", "is not understood"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_helps(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        parsed(text)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_stage_class_and_reason_can_be_named() -> None:
    assert {stage.name for stage in STAGES} | {cls.replace(" ", "_") for cls in Class} | {"ttft"} == set(QUANTITIES)
    for name in QUANTITIES:
        assert parsed(f"{name}>1ms").slug == name
    assert FAILURES == tuple(reason for reason in REASONS[REASONS.index("handshake_setup_failed") :])
    for reason in FAILURES:
        assert parsed(f"failed:{reason}").slug == f"failed-{reason}"
