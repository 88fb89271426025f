"""A recording made with hidden ids joins as the one made without, and holds no id."""

from __future__ import annotations

import io
from collections import Counter

import pytest

from kvscope.core.critical_path import split
from kvscope.model.splits import Splits
from kvscope.probe import hiding
from kvscope.probe.hiding import Hiding
from kvscope.probe.ids import DROP, HASH, Ids
from kvscope.probe.recording import (
    EndPart,
    MarkPart,
    ProcessPart,
    RecordsPart,
    TextsPart,
    Writer,
    parts,
)
from kvscope.sources.gathering import Gathering
from kvscope.sources.recording import read_into

PICTURES = ("push-early", "push-sequential", "pull")


def hidden(name: str, ids: Ids, marks: bool = False) -> tuple[io.BytesIO, list[str]]:
    """(a recording of the documents written anew with hidden ids, the ids that it had)."""
    file, seen = io.BytesIO(), list[str]()
    writer = Hiding(Writer(file), ids)
    with open(f"docs/pictures/{name}.kvs", "rb") as source:
        for part in parts(source):
            match part:
                case ProcessPart(number, info):
                    writer.process(number, info)
                case RecordsPart(number, thread, raw):
                    writer.records(number, thread, raw)
                case TextsPart(pairs):
                    writer.texts(pairs)
                    seen += [text for _, text in pairs if "-0-" in text]
                case EndPart(info):
                    writer.end(info)
    file.seek(0)
    return file, seen


def splits_of(file: io.BytesIO | io.BufferedReader) -> Splits:
    gathering = Gathering()
    assert read_into(gathering, file, "it") == []
    return split(gathering.events())


def numbers(splits: Splits) -> Counter[tuple[int, ...]]:
    """What is said of each request, whatever it is called."""
    state = zip(splits.state.tolist(), splits.shape.tolist(), splits.ttft.tolist(), strict=True)
    return Counter((*each, *splits.exposed[row].tolist()) for row, each in enumerate(state))


@pytest.mark.parametrize("mode", [HASH, DROP])
@pytest.mark.parametrize("name", PICTURES)
def test_the_same_requests(name: str, mode: str) -> None:
    file, seen = hidden(name, Ids(b"k" * 16, mode))
    with open(f"docs/pictures/{name}.kvs", "rb") as original:
        whole = splits_of(original)
    found = splits_of(file)
    assert numbers(found) == numbers(whole)
    assert found.tally == whole.tally
    assert [engine.engine for engine in found.engines] == [engine.engine for engine in whole.engines]
    texts = {
        text for part in parts(io.BytesIO(file.getvalue())) if isinstance(part, TextsPart) for _, text in part.pairs
    }
    assert seen
    assert not texts & set(seen)


def test_it_says_so() -> None:
    file, _ = hidden("pull", Ids(b"k" * 16, DROP))
    assert {part.info["ids"] for part in parts(file) if isinstance(part, ProcessPart)} == {DROP}


def test_a_text_that_no_record_names_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hiding, "WAITING", 4)
    file = io.BytesIO()
    writer = Hiding(Writer(file), Ids(b"k" * 16))
    writer.texts([(bytes([number]) * 16, f"secret {number}") for number in range(20)])
    record = bytearray(hiding.SIZE)
    record[16:32], record[48] = bytes([19]) * 16, 1
    writer.records(0, 0, bytes(record))
    writer.mark({"rings": {}})
    found = list(parts(io.BytesIO(file.getvalue())))
    assert [part for part in found if isinstance(part, TextsPart)] == [
        TextsPart([(Ids(b"k" * 16).key(bytes([19]) * 8), Ids(b"k" * 16).name("secret 19"))])
    ]
    assert isinstance(found[-1], MarkPart)
