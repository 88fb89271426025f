"""A sweep's folder: what is done stays done, and another sweep is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvscope.lab.sweeping.cell import Cell
from kvscope.lab.sweeping.folder import MANIFEST, Capacity, default_folder, opened
from kvscope.lab.sweeping.plan import SweepOptions
from kvscope.model.errors import InputError

OPTIONS = SweepOptions(input_tokens=(300,), shares=(0.5,), requests=10)
CELL = Cell("pull", 300, 0.5)
CAPACITY = Capacity(4.5, 16, "pull", 1.5)


def test_what_was_done_and_measured_is_known_to_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    with opened(folder, OPTIONS) as kept:
        assert not kept.done(CELL)
        (kept.begin(CELL) / "recording.kvs").write_bytes(b"x")
        assert not kept.done(CELL), "it is not whole yet"
        kept.settle(CELL, {"rate": 2.0})
        kept.learn({300: CAPACITY})
    with opened(folder, OPTIONS) as again:
        assert again.done(CELL)
        assert again.capacity == {300: CAPACITY}
        assert (again.place(CELL) / "recording.kvs").read_bytes() == b"x"


def test_a_cell_that_was_cut_short_begins_anew(tmp_path: Path) -> None:
    with opened(tmp_path / "sweep", OPTIONS) as kept:
        (kept.begin(CELL) / "client.jsonl").write_text("half")
    with opened(tmp_path / "sweep", OPTIONS) as again:
        assert not again.done(CELL)
        assert list(again.begin(CELL).iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (replace(OPTIONS, requests=11), "requests was 10 and is 11"),
        (replace(OPTIONS, shares=(0.5, 0.9)), r"shares was 0\.5 and is 0\.5,0\.9"),
        (replace(OPTIONS, target="http://host"), "target was '' and is 'http://host'"),
    ],
)
def test_other_options_are_refused_in_a_sentence_that_says_which(
    tmp_path: Path, changed: SweepOptions, why: str
) -> None:
    with opened(tmp_path, OPTIONS):
        pass
    with pytest.raises(InputError, match=why) as refused, opened(tmp_path, changed):
        pass
    assert "\n" not in str(refused.value)


def test_the_same_command_finds_its_folder_again_and_another_does_not() -> None:
    assert default_folder(OPTIONS) == default_folder(replace(OPTIONS))
    assert default_folder(OPTIONS) != default_folder(replace(OPTIONS, seed=1))


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path, OPTIONS), pytest.raises(InputError, match="another sweep"), opened(tmp_path, OPTIONS):
        pass


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="something else"), opened(tmp_path, OPTIONS):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match="no folder"), opened(tmp_path / "thesis.tex", OPTIONS):
        pass


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"options": 3}', json.dumps({"options": {}, "recipe": 1, "capacity": 7})]
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match="no manifest"), opened(tmp_path, OPTIONS):
        pass


def test_a_sweep_of_another_recipe_is_not_gone_on_with(tmp_path: Path) -> None:
    with opened(tmp_path, OPTIONS):
        pass
    told = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps(told | {"recipe": -1}))
    with pytest.raises(InputError, match="another version"), opened(tmp_path, OPTIONS):
        pass
