"""Recordings damaged at random: as a disk or a copy damages them, and as a faulty writer would write them."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from kvscope.probe.recording import (
    FILE_HEADER,
    HEADER_CRC,
    PART_HEADER,
    PART_MAGIC,
    PART_PREFIX,
    RECORDS,
    RECORDS_PREFIX,
    TEXTS,
    Frames,
)

Damage = Callable[[bytearray, random.Random], None]


def flip(raw: bytearray, draw: random.Random) -> None:
    """Some bits."""
    for _ in range(draw.randint(1, 8)):
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)


def cut(raw: bytearray, draw: random.Random) -> None:
    """The end is missing."""
    del raw[draw.randrange(len(raw)) :]


def drop(raw: bytearray, draw: random.Random) -> None:
    """A stretch is missing."""
    at = draw.randrange(len(raw))
    del raw[at : at + draw.randint(1, 300)]


def insert(raw: bytearray, draw: random.Random) -> None:
    """Something foreign lies in it."""
    at = draw.randrange(len(raw) + 1)
    raw[at:at] = draw.randbytes(draw.randint(1, 300))


def blank(raw: bytearray, draw: random.Random) -> None:
    """A stretch was never written."""
    at = draw.randrange(len(raw))
    size = min(draw.randint(1, 600), len(raw) - at)
    raw[at : at + size] = bytes(size)


def repeat(raw: bytearray, draw: random.Random) -> None:
    """A stretch is there twice."""
    at = draw.randrange(len(raw))
    piece = raw[at : at + draw.randint(1, 600)]
    to = draw.randrange(len(raw) + 1)
    raw[to:to] = piece


DAMAGES: tuple[Damage, ...] = (flip, cut, drop, insert, blank, repeat)


def damaged(whole: bytes, draw: random.Random) -> bytes:
    """Once, twice or three times."""
    raw = bytearray(whole)
    for _ in range(draw.randint(1, 3)):
        if raw:
            draw.choice(DAMAGES)(raw, draw)
    return bytes(raw)


@dataclass(frozen=True)
class Piece:
    """A part of a recording: its kind and what is in it."""

    kind: int
    payload: bytes

    @property
    def sealed(self) -> bytes:
        """As it lies in a file, with its checksums."""
        header = PART_HEADER.pack(PART_MAGIC, self.kind, len(self.payload), zlib.crc32(self.payload))
        return header + HEADER_CRC.pack(zlib.crc32(header)) + self.payload


def miswritten(whole: bytes, draw: random.Random) -> bytes:
    """What is in some parts is damaged, and their checksums are right."""
    pieces = [Piece(frame.kind, frame.payload) for frame in Frames(io.BytesIO(whole))]
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(pieces))
        pieces[at] = _miswritten(pieces[at], draw)
    return whole[: FILE_HEADER.size] + b"".join(piece.sealed for piece in pieces)


def _miswritten(piece: Piece, draw: random.Random) -> Piece:
    if draw.random() < 0.1:
        return Piece(draw.randrange(8), piece.payload)
    head = {RECORDS: RECORDS_PREFIX.size, TEXTS: 0}.get(piece.kind)
    raw = bytearray(piece.payload)
    if head is not None and draw.random() < 0.7:  # beneath the compression
        with suppress(zlib.error):  # it was damaged before
            raw = bytearray(piece.payload[:head] + zlib.decompress(piece.payload[head:])) or bytearray(1)
            draw.choice(DAMAGES)(raw, draw)
            return Piece(piece.kind, bytes(raw[:head]) + zlib.compress(bytes(raw[head:]), 1))
    if raw:
        draw.choice(DAMAGES)(raw, draw)
    return Piece(piece.kind, bytes(raw))


def sound_parts(raw: bytes) -> Iterator[Piece]:
    """Every part that lies in a file whole, found by trying each place: what a reader is held to."""
    at = FILE_HEADER.size
    while (at := raw.find(PART_MAGIC, at)) >= 0:
        header = raw[at : at + PART_HEADER.size]
        check = raw[at + PART_HEADER.size : at + PART_PREFIX]
        if len(check) == HEADER_CRC.size and HEADER_CRC.unpack(check)[0] == zlib.crc32(header):
            _, kind, length, crc = PART_HEADER.unpack(header)
            payload = raw[at + PART_PREFIX : at + PART_PREFIX + length]
            if len(payload) == length and zlib.crc32(payload) == crc:
                yield Piece(kind, payload)
                at += PART_PREFIX + length
                continue
        at += 1
