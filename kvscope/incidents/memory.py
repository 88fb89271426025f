"""The last minutes as packed blocks, as a recording of them would hold them: a fifth of the memory, or a tenth.

A block holds some seconds of all processes and stands alone, so that old ones can be dropped and any stretch be saved
as it lies. One thread adds, others take.
"""

from __future__ import annotations

import io
import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.recording import FILE_HEADER, Writer
from kvscope.sources.records import Rows, low64, records
from kvscope.sources.rings import RingReading, Told
from kvscope.sources.standalone import Standalone

SECOND = 1_000_000_000
BLOCK_S = 5.0
"""What a block spans: as long as what it holds has not been packed, it takes five to ten times the room."""
AWAITED_NS = SECOND
"""The same while somebody saves: what a crash then costs."""
BLOCK_RECORDS = 32768
"""Or so many records: 3.7 MB."""
INFO_BYTES = 1500
"""What is held of a process beside its records, in each block, roughly."""
MOST_BYTES = 64_000_000
"""Three million events or more: 50 minutes at 1,000 a second, two and a half at 20,000."""

Info = Mapping[str, Any]


@dataclass(frozen=True)
class Block:
    """A stretch of what was read."""

    number: int
    """Blocks are counted as they are made."""
    begun: int
    until: int
    """It was read between these times; ns, CLOCK_MONOTONIC."""
    first: int
    last: int
    """Of its events. The first block has all that rings held when reading began."""
    infos: Mapping[int, Info]
    """process -> what is to be said of it, where only this block is known"""
    counts: Mapping[int, int]
    """process -> its records"""
    frames: bytes
    """Parts of a recording: texts, records"""

    @property
    def events(self) -> int:
        """Records of all processes."""
        return sum(self.counts.values())

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        return len(self.frames) + INFO_BYTES * len(self.infos)


class _Packing(Writer):
    """A block that is being made."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        super().__init__(self._buffer)
        self.infos: dict[int, Info] = {}
        self.counts: defaultdict[int, int] = defaultdict(int)
        self._times: list[int] = []

    def process(self, process: int, info: dict[str, Any]) -> None:
        """Kept as it is: when it is saved, it has to be said as of another beginning."""
        self.infos[process] = info

    def records(self, process: int, thread: int, raw: bytes) -> None:
        """Count and pack them."""
        self.counts[process] += len(raw) // RECORD_BYTES
        rows = records(raw)
        times = rows["t"][rows["moment"] != 0]
        self._times += [int(times.min()), int(times.max())] if len(times) else []
        super().records(process, thread, raw)

    def end(self, info: dict[str, Any]) -> None:
        """A block says nothing of an end."""

    def block(self, number: int, begun: int, until: int) -> Block:
        """What it has become."""
        times, frames = self._times or [begun, until], self._buffer.getvalue()[FILE_HEADER.size :]
        return Block(number, begun, until, min(times), max(times), self.infos, dict(self.counts), frames)


@dataclass(frozen=True)
class Held:
    """What a memory holds."""

    blocks: int
    events: int
    size: int
    """Bytes."""
    seconds: float
    """How far back it reaches, of what is to be kept."""
    dropped: int
    """Events that were dropped before their time, to keep to the bytes."""


class Memory:
    """Blocks of the last `keep_s` seconds, of `most_bytes` together at most."""

    def __init__(self, keep_s: float, most_bytes: int = MOST_BYTES, block_s: float = BLOCK_S) -> None:
        self._keep_ns, self._most, self._block_ns = round(keep_s * SECOND), most_bytes, round(block_s * SECOND)
        self._blocks: deque[Block] = deque()
        self._changed = threading.Condition()
        self._made, self._size, self._dropped = 0, 0, 0
        self._packing: _Packing
        self._writer = Standalone(self._begin)
        self._known: dict[int, dict[str, Any]] = {}
        self._rows: defaultdict[int, list[Rows]] = defaultdict(list)
        self._texts: Told = []
        self._waiting, self._begun = 0, 0

    def add(self, process: int, records: Rows, texts: Told) -> None:
        """What a process wrote since it was read last."""
        if len(records):
            self._rows[process].append(records)
            self._waiting += len(records)
        self._texts += texts

    def look(self, readings: Sequence[RingReading], now: int, awaited: bool = False) -> None:
        """All that was new by `now` has been added; close the block, if it is time, or if somebody waits for it."""
        self._begun = self._begun or now
        passed = now - self._begun
        if self._waiting >= BLOCK_RECORDS or passed >= self._block_ns or (awaited and passed >= AWAITED_NS):
            self.seal(readings, now)

    def seal(self, readings: Sequence[RingReading], now: int) -> None:
        """Close the block, and drop what is too old or too much."""
        self._writer.texts(self._texts)
        for number, reading in enumerate(readings):
            self._pack(number, reading.info)
        self._texts, self._waiting = [], 0
        done, begun, self._begun = self._packing, self._begun, now
        self._writer.turn()
        with self._changed:
            self._made += 1
            self._keep(done.block(self._made, begun, now))
            self._changed.notify_all()

    def text(self, key: int) -> str:
        """What a key in a record stands for; empty where that is not known. For the thread that adds."""
        return self._writer.known.text(key) or next((text for raw, text in self._texts if low64(raw) == key), "")

    def since(self, number: int) -> list[Block]:
        """The blocks made after that one."""
        with self._changed:
            return [block for block in self._blocks if block.number > number]

    def wait(self, number: int, timeout_s: float) -> None:
        """Until there is a block after that one, or so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._made > number, timeout_s)

    def wake(self) -> None:
        """Let those who wait look around."""
        with self._changed:
            self._changed.notify_all()

    @property
    def held(self) -> Held:
        """As it stands."""
        with self._changed:
            blocks = list(self._blocks)
            begun = min((min(block.begun, block.first) for block in blocks), default=0)
            span = min(blocks[-1].until - begun, self._keep_ns) if blocks else 0
            events = sum(block.events for block in blocks)
            return Held(len(blocks), events, self._size, span / SECOND, self._dropped)

    def _begin(self) -> Writer:
        self._packing = _Packing()
        return self._packing

    def _pack(self, number: int, info: dict[str, Any]) -> None:
        rows = self._rows.pop(number, [])
        if self._known.get(number) != info:
            self._known[number] = info
            self._writer.process(number, info)
        self._writer.records(number, 0, b"".join(each.tobytes() for each in rows))

    def _keep(self, block: Block) -> None:
        self._blocks.append(block)
        self._size += block.size
        while self._blocks[0].until < block.until - self._keep_ns:
            self._size -= self._blocks.popleft().size
        while self._size > self._most and len(self._blocks) > 1:
            gone = self._blocks.popleft()
            self._size -= gone.size
            self._dropped += gone.events
