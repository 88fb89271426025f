"""The rings of another host, as its `kvscope serve` sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvscope.agents.wire import exchange_of
from kvscope.live.connection import Refused, address_of, following
from kvscope.live.feed import Batch, Flow
from kvscope.live.kept import Kept
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.model.exchange import Exchange
from kvscope.probe.recording import EndPart, MarkPart, Part, Parts, ProcessPart, RecordsPart, TextsPart
from kvscope.sources.continued import continued
from kvscope.sources.gathering import Identity, identity
from kvscope.sources.records import Rows, low64, process_of, records, to_rows
from kvscope.sources.rings import Told

AGAIN_S = (0.25, 0.5, 1, 2, 4)
"""Between two attempts to connect; the last one again and again."""
FIRST_S = 10.0
"""Whoever has sent nothing that can be shown for so long since the begin never will."""
MOST = 400_000
"""Records that wait for a poll. The server then keeps what follows, and counts what its rings overwrite."""


@dataclass
class _Round:
    """What came between two marks. Processes are numbered by the connection."""

    infos: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    parts: list[tuple[int, Rows]] = field(default_factory=list)
    texts: Told = field(default_factory=list)

    def add(self, part: Part) -> None:
        """Take what is no mark."""
        match part:
            case ProcessPart(number, info):
                self.infos[number] = info
            case RecordsPart(number, _, raw):
                self.parts.append((number, records(raw)))
            case TextsPart(pairs):
                self.texts += pairs


@dataclass
class _Arrived:
    """What was not polled yet: whole rounds. Processes are numbered by the feed."""

    parts: list[tuple[int, Rows]] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    restart: bool = False
    exchanges: list[Exchange] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.parts)


class Remote:
    """A feed from `HOST:PORT`. Time is the server's, and stands still while it is lost: so does the picture.

    When a connection breaks, the next one goes on from the last mark: no event counts twice, and what the rings have
    overwritten meanwhile is counted as lost. After a restart of the host, all begins anew.
    """

    def __init__(self, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Connects in a thread. InputError: `address` is none."""
        self._address, self._clock = address_of(address), clock
        self.name = str(self._address)
        self._index: dict[Identity, int] = {}
        self._infos: list[Mapping[str, Any]] = []
        self._first: list[Mapping[str, Any]] = []
        self._kept = Kept()
        self._arrived, self._room = _Arrived(), threading.Condition()
        self._mark: Mapping[str, Any] | None = None
        self._error: InputError | None = None
        self._begun = clock()
        self._lost_at: float | None = None
        self._reason = ""
        self._strange: tuple[str, ...] = ()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvscope-remote", daemon=True)
        self._thread.start()

    def poll(self) -> Batch:
        """What came since the last poll. InputError: nothing at that address can ever be followed."""
        with self._room:
            if self._error:
                raise self._error
            arrived, self._arrived = self._arrived, _Arrived()
            mark, processes = self._mark, tuple(map(process_of, self._infos))
            self._room.notify_all()
        events = Events(to_rows(arrived.parts), processes, arrived.texts)
        if mark is None and self._clock() - self._begun > FIRST_S:
            raise InputError(f"{self.name} sent nothing to show within {FIRST_S:g} s; is that a `kvscope serve`?")
        if mark is None:
            return Batch(events, 0, flow=Flow.LOST, remark=f"connecting to {self.name}")
        now = int(mark["monotonic_ns"])
        wall_ns = int(mark["realtime_ns"]) - now
        return Batch(
            events,
            now,
            wall_ns,
            *self._flow(),
            notes=_sentences(mark, "notes"),
            restart=arrived.restart,
            exchanges=tuple(arrived.exchanges),
        )

    def _flow(self) -> tuple[Flow, str, tuple[str, ...]]:
        lost_at = self._lost_at
        if lost_at is None:
            return Flow.LIVE, "", (*self._strange, *_sentences(self._mark, "faults"))
        return Flow.LOST, f"lost {self.name} {self._clock() - lost_at:.0f} s ago; trying again", (self._reason,)

    def wait(self, seconds: float = FIRST_S) -> bool:
        """Wait until there is something to poll, or so long; returns whether there is. A reason to give up is, too."""
        with self._room:
            return self._room.wait_for(lambda: self._mark is not None or self._error is not None, seconds)

    def save(self, folder: Path) -> str:
        """What came in the last minutes."""
        return self._kept.save(folder, dict(enumerate(self._infos)))

    def close(self) -> None:
        """Hang up."""
        with self._room:
            self._closed.set()
            self._room.notify_all()
        self._thread.join(1)

    def _run(self) -> None:
        failures = 0
        while not self._closed.is_set():
            heard = self._mark
            try:
                with following(self._address, self._mark) as parts:
                    self._receive(parts)
                reason = f"the `kvscope serve` at {self.name} was ended"
            except Refused as refused:
                reason = str(refused)
            except Exception:  # noqa: BLE001 - whoever sends may send anything, and the picture would stand still as live
                reason = f"{self.name} sends what this version does not understand; use the same kvscope at both ends"
            if self._mark is None:
                self._give_up(reason)
                return
            failures = 0 if self._mark is not heard else failures + 1
            self._lost(reason)
            self._closed.wait(AGAIN_S[min(failures, len(AGAIN_S) - 1)])

    def _give_up(self, reason: str) -> None:
        with self._room:
            self._error = InputError(reason)
            self._room.notify_all()

    def _lost(self, reason: str) -> None:
        self._reason = reason
        if self._lost_at is None:
            self._lost_at = self._clock()

    def _receive(self, parts: Parts) -> None:
        """Take what comes until it ends."""
        numbers: dict[int, int] = {}
        coming = _Round()
        for part in parts:
            if self._closed.is_set() or isinstance(part, EndPart):
                return
            if isinstance(part, MarkPart):
                self._take(coming, part.info, numbers)
                coming = _Round()
            else:
                coming.add(part)
            self._strange = (f"{self.name} sends parts that this version does not know",) if parts.bad else ()

    def _take(self, coming: _Round, mark: Mapping[str, Any], numbers: dict[int, int]) -> None:
        """Let a whole round be polled, once there is room. `numbers`: process in the connection -> in the feed."""
        for name in ("monotonic_ns", "realtime_ns"):
            int(mark[name])
        with self._room:
            self._room.wait_for(lambda: len(self._arrived) < MOST or self._closed.is_set())
            if self._mark is None or self._mark["boot_id"] != mark["boot_id"]:
                self._index, self._infos, self._first = {}, [], []
                self._arrived, self._kept = _Arrived(restart=True), Kept()
            for number, info in coming.infos.items():
                numbers[number] = self._number(info)
            parts = [(numbers[number], rows) for number, rows in coming.parts if number in numbers]
            self._arrived.parts += parts
            self._arrived.texts.update((low64(key), text) for key, text in coming.texts)
            self._arrived.exchanges += [found for told in mark.get("exchanges", ()) if (found := exchange_of(told))]
            self._keep(parts, coming.texts)
            self._mark, self._lost_at = mark, None
            self._room.notify_all()

    def _number(self, info: Mapping[str, Any]) -> int:
        number = self._index.setdefault(identity(info), len(self._infos))
        if number == len(self._infos):
            self._infos.append(info)
            self._first.append(info)
        self._infos[number] = continued(info, self._first[number])
        return number

    def _keep(self, parts: list[tuple[int, Rows]], texts: Told) -> None:
        """For whoever wants to save it."""
        for number, rows in parts or [(0, records(b""))]:
            self._kept.add(number, rows, texts)
            texts = []


def _sentences(mark: Mapping[str, Any] | None, name: str) -> tuple[str, ...]:
    """What a server says of what it gives."""
    found = mark.get(name) if mark else None
    return tuple(map(str, found)) if isinstance(found, list) else ()
