"""What is told of the recording as a whole: its clocks, what was lost, and what became of its requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from kvscope.export.perfetto import colours, fields
from kvscope.export.perfetto.axis import Axis
from kvscope.export.perfetto.fields import messages
from kvscope.export.perfetto.names import TEXTS
from kvscope.export.perfetto.packets import Arg, Look, Packets
from kvscope.export.perfetto.places import Places
from kvscope.model.counting import count
from kvscope.model.requests import STATES, Tally
from kvscope.model.splits import Splits

MONOTONIC, REALTIME = messages.BUILTIN_CLOCK_MONOTONIC, messages.BUILTIN_CLOCK_REALTIME
_APART = "clocks of several hosts, not aligned: no time between two hosts means anything"


class About:
    """Counts while the recording is gone through, and tells it at the end."""

    def __init__(self, packets: Packets, places: Places, axis: Axis) -> None:
        self._packets, self._places, self._axis = packets, places, axis
        self._tally, self._states = Tally(), Counter[str]()
        self._reach: tuple[int, int] | None = None
        self.events = 0
        """Events taken."""

    def meet(self, rows: np.ndarray) -> None:
        """Events (dtype EVENT). Before the first of them, the clocks are told."""
        if not len(rows):
            return
        times = self._places.times(rows)
        first, last = int(times.min()), int(times.max())
        if self._reach is None:
            self._packets.one(self._clocks(first))
        begin, end = self._reach or (first, last)
        self._reach = min(begin, first), max(end, last)
        self.events += len(rows)

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last time on the axis of the trace; nothing lies between them where nothing was taken."""
        return self._reach or (0, -1)

    def count(self, splits: Splits) -> None:
        """Requests that are over."""
        self._tally += splits.tally
        states, times = np.unique(splits.state, return_counts=True)
        for state, number in zip(states.tolist(), times.tolist(), strict=True):
            self._states[str(STATES[state])] += number

    def draw(self) -> None:
        """One slice for all of it, and an instant for each process that lost something or told nothing."""
        if self._reach is None:
            return
        facts = self.facts()
        self._tell(facts)
        lost = sum(process.lost for process in self._places.processes)
        name = f"{count(sum(self._states.values()), 'request')}, {count(lost, 'event') if lost else 'nothing'} lost"
        name += f", {_APART}" if self._axis.several else ""
        track, (begin, end) = np.full(1, self._places.requests), self._reach
        look = Look("recording", self._packets.called(name), self._args(facts))
        self._packets.slices(track, np.array([begin]), np.array([end]), look)
        self._draw_trouble(track, np.array([begin]))

    def facts(self) -> dict[str, int | str]:
        """What there is to know."""
        processes, tally = self._places.processes, asdict(self._tally)
        told = {name: tally[name] for name in tally if name not in ("events", "lost", "earlier") and tally[name]}
        return {
            "clock": f"CLOCK_MONOTONIC of host {next(iter(self._axis.hosts), 'not told')}, ns",
            "hosts": ", ".join(self._axis.hosts) or "not told",
            **({"alignment": _APART} if self._axis.several else {}),
            **({} if self._axis.wall_ns is None else {"wall_minus_monotonic_ns": self._axis.wall_ns}),
            **({"added_to_times_ns": self._axis.floor} if self._axis.floor else {}),
            "events": self.events,
            "lost": sum(process.lost for process in processes),
            "overwritten_before_reading_began": sum(process.earlier for process in processes),
            **{f"requests.{state}": number for state, number in sorted(self._states.items())},
            **{f"counted.{name}": number for name, number in told.items()},
        }

    def _draw_trouble(self, track: np.ndarray, begin: np.ndarray) -> None:
        colour = self._packets.colours([colours.FAILURE])
        for number, process in enumerate(self._places.processes):
            where = f"{process.engine} {self._places.process_name(number)}"
            words = [f"{where}: lost {count(process.lost, 'event')}"] if process.lost else []
            words += [f"{where}: {process.note}"] if process.note else []
            for name in words:
                self._packets.instants(track, begin, Look("loss", self._packets.called(name), colours=colour))

    def _args(self, facts: Mapping[str, int | str]) -> list[Arg]:
        texts = self._packets.names
        return [
            Arg(name, np.array([value]))
            if isinstance(value, int)
            else Arg(name, texts.numbers(TEXTS, [value]), kind=fields.ARG_TEXT_IID)
            for name, value in facts.items()
        ]

    def _tell(self, facts: Mapping[str, int | str]) -> None:
        """The same for the page of information about the trace, where it is shown under names that begin with `cr-`."""
        packet = messages.TracePacket()
        for name, value in facts.items():
            entry = packet.chrome_events.metadata.add(name=f"kvscope.{name}")
            if isinstance(value, int):
                entry.int_value = value
            else:
                entry.string_value = value.encode("utf-8", "replace").decode()
        self._packets.one(packet)

    def _clocks(self, first: int) -> messages.TracePacket:
        """Times are of the monotonic clock; what the time of day was, where somebody told it."""
        packet = messages.TracePacket(timestamp=first)
        packet.trace_packet_defaults.timestamp_clock_id = MONOTONIC
        packet.clock_snapshot.primary_trace_clock = MONOTONIC
        packet.clock_snapshot.clocks.add(clock_id=MONOTONIC, timestamp=first)
        if self._axis.wall_ns is not None:
            packet.clock_snapshot.clocks.add(clock_id=REALTIME, timestamp=first + self._axis.wall_ns)
        return packet
