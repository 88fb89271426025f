"""How many bytes an event takes on disk: recordings as they lie there, written anew, in parts, and as incidents.

    python benchmarks/recording_size.py [FILE ..]

Without files: the recordings of real pairs in docs/pictures. Written anew they are as `kvscope record` would write them
now, what it drained at a time being what it drained then. A part repeats who the processes are and the texts that its
records name: the smaller it is, the more that weighs. Incidents are of blocks of five seconds.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from kvscope.incidents.memory import Memory
from kvscope.incidents.splicing import Splice
from kvscope.probe.heading import heading, new_recording
from kvscope.probe.recording import (
    PART_PREFIX,
    RECORDS,
    SEVERAL,
    TEXTS,
    Frames,
    Part,
    ProcessPart,
    RecordsPart,
    TextsPart,
    Writer,
    parts,
)
from kvscope.sources.records import records
from kvscope.sources.rings import RingReading
from kvscope.sources.standalone import Standalone

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
PART_SIZES = (16_000, 64_000, 256_000, 1_000_000, 64_000_000)


def main() -> None:
    """A block for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(PICTURES.glob("*.kvs")), metavar="FILE")
    for path in parser.parse_args().files:
        print(path.name)
        for line in lines(path):
            print(f"  {line}")


def lines(path: Path) -> list[str]:
    """What there is to say of a file."""
    raw = path.read_bytes()
    told = [told_of("as it lies on disk", [raw]), told_of("written anew", again(path, lambda size: False))]
    for limit in PART_SIZES:
        pieces = again(path, lambda size, limit=limit: size >= limit)  # type: ignore[misc]
        if len(pieces) > 1:
            told.append(told_of(f"in {len(pieces)} parts of {limit / 1000:,.0f} kB", pieces))
    return [*told, told_of("as an incident", [incident(path)])]


def told_of(what: str, pieces: list[bytes]) -> str:
    """Bytes an event, and of what."""
    events, sizes = 0, dict.fromkeys((RECORDS, TEXTS, 0), 0)
    for piece in pieces:
        for frame in Frames(io.BytesIO(piece)):
            sizes[frame.kind if frame.kind in sizes else 0] += len(frame.payload) + PART_PREFIX
            events += int.from_bytes(frame.payload[8:12], "little") if frame.kind == RECORDS else 0
    each = {name: sizes[kind] / events for name, kind in (("records", RECORDS), ("texts", TEXTS), ("processes", 0))}
    whole = sum(map(len, pieces)) / events
    return f"{what:<26}{whole:6.1f} bytes an event of {events:,}: " + ", ".join(f"{n} {v:.1f}" for n, v in each.items())


class _File:
    """One part in memory, which knows how large it has become."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()

    def write(self, data: bytes, /) -> None:
        self.buffer.write(data)

    def flush(self) -> None:
        """Nothing."""


def again(path: Path, full: Callable[[int], bool]) -> list[bytes]:
    """The parts that a recorder would have written."""
    made: list[_File] = []
    recording = new_recording()

    def begin() -> Writer:
        made.append(_File())
        writer = Writer(made[-1])
        writer.head(heading(recording, len(made)))
        return writer

    writer = Standalone(begin, lambda: full(made[-1].buffer.tell()))
    with path.open("rb") as file:
        for part in by_process(parts(file)):
            match part:
                case ProcessPart(number, info):
                    writer.process(number, info)
                case TextsPart(pairs):
                    writer.texts(pairs)
                case RecordsPart(number, thread, raw):
                    writer.records(number, thread, raw)
    writer.end({})
    return [each.buffer.getvalue() for each in made]


def by_process(found: Iterable[Part]) -> Iterator[Part]:
    """With what was drained of a process's threads at a time in one part, as a recorder writes it now."""
    waiting: RecordsPart | None = None
    for part in found:
        if isinstance(part, RecordsPart) and waiting and waiting.process == part.process:
            waiting = RecordsPart(part.process, SEVERAL, waiting.raw + part.raw)
            continue
        if waiting:
            yield waiting
        waiting = part if isinstance(part, RecordsPart) else None
        if not waiting:
            yield part
    if waiting:
        yield waiting


class _Reading:
    """As far as a memory asks."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info = info


def incident(path: Path) -> bytes:
    """All of it, by way of a memory."""
    memory, now = Memory(keep_s=1e6, most_bytes=1 << 40), 0
    infos: dict[int, dict[str, Any]] = {}
    told: list[tuple[bytes, str]] = []
    with path.open("rb") as file:
        for part in parts(file):
            match part:
                case ProcessPart(number, info):
                    infos[number] = info
                case TextsPart(pairs):
                    told += pairs
                case RecordsPart(number, _, raw):
                    memory.add(number, records(raw), told)
                    now, told = max(now, int(records(raw)["t"].max())), []
                    memory.look(readings(infos), now)
    memory.seal(readings(infos), now)
    return spliced(memory)


def readings(infos: dict[int, dict[str, Any]]) -> list[RingReading]:
    """As a memory wants them."""
    return [cast(RingReading, _Reading(infos[number])) for number in sorted(infos)]


def spliced(memory: Memory) -> bytes:
    """The recording of an incident."""
    made = io.BytesIO()
    splice = Splice(made)
    for block in memory.since(0):
        splice.add(block)
    splice.end()
    return made.getvalue()


if __name__ == "__main__":
    main()
