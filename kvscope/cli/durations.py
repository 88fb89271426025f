"""Spans of time as people write them: `30s`, `5m`, `1h`."""

from __future__ import annotations

import argparse
import re

LONGEST = 366 * 86400.0
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """`30s` -> 30.0; without a unit, seconds. ArgumentTypeError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no span of time; write it like 30s, 5m or 1h")
    span = float(found[1]) * _UNITS[found[2]]
    if span > LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than a year")
    return span


def shown(span: float) -> str:
    """A span for people, in its largest fitting unit: `45 s`, `12 min`, `3 h`, `2 d`."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if span >= 2 * size:
            return f"{span / size:.0f} {unit}"
    return f"{span:.0f} s"
