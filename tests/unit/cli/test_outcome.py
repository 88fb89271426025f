"""Whatever a verb raises becomes one line on standard error and the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kvscope.cli import outcome
from kvscope.lab.errors import LabError
from kvscope.model.errors import InputError, SeveralFitError


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
            OSError(5, "Input/output error"),
            2,
            "kvscope: the system does not let it go on: input/output error (KVSCOPE_DEBUG=1 shows where)",
        ),
        (MemoryError(), 2, "kvscope: there is not enough memory for this; read less at a time"),
        (InputError("no engine \x1b[2J\u202e"), 2, "kvscope: no engine ?[2J?"),
        (InputError("there is no a\nb.kvs; name another"), 2, "kvscope: there is no a\\nb.kvs; name another"),
        (FileNotFoundError(2, "No such file", "a\nb"), 2, "kvscope: cannot use a\\nb: no such file"),
        (SeveralFitError("name one of\n  a\n  b"), 2, "kvscope: name one of\n  a\n  b"),
        (LabError("it ended\n  log"), 1, "kvscope: it ended\n  log"),
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


def test_without_standard_output_nothing_is_begun(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert outcome.guarded(raising(AssertionError("begun"))) == outcome.BAD_INPUT
    assert "standard output is closed; let it go somewhere" in capsys.readouterr().err


ROOT = Path(__file__).parents[3]


def ended(work: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """A process that does `work` under `guarded`, buffered as Python usually is."""
    script = f"from kvscope.cli import outcome; raise SystemExit(outcome.guarded(lambda: {work}))"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run([sys.executable, "-c", script], env=env, cwd=ROOT, check=False, **streams)


def test_a_reader_that_went_away_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = ended("print('x' * 100_000) or 0", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (found.returncode, found.stderr) == (outcome.PIPE_CLOSED, b"")


@pytest.mark.parametrize("work", ["print('x')", "print('x' * 100_000)", "print('help') or exit(0)"])
def test_output_that_nothing_takes_is_bad_input(work: str) -> None:
    with open("/dev/full", "wb") as full:
        found = ended(work, stdout=full, stderr=subprocess.PIPE)
    assert found.returncode == outcome.BAD_INPUT
    assert found.stderr.startswith(b"kvscope: ")
    assert found.stderr.endswith(b"\n")
    assert found.stderr.count(b"\n") == 1
    assert b"no space left on device" in found.stderr


def test_a_full_standard_error_stops_no_work() -> None:
    with open("/dev/full", "wb") as full:
        found = ended("[outcome.say('here'), print('done'), 7][2]", stdout=subprocess.PIPE, stderr=full)
    assert (found.returncode, found.stdout) == (7, b"done\n")


def test_a_closed_standard_error_is_not_replaced_by_standard_output() -> None:
    found = ended("outcome.say('here') or 7", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert (found.returncode, found.stdout) == (7, b"")


def test_a_name_that_no_encoding_takes_is_shown_by_its_number() -> None:
    found = ended("print('a\\udcff') or 0", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"a\\udcff\n", b"")


def test_what_is_said_beside_the_work_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    outcome.say("a\nb.kvs was not ended")
    assert capsys.readouterr().err == "a\\nb.kvs was not ended\n"
