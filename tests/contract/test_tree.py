"""Rules of this tree that no ready-made linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .tree import PACKAGE, ROOT, python_files, text_files

LONGEST = 400
VAGUE = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}

# Written in pieces, so that this file does not break its own rule.
REGISTRIES = re.compile(
    "|".join((r"pypi\." + "org", "python" + "hosted", r"deb\." + "debian", r"npmjs\." + "(org|com)"))
)
MACHINE_PATHS = re.compile("(^|[^\\w.)}])/(" + "|".join(("work", "farm", "root", "home", "opt/kvlab")) + ")/", re.M)

# Where lines may go to standard error or a process may be ended: the command line's one module, and
# what runs inside an engine or stands alone there, and the live display of a long set-up.
OWNERS = ("kvscope/cli/outcome.py", "kvscope/probe/", "kvscope/vllm/", "kvscope/lab/progress.py")


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", python_files(), ids=shown)
def test_a_module_is_about_one_thing(path: Path) -> None:
    lines = path.read_text().count("\n")
    assert lines <= LONGEST, "split it by what it is about"
    assert not VAGUE & set(path.stem.split("_")), "name it after the thing that it holds"


@pytest.mark.parametrize("path", text_files(), ids=shown)
def test_a_file_names_no_registry_and_no_one_s_machine(path: Path) -> None:
    text = path.read_text()
    assert REGISTRIES.search(text) is None
    assert MACHINE_PATHS.search(text) is None


@pytest.mark.parametrize("path", [path for path in python_files() if path.is_relative_to(ROOT / "tests")], ids=shown)
def test_a_test_waits_for_events_not_for_time(path: Path) -> None:
    assert "time.sleep" not in set(called(path))


@pytest.mark.parametrize("path", [path for path in python_files() if path.is_relative_to(PACKAGE)], ids=shown)
def test_standard_error_and_exit_codes_have_one_owner(path: Path) -> None:
    if shown(path).startswith(OWNERS):
        return
    names = {ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert not names & {"sys.stderr", "sys.exit", "os._exit"}, "raise InputError, or pass `outcome.say` down"


def called(path: Path) -> Iterator[str]:
    """Names of what a file calls, as written."""
    return (ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
