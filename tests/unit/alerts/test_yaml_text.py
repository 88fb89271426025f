"""The YAML that is written: what a reader would take for something else is quoted."""

from __future__ import annotations

import json

import pytest

from kvscope.alerts.yaml_text import Data, yaml_text


def test_maps_lists_and_blocks_nest() -> None:
    data: Data = {"groups": [{"name": "a", "rules": [{"expr": "x\n  > 1", "for": "5m"}, {"expr": "z"}]}, {"name": "b"}]}
    assert yaml_text(data) == (
        "groups:\n"
        "  - name: a\n"
        "    rules:\n"
        "      - expr: |-\n"
        "          x\n"
        "            > 1\n"
        "        for: 5m\n"
        "      - expr: z\n"
        "  - name: b\n"
    )


@pytest.mark.parametrize(
    "text", ["yes", "No", "null", "1", "1e3", "", "a: b", "- a", "{{ $value }}", 'a "b"', "#", "é", "~"]
)
def test_text_stays_text(text: str) -> None:
    assert yaml_text({"k": text}) == f"k: {json.dumps(text, ensure_ascii=False)}\n"


def test_words_and_spans_of_time_need_no_quotes() -> None:
    assert (
        yaml_text({"a": "critical", "b": "5m", "c": "docs/runbooks/x.md"})
        == "a: critical\nb: 5m\nc: docs/runbooks/x.md\n"
    )
