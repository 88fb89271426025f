"""The two verbs as they are typed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.cli import main

from .scenes import LATE, fleet, lines

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verbs") / "a fleet.jsonl"
    path.write_text("\n".join(lines(fleet(LATE, 30))) + "\n")
    return path


def test_a_report_into_a_pipe_has_no_control_codes(capsys: pytest.CaptureFixture[str], recording: Path) -> None:
    assert main(["report", str(recording), "--slo", "ttft=200ms,tpot=30ms"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "goodput" in text
    assert "MEASURED" in text
    assert "HYPOTHETICAL" in text


def test_an_id_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rude.jsonl"
    rude = "\n".join(lines(fleet(LATE, 1))).replace("cmpl-00000000-0-", "cmpl-\\u001b[2J\\u00e9-")
    path.write_text(rude + "\n")
    assert main(["request", "bbbbbbbb", str(path), "--plain"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "cmpl-?[2J\\xe9-bbbbbbbb" in text


@pytest.mark.parametrize("written", ["\\u202e", "\\u2066", "\\u2028", "\\ud800"])
def test_an_id_can_neither_turn_the_text_around_nor_end_the_verb(
    written: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "rude.jsonl"
    path.write_text("\n".join(lines(fleet(LATE, 1))).replace("cmpl-00000000-0-", f"cmpl-{written}-") + "\n")
    for words in (["request", "bbbbbbbb", str(path)], ["report", str(path)]):
        assert main(words) == 0
        text = capsys.readouterr().out
        assert json.loads(f'"{written}"') not in text
        assert "cmpl-?-bbbbbbbb" in text


def test_a_reader_that_goes_away_is_no_fault(recording: Path) -> None:
    command = [sys.executable, "-m", "kvscope", "report", str(recording)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.close()
    _, complaints = writer.communicate(timeout=60)
    assert (writer.returncode, complaints) == (141, b"")


def test_the_next_command_can_be_typed(capsys: pytest.CaptureFixture[str], recording: Path) -> None:
    assert main(["report", str(recording), "--plain", "--width", "200"]) == 0
    command = capsys.readouterr().out.rpartition("next  ")[2].strip()
    words = shlex.split(command)
    assert words[0] == "kvscope"
    assert main(words[1:]) == 0
    assert "complete" in capsys.readouterr().out


def test_every_stage_is_shown_on_demand(capsys: pytest.CaptureFixture[str], recording: Path) -> None:
    assert main(["report", str(recording), "--by-stage"]) == 0
    text = capsys.readouterr().out
    assert "smaller stages" not in text
    assert "ms, hidden" in text


def test_what_is_of_the_last_minutes_and_what_is_of_all_is_told_apart(
    capsys: pytest.CaptureFixture[str], recording: Path
) -> None:
    told = []
    for words in ([], ["--last", "30s"]):
        assert main(["report", str(recording), *words]) == 0
        told.append(" ".join(capsys.readouterr().out.split()))
    scope = "requests are those of the last 30s, and all that are unfinished; events, what is missing of them and order"
    assert [scope in text for text in told] == [False, True]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--slo", "ttft=fast"], "800ms"),
        (["--last", "60"], "unit"),
        (["--width", "20"], "between 60 and 300"),
        (["--slowest", "-1"], "0 or more"),
    ],
)
def test_bad_arguments_get_one_sentence(
    capsys: pytest.CaptureFixture[str], recording: Path, words: list[str], complaint: str
) -> None:
    assert main(["report", str(recording), *words]) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1


def test_an_id_may_be_a_part_of_either_leg_s(capsys: pytest.CaptureFixture[str], recording: Path) -> None:
    for part in ("cmpl-00000003-0-bbbbbbbb", "cmpl-00000003-0-aaaaaaaa", "00000003"):
        assert main(["request", part, str(recording), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["version"] == 1
        assert document["requests"][0]["request"] == "cmpl-00000003-0-bbbbbbbb"
        assert document["requests"][0]["moments"][0]["moment"] == "arrived"


def test_an_ambiguous_id_lists_what_it_may_mean(capsys: pytest.CaptureFixture[str], recording: Path) -> None:
    assert main(["request", "0000000", str(recording)]) == 2
    told = capsys.readouterr().err
    assert "16 requests" in told
    assert "cmpl-00000004-0-bbbbbbbb  push  complete  TTFT" in told
    assert "and 6 more" in told


def test_a_line_end_in_a_file_s_name_is_shown_as_part_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\nb.kvs").write_bytes((PICTURES / "pull.kvs").read_bytes()[:-1])
    assert main(["report", "a\nb.kvs"]) == 0
    assert "a\\nb.kvs was not ended" in capsys.readouterr().out


def test_an_unknown_id_says_where_to_find_one(capsys: pytest.CaptureFixture[str], recording: Path) -> None:
    assert main(["request", "nowhere", str(recording)]) == 2
    assert "`kvscope report` lists the slowest" in capsys.readouterr().err


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_id_is_told_apart_from_an_unknown_one(
    capsys: pytest.CaptureFixture[str], recording: Path, empty: str
) -> None:
    assert main(["request", empty, str(recording)]) == 2
    told = capsys.readouterr().err
    assert "an empty ID names no request; give a part of one" in told
    assert told.count("\n") == 1


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str], recording: Path) -> None:
    assert main(["report", str(recording), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    left = whole["requests"][0]["request"]
    assert main(["report", str(recording), "--json", "--without", left]) == 0
    rest = json.loads(capsys.readouterr().out)
    assert [one["request"] for one in rest["requests"]] == [one["request"] for one in whole["requests"][1:]]
    assert main(["report", str(recording), "--without", left, "--width", "200"]) == 0
    assert f"1 request with '{left}' in the id left out" in capsys.readouterr().out
