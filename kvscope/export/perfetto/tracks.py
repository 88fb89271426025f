"""The tree of tracks. The page has no level for engines and sorts processes by how much they hold, so all are plain
tracks with an order of their own; tracks of one name below one parent are drawn as one, with rows for what overlaps."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from kvscope.export.perfetto.fields import messages

ROOT = 0


class Tracks:
    """Makes each track when it is first asked for. Counters are described at once, since a reader has to know them
    before their values; all others at the end, when what they are called is known for good."""

    def __init__(self, write: Callable[[messages.TracePacket], None]) -> None:
        self._write = write
        self._made: dict[Hashable, messages.TracePacket] = {}

    def track(self, key: Hashable, name: str, parent: int = ROOT, rank: int = 0, description: str = "") -> int:
        """The number of the track with this key. `rank`: its place below its parent; at the root names decide."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._packet(name, parent, rank, description)
        return int(found.track_descriptor.uuid)

    def counter(self, key: Hashable, name: str, parent: int, rank: int, description: str, unit: str) -> int:
        """The same for a counter."""
        if key not in self._made:
            packet = self._made[key] = self._packet(name, parent, rank, description)
            packet.track_descriptor.counter.unit_name = unit
            self._write(packet)
        return int(self._made[key].track_descriptor.uuid)

    def rename(self, key: Hashable, name: str) -> None:
        """Call a track something else, if it was made."""
        if key in self._made:
            self._made[key].track_descriptor.name = _text(name)

    def describe(self) -> None:
        """Write what every track is."""
        for packet in self._made.values():
            self._write(packet)

    def _packet(self, name: str, parent: int, rank: int, description: str) -> messages.TracePacket:
        packet = messages.TracePacket()
        told = packet.track_descriptor
        told.uuid, told.name = len(self._made) + 1, _text(name)
        told.sibling_order_rank = rank
        told.child_ordering = messages.TrackDescriptor.EXPLICIT
        if parent != ROOT:
            told.parent_uuid = parent
        if description:
            told.description = _text(description)
        return packet


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
