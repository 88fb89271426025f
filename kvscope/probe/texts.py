"""A text's bytes, the key that stands for it in a record, and its chunks in a ring."""

from __future__ import annotations

import struct
from hashlib import blake2b

from kvscope.probe import layout

_TEXTS = struct.Struct("@8x" + layout.TEXT_BODY.format.lstrip("@"))
assert _TEXTS.size == layout.RECORD_BYTES

# A copy of a state costs half of what making one does.
_fresh = blake2b(digest_size=16).copy


def raw_of(text: str) -> bytes:
    """UTF-8, lone surrogates escaped."""
    try:
        return text.encode()  # without a handler's name, which costs a third more
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def encoded(text: str) -> tuple[bytes, bytes]:
    """A text's bytes and its key: 128 bits of BLAKE2b over them."""
    raw, state = raw_of(text), _fresh()
    state.update(raw)
    return raw, state.digest()


def assembled(raw: bytes) -> tuple[list[tuple[bytes, str]], list[int], int]:
    """(texts whose chunks are all there, places of the last text's chunks if it is still being written, orphans)."""
    pairs: list[tuple[bytes, str]] = []
    parts: list[bytes] = []
    places: list[int] = []
    orphans = 0
    owner: tuple[bytes, int] | None = None
    for place, (key, chunk, chunks, used, _, part) in enumerate(_TEXTS.iter_unpack(raw)):
        if chunks == 1 and chunk == 0 and not parts:  # nearly every text
            pairs.append((key, part[:used].decode("utf-8", "replace")))
            continue
        if chunk == 0 or (key, chunks) != owner or chunk != len(parts):
            orphans += len(parts)
            owner, parts, places = (key, chunks), [], []
            if chunk:
                orphans += 1
                continue
        parts.append(part[:used])
        places.append(place)
        if len(parts) == chunks:
            pairs.append((key, b"".join(parts).decode("utf-8", "replace")))
            owner, parts, places = None, [], []
    return pairs, places, orphans
