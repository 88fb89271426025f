"""The flame graph and the file for speedscope: what they hold is what was sampled."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from jsonschema import Draft7Validator

from kvscope.stacks.doing import GIL_WAIT
from kvscope.stacks.flame import MARGIN, WIDTH, flame
from kvscope.stacks.reading import Stacks
from kvscope.stacks.speedscope import GONE, speedscope

from .scenes import ASLEEP, FORWARD, PREPARE, Did, sampled

SCHEMA = Path(__file__).with_name("speedscope_schema.json")
SVG = "{http://www.w3.org/2000/svg}"


def rude(ms: int) -> Did:
    return ((*PREPARE, '<lambda> & "co" (/srv/<own>.py:7)'), False, False, ms % 2 == 0)


@pytest.fixture
def stacks(tmp_path: Path) -> Stacks:
    did = {
        ("p0", "core"): lambda ms: (FORWARD, True, False, False) if ms < 70 else None,
        ("p0", "writer"): rude,
        ("d0", "core"): lambda ms: ASLEEP if ms < 20 or ms >= 100 else None,
    }
    return sampled(tmp_path / "stacks.jsonl", did)


def drawn(stacks: Stacks) -> dict[str, tuple[int, float]]:
    """What each box says -> (samples, width); boxes of one name added up."""
    root = ElementTree.fromstring("".join(flame(stacks, "P & D")))
    found: dict[str, tuple[int, float]] = {}
    for group in root.iter(f"{SVG}g"):
        title, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None
        assert title.text is not None
        assert box is not None
        told = re.fullmatch(r"(?P<name>.*): (?P<samples>[\d,]+) samples, [\d.]+%", title.text, re.DOTALL)
        assert told, title.text
        samples, width = found.get(told["name"], (0, 0.0))
        found[told["name"]] = samples + int(told["samples"].replace(",", "")), width + float(box.attrib["width"])
    return found


def test_every_box_is_as_wide_as_it_has_samples(stacks: Stacks) -> None:
    boxes = drawn(stacks)
    assert boxes["all"][0] == 70 + 140 + 60
    assert (boxes["p0"][0], boxes["d0"][0], boxes["core"][0], boxes["writer"][0]) == (210, 60, 130, 140)
    assert boxes["Module._call_impl (torch/nn/modules/module.py)"][0] == 70
    assert (boxes['<lambda> & "co" (/srv/<own>.py)'][0], boxes[GIL_WAIT][0], boxes["waiting"][0]) == (140, 70, 60)
    scale = (WIDTH - 2 * MARGIN) / 270
    for samples, width in boxes.values():
        assert width == pytest.approx(samples * scale, abs=2)


def test_children_lie_on_their_parent(stacks: Stacks) -> None:
    root = ElementTree.fromstring("".join(flame(stacks, "")))
    boxes = [box.attrib for group in root.iter(f"{SVG}g") for box in group.iter(f"{SVG}rect")]
    rows: dict[float, list[tuple[float, float]]] = {}
    for box in boxes:
        rows.setdefault(float(box["y"]), []).append((float(box["x"]), float(box["x"]) + float(box["width"])))
    ordered = [rows[y] for y in sorted(rows, reverse=True)]
    for below, above in pairwise(ordered):
        assert all(any(low - 0.6 <= x and end <= high + 0.6 for low, high in below) for x, end in above)
    for row in ordered:
        row.sort()
        assert all(end <= x + 0.6 for (_, end), (x, _) in pairwise(row))


def test_no_sample_no_box(tmp_path: Path) -> None:
    nothing = sampled(tmp_path / "s.jsonl", {("p0", "core"): lambda ms: None})
    assert drawn(nothing) == {}


def test_the_file_for_speedscope_is_valid_and_holds_every_sample(stacks: Stacks) -> None:
    document = json.loads("".join(speedscope(stacks, "P & D")))
    Draft7Validator(json.loads(SCHEMA.read_text())).validate(document)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert len(document["shared"]["frames"]) == len({json.dumps(frame) for frame in document["shared"]["frames"]})
    by_name = {profile["name"]: profile for profile in document["profiles"]}
    assert list(by_name) == [
        "d0 core: core, pid 10, tid 102",
        "p0 core: core, pid 11, tid 100",
        "p0 writer: writer, pid 11, tid 101",
    ]
    for profile, samples in zip(by_name.values(), (60, 70, 140), strict=True):
        assert sum(1 for stack in profile["samples"] if stack) == samples
        assert profile["endValue"] == sum(profile["weights"])
        assert min(profile["weights"]) > 0
    writer = by_name["p0 writer: writer, pid 11, tid 101"]["samples"]
    assert [names[stack[-1]] == GIL_WAIT for stack in writer] == [ms % 2 == 0 for ms in range(140)]
    assert document["shared"]["frames"][names.index("Thread.run")] == {
        "name": "Thread.run",
        "file": "threading.py",
        "line": 982,
    }


def test_all_threads_have_one_time_axis(stacks: Stacks) -> None:
    """Of which a thread that was not sampled for long has an empty stretch."""
    document = json.loads("".join(speedscope(stacks, "")))
    core = document["profiles"][0]
    empty = [weight for stack, weight in zip(core["samples"], core["weights"], strict=True) if not stack]
    period = stacks.period_ns
    assert empty == [(100 - 19 - GONE) * period]
    assert core["endValue"] == 140 * period
