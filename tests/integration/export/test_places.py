"""Where what is written goes: never over what it is made of, and through a link to what that leads to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvscope.cli import main

from .trips import PICTURES

PULL = PICTURES / "pull.kvs"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return Path(shutil.copy(PULL, tmp_path / "pull.kvs"))


def exports(source: Path, to: Path) -> list[list[str]]:
    """Every way of writing over a file that is read."""
    ways = [["export", str(source), f"--{kind}", str(to), "--force"] for kind in ("jsonl", "perfetto", "otlp")]
    return [*ways, ["compare", str(source), str(PICTURES / "push-early.kvs"), "--svg", str(to), "--force"]]


def test_what_is_read_is_never_replaced(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link, folder = tmp_path / "link.kvs", tmp_path / "parts"
    link.symlink_to(recording)
    folder.mkdir()
    part = Path(shutil.copy(PULL, folder / "part.kvs"))
    for words in (*exports(recording, recording), *exports(recording, link), *exports(folder, part)[:3]):
        assert main(words) == 2, words
        assert "is what is read; name another place to write to" in capsys.readouterr().err
    assert recording.read_bytes() == part.read_bytes() == PULL.read_bytes()


def test_a_stretch_of_tables_does_not_take_the_place_of_all(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = str(tmp_path / "tables")
    assert main(["export", str(recording), "--parquet", tables]) == 0
    assert main(["export", tables, "--parquet", tables, "--from", "5s", "--force"]) == 2
    assert "is what is read" in capsys.readouterr().err
    assert main(["export", tables, "--parquet", tables, "--force"]) == 0


def test_stacks_that_are_shown_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(PICTURES / "push-profile", tmp_path / "profile"))
    before = (folder / "stacks.jsonl").read_bytes()
    assert main(["profile", str(folder), "--flame", str(folder / "stacks.jsonl"), "--force"]) == 2
    assert "is what is read" in capsys.readouterr().err
    assert (folder / "stacks.jsonl").read_bytes() == before


@pytest.mark.parametrize("verb", ["export", "share"])
def test_a_link_stays_and_what_it_leads_to_is_written(recording: Path, tmp_path: Path, verb: str) -> None:
    place, link = tmp_path / "far" / "latest", tmp_path / "link"
    place.parent.mkdir()
    place.write_text("old")
    link.symlink_to(place)
    option = {"export": "--jsonl", "share": "-o"}[verb]
    assert main([verb, str(recording), option, str(link), "--force"]) == 0
    assert link.is_symlink()
    assert place.stat().st_size > 10_000
    assert sorted(each.name for each in tmp_path.iterdir()) == ["far", "link", "pull.kvs"]
    assert [each.name for each in place.parent.iterdir()] == ["latest"]


def test_a_link_in_a_circle_is_one_sentence(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for words in (["export", str(recording), "--jsonl", str(circle)], ["share", str(recording), "-o", str(circle)]):
        assert main(words) == 2
        assert f"cannot write {circle}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--perfetto", "--otlp"])
def test_what_needs_a_file_makes_none_called_dash(
    option: str, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(recording), option, "-"]) == 2
    assert "so it has to be a file; name one" in capsys.readouterr().err
    assert not (tmp_path / "-").exists()


def test_a_device_is_no_place_for_a_file_whatever_is_forced(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--force"]):
        assert main(["export", str(recording), "--jsonl", "/dev/null", *words]) == 2
        assert "/dev/null is there and is no file" in capsys.readouterr().err


def test_a_recording_without_a_time_of_day_says_how_spans_get_one(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = str(tmp_path / "shared.kvs")
    assert main(["share", str(recording), "-o", shared]) == 0
    assert main(["export", shared, "--otlp", str(tmp_path / "spans")]) == 2
    assert "kvscope share --keep-time" in capsys.readouterr().err
