"""What a module pulls in, seen from a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from kvscope.cli import verbs

from .tree import ROOT, modules

ENGINE_SIDE = ("kvscope.probe", "kvscope.vllm")
VERBS = [verb.name for verb in verbs.VERBS]
NEVER = {"vllm", "nixl", "torch"}
SHOW_PACKAGES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"

# There are hundreds of modules, and most of what they take to load is other people's: that is loaded once, and each
# module in a fork of an interpreter that has nothing of ours.
FORKS = """
import os, sys, traceback
import numpy, rich.console, rich.table, textual.app
known = set(sys.modules)
print(*sorted({name.partition(".")[0] for name in known}), flush=True)
for line in sys.stdin:
    if os.fork() == 0:
        try:
            __import__(line.strip())
            told = " ".join(sorted({name.partition(".")[0] for name in set(sys.modules) - known}))
        except BaseException:
            told = "failed: " + repr(traceback.format_exc())
        print(told, flush=True)
        os._exit(0)
    if os.wait()[1] != 0:
        print("failed: the process died", flush=True)
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    """Told the name of a module, it says which packages that loads."""
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert not {"kvscope", *NEVER, "aiohttp"} & set(answer(process).split())
        yield process


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def loaded_by(statement: str) -> set[str]:
    """Top-level packages loaded once `statement` ran in a fresh interpreter."""
    shown = subprocess.run(
        [sys.executable, "-c", f"{statement}; {SHOW_PACKAGES}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    return set(shown.stdout.splitlines()[-1].split())


def bare(statement: str) -> str:
    """What `statement` prints in an interpreter that has the standard library and this tree, and nothing installed."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {statement}"
    shown = subprocess.run([sys.executable, "-I", "-S", "-c", start], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.mark.parametrize("module", modules())
def test_each_module_imports_alone_and_never_vllm(module: str, forks: subprocess.Popen[str]) -> None:
    assert forks.stdin is not None
    print(module, file=forks.stdin, flush=True)
    told = answer(forks)
    loaded = set(told.split())
    assert "kvscope" in loaded, told
    assert not loaded & NEVER
    if not module.startswith(("kvscope.lab", "kvscope.cli")):
        assert "aiohttp" not in loaded


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith(ENGINE_SIDE)])
def test_what_engines_load_needs_nothing_installed(module: str) -> None:
    bare(f"import {module}")


@pytest.mark.parametrize("module", [verb.module for verb in verbs.VERBS])
def test_a_verb_s_module_needs_nothing_installed(module: str) -> None:
    bare(f"import {module}")


@pytest.mark.parametrize("words", [[], *([name, "--help"] for name in VERBS)], ids=" ".join)
def test_help_needs_nothing_installed(words: list[str]) -> None:
    assert "kvscope" in bare(f"from kvscope.cli import main; raise SystemExit(main({words!r}))")


@pytest.mark.parametrize(
    "verb", [["report", "--plain"], ["top", "--once", "--replay"], ["request", "cmpl"]], ids=lambda verb: verb[0]
)
def test_pyarrow_is_loaded_where_a_parquet_folder_is_met_and_nowhere_else(verb: list[str]) -> None:
    loaded = loaded_by(f"from kvscope.cli import main; main({[*verb, 'docs/pictures/pull.kvs']!r})")
    assert "numpy" in loaded
    assert "pyarrow" not in loaded
