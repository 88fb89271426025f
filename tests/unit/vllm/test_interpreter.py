"""What is asked and is no Python, or is one and answers something else, is refused in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.lab import environment
from kvscope.model.errors import InputError
from kvscope.vllm import discovery, interpreter

PROGRAMS = {
    "silent": "exit 0",
    "words": "echo hello",
    "another shape": "echo 5",
    "null": "echo null",
    "no text": r"printf '\377\376'",
    "deep": "printf '%0100000d' 0 | tr 0 '['",
    "failing": "echo first >&2; echo 'it is\tbroken' >&2; exit 3",
    "reading": "cat; echo done",
    "killed": "kill -9 $$",
}


def program(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(
    "ask", [lambda path: discovery.base_folder(None, str(path)), environment.examined], ids=["patch", "lab"]
)
def test_what_does_not_answer_is_no_python(tmp_path: Path, text: str, ask: Callable[[Path], object]) -> None:
    path = program(tmp_path, text)
    with pytest.raises(InputError, match=f"^{path} is not a working Python interpreter: [^\n]+$"):
        ask(path)


def test_its_last_words_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it ended with code 3: it is\tbroken$"):
        interpreter.ask(program(tmp_path, PROGRAMS["failing"]), "", dict)


def test_what_is_printed_on_the_way_is_passed_over() -> None:
    assert interpreter.ask(sys.executable, "print('a banner'); print('[1]')", list) == [1]


@pytest.mark.parametrize("words", [["patch", "status"], ["patch", "apply"], ["lab", "setup"]])
@pytest.mark.parametrize("python", ["/bin/true", "/bin/sh", "/", "", "/nowhere/python"])
def test_the_verbs_say_so(words: list[str], python: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--python", python]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "is not a working Python interpreter" in said) == (1, True)
