"""`kvscope diagnose` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.sources.lines import write_jsonl

from .incidents import push
from .real import PICTURES, everyone, second_half

PUSH = str(PICTURES / "push-early.kvs")


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The router holds decode back for 600 ms, all the time."""
    return written(tmp_path_factory.mktemp("late"), everyone)


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same, from the middle on."""
    return written(tmp_path_factory.mktemp("turned"), second_half)


def written(folder: Path, whom: object) -> str:
    events = push({"D.arrived": 600}, whom, True)  # type: ignore[arg-type]
    path = folder / "incident.jsonl"
    path.write_text("\n".join(write_jsonl(events)) + "\n")
    return str(path)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["diagnose", *words]) == 0
    return capsys.readouterr().out


def slugs(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    return [finding["slug"] for finding in json.loads(told(capsys, *words, "--json"))["findings"]]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["diagnose", *words]) == 2
    return capsys.readouterr().err


def test_a_recording_beside_a_healthy_one(late: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = told(capsys, late, "--baseline", PUSH)
    assert page.startswith("1 of 1  late-registration   explains +502")
    assert page.splitlines()[-2].endswith(f" {late}")


def test_a_recording_beside_a_stretch_of_itself(turned: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert slugs(capsys, turned, "--baseline", "0s..9.8s") == ["late-registration"]
    assert slugs(capsys, turned, "--from", "10s") == ["late-registration"]
    assert slugs(capsys, turned, "--to", "9.8s") == []
    assert slugs(capsys, turned, "--around", "20s", "--baseline", "0s..9.8s") == ["late-registration"]


def test_a_time_of_day_will_do(turned: str, capsys: pytest.CaptureFixture[str]) -> None:
    since = told(capsys, turned).split("SINCE")[1].split()[0]
    assert since.count(":") == 2
    assert slugs(capsys, turned, "--from", since) == ["late-registration"]


def test_twelve_lines_to_paste(late: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, late, "--paste", "--slo", "ttft=800ms").splitlines()
    assert len(lines) <= 12
    assert lines[0].startswith("late-registration")
    assert "SLO misses" in lines[0]


def test_nothing_is_found_in_a_healthy_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, PUSH).startswith("NOTHING FOUND in 63 requests")
    assert slugs(capsys, PUSH, "--baseline", PUSH) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "soon"), "--from 'soon' is no instant"),
        (("--around", "1s", "--to", "2s"), "--around with --from or --to"),
        (("--from", "5s", "--to", "2s"), "is not after"),
        (("--from", "500s"), "no request began in the time that is asked for"),
        (("--baseline", "9s..2s"), "ends before it begins"),
        (("--baseline", "nowhere.kvs"), "there is no nowhere.kvs"),
        (("--paste", "--json"), "choose one"),
        (("--slo", "fast"), "fast"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, PUSH, *words)
    assert said in error
    assert error.count("\n") == 1
