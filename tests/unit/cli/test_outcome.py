"""Whatever a verb raises becomes one line on standard error and the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from kvscope.cli import outcome
from kvscope.lab.errors import LabError
from kvscope.model.errors import InputError


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def work() -> NoReturn:
        raise error

    return work


def missing(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("a.jsonl, line 3: no moment"), 2, "kvscope: a.jsonl, line 3: no moment"),
        (LabError("the decode engine ended while starting"), 1, "kvscope: the decode engine ended while starting"),
        (missing("numpy"), 2, "kvscope: numpy is not installed here; run: pip install 'kvscope[report]'"),
        (missing("rich.table"), 2, "kvscope: rich is not installed here; run: pip install 'kvscope[report]'"),
        (missing("aiohttp"), 2, "kvscope: aiohttp is not installed here; run: pip install 'kvscope[lab]'"),
        (PermissionError(13, "Permission denied", "/etc/x"), 2, "kvscope: cannot use /etc/x: permission denied"),
        (KeyboardInterrupt(), 130, "kvscope: interrupted"),
        (
            ArithmeticError("no\nsum"),
            70,
            "kvscope: this is a fault of kvscope's own: ArithmeticError: no sum (KVSCOPE_DEBUG=1 shows where)",
        ),
    ],
)
def test_an_error_is_one_line_and_a_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(outcome.DEBUG, raising=False)
    assert outcome.guarded(raising(error)) == code
    printed = capsys.readouterr()
    assert printed.err == said + "\n"
    assert printed.out == ""


def test_a_missing_module_of_our_own_is_our_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome.guarded(raising(missing("kvscope.nowhere"))) == outcome.OUR_FAULT
    assert "pip install" not in capsys.readouterr().err


def test_the_traceback_is_shown_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(outcome.DEBUG, "1")
    assert outcome.guarded(raising(InputError("no such file"))) == outcome.BAD_INPUT
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith("kvscope: no such file\n")


@pytest.mark.parametrize(("status", "code"), [(None, 0), (0, 0), (3, 3), ("words", 2)])
def test_a_status_that_is_already_decided_is_kept(status: int | str | None, code: int) -> None:
    assert outcome.guarded(raising(SystemExit(status))) == code


def test_the_code_of_finished_work_is_returned() -> None:
    assert outcome.guarded(lambda: 7) == 7


def test_a_reader_that_went_away_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    script = "from kvscope.cli import outcome; raise SystemExit(outcome.guarded(lambda: print('x' * 100_000) or 0))"
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE, cwd=root, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (outcome.PIPE_CLOSED, b"")
