"""A push pair for what is shown of hidden ids, and of stacks, which have none: it takes more than a minute to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kvscope.lab.engine import EngineOptions
from kvscope.lab.pair import PairOptions
from kvscope.probe.ids import HASH, MODE
from tests.lab.rig import Rig

# In the process that runs the model: a thread that spins for as long as a file is there, and lets go of the GIL
# four times as seldom as it would by itself.
SPINNER = """
import os, sys, threading, time

def spin():
    mine = False
    while True:
        if not mine:
            with open("/proc/self/cmdline", "rb") as file:
                mine = b"Worker" in file.read()
        if not mine or not os.path.exists(os.environ["LAB_SPIN"]):
            time.sleep(0.1)
            continue
        sys.setswitchinterval(0.02)
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            pass

def begin():
    threading.Thread(target=spin, name="spinner", daemon=True).start()

os.register_at_fork(after_in_child=begin)
begin()
"""


@pytest.fixture(scope="package")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A push pair that hides ids; its prefill engine has a thread that spins on demand."""
    folder = tmp_path_factory.mktemp("hidden")
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SPINNER)

    def with_spinner(options: EngineOptions, role: str) -> EngineOptions:
        path = f"{options.overlay}{os.pathsep}{site}"
        env = {**options.env, "PYTHONPATH": path, "LAB_SPIN": str(folder / "spin")}
        return replace(options, env=env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MODE, HASH)
        rig = Rig(PairOptions(connector="push"), folder, {"p0": with_spinner})
        with rig:
            yield rig
