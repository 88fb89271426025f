"""Amounts of bytes, as people write and read them."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from kvscope.cli.durations import seconds
from kvscope.cli.positive import above_zero
from kvscope.cli.sizes import size
from kvscope.model.amounts import in_bytes


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (65_536, "65.5 kB"),
        (100_000, "0.1 MB"),
        (64_000_000, "64.0 MB"),
        (2_500_000_000, "2.5 GB"),
    ],
)
def test_an_amount_is_told_in_a_unit_that_says_something(amount: int, told: str) -> None:
    assert in_bytes(amount) == told


@pytest.mark.parametrize(("read", "text"), [(size, "0"), (size, "0.2"), (seconds, "0s"), (seconds, "0")])
def test_a_limit_of_nothing_is_refused(read: Callable[[str], float], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' leaves nothing"):
        above_zero(read)(text)


@pytest.mark.parametrize("text", ["9" * 400, "99999999TB"])
def test_an_amount_that_no_file_can_have_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="more than any file can be"):
        size(text)
