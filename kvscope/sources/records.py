"""Raw records as a probe wrote them -> the columns of `kvscope.model.events`, many at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvscope.model.events import EVENT
from kvscope.probe import layout

Raw = npt.NDArray[np.void]

# The 112 bytes of `layout.BODY` behind their sequence word. A key's first 8 bytes are its low 64 bits.
RECORD = np.dtype(
    [
        ("sequence", "u8"),
        ("t", "i8"),
        ("request", "<u8"),
        ("request_high", "<u8"),
        ("peer", "<u8"),
        ("peer_high", "<u8"),
        ("moment", "u1"),
        ("leg", "u1"),
        ("thread", "u1"),
        ("state", "u1"),
        ("rank", "u2"),
        ("peer_rank", "u2"),
        ("step", "u4"),
        ("reason", "u2"),
        ("flags", "u2"),
        ("values", "i8", (layout.VALUES,)),
    ]
)
TEXT = np.dtype(
    [
        ("sequence", "u8"),
        ("key", "<u8"),
        ("key_high", "<u8"),
        ("chunk", "u2"),
        ("chunks", "u2"),
        ("used", "u2"),
        ("kind", "u2"),
        ("part", "V80"),
    ]
)
assert RECORD.itemsize == TEXT.itemsize == layout.RECORD_BYTES

_SHARED = tuple(name for name in EVENT.names or () if name != "process")

Texts = dict[int, str]
"""Low 64 bits of a key -> its text."""


def to_rows(raw: Raw, process: int) -> Raw:
    """shape (n,), dtype RECORD -> shape (n,), dtype EVENT, all of one process."""
    rows = np.empty(len(raw), EVENT)
    for name in _SHARED:
        rows[name] = raw[name]
    rows["process"] = process
    return rows


def new_texts(raw: Raw, known: Texts, pieces: dict[int, dict[int, bytes]]) -> Texts:
    """The texts in `raw` (dtype TEXT) that `known` lacks. Chunks whose others are still to come wait in `pieces`."""
    found: Texts = {}
    keys, first = np.unique(raw["key"], return_index=True)
    single = raw["chunks"][first] == 1
    for key, row in zip(keys[single].tolist(), raw[first[single]], strict=True):
        if key not in known:
            found[key] = _text(bytes(row["part"])[: int(row["used"])])
    for row in raw[raw["chunks"] > 1]:
        key = int(row["key"])
        if key in known or key in found:
            continue
        got = pieces.setdefault(key, {})
        got[int(row["chunk"])] = bytes(row["part"])[: int(row["used"])]
        if len(got) == int(row["chunks"]):
            found[key] = _text(b"".join(got[chunk] for chunk in sorted(pieces.pop(key))))
    return found


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
