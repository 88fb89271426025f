"""Terminals of every kind, and none: it draws what they can show, and says so where they cannot."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.lab.terminal import Terminal, flat, needs_tmux

from ..sources.conftest import ROOT
from .conftest import PICTURES, SHELL, TOP, OnScreen, Piped, code

pytestmark = needs_tmux

STILL = ("--replay", str(PICTURES / "push-early.kvs"), "--paused", "--at", "22s")
STYLES = re.compile(r"\x1b\[([\d;:]*)m")
COLOURS = {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}


def coloured(text: str) -> bool:
    return any(int(part) in COLOURS for found in STYLES.findall(text) for part in re.split("[;:]", found) if part)


def test_colours_and_none_of_them(on_screen: OnScreen) -> None:
    plenty, none = on_screen(*STILL), on_screen(*STILL, env={"NO_COLOR": "1"})
    assert plenty.until_shown("leads TTFT", "odd ones out") == none.until_shown("leads TTFT", "odd ones out")
    assert coloured(plenty.text(colours=True))
    assert not coloured(none.text(colours=True))


def test_forty_columns_and_then_more(on_screen: OnScreen) -> None:
    terminal = on_screen(*STILL, size=(40, 20))
    terminal.until_shown("This window has 40 columns, and kvscope top needs 60. Make it wider, or leave (q)")
    terminal.resize(100, 30)
    terminal.until_shown("leads TTFT", "win 22/60 s")
    terminal.resize(60, 20)
    terminal.until_shown("leads TTFT")
    terminal.keys("q")
    assert code(terminal.until_shown("ended with")) == 0


@pytest.mark.parametrize(("words", "env"), [(("--plain",), {}), ((), {"TERM": "dumb"})])
def test_pages_of_ascii_one_after_the_other(on_screen: OnScreen, words: tuple[str, ...], env: dict[str, str]) -> None:
    shell = ("env", *(f"{name}={value}" for name, value in env.items()), *TOP)
    command = ["sh", "-c", SHELL, "sh", *shell, *STILL, *words, "--every", "200ms"]
    with Terminal(command, (100, 60), {"PYTHONPATH": str(ROOT)}) as terminal:
        shown = terminal.until(lambda text: text.count("leads TTFT") > 1)
        assert shown.isascii()
        assert terminal.told("alternate_on") == "0"
        assert not coloured(terminal.text(colours=True))
        terminal.keys("C-c")
        shown = terminal.until_shown("kvscope: interrupted", "ended with 130")
        assert "Traceback" not in shown


def test_a_page_into_a_pipe(piped: Piped) -> None:
    for words in (("--once",), ()):
        done = piped(*STILL, *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
        assert "leads TTFT" in done.stdout
        assert max(map(len, done.stdout.split("\n"))) <= 100


def test_a_pipe_whose_reader_leaves(tmp_path: Path) -> None:
    command = f"{' '.join(TOP)} {' '.join(STILL)} --plain --every 50ms"
    script = f"({command}; echo $? > {tmp_path}/code) | head -n 2"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stderr, done.stdout.count("\n")) == ("", 2)
    assert (tmp_path / "code").read_text() == "141\n"


def test_standard_output_that_is_closed(run_dir: Path) -> None:
    script = f"{' '.join(TOP)} --run-dir {run_dir} >&-"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    told = "kvscope: standard output is closed; let it go somewhere: a terminal, a file, a pipe or /dev/null\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_standard_error_that_goes_elsewhere(tmp_path: Path) -> None:
    """Textual draws on standard error."""
    said = tmp_path / "said"
    command = ["sh", "-c", f"{SHELL.replace('$@', '$@')}".replace('"$@"', f'"$@" 2>{said}'), "sh", *TOP, *STILL]
    with Terminal(command, env={"PYTHONPATH": str(ROOT)}) as terminal:
        terminal.until_shown("leads TTFT")
        terminal.keys("q")
        assert code(terminal.until_shown("ended with")) == 0
    assert said.read_text() == ""


def hiding(folder: Path, *names: str) -> dict[str, str]:
    """An environment in which these packages are not installed."""
    lines = [f"sys.modules[{name!r}] = None" for name in names]
    (folder / "sitecustomize.py").write_text("\n".join(["import sys", *lines, ""]))
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


@pytest.mark.parametrize("names", [("textual",), ("textual", "rich", "numpy")], ids=" ".join)
def test_without_the_extra(on_screen: OnScreen, tmp_path: Path, names: tuple[str, ...]) -> None:
    shown = on_screen(env=hiding(tmp_path, *names)).until_shown("ended with 2")
    assert "kvscope: textual is not installed here; run: pip install 'kvscope[top]'" in flat(shown)
    assert "Traceback" not in shown


def test_a_single_page_needs_no_textual(on_screen: OnScreen, tmp_path: Path) -> None:
    on_screen(*STILL, "--once", env=hiding(tmp_path, "textual")).until_shown("leads TTFT", "ended with 0")
