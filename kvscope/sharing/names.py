"""Names instead of names: of engines, hosts, models. Equal ones stay equal, and different ones different.

With a key of one's own they are made with it, so that two recordings that were shared at different times name alike
what is alike. Else they are counted, which reads better: P1, D2, h1.
"""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b

from kvscope.probe.ids import DROP, Ids

CODED = ("reason", "recording")
"""Kinds that are never counted: there can be many, and those of other files must not be called alike."""
SHORT = {"engine": "e", "host": "h"}
SAME = ("router",)
"""Engines whose name says what they are, and no more."""
YEARS_NS = 1 << 56
"""Two years and a quarter: by up to so much a key shifts a host's clock."""


class Names:
    """Gives names. `secret`: None for names that are counted, and hashes that nobody can make again."""

    def __init__(self, secret: bytes | None, mode: str, kept: Collection[str] = ()) -> None:
        self.counted = secret is None
        secret = secret if secret is not None else os.urandom(32)
        self.ids = Ids(os.urandom(32) if mode == DROP else secret, mode)
        self._key = blake2b(secret, digest_size=32, person=b"kvscope names").digest()
        self._kept = frozenset(kept)
        self._engines: dict[str, str] = {}
        self._given: dict[tuple[str, str], str] = {}
        self._count: Counter[str] = Counter()

    def engines(self, names: Mapping[str, str]) -> None:
        """What engines are to be called, where names are counted: name or id -> name."""
        self._engines |= names

    def of(self, kind: str, text: str) -> str:
        """The name of something. What is empty stays so: it was not told."""
        if not text or kind in self._kept or (kind == "engine" and text in SAME):
            return text
        if not self.counted or kind in CODED:
            return f"{SHORT.get(kind, kind)}-{self._code(kind, text)}"
        if kind == "engine" and text in self._engines:
            return self._engines[text]
        found = self._given.get((kind, text))
        if found is None:
            self._count[kind] += 1
            found = self._given[kind, text] = f"{SHORT.get(kind, kind)}{self._count[kind]}"
        return found

    def number(self, kind: str, text: str) -> int:
        """A number that stands for something."""
        if self.counted:
            return int(self.of(kind, text).removeprefix(kind))
        return int.from_bytes(self._digest(kind, text)[:4], "little") >> 1

    def shift(self, host: str, first: int) -> int:
        """ns to add to the clock of a host whose first event came at `first`: so that it comes at one second, or, with
        a key, as much as for the host's other recordings."""
        if self.counted:
            return 10**9 - first
        return int.from_bytes(self._digest("shift", host)[:7], "little") % YEARS_NS

    def key(self, kind: str, low: bytes) -> bytes:
        """The low 8 bytes of the key of a text that is no id -> the 16 of its new one."""
        return blake2b(low, digest_size=16, key=self._key, person=f"{kind} key".encode()).digest()

    def given(self, kind: str) -> int:
        """How many of a kind were named."""
        return self._count[kind]

    def _code(self, kind: str, text: str) -> str:
        return base64.b32encode(self._digest(kind, text)[:5]).decode().lower()

    def _digest(self, kind: str, text: str) -> bytes:
        raw = text.encode("utf-8", "backslashreplace")
        return blake2b(raw, digest_size=8, key=self._key, person=kind.encode()[:16]).digest()
