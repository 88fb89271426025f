"""What an aggregator took -> batches of events, for its metrics."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvscope.agents.following import Follower
from kvscope.agents.wire import exchange_of
from kvscope.live.feed import Batch
from kvscope.model.events import Events
from kvscope.probe.recording import PROCESS, RECORDS, RECORDS_PREFIX, TEXTS, Frame, ProcessPart, unpacked
from kvscope.sources.continued import continued
from kvscope.sources.gathering import Identity, identity
from kvscope.sources.records import Rows, process_of, texts_of, to_rows, unpacked_records


class TakenFolder:
    """Polls a folder of parts that grows. Time is this host's."""

    def __init__(self, folder: Path) -> None:
        self._follower = Follower(folder)
        self._index: dict[Identity, int] = {}
        self._infos: list[Mapping[str, Any]] = []
        self._first: list[Mapping[str, Any]] = []
        self._numbers: dict[int, int] = {}
        self._damaged = 0

    def __call__(self) -> Batch:
        """What is new."""
        parts: list[tuple[int, Rows]] = []
        texts: dict[int, str] = {}
        for frame in self._follower.look():
            try:
                self._take(frame, parts, texts)
            except (ValueError, struct.error, zlib.error):
                self._damaged += 1
        now = time.monotonic_ns()
        events = Events(to_rows(parts), tuple(map(process_of, self._infos)), texts)
        exchanges = tuple(found for told in self._follower.exchanges if (found := exchange_of(told)))
        faults = (f"{self._damaged} parts of what agents sent cannot be read",) if self._damaged else ()
        return Batch(events, now, time.time_ns() - now, faults=faults, exchanges=exchanges)

    def _take(self, frame: Frame, parts: list[tuple[int, Rows]], texts: dict[int, str]) -> None:
        if frame.kind == RECORDS:
            number, *_ = RECORDS_PREFIX.unpack_from(frame.payload)
            if number in self._numbers:
                parts.append((self._numbers[number], unpacked_records(frame.payload)))
        elif frame.kind == TEXTS:
            texts.update(texts_of(frame.payload))
        elif frame.kind == PROCESS and isinstance(part := unpacked(frame.kind, frame.payload), ProcessPart):
            self._numbers[part.process] = self._number(part.info)

    def _number(self, info: Mapping[str, Any]) -> int:
        number = self._index.setdefault(identity(info), len(self._infos))
        if number == len(self._infos):
            self._infos.append(info)
            self._first.append(info)
        self._infos[number] = continued(info, self._first[number])
        return number
