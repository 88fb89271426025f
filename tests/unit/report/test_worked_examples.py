"""The design's two examples through the real pipeline: what is printed is what the example says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvscope.cli import main

EARLY_PATH = [
    ("frontend", 1), ("intake", 1), ("prefill_queue", 3), ("prefill_run", 100), ("staging", 2), ("writer_wake", 1),
    ("prepare", 1), ("submit", 1), ("wire", 8), ("poll_gap", 2), ("notice", 1), ("pickup", 1), ("report", 1),
    ("decode_queue", 3), ("decode_run", 10),
]  # fmt: skip
LATE_PATH = [
    ("frontend", 1), ("intake", 1), ("prefill_queue", 3), ("prefill_run", 100), ("dispatch", 5), ("frontend", 1),
    ("intake", 1), ("decode_admission", 1), ("registration_handoff", 2), ("registration_send", 1),
    ("registration_flight", 3), ("prepare", 1), ("submit", 1), ("wire", 8), ("poll_gap", 2), ("notice", 1),
    ("pickup", 1), ("report", 1), ("decode_queue", 3), ("decode_run", 10),
]  # fmt: skip


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--width", "100"]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize(("name", "path"), [("early", EARLY_PATH), ("late", LATE_PATH)])
def test_the_waterfall_shows_each_stage_of_the_path(
    capsys: pytest.CaptureFixture[str], worked: dict[str, Path], name: str, path: list[tuple[str, int]]
) -> None:
    text = shown(capsys, "request", "00000000", str(worked[name]), "--plain", "--all")
    rows = re.findall(r"^ \*[PDR] (\w+) +([\d.]+) \|", text, re.M)
    assert [(stage, float(ms)) for stage, ms in rows] == path


def test_early_push_is_shown_as_overlapped(capsys: pytest.CaptureFixture[str], worked: dict[str, Path]) -> None:
    text = shown(capsys, "request", "00000000", str(worked["early"]), "--plain")
    assert "push, early" in text
    assert "coord 7.0..10.0, xfer" in " ".join(text.split())
    assert "the registration was hidden and had 4.0..103.0 ms to spare" in text
    assert re.search(r"^  P registration_flight +99\.0 .*slack 4\.0\.\.103\.0", text, re.M)
    assert "reserved and empty 116 ms" in text


def test_a_sequential_router_is_named_as_the_cause(capsys: pytest.CaptureFixture[str], worked: dict[str, Path]) -> None:
    text = " ".join(shown(capsys, "report", str(worked["late"]), "--plain").split())
    assert "Push, but nothing overlapped: registered before staged in 0% of 1 push" in text
    assert "exposed 15.0..18.0 ms hidden 3.0 ms" in text
    assert "The router calls decode after prefill returns" in text
    assert "11.0 ms earlier at p50" in text
    request = " ".join(shown(capsys, "request", "00000000", str(worked["late"]), "--plain").split())
    assert "WRITE could have started at 108.0 (staged), started at 119.0 (matched)" in request
    assert "reserved and empty 18.0 ms" in request


@pytest.mark.parametrize(("name", "ttft", "coordination", "idle"), [("early", 136, 7, 116), ("late", 147, 15, 18)])
def test_the_document_holds_the_same_numbers(
    capsys: pytest.CaptureFixture[str], worked: dict[str, Path], name: str, ttft: int, coordination: int, idle: int
) -> None:
    document = json.loads(shown(capsys, "report", str(worked[name]), "--json"))
    assert document["version"] == 1
    (request,) = document["requests"]
    assert request["ttft_ns"] == ttft * 1_000_000 == sum(step["ns"] for step in request["path"])
    assert sum(step["ns"] for step in request["path"] if step["class"] == "coordination") == coordination * 1_000_000
    assert request["transfer_bounds_ns"] == [8_000_000, 11_000_000]
    assert request["reserved_idle_ns"] == idle * 1_000_000
    assert document["summary"]["bands"][0]["percentile_ns"] == ttft * 1_000_000
