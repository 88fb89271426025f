"""The documents say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from kvscope.diagnosis.document import VERSION
from kvscope.diagnosis.texts import TEXTS
from kvscope.diagnosis.thresholds import TABLE

DOCS = Path(__file__).parents[3] / "docs"


def test_every_case_is_described_and_no_other() -> None:
    text = (DOCS / "diagnose.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.M)) == set(TEXTS) - {"unfamiliar"}
    for slug, said in TEXTS.items():
        assert slug == "unfamiliar" or f"| `{slug}` | {said.mechanism} |" in text
    assert f"`version` {VERSION}" in text


def test_every_threshold_stands_there_with_its_reason() -> None:
    text = (DOCS / "design" / "diagnosis.md").read_text()
    assert re.findall(r"^\| `([A-Z_]+)` \|", text, re.M) == list(TABLE)
    for name, threshold in TABLE.items():
        (value, reason) = re.findall(rf"^\| `{name}` \| ([\d.]+)[^|]* \| (.*) \|$", text, re.M)[0]
        scale = {"ns": 1e9 if threshold.value >= 1e9 else 1e6}.get(threshold.unit.split()[0], 1.0)
        assert float(value) == threshold.value / scale
        assert reason == threshold.reason
