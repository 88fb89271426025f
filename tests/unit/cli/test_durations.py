"""Spans of time on the command line."""

from __future__ import annotations

import argparse

import pytest

from kvscope.cli.durations import seconds


@pytest.mark.parametrize(("text", "span"), [("30s", 30.0), ("1.5m", 90.0), ("2h", 7200.0), ("250ms", 0.25), ("7", 7.0)])
def test_a_span_is_read_in_its_unit(text: str, span: float) -> None:
    assert seconds(text) == span


@pytest.mark.parametrize("text", ["", "s", "-3s", "5 weeks", "99999999999999h"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=text or "no span"):
        seconds(text)
