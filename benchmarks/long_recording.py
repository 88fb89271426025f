"""A long recording made of a real one, for benchmarks: laid over itself, lap after lap, with ids of their own.

    python benchmarks/long_recording.py [FILE] [--events 10000000] [--copies 30]

The real one is of docs/pictures: a lap of it takes 27 s and has some 164 events a second. Without FILE it is thrown
away.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.probe.recording import ProcessPart, RecordsPart, TextsPart, Writer, parts
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES
from kvscope.sources.records import RECORD, Rows, low64

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "push-early.kvs"
SECOND = 1_000_000_000
MEETINGS = [MOMENT_CODE[name] for name in ("handshake_begun", "handshake_ended")]
INSTANTS = [
    (MOMENT_CODE[moment], names.index(name))
    for moment, names in VALUES.items()
    for name in {"begin", "looked", "nixl_start", "wall_ns"} & {*names}
]
"""(moment, slot) of what a record tells of when, besides its own time"""
DRAWN = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])|(?<=-)[0-9a-f]{8}$")
"""What is drawn anew in the id of each request; engines' ids hold no such thing."""


@dataclass
class Picture:
    """A real recording."""

    infos: dict[int, dict[str, Any]]
    rings: dict[tuple[int, int], Rows]
    """(process, thread) -> dtype RECORD, by time"""
    texts: list[str]
    """by key: the low 64 bits, ascending"""
    keys: np.ndarray

    @property
    def span(self) -> int:
        """ns from its first event to its last"""
        return max(int(rows["t"].max()) for rows in self.rings.values()) - min(
            int(rows["t"].min()) for rows in self.rings.values()
        )


def read(path: Path = PICTURE) -> Picture:
    """What it holds."""
    infos: dict[int, dict[str, Any]] = {}
    raw: dict[tuple[int, int], bytes] = {}
    texts: dict[int, str] = {}
    with open(path, "rb") as file:
        for part in parts(file):
            match part:
                case ProcessPart(process, info):
                    infos[process] = info
                case RecordsPart(process, thread, found):
                    raw[process, thread] = raw.get((process, thread), b"") + found
                case TextsPart(pairs):
                    texts |= {low64(key): text for key, text in pairs}
    rings = {key: np.frombuffer(found, RECORD) for key, found in raw.items()}
    rings = {key: rows[np.argsort(rows["t"], kind="stable")] for key, rows in rings.items()}
    keys = np.array(sorted(texts), np.uint64)
    return Picture(infos, rings, [texts[key] for key in keys.tolist()], keys)


def write(path: Path, events: int, copies: int) -> int:
    """A recording of so many events, or a few more; returns how many."""
    picture, total, lap = read(), 0, 0
    with open(path, "wb") as file:
        writer = Writer(file)
        for process, info in picture.infos.items():
            writer.process(process, info)
        while total < events:
            named = [_named(picture.texts, lap * copies + copy) for copy in range(copies)]
            for each in named:
                writer.texts(each)
            keys = [np.array([low64(key) for key, _ in each], np.uint64) for each in named]
            laid = {ring: _laid(rows, picture, lap, keys) for ring, rows in picture.rings.items()}
            for (process, thread), rows in _by_second(laid):
                writer.records(process, thread, rows.tobytes())
                total += len(rows)
            lap += 1
        writer.end({})
    return total


def _named(texts: list[str], salt: int) -> list[tuple[bytes, str]]:
    """Texts of a copy, with their keys."""

    def drawn(found: re.Match[str]) -> str:
        return hashlib.blake2b(f"{salt} {found[0]}".encode()).hexdigest()[: len(found[0])]

    again = [DRAWN.sub(drawn, text) for text in texts]
    return [(encoded(text)[1], text) for text in again]


def _laid(rows: Rows, picture: Picture, lap: int, keys: list[np.ndarray]) -> Rows:
    if lap:  # engines meet once
        rows = rows[~np.isin(rows["moment"], MEETINGS)]
    laid = np.tile(rows, (len(keys), 1))
    for copy, mine in enumerate(keys):
        shift(laid[copy], lap * picture.span + copy * picture.span // (7 * len(keys)))
        for name in ("request", "peer"):
            at = np.minimum(np.searchsorted(picture.keys, rows[name]), len(mine) - 1)
            laid[copy][name] = np.where(picture.keys[at] == rows[name], mine[at], rows[name])
    every = laid.reshape(-1)
    return np.asarray(every[np.argsort(every["t"], kind="stable")])


def shift(rows: Rows, ns: int) -> None:
    """Let them be so much later, with all that they tell of when."""
    rows["t"] += ns
    for moment, slot in INSTANTS:
        at = np.flatnonzero((rows["moment"] == moment) & (rows["values"][:, slot] != UNKNOWN))
        rows["values"][at, slot] += ns


def _by_second(laid: dict[tuple[int, int], Rows]) -> Iterator[tuple[tuple[int, int], Rows]]:
    pieces = {key: dict(_seconds(rows)) for key, rows in laid.items() if len(rows)}
    for second in sorted({second for each in pieces.values() for second in each}):
        yield from ((key, each[second]) for key, each in pieces.items() if second in each)


def _seconds(rows: Rows) -> Iterator[tuple[int, Rows]]:
    seconds = rows["t"] // SECOND
    begins = np.flatnonzero(np.diff(seconds, prepend=-1))
    yield from zip(seconds[begins].tolist(), np.split(rows, begins[1:]), strict=True)


def main() -> None:
    """Write one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, metavar="FILE")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--copies", type=int, default=30, help="at once: each has 164 events a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.path or Path(folder) / "long.kvs"
        total = write(path, given.events, given.copies)
        print(f"{total:,} events, {path.stat().st_size / total:.1f} bytes each")


if __name__ == "__main__":
    main()
