"""Reads a trace as the page does: by time, and where times are alike in the file's order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.core.stream import Stream
from kvscope.export.passage import Part, passage
from kvscope.export.perfetto import fields
from kvscope.export.perfetto.fields import messages
from kvscope.export.perfetto.trace import Trace
from kvscope.model.events import Events
from kvscope.sources.past import open_past

from ...core.scene import events_of


@dataclass
class Event:
    """A slice, or an instant, which ends when it begins."""

    track: str
    """Names of the tracks from the root to its own, with slashes between them."""
    name: str
    category: str
    begin: int
    end: int | None
    args: dict[str, Any]
    flows: tuple[int, ...]
    colour: str
    uuid: int
    depth: int = 0

    @property
    def ns(self) -> int:
        assert self.end is not None, f"{self.name} never ends"
        return self.end - self.begin


@dataclass
class Told:
    """What a trace holds."""

    events: list[Event] = field(default_factory=list)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Track -> (time, value), by time."""
    tracks: dict[int, Any] = field(default_factory=dict)
    metadata: dict[str, int | str] = field(default_factory=dict)
    clocks: dict[int, int] = field(default_factory=dict)

    def of(self, category: str, *names: str) -> list[Event]:
        """Events of a category, by time."""
        return [each for each in self.events if each.category == category and (not names or each.name in names)]

    def path(self, uuid: int) -> str:
        """The name of a track with those above it."""
        told = self.tracks[uuid]
        return f"{self.path(told.parent_uuid)}/{told.name}" if told.parent_uuid else str(told.name)


def trace_of(parts: Iterable[Part]) -> bytes:
    """A trace in memory."""
    written: list[bytes] = []
    trace = Trace(written.append)
    for part in parts:
        trace.take(part)
    trace.complete()
    return b"".join(written)


def of_files(*paths: Path) -> Told:
    """What the trace of recordings holds."""
    past = open_past(paths, lambda share: None)
    try:
        return read(trace_of(passage(past)))
    finally:
        past.close()


def parts_of(events: Events, size: int = 10**9) -> list[Part]:
    """As a recording of these events is gone through, so many at a time."""
    stream, rows = Stream(), events.rows[np.argsort(events.rows["t"], kind="stable")]
    found = []
    for at in range(0, len(rows), size):
        piece = Events(rows[at : at + size], events.processes, events.texts)
        found.append(Part(piece, tuple(stream.feed(piece))))
    return [*found, Part(Events(rows[:0], events.processes, {}), tuple(stream.close()))]


def of_items(items: Iterable[dict[str, Any]], size: int = 10**9) -> Told:
    """What the trace of JSON objects holds."""
    return read(trace_of(parts_of(events_of(items), size)))


def read(data: bytes) -> Told:
    """Everything in a trace."""
    trace, told, known = messages.Trace(), Told(), _Interned()
    trace.ParseFromString(data)
    found = []
    for packet in trace.packet:
        known.learn(packet.interned_data)
        if packet.HasField("track_descriptor"):
            told.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for clock in packet.clock_snapshot.clocks:
            told.clocks[clock.clock_id] = clock.timestamp
        for each in packet.chrome_events.metadata:
            told.metadata[each.name] = each.string_value if each.HasField("string_value") else each.int_value
        if packet.HasField("track_event"):
            found.append((packet.timestamp, packet.track_event, known.resolved(packet.track_event)))
    found.sort(key=lambda one: one[0])
    _lay(told, found)
    return told


class _Interned:
    """Texts by number."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, int], str] = {}

    def learn(self, data: Any) -> None:
        for kind, entries in data.ListFields():
            for entry in entries:
                text = entry.str.decode() if kind.message_type.name == "InternedString" else entry.name
                self._texts[kind.name, entry.iid] = text

    def resolved(self, event: Any) -> tuple[str, str, dict[str, Any], str]:
        """Name, category, arguments, colour."""
        name = event.name or self._texts.get(("event_names", event.name_iid), "")
        category = self._texts["event_categories", event.category_iids[0]] if event.category_iids else ""
        args = {
            self._texts["debug_annotation_names", one.name_iid]: self._value(one) for one in event.debug_annotations
        }
        assert len(args) == len(event.debug_annotations), f"{name}: an argument twice"
        return name, category, args, self._texts.get(("correlation_id_str", event.correlation_id_str_iid), "")

    def _value(self, annotation: Any) -> Any:
        which = annotation.WhichOneof("value")
        value = getattr(annotation, which)
        return self._texts["debug_annotation_string_values", value] if which == "string_value_iid" else value


def _lay(told: Told, found: list[tuple[int, Any, tuple[str, str, dict[str, Any], str]]]) -> None:
    """Put ends to beginnings; an end is that of the innermost slice of its category that is open on its track."""
    open_: dict[int, list[Event]] = defaultdict(list)
    for t, event, (name, category, args, colour) in found:
        uuid, stack = event.track_uuid, open_[event.track_uuid]
        if event.type == fields.COUNTER:
            told.counters[told.path(uuid)].append((t, event.counter_value))
        elif event.type == fields.END:
            stack.remove(ending := next(one for one in reversed(stack) if one.category == category))
            ending.end = t
        else:
            end = t if event.type == fields.INSTANT else None
            flows = tuple(event.flow_ids)
            one = Event(told.path(uuid), name, category, t, end, args, flows, colour, uuid, len(stack))
            told.events.append(one)
            if end is None:
                stack.append(one)
    assert not any(open_.values()), "every slice ends"
