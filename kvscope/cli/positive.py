"""Limits on the command line: spans and amounts of which nothing would be left at 0."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", int, float)


def above_zero(read: Callable[[str], T]) -> Callable[[str], T]:
    """As `read`, with ArgumentTypeError for 0: argparse names the option."""

    def reading(text: str) -> T:
        found = read(text)
        if found <= 0:
            raise argparse.ArgumentTypeError(f"{text!r} leaves nothing; give more than 0, or leave the option out")
        return found

    return reading
