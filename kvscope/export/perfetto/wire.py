"""Protobuf messages as columns: many of the same kind are encoded at once, which is ten times as fast as one by one.

`Cells` are n byte strings, one per row, as blocks of columns: a byte that a row does not have is left out when all are
written one after the other. A varint of ten bytes and one of one byte lie in the same block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

VARINT, FIXED64, BYTES = 0, 1, 2
"""Wire types of protobuf."""
DIGITS = 20
"""Of the largest number in decimal."""


@dataclass(frozen=True)
class Cells:
    """n byte strings."""

    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]
    """(n, w) u1 bytes and (n, w) bool which of them are there; all of a row, one after the other"""
    length: np.ndarray
    """(n,) i8 bytes of each"""

    def __len__(self) -> int:
        return len(self.length)

    def __add__(self, other: Cells) -> Cells:
        return Cells(self.blocks + other.blocks, self.length + other.length)

    def where(self, present: np.ndarray) -> Cells:
        """Nothing where it is not present: (n,) bool."""
        mask = present[:, None]
        return Cells(tuple((data, used & mask) for data, used in self.blocks), self.length * present)

    def written(self) -> bytes:
        """All rows one after the other."""
        data = np.concatenate([data for data, _ in self.blocks], axis=1)
        used = np.concatenate([used for _, used in self.blocks], axis=1)
        return bytes(data[used].tobytes())


def joined(parts: Sequence[Cells], rows: int) -> Cells:
    """One after the other in each of so many rows."""
    if not parts:
        return Cells((), np.zeros(rows, np.int64))
    blocks = tuple(block for part in parts for block in part.blocks)
    return Cells(blocks, np.sum([part.length for part in parts], axis=0))


def constant(data: bytes, rows: int) -> Cells:
    """The same in every row."""
    line = np.frombuffer(data, np.uint8)
    shape = (rows, len(line))
    return Cells(((np.broadcast_to(line, shape), np.ones(shape, bool)),), np.full(rows, len(line), np.int64))


def one_of(texts: Sequence[bytes], which: np.ndarray) -> Cells:
    """(n,) index into texts"""
    width = max(map(len, texts), default=0)
    table = np.zeros((len(texts), width), np.uint8)
    for row, text in enumerate(texts):
        table[row, : len(text)] = np.frombuffer(text, np.uint8)
    length = np.array([len(text) for text in texts], np.int64)[which]
    return Cells(((table[which], np.arange(width) < length[:, None]),), length)


def decimal(values: np.ndarray) -> Cells:
    """(n,) integers, none below 0, as people write them."""
    width = len(str(int(values.max(initial=0))))
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.uint64)
    digits = values.astype(np.uint64)[:, None] // powers
    used = digits > 0
    used[:, -1] = True
    return Cells((((digits % np.uint64(10)).astype(np.uint8) + np.uint8(ord("0")), used),), used.sum(axis=1))


def varint(values: np.ndarray) -> Cells:
    """(n,) integers; those below 0 take ten bytes, as protobuf wants it."""
    values = values.astype(np.uint64)
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    shifted = values[:, None] >> np.arange(0, 7 * width, 7, dtype=np.uint64)
    used = shifted != 0
    used[:, 0] = True
    data = (shifted & np.uint64(0x7F)).astype(np.uint8)
    data[:, :-1] |= used[:, 1:].astype(np.uint8) << np.uint8(7)
    return Cells(((data, used),), used.sum(axis=1))


def same_field(number: int, value: int, rows: int) -> Cells:
    """The same integer as field `number` in every row."""
    return constant(_tag(number, VARINT) + varint(np.array([value])).written(), rows)


def number_field(number: int, values: np.ndarray) -> Cells:
    """(n,) integers as field `number`"""
    return constant(_tag(number, VARINT), len(values)) + varint(values)


def fixed_field(number: int, values: np.ndarray) -> Cells:
    """(n,) u8 as field `number`, of fixed width"""
    data = np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(len(values), 8)
    whole = Cells(((data, np.ones(data.shape, bool)),), np.full(len(values), 8, np.int64))
    return constant(_tag(number, FIXED64), len(values)) + whole


def bytes_field(number: int, content: Cells) -> Cells:
    """A text or a message as field `number`."""
    return constant(_tag(number, BYTES), len(content)) + varint(content.length) + content


def _tag(number: int, kind: int) -> bytes:
    key, data = number << 3 | kind, bytearray()
    while key > 0x7F:
        data.append(key & 0x7F | 0x80)
        key >>= 7
    return bytes((*data, key))
