"""Track events in bulk: slices, instants and counters, each with its arguments.

The page sorts all packets by time and keeps the file's order where times are alike. So the order matters within one
track only, and there only between events of one instant: what ends comes before what begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvscope.export.perfetto import fields
from kvscope.export.perfetto.names import ARG_NAMES, CATEGORIES, COLOURS, NAMES, Names
from kvscope.export.perfetto.wire import (
    Cells,
    bytes_field,
    constant,
    fixed_field,
    joined,
    number_field,
    one_of,
    same_field,
)

CHUNK = 8192
"""Events encoded at once: more take more memory and no less time."""

Label = Callable[[np.ndarray], Cells]
"""(k,) indices of events -> the field that names them"""


@dataclass(frozen=True)
class Arg:
    """One argument of n events."""

    name: str
    values: np.ndarray
    """(n,) integers, numbers of texts, or bool"""
    present: np.ndarray | None = None
    """(n,) bool: which events have it; None: all"""
    kind: int = fields.ARG_INT

    def of(self, rows: np.ndarray) -> Arg:
        """The argument of some of the events: (k,) indices."""
        present = None if self.present is None else self.present[rows]
        return replace(self, values=self.values[rows], present=present)


@dataclass(frozen=True)
class Look:
    """What n events are called, and how they are told apart."""

    category: str | np.ndarray
    """one for all, or (n,) numbers"""
    label: Label
    args: Sequence[Arg] = ()
    colours: np.ndarray | None = None
    """(n,) numbers of colour keys; None: the page takes a colour for each name"""
    flows: np.ndarray | None = None
    """(n,) u8 ids, 0 for none"""

    def of(self, rows: np.ndarray) -> Look:
        """The look of some of the events: (k,) indices."""
        return replace(
            self,
            category=self.category if isinstance(self.category, str) else self.category[rows],
            label=lambda at: self.label(rows[at]),
            args=[arg.of(rows) for arg in self.args],
            colours=None if self.colours is None else self.colours[rows],
            flows=None if self.flows is None else self.flows[rows],
        )


class Packets:
    """Writes events to `write`, the texts that they use before them."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.names = Names()
        self.count = 0
        """Packets written."""
        self._write = write

    def one(self, packet: fields.messages.TracePacket) -> None:
        """A packet of any other kind. The first clears what a reader knew of the sequence."""
        packet.trusted_packet_sequence_id = 1
        packet.sequence_flags = fields.NEEDED if self.count else fields.CLEARED
        self._write(fields.messages.Trace(packet=[packet]).SerializeToString())
        self.count += 1

    def slices(self, track: np.ndarray, begin: np.ndarray, end: np.ndarray, look: Look) -> None:
        """n slices. Those on one track do not overlap; they may lie in slices of another category there."""
        lasting = np.flatnonzero(end > begin)
        category = self._category(look, len(track))
        # Ends first: where one slice ends when another begins, that is the order.
        for at in _chunks(len(lasting)):
            mine = lasting[at]
            self._put(end[mine], _head(fields.END, track[mine], category[mine]))
        self._events(fields.BEGIN, track, lasting, begin, look)
        self._events(fields.INSTANT, track, np.flatnonzero(end <= begin), begin, look)

    def instants(self, track: np.ndarray, t: np.ndarray, look: Look) -> None:
        """n instants."""
        self._events(fields.INSTANT, track, np.arange(len(t)), t, look)

    def counters(self, track: np.ndarray, t: np.ndarray, value: np.ndarray) -> None:
        """n values of counters."""
        for at in _chunks(len(t)):
            head = same_field(fields.TYPE, fields.COUNTER, len(t[at])) + number_field(fields.TRACK, track[at])
            self._put(t[at], head + number_field(fields.COUNTER_VALUE, value[at]))

    def categories(self, names: Sequence[str]) -> np.ndarray:
        """(k,) numbers of categories"""
        return self.names.numbers(CATEGORIES, names)

    def named(self, texts: Sequence[str], which: np.ndarray) -> Label:
        """(n,) index into texts: few names of many events."""
        numbers = self.names.numbers(NAMES, texts)[which]
        return lambda at: number_field(fields.NAME_IID, numbers[at])

    def called(self, text: str) -> Label:
        """The same name for all."""
        number = self.names.number(NAMES, text)
        return lambda at: same_field(fields.NAME_IID, number, len(at))

    def colours(self, keys: Sequence[str]) -> np.ndarray:
        """(k,) numbers of colour keys"""
        return self.names.numbers(COLOURS, keys)

    def _category(self, look: Look, rows: int) -> np.ndarray:
        if isinstance(look.category, str):
            return np.full(rows, self.categories([look.category])[0])
        return look.category

    def _events(self, kind: int, track: np.ndarray, rows: np.ndarray, t: np.ndarray, look: Look) -> None:
        """Events of one kind. rows: (k,) indices into track, t and what the look holds."""
        category = self._category(look, len(track))
        names = {arg.name: self.names.number(ARG_NAMES, arg.name) for arg in look.args}
        for chunk in _chunks(len(rows)):
            at = rows[chunk]
            self._put(t[at], _head(kind, track[at], category[at]) + _told(look, names, at))

    def _put(self, t: np.ndarray, event: Cells) -> None:
        self._flush()
        rows = len(t)
        packet = constant(_BEFORE, rows) + number_field(fields.TIMESTAMP, t) + bytes_field(fields.TRACK_EVENT, event)
        self._write(bytes_field(fields.PACKET, packet).written())
        self.count += rows

    def _flush(self) -> None:
        news = self.names.news()
        if news is not None:
            self.one(fields.messages.TracePacket(interned_data=news))


_BEFORE = (same_field(fields.SEQUENCE, 1, 1) + same_field(fields.SEQUENCE_FLAGS, fields.NEEDED, 1)).written()
"""What every packet of events begins with."""


def _head(kind: int, track: np.ndarray, category: np.ndarray) -> Cells:
    """What sort of event it is, and where."""
    place = number_field(fields.TRACK, track) + number_field(fields.CATEGORY_IID, category)
    return same_field(fields.TYPE, kind, len(track)) + place


def spelled(texts: Sequence[str]) -> Label:
    """(n,) names of their own, each for one event or a few"""
    told = [text.encode("utf-8", "replace") for text in texts]
    return lambda at: bytes_field(fields.NAME, one_of([told[row] for row in at.tolist()], np.arange(len(at))))


def _told(look: Look, names: dict[str, int], at: np.ndarray) -> Cells:
    """What an event says beside when and where: name, colour, flow, arguments."""
    parts = [look.label(at)]
    if look.colours is not None:
        colours = look.colours[at]
        parts.append(number_field(fields.CORRELATION_IID, colours).where(colours != 0))
    if look.flows is not None:
        flows = look.flows[at]
        parts.append(fixed_field(fields.FLOW_IDS, flows).where(flows != 0))
    parts += [_annotation(arg, names[arg.name], at) for arg in look.args]
    return joined(parts, len(at))


def _annotation(arg: Arg, name: int, at: np.ndarray) -> Cells:
    values, present = arg.values[at], None if arg.present is None else arg.present[at]
    if present is not None:
        values = np.where(present, values, 0)  # what stands for nothing is a large number, and so a long one
    content = same_field(fields.ARG_NAME_IID, name, len(at)) + number_field(arg.kind, values)
    cells = bytes_field(fields.ANNOTATION, content)
    return cells if present is None else cells.where(present)


def _chunks(rows: int) -> list[slice]:
    return [slice(begin, begin + CHUNK) for begin in range(0, rows, CHUNK)]
