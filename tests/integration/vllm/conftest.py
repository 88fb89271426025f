"""A tiny package called vllm, our own text, with a patch set for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvscope.vllm import authoring, patchset

ROOT = Path(__file__).parents[3]

QUEUE = '''\
"""A queue."""
from functools import wraps


def traced(function):
    @wraps(function)
    def inner(*args):
        return function(*args)

    return inner


class Queue:
    def put(self, request):
        """Take one."""
        size = 1
        return size

    @staticmethod
    def fail(request):
        raise RuntimeError(request)

    @traced
    def wrapped(self, request):
        def later():
            return request

        return later()

    def untouched(self):
        return 0
'''
CORE = "class Core(object):\n    def __init__(self):\n        super().__init__()\n        self.step = 0\n"
FILES = {"v1/queue.py": QUEUE, "v1/core.py": CORE}
ADDED = {
    "v1/queue.py": [
        ("        size = 1\n", "        _kvs.released(self, request)\n"),
        ("    def fail(request):\n", "        _kvs.ready(request, request)\n"),
        ("        def later():\n", "            _kvs.preempted(self, request)\n"),
    ],
    "v1/core.py": [("        self.step = 0\n", "        _kvs.step_begun(self)\n")],
}


def write_tree(base: Path, *, edited: bool = False) -> None:
    """The package below `base`, as released or with lines added."""
    for path, text in FILES.items():
        for anchor, line in ADDED[path] if edited else ():
            text = text.replace(anchor, anchor + line)
        file = base / "vllm" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        (file.parent / "__init__.py").touch()
    (base / "vllm" / "__init__.py").write_text('__version__ = "1.0.0"\n')


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder that holds the package as released; `tmp_path / "patches"` holds its patches."""
    write_tree(tmp_path / "stock")
    write_tree(tmp_path / "edited", edited=True)
    made = authoring.make(tmp_path / "stock", tmp_path / "edited", "1.0.0")
    patchset.store(tmp_path / "patches", "1.0.0", made)
    return tmp_path / "stock"


Child = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def child(base: Path, run_dir: Path) -> Child:
    """Runs a program in a fresh interpreter that finds the package and its patches."""

    def run(program: str, **extra: str) -> subprocess.CompletedProcess[str]:
        script = base.parent / "program.py"
        script.write_text(program)
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("KVSCOPE")},
            "PYTHONPATH": f"{base}{os.pathsep}{ROOT}",
            "KVSCOPE_PATCHES": str(base.parent / "patches"),
            "KVSCOPE_RUN_DIR": str(run_dir),
            **extra,
        }
        return subprocess.run([sys.executable, script], env=environment, text=True, capture_output=True, timeout=60)

    return run
