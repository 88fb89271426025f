"""Recordings of which every text, and every number that tells where or when, carries a mark of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from hashlib import blake2b, md5, sha1, sha256
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.probe import layout
from kvscope.probe.recording import (
    SAID,
    EndPart,
    HeadPart,
    MarkPart,
    ProcessPart,
    RecordsPart,
    TextsPart,
    Writer,
    parts,
)
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, MOMENTS, TEXT_VALUES, UNKNOWN, VALUES
from kvscope.sharing import allowed
from kvscope.sharing.allowed import Rule
from kvscope.sources.records import RECORD

LETTERS = "ghjkqvwxyzGHJKQVWXYZ"
"""No word of ours has six of them in a row, and no hash."""
WINDOW = 6
UP_SINCE = 40 * 24 * 3600 * 10**9
WALL = 1_700_000_000 * 10**9
SECOND = 10**9


@dataclass
class Marks:
    """Texts and numbers that nobody else has."""

    rng: random.Random
    texts: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    """Of these, times of day."""

    def word(self) -> str:
        """A mark by itself."""
        self.texts.append("".join(self.rng.choices(LETTERS, k=self.rng.randint(8, 14))))
        return self.texts[-1]

    def text(self) -> str:
        """A text of some kind with a mark in it."""
        shape = self.rng.choice(("{}", "10.11.12.13:{}", "/srv/{}/model", "cmpl-{}-0-1f3a9c04", "{}\n{}", "語 {}"))
        return shape.replace("{}", self.word())

    def request(self) -> str:
        """A request id."""
        shapes = ("cmpl-{}-0-1f3a9c04", "chatcmpl-{}-deadbeef", "{}", "2_cmpl-___decode_addr_10.1.2.3:5-{}-0-00000000")
        return self.rng.choice(shapes).replace("{}", self.word())

    def number(self, about: int = 1 << 40) -> int:
        """A number that tells where or when."""
        self.numbers.append(about + self.rng.randrange(1 << 40))
        return self.numbers[-1]

    def time(self) -> int:
        """A time of day."""
        self.times.append(self.number(WALL))
        return self.times[-1]


def marked(path: Path, seed: int) -> Marks:
    """Write one; returns its marks."""
    marks = Marks(random.Random(seed))
    with open(path, "wb") as file:
        writer = Writer(file)
        writer.head({name: marks.text() for name in allowed.HEAD} | _strange(marks))
        for number in range(3):
            texts = [marks.request() for _ in range(4)] + [marks.text() for _ in range(4)]
            writer.texts([(encoded(text)[1], text) for text in texts])
            writer.process(number, _info(marks, number, texts))
            writer.records(number, 0, _records(marks, texts))
            writer.mark({"rings": {marks.text(): [0]}, "boot_id": marks.text()} | _strange(marks))
        writer.end(_strange(marks) | {"events": 7})
    return marks


def _strange(marks: Marks) -> dict[str, Any]:
    """Fields that nobody has decided on."""
    return {marks.word(): marks.text(), "later": {"deep": [marks.text()]}, "more": [marks.text(), {"x": marks.text()}]}


def _info(marks: Marks, number: int, texts: list[str]) -> dict[str, Any]:
    info: dict[str, Any] = {name: marks.text() for name in allowed.PROCESS if SAID.get(name, str) is str}
    info |= {
        "realtime_ns": marks.time(),
        "start_ticks": marks.number(),
        "pid": marks.number(),
        "monotonic_ns": UP_SINCE,
    }
    info |= {"process": number, "segments": 1, "stated_bytes": marks.number(), "file_bytes": marks.number()}
    info["threads"] = [{"thread": marks.text(), "name": marks.text(), marks.word(): marks.text()}, marks.text()]
    started: dict[str, Any] = {name: marks.text() for name in allowed.STARTED}
    started |= {name: [marks.text(), marks.text()] for name in marks.rng.sample(list(allowed.STARTED), 9)}
    started |= {"engine": texts[4], "engine_id": texts[5]}
    return info | {"started": started | _strange(marks)} | _strange(marks)


def _records(marks: Marks, texts: list[str]) -> bytes:
    """One of each moment, with all its values; those that are not its own are marks too."""
    rows = np.zeros(len(MOMENTS) + 4, RECORD)
    for at, row in enumerate(rows):
        name = MOMENTS[at] if at < len(MOMENTS) else "later"
        row["sequence"], row["t"] = at + 1, UP_SINCE + at * SECOND
        row["moment"] = MOMENT_CODE.get(name, 200)
        row["leg"] = marks.rng.choice(list(LEG_CODE.values()))
        for key in ("request", "peer"):
            raw = encoded(marks.rng.choice(texts[:4]))[1]
            row[key], row[f"{key}_high"] = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")
        row["values"] = [_value(marks, each, texts) for each in (*VALUES.get(name, ()), *["none"] * 6)[: layout.VALUES]]
    return rows.tobytes()


def _value(marks: Marks, name: str, texts: list[str]) -> int:
    if name in TEXT_VALUES:
        return int.from_bytes(encoded(marks.rng.choice(texts[4:]))[1][:8], "little", signed=True)
    rule = allowed.VALUES[name].rule if name in allowed.VALUES else Rule.DROPPED
    if rule == Rule.TIMED:
        return marks.time()
    if rule == Rule.DROPPED:
        return marks.number(WALL)
    return UP_SINCE + marks.rng.randrange(SECOND) if rule == Rule.SHIFTED else marks.rng.choice((UNKNOWN, 0, 1, 1001))


def leaked(path: Path, marks: Marks) -> list[object]:
    """What of the marks is in a recording: pieces of texts, hashes of them, numbers."""
    raw = unpacked(path)
    found: list[object] = []
    for text in marks.texts:
        pieces = [text[at : at + WINDOW] for at in range(len(text) - WINDOW + 1)]
        found += [piece for piece in pieces if piece.encode() in raw]
    found += [number for number in marks.numbers if number.to_bytes(8, "little") in raw or str(number).encode() in raw]
    return found


def hashes(path: Path) -> set[bytes]:
    """Of all texts of a recording, as keys are made and as others might make them: 8 bytes of each."""
    found = set()
    with open(path, "rb") as file:
        texts = [text for part in parts(file) if isinstance(part, TextsPart) for _, text in part.pairs]
    for text in texts:
        raw = text.encode()
        found |= {digest(raw).digest()[:8] for digest in (blake2b, sha1, sha256, md5)}
        found |= {encoded(text)[1][:8], encoded(text)[1][8:], blake2b(raw, digest_size=8).digest()}
    return found


def unpacked(path: Path) -> bytes:
    """Everything that a recording holds, and the file itself."""
    pieces = [path.read_bytes()]
    with open(path, "rb") as file:
        for part in parts(file):
            match part:
                case RecordsPart(_, _, raw):
                    pieces.append(raw)
                case TextsPart(pairs):
                    pieces += [piece for key, text in pairs for piece in (key, text.encode())]
                case ProcessPart() | HeadPart() | EndPart() | MarkPart():
                    pieces.append(repr(part.info).encode())
    return b"\0".join(pieces)
