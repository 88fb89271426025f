"""JSON lines: read, written, refused; and their documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.model.errors import InputError
from kvscope.probe.vocabulary import DIRECTIONS, MOMENT_CODE, REASONS, STATES, TEXT_VALUES, THREADS, UNKNOWN, VALUES
from kvscope.sources.fields import COUNTED, MOST
from kvscope.sources.jsonl import FLAGS, parse_jsonl
from kvscope.sources.lines import write_jsonl
from kvscope.sources.schema import BEGIN, END, VALUE_MEANING, tables

GOOD = {"t": 5, "engine": "p0", "leg": "prefill", "moment": "posted", "request": "r"}
DOCUMENT = Path(__file__).parents[3] / "docs" / "events.md"


def parse(*items: object) -> Any:
    return parse_jsonl([item if isinstance(item, str) else json.dumps(item) for item in items], "f.jsonl")


def test_a_line_becomes_an_event() -> None:
    events = parse({"version": 1}, {**GOOD, "state": "DONE", "rank": 3, "descriptors": 7, "thread": "writer"}).events
    row = events.rows[0]
    assert (row["t"], row["moment"], row["state"], row["rank"]) == (5, MOMENT_CODE["posted"], STATES.index("DONE"), 3)
    assert events.texts[int(row["request"])] == "r"
    assert row["values"].tolist() == [7, *[UNKNOWN] * 5]
    assert events.processes[0].engine == "p0"


def test_the_same_id_on_two_engines_is_two_processes_and_one_key() -> None:
    events = parse(GOOD, {**GOOD, "engine": "p1"}, {**GOOD, "engine_id": "second start"}).events
    assert len(events.processes) == 3
    assert len(set(events.rows["request"].tolist())) == 1


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ({**GOOD, "t": "5"}, '"t" is "5"'),
        ({**GOOD, "t": 2**63}, "must lie between"),
        ({"t": 1, "engine": "p0"}, 'no "moment"'),
        ({"t": 1, "moment": "posted", "leg": "prefill"}, 'no "engine"'),
        ({**GOOD, "leg": "sideways"}, "must be one of"),
        ({**GOOD, "leg": None}, '"leg" is missing'),
        ({**GOOD, "request": 7}, '"request" must be'),
        ({**GOOD, "rank": 70000}, "must lie between"),
        ({**GOOD, "descriptors": 1.5}, "an integer is expected"),
        ({**GOOD, "descriptors": -1}, "must lie between 0 and"),
        ({**GOOD, "descriptors": 2**62}, "must lie between 0 and"),
        ({"version": 2}, "version 2"),
        ({"version": "1"}, 'version "1"'),
        ({"version": True}, "version true"),
        ({"version": 1.5}, "version 1.5"),
        pytest.param('{"a":' * 100_000, "not JSON", id="too deep"),
        *(
            ({**GOOD, name: wrong}, f'"{name}" is ')
            for name in ("moment", "leg", "engine", "engine_id", "host", "thread", "state", "reason")
            for wrong in (["a"], {"a": 1}, 1)
        ),
        *(({**GOOD, "moment": "started", "started": wrong}, '"started" is ') for wrong in (["a"], "a", 1)),
        *(({**GOOD, name: "false"}, f'"{name}" is ') for name in FLAGS),
        *(({"process": {"engine": "p0", "gaps": wrong}}, '"gaps" is ') for wrong in (["a"], {"a": 1}, 1)),
        ({"process": {"engine": "p0", "gaps": [{"begin": 1, "end": 2}]}}, '"events" is missing'),
        ({"process": {"engine": "p0", "gaps": [{"begin": "1", "end": 2, "events": 3}]}}, '"begin" is "1"'),
    ],
)
def test_what_cannot_be_used_is_refused_by_line(line: object, part: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(GOOD, line)
    assert "f.jsonl:2" in str(caught.value)
    assert part in str(caught.value)


def test_a_version_with_a_point_is_the_same_number() -> None:
    assert len(parse({"version": 1.0}, GOOD).events) == 1


def test_what_is_not_known_is_left_out_and_counted() -> None:
    found = parse({**GOOD, "moment": "beamed"}, {**GOOD, "colour": "red", "looked": 3}, {**GOOD, "thread": "weaver"})
    assert found.unknown_moments == {"beamed": 1}
    assert found.unknown_fields == {"colour": 1, "looked": 1, "thread weaver": 1}
    assert len(found.events) == 2


def test_started_describes_the_engine() -> None:
    started = {"t": 1, "engine": "p0", "moment": "started", "started": {"kv_blocks": 100}, "lost": 4}
    process = parse(started).events.processes[0]
    assert process.started == {"kv_blocks": 100}
    assert process.lost == 4


def _value(name: str) -> st.SearchStrategy[Any]:
    if name in TEXT_VALUES:
        return st.text(min_size=1, max_size=9)
    if name == "direction":
        return st.sampled_from(DIRECTIONS[1:])
    return st.integers(0, MOST) if name in COUNTED else st.integers(-(2**62), 2**62)


@st.composite
def lines(draw: st.DrawFn) -> dict[str, Any]:
    moment = draw(st.sampled_from([name for name in MOMENT_CODE if name not in ("none", "started")]))
    text = st.text(min_size=1, max_size=20)
    item = {"t": draw(st.integers(-(2**62), 2**62)), "engine": draw(text), "moment": moment}
    item["leg"] = draw(st.sampled_from(("prefill", "decode", "router", "engine")))
    choices: dict[str, st.SearchStrategy[Any]] = {
        "host": text,
        "engine_id": text,
        "request": text,
        "remote_request" if moment == "queued" else "peer_request": text,
        "rank": st.integers(1, 65535),
        "peer_rank": st.integers(1, 65535),
        "step": st.integers(1, 2**32 - 1),
        "thread": st.sampled_from(THREADS[1:]),
        "state": st.sampled_from(STATES[1:]),
        "reason": st.sampled_from(REASONS[1:]),
        **{name: _value(name) for name in VALUES.get(moment, ())},
        **{name: st.just(True) for name in FLAGS},
    }
    for name, choice in choices.items():
        if draw(st.booleans()):
            item[name] = draw(choice)
    if item.get("remote_request"):
        item["remote_prefill"] = True
    return item


@given(st.lists(lines(), max_size=6))
@settings(max_examples=60, deadline=None)
def test_written_and_read_again_nothing_changed(items: list[dict[str, Any]]) -> None:
    events = parse(*items).events
    written = [json.loads(line) for line in write_jsonl(events)]
    assert written == [{"version": 1}, *items]
    again = parse_jsonl(write_jsonl(events)).events
    assert np.array_equal(again.rows, events.rows)


def test_the_document_holds_the_tables_of_the_code() -> None:
    text = DOCUMENT.read_text()
    assert text.split(BEGIN)[1].split(END)[0].strip() == tables().strip(), "run python -m kvscope.sources.schema"
    assert {name for names in VALUES.values() for name in names} == VALUE_MEANING.keys()


def test_the_example_of_the_document_can_be_read() -> None:
    example = DOCUMENT.read_text().split("```json")[1].split("```")[0]
    assert len(parse(*example.strip().splitlines()).events) == 2
