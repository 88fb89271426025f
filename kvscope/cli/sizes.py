"""Amounts of bytes as people write them: `64MB`, `2GB`, `512KiB`."""

from __future__ import annotations

import argparse
import re

MOST = 2**63 - 1
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def size(text: str) -> int:
    """`64MB` -> 64000000; without a unit, bytes. ArgumentTypeError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(|[KMGT]I?)B?", text.strip().upper())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of bytes; write it like 64MB, 2GB or 512KiB")
    amount = float(found[1]) * _UNITS[found[2]]
    if amount > MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is more than any file can be; write it like 64MB, 2GB or 512KiB")
    return round(amount)
