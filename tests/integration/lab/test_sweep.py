"""`kvscope lab sweep` from its command line: cells that were recorded on a real pair, and a target without rings."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvscope.cli import main
from kvscope.lab.sweeping.cell import Cell
from kvscope.model.errors import InputError
from kvscope.model.stages import Class
from kvscope.sweep.measured import read
from tests.integration.live.conftest import until

from .completions import Completions, completing

SWEPT = Path(__file__).parent / "swept"
"""Two cells of a real push pair, 30 requests each, shared without the texts."""
AS_SWEPT = ["--modes", "push-early,push-sequential", "--input-tokens", "300", "--shares", "0.5", "--requests", "30"]
NAMES = ("push-early-300-at-0.5", "push-sequential-300-at-0.5")
SHORT = ["--input-tokens", "40,80", "--rates", "400", "--requests", "12", "--output-tokens", "3", "--plain"]


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SWEPT, tmp_path / "swept"))


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Completions]:
    monkeypatch.setenv("KVSCOPE_RUN_DIR", str(tmp_path / "no-rings"))
    with completing(Completions()) as server:
        yield server


def sweep(*words: str) -> int:
    return main(["lab", "sweep", *words])


def document(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_cell_is_what_its_client_saw(name: str) -> None:
    found = read(SWEPT / "cells" / name)
    assert found.inside is not None
    assert (found.answered, found.failed, found.unfinished, found.lost) == (30, 0, 0, 0)
    assert [note.partition(": ")[0] for note in found.notes] == ["recording.kvs was shared"]
    assert found.ttft.keys() == found.client_ttft.keys()
    assert len(found.tpot) == 30
    off = [found.client_ttft[key] - ns for key, ns in found.ttft.items()]
    assert min(off) > 0, "its client hears of a token after the engine has it"
    assert sum(found.inside.classes.values()) == pytest.approx(sum(found.ttft.values()) / 30)
    low, high = found.inside.bounds(Class.TRANSFER)
    assert low < high
    assert found.as_it_runs == f"push, {name.split('-')[1]}"
    assert found.inside.clock == "one clock"


def test_requests_of_others_are_left_out(swept: Path) -> None:
    path = swept / "cells" / NAMES[0] / "cell.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"salt": "other"}))
    found = read(path.parent)
    assert found.inside is None
    assert any("times none of these requests" in note for note in found.notes)
    assert len(found.ttft) == 30, "as the client saw them"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cell": {}}', '{"cell": {"mode": "pull", "tokens": 1, "at": 1}}'])
def test_a_cell_that_is_none_is_told_in_a_sentence(swept: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (swept / "cells" / NAMES[0] / "cell.json").write_text(text)
    assert sweep("-o", str(swept), *AS_SWEPT) == 2
    assert "is no cell of a sweep" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changed",
    [
        {"rate": float("nan")},
        {"rate": 0},
        {"rate": "2"},
        {"requests": None},
        {"salt": 7},
        {"faults": 7},
        {"lost": "no"},
        {"cell": {"mode": '"><script>', "tokens": 300, "at": 0.5}},
        {"cell": {"mode": "pull", "tokens": 300, "at": 0.5}},
    ],
)
def test_a_cell_that_tells_other_things_is_refused(swept: Path, changed: dict[str, object]) -> None:
    path = swept / "cells" / NAMES[0] / "cell.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(InputError, match="no cell of a sweep"):
        read(path.parent)


def test_a_sweep_that_is_done_measures_nothing_and_draws_its_pages(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep("-o", str(swept), *AS_SWEPT) == 0
    printed = capsys.readouterr()
    assert printed.out == (swept / "report.md").read_text()
    assert "2 of 2 cells done before" in printed.err
    told = document(swept)
    assert [cell["name"] for cell in told["cells"]] == list(NAMES)
    (contrast,) = told["contrasts"]
    assert (contrast["pairs"], contrast["source"]) == (30, "kvscope")
    page = (swept / "report.html").read_text()
    assert page.endswith("</html>\n")
    assert page.count('<svg height="31" role="img"') == 2, "a split of each"


def test_other_options_are_refused_in_one_sentence(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep("-o", str(swept), *AS_SWEPT[:-1], "31") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "requests was 30 and is 31" in error
    assert not (swept / "report.html").exists()


def test_a_target_without_rings_is_swept_as_its_client_sees_it(
    target: Completions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    words = ["-o", str(folder), "--target", f"{target.url}/v1/completions/", *SHORT]
    assert sweep(*words) == 0
    assert "client-side figures only" in capsys.readouterr().out
    assert len(target.counted) == len(set(target.counted)) == 24
    cells = document(folder)["cells"]
    assert [(cell["prompt_tokens"], cell["source"], cell["answered"]) for cell in cells] == [
        (40, "client", 12),
        (80, "client", 12),
    ]
    assert all(cell["ttft_ns"]["p50"]["requests"] == 12 and cell["ttft_ns"]["p95"] is None for cell in cells)
    lines = (folder / "cells" / "target-80-at-400rps" / "client.jsonl").read_text().splitlines()
    assert {json.loads(line)["prompt_tokens"] for line in lines} == {80}, "by the target's own tokenizer"
    asked = len(target.asked)
    assert sweep(*words) == 0
    assert len(target.asked) == asked, "what is done is not done again"


def test_the_production_shape_talks_to_a_target(target: Completions, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    words = ["--shape", "production", "--rates", "60", "--requests", "20", "--output-tokens", "3", "--plain"]
    assert sweep("-o", str(folder), "--target", target.url, *words) == 0
    (cell,) = document(folder)["cells"]
    assert cell["answered"] == cell["planned"] == len(target.counted)
    assert cell["ttft_ns"]["p50"]["requests"] == cell["planned"] - 3, "turns are not streamed"


def test_failures_are_counted_and_named(
    target: Completions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target.broken = lambda name: name.endswith("-0003")
    assert sweep("-o", str(tmp_path / "out"), "--target", target.url, *SHORT) == 0
    printed = capsys.readouterr().out
    assert printed.count("11 of 12 answered, 1 failed") == 2
    assert r"it is broken \| \<b\>" in printed


def test_a_target_that_answers_nothing_is_told_so(
    target: Completions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target.broken = lambda _: True
    assert sweep("-o", str(tmp_path / "out"), "--target", target.url, *SHORT) == 1
    error = capsys.readouterr().err
    assert "does not answer completions: it is broken" in error
    assert "kept    0 of 2 cells" in error


def test_a_target_that_breaks_later_keeps_what_is_done(
    target: Completions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target.broken = lambda name: "target-80" in name
    folder = tmp_path / "out"
    assert sweep("-o", str(folder), "--target", target.url, *SHORT) == 0
    first, second = document(folder)["cells"]
    assert (first["answered"], second["answered"], second["failed"]) == (12, 0, 12)
    assert "too few (n 0)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--run-dir", "x"], "--run-dir is for the rings of a --target"),
        (["--target", "http://127.0.0.1:9", "--run-dir", "nowhere"], "no rings in nowhere"),
        (["--shares", "a,b"], "no list of numbers"),
        (["--input-tokens", "1.5"], "no list of whole numbers"),
        (["--modes", "sideways"], "no mode 'sideways'"),
        (["--target", "nonsense"], "no address"),
        (["--target", "http://127.0.0.1:9", "--modes", "pull"], "--modes is for pairs of our own"),
        (["--rates", "1", "--shares", "1"], "choose one"),
    ],
)
def test_what_cannot_be_swept_is_refused(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep("-o", str(tmp_path / "out"), *words) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(target: Completions, tmp_path: Path) -> None:
    """The second cell takes minutes, so that there is a time to interrupt it."""
    folder = tmp_path / "out"
    words = ["-o", str(folder), "--target", target.url, "--input-tokens", "40", "--rates", "400,0.05", *SHORT[4:]]
    command = [sys.executable, "-m", "kvscope", "lab", "sweep", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            until(lambda: any("0.05rps" in name for name in target.counted), "the second cell did not begin")
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "kept    1 of 2 cells" in error
    assert "the same command goes on" in error
    done = folder / "cells" / Cell("target", 40, 400, shared=False).name / "cell.json"
    before = done.read_bytes()
    assert len(document(folder)["cells"]) == 1
    assert document(folder)["sweep"]["left"] == ["target-40-at-0.05rps"]
    target.asked.clear()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as again:
        until(lambda: bool(target.counted), "it did not go on")
        again.kill()
    assert all("0.05rps" in name for name in target.counted)
    assert done.read_bytes() == before
