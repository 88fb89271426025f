"""A recording cut into parts says together what it said whole, and each part can be read without the others."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.recording import ProcessPart, RecordsPart, TextsPart, Writer, parts
from kvscope.sources.bytime import text_keys
from kvscope.sources.gathering import Gathering
from kvscope.sources.recording import read_into, read_recordings
from kvscope.sources.standalone import Standalone, Texts

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
WHOLE = PICTURES / "push-early.kvs"


def cut(path: Path, seed: int, chance: float = 0.1) -> list[bytes]:
    """The same recording, in parts that end at random."""
    made: list[io.BytesIO] = []
    draw = random.Random(seed)

    def begin() -> Writer:
        made.append(io.BytesIO())
        return Writer(made[-1])

    writer = Standalone(begin, lambda: draw.random() < chance)
    with path.open("rb") as file:
        for part in parts(file):
            match part:
                case ProcessPart(number, info):
                    writer.process(number, info)
                case TextsPart(pairs):
                    writer.texts(pairs)
                case RecordsPart(number, thread, raw):
                    writer.records(number, thread, raw)
    writer.end({})
    return [file.getvalue() for file in made]


def read(pieces: Sequence[bytes]) -> Events:
    gathering = Gathering()
    for number, piece in enumerate(pieces):
        assert read_into(gathering, io.BytesIO(piece), str(number)) == []
    events = gathering.events()
    assert gathering.duplicates == 0
    return events


@pytest.mark.parametrize("seed", range(5))
def test_parts_together_are_the_whole(seed: int) -> None:
    pieces = cut(WHOLE, seed)
    assert len(pieces) > 5
    whole, together = read_recordings([WHOLE]), read(pieces)
    assert together.processes == whole.processes
    assert sorted(map(bytes, together.rows)) == sorted(map(bytes, whole.rows))
    assert {key: whole.texts[key] for key in together.texts} == together.texts
    one, other = split(whole), split(together)
    assert list(one) == list(other)


def test_each_part_names_its_processes_and_texts() -> None:
    whole = read_recordings([WHOLE])
    begun: set[str] = set()
    for piece in cut(WHOLE, 7):
        events = read([piece])
        begun |= {process.engine for process in events.processes}
        assert {process.engine for process in events.processes} == begun
        assert all(process.started for process in events.processes)
        named = set(text_keys(events.rows).tolist()) & set(whole.texts)
        assert named == set(events.texts)
    assert begun == {"p0", "d0", "router"}


def test_what_came_before_a_part_or_lies_between_two_is_no_loss() -> None:
    pieces, whole = cut(WHOLE, 3), read_recordings([WHOLE])
    count = len(whole)
    later = read(pieces[4:])
    assert sum(process.before for process in later.processes) == count - len(later)
    assert sum(process.earlier for process in later.processes) == 0
    assert sum(process.lost for process in later.processes) == 0
    torn = read([*pieces[:5], *pieces[7:]])
    gaps = [gap for process in torn.processes for gap in process.gaps]
    assert sum(gap.events for gap in gaps) == count - len(torn) > 0
    assert all(gap.begin < gap.end for gap in gaps)
    assert [sum(getattr(process, name) for process in torn.processes) for name in ("lost", "earlier", "before")] == [
        0,
        0,
        0,
    ]


def test_losses_are_those_of_the_part_in_which_they_fell() -> None:
    made: list[io.BytesIO] = []

    def begin() -> Writer:
        made.append(io.BytesIO())
        return Writer(made[-1])

    raw = np.ones(10 * RECORD_BYTES // 8, np.int64).tobytes()
    writer = Standalone(begin)
    for lost in (0, 3, 5):
        writer.process(0, {"pid": 1, "lost": lost, "earlier": 7, "segments": 1})
        writer.records(0, 4, raw)
        writer.turn()
    writer.end({})
    seen = [read([file.getvalue()]).processes[0] for file in made]
    told = [(each.lost, each.earlier, each.before) for each in seen]
    assert told == [(0, 7, 0), (3, 7, 10), (2, 10, 20), (0, 12, 30)]


def test_one_that_ended_is_told_in_the_parts_that_hold_it_and_in_no_later_one() -> None:
    made: list[io.BytesIO] = []

    def begin() -> Writer:
        made.append(io.BytesIO())
        return Writer(made[-1])

    raw = np.ones(RECORD_BYTES // 8, np.int64).tobytes()
    writer = Standalone(begin, lambda: True)
    for number, alive in ((0, True), (1, True), (0, False), (1, True), (1, True), (1, True)):
        writer.process(number, {"pid": number, "alive": alive, "segments": 1})
        writer.records(number, 4, raw)
    writer.end({})
    told = [{process.pid for process in read([file.getvalue()]).processes} for file in made]
    assert told == [{0}, {0, 1}, {0, 1}, {1}, {1}, {1}]


def test_a_text_is_told_once_in_a_part() -> None:
    for piece in cut(WHOLE, 1):
        keys = [key for part in parts(io.BytesIO(piece)) if isinstance(part, TextsPart) for key, _ in part.pairs]
        assert len(keys) == len(set(keys)) > 0


def test_texts_that_nobody_names_any_more_are_forgotten() -> None:
    texts, raw = Texts(most=10), bytearray(RECORD_BYTES)
    used = (7).to_bytes(8, "little") + bytes(8)
    raw[16:32] = used
    texts.add([(used, "used")])
    for number in range(100, 200):
        texts.add([(number.to_bytes(8, "little") + bytes(8), str(number))])
        assert texts.named(bytes(raw), set()) == {7: (used, "used")}
    raw[16:24] = (100).to_bytes(8, "little")
    assert texts.named(bytes(raw), set()) == {}
