"""What a module pulls in, seen from a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kvscope.cli import verbs

from .tree import ROOT, modules

ENGINE_SIDE = ("kvscope.probe", "kvscope.vllm")
VERBS = [verb.name for verb in verbs.VERBS]
SHOW_PACKAGES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


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
def test_each_module_imports_alone_and_never_vllm(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert not loaded & {"vllm", "nixl", "torch"}
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
